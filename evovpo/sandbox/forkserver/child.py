"""What a forked child does: lock itself down, then run what is not trusted."""

import contextlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from . import kernel


def become(
    parent: int, lock_down: Callable[[], None], ready: int, first_closed: int, run: Callable[[], None]
) -> NoReturn:
    """Lock this fresh child of `parent` down, run what is not trusted, and exit.

    A byte on the pipe `ready` says that the lock-down is complete; the pipe is closed, with every
    descriptor from `first_closed` on, before anything runs that could forge the byte, or pass its own
    failure off as the sandbox's.
    """
    code = 1
    try:
        kernel.die_with_parent()
        if os.getppid() != parent:  # it died before the call above
            os._exit(1)
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
    """Write out what was printed, but for these errors: the log may be full, or closed."""
    with contextlib.suppress(*expected):
        sys.stdout.flush()
        sys.stderr.flush()
