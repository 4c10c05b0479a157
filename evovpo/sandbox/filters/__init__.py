"""Compiled seccomp filters (`*.bpf`, classic BPF), and `build`, which makes them.

`server` bounds the fork-server and all its children, `sealed` too and without opening files; `child` is added
in each child, short because loading costs time. `whole` bounds an evaluator that imports its candidate;
`outside` takes from it other processes, and `metadata` the owners, modes and times of files.
"""

import platform
from pathlib import Path


def filter_path(name: str, architecture: str) -> Path:
    """Return where a filter of an architecture (as `platform.machine()`) is kept."""
    return Path(__file__).with_name(f"{name}-{architecture}.bpf")


def compiled_filter(name: str) -> str:
    """Return a seccomp filter for this processor, in hexadecimal digits."""
    return filter_path(name, platform.machine()).read_bytes().hex()
