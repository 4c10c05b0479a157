"""Runs an evaluator together with the candidate that it imports, in a process under limits.

This protects the machine and whoever runs the search, not the score: the candidate is in the evaluator's
process and can write the evaluator's result itself, so such judgements are of low trust.
"""

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath

from evovpo.errors import ConfigError, SandboxError
from evovpo.sandbox.local import Pool
from evovpo.sandbox.openings import Openings
from evovpo.sandbox.paths import (
    COPIED_BYTES,
    COPIED_FILES,
    PACKAGE,
    SYSTEM_PATHS,
    project_copy,
    python_paths,
    reading_rules,
)
from evovpo.sandbox.probe import Level, choose_level, probe
from evovpo.sandbox.result import Report, WholeResult, judge_whole
from evovpo.sandbox.watched import EvaluatorServer, Surroundings
from evovpo.sandbox.worker import Settings
from evovpo.types import Limits, Status

PROGRAM_PATHS = ("/usr", "/bin", "/sbin", "/etc/alternatives", "/etc/localtime", "/dev/random", "/dev/full")
"""Besides `SYSTEM_PATHS`: what the programs that an evaluator starts are made of."""
SYSTEM_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/sys/devices/system/cpu")
"""What libraries read to choose how many threads to start. All of `/proc` would show other processes."""
WRITABLE_MB = 64
"""Largest size of the private folder, in MiB; a smaller limit of a problem counts."""


@dataclass(frozen=True, slots=True)
class WholeJob:
    """One evaluation: the candidate's files and what is to be called."""

    files: Mapping[str, str]
    """Relative path (with `/`) -> text, written into the private folder."""
    entry: str
    """Which of them is the program path given to the evaluator; empty: a folder of all of them."""
    evaluator: str
    """Name of the evaluator's file in the folder of the sandbox."""
    functions: tuple[str, ...] = ("evaluate",)
    """Called in order, stage by stage, up to a later one that is not there; with none the evaluator is only
    loaded."""
    thresholds: tuple[float, ...] = ()
    """Stage i + 1 runs where the metrics up to stage i score `thresholds[i]` or more."""


