"""Training routes through mazes for a start model, good and bad ones.

The model should sometimes find the exit, by many ways, but not solve mazes, because the arms of a study start
from it. So a route goes to the exit directly, via some items of one zone, or via random cells; it avoids lava
or not, makes random wrong moves, and ends when the budget is used up.
"""

from functools import lru_cache
from random import Random

from trainer.domains.maze.generator import DIAMOND, GOLD, LAVA, NEIGHBOURS, WALL, Maze, distances, draw_maze
from trainer.domains.maze.maze_family import chain_ids, prompt_ids

_CHAINS_PER_MAZE = 4
_ANSWERS = (1, 2, 3)
_ANSWER_WEIGHTS = (4, 1, 5)
_SLIPS = (0.1, 0.2, 0.3, 0.5)
_ERRANDS = ("direct", "gold", "diamond", "wander")
_ERRAND_WEIGHTS = (6, 1, 1, 24)
_MOST_DETOURS = 5
_MOST_ITEMS = 2
_MAX_ATTEMPTS = 20

_steps_to = lru_cache(maxsize=256)(distances)
"""Distances, cached because routes through the same maze share them."""


def draw_route(maze: Maze, rng: Random, begun: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return the target cells of a route that starts with `begun` and ends at the exit or with the budget."""
    blocked = rng.choice((WALL, WALL + LAVA))
    slip = rng.choice(_SLIPS)
    cell = begun[-1] if begun else maze.start
    taken = list(begun)
    for target in [*_waypoints(maze, rng), maze.exit]:
        steps_left = _steps_to(maze.grid, target, blocked)
        while cell != target:
            if steps_left[cell] < 0:  # Lava encloses the target or the walker.
                steps_left = _steps_to(maze.grid, target, WALL)
            beside = [near for near in NEIGHBOURS[cell] if maze.grid[near] != WALL]
            if rng.random() >= slip:
                nearest = min(steps_left[near] for near in beside if steps_left[near] >= 0)
                beside = [near for near in beside if steps_left[near] == nearest]
            cell = rng.choice(beside)
            taken.append(cell)
            if cell == maze.exit or len(taken) == maze.budget:
                return tuple(taken)
    raise AssertionError("unreachable: the last target is the exit")


def _waypoints(maze: Maze, rng: Random) -> list[int]:
    errand = rng.choices(_ERRANDS, _ERRAND_WEIGHTS)[0]
    if errand == "direct":
        return []
    if errand == "wander":
        free = [cell for cell, kind in enumerate(maze.grid) if kind != WALL]
        return rng.sample(free, rng.randint(1, _MOST_DETOURS))
    items = maze.cells(GOLD if errand == "gold" else DIAMOND)
    return rng.sample(items, rng.randint(1, min(_MOST_ITEMS, len(items))))


def draw_chain(maze: Maze, answers: int, rng: Random) -> list[tuple[int, ...]]:
    """Return `answers` different routes through a maze, drawn one after another."""
    chain: list[tuple[int, ...]] = []
    for _ in range(_MAX_ATTEMPTS * answers):
        route = draw_route(maze, rng)
        if route not in chain:
            chain.append(route)
        if len(chain) == answers:
            return chain
    raise AssertionError(f"no {answers} different routes in {_MAX_ATTEMPTS * answers} draws")


def sample_block(seed: int, index: int, sequences: int) -> list[tuple[list[int], int]]:
    """Return block `index` of the endless data, determined by seed and index.

    A sequence has the token ids of prompt and completion, and the length of the prompt.
    """
    rng = Random(f"routes:{seed}:{index}")
    block: list[tuple[list[int], int]] = []
    while len(block) < sequences:
        maze = draw_maze(rng)
        for _ in range(min(_CHAINS_PER_MAZE, sequences - len(block))):
            answers = rng.choices(_ANSWERS, _ANSWER_WEIGHTS)[0]
            prompt = list(prompt_ids(maze, answers))
            block.append((prompt + chain_ids(draw_chain(maze, answers, rng)), len(prompt)))
    return block
