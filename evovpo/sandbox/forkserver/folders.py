"""Functions to measure and to empty the private folder of an evaluation, at any nesting depth."""

import contextlib
import itertools
import os

_MOST_FILES = 10_000


def folder_bytes(folder: str, enough: int) -> int:
    """Return the disk space in bytes of everything below `folder`; each entry counts as at least 4 kB.

    Returns `enough + 1` if the sum exceeds `enough`, for more than 10,000 files, or for an unreadable folder.
    """
    total = files = 0
    left = [folder]
    while left:
        try:
            for entry in list(os.scandir(left.pop())):
                files += 1
                total += max(entry.stat(follow_symlinks=False).st_blocks * 512, 4096)
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
        except FileNotFoundError:  # removed meanwhile
            continue
        except OSError:
            return enough + 1
        if total > enough or files > _MOST_FILES:
            return enough + 1
    return total


def empty(folder: str) -> bool:
    """Remove everything in a folder, at any depth and with any file modes. Return whether this succeeded."""
    prefix, numbers = os.urandom(8).hex(), itertools.count()
    try:
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):  # else keep modes that also serve other users
            _open_to_owner(folder)
        while entries := list(os.scandir(folder)):
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)  # noqa: PTH108
                    continue
                _open_to_owner(entry.path)
                for inner in list(os.scandir(entry.path)):
                    if inner.is_dir(follow_symlinks=False):
                        _open_to_owner(inner.path)
                        os.rename(inner.path, f"{folder}/{prefix}-{next(numbers)}")  # noqa: PTH104
                    else:
                        os.unlink(inner.path)  # noqa: PTH108
                os.rmdir(entry.path)  # noqa: PTH106
    except OSError:
        return False
    return True


def _open_to_owner(folder: str) -> None:
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)  # noqa: PTH101
