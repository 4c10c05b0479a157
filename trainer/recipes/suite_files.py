"""What the suites that are drawn share: how a problem is written, and the command that writes a suite."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from evovpo.errors import EvovpoError


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


def run_command(
    description: str | None,
    arguments: Sequence[str] | None,
    write: Callable[..., str],
    **counts: tuple[int, str],
) -> None:
    """Command line of a suite: call `write(out, seed, **counts)` and print what it says.

    `counts` gives the default and the help of each number of problems.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0] if description else None)
    parser.add_argument("--out", type=Path, required=True, help="new or empty folder for the suite")
    parser.add_argument("--seed", type=int, default=0, help="all that is drawn follows from it")
    for name, (default, text) in counts.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, help=text)
    options = parser.parse_args(arguments)
    try:
        said = write(**vars(options))
    except EvovpoError as error:
        sys.exit(f"error: {error}")
    print(f"{said}: {options.out / 'suite.toml'}")
