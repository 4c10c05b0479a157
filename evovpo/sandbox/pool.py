"""Shares workers among threads, and runs again what failed by the sandbox's fault: for every sandbox."""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from evovpo.errors import SandboxError
from evovpo.types import Status


class _Result(Protocol):
    @property
    def status(self) -> Status: ...


W = TypeVar("W")
R = TypeVar("R", bound=_Result)


class Pool(Generic[W]):
    """Workers of which each does one thing at a time; safe to use from several threads.

    What ends as `sandbox_error` (the sandbox failed, not the program) is tried up to `retries` more times.
    """

    def __init__(self, workers: Sequence[W], retries: int) -> None:
        self.failures = 0
        """Tries so far that failed by the sandbox's fault, those that were made again included."""
        self.workers = workers
        # Last in, first out: as many processes start as there are programs at a time.
        self._free: queue.LifoQueue[W] = queue.LifoQueue()
        for worker in workers:
            self._free.put(worker)
        self._retries = retries
        self._has_started = False
        self._is_closed = False
        self._counting = threading.Lock()
        self._gathering = threading.Lock()

    def run(self, attempt: Callable[[W], R], failure: Callable[[str], R]) -> R:
        """Return the first result of `attempt` on a free worker that is not `sandbox_error`, or the last one.

        A worker that cannot be started, and so raises `SandboxError`, ends the call if none ever was; later
        it makes a `failure` with that text. Raises `SandboxError` if the pool is closed.
        """
        worker = self._free.get()
        try:
            if self._is_closed:
                raise SandboxError("the sandbox is closed; open another one")
            for _ in range(self._retries + 1):
                try:
                    result = attempt(worker)
                    self._has_started = True
                except SandboxError as error:
                    if not self._has_started:
                        raise
                    result = failure(str(error))
                if result.status is not Status.SANDBOX_ERROR:
                    break
                with self._counting:
                    self.failures += 1
            return result
        finally:
            self._free.put(worker)

    @contextlib.contextmanager
    def all_workers(self) -> Iterator[Sequence[W]]:
        """Hold every worker for the time of a block, which begins when nothing runs any more."""
        with self._gathering:  # two takers at once would each wait for what the other holds
            workers = [self._free.get() for _ in self.workers]
            try:
                yield workers
            finally:
                for worker in reversed(workers):
                    self._free.put(worker)

    def close(self) -> None:
        """Refuse further calls; those that run go on."""
        self._is_closed = True


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))
