"""Counts, measures and ends the descendants of a process."""

import contextlib
import os
import signal
import time


def descendants(ancestor: int) -> list[int]:
    """Return the ids of all processes below `ancestor`, in no order; those that just end may be missing."""
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
    """Return how many tasks processes are, with their threads, and the bytes of memory that is no file's."""
    tasks = memory_bytes = 0
    for process in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            tasks += len(os.listdir(f"/proc/{process}/task"))  # noqa: PTH208
            memory_bytes += _sum(f"/proc/{process}/status", b"RssAnon:", b"RssShmem:")
    return tasks, memory_bytes


def own_bytes(processes: list[int]) -> int:
    """Return what `usage` counts, each page once; it takes longer, and needs the right to trace them."""
    found = 0
    for process in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            try:
                found += _sum(f"/proc/{process}/smaps_rollup", b"Pss_Anon:", b"Pss_Shmem:")
            except PermissionError:
                found += _sum(f"/proc/{process}/status", b"RssAnon:", b"RssShmem:")
    return found


def _sum(file: str, *names: bytes) -> int:
    """Return the bytes that lines of these names give in kB."""
    with open(file, "rb") as lines:
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(names))


def end_all(ancestor: int, seconds: float = 10.0, kept: int = 0) -> bool:
    """Kill everything below `ancestor` and wait for it; true if nothing is left after at most `seconds`.

    If `ancestor` is this process and adopts orphans, none can leave by having its parent end. Then an
    unwaited child may be `kept`, which must have no child of its own any more.
    """
    deadline = time.monotonic() + seconds
    is_own = ancestor == os.getpid()
    while True:
        alive = [process for process in descendants(ancestor) if process != kept]
        for process in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        # Of another's descendants the parent may be unable to collect those that ended.
        is_over = not (_collect() if is_own else any(map(_is_running, alive)))
        if is_over or time.monotonic() > deadline:
            return is_over
        time.sleep(0.001)


def _collect() -> bool:
    """Collect the children of this process that ended; true if there are others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _is_running(process: int) -> bool:
    """True unless the process is gone or only waits to be collected."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
