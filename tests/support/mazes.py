"""Routes through mazes, as moves and as the target cells that a model writes."""

from collections.abc import Sequence

from evovpo.builtin.chain import END_ID, SEPARATOR_ID
from trainer.domains.maze.generator import MOVES, STEP, Maze, distances
from trainer.domains.maze.maze_family import route_ids, walk, walk_rewards


def shortest_route(maze: Maze, *via: int) -> str:
    """Return the moves of a shortest route from the start over cells to the exit."""
    moves, cell = "", maze.start
    for target in (*via, maze.exit):
        left = distances(maze.grid, target)
        while cell != target:
            moves += next(move for move in MOVES if left[STEP[move][cell]] == left[cell] - 1)
            cell = STEP[moves[-1]][cell]
    return moves


def routes_with_items(maze: Maze) -> list[str]:
    """Return routes to the exit within the budget, one over each gold and diamond that allows it."""
    routes = [shortest_route(maze, cell) for cell in [*maze.cells("G"), *maze.cells("D")]]
    return [moves for moves in routes if len(moves) <= maze.budget]


def chain_ids(routes: Sequence[Sequence[int]]) -> list[int]:
    """Return the completion tokens of routes given as cells, end mark included."""
    ids: list[int] = []
    for route in routes:
        ids += [*route_ids(route), SEPARATOR_ID]
    return [*ids[:-1], END_ID]


def route_rewards(maze: Maze, moves: str) -> tuple[float, ...]:
    """Return the 4 components of a route of letters U, D, L, R."""
    return walk_rewards(maze, walk(maze, moves))


def route_words(moves: str) -> str:
    """Return moves (U, D, L, R) as words."""
    words = {"U": "UP", "D": "DOWN", "L": "LEFT", "R": "RIGHT"}
    return " ".join(words[move] for move in moves)