class WholeSandbox(Pool[EvaluatorServer]):
    """Runs evaluators that import their candidate; a context manager, and safe to call from several threads.

    The evaluator is imported once, and each evaluation is a fork of that process (see `forkserver.zygote`)
    with a private folder, which is its working directory, home and place for temporary files, and holds a
    copy of the evaluator's folder. It may start threads and processes, as many as the limits say, and write
    there; it has no network and reads only Python, system libraries and the evaluator's folder.

    Args, besides those of `Sandbox`:
        folder: The evaluator's folder: readable, not writable.
        minimum_level: Only Linux with Landlock isolates here; the level `none`, which must be asked for, does
            not at all.
        preload: Modules that candidates find imported, where they have processes of their own
            (`ProxySandbox`).
        openings: What the evaluator may have beyond that.

    Raises `SandboxError` if the machine does not offer the level, or the folder is hidden.
    """

    _has_candidates = False
    """Candidates have processes of their own, for which no opening counts."""

    def __init__(
        self,
        folder: Path | str,
        *,
        workers: int | None = None,
        minimum_level: Level = Level.LANDLOCK_SECCOMP,
        level: Level | None = None,
        hidden: Iterable[str | os.PathLike[str]] = (),
        retries: int = 2,
        preload: Iterable[str] = ("numpy",),
        openings: Openings = Openings(),  # noqa: B008  # frozen
    ) -> None:
        is_all_off = openings.is_off and not self._has_candidates
        candidates_level = whole_level(Level.NONE if is_all_off else minimum_level, level)
        level = Level.NONE if openings.is_off else candidates_level
        self._folder = Path(folder).resolve()
        self._openings = openings
        hidden_paths = tuple(os.fspath(path) for path in hidden)
        kernels = ("/proc", "/sys") if level is Level.BWRAP_LANDLOCK_SECCOMP else SYSTEM_FACTS
        roots = [*python_paths(), *SYSTEM_PATHS, *PROGRAM_PATHS, *kernels, str(self._folder)]
        rules = reading_rules([*roots, *openings.readable], [*hidden_paths, str(PACKAGE)])
        if not any(path == str(self._folder) for path, _ in rules):
            raise SandboxError(
                f"the evaluator's folder {folder} is hidden from programs; move it out of {PACKAGE} and of "
                "whatever else is hidden"
            )
        copied, self._is_linked = project_copy(self._folder, hidden_paths)
        around = Surroundings(level, self._folder, rules, copied, openings)
        # Of these only candidates with processes of their own make use.
        settings = Settings(candidates_level, tuple(preload), (*hidden_paths, str(self._folder)))
        super().__init__(level, lambda: EvaluatorServer(around, settings), workers, retries)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a user should know of how the evaluators that have started are run."""
        reason = next((worker.reason for worker in self.workers if worker.reason), "")
        cold = f"the evaluator is imported anew for every evaluation, which is slower: importing it {reason}"
        large = (
            f"{self._folder}: more than {COPIED_FILES} files or {COPIED_BYTES >> 20} MiB, so evaluations get "
            "links to its files instead of copies, and cannot write them"
        )
        return (*([cold] if reason else []), *([large] if self._is_linked else []))

    def run(self, job: WholeJob, limits: Limits = Limits()) -> WholeResult:  # noqa: B008  # frozen
        """Return what the evaluator says of the candidate.

        Status `error` has in `detail` the exception with the last lines of its traceback. Raises
        `ConfigError` for a job that names a file outside its folder, an evaluator that is not there, or
        an entry that is not among the files, and `SandboxError` if the sandbox is closed or does not start.
        """
        check_job(job, self._folder)
        return self.try_free(lambda server: self._attempt(server, job, limits, None), self._failure)

    def _attempt(
        self, server: EvaluatorServer, job: WholeJob, limits: Limits, calls: socket.socket | None
    ) -> WholeResult:
        """Return the result of one try; `calls` leads to a candidate in another process."""
        limits = replace(limits, disk_mb=min(limits.disk_mb, WRITABLE_MB))
        try:
            found, written, log = server.evaluate(asdict(job), limits, calls)
        except OSError as error:
            return self._failure(str(error))
        report = found if isinstance(found, str) else Report(**found)
        for folder in (server.work, str(self._folder)):  # where they lie is chance, and feedback must not be
            prefix = f"{folder}/".encode()
            written, log = written.replace(prefix, b""), log.replace(prefix, b"")
        result = judge_whole(report, written, log, limits, self.level)
        return replace(result, isolation=self.level + self._openings.text)

    def _failure(self, detail: str) -> WholeResult:
        return WholeResult(Status.SANDBOX_ERROR, detail=detail, isolation=self.level)


def whole_level(minimum: Level, wanted: Level | None) -> Level:
    """Return the level at which evaluators run with their candidates.

    Without Landlock there is none between the strong ones and `none`: an evaluator opens files, and
    seccomp cannot tell which. Raises `SandboxError`.
    """
    level = choose_level(probe(), minimum, wanted)
    if level.has_landlock or level is Level.NONE:
        return level
    if minimum is Level.NONE and wanted is None:
        return Level.NONE
    raise SandboxError(
        f"an evaluator that imports its candidate needs isolation level {Level.LANDLOCK_SECCOMP} or better, "
        f"but this machine offers {level} ({probe().describe()}); use Linux 5.13 or newer with Landlock "
        "enabled, or, for programs that you trust like your own, set sandbox.minimum_level to none"
    )


def check_job(job: WholeJob, folder: Path) -> None:
    """Raise `ConfigError` unless the job's files stay in their folder and its evaluator is there."""
    for name in job.files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name or name == "." or "\0" in name:
            raise ConfigError(f"file {name!r} of a candidate: expected a path inside its folder; rename it")
    if job.entry and job.entry not in job.files:
        raise ConfigError(f"entry {job.entry!r} is not among the candidate's files {sorted(job.files)}")
    if not (folder / job.evaluator).is_file():
        raise ConfigError(f"{folder / job.evaluator}: expected an evaluator, found no file; correct the name")
