"""The text that the maze model reads and writes, and its vocabulary.

Prompt: how many routes are wanted, the budget, every cell that is not plain floor as one token of
content and place (`⟦#07⟧`: wall in row 0, column 7), row by row, and `⟦go⟧`. Completion: a chain of
routes between `⟦sep⟧` marks, closed by `⟦end⟧`; ids 0 to 3 as in `evovpo.builtin.chain`.

A move is written as the cell that it aims at (`⟦07⟧`), not as a direction, so that the model always
knows where it is and looks up a neighbour by attention. Departures from the paper, whose model is a
large language model that reads an ASCII map and writes UP, DOWN, LEFT, RIGHT: tokens carry the place,
floor is not listed, a step out of the grid cannot be written, and there is no reasoning text. A cell
that is not beside the walker makes the whole route unreadable; a wall beside it is a blocked step.
"""

from collections.abc import Sequence
from typing import NamedTuple

from evovpo.builtin.chain import BEGIN, END, END_ID, PAD, SEPARATOR, SEPARATOR_ID, chain_spans
from trainer.domains.maze.generator import (
    CELLS,
    FLOOR,
    KINDS,
    MAX_BUDGET,
    MOVES,
    SIZE,
    STEP,
    WALL,
    Maze,
    MazeError,
)

MAX_ANSWERS = 3
MAX_ROUTE_TOKENS = MAX_BUDGET + 1
"""Tokens of the longest route worth writing, its separator or end mark included."""
BUDGETS = tuple(range(23, MAX_BUDGET + 1, 2))
"""Step budgets that have a token: paths between opposite corners are even, the slack is 7."""
UNKNOWN, _GO = "⟦unk⟧", "⟦go⟧"
TOKEN_PATTERN = "⟦[^⟦⟧]*⟧"
_LISTED = KINDS.replace(FLOOR, "")


def _place(cell: int) -> str:
    return f"{cell // SIZE}{cell % SIZE}"


def vocabulary() -> list[str]:
    """Return all tokens in the order of their ids: marks, budgets, moves, contents."""
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
    (cell, target): move for move in MOVES for cell, target in enumerate(STEP[move]) if target != cell
}


def prompt_ids(maze: Maze, answers: int) -> tuple[int, ...]:
    """Return the prompt tokens for `answers` routes, about 27 of them.

    Raises `MazeError` for a number of answers or a budget without a token.
    """
    if not 1 <= answers <= MAX_ANSWERS:
        raise MazeError(f"the maze model writes 1 to {MAX_ANSWERS} routes; got {answers}; ask for fewer")
    if maze.budget not in BUDGETS:
        raise MazeError(
            f"the maze model knows the budgets {', '.join(map(str, BUDGETS))}; got {maze.budget}; "
            "use a maze from trainer.domains.maze.generator"
        )
    listed = [_FIRST_LISTED_ID[kind] + cell for cell, kind in enumerate(maze.grid) if kind != FLOOR]
    return (_IDS[f"⟦m{answers}⟧"], _IDS[f"⟦b{maze.budget}⟧"], *listed, _GO_ID)


def route_ids(cells: Sequence[int]) -> list[int]:
    """Return the tokens of a route given as the cells it steps to (the start is not one of them)."""
    return [FIRST_CELL_ID + cell for cell in cells]


def chain_ids(routes: Sequence[Sequence[int]]) -> list[int]:
    """Return the completion tokens of routes given as cells, end mark included."""
    ids: list[int] = []
    for route in routes:
        ids += [*route_ids(route), SEPARATOR_ID]
    ids[-1] = END_ID
    return ids


class RouteSlot(NamedTuple):
    """One answer of a chain: its moves, none where unreadable, and the range of its tokens."""

    moves: str | None
    span: tuple[int, int]


def read_route(maze: Maze, ids: Sequence[int]) -> str | None:
    """Return the moves (U, D, L, R) of a route's tokens, or none where they are not a route.

    A route has at least one move, holds cell tokens only, and each names a cell beside the one where
    the walker stands; a wall leaves the walker in place. This holds beyond the exit too.
    """
    if not ids:
        return None
    grid, cell, moves = maze.grid, maze.start, []
    for token in ids:
        target = token - FIRST_CELL_ID
        move = _MOVE_BETWEEN.get((cell, target))
        if move is None:
            return None
        moves.append(move)
        if grid[target] != WALL:
            cell = target
    return "".join(moves)


def split_chain(maze: Maze, completion_ids: Sequence[int]) -> list[RouteSlot]:
    """Return the answers of a completion in order; the end mark and what follows belong to none."""
    return [
        RouteSlot(read_route(maze, completion_ids[start:end]), (start, end))
        for start, end in chain_spans(completion_ids)
    ]
