"""Write mazes as problem folders of evovpo: `python -m trainer.recipes.maze.problems FOLDER`.

Each folder holds one maze: a program `route(grid, budget)` returns its moves as a text, and the four
components of `trainer.domains.maze.domain` (linear) are its objectives. `score.py` stands alone, so that a
problem needs nothing of the trainer; the starting program is a zigzag that sees neither items nor walls.
"""

from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Annotated

from evovpo.cli.options import argument
from evovpo.problem.importers.writing import suite_text
from trainer.domains.maze.domain import COMPONENTS, route_rewards
from trainer.domains.maze.generator import SIZE, Maze, generate_maze
from trainer.recipes import run_recipe

NAMES = tuple(f"maze-{number}" for number in range(1, 7))
"""Folders, and names of the mazes in them."""

_TEMPLATES = Path(__file__).parent / "problem"


def _filled(name: str, **values: object) -> str:
    """Return a file of the template folder with its `$` places filled."""
    return Template((_TEMPLATES / f"{name}.template").read_text()).substitute(values)


def problem_files(maze: Maze) -> dict[str, str]:
    """Return the folder of a maze as file name -> text."""
    names: dict[str, Callable[[list[str], int], str]] = {}
    exec(_filled("seed.py", rewards=""), names)  # our own: what the starting program scores
    rewards = route_rewards(maze, names["route"](list(maze.rows), maze.budget))
    shown = ", ".join(f"{name} {value:.3f}" for name, value in zip(COMPONENTS, rewards, strict=True))
    rows = "\n".join(f'    "{row}",' for row in maze.rows)
    return {
        "problem.toml": _filled("problem.toml", size=SIZE, map="\n".join(maze.rows), budget=maze.budget),
        "score.py": _filled("score.py", rows=rows, budget=maze.budget),
        "seed.py": _filled("seed.py", rewards=shown),
    }


def write_problems(
    folder: Annotated[Path, argument("FOLDER", "Folder of the suite, for example problems/maze.")],
) -> None:
    """Write mazes as a suite of problems to a folder; files that are there are replaced."""
    for name in NAMES:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file, text in problem_files(generate_maze(name)).items():
            (folder / name / file).write_text(text)
    listing = suite_text("maze", "Routes through mazes: gold or diamonds, not both.", NAMES)
    (folder / "suite.toml").write_text(listing)


if __name__ == "__main__":
    run_recipe(write_problems)
