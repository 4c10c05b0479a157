"""Compiled seccomp filters (`*.bpf`, classic BPF), and `build`, which makes them.

`server` bounds the fork-server and all its children; `child` is added in each child on top, so a
candidate may do what both allow. Two filters because loading one costs time in proportion to its
size: the long one is loaded once, a child loads the short one only.
"""

from pathlib import Path

FOLDER = Path(__file__).parent


def filter_path(name: str, architecture: str) -> Path:
    """Return where the filter `server` or `child` of an architecture (as `platform.machine()`) is kept."""
    return FOLDER / f"{name}-{architecture}.bpf"
