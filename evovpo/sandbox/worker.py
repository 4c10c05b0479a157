"""One fork-server as its supervisor sees it: start it, have it run programs one at a time, end it."""

import contextlib
import functools
import json
import marshal
import os
import platform
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from evovpo.errors import SandboxError
from evovpo.sandbox.bwrap import bwrap_command
from evovpo.sandbox.filters import filter_path
from evovpo.sandbox.paths import PACKAGE, SYSTEM_PATHS, library_paths, python_paths, reading_rules
from evovpo.sandbox.probe import Level, probe
from evovpo.sandbox.result import Report, Result, judge, judge_serving, sandbox_failure
from evovpo.sandbox.start import SERVER_FOLDER, memory_file, start_python, starting
from evovpo.types import Json, Limits

END_REQUEST = b"end"
"""As the fork-server knows it."""
START_SECONDS = 60.0
ANSWER_SECONDS = 10.0
"""How long after the wall-clock limit the fork-server may take to say that it enforced it."""
CLOSE_SECONDS = 2.0
_MESSAGE_BYTES = 1 << 16

SEALED_PRELOAD = (
    "abc, array, base64, binascii, calendar, cmath, collections.abc, colorsys, contextlib, csv, decimal, "
    "difflib, enum, fractions, graphlib, hashlib, html, inspect, io, mmap, numbers, pickle, pprint, "
    "queue, secrets, statistics, struct, textwrap, threading, time, traceback, types, unicodedata, uuid, "
    "warnings, weakref, zlib"
)
"""Further modules for programs that cannot open any file, and so import nothing that is not loaded."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the fork-servers of a sandbox have in common."""

    level: Level
    preload: tuple[str, ...] = ()
    """Modules that the fork-server imports, so that candidates find them imported."""
    hidden: tuple[str, ...] = ()
    """Paths that are not readable even below the Python installation."""
    switched_off: frozenset[str] = frozenset()
    """`landlock`, `seccomp`: left out, for tests that show what each is for."""
    landlock_abi: int | None = None
    """Use this ABI of Landlock and not the newest, for tests of older kernels."""


