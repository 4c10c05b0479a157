"""Starts the running Python for a process of the sandbox, which inherits nothing but what it is passed."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evovpo.errors import SandboxError
from evovpo.sandbox import forkserver
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


def start_python(
    role: str,
    passed: Sequence[int],
    log: int,
    *,
    around: Sequence[str] = (),
    environment: Mapping[str, str] = ENVIRONMENT,
) -> subprocess.Popen[bytes]:
    """Return a new process of the sandbox, in a session of its own.

    `role` is what its Python is to be: `server` or `watcher`. It gets the descriptors `passed`,
    with their numbers as its first arguments, and `log` as standard error. `around` is a command line that
    isolates what follows it.

    Raises `SandboxError` if it cannot be started.
    """
    python = python_executable()
    command = [*around, python, *PYTHON_OPTIONS, str(SERVER_FOLDER / "__main__.py"), role]
    with starting():
        if shutil.which(python) is None:  # what is around it would start, and find that out too late
            raise FileNotFoundError(f"no program at {python!r}")
        return subprocess.Popen(
            [*command, *map(str, passed)],
            pass_fds=passed,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )


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
def memory_file(name: str) -> Iterator[int]:
    """Yield the descriptor of a file in memory, open for the time of a block."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
