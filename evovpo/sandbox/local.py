"""The sandbox of this machine: a pool of fork-servers, shared among threads."""

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
    """Servers that each do one task at a time, tried again on a `sandbox_error`; thread-safe."""

    def __init__(self, level: Level, make: Callable[[], W], workers: int | None, retries: int) -> None:
        self.level = level
        self.failures = 0
        """Tries so far that failed by the sandbox's fault, those that were made again included."""
        self.workers = [make() for _ in range(workers or len(os.sched_getaffinity(0)))]
        # Last in, first out: as many processes start as there are programs at a time.
        self._free: queue.LifoQueue[W] = queue.LifoQueue()
        for worker in self.workers:
            self._free.put(worker)
        self._retries = retries
        self._has_started = False
        self._is_closed = False
        self._counting = threading.Lock()
        self._closing = threading.Lock()

    def try_free(self, attempt: Callable[[W], R], failure: Callable[[str], R]) -> R:
        """Return the first result of `attempt` on a free worker that is not `sandbox_error`, or the last one.

        A worker that cannot be started raises `SandboxError` if none ever was; later it makes a `failure`.
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
        """End all processes after the running programs; a second call does nothing."""
        with self._closing:  # two takers at once would each wait for what the other holds
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
    """Runs untrusted programs; a call takes a free fork-server or waits.

    `workers` programs run at a time (None: one per usable core), strictly at `level` or at the strongest that
    works. They find the modules of `preload` imported, and cannot read `hidden` paths below the Python
    installation. Raises `SandboxError` if the machine does not offer the level, or only one below
    `minimum_level`.
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
        """Return what function `entry` of the program `code` returns for each argument list in `cases`.

        All cases run in one process, in order. An exception ends the run with status `error`; with `per_case`
        an ordinary one, or an output that is not acceptable JSON, spoils its own case only. Arguments and
        outputs are JSON: tuples and numpy arrays come back as lists, and numbers are finite.

        Raises `SandboxError` if no fork-server can be started, `ConfigError` for threads or processes.
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
