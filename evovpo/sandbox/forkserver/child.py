"""The forked child: restricts itself, then runs untrusted code."""

import contextlib
import fcntl
import os
import resource
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

from . import kernel


def place(descriptors: Mapping[int, int]) -> None:
    """Move descriptors to the numbers given as keys, and close all others except standard input."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64) for descriptor in descriptors.values()]
    os.closerange(3, 64)
    for number, descriptor in zip(descriptors, high, strict=True):
        os.dup2(descriptor, number, inheritable=number <= 2)
    os.closerange(64, 1 << 16)


def become(
    parent: int, lock_down: Callable[[], None], ready: int, first_closed: int, run: Callable[[], None]
) -> NoReturn:
    """Lock down this fresh child of `parent`, run untrusted code, and exit.

    A byte on the pipe `ready` reports that the lock-down is complete; the pipe and every descriptor from
    `first_closed` on are closed before any code runs that could forge it.
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
    """Return the size of this process's address space."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def cpu_ms(usage: resource.struct_rusage) -> float:
    """Return user and system CPU time, in milliseconds."""
    return (usage.ru_utime + usage.ru_stime) * 1e3


def own_cpu_ms() -> float:
    """Return the CPU time of this process and its waited-for children, in milliseconds."""
    return sum(cpu_ms(resource.getrusage(who)) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
