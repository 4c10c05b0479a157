"""Runs an evaluator together with the candidate that it imports, in a fresh process under limits.

This protects the machine and whoever runs the search, not the score: the candidate is in the evaluator's
process and can write the evaluator's result itself, so such judgements are of low trust.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self

from evovpo.errors import ConfigError, SandboxError
from evovpo.sandbox.bwrap import bwrap_command, can_change_user
from evovpo.sandbox.forkserver import family, metrics
from evovpo.sandbox.local import usable_cores
from evovpo.sandbox.paths import PACKAGE, SYSTEM_PATHS, python_executable, python_paths, reading_rules
from evovpo.sandbox.probe import Level, choose_level, probe
from evovpo.sandbox.result import Decoder
from evovpo.sandbox.retries import Retries
from evovpo.sandbox.start import ENVIRONMENT, SERVER_FOLDER, memory_file, start_python, starting
from evovpo.sandbox.worker import compiled_filter
from evovpo.types import Json, Limits, Status

ANSWER_SECONDS = 30.0
"""How long after the wall-clock limit the watcher may take to end everything and report."""
END_SECONDS = 2.0
"""How long after its report a watcher may take to end."""
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
_DETAIL_LIMIT = 2000
_LOG_TAIL = 300
_MESSAGE_BYTES = 1 << 16


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


@dataclass(frozen=True, slots=True)
class WholeResult:
    """How an evaluation ended. All text in it may be the candidate's: untrusted."""

    status: Status
    metrics: tuple[tuple[str, Json], ...] = ()
    """As the evaluator returned them, in order; not finite numbers as text. Of the stages that were
    completed, where a later one failed."""
    artifacts: tuple[tuple[str, str], ...] = ()
    detail: str = ""
    """Why the status is not `ok`."""
    log: str = ""
    """Start of what evaluator and candidate wrote to standard output and error."""
    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    """Of all processes of the evaluation, the start of Python included."""
    isolation: str = ""
    """The `Level` that was in force."""


class Report(NamedTuple):
    """What the watcher says about an evaluation; trusted."""

    status: int
    """Wait status."""
    is_ready: bool
    """The evaluation was locked down and about to run."""
    ended_for: str
    """Why the watcher ended it: `wall`, `tasks`, `memory`, `disk`, `log`, `supervisor`, or not at all."""
    is_over: bool
    """Nothing of it is left."""
    wall_ms: float
    cpu_ms: float
    child_cpu_ms: float
    """Of the process that ran the evaluator alone, which is what its own limit counts."""


