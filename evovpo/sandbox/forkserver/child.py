"""What a forked child does: lock itself down, then run the candidate."""

import contextlib
import os
import resource
import sys
from typing import NoReturn

from . import calls, kernel, program

CONTROL, READY_READER, READY_WRITER = 5, 6, 7
"""File descriptors of the server, after those of `program`; the child keeps only the latter. In place of
`CONTROL` a candidate that answers calls has the socket that they come by."""


def become_candidate(
    server_pid: int, cpu_seconds: tuple[int, int], child_filter: kernel.Filter | None, call_socket: int | None
) -> NoReturn:
    """Lock this fresh child down, run the candidate of the payload, or let it answer calls, and exit.

    Landlock, the server's seccomp filter and the other resource limits are inherited. A byte on the
    ready pipe says that the lock-down is complete; the pipe is closed before the candidate runs, so
    it cannot forge the byte, nor pass its own failure off as the sandbox's.
    """
    code = 1
    try:
        kernel.die_with_parent()
        if os.getppid() != server_pid:  # it died before the call above
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_CPU, cpu_seconds)
        if child_filter is not None:
            child_filter.load()
        os.write(READY_WRITER, b"R")
        if call_socket is None:
            os.closerange(CONTROL, 1 << 16)
            program.run_payload()
        else:
            os.dup2(call_socket, CONTROL)
            os.closerange(CONTROL + 1, 1 << 16)
            calls.serve(CONTROL, program.read_payload()[0])
        with contextlib.suppress(OSError):  # the log is full
            sys.stdout.flush()
            sys.stderr.flush()
        code = 0
    except BaseException as error:  # the last frame of an untrusted process: report and end
        os.write(2, f"[sandbox child] {type(error).__name__}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(code)
