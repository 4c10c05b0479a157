"""Keeps a second process from searching the same run: one process writes a run."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from evovpo.errors import FileHeldError, RunHeldError, StoreError
from evovpo.files import hold
from evovpo.types import content_id


@contextlib.contextmanager
def only_searcher(store: str, run_id: str) -> Iterator[None]:
    """Hold a run of the store with this name for this process; the hold ends with the process.

    It reaches as far as this machine: two machines that write one run of a database server find out at
    the first tell out of order. Raises `RunHeldError` if another process of this user holds the run, and
    `StoreError` where none can be held.
    """
    folder = Path(tempfile.gettempdir()) / f"evovpo-{os.getuid()}"
    path = folder / content_id(store, run_id)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        held = hold(path)
    except FileHeldError as error:
        raise RunHeldError(
            f"run {run_id} is being searched by process {error}; wait for it or end it, then resume"
        ) from None
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be used ({error.strerror}); runs are held there while they are searched: make "
            "it writable, or set TMPDIR"
        ) from error
    with held:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
