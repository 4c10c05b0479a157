"""Shares workers among threads, and runs again what failed by the sandbox's fault: for every sandbox."""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Self, TypeVar

from evovpo.errors import SandboxError
from evovpo.sandbox.result import Result, WholeResult
from evovpo.sandbox.worker import ForkServer, Settings
from evovpo.types import Status

R = TypeVar("R", Result, WholeResult)


class Pool:
    """Fork-servers that do one thing at a time each; a context manager, safe to use from several threads.

    They start when first needed. What ends as `sandbox_error` (the sandbox failed, not the program) is tried
    up to `retries` more times.
    """

    def __init__(self, settings: Settings, workers: int | None, retries: int) -> None:
        self.level = settings.level
        self.failures = 0
        """Tries so far that failed by the sandbox's fault, those that were made again included."""
        self.workers = [ForkServer(settings) for _ in range(workers or len(os.sched_getaffinity(0)))]
        # Last in, first out: as many processes start as there are programs at a time.
        self._free: queue.LifoQueue[ForkServer] = queue.LifoQueue()
        for worker in self.workers:
            self._free.put(worker)
        self._retries = retries
        self._has_started = False
        self._is_closed = False
        self._counting = threading.Lock()
        self._gathering = threading.Lock()

    def try_free(self, attempt: Callable[[ForkServer], R], failure: Callable[[str], R]) -> R:
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
    def all_workers(self) -> Iterator[list[ForkServer]]:
        """Hold every worker for the time of a block, which begins when nothing runs any more."""
        with self._gathering:  # two takers at once would each wait for what the other holds
            workers = [self._free.get() for _ in self.workers]
            try:
                yield workers
            finally:
                for worker in reversed(workers):
                    self._free.put(worker)

    def close(self) -> None:
        """End all processes, after the programs that are running; calling it again changes nothing."""
        with self.all_workers() as workers:
            self._is_closed = True
            for worker in workers:
                worker.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
