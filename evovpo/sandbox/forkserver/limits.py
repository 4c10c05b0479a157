"""Resource limits that never go above those that a process was given."""

import resource


def mapped_bytes() -> int:
    """Return the size of this process's address space."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def clamped(name: int, soft: int, hard: int) -> tuple[int, int]:
    """Return two limits, neither above what this process was given."""
    ceiling = resource.getrlimit(name)[1]
    return (soft, hard) if ceiling == resource.RLIM_INFINITY else (min(soft, ceiling), min(hard, ceiling))
