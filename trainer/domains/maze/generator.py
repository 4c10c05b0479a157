"""Generates mazes with the parameters of the VPO paper (arXiv 2605.22817).

Published in the paper:

- The randomised Prim algorithm makes a 9x9 grid. Then 18 to 28 walls with at least two open neighbours are
  removed. Start and exit lie on opposite corners, and a tile B in the centre.
- Gold and diamond zones lie on the two other corners, with 3 to 5 items each within Manhattan radius 2.
- 3 to 5 lava cells lie in rows and columns 2 to 6. The budget is max(path via gold, path via diamond) + 7.
- A maze is kept only if each zone has at least 3 free cells, visiting both zones exceeds the budget, and a
  path to the exit without lava stays within the budget.

Left open in the paper, and chosen here:

- Prim runs over the 25 cells with even row and column, so the corners and the centre are open. The grid has
  no outer wall. The walls to remove are drawn one by one.
- "Path via gold" passes through the zone's corner cell, and through lava if that is shorter.
- "Visiting both zones" means taking any gold and any diamond, in either order.
- Items lie on different free cells of their zone, corner included. Lava lies on plain floor, not on B.
- A maze with a budget above `MAX_BUDGET` is rejected, because the model has no token for it.
"""

from dataclasses import dataclass
from random import Random

SIZE = 9
CELLS = SIZE * SIZE
CENTRE = CELLS // 2
MAX_BUDGET = 39
MOVES = "UDLR"
KINDS = "#.SEGDLB"
WALL, FLOOR, START, EXIT, GOLD, DIAMOND, LAVA, BONUS = tuple(KINDS)
_OPENINGS = (18, 28)
_ITEMS = (3, 5)
_LAVA = (3, 5)
_SLACK = 7
_RADIUS = 2


def _beside(cell: int, down: int, right: int) -> int:
    row, column = cell // SIZE + down, cell % SIZE + right
    return row * SIZE + column if 0 <= row < SIZE and 0 <= column < SIZE else cell


STEP = {
    move: tuple(_beside(cell, down, right) for cell in range(CELLS))
    for move, down, right in zip(MOVES, (-1, 1, 0, 0), (0, 0, -1, 1), strict=True)
}
"""`STEP[move][cell]` is the neighbour of `cell`, walls ignored; at the edge of the grid, `cell` itself."""
NEIGHBOURS = tuple(
    tuple(STEP[move][cell] for move in MOVES if STEP[move][cell] != cell) for cell in range(CELLS)
)
"""Neighbours of each cell inside the grid, in the order of `MOVES`."""

_CORNERS = (0, SIZE - 1, CELLS - 1, CELLS - SIZE)


@dataclass(frozen=True, slots=True)
class Maze:
    """A maze: a character for each cell, and the step budget. The index of a cell is 9 * row + column."""

    grid: str
    budget: int

    @property
    def start(self) -> int:
        return self.grid.index(START)

    @property
    def exit(self) -> int:
        return self.grid.index(EXIT)

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(self.grid[first : first + SIZE] for first in range(0, CELLS, SIZE))

    def cells(self, kind: str) -> list[int]:
        return [cell for cell, found in enumerate(self.grid) if found == kind]


def distances(grid: str, source: int, blocked: str = WALL) -> list[int]:
    """Return the distance from `source` to each cell; -1 if every path leads through `blocked` cells."""
    found = [-1] * CELLS
    found[source] = 0
    queue = [source]
    for cell in queue:
        for beside in NEIGHBOURS[cell]:
            if found[beside] < 0 and grid[beside] not in blocked:
                found[beside] = found[cell] + 1
                queue.append(beside)
    return found


def _carve(rng: Random) -> set[int]:
    rooms = [r * SIZE + c for r in range(0, SIZE, 2) for c in range(0, SIZE, 2)]
    first = rng.choice(rooms)
    is_open = {first}
    frontier = _passages(first)
    while frontier:
        chosen = rng.randrange(len(frontier))
        frontier[chosen], frontier[-1] = frontier[-1], frontier[chosen]
        between, room = frontier.pop()
        if room not in is_open:
            is_open |= {between, room}
            frontier += _passages(room)
    return is_open


def _passages(room: int) -> list[tuple[int, int]]:
    steps = (STEP[move] for move in MOVES)
    return [(step[room], step[step[room]]) for step in steps if step[room] != room]


def _open_walls(is_open: set[int], count: int, rng: Random) -> None:
    for _ in range(count):
        walls = [
            cell
            for cell in range(CELLS)
            if cell not in is_open and sum(beside in is_open for beside in NEIGHBOURS[cell]) >= 2
        ]
        is_open.add(rng.choice(walls))


def _zone(corner: int, is_open: set[int]) -> list[int]:
    row, column = divmod(corner, SIZE)
    return [
        cell
        for cell in range(CELLS)
        if cell in is_open and abs(cell // SIZE - row) + abs(cell % SIZE - column) <= _RADIUS
    ]


def shortest_with_both(maze: Maze) -> int:
    """Return the length of the shortest route to the exit that takes a gold item and a diamond."""
    from_start, from_exit = distances(maze.grid, maze.start), distances(maze.grid, maze.exit)
    diamonds = maze.cells(DIAMOND)
    lengths = []
    for gold in maze.cells(GOLD):
        between = distances(maze.grid, gold)
        for diamond in diamonds:
            ends = min(from_start[gold] + from_exit[diamond], from_start[diamond] + from_exit[gold])
            lengths.append(ends + between[diamond])
    return min(lengths)


def attempt_maze(rng: Random) -> Maze | None:
    """Return a random maze, or None if the maze breaks a condition listed at the top of this module."""
    is_open = _carve(rng)
    _open_walls(is_open, rng.randint(*_OPENINGS), rng)
    turn = rng.randrange(4)
    start, gold, leave, diamond = (_CORNERS[(turn + step) % 4] for step in range(4))
    if rng.random() < 0.5:
        gold, diamond = diamond, gold
    grid = [FLOOR if cell in is_open else WALL for cell in range(CELLS)]
    grid[start], grid[leave], grid[CENTRE] = START, EXIT, BONUS

    bare = "".join(grid)
    from_start, from_exit = distances(bare, start), distances(bare, leave)
    budget = max(from_start[gold] + from_exit[gold], from_start[diamond] + from_exit[diamond]) + _SLACK
    if budget > MAX_BUDGET:
        return None
    for corner, kind in ((gold, GOLD), (diamond, DIAMOND)):
        zone = _zone(corner, is_open)
        if len(zone) < _ITEMS[0]:
            return None
        for cell in rng.sample(zone, rng.randint(_ITEMS[0], min(_ITEMS[1], len(zone)))):
            grid[cell] = kind
    inner = range(2, SIZE - 2)
    floor = [r * SIZE + c for r in inner for c in inner if grid[r * SIZE + c] == FLOOR]
    for cell in rng.sample(floor, rng.randint(*_LAVA)):
        grid[cell] = LAVA
    maze = Maze("".join(grid), budget)
    if not 0 <= distances(maze.grid, start, WALL + LAVA)[leave] <= budget:
        return None
    return maze if shortest_with_both(maze) > budget else None


def generate_maze(name: str) -> Maze:
    """Return the first maze that meets all conditions, in a series of mazes drawn with the seed `name`."""
    rng = Random(f"maze:{name}")
    while True:
        maze = attempt_maze(rng)
        if maze is not None:
            return maze
