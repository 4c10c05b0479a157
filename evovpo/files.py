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


def hold(path: Path) -> contextlib.AbstractContextManager[object]:
    """Lock a file, and return a context manager that unlocks it. A missing file is created.

    Raises `FileHeldError` with the id of the process that has the lock, and `OSError` if creation fails.
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
    """Yield a temporary path, which is synced and renamed to `path` when the block ends.

    This makes writing a file or folder atomic. If the block fails, the temporary file or folder is removed.
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
    """Convert an `OSError` in the block to a `kind` error that names `what` and gives `instead` as advice."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what} cannot be written ({error.strerror or error}); {instead}") from error


def write_json(path: Path, value: object, indent: int | None = None) -> None:
    with written_whole(path) as partial:
        partial.write_text(json.dumps(value, indent=indent) + "\n")


def file_digests(folder: Path, paths: Iterable[Path]) -> dict[str, str]:
    """Return {path relative to `folder`: SHA-256} for each path that is a file."""
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
