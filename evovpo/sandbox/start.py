"""What a sandbox process needs to start: environment variables, memory files, a bubblewrap command."""

import contextlib
import functools
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from evovpo.sandbox import forkserver
from evovpo.sandbox.paths import python_executable, python_paths

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    # Numeric libraries must not start threads, which a fork would lose and a child may not start.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}
"""The complete environment of a fork-server, which inherits no variables."""

# Not -I: it implies -E, which ignores PYTHONHASHSEED, so that the order of sets would vary between servers.
PYTHON_OPTIONS = ("-s", "-P")
SERVER_FOLDER = Path(forkserver.__file__).resolve().parent


@contextlib.contextmanager
def memory_files() -> Iterator[list[int]]:
    """Yield the descriptors of three memory files (payload, result, log). They are closed after the block."""
    with contextlib.ExitStack() as opened:
        files = []
        for name in ("payload", "result", "log"):
            files.append(os.memfd_create(name, os.MFD_CLOEXEC))
            opened.callback(os.close, files[-1])
        yield files


BWRAP = "/usr/bin/bwrap"
"""Path of bubblewrap; fixed, because systems that restrict user namespaces make an exception for it only."""

HIDING = "EVOVPO_WITHOUT_BWRAP"
"""Environment variable that hides bubblewrap, for use in tests."""
ROOT_CAPABILITIES = (
    *("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_CHOWN", "CAP_KILL", "CAP_SYS_PTRACE"),
    *("CAP_DAC_READ_SEARCH", "CAP_DAC_OVERRIDE"),
)
"""Capabilities that root keeps in the namespaces: to become another user, to kill and measure that user's
processes, and to remove that user's files."""


def bwrap_command(
    readable: Iterable[str],
    writable_mb: int = 0,
    is_user_changed: bool = False,
    has_network: bool = False,
    writable: Iterable[str] = (),
) -> list[str]:
    """Return a command prefix, which runs the command after it in separate namespaces.

    The namespaces contain `/usr`, the Python installation, a new `/dev` and `/proc`, and the paths `readable`
    and `writable`. If `writable_mb` is not 0, they also contain an empty `/tmp` and an empty `/dev/shm`, each
    of that size. `has_network` adds the machine's network. If `is_user_changed` is true, there is no user
    namespace, so that a process started by root can change its user. `--die-with-parent` is not used, because
    it acts when the starting *thread* ends.
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
    command += ["--dir", "/etc"]  # bubblewrap's own would be closed to users other than root
    for path in [*python_paths(), *readable, "/etc/ld.so.cache"]:
        command += ["--ro-bind-try", path, path]
    for path in writable:
        command += ["--dev-bind", path, path]
    return [*command, "--"]


def bwrap_refusal(is_user_changed: bool = False) -> str:
    """Return the reason that bubblewrap cannot run this Python here, or an empty text if it can."""
    if os.environ.get(HIDING):
        return f"hidden by {HIDING}"
    if not Path(BWRAP).exists():
        return f"not installed at {BWRAP}"
    namespaces = bwrap_command([], is_user_changed=is_user_changed)
    command = [*namespaces, python_executable(), "-I", "-S", "-c", ""]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not start ({error})"
    return "" if ran.returncode == 0 else f"refused ({ran.stderr.decode(errors='replace').strip()[-120:]})"


@functools.cache
def can_change_user() -> bool:
    return os.geteuid() == 0 and not bwrap_refusal(is_user_changed=True)
