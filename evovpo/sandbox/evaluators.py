"""Runs evaluators that import their candidate, in one sandboxed process or in two.

In one process, the candidate can forge the evaluator's result, so the result has low trust. With two
processes, the evaluator imports a stub whose functions call the candidate's functions over a socket. A stub
is not enough if the evaluator reads the program's text, starts the program or uses its classes.
"""

import ast
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from evovpo.errors import ConfigError, SandboxError
from evovpo.sandbox import paths
from evovpo.sandbox.forkserver import calls
from evovpo.sandbox.local import Pool
from evovpo.sandbox.openings import Openings
from evovpo.sandbox.probe import Level, choose_level, probe
from evovpo.sandbox.result import ChildReport, WholeResult, judge_whole
from evovpo.sandbox.watched import EvaluatorServer, Surroundings
from evovpo.sandbox.worker import START_SECONDS, WorkerSettings
from evovpo.types import Limits, Status

PROGRAM_PATHS = ("/usr", "/bin", "/sbin", "/etc/alternatives", "/etc/localtime", "/dev/random", "/dev/full")
"""Readable paths, in addition to `SYSTEM_PATHS`, that programs started by an evaluator need."""
SYSTEM_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/sys/devices/system/cpu")
"""Files that libraries read to choose a number of threads. The rest of `/proc` would show other processes."""
WRITABLE_MB = 64
"""Maximum size of an evaluation's private folder, in MiB. A problem can have a smaller limit."""


@dataclass(frozen=True, slots=True)
class WholeJob:
    """A request to evaluate one candidate with an evaluator that imports it."""

    files: Mapping[str, str]
    """The candidate's files as {relative path with `/`: text}; written into the private folder."""
    entry: str
    """The file passed to the evaluator as program path; empty to pass the folder of all files."""
    evaluator: str
    """Name of the evaluator's file in the sandbox's folder."""
    functions: tuple[str, ...] = ("evaluate",)
    """Names of the evaluator's functions in order, one per stage. The first function must exist. A later
    function that does not exist ends the evaluation. If empty, the evaluator is only loaded."""
    thresholds: tuple[float, ...] = ()
    """Stage i + 1 runs if the score (`strict_json.score_of`) after stage i reaches `thresholds[i - 1]`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of `evaluate`. Functions with other names get only the program path."""


class WholeSandbox(Pool[EvaluatorServer]):
    """A sandbox for evaluators that import their candidate. It is a context manager and thread-safe.

    `folder` is the evaluator's folder. Each evaluation works in a private, writable folder with a copy of
    `folder`. An evaluation may start threads and processes within the limits, but has no network. It can read
    Python, the system's programs and libraries, and `folder`, except paths in `hidden`. `openings` are
    additional permissions. `preload` (modules to import in advance) is used only by `ProxySandbox`.

    Raises `SandboxError` if the machine does not support the level, or if `folder` lies in a hidden path.
    """

    _has_candidates = False

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
        roots = [*paths.python_paths(), *paths.SYSTEM_PATHS, *PROGRAM_PATHS, *kernels, str(self._folder)]
        rules = paths.reading_rules([*roots, *openings.readable], [*hidden_paths, *paths.OWN])
        if not any(path == str(self._folder) for path, _ in rules):
            raise SandboxError(
                f"the evaluator's folder {folder} is hidden from programs; move it out of {paths.PACKAGE} "
                "and of whatever else is hidden"
            )
        copied, self._is_linked = paths.project_copy(self._folder, hidden_paths, openings.readable)
        around = Surroundings(level, self._folder, rules, copied, openings)
        # Used only for candidates with processes of their own.
        settings = WorkerSettings(candidates_level, tuple(preload), (*hidden_paths, str(self._folder)))
        super().__init__(level, lambda: EvaluatorServer(around, settings), workers, retries)

    @property
    def remarks(self) -> tuple[str, ...]:
        reason = next((worker.reason for worker in self.workers if worker.reason), "")
        cold = f"the evaluator is imported anew for every evaluation, which is slower: importing it {reason}"
        large = (
            f"{self._folder}: more than {paths.COPIED_FILES} files or {paths.COPIED_BYTES >> 20} MiB, so "
            "evaluations get links to its files instead of copies, and cannot write them"
        )
        return (*([cold] if reason else []), *([large] if self._is_linked else []))

    def run(self, job: WholeJob, limits: Limits = Limits()) -> WholeResult:  # noqa: B008  # frozen
        """Return the evaluator's result for a candidate.

        For status `error`, `detail` contains the exception and the end of its traceback. Raises `ConfigError`
        for an invalid job, and `SandboxError` if the sandbox is closed or does not start.
        """
        check_job(job, self._folder)
        return self.try_free(lambda server: self._attempt(server, job, limits, None), self._failure)

    def _attempt(
        self, server: EvaluatorServer, job: WholeJob, limits: Limits, calls: socket.socket | None
    ) -> WholeResult:
        limits = replace(limits, disk_mb=min(limits.disk_mb, WRITABLE_MB))
        try:
            found, written, log = server.evaluate(asdict(job), limits, calls)
        except OSError as error:
            return self._failure(str(error))
        report = found if isinstance(found, str) else ChildReport(**found)
        for folder in (server.work, str(self._folder)):  # feedback must not contain random paths
            prefix = f"{folder}/".encode()
            written, log = written.replace(prefix, b""), log.replace(prefix, b"")
        result = judge_whole(report, written, log, limits, self.level)
        words = self._openings.words
        return replace(result, isolation=self.level + f"; opened: {', '.join(words)}" * bool(words))

    def _failure(self, detail: str) -> WholeResult:
        return WholeResult(Status.SANDBOX_ERROR, detail=detail, isolation=self.level)


