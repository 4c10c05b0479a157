"""Runs an evaluator together with the candidate that it imports, in a fresh process under limits.

This protects the machine and whoever runs the search, not the score: the candidate is in the evaluator's
process and can write the evaluator's result itself, so such judgements are of low trust.
"""

import contextlib
import json
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from evovpo.errors import ConfigError, SandboxError
from evovpo.sandbox.filters import compiled_filter
from evovpo.sandbox.local import Pool
from evovpo.sandbox.paths import PACKAGE, SYSTEM_PATHS, python_executable, python_paths, reading_rules
from evovpo.sandbox.probe import Level, choose_level, probe
from evovpo.sandbox.result import Report, WholeResult, judge_whole
from evovpo.sandbox.start import (
    ENVIRONMENT,
    MESSAGE_BYTES,
    SERVER_FOLDER,
    bwrap_command,
    can_change_user,
    end_process,
    memory_files,
    start_python,
)
from evovpo.sandbox.worker import Settings
from evovpo.types import Limits, Status

ANSWER_SECONDS = 30.0
"""How long after the wall-clock limit the watcher may take to end everything and report."""
PROGRAM_PATHS = ("/usr", "/bin", "/sbin", "/etc/alternatives", "/etc/localtime", "/dev/random", "/dev/full")
"""Besides `SYSTEM_PATHS`: what the programs that an evaluator starts are made of."""
SYSTEM_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/sys/devices/system/cpu")
"""What libraries read to choose how many threads to start. All of `/proc` would show other processes."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
WORK_IN_NAMESPACES = "/tmp/evaluation"
"""In there it is a fresh file system in memory."""
FIRST_PRIVATE_USER = 2_000_000_000
"""Root's evaluations run as users above this number, each as one that nobody else is."""
TASK_SLACK = 64
"""Added to a user's tasks of the moment: the limit counts all of them, and others come and go."""
WRITABLE_MB = 64
"""Largest size of the private folder, in MiB; a smaller limit of a problem counts."""


@dataclass(frozen=True, slots=True)
class WholeJob:
    """One evaluation: the candidate's files and what is to be called."""

    files: Mapping[str, str]
    """Relative path (with `/`) -> text, written into a fresh private folder."""
    entry: str
    """Which of them is the program path given to the evaluator; empty: the folder."""
    evaluator: str
    """Name of the evaluator's file in the folder of the sandbox."""
    functions: tuple[str, ...] = ("evaluate",)
    """Called in order, stage by stage, up to a later one that is not there; with none the evaluator is only
    loaded."""
    thresholds: tuple[float, ...] = ()
    """Stage i + 1 runs where the metrics up to stage i score `thresholds[i]` or more."""


