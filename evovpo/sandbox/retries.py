"""Runs again what failed by the sandbox's fault: the one rule of every sandbox here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from evovpo.types import Status


class _Result(Protocol):
    @property
    def status(self) -> Status: ...


R = TypeVar("R", bound=_Result)


class Retries:
    """Up to `most` more tries after a failure of the sandbox (not the program); safe from several threads."""

    def __init__(self, most: int) -> None:
        self.failures = 0
        """Tries so far that failed by the sandbox's fault, those that were made again included."""
        self._most = most
        self._counting = threading.Lock()

    def run(self, attempt: Callable[[], R]) -> R:
        """Return the first result of `attempt` that is not `sandbox_error`, or else the last one."""
        for _ in range(self._most + 1):
            result = attempt()
            if result.status is not Status.SANDBOX_ERROR:
                break
            with self._counting:
                self.failures += 1
        return result
