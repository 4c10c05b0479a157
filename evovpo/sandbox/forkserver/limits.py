"""Resource limits that never go above those that a process was given, and what was used of them."""

import resource


def mapped_bytes() -> int:
    """Return the size of this process's address space."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def clamped(name: int, soft: int, hard: int) -> tuple[int, int]:
    """Return two limits, neither above what this process was given."""
    ceiling = resource.getrlimit(name)[1]
    return (soft, hard) if ceiling == resource.RLIM_INFINITY else (min(soft, ceiling), min(hard, ceiling))


def cpu_ms(usage: resource.struct_rusage) -> float:
    """Return the CPU time of a usage, in milliseconds."""
    return (usage.ru_utime + usage.ru_stime) * 1e3


def own_cpu_ms() -> float:
    """Return the CPU time of this process and of the children that it has waited for, in milliseconds."""
    return sum(cpu_ms(resource.getrusage(who)) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