class WholeSandbox(Pool):
    """Runs evaluators that import their candidate; a context manager, and safe to call from several threads.

    Each evaluation gets a fresh process and a fresh private folder, which is its working directory, home
    and place for temporary files. It may start threads and processes, as many as the limits say, and
    write there; it has no network and reads only Python, system libraries and the evaluator's folder.

    Args, besides those of `Sandbox`:
        folder: The evaluator's folder: readable, not writable.
        minimum_level: Only Linux with Landlock isolates here; the level `none`, which must be asked for, does
            not at all.
        preload: Modules that candidates find imported, where they have processes of their own
            (`ProxySandbox`).

    Raises `SandboxError` if the machine does not offer the level, or the folder is hidden.
    """

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
    ) -> None:
        level = whole_level(minimum_level, level)
        self._folder = Path(folder).resolve()
        self._has_namespaces = level is Level.BWRAP_LANDLOCK_SECCOMP
        hidden_paths = tuple(os.fspath(path) for path in hidden)
        kernels = ("/proc", "/sys") if self._has_namespaces else SYSTEM_FACTS
        roots = [*python_paths(), *SYSTEM_PATHS, *PROGRAM_PATHS, *kernels, str(self._folder)]
        rules = reading_rules(roots, [*hidden_paths, str(PACKAGE)])
        if not any(path == str(self._folder) for path, _ in rules):
            raise SandboxError(
                f"the evaluator's folder {folder} is hidden from programs; move it out of {PACKAGE} and of "
                "whatever else is hidden"
            )
        self._rules = [list(rule) for rule in rules]
        # Of its workers only candidates with processes of their own make use.
        settings = Settings(level, tuple(preload), (*hidden_paths, str(self._folder)))
        super().__init__(settings, workers, retries)

    def run(self, job: WholeJob, limits: Limits = Limits()) -> WholeResult:  # noqa: B008  # frozen
        """Return what the evaluator says of the candidate.

        Status `error` has in `detail` the exception with the last lines of its traceback. Raises
        `ConfigError` for a job that names a file outside its folder, an evaluator that is not there, or
        an entry that is not among the files, and `SandboxError` if the sandbox is closed or does not start.
        """
        check_job(job, self._folder)
        return self.try_free(lambda _: self._attempt(job, limits, None), self._failure)

    def _attempt(self, job: WholeJob, limits: Limits, calls: socket.socket | None) -> WholeResult:
        """Return the result of one try; `calls` leads to a candidate in another process."""
        limits = replace(limits, disk_mb=min(limits.disk_mb, WRITABLE_MB))
        with contextlib.ExitStack() as stack:
            try:
                work = WORK_IN_NAMESPACES  # it is made there
                if not self._has_namespaces:
                    work = stack.enter_context(private_folder())
                files = stack.enter_context(memory_files())
            except OSError as error:
                return self._failure(str(error))
            payload, result, log = files
            with open(payload, "wb", closefd=False) as file:
                file.write(json.dumps(self._settings(job, limits, work, calls is not None)).encode())
            report = self._watch(limits, files, calls, work)
            written = os.pread(result, limits.result_bytes + 1, 0)
            log_bytes = os.pread(log, limits.log_bytes, 0)
        for folder in (work, str(self._folder)):  # where they lie is chance, and feedback must not be
            prefix = f"{folder}/".encode()
            written, log_bytes = written.replace(prefix, b""), log_bytes.replace(prefix, b"")
        return judge_whole(report, written, log_bytes, limits, self.level)

    def _failure(self, detail: str) -> WholeResult:
        return WholeResult(Status.SANDBOX_ERROR, detail=detail, isolation=self.level)

    def _settings(self, job: WholeJob, limits: Limits, work: str, has_calls: bool) -> dict[str, Any]:
        is_alone = self._has_namespaces
        is_locked = self.level is not Level.NONE
        has_private_user = can_change_user() if is_alone else is_locked
        filters = ["outside", "whole"] if is_alone else ["metadata", "outside", "whole"]
        return {
            **asdict(job),
            "evaluator": str(self._folder / job.evaluator),
            "work": work,
            "limits": asdict(limits),
            "is_locked": is_locked,
            "private_user": FIRST_PRIVATE_USER + secrets.randbelow(1 << 31) if has_private_user else None,
            "has_disk_limit": is_alone,
            "has_calls": has_calls,
            "supervisor": 1 if is_alone else os.getpid(),
            "other_tasks": 2 if is_alone else _tasks_of_user() + TASK_SLACK,
            "landlock_abi": probe().landlock_abi if is_locked else 0,
            "readable": self._rules,
            "writable": [work, *(["/dev/shm"] if is_alone else []), *DEVICES],
            "filters": [compiled_filter(name) for name in filters] if is_locked else [],
        }

    def _watch(
        self, limits: Limits, files: list[int], calls: socket.socket | None, work: str
    ) -> Report | str:
        """Return what a fresh watcher reports about the evaluation, or why there is no report."""
        around: list[str] = []
        if self._has_namespaces:
            readable = [str(self._folder), str(SERVER_FOLDER)]
            namespaces = bwrap_command(readable, limits.disk_mb, can_change_user())
            around = [*namespaces[:-1], "--dir", work, "--chdir", work, "--"]
        environment = {
            **ENVIRONMENT,
            "PATH": f"{Path(python_executable()).parent}:/usr/bin:/bin",
            "HOME": work,
            "TMPDIR": work,
            "MALLOC_ARENA_MAX": "2",  # an arena for each thread takes address space, which is limited
        }
        process, control = start_python("watcher", files, calls, around=around, environment=environment)
        with control:
            try:
                control.settimeout(limits.wall_seconds + ANSWER_SECONDS)
                found = json.loads(control.recv(MESSAGE_BYTES))
            except (OSError, ValueError):
                return "the watcher ended or does not answer"
            finally:
                end_process(process)
        return str(found["error"]) if "error" in found else Report(**found)


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


@contextlib.contextmanager
def private_folder() -> Iterator[str]:
    """Make a folder for the time of a block, and remove it whatever the modes of what is in it."""

    def allow(function: Any, path: str, _: object) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)  # noqa: PTH101,PTH120
            os.chmod(path, 0o700)  # noqa: PTH101
            function(path)

    folder = tempfile.mkdtemp(prefix="evovpo-evaluation-")
    try:
        yield folder
    finally:
        for _ in range(3):  # a folder that could not be listed is only emptied at the next try
            if os.path.lexists(folder):
                shutil.rmtree(folder, onerror=allow)


def _tasks_of_user() -> int:
    user, count = os.getuid(), 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == user:
                    count += len(os.listdir(f"{entry.path}/task"))  # noqa: PTH208
    return count
