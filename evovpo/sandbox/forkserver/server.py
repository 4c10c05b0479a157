"""The loop of the fork-server: for each request, fork a child, wait for it, and report how it ended.

The arguments are the descriptors of three memory files (payload, result, log) and a SOCK_SEQPACKET control
socket. The supervisor, which started this server, rewrites the files for every request. The first payload has
the server's settings. A request contains limits as JSON. A report has only facts from the kernel.
"""

import array  # noqa: F401  # needed by `socket.recv_fds` once no file can be opened
import contextlib
import gc
import importlib
import json
import marshal
import math
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from . import calls, child, kernel, program
from .child import cpu_ms, mapped_bytes, own_cpu_ms

PRELOAD = (
    "bisect, collections, copy, dataclasses, datetime, functools, heapq, itertools, json, math, operator, "
    "random, re, string, typing"
)
"""Standard modules imported in advance: an import in every child would dominate the cost of a run."""

WARM_UP: program.Payload = (
    "import re\ndef f(x):\n    return [re.sub('a', 'b', s) for s in x.split() if s]",
    "f",
    [["a b"], [1]],
    True,
)
"""A program that runs once before any fork, so that children inherit Python's lazy initialisations."""

SEED = 0

CONTROL, READY_READER, READY_WRITER = 5, 6, 7
"""Descriptors of the control socket and the two ends of the ready pipe. A child closes all three; a candidate
that answers calls has its call socket in place of `CONTROL`."""
_MOST_DESCRIPTORS = 8


def main(arguments: list[str]) -> None:
    """Serve requests until the supervisor closes the control socket or dies."""
    payload, result, log, control_end = map(int, arguments)
    child.place({1: log, 2: log, program.PAYLOAD: payload, program.RESULT: result, CONTROL: control_end})
    for end, number in zip(os.pipe(), (READY_READER, READY_WRITER), strict=True):
        if end != number:
            raise OSError(f"the ready pipe got descriptor {end}, expected {number}")
    os.set_blocking(READY_READER, False)
    with socket.socket(fileno=CONTROL) as control:
        try:
            settings = json.loads(os.pread(program.PAYLOAD, os.fstat(program.PAYLOAD).st_size, 0))
            _load(settings["library_paths"], settings["preload"])
            own_bytes = mapped_bytes()
            for name in ("CORE", "MEMLOCK", "MSGQUEUE", "RTPRIO"):
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (0, 0))
            kernel.drop_privileges()
            kernel.close_to_others()  # a child could steal the ready byte
            if settings["landlock_abi"]:
                ruleset = kernel.file_rules(settings["readable"], settings["landlock_abi"])
                kernel.restrict(ruleset, settings["landlock_abi"])
                os.close(ruleset)
            if settings["server_filter"]:
                kernel.Filter(bytes.fromhex(settings["server_filter"])).load()
        except Exception as error:  # the supervisor raises it as a SandboxError
            control.send(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
            return
        control.send(b"{}")
        compiled = bytes.fromhex(settings["child_filter"])
        child_filter = kernel.Filter(compiled) if compiled else None
        gc.collect()
        gc.freeze()  # garbage collection in a child would copy every page it visits
        serve(control, _Programs(control, child_filter, own_bytes).run)


def _load(library_paths: list[str], preload: list[str]) -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.path += library_paths
    with _without_fork_hooks():
        for name in [*PRELOAD.split(", "), *preload]:
            importlib.import_module(name)
        if "numpy" in sys.modules:
            importlib.import_module("numpy.random").seed(SEED)  # lazy in numpy 2, and slow to import
        importlib.import_module("random").seed(SEED)
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208  # pathlib is not loaded here
    if threads != 1:
        raise RuntimeError(f"preloading {preload} started {threads - 1} threads, which do not survive a fork")
    os.ftruncate(program.PAYLOAD, 0)
    os.pwrite(program.PAYLOAD, marshal.dumps(WARM_UP), 0)
    program.run_payload()
    del sys.modules["candidate"]


@contextlib.contextmanager
def _without_fork_hooks() -> Iterator[None]:
    """Prevent modules from registering fork hooks, which take half a millisecond per child.

    The hook of `random` would also reseed each child, but all children must have the same seed.
    """
    register = os.register_at_fork
    os.register_at_fork = lambda **_: None
    try:
        yield
    finally:
        os.register_at_fork = register


def serve(control: socket.socket, answer: Callable[[bytes, list[int]], dict[str, Any]]) -> None:
    """Answer requests until the supervisor is gone. `answer` gets a request and its file descriptors."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while True:
            received, descriptors, _, _ = socket.recv_fds(control, 4096, _MOST_DESCRIPTORS)
            if not received:
                return
            if received == b"usage":
                control.send(json.dumps({"cpu_seconds": own_cpu_ms() / 1e3}).encode())
            elif received != b"end":  # "end" may arrive just after the child ended by itself
                control.send(json.dumps(answer(received, descriptors)).encode())


class _Programs:
    def __init__(self, control: socket.socket, child_filter: kernel.Filter | None, own_bytes: int) -> None:
        self._control, self._child_filter, self._own_bytes = control, child_filter, own_bytes
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)  # the supervisor hangs up or ends the child
        self._request, self._cpu_seconds, self._wall_ms = b"", (0, 0), 0

    def run(self, request: bytes, sockets: list[int]) -> dict[str, Any]:
        if request != self._request:
            self._request, wanted = request, json.loads(request)
            child.limit_candidate(wanted, self._own_bytes)
            # The soft limit is lower: its signal distinguishes a timeout from a crash.
            seconds = wanted["cpu_seconds"]
            self._cpu_seconds = child.clamped(resource.RLIMIT_CPU, seconds, seconds + 1)
            self._wall_ms = math.ceil(wanted["wall_seconds"] * 1e3)
        started, server_pid = time.monotonic(), os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_candidate(server_pid, sockets)
        for number in sockets:
            os.close(number)
        return self._wait_for(pid) | {"wall_ms": (time.monotonic() - started) * 1e3}

    def _become_candidate(self, server_pid: int, sockets: list[int]) -> NoReturn:
        def lock_down() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, self._cpu_seconds)
            if sockets:
                os.dup2(sockets[0], CONTROL)
            if self._child_filter is not None:
                self._child_filter.load()

        def run() -> None:
            if sockets:
                calls.serve(CONTROL, program.read_payload()[0])
            else:
                program.run_payload()
            child.flush(OSError)

        child.become(server_pid, lock_down, READY_WRITER, CONTROL + len(sockets), run)

    def _wait_for(self, pid: int) -> dict[str, Any]:
        pidfd = os.pidfd_open(pid)
        self._poll.register(pidfd, select.POLLIN)
        events = {descriptor for descriptor, _ in self._poll.poll(self._wall_ms)}
        ended_for = ""
        if pidfd not in events:
            os.kill(pid, signal.SIGKILL)
            ended_for = "wall"
            if events:
                ended_for = "supervisor"
                self._control.recv(64)
        _, status, usage = os.wait4(pid, 0)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        is_ready = False
        with contextlib.suppress(BlockingIOError):
            is_ready = os.read(READY_READER, 1) == b"R"
        used_ms = cpu_ms(usage)
        return {
            "status": status,
            "is_ready": is_ready,
            "ended_for": ended_for,
            "cpu_ms": used_ms,
            "child_cpu_ms": used_ms,
        }
