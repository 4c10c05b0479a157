"""Starts the running Python for a process of the sandbox, which inherits nothing but what it is passed."""

import contextlib
import os
import select
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evovpo.errors import SandboxError
from evovpo.sandbox import forkserver
from evovpo.sandbox.forkserver import processes
from evovpo.sandbox.paths import python_executable

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    # Numeric libraries that start threads cannot be forked, and are refused threads in a child.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}
"""The whole environment of a fork-server: nothing of ours is inherited."""

# Not -I: it implies -E, and without PYTHONHASHSEED the order of sets differs from server to server.
PYTHON_OPTIONS = ("-s", "-P")
SERVER_FOLDER = Path(forkserver.__file__).resolve().parent
END_SECONDS = 2.0
"""How long a process that has no more to do may take to end."""
MESSAGE_BYTES = 1 << 16


def start_python(
    role: str,
    files: Sequence[int],
    calls: socket.socket | None = None,
    *,
    around: Sequence[str] = (),
    environment: Mapping[str, str] = ENVIRONMENT,
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Return a new process of the sandbox, in a session of its own, and the socket that controls it.

    `role` is what its Python is to be: `server` or `watcher`. It gets the descriptors of `files` (payload,
    result and log, which is its standard error), of its end of the socket and of `calls`, with their
    numbers as its first arguments. `around` is a command line that isolates what follows it.

    Raises `SandboxError` if it cannot be started.
    """
    python = python_executable()
    command = [*around, python, *PYTHON_OPTIONS, str(SERVER_FOLDER / "__main__.py"), role]
    with starting():
        if shutil.which(python) is None:  # what is around it would start, and find that out too late
            raise FileNotFoundError(f"no program at {python!r}")
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as opened:
            opened.enter_context(control)
            passed = [*files, theirs.fileno(), *([] if calls is None else [calls.fileno()])]
            process = subprocess.Popen(
                [*command, *map(str, passed)],
                pass_fds=passed,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=files[2],
                start_new_session=True,
                cwd="/",
            )
            opened.pop_all()
            return process, control


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that has no more to do; kill it with all that it started if it does not end."""
    pidfd = os.pidfd_open(process.pid)  # waiting by Popen sleeps for longer and longer
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(END_SECONDS * 1e3):
            processes.end_all(process.pid)
            process.kill()
    finally:
        os.close(pidfd)
    process.wait()


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Turn an OSError in a block that makes a process of the sandbox into a `SandboxError`."""
    try:
        yield
    except OSError as error:
        raise SandboxError(
            f"programs are run by the Python at {python_executable()!r}: expected that it starts, found "
            f"{error}; if that Python is gone, make its virtual environment again, or else free memory, "
            "processes and open files"
        ) from error


@contextlib.contextmanager
def memory_files() -> Iterator[list[int]]:
    """Yield the descriptors of files in memory, open for the time of a block: payload, result and log."""
    with contextlib.ExitStack() as opened:
        files = []
        for name in ("payload", "result", "log"):
            files.append(os.memfd_create(name, os.MFD_CLOEXEC))
            opened.callback(os.close, files[-1])
        yield files