class WholeSandbox:
    """Runs evaluators that import their candidate; a context manager, and safe to call from several threads.

    Each evaluation gets a fresh process and a fresh private folder, which is its working directory, home
    and place for temporary files. It may start threads and processes, as many as the limits say, and
    write there; it has no network and reads only Python, system libraries and the evaluator's folder.

    Args:
        folder: The evaluator's folder: readable, not writable.
        workers: Evaluations at a time; a further call waits.
        minimum_level: Refuse to work below this level. Only Linux with Landlock isolates here; the
            level `none`, which must be asked for, does not at all.
        level: Use exactly this level, not the strongest that works.
        readable: Further paths that evaluations may read.
        hidden: Paths that they must not read even though they lie below one of these. The evovpo package
            is always hidden.
        writable_mb: Largest size of the private folder, in MiB; a smaller limit of a problem counts.
        retries: How often an evaluation is run again after the sandbox failed.

    Raises `SandboxError` if the machine does not offer the level, or the folder is hidden.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        workers: int | None = None,
        minimum_level: Level = Level.LANDLOCK_SECCOMP,
        level: Level | None = None,
        readable: Iterable[str | os.PathLike[str]] = (),
        hidden: Iterable[str | os.PathLike[str]] = (),
        writable_mb: int = 64,
        retries: int = 2,
    ) -> None:
        self.level = whole_level(minimum_level, level)
        self.retries = Retries(retries)
        self._folder = Path(folder).resolve()
        self._readable = [os.path.realpath(path) for path in readable]
        hidden_paths = [*(os.fspath(path) for path in hidden), str(PACKAGE)]
        roots = [str(self._folder), *self._readable]
        rules = reading_rules(
            [*python_paths(), *SYSTEM_PATHS, *PROGRAM_PATHS, *self._namespace_paths(), *roots], hidden_paths
        )
        if not any(path == str(self._folder) for path, _ in rules):
            raise SandboxError(
                f"the evaluator's folder {folder} is hidden from programs; move it out of {PACKAGE} and of "
                "whatever else is hidden"
            )
        self._rules = [list(rule) for rule in rules]
        self._writable_mb = writable_mb
        self._places = threading.BoundedSemaphore(workers or usable_cores())
        self._has_started = False
        self._is_closed = False

    def run(self, job: WholeJob, limits: Limits = Limits()) -> WholeResult:  # noqa: B008  # frozen
        """Return what the evaluator says of the candidate.

        Status `error` has in `detail` the exception with the last lines of its traceback. Raises
        `ConfigError` for a job that names a file outside its folder, an evaluator that is not there, or
        an entry that is not among the files, and `SandboxError` if the sandbox is closed or does not start.
        """
        check_job(job, self._folder)
        with self._places:
            if self._is_closed:
                raise SandboxError("the sandbox is closed; open another one")
            return self.retries.run(lambda: self.attempt(job, limits, None))

    def close(self) -> None:
        """Refuse further evaluations; those that run are ended by their callers' waiting for them."""
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def attempt(self, job: WholeJob, limits: Limits, calls: socket.socket | None) -> WholeResult:
        """Return the result of one try, unchecked; `calls` leads to a candidate in another process.

        Raises `SandboxError` if the first watcher cannot be started; from then on that is `sandbox_error`.
        """
        with contextlib.ExitStack() as stack:
            try:
                work = stack.enter_context(self._work())
                files = [stack.enter_context(memory_file(name)) for name in ("payload", "result", "log")]
            except OSError as error:
                return WholeResult(Status.SANDBOX_ERROR, detail=str(error), isolation=self.level)
            payload, result, log = files
            settings = self._settings(job, limits, work, calls is not None)
            with open(payload, "wb", closefd=False) as file:
                file.write(json.dumps(settings).encode())
            try:
                report = self._watch(limits, [payload, result, log], calls, work)
                self._has_started = True
            except SandboxError as error:
                if not self._has_started:
                    raise
                report = str(error)
            written = os.pread(result, limits.result_bytes + 1, 0)
            log_bytes = os.pread(log, limits.log_bytes, 0)
        for folder in (work, str(self._folder)):  # where they lie is chance, and feedback must not be
            prefix = f"{folder}/".encode()
            written, log_bytes = written.replace(prefix, b""), log_bytes.replace(prefix, b"")
        return judge(report, written, log_bytes, limits, self.level)

    def _namespace_paths(self) -> list[str]:
        """Return what of the kernel's own file systems may be read."""
        return ["/proc", "/sys"] if self.level is Level.BWRAP_LANDLOCK_SECCOMP else list(SYSTEM_FACTS)

    @contextlib.contextmanager
    def _work(self) -> Iterator[str]:
        """Make the private folder for the time of a block; in namespaces it makes itself."""
        if self.level is Level.BWRAP_LANDLOCK_SECCOMP:
            yield WORK_IN_NAMESPACES
            return
        folder = tempfile.mkdtemp(prefix="evovpo-evaluation-")
        try:
            yield folder
        finally:
            remove_folder(folder)

    def _settings(self, job: WholeJob, limits: Limits, work: str, has_calls: bool) -> dict[str, Any]:
        """Return what the watcher reads."""
        is_alone = self.level is Level.BWRAP_LANDLOCK_SECCOMP
        is_locked = self.level is not Level.NONE
        has_private_user = can_change_user() if is_alone else is_locked
        filters = ["outside", "whole"] if is_alone else ["metadata", "outside", "whole"]
        return {
            "files": dict(job.files),
            "entry": job.entry,
            "evaluator": str(self._folder / job.evaluator),
            "functions": list(job.functions),
            "thresholds": list(job.thresholds),
            "work": work,
            "limits": {**asdict(limits), "disk_mb": min(limits.disk_mb, self._writable_mb)},
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
        """Return what a fresh watcher reports about the evaluation, or why there is no report.

        Raises `SandboxError` if it cannot be started.
        """
        around: list[str] = []
        if self.level is Level.BWRAP_LANDLOCK_SECCOMP:
            size = min(limits.disk_mb, self._writable_mb)
            readable = [*self._readable, str(self._folder), str(SERVER_FOLDER)]
            namespaces = bwrap_command(readable, size, can_change_user())
            around = [*namespaces[:-1], "--dir", work, "--chdir", work, "--"]
        environment = {
            **ENVIRONMENT,
            "PATH": f"{Path(python_executable()).parent}:/usr/bin:/bin",
            "HOME": work,
            "TMPDIR": work,
            "MALLOC_ARENA_MAX": "2",  # an arena for each thread takes address space, which is limited
        }
        with starting():
            control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with control:
            with theirs:
                passed = [*files, theirs.fileno(), *([] if calls is None else [calls.fileno()])]
                process = start_python("watcher", passed, files[2], around=around, environment=environment)
            try:
                control.settimeout(limits.wall_seconds + ANSWER_SECONDS)
                message = control.recv(_MESSAGE_BYTES)
            except OSError:
                message = b""
            finally:
                end_process(process)
        if not message:
            return "the watcher ended or does not answer"
        found = json.loads(message)
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


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Wait for a watcher that has reported; kill it with all that it started if it does not end."""
    pidfd = os.pidfd_open(process.pid)  # waiting by Popen sleeps for longer and longer
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(END_SECONDS * 1e3):
            family.end_all(process.pid)
            process.kill()
    finally:
        os.close(pidfd)
    process.wait()


def remove_folder(folder: str) -> None:
    """Remove a folder whatever the modes of what is in it."""

    def allow(function: Any, path: str, _: object) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)  # noqa: PTH101,PTH120
            os.chmod(path, 0o700)  # noqa: PTH101
            function(path)

    for _ in range(3):  # a folder that could not be listed is only emptied at the next try
        shutil.rmtree(folder, onerror=allow)
        if not os.path.lexists(folder):
            return


def _tasks_of_user() -> int:
    """Return how many processes and threads this user has now."""
    user, count = os.getuid(), 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == user:
                    count += len(os.listdir(f"{entry.path}/task"))  # noqa: PTH208
    return count


# ---------------------------------------------------------------- reading


def judge(report: Report | str, written: bytes, log: bytes, limits: Limits, level: Level) -> WholeResult:
    """Return the result of an evaluation; trusts the report, and of what was written only its form.

    `written` holds at most one byte more than the limit on results.
    """
    text = log.decode(errors="replace")
    if isinstance(report, str) or not report.is_ready or not report.is_over:
        why = report if isinstance(report, str) else "the evaluation failed before it was locked down"
        if not isinstance(report, str) and not report.is_over:
            why = "processes of the evaluation could not be ended"
        detail = f"{why}: {text[-_LOG_TAIL:].strip()}"
        return WholeResult(Status.SANDBOX_ERROR, detail=detail, log=text, isolation=level)
    line = Line()
    if len(written) <= limits.result_bytes and written:
        line = read_line(written)
    status, detail = _verdict(report, line, bool(written), len(written) > limits.result_bytes, limits)
    return WholeResult(
        status=status,
        metrics=line.metrics,
        artifacts=line.artifacts,
        detail=detail[:_DETAIL_LIMIT],
        log=text,
        wall_ms=report.wall_ms,
        cpu_ms=report.cpu_ms,
        isolation=level,
    )


class Line(NamedTuple):
    """What the evaluation wrote, as far as it is acceptable."""

    metrics: tuple[tuple[str, Json], ...] = ()
    artifacts: tuple[tuple[str, str], ...] = ()
    is_done: bool = False
    exception: Mapping[str, Any] | None = None
    fault: str = ""
    """Why the rest is unusable; empty if it is not."""


def read_line(written: bytes) -> Line:
    """Return the one line of a result, strictly read, with artifacts cut to their limits."""
    try:
        line, impurity = Decoder().read(written)
        if impurity:
            raise ValueError(impurity)
        found = _pairs(line.get("metrics"))
        artifacts = metrics.capped((name, str(value)) for name, value in _pairs(line.get("artifacts")))
        if "exc" not in line and line.get("done") is not True:
            raise ValueError("a line without its end")
    except (ValueError, RecursionError) as error:
        return Line(fault=f"unusable result: {error}"[:_LOG_TAIL])
    return Line(
        metrics=tuple(found),
        artifacts=tuple(artifacts),
        is_done=line.get("done") is True,
        exception=line if "exc" in line else None,
    )


def _pairs(value: object) -> list[tuple[str, Json]]:
    if not isinstance(value, list):
        raise ValueError("a line without its lists")
    for pair in value:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise ValueError("a list of other things than names with values")
    if len({pair[0] for pair in value}) != len(value):
        raise ValueError("a name twice")
    return [(pair[0], pair[1]) for pair in value]


def _verdict(
    report: Report, line: Line, has_written: bool, is_too_long: bool, limits: Limits
) -> tuple[Status, str]:
    """Return status and detail: the kernel's word first, the evaluation's last."""
    ended = {
        "wall": (Status.TIMEOUT, f"wall-clock limit of {limits.wall_seconds:g} s"),
        "tasks": (
            Status.FORBIDDEN,
            f"more than {limits.processes + limits.threads} processes and threads besides the first",
        ),
        "memory": (Status.MEMORY, f"all processes together used far more than {limits.memory_mb} MiB"),
        "disk": (Status.OUTPUT_LIMIT, f"more than {limits.disk_mb} MiB in the private folder"),
        "log": (Status.OUTPUT_LIMIT, "standard output without end"),
        "supervisor": (Status.SANDBOX_ERROR, "the supervisor ended it"),
    }
    if report.ended_for:
        return ended[report.ended_for]
    if os.WIFSIGNALED(report.status):
        number = os.WTERMSIG(report.status)
        if number == signal.SIGSYS:
            return Status.FORBIDDEN, "a system call that is never allowed"
        is_cpu_limit = number == signal.SIGKILL and report.child_cpu_ms >= limits.cpu_seconds * 500
        if number == signal.SIGXCPU or is_cpu_limit:
            return Status.TIMEOUT, f"CPU limit of {limits.cpu_seconds} s"
        return Status.CRASH, signal.Signals(number).name
    if is_too_long:
        return Status.OUTPUT_LIMIT, f"more than {limits.result_bytes} bytes of results"
    if line.fault:
        return Status.BAD_OUTPUT, line.fault
    if os.WEXITSTATUS(report.status) != 0:
        return Status.CRASH, f"exit status {os.WEXITSTATUS(report.status)}"
    if not has_written:
        return Status.BAD_OUTPUT, "ended without a result"
    return (Status.OK, "") if line.exception is None else _exception_verdict(line.exception)


def _exception_verdict(exception: Mapping[str, Any]) -> tuple[Status, str]:
    detail = f"{exception['exc']}: {exception.get('msg')}\n{exception.get('trace') or ''}".strip()
    number = exception.get("errno")
    if exception["exc"] == "MemoryError" or number == errno.ENOMEM:
        return Status.MEMORY, detail
    if number in (errno.EPERM, errno.EACCES):
        return Status.FORBIDDEN, detail
    if number in (errno.EFBIG, errno.ENOSPC):
        return Status.OUTPUT_LIMIT, detail
    return Status.ERROR, detail
