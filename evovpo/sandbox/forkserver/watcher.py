"""The watcher: lets a child (the zygote) fork evaluations, limits their resources, and kills their processes.

The arguments are four file descriptors, as for `server`: settings, result (not used), standard error and
control socket. Each request comes with descriptors for the payload, result and log of an evaluation, and
optionally for a socket for calls. The watcher reads only the log.
"""

import contextlib
import json
import os
import select
import signal
import socket
import time
from typing import Any

from . import kernel, processes, zygote
from .child import own_cpu_ms
from .folders import empty, folder_bytes
from .server import serve

WATCH_SECONDS = 0.02
FOLDER_WATCH_SECONDS = 0.25
"""Interval between checks of the private folder's size, if the kernel does not limit it."""
FLOOD_BYTES = 256 << 20
"""A larger log ends the evaluation. The stored log is always cut to `Limits.log_bytes`."""
MEMORY_SHARE = 2
"""Memory limit of all processes of an evaluation together, as a multiple of the limit of one process."""
END_SECONDS = 10.0
_CHUNK_BYTES = 1 << 16
_MESSAGE_BYTES = 4096


def main(arguments: list[str]) -> None:
    """Watch one evaluation after another until the supervisor closes the control socket or dies."""
    payload, _, _, control_end = map(int, arguments)
    settings = json.loads(os.pread(payload, os.fstat(payload).st_size, 0))
    with socket.socket(fileno=control_end) as control:
        try:
            watcher = _Watcher(settings, control)
        except Exception as error:  # the supervisor raises it as a SandboxError
            control.send(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
            return
        try:
            with contextlib.suppress(BrokenPipeError):
                control.send(json.dumps({"reason": watcher.reason}).encode())
            serve(control, watcher.evaluate)
        finally:
            watcher.end()


class _Watcher:
    def __init__(self, settings: dict[str, Any], control: socket.socket) -> None:
        kernel.adopt_orphans()
        self.settings, self.control, self.limits = settings, control, settings["limits"]
        settings["user"] = _private_user(settings)
        self._counted_ms = 0.0
        self.reason = self._start(is_warm=True)
        """Reason that each evaluation imports the evaluator anew; empty if the zygote has imported it."""
        if self.reason:
            self._end_zygote()
            self._start(is_warm=False)

    def _start(self, is_warm: bool) -> str:
        """Start a zygote. Return the reason that evaluations cannot share one import, or an empty text."""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        watcher = os.getpid()
        self.zygote = kernel.fork_unwaited()
        if self.zygote == 0:
            zygote.become_zygote(self.settings, theirs.fileno(), watcher, is_warm)
        theirs.close()
        wanted = [self.socket, self.control]
        ready, _, _ = select.select(wanted, [], [], self.limits["wall_seconds"])
        reason = "took too long"
        if self.socket in ready:
            reason = json.loads(self.socket.recv(_MESSAGE_BYTES) or b"{}").get("reason", "ended the process")
        if len(processes.descendants(watcher)) > 1:
            reason = reason or "started processes"
        if not is_warm and reason:
            raise RuntimeError(f"the process that is to fork evaluations {reason}")
        self._clean()
        return str(reason)

    def _end_zygote(self) -> None:
        os.kill(self.zygote, signal.SIGKILL)
        kernel.wait_for_unwaited(self.zygote)
        processes.end_all(os.getpid())
        self.socket.close()

    def end(self) -> None:
        """End the zygote and remove the private folder, in case the supervisor died without removing it."""
        self._end_zygote()
        self._clean()
        with contextlib.suppress(OSError):
            os.rmdir(self.settings["work"])  # noqa: PTH106

    def _clean(self) -> bool:
        emptied = [empty(folder) for folder in (self.settings["work"], *self.settings["shared"])]
        return all(emptied)

    def evaluate(self, _: bytes, descriptors: list[int]) -> dict[str, Any]:
        payload, result, log, *calls = descriptors
        ready_reader, ready_writer = os.pipe()
        log_reader, log_writer = os.pipe()
        started = time.monotonic()
        passed = [result, payload, log_writer, ready_writer, *calls]
        socket.send_fds(self.socket, [b"evaluate"], passed)
        for number in passed:
            os.close(number)
        self._log_reader, self._log, self._logged = log_reader, log, 0
        os.set_blocking(log_reader, False)
        ended_for = self._until_end(started)
        for process in self._processes() if ended_for else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.socket.settimeout(END_SECONDS)
        ended = json.loads(self.socket.recv(_MESSAGE_BYTES))
        wall_ms = (time.monotonic() - started) * 1e3
        is_over = processes.end_all(os.getpid(), kept=self.zygote)
        self._drain()
        now_ms = own_cpu_ms()
        report = {
            "status": ended["status"],
            "is_ready": is_over and os.read(ready_reader, 1) == b"R",
            "ended_for": ended_for,
            "is_over": is_over,
            "wall_ms": wall_ms,
            "cpu_ms": now_ms - self._counted_ms + ended["cpu_ms"],
            "child_cpu_ms": ended["child_cpu_ms"],
            "is_spent": not self._clean(),
        }
        self._counted_ms = now_ms
        for number in (ready_reader, log_reader, log):
            os.close(number)
        return report

    def _until_end(self, started: float) -> str:
        """Wait for the evaluation; return the reason to end it, or an empty text if it ended by itself."""
        self._poll = select.poll()
        for number in (self.socket.fileno(), self._log_reader, self.control.fileno()):
            self._poll.register(number, select.POLLIN)
        watched, self._folder_watched = 0.0, started
        deadline = started + self.limits["wall_seconds"]
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "wall"
            events = {number for number, _ in self._poll.poll(min(left, WATCH_SECONDS) * 1e3)}
            if self.socket.fileno() in events:
                return ""
            if self.control.fileno() in events:
                return "supervisor"
            if self._log_reader in events:
                self._drain()
            now = time.monotonic()
            if now - watched >= WATCH_SECONDS:
                watched = now
                excess = self._excess(now)
                if excess:
                    return excess

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._log_reader, _CHUNK_BYTES):
                os.write(self._log, chunk[: max(0, self.limits["log_bytes"] - self._logged)])
                self._logged += len(chunk)
                if self._logged > FLOOD_BYTES:
                    return
            with contextlib.suppress(KeyError):  # end of the pipe: poll would report it forever
                self._poll.unregister(self._log_reader)

    def _processes(self) -> list[int]:
        return [process for process in processes.descendants(os.getpid()) if process != self.zygote]

    def _excess(self, now: float) -> str:
        """Return the name of a limit that the evaluation's processes exceed together, or an empty text."""
        found, most_memory = self._processes(), MEMORY_SHARE * self.limits["memory_mb"] << 20
        tasks, memory_bytes = processes.usage(found)
        if tasks > 1 + self.limits["processes"] + self.limits["threads"]:
            return "tasks"
        if memory_bytes > most_memory and processes.own_bytes(found) > most_memory:
            return "memory"
        if self._logged > FLOOD_BYTES:
            return "log"
        if now - self._folder_watched > FOLDER_WATCH_SECONDS and not self.settings["has_disk_limit"]:
            self._folder_watched = now
            most_bytes = self.limits["disk_mb"] << 20
            if folder_bytes(self.settings["work"], most_bytes) > most_bytes:
                return "disk"
        return ""


def _private_user(settings: dict[str, Any]) -> int | None:
    """Make an unused user the owner of the private folder. Return the user's id, or None if not possible."""
    settings["reading_capability"] = kernel.reading_capability()
    user: int | None = settings["private_user"]
    if user is None or os.geteuid() != 0 or settings["reading_capability"] is None:
        return None
    try:
        os.chown(settings["work"], user, user)
    except OSError:
        return None
    return user
