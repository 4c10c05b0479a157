"""Mazes as a domain of the study: tasks, prompts, and what a completion is worth in four components.

As published for the VPO paper: completion, gold fraction, diamond fraction, 1 - lava fraction; all
zero unless the exit is reached within the budget. The paper's description says linear fractions and
no effect of B; its released generator writes a convex variant. Both are here; linear is the default.

Left open there, and chosen here: a step into a wall or out of the grid leaves the walker where it is
and uses up one step; what a route holds after the exit is not walked; a lava cell counts once, as an
item does; `convex` squares the fractions of gold and diamonds only and multiplies these two by 1.5,
clamped to 1, where B was visited; the lava component stays linear.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from evovpo.errors import ConfigError
from evovpo.judging.measure import JudgedAnswer
from trainer.domains.domain import Split
from trainer.domains.maze import MAZE_MODEL
from trainer.domains.maze.generator import BONUS, DIAMOND, EXIT, GOLD, LAVA, STEP, WALL, Maze, generate_maze
from trainer.domains.maze.route_format import MAX_ROUTE_TOKENS, prompt_ids, split_chain

COMPONENTS = ("completion", "gold", "diamond", "lava-avoidance")
_MISSING = JudgedAnswer(None, (0.0,) * len(COMPONENTS))
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
        return (0.0,) * len(COMPONENTS)
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


@dataclass(frozen=True)
class MazeDomain:
    """The maze of the VPO paper; `convex` chooses the other reading of its reward."""

    convex: bool = False
    model_folder: Path = MAZE_MODEL
    name: str = "maze"
    shows_parents: bool = False

    def max_tokens(self, answers: int) -> int:
        """Return the longest completion worth sampling: every route as long as the largest budget."""
        return answers * MAX_ROUTE_TOKENS

    def tasks(self, split: Split, count: int = 1000, seed: int = 0) -> list[Maze]:
        """Return the first `count` mazes of a split; other splits and seeds give other mazes."""
        return [generate_maze(f"{split}-{seed}-{number}") for number in range(count)]

    def prompt_ids(self, task: Maze, answers: int, parent: str | None = None) -> tuple[int, ...]:
        """Return the prompt for `answers` (1 to 3) routes. Raises `ConfigError` for a parent."""
        if parent is not None:
            raise ConfigError("a prompt of a maze was to show a parent; its format has no place for one")
        return prompt_ids(task, answers)

    def judge(self, task: Maze, completion_ids: Sequence[int], answers: int) -> list[JudgedAnswer]:
        """Return the first `answers` answers of a completion, filled up with missing ones.

        An answer's key is its moves, cut at the exit. None is ever right in a generated maze, because no
        route takes both gold and diamonds.
        """
        judged = []
        for moves, span in islice(split_chain(task, completion_ids), answers):
            if moves is None:
                judged.append(_MISSING._replace(span=span))
            else:
                found = walk(task, moves)
                rewards = walk_rewards(task, found, convex=self.convex)
                judged.append(JudgedAnswer(found.moves, rewards, span))
        return judged + [_MISSING] * (answers - len(judged))
