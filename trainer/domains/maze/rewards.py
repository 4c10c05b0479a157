"""From a route to its four reward components.

As published for the VPO paper: completion, gold fraction, diamond fraction, 1 - lava fraction; all
zero unless the exit is reached within the budget. The paper's description says linear fractions and
no effect of B; its released generator writes a convex variant. Both are here; linear is the default.

Left open there, and chosen here: a step into a wall or out of the grid leaves the walker where it is
and uses up one step; what a route holds after the exit is not walked; a lava cell counts once, as an
item does; `convex` squares the fractions of gold and diamonds only and multiplies these two by 1.5,
clamped to 1, where B was visited; the lava component stays linear.
"""

from typing import NamedTuple

from trainer.domains.maze.generator import BONUS, DIAMOND, EXIT, GOLD, LAVA, STEP, WALL, Maze

COMPONENTS = ("completion", "gold", "diamond", "lava-avoidance")
_ZEROS = (0.0, 0.0, 0.0, 0.0)
_BONUS_FACTOR = 1.5


class Walk(NamedTuple):
    """What happened on a route."""

    moves: str
    """The moves up to the exit, or all of them."""
    visited: tuple[int, ...]
    """Cells in order, the start first; a blocked step repeats the cell."""
    reached_exit: bool


def walk(maze: Maze, moves: str) -> Walk:
    """Return the walk along `moves` (letters U, D, L, R), whatever the budget."""
    grid = maze.grid
    cell = maze.start
    visited = [cell]
    for taken, move in enumerate(moves, start=1):
        target = STEP[move][cell]
        if grid[target] != WALL:
            cell = target
        visited.append(cell)
        if grid[cell] == EXIT:
            return Walk(moves[:taken], tuple(visited), True)
    return Walk(moves, tuple(visited), False)


def walk_rewards(maze: Maze, found: Walk, *, convex: bool = False) -> tuple[float, ...]:
    """Return the 4 components in [0, 1] of a walk, in the order of `COMPONENTS`."""
    if not found.reached_exit or len(found.moves) > maze.budget:
        return _ZEROS
    grid = maze.grid
    kinds = "".join(grid[cell] for cell in set(found.visited))
    gold = kinds.count(GOLD) / grid.count(GOLD)
    diamond = kinds.count(DIAMOND) / grid.count(DIAMOND)
    lava = kinds.count(LAVA) / grid.count(LAVA)
    if convex:
        factor = _BONUS_FACTOR if BONUS in kinds else 1.0
        gold, diamond = min(1.0, factor * gold**2), min(1.0, factor * diamond**2)
    return (1.0, gold, diamond, 1.0 - lava)


def route_rewards(maze: Maze, moves: str, *, convex: bool = False) -> tuple[float, ...]:
    """Return the 4 components of a route of letters U, D, L, R."""
    return walk_rewards(maze, walk(maze, moves), convex=convex)
