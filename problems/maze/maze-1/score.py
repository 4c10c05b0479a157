"""Walks the returned route through the maze. Made by `python -m trainer.maze.write_problems`."""

GRID = [
    "D#D.....E",
    "DD...#.#.",
    "D.L......",
    ".........",
    "..L.B....",
    "..L#L....",
    ".......#.",
    "..#....G.",
    "S......GG",
]
BUDGET = 25
STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
CELLS = {(r, c): kind for r, row in enumerate(GRID) for c, kind in enumerate(row)}


def cases():
    return [[GRID, BUDGET]]


def visited_cells(moves):
    """Cells of the route, or none if it is no route that reaches the exit within the budget."""
    place = next(cell for cell, kind in CELLS.items() if kind == "S")
    visited = {place}
    if not isinstance(moves, str) or not set(moves) <= set(STEPS):
        return None
    for move in moves[:BUDGET]:
        target = (place[0] + STEPS[move][0], place[1] + STEPS[move][1])
        if CELLS.get(target, "#") != "#":
            place = target
            visited.add(place)
        if CELLS[place] == "E":
            return visited
    return None


def share(kind, visited):
    cells = [cell for cell in CELLS if CELLS[cell] == kind]
    return sum(cell in visited for cell in cells) / len(cells)


def score(outputs):
    visited = visited_cells(outputs[0])
    if visited is None:
        return {"completion": 0.0, "gold": 0.0, "diamond": 0.0, "lava-avoidance": 0.0}
    return {
        "completion": 1.0,
        "gold": share("G", visited),
        "diamond": share("D", visited),
        "lava-avoidance": 1.0 - share("L", visited),
    }
