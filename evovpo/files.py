"""File locks and atomic writes."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from evovpo.errors import ConfigError, EvovpoError, FileHeldError

PARTIAL = ".partial"
"""Suffix of files and folders that are still being written."""


def hold(path: Path) -> contextlib.AbstractContextManager[object]:
    """Lock a file, created if missing, until the end of a `with` block or of this process.

    Raises `FileHeldError` with the process id of the holder, and `OSError` if the file cannot be created.
    """
    from filelock import FileLock, Timeout

    try:
        held = FileLock(path).acquire(blocking=False)
    except Timeout:
        holder = path.read_text() if path.exists() else ""
        raise FileHeldError(holder or "unknown") from None
    path.write_text(str(os.getpid()))
    return held


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Write a file or folder atomically: yield a temporary path, synced and renamed to `path` afterwards.

    On failure the temporary file or folder is removed.
    """
    partial = path.with_name(path.name + PARTIAL)
    _remove(partial)
    try:
        yield partial
        for written in [*partial.rglob("*"), partial]:
            _sync(written)
        partial.replace(path)
        _sync(path.parent)
    except BaseException:
        _remove(partial)
        raise


@contextlib.contextmanager
def write_errors(
    what: str, instead: str = "choose another place", kind: type[EvovpoError] = ConfigError
) -> Iterator[None]:
    """Turn an `OSError` of a block that writes `what` into an error of `kind`, with `instead` as advice."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what} cannot be written ({error.strerror or error}); {instead}") from error


def write_json(path: Path, value: object, indent: int | None = None) -> None:
    """Write a value as JSON, atomically."""
    with written_whole(path) as partial:
        partial.write_text(json.dumps(value, indent=indent) + "\n")


def file_digests(folder: Path, paths: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of each path that is a file, by its name relative to `folder`."""
    digests = {}
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256")
            digests[path.relative_to(folder).as_posix()] = digest.hexdigest()
    return digests


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
