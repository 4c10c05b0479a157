"""The forked child: sets its resource limits, restricts itself, then runs untrusted code."""

import contextlib
import fcntl
import os
import resource
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from . import kernel


def place(descriptors: Mapping[int, int]) -> None:
    """Move file descriptors: `descriptors` is {new number: old number}. Close all others above 2."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64) for descriptor in descriptors.values()]
    os.closerange(3, 64)
    for number, descriptor in zip(descriptors, high, strict=True):
        os.dup2(descriptor, number, inheritable=number <= 2)
    os.closerange(64, 1 << 16)


def become(
    parent: int, lock_down: Callable[[], None], ready: int, first_closed: int, run: Callable[[], None]
) -> NoReturn:
    """Lock down this newly forked child of `parent`, run untrusted code, and exit.

    A byte on the pipe `ready` reports that the lock-down is complete. The descriptors from `first_closed` on,
    including the pipe, are then closed, so that untrusted code cannot forge the byte.
    """
    code = 1
    try:
        kernel.die_with(parent)
        lock_down()
        os.write(ready, b"R")
        os.closerange(first_closed, 1 << 16)
        run()
        code = 0
    except BaseException as error:  # the last frame of an untrusted process: report and end
        os.write(2, f"[sandbox child] {type(error).__name__}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(code)


def flush(*expected: type[Exception]) -> None:
    """Flush standard output and error, ignoring `expected` errors: the log may be full or closed."""
    with contextlib.suppress(*expected):
        sys.stdout.flush()
        sys.stderr.flush()


def mapped_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def cpu_ms(usage: resource.struct_rusage) -> float:
    return (usage.ru_utime + usage.ru_stime) * 1e3


def own_cpu_ms() -> float:
    """Return the CPU time of this process and of the children it has waited for, in milliseconds."""
    return sum(cpu_ms(resource.getrusage(who)) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def clamped(name: int, soft: int, hard: int) -> tuple[int, int]:
    """Return `soft` and `hard`, lowered to this process's present hard limit for the resource `name`."""
    ceiling = resource.getrlimit(name)[1]
    return (soft, hard) if ceiling == resource.RLIM_INFINITY else (min(soft, ceiling), min(hard, ceiling))


def limit_candidate(wanted: dict[str, Any], own_bytes: int) -> None:
    """Set the soft resource limits that the next children of this fork-server inherit."""
    for name, value in (
        (resource.RLIMIT_AS, own_bytes + (wanted["memory_mb"] << 20)),
        (resource.RLIMIT_FSIZE, max(wanted["result_bytes"], wanted["log_bytes"]) + 1),
        (resource.RLIMIT_STACK, wanted["stack_mb"] << 20),
        (resource.RLIMIT_NOFILE, wanted["open_files"]),
    ):
        resource.setrlimit(name, (clamped(name, value, value)[0], resource.getrlimit(name)[1]))


def limit_evaluation(settings: dict[str, Any], other_tasks: int, is_final: bool) -> None:
    """Apply the resource limits to this process and its future children, irrevocably if `is_final`."""
    limits = settings["limits"]
    tasks = limits["processes"] + limits["threads"]
    values = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_AS: settings["own_bytes"] + (limits["memory_mb"] << 20),
        resource.RLIMIT_FSIZE: max(limits["disk_mb"] << 20, limits["result_bytes"] + 1),
        resource.RLIMIT_STACK: limits["stack_mb"] << 20,
        # The kernel counts all tasks of the user: this process, the zygote and, unless the user is private,
        # everything else that the user runs.
        resource.RLIMIT_NPROC: 2 + tasks + (0 if settings["user"] is not None else other_tasks),
    }
    for name, value in values.items():
        soft, hard = clamped(name, value, value)
        resource.setrlimit(name, (soft, hard if is_final else resource.getrlimit(name)[1]))
    if is_final:
        files, seconds = limits["open_files"], limits["cpu_seconds"]
        resource.setrlimit(resource.RLIMIT_NOFILE, clamped(resource.RLIMIT_NOFILE, files, files))
        resource.setrlimit(resource.RLIMIT_CPU, clamped(resource.RLIMIT_CPU, seconds, seconds + 1))
