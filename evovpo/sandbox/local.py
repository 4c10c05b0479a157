"""The sandbox of this machine: a thread-safe pool of fork-servers, which fork a child for each program."""

import os
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Self, TypeVar

from evovpo.errors import ConfigError, SandboxError
from evovpo.sandbox.probe import Level, choose_level, probe
from evovpo.sandbox.result import Result, WholeResult, sandbox_failure
from evovpo.sandbox.worker import ForkServer, Server, WorkerSettings
from evovpo.types import Json, Limits, Status

R = TypeVar("R", Result, WholeResult)
W = TypeVar("W", bound=Server)


class Pool(Generic[W]):
    """A thread-safe pool of workers, each of which runs one task at a time."""

    def __init__(self, level: Level, make: Callable[[], W], workers: int | None, retries: int) -> None:
        self.level = level
        self.failures = 0
        """Number of attempts that failed because of the sandbox, including retried ones."""
        self.workers = [make() for _ in range(workers or len(os.sched_getaffinity(0)))]
        # Last in, first out: only as many processes start as programs run concurrently.
        self._free: queue.LifoQueue[W] = queue.LifoQueue()
        for worker in self.workers:
            self._free.put(worker)
        self._retries = retries
        self._has_started = False
        self._is_closed = False
        self._counting = threading.Lock()
        self._closing = threading.Lock()

    def try_free(self, attempt: Callable[[W], R], failure: Callable[[str], R]) -> R:
        """Run `attempt` on a free worker and return the result. Retry if the status is `sandbox_error`.

        If the worker cannot start, the result is `failure(message)`. If no worker has ever started,
        `SandboxError` is raised instead.
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

    def close(self) -> None:
        """End all processes once the running programs are done; a second call does nothing."""
        with self._closing:  # two concurrent calls would deadlock
            for _ in self.workers:
                self._free.get()
            self._is_closed = True
            for worker in self.workers:
                self._free.put(worker)
                worker.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Sandbox(Pool[ForkServer]):
    """A pool of fork-servers that run untrusted programs.

    At most `workers` programs run at the same time, by default one per usable core. The default `level` is
    the strongest available. The modules in `preload` are imported in advance. The paths in `hidden` are not
    readable, even inside the Python installation. Raises `SandboxError` if the level is not supported here or
    is below `minimum_level`.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        preload: Iterable[str] = ("numpy",),
        hidden: Iterable[str | os.PathLike[str]] = (),
        minimum_level: Level = Level.LANDLOCK_SECCOMP,
        level: Level | None = None,
        retries: int = 2,
    ) -> None:
        level = choose_level(probe(), minimum_level, level)
        settings = WorkerSettings(level, tuple(preload), tuple(os.fspath(path) for path in hidden))
        super().__init__(level, lambda: ForkServer(settings), workers, retries)

    def run(
        self,
        code: str,
        entry: str,
        cases: Sequence[Sequence[Json]],
        limits: Limits = Limits(),  # noqa: B008  # frozen
        per_case: bool = False,
    ) -> Result:
        """Call function `entry` of the program `code` with each argument list in `cases`; return the result.

        All cases run in one process, in order. An exception ends the run with status `error`. If `per_case`
        is true, an ordinary exception, or an output that is not valid JSON, fails only its own case. Inputs
        and outputs are JSON: tuples and numpy arrays are returned as lists, and numbers must be finite.

        Raises `SandboxError` if no fork-server starts, `ConfigError` if `limits` allow threads or processes.
        """
        for name in ("threads", "processes"):
            if getattr(limits, name):
                raise ConfigError(
                    f"limits.{name} is {getattr(limits, name)}; this sandbox refuses {name}, which it cannot "
                    "count; set it to 0"
                )
        return self.try_free(
            lambda worker: worker.run(code, entry, cases, limits, per_case),
            lambda detail: sandbox_failure(detail, len(cases), self.level),
        )
