"""The files of suites that are made: problem folders with example rows, and the list of them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from evovpo.errors import ProblemError


def check_new(out: Path) -> None:
    """Raise `ProblemError` unless a suite can be written to `out`: a folder that is new or empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ProblemError(f"{out}: expected a new or empty folder, found something; choose another")


def write_problem(
    folder: Path,
    *,
    statement: str,
    parameters: Sequence[str],
    start: str,
    rows: Mapping[str, Sequence[tuple[Sequence[object], object]]],
    origin: Mapping[str, object],
) -> None:
    """Write a problem folder, with where it came from.

    The starting program returns the expression `start`; `rows` holds inputs and output of `train` and
    `heldout`.
    """
    folder.mkdir(parents=True)
    head = f'statement = {json.dumps(statement)}\nentry = "solve"\ninputs = {json.dumps(list(parameters))}'
    (folder / "problem.toml").write_text(f"[problem]\n{head}\n", encoding="utf-8")
    (folder / "seed.py").write_text(f"def solve({', '.join(parameters)}):\n    return {start}\n")
    parts = []
    for name, part in rows.items():
        lines = (
            "    " + json.dumps({"inputs": list(inputs), "output": output}, ensure_ascii=False)
            for inputs, output in part
        )
        parts.append(f'  "{name}": [\n' + ",\n".join(lines) + "\n  ]")
    (folder / "examples.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    text = json.dumps(origin, indent=2, ensure_ascii=False)
    (folder / "provenance.json").write_text(text + "\n", encoding="utf-8")


def write_suite_file(out: Path, comment: str, name: str, description: str, paths: Sequence[str]) -> None:
    """Write `suite.toml`, which names the problem folders of a suite."""
    head = f"# {comment}\n\n[suite]\nname = {json.dumps(name)}\ndescription = {json.dumps(description)}\n"
    listed = "".join(f"\n[[problems]]\npath = {json.dumps(path)}\n" for path in paths)
    (out / "suite.toml").write_text(head + listed, encoding="utf-8")
