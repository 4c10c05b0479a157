"""Resource limits of candidates and evaluations: address space, CPU time, file size, files, processes."""

import resource
from typing import Any


def clamped(name: int, soft: int, hard: int) -> tuple[int, int]:
    """Return both limits, capped at the hard limit of this process."""
    ceiling = resource.getrlimit(name)[1]
    return (soft, hard) if ceiling == resource.RLIM_INFINITY else (min(soft, ceiling), min(hard, ceiling))


def limit_candidate(wanted: dict[str, Any], own_bytes: int) -> None:
    """Apply soft limits to this process and so to its next children; the next request can raise them."""
    for name, value in (
        (resource.RLIMIT_AS, own_bytes + (wanted["memory_mb"] << 20)),
        (resource.RLIMIT_FSIZE, max(wanted["result_bytes"], wanted["log_bytes"]) + 1),
        (resource.RLIMIT_STACK, wanted["stack_mb"] << 20),
        (resource.RLIMIT_NOFILE, wanted["open_files"]),
    ):
        resource.setrlimit(name, (clamped(name, value, value)[0], resource.getrlimit(name)[1]))


def limit_evaluation(settings: dict[str, Any], other_tasks: int, is_final: bool) -> None:
    """Apply the resource limits to this process and its future children, irrevocably if `is_final`."""
    limits = settings["limits"]
    tasks = limits["processes"] + limits["threads"]
    values = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_AS: settings["own_bytes"] + (limits["memory_mb"] << 20),
        resource.RLIMIT_FSIZE: max(limits["disk_mb"] << 20, limits["result_bytes"] + 1),
        resource.RLIMIT_STACK: limits["stack_mb"] << 20,
        # All tasks of the user: this process and the zygote, and with a shared user everything else that
        # the user runs.
        resource.RLIMIT_NPROC: 2 + tasks + (0 if settings["user"] is not None else other_tasks),
    }
    for name, value in values.items():
        soft, hard = clamped(name, value, value)
        resource.setrlimit(name, (soft, hard if is_final else resource.getrlimit(name)[1]))
    if is_final:
        files, seconds = limits["open_files"], limits["cpu_seconds"]
        resource.setrlimit(resource.RLIMIT_NOFILE, clamped(resource.RLIMIT_NOFILE, files, files))
        resource.setrlimit(resource.RLIMIT_CPU, clamped(resource.RLIMIT_CPU, seconds, seconds + 1))
