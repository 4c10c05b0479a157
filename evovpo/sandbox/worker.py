"""Starts a fork-server (`forkserver.server`), sends it one program at a time, and ends it."""

import contextlib
import json
import marshal
import os
import select
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evovpo.errors import SandboxError
from evovpo.sandbox import paths
from evovpo.sandbox.filters import compiled_filter
from evovpo.sandbox.forkserver import processes
from evovpo.sandbox.probe import Level, probe
from evovpo.sandbox.result import ChildReport, Result, judge, judge_serving, sandbox_failure
from evovpo.sandbox.start import ENVIRONMENT, PYTHON_OPTIONS, SERVER_FOLDER, bwrap_command, memory_files
from evovpo.types import Json, Limits

START_SECONDS = 60.0
END_SECONDS = 2.0
MESSAGE_BYTES = 1 << 16
RECYCLE_AFTER = 10_000
ANSWER_SECONDS = 10.0
"""Maximum time after the wall-clock limit for the fork-server to report."""

SEALED_PRELOAD = (
    "abc, array, base64, binascii, calendar, cmath, collections.abc, colorsys, contextlib, csv, decimal, "
    "difflib, enum, fractions, graphlib, hashlib, html, inspect, io, mmap, numbers, pickle, pprint, "
    "queue, secrets, statistics, struct, textwrap, threading, time, traceback, types, unicodedata, uuid, "
    "warnings, weakref, zlib"
)
"""Additional preloaded modules for programs that cannot open files, and so cannot import anything else."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    level: Level
    preload: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class Server:
    """A process of the sandbox that handles one request after another. It is not thread-safe."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._descriptors: list[int] = []
        self._opened = contextlib.ExitStack()
        self._evaluations = 0

    @property
    def pid(self) -> int | None:
        """The process id of the server or of the bubblewrap process around it, or None if it is stopped."""
        return self._process.pid if self._process else None

    def cpu_seconds(self) -> float:
        message = self._ask(b"usage", ANSWER_SECONDS) if self._process else b""
        return float(json.loads(message)["cpu_seconds"]) if message else 0.0

    def stop(self) -> None:
        self._opened.close()

    def _begin(
        self,
        role: str,
        settings: Mapping[str, Any],
        what: str,
        around: Sequence[str],
        environment: Mapping[str, str] = ENVIRONMENT,
        seconds: float = START_SECONDS,
    ) -> dict[str, Any]:
        """Start a process with the role `server` or `watcher`, and return its first message.

        The process inherits only the memory files (the log is its standard error) and one end of a socket.
        `around` is a command prefix that isolates the process. Raises `SandboxError`, with `what` as the name
        of the process, if the process is not ready in `seconds`.
        """
        python = paths.python_executable()
        with contextlib.ExitStack() as opened:
            opened.push(self._opened.pop_all())
            try:
                if shutil.which(python) is None:  # bubblewrap would start, and fail later
                    raise FileNotFoundError(f"no program at {python!r}")
                self._descriptors = opened.enter_context(memory_files())
                self._rewind(json.dumps(settings).encode())
                self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                opened.enter_context(self._control)
                with theirs:
                    passed = [*self._descriptors, theirs.fileno()]
                    main = [python, *PYTHON_OPTIONS, str(SERVER_FOLDER / "__main__.py"), role]
                    self._process = subprocess.Popen(
                        [*around, *main, *map(str, passed)],
                        pass_fds=passed,
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=self._descriptors[2],
                        start_new_session=True,
                        cwd="/",
                    )
            except OSError as error:
                raise SandboxError(
                    f"programs are run by the Python at {python!r}: expected that it starts, found {error}; "
                    "if that Python is gone, make its virtual environment again, or else free memory, "
                    "processes and open files"
                ) from error
            opened.callback(self._end)
            self._control.settimeout(seconds)
            try:
                found = dict(json.loads(self._control.recv(MESSAGE_BYTES)))
            except (OSError, ValueError):
                log = os.pread(self._descriptors[2], MESSAGE_BYTES, 0).decode(errors="replace")
                found = {"error": log.strip()[-500:] or f"no sign of life within {seconds:g} s"}
            if "error" in found:
                raise SandboxError(
                    f"{what} did not start: {found['error']}; run `python -m evovpo.sandbox --selftest` to "
                    "see what works here, and free processes, open files or memory if they are short"
                )
            self._evaluations = 0
            self._opened = opened.pop_all()
            return found

    def _end(self) -> None:
        assert self._process is not None
        self._control.close()  # the server ends by itself, and so does bubblewrap around it
        pidfd = os.pidfd_open(self._process.pid)  # Popen.wait polls at growing intervals
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(END_SECONDS * 1e3):
            processes.end_all(self._process.pid)
            self._process.kill()
        os.close(pidfd)
        self._process.wait()
        self._process = None

    def _rewind(self, payload: bytes) -> None:
        for descriptor in self._descriptors:
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)  # the position is shared with the children
        written = 0
        while written < len(payload):
            written += os.pwrite(self._descriptors[0], payload[written:], written)

    def _ask(self, request: bytes, seconds: float, descriptors: Sequence[int] = ()) -> bytes:
        self._control.settimeout(seconds)
        try:
            if descriptors:
                socket.send_fds(self._control, [request], descriptors)
            else:
                self._control.send(request)
        except OSError:
            return b""
        return self._receive(seconds)

    def _receive(self, seconds: float) -> bytes:
        self._control.settimeout(seconds)
        try:
            return self._control.recv(MESSAGE_BYTES)
        except OSError:
            return b""


