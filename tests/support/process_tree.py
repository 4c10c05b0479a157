"""Waits for what processes do, and tells which have ended."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LONG = 300
"""Seconds, far more than anything takes: what does not come at all fails the test."""


def wait_until(is_so: Callable[[], object], message: str = "") -> None:
    end = time.monotonic() + LONG
    while not is_so():
        assert time.monotonic() < end, message
        time.sleep(0.02)


def is_gone(process: int) -> bool:
    """True if a process has ended, whether or not its parent collected it."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True
