"""Mazes as a task family: prompts, and rewards in four components.

The VPO paper defines the components: completion, gold fraction, diamond fraction, and 1 - lava fraction. All
are zero unless the route reaches the exit within the budget. Three rules are not in the paper: a move into a
wall or out of the grid costs one step, moves after the exit are ignored, and a lava cell counts once.

A prompt has the number of routes, the budget, one token for each cell that is not plain floor, row by row,
and `⟦go⟧`. The token of a cell has its content and position: `⟦#07⟧` is a wall in row 0, column 7. A
completion has routes, separated by `⟦sep⟧` and ended by `⟦end⟧`. A move is written as its target cell
(`⟦07⟧`). If a target is not a neighbour of the current cell, the whole route is unreadable. A move into a
wall stays in place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from evovpo.builtin.chain import BEGIN, END, PAD, SEPARATOR, chain_spans
from evovpo.errors import ConfigError
from evovpo.judging.measure import JudgedAnswer
from trainer.domains.domain import Split
from trainer.domains.maze import MAZE_MODEL, generator
from trainer.domains.maze.generator import CELLS, EXIT, MAX_BUDGET, SIZE, STEP, WALL, Maze

MAX_ANSWERS = 3
MAX_ROUTE_TOKENS = MAX_BUDGET + 1
"""Maximum tokens of a useful route, its separator or end mark included."""
BUDGETS = tuple(range(23, MAX_BUDGET + 1, 2))
"""Step budgets that have a token. All are odd: an even path length between opposite corners, plus 7."""
UNKNOWN, _GO = "⟦unk⟧", "⟦go⟧"
TOKEN_PATTERN = "⟦[^⟦⟧]*⟧"
_LISTED = generator.KINDS.replace(generator.FLOOR, "")
_ITEMS = (generator.GOLD, generator.DIAMOND, generator.LAVA)
_REWARDED = EXIT + "".join(_ITEMS)


def _place(cell: int) -> str:
    return f"{cell // SIZE}{cell % SIZE}"


def vocabulary() -> list[str]:
    """Return all tokens in the order of their ids: special tokens, budgets, moves, cell contents."""
    return [
        *(PAD, BEGIN, END, SEPARATOR, UNKNOWN, _GO),
        *(f"⟦m{answers}⟧" for answers in range(1, MAX_ANSWERS + 1)),
        *(f"⟦b{budget}⟧" for budget in BUDGETS),
        *(f"⟦{_place(cell)}⟧" for cell in range(CELLS)),
        *(f"⟦{kind}{_place(cell)}⟧" for kind in _LISTED for cell in range(CELLS)),
    ]


_IDS = {token: index for index, token in enumerate(vocabulary())}
_GO_ID = _IDS[_GO]
FIRST_CELL_ID = _IDS["⟦00⟧"]
"""A move to cell c is token `FIRST_CELL_ID + c`."""
_FIRST_LISTED_ID = {kind: _IDS[f"⟦{kind}00⟧"] for kind in _LISTED}
_MOVE_BETWEEN = {
    (cell, target): move for move, to in STEP.items() for cell, target in enumerate(to) if target != cell
}


def prompt_ids(maze: Maze, answers: int, parent: str | None = None) -> tuple[int, ...]:
    """Return the token ids (about 27) of a prompt for `answers` routes.

    `parent` is an earlier route, as letters of moves. The prompt shows the cells of this route. If the route
    earned a reward, the prompt also shows the exit and the items on the route. Raises `ConfigError` if
    `answers` is above `MAX_ANSWERS`.
    """
    if not 1 <= answers <= MAX_ANSWERS:
        raise ConfigError(f"the maze model writes 1 to {MAX_ANSWERS} routes; got {answers}; ask for fewer")
    listed = [
        _FIRST_LISTED_ID[kind] + cell for cell, kind in enumerate(maze.grid) if kind in _FIRST_LISTED_ID
    ]
    shown = [] if parent is None else _shown(maze, walk(maze, parent))
    return (_IDS[f"⟦m{answers}⟧"], _IDS[f"⟦b{maze.budget}⟧"], *listed, *shown, _GO_ID)


def _shown(maze: Maze, parent: "Walk") -> list[int]:
    is_worth = any(walk_rewards(maze, parent))
    met = sorted(cell for cell in set(parent.visited) if is_worth and maze.grid[cell] in _REWARDED)
    return [*route_ids(parent.visited[1:]), *(_FIRST_LISTED_ID[maze.grid[cell]] + cell for cell in met)]


def route_ids(cells: Sequence[int]) -> list[int]:
    """Return the token ids of a route; `cells` are the target cells of its moves."""
    return [FIRST_CELL_ID + cell for cell in cells]


class RouteSlot(NamedTuple):
    """One route of a completion: its moves (None if unreadable), and the range of its tokens."""

    moves: str | None
    span: tuple[int, int]


def read_route(maze: Maze, ids: Sequence[int]) -> str | None:
    """Return the moves (U, D, L, R) of a route's token ids, or None if the ids are not a route."""
    cell, moves = maze.start, ""
    for token in ids:
        target = token - FIRST_CELL_ID
        move = _MOVE_BETWEEN.get((cell, target))
        if move is None:
            return None
        moves += move
        if maze.grid[target] != WALL:
            cell = target
    return moves or None