class ForkServer(Server):
    """A fork-server, started for the first program and restarted if it dies. It is not thread-safe."""

    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__()
        self._settings = settings

    def run(
        self, code: str, entry: str, cases: Sequence[Sequence[Json]], limits: Limits, per_case: bool
    ) -> Result:
        """Run a program and return its result. Raises `SandboxError` if the fork-server cannot be started."""
        # Through JSON, so that a candidate gets plain lists whatever the caller's sequence types.
        self._prepare(marshal.dumps((code, entry, json.loads(json.dumps(cases)), per_case)))
        message = self._ask(json.dumps(asdict(limits)).encode(), limits.wall_seconds + ANSWER_SECONDS)
        _, result, log = self._descriptors
        log_start = os.pread(log, limits.log_bytes, 0)
        if not message:
            self.stop()
            said = log_start[-300:].decode(errors="replace") or "memory or processes may be short"
            detail = f"the fork-server died or does not answer: {said}"
            return sandbox_failure(detail, len(cases), self._settings.level)
        written = os.pread(result, limits.result_bytes + 1, 0)
        report = ChildReport(**json.loads(message))
        return judge(report, written, log_start, len(cases), limits, per_case, self._settings.level)

    def serve(self, code: str, limits: Limits, calls: socket.socket) -> None:
        """Start `code`, which answers calls on the socket `calls`. Raises `SandboxError` if this fails."""
        self._prepare(marshal.dumps((code, "", [], False)))
        self._control.settimeout(ANSWER_SECONDS)
        try:
            socket.send_fds(self._control, [json.dumps(asdict(limits)).encode()], [calls.fileno()])
        except OSError as error:
            self.stop()
            raise SandboxError(f"the fork-server died: {error}") from error

    def finish(self, limits: Limits, calls: socket.socket) -> Result:
        """End the program that answers calls, and return its result. The status is `ok` if nothing failed."""
        # An ending process closes its files before its parent can collect its status.
        message = self._receive(END_SECONDS) if _is_hung_up(calls) else b""
        message = message or self._ask(b"end", ANSWER_SECONDS)
        log = os.pread(self._descriptors[2], limits.log_bytes, 0)
        if not message:
            self.stop()
            return sandbox_failure("the fork-server died or does not answer", 0, self._settings.level)
        return judge_serving(ChildReport(**json.loads(message)), log, limits, self._settings.level)

    def _prepare(self, payload: bytes) -> None:
        if self._evaluations >= RECYCLE_AFTER:
            self.stop()
        if self._process is None:
            self._start()
        self._evaluations += 1
        self._rewind(payload)

    def _start(self) -> None:
        settings = self._settings
        around: list[str] = []
        if settings.level is Level.BWRAP_LANDLOCK_SECCOMP:
            around = bwrap_command([*paths.library_paths(settings.preload), str(SERVER_FOLDER)])
        what = f"the fork-server (level {settings.level}, preload {list(settings.preload)})"
        self._begin("server", _server_settings(settings), what, around)


def _is_hung_up(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, 0)
    return bool(poll.poll(0))


def _server_settings(settings: WorkerSettings) -> dict[str, Json]:
    libraries = paths.library_paths(settings.preload)
    rules = paths.reading_rules(
        [*paths.python_paths(), *libraries, *paths.SYSTEM_PATHS], [*settings.hidden, *paths.OWN]
    )
    has_seccomp = settings.level is not Level.NONE
    is_sealed = settings.level is Level.SECCOMP
    return {
        "preload": [*(SEALED_PRELOAD.split(", ") if is_sealed else ()), *settings.preload],
        "library_paths": list(libraries),
        "readable": [list(rule) for rule in rules],
        "landlock_abi": probe().landlock_abi if settings.level.has_landlock else 0,
        "server_filter": compiled_filter("sealed" if is_sealed else "server") if has_seccomp else "",
        "child_filter": compiled_filter("child") if has_seccomp else "",
    }
