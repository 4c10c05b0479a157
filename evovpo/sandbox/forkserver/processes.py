"""Counts, measures and kills the descendants of a process."""

import contextlib
import os
import signal
import time


def descendants(ancestor: int) -> list[int]:
    """Return the ids of all processes below `ancestor`, unordered; some that are ending may be missing."""
    found: list[int] = []
    left = [ancestor]
    while left:
        folder = f"/proc/{left.pop()}/task"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in os.listdir(folder):  # noqa: PTH208  # pathlib is not loaded here
                with open(f"{folder}/{task}/children", encoding="ascii") as file:
                    children = [*map(int, file.read().split())]
                found += children
                left += children
    return found


def usage(processes: list[int]) -> tuple[int, int]:
    """Return the number of tasks (threads included) of processes, and their non-file memory in bytes."""
    tasks = memory_bytes = 0
    for process in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            tasks += len(os.listdir(f"/proc/{process}/task"))  # noqa: PTH208
            memory_bytes += _sum(f"/proc/{process}/status", b"RssAnon:", b"RssShmem:")
    return tasks, memory_bytes


def own_bytes(processes: list[int]) -> int:
    """Return the memory as in `usage`, but with each page counted once; slower, and needs ptrace rights."""
    found = 0
    for process in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            try:
                found += _sum(f"/proc/{process}/smaps_rollup", b"Pss_Anon:", b"Pss_Shmem:")
            except PermissionError:
                found += _sum(f"/proc/{process}/status", b"RssAnon:", b"RssShmem:")
    return found


def _sum(file: str, *names: bytes) -> int:
    """Return the sum of the named lines, converted from kB to bytes."""
    with open(file, "rb") as lines:
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(names))


def end_all(ancestor: int, seconds: float = 10.0, kept: int = 0) -> bool:
    """Kill all descendants of `ancestor` and wait for them; true if none is left after at most `seconds`.

    If `ancestor` is this process and adopts orphans, no process can escape by ending its parent. An unwaited
    child without children of its own may then be `kept`.
    """
    deadline = time.monotonic() + seconds
    is_own = ancestor == os.getpid()
    while True:
        alive = [process for process in descendants(ancestor) if process != kept]
        for process in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        # Zombies of another process's descendants may never be collected by their parent.
        is_over = not (_collect() if is_own else any(map(_is_running, alive)))
        if is_over or time.monotonic() > deadline:
            return is_over
        time.sleep(0.001)


def _collect() -> bool:
    """Collect the ended children of this process; true if others are still running."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _is_running(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
