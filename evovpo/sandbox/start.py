"""Starts the running Python for a process of the sandbox, which inherits nothing but what it is passed.

Where the system has a bubblewrap program that works, that can be in namespaces.
"""

import contextlib
import functools
import os
import select
import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from evovpo.errors import SandboxError
from evovpo.sandbox import forkserver
from evovpo.sandbox.forkserver import processes
from evovpo.sandbox.paths import python_executable, python_paths

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
    *,
    around: Sequence[str] = (),
    environment: Mapping[str, str] = ENVIRONMENT,
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Return a new process of the sandbox, in a session of its own, and the socket that controls it.

    `role` is what its Python is to be: `server` or `watcher`. It gets the descriptors of `files` (payload,
    result and log, which is its standard error) and of its end of the socket, with their numbers as its
    arguments. `around` is a command line that isolates what follows it.

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
            passed = [*files, theirs.fileno()]
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


BWRAP = "/usr/bin/bwrap"
"""Only the system's own: where user namespaces are restricted, the exception is for this path."""

HIDING = "EVOVPO_WITHOUT_BWRAP"
"""Set in the environment, it makes bubblewrap count as not installed: for tests."""
ROOT_CAPABILITIES = tuple(
    f"CAP_{name}" for name in ("SETUID", "SETGID", "CHOWN", "DAC_READ_SEARCH", "DAC_OVERRIDE", "KILL")
)
"""What root keeps in there to become another user, to end what that user started and remove its files."""


def bwrap_command(
    readable: Iterable[str],
    writable_mb: int = 0,
    is_user_changed: bool = False,
    has_network: bool = False,
    writable: Iterable[str] = (),
) -> list[str]:
    """Return the start of a command line that runs the rest in namespaces of its own.

    In there exist `/usr`, the Python installation, a fresh `/dev` and `/proc`, `readable` and `writable`,
    which may be devices, and with `has_network` the network of the machine. With `writable_mb` there
    are an empty `/tmp` and `/dev/shm` as well, in memory, each of that size. With
    `is_user_changed`, which root alone can ask for, users stay what they are outside, so that the rest
    can become another. There is no `--die-with-parent`, which acts when the *thread* that started it
    ends: the fork-server ends at the end of its control socket, and the namespaces with it.
    """
    command = [BWRAP, "--new-session", "--cap-drop", "ALL"]
    if is_user_changed:
        kinds = ("pid", "ipc", "uts", "cgroup-try", *(() if has_network else ("net",)))
        command += [f"--unshare-{kind}" for kind in kinds]
        for capability in ROOT_CAPABILITIES:
            command += ["--cap-add", capability]
    else:
        command += ["--unshare-all", *(["--share-net"] if has_network else [])]
    command += ["--dev", "/dev", "--proc", "/proc"]
    if writable_mb:
        for path in ("/tmp", "/dev/shm"):
            command += ["--perms", "1777", "--size", str(writable_mb << 20), "--tmpfs", path]
    command += ["--ro-bind", "/usr", "/usr"]
    for path in ("/bin", "/lib", "/lib64"):
        if Path(path).is_symlink():
            command += ["--symlink", str(Path(path).readlink()), path]
        else:
            command += ["--ro-bind-try", path, path]
    for path in [*python_paths(), *readable, "/etc/ld.so.cache"]:
        command += ["--ro-bind-try", path, path]
    for path in writable:
        command += ["--dev-bind", path, path]
    return [*command, "--"]


def bwrap_refusal(is_user_changed: bool = False) -> str:
    """Return why bubblewrap cannot run this Python here; an empty text if it can."""
    if os.environ.get(HIDING):
        return f"hidden by {HIDING}"
    if not Path(BWRAP).exists():
        return f"not installed at {BWRAP}"
    namespaces = bwrap_command([], is_user_changed=is_user_changed)
    command = [*namespaces, python_executable(), "-I", "-S", "-c", ""]
    try:
        tried = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not start ({error})"
    return (
        "" if tried.returncode == 0 else f"refused ({tried.stderr.decode(errors='replace').strip()[-120:]})"
    )


@functools.cache
def can_change_user() -> bool:
    """True for root where it can be root in namespaces too; tried once per process."""
    return os.geteuid() == 0 and not bwrap_refusal(is_user_changed=True)
