"""The process that forks one evaluation, watches what it uses, and ends everything that it started.

Started with descriptors of payload, result and log (memory files), of the control socket, and perhaps of
a socket by which a candidate elsewhere answers calls. It runs one evaluation, sends a report of what it
and the kernel know, and ends; in namespaces of its own, they end with it. It reads nothing that the
evaluation writes but its log, and that only to cut it.
"""

import contextlib
import json
import os
import select
import signal
import time
from typing import Any

from . import evaluation, kernel, processes
from .child import cpu_ms, own_cpu_ms

WATCH_SECONDS = 0.02
"""Between two looks at processes and memory."""
FOLDER_WATCH_SECONDS = 0.25
"""Between two looks at the size of the private folder, where the kernel does not limit it."""
FLOOD_BYTES = 256 << 20
"""A log that is longer ends the evaluation; of a shorter one the rest is thrown away."""
MEMORY_SHARE = 2
"""All processes of an evaluation together may use this many times the memory of one."""
_CHUNK_BYTES = 1 << 16
_MOST_FILES = 10_000


def main(arguments: list[str]) -> None:
    """Run the one evaluation of the payload and report, unless the supervisor is gone."""
    payload, result, log, control, *call_sockets = map(int, arguments)
    try:
        settings = json.loads(os.pread(payload, os.fstat(payload).st_size, 0))
        report = _watch(settings, [result, *call_sockets], log, control)
    except Exception as error:  # whatever it is, the supervisor makes it a sandbox_error
        report = {"error": f"{type(error).__name__}: {error}"}
    with contextlib.suppress(OSError):
        os.write(control, json.dumps(report).encode())


def _watch(settings: dict[str, Any], kept: list[int], log: int, control: int) -> dict[str, Any]:
    """Return how the evaluation ended; raises OSError where it cannot even be started."""
    kernel.adopt_orphans()
    user = _private_user(settings)
    ready_reader, ready_writer = os.pipe()
    log_reader, log_writer = os.pipe()
    started = time.monotonic()
    watcher = os.getpid()
    child = os.fork()
    if child == 0:
        evaluation.become_evaluation(settings, watcher, user, kept, log_writer, ready_writer)
    os.close(ready_writer)
    os.close(log_writer)
    watch = _Watch(settings, child, log_reader, log, control)
    try:
        ended_for = watch.until_end(started + settings["limits"]["wall_seconds"])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
        wall_ms = (time.monotonic() - started) * 1e3
        is_over = processes.end_all(watcher)
    watch.drain()
    if ended_for == "supervisor":  # which removes the private folder otherwise
        import shutil

        shutil.rmtree(settings["work"], ignore_errors=True)
    return {
        "status": status,
        "is_ready": os.read(ready_reader, 1) == b"R",
        "ended_for": ended_for,
        "is_over": is_over,
        "wall_ms": wall_ms,
        "cpu_ms": own_cpu_ms(),
        "child_cpu_ms": cpu_ms(usage),
    }


def _private_user(settings: dict[str, Any]) -> int | None:
    """Return a user that nobody else is, who owns the private folder from now on; none if there is no such.

    Only root can run as others, and in a container perhaps not even root.
    """
    settings["reading_capability"] = kernel.reading_capability()
    user: int | None = settings["private_user"]
    if user is None or os.geteuid() != 0 or settings["reading_capability"] is None:
        return None
    try:
        os.chown(settings["work"], user, user)
    except OSError:
        return None
    return user


class _Watch:
    """Looks after one evaluation: its end, its log, and what all its processes use."""

    def __init__(self, settings: dict[str, Any], child: int, log_reader: int, log: int, control: int) -> None:
        self._limits = settings["limits"]
        self._work = None if settings["has_disk_limit"] else settings["work"]
        self._log_reader, self._log, self._control = log_reader, log, control
        self._logged = 0
        self._folder_watched = time.monotonic()
        os.set_blocking(log_reader, False)
        self._pidfd = os.pidfd_open(child)
        self._poll = select.poll()
        for number in (self._pidfd, log_reader, control):
            self._poll.register(number, select.POLLIN)

    def until_end(self, deadline: float) -> str:
        """Return why the evaluation is to be ended; an empty text when it ended by itself."""
        watched = 0.0
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "wall"
            events = {number for number, _ in self._poll.poll(min(left, WATCH_SECONDS) * 1e3)}
            if self._pidfd in events:
                return ""
            if self._control in events:
                return "supervisor"
            if self._log_reader in events:
                self.drain()
            now = time.monotonic()
            if now - watched >= WATCH_SECONDS:
                watched = now
                excess = self._excess(now)
                if excess:
                    return excess

    def drain(self) -> None:
        """Move what is in the pipe into the log, up to its limit, and throw the rest away."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._log_reader, _CHUNK_BYTES):
                os.write(self._log, chunk[: max(0, self._limits["log_bytes"] - self._logged)])
                self._logged += len(chunk)
                if self._logged > FLOOD_BYTES:
                    return
            with contextlib.suppress(KeyError):  # at the end of the pipe: poll would say so for ever
                self._poll.unregister(self._log_reader)

    def _excess(self, now: float) -> str:
        """Return which limit is passed by all processes together; an empty text if none is."""
        tasks, memory_bytes = processes.usage(processes.descendants(os.getpid()))
        if tasks > 1 + self._limits["processes"] + self._limits["threads"]:
            return "tasks"
        if memory_bytes > MEMORY_SHARE * self._limits["memory_mb"] << 20:
            return "memory"
        if self._logged > FLOOD_BYTES:
            return "log"
        if self._work is not None and now - self._folder_watched > FOLDER_WATCH_SECONDS:
            self._folder_watched = now
            most_bytes = self._limits["disk_mb"] << 20
            if folder_bytes(self._work, most_bytes) > most_bytes:
                return "disk"
        return ""


def folder_bytes(folder: str, enough: int) -> int:
    """Return what the files below `folder` take on disk, each counted as 4 kB at least.

    Stops counting where it is more than `enough`, or more than 10,000 files, which count as too much.
    """
    total = files = 0
    for root, folders, names in os.walk(folder):
        for name in (*folders, *names):
            with contextlib.suppress(OSError):  # it was removed meanwhile
                total += max(os.lstat(f"{root}/{name}").st_blocks * 512, 4096)
        files += len(folders) + len(names)
        if total > enough or files > _MOST_FILES:
            return enough + 1
    return total
