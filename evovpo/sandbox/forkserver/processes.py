"""Functions to count, measure and kill the descendants of a process."""

import contextlib
import os
import signal
import time


def descendants(ancestor: int) -> list[int]:
    """Return the ids of all descendants of `ancestor`, unordered. Processes about to end may be missing."""
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
    """Return the number of threads of `processes`, and their anonymous and shared memory in bytes."""
    tasks = memory_bytes = 0
    for process in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            tasks += len(os.listdir(f"/proc/{process}/task"))  # noqa: PTH208
            memory_bytes += _sum(f"/proc/{process}/status", b"RssAnon:", b"RssShmem:")
    return tasks, memory_bytes


def own_bytes(processes: list[int]) -> int:
    """Return the memory of `processes` in bytes. With ptrace rights, shared pages count only once."""
    found = 0
    for process in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            try:
                found += _sum(f"/proc/{process}/smaps_rollup", b"Pss_Anon:", b"Pss_Shmem:")
            except PermissionError:
                found += _sum(f"/proc/{process}/status", b"RssAnon:", b"RssShmem:")
    return found


def _sum(file: str, *names: bytes) -> int:
    with open(file, "rb") as lines:
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(names))


def end_all(ancestor: int, seconds: float = 10.0, kept: int = 0) -> bool:
    """Kill all descendants of `ancestor`, and return whether all ended within `seconds`.

    If `ancestor` is this process and adopts orphans, no process can escape by ending its parent. `kept` is
    the id of a child, made by `fork_unwaited`, that is not killed.
    """
    deadline = time.monotonic() + seconds
    is_own = ancestor == os.getpid()
    while True:
        alive = [process for process in descendants(ancestor) if process != kept]
        for process in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        # Descendants of another process may stay zombies, if their parent never collects them.
        is_over = not (_collect() if is_own else any(map(_is_running, alive)))
        if is_over or time.monotonic() > deadline:
            return is_over
        time.sleep(0.001)


def _collect() -> bool:
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
