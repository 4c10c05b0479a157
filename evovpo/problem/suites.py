"""Finds problems and suites by name or path, and creates new problem folders."""

import shutil
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NamedTuple

from evovpo.analysis.scores import number
from evovpo.errors import ProblemError, nearest_hint
from evovpo.files import write_errors
from evovpo.problem.faults import TOML, Faults, read_toml, shown, tables
from evovpo.problem.importers.problem_writer import check_empty
from evovpo.problem.importers.tables import TABLES, is_table, write_table
from evovpo.problem.openevolve.folder import is_project

_STARTERS = Path(__file__).parent / "starters"
_KEYS = ("path", "difficulty", "family", "heldout")


class SuiteEntry(NamedTuple):
    path: Path
    difficulty: float | None
    """Measured difficulty, from 0 (always solved) to 1 (never solved); None if not measured."""
    family: str = ""
    is_held_out: bool = False
    """True if the suite reserves the problem for evaluation. Its family is never used for training."""


def bundled_root() -> Path:
    """Return the folder of the bundled problems, in the installed package or at the top of a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "_problems"
    return inside if any(inside.glob("*/*/problem.toml")) else package.parent / "problems"


def bundled_problems() -> tuple[str, ...]:
    root = bundled_root()
    return tuple(sorted(path.parent.relative_to(root).as_posix() for path in root.glob("**/problem.toml")))


def bundled_suites() -> dict[str, str]:
    files = sorted(bundled_root().glob("*/suite.toml"))
    return {file.parent.name: tomllib.loads(file.read_text())["suite"]["description"] for file in files}


def resolve_problem(name_or_path: str | Path) -> Path:
    """Return the folder of a problem, given as a path or, if no such path exists, as a bundled name.

    For an evaluator file, return the path of this file. For a table, write a problem that predicts the last
    column, and return the problem's folder. Raises `ProblemError` if nothing is found.
    """
    text = str(name_or_path)
    path = Path(name_or_path)
    if is_table(path):
        return write_table(path, None)[0].resolve()
    if path.name == TOML and path.is_file():
        path = path.parent
    elif path.is_file() and is_project(path):
        return path.resolve()
    if (path / TOML).is_file():
        return path.resolve()
    bundled, names = bundled_root() / text.strip("/"), bundled_problems()
    if text.strip("/") in names:
        return bundled
    if any((folder / "suite.toml").is_file() for folder in (path, bundled)):
        raise ProblemError(
            f"{text}: expected one problem, found a suite of several; name one of its problems"
        )
    if path.is_dir():
        return path.resolve()  # loading reports missing files
    same_end = [known for known in names if known.rpartition("/")[2] == text.rpartition("/")[2]]
    close = same_end or get_close_matches(text, names, cutoff=0.8)
    guess = f"did you mean {' or '.join(map(repr, close))}? " * bool(close)
    raise ProblemError(
        f"{text}: expected a problem folder or the name of a bundled problem, or a table "
        f"({', '.join(TABLES)}), found none; {guess}`evovpo problems` lists those, `evovpo new` makes one"
    )


def load_suite(path: Path | str) -> list[SuiteEntry]:
    """Return the problems of a suite, in file order, without loading them.

    `path` is a `suite.toml`, its folder, or the name of a bundled suite. Raises `ProblemError` if the suite
    is missing or invalid.
    """
    file = _suite_file(Path(path))
    faults = Faults(file.parent)
    data = read_toml(file, faults)
    faults.check_keys(file.name, "", data, ("suite", "problems"))
    suite = data.get("suite")
    if isinstance(suite, dict):
        faults.check_keys(file.name, "[suite] ", suite, ("name", "description"))
    if not isinstance(suite, dict) or not isinstance(suite.get("name"), str):
        faults.add(file.name, "[suite] name", "a text", "none", "name the suite")
    if not data.get("problems"):
        faults.add(file.name, "[[problems]]", "at least one", "none", "add one with a path")
    entries: list[SuiteEntry] = []
    for where, table in tables(data, "problems", file.name, _KEYS, faults):
        inner, difficulty, family, held_out = (table.get(key) for key in _KEYS)
        folder = (file.parent / inner).resolve() if isinstance(inner, str) and inner else None
        if folder is None or not (folder / TOML).is_file():
            expected = "a problem folder, relative to this file"
            faults.add(file.name, f"{where}path", expected, shown(inner), "correct it")
        elif folder in (entry.path for entry in entries):
            faults.add(file.name, f"{where}path", "a new problem", f"{inner!r} again", "remove one")
        elif difficulty is not None and (number(difficulty) is None or not 0 <= difficulty <= 1):
            expected = "a number from 0 to 1"
            faults.add(file.name, f"{where}difficulty", expected, shown(difficulty), "correct it")
        elif not isinstance(family or "", str) or not isinstance(held_out or False, bool):
            found = f"{shown(family)} and {shown(held_out)}"
            faults.add(
                file.name, f"{where}family, heldout", "a text, and true or false", found, "correct them"
            )
        else:
            measured = None if difficulty is None else float(difficulty)
            entries.append(SuiteEntry(folder, measured, family or "", bool(held_out)))
    faults.raise_any()
    return entries


def _suite_file(path: Path) -> Path:
    if path.is_file():
        return path
    for folder in (path, bundled_root() / path):
        if (folder / "suite.toml").is_file():
            return folder / "suite.toml"
    known = [file.parent.name for file in bundled_root().glob("*/suite.toml")]
    hint = nearest_hint(str(path), known) if known else "give the path of a suite.toml"
    raise ProblemError(
        f"{path}: expected a suite.toml, its folder or the name of a bundled suite, found none; {hint}"
    )


def problem_id(path: Path) -> str:
    """Return the id of the problem at `path` (a folder or an evaluator file), without loading it."""
    folder = path.parent if path.is_file() else path
    root = bundled_root()
    return folder.relative_to(root).as_posix() if folder.is_relative_to(root) else folder.name


def new_problem(folder: Path | str, kind: Literal["examples", "score"] = "examples") -> Path:
    """Write a starter problem, and return its path. Raises `ProblemError` if `folder` is not empty."""
    path = Path(folder)
    with write_errors(f"{path}: the folder", kind=ProblemError):
        check_empty(path)
        path.mkdir(parents=True, exist_ok=True)
        for file in (_STARTERS / kind).glob("*.*"):
            shutil.copyfile(file, path / file.name)
    return path
