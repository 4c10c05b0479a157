"""Moments at which a process kills itself."""

import os
import signal
from collections.abc import Callable


class Clock:
    """Counts ticks and ends the process at one of them."""

    def __init__(self, last: int | None) -> None:
        self.now = 0
        self._last = last

    def tick(self, *_ignored: object, **_also: object) -> None:
        """Count one; the process may end here."""
        self.now += 1
        if self.now == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def killed_at(ticks: str, work: Callable[[int | None], int]) -> dict[str, object]:
    """Work in a process for each of the comma-separated ticks, which ends it, and to the end in this one.

    Return how the processes ended, and the ticks that the last took.
    """
    ends: list[int] = []
    for last in filter(None, ticks.split(",")):
        child = os.fork()
        if child == 0:
            work(int(last))
            os._exit(0)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return {"ends": ends, "ticks": work(None)}
