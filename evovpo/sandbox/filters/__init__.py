"""Compiled seccomp filters (`*.bpf`, classic BPF), and `build`, which compiles them.

`server` restricts the fork-server and its children. `sealed` also forbids opening files. `child` adds
restrictions to each child. `whole` restricts an evaluator that imports its candidate. `outside` forbids
acting on other processes. `metadata` turns changes of owner, mode or times into no-ops.
"""

import platform
from pathlib import Path


def filter_path(name: str, architecture: str) -> Path:
    """Return the path of a filter. `architecture` is a result of `platform.machine()`, such as `x86_64`."""
    return Path(__file__).with_name(f"{name}-{architecture}.bpf")


def compiled_filter(name: str) -> str:
    return filter_path(name, platform.machine()).read_bytes().hex()
