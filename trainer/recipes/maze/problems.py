"""Write mazes as problem folders of evovpo: `python -m trainer.recipes.maze.problems FOLDER`.

Each folder holds one maze: a program `route(grid, budget)` returns its moves as a text, and the four
components of `trainer.domains.maze.rewards` (linear) are its objectives. `score.py` stands alone, so that a
problem needs nothing of the trainer; the starting program is a zigzag that sees neither items nor walls.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from trainer.domains.maze.generator import SIZE, Maze, generate_maze
from trainer.domains.maze.rewards import COMPONENTS, route_rewards

NAMES = tuple(f"maze-{number}" for number in range(1, 7))
"""Folders, and names of the mazes in them."""

_TOML = '''\
[problem]
statement = """
Find a route through a maze past its gold or its diamonds: the moves as a text of U, D, L, R.

`route(grid, budget)` gets the map as a list of {size} texts and the step budget, and returns the moves
(up, down, left, right). The map:

{map}

S is the start, E the exit, # a wall, G gold, D a diamond, L lava, B and . plain floor; the budget is
{budget} steps. A step into a wall or off the map changes nothing but is counted. The route ends when it
reaches E. If it does so within the budget, the rewards are: completion 1, the share of the gold and the
share of the diamonds passed over, and 1 minus the share of the lava cells entered; otherwise all are 0.
No route within the budget takes both gold and diamonds.
"""
entry = "route"
inputs = ["grid", "budget"]

[[objectives]]
name = "completion"
description = "the exit is reached within the budget"

[[objectives]]
name = "gold"
description = "share of the gold taken on a route that reaches the exit"

[[objectives]]
name = "diamond"
description = "share of the diamonds taken on a route that reaches the exit"

[[objectives]]
name = "lava-avoidance"
description = "share of the lava cells not entered on a route that reaches the exit"

[limits]
wall_seconds = 2.0
cpu_seconds = 2

[[features]]
name = "reward:gold"
edges = [0.001, 0.5, 0.999]

[[features]]
name = "reward:diamond"
edges = [0.001, 0.5, 0.999]

[[features]]
name = "length"
bins = 4
'''

_SCORE = '''\
"""Walks the returned route through the maze. Made by `python -m trainer.maze.write_problems`."""

GRID = [
{rows}
]
BUDGET = {budget}
STEPS = {{"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}}
CELLS = {{(r, c): kind for r, row in enumerate(GRID) for c, kind in enumerate(row)}}


def cases():
    return [[GRID, BUDGET]]


def visited_cells(moves):
    """Cells of the route, or none if it is no route that reaches the exit within the budget."""
    place = next(cell for cell, kind in CELLS.items() if kind == "S")
    visited = {{place}}
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
        return {{"completion": 0.0, "gold": 0.0, "diamond": 0.0, "lava-avoidance": 0.0}}
    return {{
        "completion": 1.0,
        "gold": share("G", visited),
        "diamond": share("D", visited),
        "lava-avoidance": 1.0 - share("L", visited),
    }}
'''

_SEED = '''\
"""Heads for the exit in a zigzag and sees no walls.

Rewards: {rewards}.
"""


def route(grid, budget):
    place = {kind: (r, c) for r, row in enumerate(grid) for c, kind in enumerate(row)}
    down, right = place["E"][0] - place["S"][0], place["E"][1] - place["S"][1]
    return (("D" if down > 0 else "U") + ("R" if right > 0 else "L")) * abs(down)
'''


def _seed_rewards(maze: Maze) -> tuple[float, ...]:
    """Return what the starting program scores, by running it here: it is our own."""
    names: dict[str, Callable[[list[str], int], str]] = {}
    exec(_SEED, names)
    return route_rewards(maze, names["route"](list(maze.rows), maze.budget))


def problem_files(maze: Maze) -> dict[str, str]:
    """Return the folder of a maze as file name -> text."""
    rewards = ", ".join(
        f"{name} {value:.3f}" for name, value in zip(COMPONENTS, _seed_rewards(maze), strict=True)
    )
    rows = "\n".join(f'    "{row}",' for row in maze.rows)
    return {
        "problem.toml": _TOML.format(size=SIZE, map="\n".join(maze.rows), budget=maze.budget),
        "score.py": _SCORE.format(rows=rows, budget=maze.budget),
        "seed.py": _SEED.replace("{rewards}", rewards),
    }


def suite_text() -> str:
    """Return the `suite.toml` that lists the folders."""
    head = '[suite]\nname = "maze"\ndescription = "Routes through mazes: gold or diamonds, not both."\n'
    return head + "".join(f'\n[[problems]]\npath = "{name}"\n' for name in NAMES)


def write_problems(folder: Path) -> None:
    """Write the suite to `folder`; files that are there are replaced."""
    for name in NAMES:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file, text in problem_files(generate_maze(name)).items():
            (folder / name / file).write_text(text)
    (folder / "suite.toml").write_text(suite_text())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="folder of the suite, for example problems/maze")
    write_problems(parser.parse_args().folder)


if __name__ == "__main__":
    main()