def split_chain(maze: Maze, completion_ids: Sequence[int]) -> list[RouteSlot]:
    """Return the routes of a completion in order. Tokens after the end mark are ignored."""
    return [
        RouteSlot(read_route(maze, completion_ids[start:end]), (start, end))
        for start, end in chain_spans(completion_ids)
    ]


COMPONENTS = ("completion", "gold", "diamond", "lava-avoidance")
CONFLICT = ("gold", "diamond")
"""Components of `maze-conflict`. In a generated maze, no route has both above zero."""


class Walk(NamedTuple):
    moves: str
    """The moves up to the exit, or all moves if the exit is not reached."""
    visited: tuple[int, ...]
    """Cells in order, the start first; a blocked step repeats the cell."""
    reached_exit: bool


def walk(maze: Maze, moves: str) -> Walk:
    """Return the walk along `moves` (letters U, D, L, R). The step budget is ignored."""
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


def walk_rewards(maze: Maze, found: Walk) -> tuple[float, ...]:
    """Return the 4 rewards of a walk, each in [0, 1], in the order of `COMPONENTS`."""
    if not found.reached_exit or len(found.moves) > maze.budget:
        return (0.0,) * len(COMPONENTS)
    met = "".join(maze.grid[cell] for cell in set(found.visited))
    gold, diamond, lava = (met.count(kind) / maze.grid.count(kind) for kind in _ITEMS)
    return (1.0, gold, diamond, 1.0 - lava)


@dataclass(frozen=True)
class MazeFamily:
    """The maze tasks of the VPO paper."""

    model_folder: Path = MAZE_MODEL
    name: str = "maze"
    components: tuple[str, ...] = COMPONENTS
    shows_parents: bool = False

    def max_tokens(self, answers: int) -> int:
        return answers * MAX_ROUTE_TOKENS

    def tasks(self, split: Split, count: int = 1000, seed: int = 0) -> list[Maze]:
        return [generator.generate_maze(f"{split}-{seed}-{number}") for number in range(count)]

    def prompt_ids(self, task: Maze, answers: int, parent: str | None = None) -> tuple[int, ...]:
        """Return the token ids of a prompt. Raises `ConfigError` if `parent` is given and not supported."""
        if parent is not None and not self.shows_parents:
            raise ConfigError(
                "the bundled maze model was not taught to read a parent; docs/studies.md says how to make one"
            )
        return prompt_ids(task, answers, parent)

    def judge(self, task: Maze, completion_ids: Sequence[int], answers: int) -> list[JudgedAnswer]:
        """Return the judged routes. The key of a route is its moves up to the exit."""
        missing = JudgedAnswer(None, (0.0,) * len(self.components))
        judged = []
        for moves, span in islice(split_chain(task, completion_ids), answers):
            if moves is None:
                judged.append(missing._replace(span=span))
            else:
                found = walk(task, moves)
                rewards = dict(zip(COMPONENTS, walk_rewards(task, found), strict=True))
                chosen = tuple(rewards[component] for component in self.components)
                judged.append(JudgedAnswer(found.moves, chosen, span))
        return judged + [missing] * (answers - len(judged))
