"""The private folder of evaluations: how large it is, and how it is emptied."""

import contextlib
import os
import shutil
from typing import Any

_MOST_FILES = 10_000


def folder_bytes(folder: str, enough: int) -> int:
    """Return what the files below `folder` take on disk, each counted as 4 kB at least.

    Stops counting where it is more than `enough`, or more than 10,000 files, which count as too much.
    """
    total = files = 0
    for root, folders, names in os.walk(folder):
        for name in (*folders, *names):
            with contextlib.suppress(OSError):  # it was removed meanwhile
                total += max(os.lstat(f"{root}/{name}").st_blocks * 512, 4096)
        files += len(folders) + len(names)
        if total > enough or files > _MOST_FILES:
            return enough + 1
    return total


def empty(folder: str) -> bool:
    """Remove all that is in a folder, whatever its modes; true if nothing is left."""

    def allow(function: Any, path: str, _: object) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)  # noqa: PTH101,PTH120
            os.chmod(path, 0o700)  # noqa: PTH101
            function(path)

    for _ in range(3):  # a folder that could not be listed is only emptied at the next try
        with contextlib.suppress(OSError, RecursionError):
            for entry in list(os.scandir(folder)):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, onerror=allow)
                else:
                    os.unlink(entry.path)  # noqa: PTH108
            return next(os.scandir(folder), None) is None
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700)  # noqa: PTH101
    return False