def whole_level(minimum: Level, wanted: Level | None) -> Level:
    """Return the isolation level for evaluators that import candidates.

    Without Landlock, only `none` is possible, because seccomp cannot restrict which files an evaluator opens.
    Raises `SandboxError` if no possible level fits `minimum` and `wanted`.
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
    """Raise `ConfigError` for a path outside the candidate's folder, or a missing entry or evaluator file."""
    for name in job.files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name or name == "." or "\0" in name:
            raise ConfigError(f"file {name!r} of a candidate: expected a path inside its folder; rename it")
    if job.entry and job.entry not in job.files:
        raise ConfigError(f"entry {job.entry!r} is not among the candidate's files {sorted(job.files)}")
    if not (folder / job.evaluator).is_file():
        raise ConfigError(f"{folder / job.evaluator}: expected an evaluator, found no file; correct the name")


class ProxySandbox(WholeSandbox):
    """A `WholeSandbox` that runs the candidate in a separate process, so that results have high trust."""

    _has_candidates = True

    def run(self, job: WholeJob, limits: Limits = Limits()) -> WholeResult:  # noqa: B008  # frozen
        """Return the evaluator's result for a candidate.

        If evaluator and candidate both fail, the result has the status of the candidate. Raises the errors of
        `WholeSandbox.run`, and `ConfigError` for a program of several files.
        """
        check_job(job, self._folder)
        if len(job.files) != 1 or not job.entry:
            raise ConfigError(
                f"proxy mode takes programs of one file, found {len(job.files)}"
                f"{'' if job.entry else ' and no entry'}; set the evaluator's mode to whole"
            )
        code = job.files[job.entry]
        try:
            stub = stub_of(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            detail = f"{type(error).__name__}: {error}"
            return WholeResult(Status.ERROR, detail=detail, isolation=self.level)
        stubbed = replace(job, files={job.entry: stub})
        return self.try_free(lambda server: self._attempt_both(server, code, stubbed, limits), self._failure)

    def _attempt_both(self, server: EvaluatorServer, code: str, job: WholeJob, limits: Limits) -> WholeResult:
        # The candidate waits while the evaluator starts; the evaluator's limit ends both.
        candidates = replace(limits, wall_seconds=limits.wall_seconds + START_SECONDS)
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                server.candidate.serve(code, candidates, theirs)
            try:
                result = self._attempt(server, job, limits, ours)
            finally:
                candidate = server.candidate.finish(limits, ours)
        log = f"{result.log}{candidate.log}"[: limits.log_bytes]
        result = replace(result, log=log, cpu_ms=result.cpu_ms + candidate.cpu_ms)
        is_own_word = result.status in (Status.OK, Status.SANDBOX_ERROR)
        if candidate.status is Status.OK or (is_own_word and candidate.status is not Status.SANDBOX_ERROR):
            return result
        detail = f"the candidate: {candidate.detail}\n{result.detail}".strip()
        return replace(result, status=candidate.status, detail=detail)


def stub_of(code: str) -> str:
    """Return the source of a stub module whose functions call the top-level functions of `code`.

    Raises SyntaxError if `code` is not valid Python, and ValueError if it has no top-level function.
    """
    found = [node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
    names = [name for name in dict.fromkeys(found) if not name.startswith("__")]
    if not names:
        raise ValueError("the program defines no function at its top level, and proxy mode offers no more")
    functions = "".join(
        f"def {name}(*arguments, **keywords):\n    return _calls.call({name!r}, arguments, keywords)\n\n\n"
        for name in names
    )
    return f'''"""Stands for a candidate in another process: its functions, for JSON and arrays of numbers."""

import {calls.MODULE} as _calls

_calls.connect()


{functions}def __getattr__(name):
    raise AttributeError(
        f"the candidate is in another process, which offers only functions; {{name!r}} is none: "
        "set the evaluator's mode to whole"
    )
'''
