"""Files of tasks: JSON Lines or one JSON list, plain or gzip-compressed, with the fields that are needed."""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evovpo.errors import ProblemError

Record = dict[str, Any]
GZIP = b"\x1f\x8b"


def read_records(path: Path, needed: Sequence[str], limit: int | None = None) -> list[Record]:
    """Return the records of a file, at most `limit`; each has the fields `needed`, and may have others.

    Raises `ProblemError` naming the record for a file that cannot be read, is no JSON, or lacks a field.
    """
    found: list[Record] = []
    for number, record in enumerate(_records(path), start=1):
        if limit is not None and len(found) == limit:
            break
        if not isinstance(record, dict):
            raise ProblemError(
                f"{path}: record {number}: expected an object, found {record!r:.60}; is it the right file?"
            )
        missing = [field for field in needed if field not in record]
        if missing:
            raise ProblemError(
                f"{path}: record {number}: expected the fields {', '.join(needed)}, found"
                f" {', '.join(sorted(map(str, record)))[:200] or 'none'}; name the format that the file has"
            )
        found.append(record)
    if not found:
        raise ProblemError(f"{path}: expected at least one task, found none; is it the right file?")
    return found


def _records(path: Path) -> Iterator[object]:
    text = read_text(path)
    if text.lstrip().startswith("["):
        yield from _parsed(text, f"{path}")
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _parsed(line, f"{path}: line {number}")


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProblemError(f"{where}: expected JSON, found {error}; is the file whole?") from error


def read_text(path: Path) -> str:
    """Return the text of a file, decompressed if it is compressed; raises `ProblemError`."""
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data.startswith(GZIP) else data).decode("utf-8-sig")
    except OSError as error:
        raise ProblemError(f"{path}: expected a readable file, found: {error.strerror or error}") from error
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ProblemError(f"{path}: expected UTF-8 text, found: {error}; is the file whole?") from error


def text_field(record: Record, field: str, name: str) -> str:
    """Return a field that must be a text; raises `ProblemError` naming the task."""
    value = record[field]
    if not isinstance(value, str):
        raise ProblemError(f"task {name}: {field}: expected a text, found {value!r:.60}; correct the file")
    return value
