"""How the bundled models and suites were made: run with `python -m`, imported by nothing else."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from evovpo.cli.options import option
from evovpo.errors import EvovpoError

Seed: TypeAlias = Annotated[int, option("S", "All that is drawn follows from it.")]


def run_recipe(recipe: Callable[..., None], arguments: Sequence[str] | None = None) -> None:
    """Run a recipe as a command: its parameters are the options, its docstring is the help."""
    app = typer.Typer(add_completion=False)
    app.command()(recipe)
    try:
        app(arguments)
    except EvovpoError as error:
        sys.exit(f"error: {error}")


def write_drawn(
    folder: Path,
    *,
    statement: str,
    parameters: Sequence[str],
    start: str,
    train: Sequence[tuple[Sequence[object], object]],
    heldout: Sequence[tuple[Sequence[object], object]],
    **origin: object,
) -> None:
    """Write a problem folder, with its origin; the starting program returns the expression `start`."""
    folder.mkdir(parents=True)
    statement += "; which of two rules holds depends on the input."
    head = f'statement = {json.dumps(statement)}\nentry = "solve"\ninputs = {json.dumps(list(parameters))}'
    (folder / "problem.toml").write_text(f"[problem]\n{head}\n", encoding="utf-8")
    (folder / "seed.py").write_text(f"def solve({', '.join(parameters)}):\n    return {start}\n")
    parts = []
    for name, rows in (("train", train), ("heldout", heldout)):
        found = [{"inputs": list(inputs), "output": output} for inputs, output in rows]
        lines = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in found)
        parts.append(f'  "{name}": [\n{lines}\n  ]')
    (folder / "examples.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    text = json.dumps(origin, indent=2, ensure_ascii=False)
    (folder / "provenance.json").write_text(text + "\n", encoding="utf-8")
