"""The private folder of evaluations: how large it is, and how it is emptied."""

import contextlib
import os
import shutil

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
    for is_closed in (False, True):
        with contextlib.suppress(OSError, RecursionError):
            if is_closed:
                _open_all(folder)
            for entry in list(os.scandir(folder)):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)  # noqa: PTH108
            return True
    return False


def _open_all(folder: str) -> None:
    """Give the owner of a folder, and of those below, all rights to them."""
    os.chmod(folder, 0o700)  # noqa: PTH101
    for root, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(f"{root}/{name}"):  # noqa: PTH114  # what a link leads to is not ours
                os.chmod(f"{root}/{name}", 0o700)  # noqa: PTH101
