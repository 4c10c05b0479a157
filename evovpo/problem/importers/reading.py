"""Files of tasks: JSON Lines or one JSON list, plain or gzip-compressed, with the fields that are needed."""

import gzip
import json
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from evovpo.errors import ProblemError
from evovpo.problem.importers.tasks import Task

_GZIP = b"\x1f\x8b"


class Record(BaseModel, strict=True):
    """What a format's records hold that is read here; they may have other fields."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What the task is called."""

    @abstractmethod
    def task(self) -> Task:
        """Return what the record says; raises `UnusableError` where it cannot be used."""


Kind = TypeVar("Kind", bound=Record)


def read_records(path: Path, kind: type[Kind], limit: int | None = None) -> list[Kind]:
    """Return the records of a file, at most `limit`.

    Raises `ProblemError` naming the record for a file that cannot be read, is no JSON, or lacks a field.
    """
    values = islice(_values(path), limit)
    found = [_record(value, kind, f"{path}: record {number}") for number, value in enumerate(values, start=1)]
    if not found:
        raise ProblemError(f"{path}: expected at least one task, found none; is it the right file?")
    return found


def _values(path: Path) -> Iterator[object]:
    lines = {number: line for number, line in enumerate(read_lines(path), start=1) if line.strip()}
    if next(iter(lines.values()), "").lstrip().startswith("["):
        yield from parsed("\n".join(lines.values()), f"{path}")
        return
    for number, line in lines.items():
        yield parsed(line, f"{path}: line {number}")


def _record(value: object, kind: type[Kind], where: str) -> Kind:
    if not isinstance(value, dict):
        raise ProblemError(f"{where}: expected an object, found {value!r:.60}; is it the right file?")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        faults = error.errors(include_url=False)
    if any(fault["type"] == "missing" for fault in faults):
        fields = [(name, field) for name, field in kind.model_fields.items() if field.is_required()]
        needed = ", ".join(
            " or ".join(map(str, getattr(field.validation_alias, "choices", [name])))
            for name, field in fields
        )
        found = ", ".join(sorted(map(str, value)))[:200] or "none"
        raise ProblemError(
            f"{where}: expected the fields {needed}, found {found}; name the format that the file has"
        )
    place = ".".join(map(str, faults[0]["loc"]))
    raise ProblemError(
        f"{where}: {place}: {faults[0]['msg']}, found {faults[0]['input']!r:.60}; correct the file"
    )


def parsed(text: str, where: str) -> Any:
    """Return a JSON value; raises `ProblemError` saying where it is wrong."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProblemError(f"{where}: expected JSON, found {error}; is the file whole?") from error


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, decompressed if it is compressed; raises `ProblemError`."""
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
