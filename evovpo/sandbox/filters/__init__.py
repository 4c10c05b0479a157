"""Compiled seccomp filters (`*.bpf`, classic BPF), and `build`, which makes them.

`server` bounds the fork-server and all its children, and `sealed` is the same without opening files;
`child` is added in each child on top, so a candidate may do what both allow. Two filters because loading
one costs time in proportion to its size: the long one is loaded once, a child loads the short one only.
`whole` bounds an evaluator that imports its candidate; `outside` takes from it the processes that are not
its own, and `metadata` the owners, modes and times of files.
"""

import platform
from pathlib import Path


def filter_path(name: str, architecture: str) -> Path:
    """Return where a filter of an architecture (as `platform.machine()`) is kept."""
    return Path(__file__).with_name(f"{name}-{architecture}.bpf")


def compiled_filter(name: str) -> str:
    """Return a seccomp filter for this processor, in hexadecimal digits."""
    return filter_path(name, platform.machine()).read_bytes().hex()
