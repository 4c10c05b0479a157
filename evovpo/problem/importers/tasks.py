"""Types for imported tasks with tests, and readers for JSON files, which may be gzipped."""

import ast
import gzip
import json
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from evovpo.errors import ProblemError
from evovpo.types import Json

LONGEST_TEST = 200_000
"""Maximum characters of a test as JSON; longer tests are left out."""
_GZIP = b"\x1f\x8b"


class Case(NamedTuple):
    arguments: tuple[Json, ...]
    expected: Json


class ImportedTask(NamedTuple):
    name: str
    statement: str
    entry: str
    parameters: tuple[str, ...]
    seed: str
    tests: Sequence[Case]
    heldout: Sequence[Case] = ()
    left_out: Sequence[str] = ()
    date: str = ""
    compares_words: bool = False
    """True if outputs are texts that `score.same_words` compares word by word."""


class SkippedTask(NamedTuple):
    name: str
    reason: str


class UnusableTaskError(ValueError):
    """Error for a value, test or task that cannot be used; the message says why."""


def parse(source: str) -> ast.Module:
    """Return the syntax tree of Python code. Raises `UnusableTaskError` if the code is invalid."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ignore invalid escapes in imported code
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnusableTaskError(f"no Python: {error}") from error


def usable(task: ImportedTask) -> ImportedTask:
    """Return a task without its repeated and overlong tests.

    Raises `UnusableTaskError` if no test is left, if tests contradict each other, if a program that returns
    nothing passes all tests, or if the function has no parameters.
    """
    reasons = list(task.left_out)
    seen: dict[str, Case] = {}
    for test in task.tests:
        key = json.dumps(test.arguments, sort_keys=True)
        if len(key) + len(json.dumps(test.expected)) > LONGEST_TEST:
            reasons.append(f"longer than {LONGEST_TEST:,} characters")
        elif seen.setdefault(key, test) != test:
            raise UnusableTaskError("two of its tests want different things of the same arguments")
        elif seen[key] is not test:
            reasons.append("repeats another test")
    kept = list(seen.values())
    if not kept:
        reason = max(set(reasons), key=reasons.count) if reasons else "there are none"
        raise UnusableTaskError(f"no test can be used: {reason}")
    if all(test.expected is None for test in kept):
        raise UnusableTaskError("every test wants None, which a program that does nothing returns")
    if not task.parameters:
        raise UnusableTaskError("the function has no parameters")
    return task._replace(tests=kept, left_out=reasons)


Model = TypeVar("Model", bound=BaseModel)


def read_values(path: Path) -> Iterator[object]:
    """Yield the values in a file of JSON Lines or one JSON list. Raises `ProblemError` if reading fails."""
    lines = {number: line for number, line in enumerate(read_lines(path), start=1) if line.strip()}
    if next(iter(lines.values()), "").lstrip().startswith("["):
        yield from parsed("\n".join(lines.values()), f"{path}")
        return
    for number, line in lines.items():
        yield parsed(line, f"{path}: line {number}")


def checked_record(value: object, kind: type[Model], where: str) -> Model:
    """Return a value as a record of type `kind`. Raises a `ProblemError` that names the invalid field."""
    if not isinstance(value, dict):
        raise ProblemError(f"{where}: expected an object, found {value!r:.60}; is it the right file?")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        faults = error.errors(include_url=False)
    if any(fault["type"] == "missing" for fault in faults):
        needed = ", ".join(name for name, field in kind.model_fields.items() if field.is_required())
        found = ", ".join(sorted(map(str, value)))[:200] or "none"
        raise ProblemError(
            f"{where}: expected the fields {needed}, found {found}; name the format that the file has"
        )
    place = ".".join(map(str, faults[0]["loc"]))
    raise ProblemError(
        f"{where}: {place}: {faults[0]['msg']}, found {faults[0]['input']!r:.60}; correct the file"
    )


def parsed(text: str, where: str) -> Any:
    """Return the value of a JSON text. Raises a `ProblemError` that names `where` if the text is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProblemError(f"{where}: expected JSON, found {error}; is the file whole?") from error


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, which may be gzipped. Raises `ProblemError` if it cannot be read."""
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == _GZIP
            file.seek(0)
            for line in gzip.GzipFile(fileobj=file) if is_packed else file:
                yield line.decode("utf-8-sig").strip("\r\n")
    except (EOFError, zlib.error, UnicodeDecodeError, gzip.BadGzipFile) as error:
        raise ProblemError(f"{path}: expected UTF-8 text, found: {error}; is the file whole?") from error
    except OSError as error:
        raise ProblemError(f"{path}: expected a readable file, found: {error.strerror or error}") from error