class ForkServer:
    """One fork-server: starts with the first program, and again after it died. Not thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._descriptors: list[int] = []
        """Memory files: payload, result, log."""
        self._opened = contextlib.ExitStack()
        """What `stop` ends and closes."""
        self.evaluations = 0
        """Programs run since the start."""

    @property
    def pid(self) -> int | None:
        """Process id of what was started (bubblewrap or the fork-server itself); None while stopped."""
        return self._process.pid if self._process else None

    def run(
        self, code: str, entry: str, cases: Sequence[Sequence[Json]], limits: Limits, per_case: bool
    ) -> Result:
        """Return how the program ended; `sandbox_error` if the fork-server failed in between.

        Raises `SandboxError` if the fork-server cannot be started.
        """
        if self._process is None:
            self._start()
        self.evaluations += 1
        # Through JSON, so that a candidate gets plain lists whatever sequences the caller has.
        self._rewind(marshal.dumps((code, entry, json.loads(json.dumps(cases)), per_case)))
        message = self._ask(_request(limits), limits.wall_seconds + ANSWER_SECONDS)
        _, result, log = self._descriptors
        log_start = os.pread(log, limits.log_bytes, 0)
        if not message:
            self.stop()
            detail = f"the fork-server died or does not answer: {log_start[-300:].decode(errors='replace')}"
            return sandbox_failure(detail, len(cases), self._settings.level)
        return judge(
            Report(**json.loads(message)),
            os.pread(result, limits.result_bytes + 1, 0),
            log_start,
            len(cases),
            limits,
            per_case,
            self._settings.level,
        )

    def serve(self, code: str, limits: Limits, calls: socket.socket) -> None:
        """Have the program `code` answer calls that come by a socket, until `finish` or its limits.

        Raises `SandboxError` if the fork-server cannot be started or fails.
        """
        if self._process is None:
            self._start()
        self.evaluations += 1
        self._rewind(marshal.dumps((code, "", [], False)))
        self._control.settimeout(ANSWER_SECONDS)
        try:
            socket.send_fds(self._control, [_request(limits)], [calls.fileno()])
        except OSError as error:
            self.stop()
            raise SandboxError(f"the fork-server died: {error}") from error

    def finish(self, limits: Limits) -> Result:
        """End the program that answers calls and return how it ended: `ok` if only by this request."""
        message = self._ask(END_REQUEST, ANSWER_SECONDS)
        log = os.pread(self._descriptors[2], limits.log_bytes, 0)
        if not message:
            self.stop()
            return sandbox_failure("the fork-server died or does not answer", 0, self._settings.level)
        return judge_serving(Report(**json.loads(message)), log, limits, self._settings.level)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the fork-server and its children have used since the start."""
        message = self._ask(b"usage", ANSWER_SECONDS) if self._process else b""
        return float(json.loads(message)["cpu_seconds"]) if message else 0.0

    def stop(self) -> None:
        """End the fork-server and whatever it runs; does nothing if there is none."""
        self._opened.close()
        self.evaluations = 0

    def _start(self) -> None:
        with starting(), contextlib.ExitStack() as opened:
            names = ("payload", "result", "log")
            self._descriptors = [opened.enter_context(memory_file(name)) for name in names]
            self._rewind(json.dumps(_server_settings(self._settings)).encode())
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            opened.enter_context(self._control)
            with theirs:
                passed = [*self._descriptors, theirs.fileno()]
                self._process = start_python(
                    "server", passed, self._descriptors[2], around=_namespaces(self._settings)
                )
            opened.callback(self._end)
            reason = self._refusal()
            if reason:
                level, preload = self._settings.level, list(self._settings.preload)
                raise SandboxError(
                    f"the fork-server (level {level}, preload {preload}) did not start: {reason}; "
                    "run `python -m evovpo.sandbox --selftest` to see what works here"
                )
            self._opened = opened.pop_all()

    def _refusal(self) -> str:
        """Return why the fork-server that was just started does not work; empty if it does."""
        self._control.settimeout(START_SECONDS)
        try:
            return str(json.loads(self._control.recv(_MESSAGE_BYTES)).get("error") or "")
        except (OSError, ValueError):
            log = os.pread(self._descriptors[2], _MESSAGE_BYTES, 0).decode(errors="replace")
            return log.strip()[-500:] or f"no sign of life within {START_SECONDS:g} s"

    def _end(self) -> None:
        assert self._process is not None
        self._control.close()  # the server ends by itself, and so does bubblewrap around it
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _rewind(self, payload: bytes) -> None:
        """Empty the memory files and write the payload: nothing passes from one program to the next."""
        for descriptor in self._descriptors:
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)  # the position is shared with the children
        written = 0
        while written < len(payload):
            written += os.pwrite(self._descriptors[0], payload[written:], written)

    def _ask(self, request: bytes, seconds: float) -> bytes:
        """Return the fork-server's answer, empty if it died or took longer."""
        self._control.settimeout(seconds)
        try:
            self._control.send(request)
            return self._control.recv(_MESSAGE_BYTES)
        except OSError:
            return b""


@functools.lru_cache(maxsize=64)
def _request(limits: Limits) -> bytes:
    return json.dumps(asdict(limits)).encode()


def _server_settings(settings: Settings) -> dict[str, Json]:
    """Return what the fork-server reads at its start."""
    libraries = library_paths(settings.preload)
    rules = reading_rules([*python_paths(), *libraries, *SYSTEM_PATHS], [*settings.hidden, str(PACKAGE)])
    abi = probe().landlock_abi if settings.landlock_abi is None else settings.landlock_abi
    has_landlock = settings.level.has_landlock and "landlock" not in settings.switched_off
    has_seccomp = settings.level is not Level.NONE and "seccomp" not in settings.switched_off
    is_sealed = settings.level is Level.SECCOMP
    return {
        "preload": [*(SEALED_PRELOAD.split(", ") if is_sealed else ()), *settings.preload],
        "library_paths": list(libraries),
        "readable": [list(rule) for rule in rules],
        "landlock_abi": abi if has_landlock else 0,
        "server_filter": compiled_filter("sealed" if is_sealed else "server") if has_seccomp else "",
        "child_filter": compiled_filter("child") if has_seccomp else "",
    }


def compiled_filter(name: str) -> str:
    """Return a seccomp filter for this processor, in hexadecimal digits."""
    return filter_path(name, platform.machine()).read_bytes().hex()


def _namespaces(settings: Settings) -> list[str]:
    """Return the command line of what is around a fork-server. It holds no secrets."""
    if settings.level is not Level.BWRAP_LANDLOCK_SECCOMP:
        return []
    return bwrap_command([*library_paths(settings.preload), str(SERVER_FOLDER)])
