"""The sandbox of this machine: a pool of fork-servers behind one call."""

import os
from collections.abc import Iterable, Sequence

from evovpo.errors import ConfigError
from evovpo.sandbox.pool import Pool
from evovpo.sandbox.probe import Level, choose_level, probe
from evovpo.sandbox.result import Result, sandbox_failure
from evovpo.sandbox.worker import Settings
from evovpo.types import Json, Limits


class Sandbox(Pool):
    """Runs untrusted programs; a context manager, and safe to call from several threads.

    Each of `workers` fork-servers runs one program at a time; a call takes a free one or waits. They
    start when first needed.

    Args:
        workers: Programs at a time; the number of usable cores by default.
        preload: Modules that programs find imported, besides common ones of the standard library.
            Without numpy an evaluation costs a third less, but a program that imports it pays for that.
        hidden: Paths that programs must not read even though they lie below the Python installation,
            such as folders with answers. The evovpo package is always hidden.
        minimum_level: Refuse to work below this level.
        level: Use exactly this level, not the strongest that works.
        retries: How often a program is run again after the sandbox (not the program) failed.
        recycle_after: Replace a fork-server after so many programs.

    Raises `SandboxError` if the machine does not offer the level: nothing is run unprotected unless the
    minimum is `none`.
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
        recycle_after: int = 10_000,
    ) -> None:
        level = choose_level(probe(), minimum_level, level)
        settings = Settings(level, tuple(preload), tuple(os.fspath(path) for path in hidden), recycle_after)
        super().__init__(settings, workers, retries)

    def run(
        self,
        code: str,
        entry: str,
        cases: Sequence[Sequence[Json]],
        limits: Limits = Limits(),  # noqa: B008  # frozen
        per_case: bool = False,
    ) -> Result:
        """Return what function `entry` of the program `code` returns for each argument list in `cases`.

        All cases run in one process, in order. An exception ends the run with status `error`; with
        `per_case` an ordinary exception (not MemoryError, nor one while the program is loaded), and an
        output that is not acceptable JSON, spoils its own case only: that output is None, `errors`
        says why, and the status is `ok` if the end was reached. Arguments and outputs are JSON:
        tuples come back as lists, numpy arrays too, and numbers are finite.

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

    def cpu_seconds(self) -> float:
        """Return the CPU time that the running fork-servers and their children have used so far.

        Waits until no program runs.
        """
        with self.all_workers() as workers:
            return sum(worker.cpu_seconds() for worker in workers)
