"""Reads and checks rows of data: JSON Lines or a JSON list (plain or gzip), Parquet, CSV, TSV or Excel."""

import hashlib
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from evovpo.errors import ProblemError
from evovpo.problem.importers.tables import is_table, read_table
from evovpo.problem.importers.tasks import checked_record, read_values

Kind = TypeVar("Kind", bound=BaseModel)


def read_rows(path: Path, kind: type[Kind]) -> list[Kind]:
    """Return the rows of one or several files (see `files_of`) as records of the type `kind`.

    Raises `ProblemError` if there are no rows, or if a field of a row is invalid.
    """
    files = files_of(path)
    if len(files) > 1:
        return [row for file in files for row in read_rows(file, kind)]
    values: Iterable[object]
    if path.suffix.lower() == ".parquet":
        values = _read_parquet(path)
    elif is_table(path) and path.suffix.lower() != ".jsonl":
        values = read_table(path)
    else:
        values = read_values(path)
    found = [checked_record(value, kind, f"{path}: row {number}") for number, value in enumerate(values, 1)]
    if not found:
        raise ProblemError(f"{path}: expected at least one row, found none; is it the right file?")
    return found


def files_of(data: str | Path | None) -> list[Path]:
    return [Path(part) for part in str(data or "").split(",") if part]


def check_digest(data: str | Path | None, sha256: str) -> None:
    """Raise `ProblemError` unless the concatenated files have this SHA-256; an empty one is not checked."""
    if not sha256:
        return
    digest = hashlib.sha256()
    for file in files_of(data):
        try:
            digest.update(file.read_bytes())
        except OSError as error:
            raise ProblemError(f"{file}: expected the file of the data; {error.strerror}") from error
    if digest.hexdigest() != sha256.lower():
        raise ProblemError(
            f"{data}: expected data with the SHA-256 {sha256}, found {digest.hexdigest()}: another version; "
            "use the expected one, or change data_sha256 (for test data test_data_sha256) in the recipe"
        )


def _read_parquet(path: Path) -> list[object]:
    try:
        return list(import_module("pyarrow.parquet").read_table(path).to_pylist())
    except ImportError as error:
        fix = "pip install 'evovpo[train]', or write the rows as JSON Lines"
        raise ProblemError(f"{path}: expected pyarrow for it, found none; {fix}") from error
    except (OSError, ValueError) as error:
        raise ProblemError(f"{path}: expected a Parquet file, found: {error}") from error
