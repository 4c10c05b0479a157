"""Starts a watcher process (`forkserver.watcher`), sends evaluations to it, and ends it."""

import contextlib
import fcntl
import json
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from evovpo.sandbox.filters import compiled_filter
from evovpo.sandbox.forkserver.folders import empty
from evovpo.sandbox.openings import Openings
from evovpo.sandbox.paths import python_executable
from evovpo.sandbox.probe import Level, probe
from evovpo.sandbox.start import ENVIRONMENT, SERVER_FOLDER, bwrap_command, can_change_user, memory_files
from evovpo.sandbox.worker import RECYCLE_AFTER, START_SECONDS, ForkServer, Server, WorkerSettings
from evovpo.types import Limits

ANSWER_SECONDS = 30.0
"""Maximum time after the wall-clock limit for the watcher to end everything and report."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
WORK_IN_NAMESPACES = "/tmp/evaluation"
"""Private folder of an evaluation inside namespaces: a fresh file system in memory."""
WORK_PREFIX = "evovpo-evaluation-"
FIRST_PRIVATE_USER = 2_000_000_000
"""Lowest user id for evaluations that root starts. Each watcher gets a random user id from here on."""
TASK_SLACK = 64
"""Allowance for tasks that the user starts later: the kernel counts all tasks of the user for the limit."""


class Surroundings(NamedTuple):
    level: Level
    folder: Path
    rules: Sequence[tuple[str, bool]]
    """Readable paths, as the pairs (path, is_listing_only) of `paths.reading_rules`."""
    copied: Sequence[tuple[str, str, bool]]
    """Project files to put into the private folder: (name there, source path, true for a link)."""
    openings: Openings


class EvaluatorServer(Server):
    """Runs evaluations in a watcher process, which is restarted when the evaluator or the limits change."""

    def __init__(self, surroundings: Surroundings, candidates: WorkerSettings) -> None:
        super().__init__()
        self._around = surroundings
        self._is_alone = surroundings.level is Level.BWRAP_LANDLOCK_SECCOMP
        # Root's evaluations run as another user, unless a `write=` path, which belongs to root, is opened.
        self._has_private_user = os.geteuid() == 0 and surroundings.level is not Level.NONE
        self._has_private_user &= not any(word.startswith("write=") for word in surroundings.openings.words)
        self._has_private_user &= can_change_user() or not self._is_alone
        self._started_for: tuple[object, ...] = ()
        self.candidate = ForkServer(candidates)
        """Fork-server for candidates in processes of their own; started on demand."""
        self.work = ""
        """Path of the private folder; an empty text before the start."""
        self.reason = ""
        """Reason that every evaluation imports the evaluator anew; empty if one import is enough."""

    def stop(self) -> None:
        super().stop()
        self.candidate.stop()

    def evaluate(
        self, job: dict[str, Any], limits: Limits, calls: socket.socket | None
    ) -> tuple[dict[str, Any] | str, bytes, bytes]:
        """Return an evaluation's report (or a text that says why there is none), result bytes and log bytes.

        `calls` is a socket to a candidate in another process. Raises `SandboxError` if no watcher starts.
        """
        wanted = (job["evaluator"], bool(job["entry"]), limits)
        if self._process is None or self._started_for != wanted or self._evaluations >= RECYCLE_AFTER:
            super().stop()
            self._start(*wanted)
            self._started_for = wanted
        self._evaluations += 1
        job |= {"has_calls": calls is not None, "other_tasks": self._other_tasks()}
        with memory_files() as files:
            payload, result, log = files
            with open(payload, "wb", closefd=False) as file:
                file.write(json.dumps(job).encode())
            passed = [*files, *([] if calls is None else [calls.fileno()])]
            message = self._ask(b"evaluate", limits.wall_seconds + ANSWER_SECONDS, passed)
            written, printed = (
                os.pread(result, limits.result_bytes + 1, 0),
                os.pread(log, limits.log_bytes, 0),
            )
        report: dict[str, Any] = json.loads(message or b"{}")
        if report.pop("is_spent", True):
            super().stop()
        return report or "the watcher ended or does not answer", written, printed

    def _other_tasks(self) -> int:
        return 2 if self._is_alone or os.geteuid() == 0 else _tasks_of_user() + TASK_SLACK

    def _start(self, evaluator: str, is_file: bool, limits: Limits) -> None:
        around, openings = self._around, self._around.openings
        command: list[str] = []
        if self._is_alone:
            self.work = WORK_IN_NAMESPACES  # created inside the namespaces
            bound = [path for name in openings.readable for path in (name, os.path.realpath(name))]
            outside_usr = ["/etc/alternatives", "/etc/localtime"]  # `/usr/bin/cc` is a link into the first
            readable = [*outside_usr, str(around.folder), str(SERVER_FOLDER), *bound]
            opened = openings.has_network, openings.writable
            namespaces = bwrap_command(readable, limits.disk_mb, self._has_private_user, *opened)
            command = [*namespaces[:-1], "--dir", self.work, "--chdir", self.work, "--"]
        else:
            _sweep()
            self.work = os.path.realpath(tempfile.mkdtemp(prefix=WORK_PREFIX))
            self._opened.enter_context(_held(Path(self.work)))
            self._opened.callback(_remove, self.work)
        own = os.environ if openings.is_off else {}
        paths = [
            *openings.programs,
            str(Path(python_executable()).parent),
            "/usr/bin:/bin",
            own.get("PATH", ""),
        ]
        environment = {
            **own,
            **ENVIRONMENT,
            "PATH": ":".join(filter(None, paths)),
            "HOME": own.get("HOME", self.work),
            "TMPDIR": self.work,
            "MALLOC_ARENA_MAX": "2",  # one arena per thread would use up the limited address space
            **dict(openings.variables),
        }
        settings = self._settings(evaluator, is_file, limits)
        what = f"the process that runs {evaluator} (level {around.level})"
        seconds = START_SECONDS + 2 * limits.wall_seconds
        self.reason = str(self._begin("watcher", settings, what, command, environment, seconds)["reason"])

    def _settings(self, evaluator: str, is_file: bool, limits: Limits) -> dict[str, Any]:
        around, openings, is_alone = self._around, self._around.openings, self._is_alone
        is_locked = around.level is not Level.NONE
        shared = ["/dev/shm"] if is_alone else []
        opening_filter = "-".join(["whole", *(word for word in ("network", "gpu") if word in openings.words)])
        # Landlock does not cover modes; a compiler, available with `path`, must make its output executable.
        is_metadata_kept = is_locked and not is_alone and not openings.programs
        return {
            "evaluator": str(around.folder / evaluator),
            "work": self.work,
            "working_folder": openings.working_folder or self.work,
            "program_folder": self.work if is_file else f"{self.work}/candidate_program",
            "copied": [] if openings.working_folder else around.copied,
            "limits": asdict(limits),
            "is_locked": is_locked,
            "private_user": FIRST_PRIVATE_USER + secrets.randbelow(1 << 31)
            if self._has_private_user
            else None,
            "has_disk_limit": is_alone,
            "supervisor": 1 if is_alone else os.getpid(),
            "other_tasks": self._other_tasks(),
            "landlock_abi": probe().landlock_abi if is_locked else 0,
            "readable": around.rules,
            "writable": [self.work, *shared, *DEVICES, *openings.writable],
            "shared": shared,
            "has_network": openings.has_network,
            "filters": [compiled_filter(opening_filter)] if is_locked else [],
            "signal_filters": [compiled_filter("outside")] if is_locked else [],
            "metadata_filters": [compiled_filter("metadata")] if is_metadata_kept else [],
        }


def _remove(folder: str) -> None:
    empty(folder)
    with contextlib.suppress(OSError):
        os.rmdir(folder)  # noqa: PTH106


def _sweep() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{WORK_PREFIX}*"):
        with contextlib.suppress(OSError):
            owner = folder.lstat().st_uid
            if owner == os.geteuid() or (os.geteuid() == 0 and owner >= FIRST_PRIVATE_USER):
                with _held(folder):
                    _remove(str(folder))


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Lock a folder against removal by other processes. Raises `OSError` if that fails."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.lstat()
        yield
    finally:
        os.close(descriptor)


def _tasks_of_user() -> int:
    user, count = os.getuid(), 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == user:
                    count += len(os.listdir(f"{entry.path}/task"))  # noqa: PTH208
    return count
