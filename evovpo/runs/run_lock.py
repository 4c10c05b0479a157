"""Keeps a second process from searching the same run: one process writes a run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from evovpo.errors import RunHeldError, StoreError
from evovpo.types import content_id


@contextlib.contextmanager
def only_searcher(store: str, run_id: str) -> Iterator[None]:
    """Hold a run of the store with this name for this process; the hold ends with the process.

    It reaches as far as this machine: two machines that write one run of a database server find out at
    the first tell out of order. Raises `RunHeldError` if another process of this user holds the run, and
    `StoreError` where none can be held.
    """
    folder = Path(tempfile.gettempdir()) / f"evovpo-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / content_id(store, run_id)
        file = _hold(path)
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be used ({error.strerror}); runs are held there while they are searched: make "
            "it writable, or set TMPDIR"
        ) from error
    if file is None:
        holder = path.read_text() if path.exists() else ""
        raise RunHeldError(
            f"run {run_id} is being searched by process {holder or 'unknown'}; wait for it or end it, then "
            "resume"
        )
    with file:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _hold(path: Path) -> IO[str] | None:
    """Return the locked file, with our process id in it, or none if another process holds it."""
    while True:
        file = path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            return file
        file.close()  # its last holder has just removed it
