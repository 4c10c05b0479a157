"""The sandbox of macOS, by its program sandbox-exec. Written from its documentation, never run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from evovpo.sandbox.paths import python_executable

SANDBOX_EXEC = "/usr/bin/sandbox-exec"


def seatbelt_profile(readable: Iterable[str], hidden: Iterable[str], programs: Iterable[str]) -> str:
    """Return rules, in sandbox-exec's language, that refuse all but reading what is named and not hidden.

    `programs` can be read even in something hidden. Starting this one Python is allowed, forking is not;
    names and metadata of all files can be seen. Of several rules that fit the last one counts.
    """
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow sysctl-read)",
        "(allow file-read-metadata)",
        f"(allow process-exec (literal {_quoted(python_executable())}))",
        f"(allow process-exec (literal {_quoted(os.path.realpath(sys.executable))}))",
        '(allow file-read* (literal "/") (subpath "/usr/lib") (subpath "/System/Library"))',
        '(allow file-read* (literal "/dev/null") (literal "/dev/urandom") (literal "/dev/random"))',
    ]
    lines += [f"(allow file-read* (subpath {_quoted(path)}))" for path in readable]
    lines += [f"(deny file-read-data (subpath {_quoted(path)}))" for path in hidden]
    lines += [f"(allow file-read* (subpath {_quoted(path)}))" for path in programs]
    return "\n".join(lines)


def sandbox_exec_works() -> bool:
    """True on macOS where sandbox-exec takes a profile; tried with one that allows everything."""
    if sys.platform != "darwin" or not Path(SANDBOX_EXEC).exists():
        return False
    command = [SANDBOX_EXEC, "-p", "(version 1)(allow default)", "/usr/bin/true"]
    try:
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
