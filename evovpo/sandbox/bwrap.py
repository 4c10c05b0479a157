"""Namespaces around a fork-server, by the bubblewrap program where the system has one that works."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from evovpo.sandbox.paths import python_paths

BWRAP = "/usr/bin/bwrap"
"""Only the system's own: where user namespaces are restricted, the exception is for this path."""


def bwrap_command(readable: Iterable[str]) -> list[str]:
    """Return the start of a command line that runs the rest in namespaces of its own.

    In there exist `/usr`, the Python installation, a fresh `/dev` and `/proc`, and `readable`. There is
    no `--die-with-parent`, which acts when the *thread* that started it ends: the fork-server ends at
    the end of its control socket, and the namespaces with it.
    """
    command = [
        BWRAP,
        "--unshare-all",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    command += ["--ro-bind", "/usr", "/usr"]
    for path in ("/bin", "/lib", "/lib64"):
        if Path(path).is_symlink():
            command += ["--symlink", str(Path(path).readlink()), path]
        else:
            command += ["--ro-bind-try", path, path]
    for path in [*python_paths(), *readable, "/etc/ld.so.cache"]:
        command += ["--ro-bind-try", path, path]
    return [*command, "--"]


def bwrap_refusal() -> str:
    """Return why bubblewrap cannot run this Python here; an empty text if it can."""
    if not Path(BWRAP).exists():
        return f"not installed at {BWRAP}"
    command = [*bwrap_command([]), sys.executable, "-I", "-S", "-c", ""]
    try:
        tried = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not start ({error})"
    return (
        "" if tried.returncode == 0 else f"refused ({tried.stderr.decode(errors='replace').strip()[-120:]})"
    )
