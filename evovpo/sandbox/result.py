"""Turns what the kernel reported and an untrusted process wrote into a result; trusts only the former."""

import os
import signal
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

from evovpo.sandbox.probe import Level
from evovpo.sandbox.written import Said, read_line, read_lines
from evovpo.types import Json, Limits, Status

_LOG_TAIL = 300
_DETAIL_LIMIT = 2000


@dataclass(frozen=True, slots=True)
class _Ending:
    """How something untrusted ended. All text in it may be the candidate's: untrusted."""

    status: Status
    _: KW_ONLY
    detail: str = ""
    """Why the status is not `ok`."""
    log: str = ""
    """Start of what was written to standard output and error."""
    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    """Of all its processes; for an evaluation, the start of Python included."""
    isolation: str = ""
    """The `Level` that was in force."""


@dataclass(frozen=True, slots=True)
class Result(_Ending):
    """How running a program ended."""

    outputs: list[Json]
    """One value for each case; None where there is none."""
    _: KW_ONLY
    maxrss_mb: float = 0.0
    errors: list[str | None] = field(default_factory=list)
    """One text for each case that went wrong on its own, None for the others; only `per_case` runs
    have such texts."""


@dataclass(frozen=True, slots=True)
class WholeResult(_Ending):
    """How an evaluation ended."""

    metrics: tuple[tuple[str, Json], ...] = ()
    """As the evaluator returned them, in order; not finite numbers as text. Of the stages that were
    completed, where a later one failed."""
    artifacts: tuple[tuple[str, str], ...] = ()


class Report(NamedTuple):
    """What the fork-server says about a child, or the watcher about an evaluation; trusted."""

    status: int
    """Wait status."""
    is_ready: bool
    """The process was locked down and about to run what is untrusted."""
    ended_for: str
    """Why it was ended: `wall`, `tasks`, `memory`, `disk`, `log`, `supervisor`, or not at all."""
    wall_ms: float
    cpu_ms: float
    child_cpu_ms: float
    """Of that process alone, which is what its own limit counts."""
    maxrss_kb: int = 0
    is_over: bool = True
    """Nothing of it is left."""


def sandbox_failure(detail: str, cases: int, isolation: str) -> Result:
    """Return the result of a run that failed by the sandbox's own fault."""
    none: list[Any] = [None] * cases
    return Result(Status.SANDBOX_ERROR, none, detail=detail, isolation=isolation, errors=none)


def judge(
    report: Report, written: bytes, log: bytes, cases: int, limits: Limits, per_case: bool, level: Level
) -> Result:
    """Return the result of a run. `written` holds at most one byte more than the limit on results."""
    said = Said({"outputs": [None] * cases, "errors": [None] * cases})
    if len(written) <= limits.result_bytes:
        # What ended by force may have stopped in the middle of a line.
        whole = written if report.status == 0 else written[: written.rfind(b"\n") + 1]
        said = read_lines(whole, cases, per_case)
    ending = _ending(report, said, written, log, limits, level)
    return Result(maxrss_mb=report.maxrss_kb / 1024, **ending)


def judge_serving(report: Report, log: bytes, limits: Limits, level: Level) -> Result:
    """Return how a program ended that answered calls until it was told to end, which is no fault."""
    if report.ended_for:
        report = report._replace(ended_for="", status=0)
    return Result(**_ending(report, Said({"outputs": []}, is_done=True), b"", log, limits, level))


def judge_whole(
    report: Report | str, written: bytes, log: bytes, limits: Limits, level: Level
) -> WholeResult:
    """Return the result of an evaluation, or of the failure to have any report.

    `written` holds at most one byte more than the limit on results.
    """
    if isinstance(report, str):
        text = log.decode(errors="replace")
        detail = f"{report}: {text[-_LOG_TAIL:].strip()}"
        return WholeResult(Status.SANDBOX_ERROR, detail=detail, log=text, isolation=level)
    is_read = report.is_over and 0 < len(written) <= limits.result_bytes
    said = read_line(written) if is_read else Said({})
    return WholeResult(**_ending(report, said, written, log, limits, level))


def _ending(
    report: Report, said: Said, written: bytes, log: bytes, limits: Limits, level: Level
) -> dict[str, Any]:
    status, detail = _verdict(report, said, len(written) > limits.result_bytes, limits)
    text = log.decode(errors="replace")
    if not report.is_ready or not report.is_over:
        detail = f"{detail}: {text[-_LOG_TAIL:].strip()}"
    return {
        **said.values,
        "status": status,
        "detail": detail[:_DETAIL_LIMIT],
        "log": text,
        "wall_ms": report.wall_ms,
        "cpu_ms": report.cpu_ms,
        "isolation": level,
    }


def _verdict(report: Report, said: Said, is_too_long: bool, limits: Limits) -> tuple[Status, str]:
    """Return status and detail: the kernel's word first, that of the untrusted process last."""
    ended = {
        "wall": (Status.TIMEOUT, f"wall-clock limit of {limits.wall_seconds:g} s"),
        "tasks": (
            Status.FORBIDDEN,
            f"more than {limits.processes + limits.threads} processes and threads besides the first",
        ),
        "memory": (Status.MEMORY, f"all processes together used far more than {limits.memory_mb} MiB"),
        "disk": (Status.OUTPUT_LIMIT, f"more than {limits.disk_mb} MiB in the private folder"),
        "log": (Status.OUTPUT_LIMIT, "standard output without end"),
        "supervisor": (Status.SANDBOX_ERROR, "the supervisor ended it"),
    }
    if not report.is_ready:
        return Status.SANDBOX_ERROR, "the child failed before the candidate ran"
    if not report.is_over:
        return Status.SANDBOX_ERROR, "processes of the evaluation could not be ended"
    if report.ended_for:
        return ended[report.ended_for]
    if os.WIFSIGNALED(report.status):
        return _signal_verdict(os.WTERMSIG(report.status), report.child_cpu_ms, limits)
    if is_too_long:
        return Status.OUTPUT_LIMIT, f"more than {limits.result_bytes} bytes of results"
    if said.fault:
        return Status.BAD_OUTPUT, said.fault
    if report.status != 0:
        return Status.CRASH, f"exit status {os.WEXITSTATUS(report.status)}"
    if said.raised is not None:
        return said.raised
    if not said.is_done:
        each = " for every case" if "outputs" in said.values else ""
        return Status.BAD_OUTPUT, f"ended without a result{each}"
    return Status.OK, ""


def _signal_verdict(number: int, cpu_ms: float, limits: Limits) -> tuple[Status, str]:
    """Return status and detail of a process that a signal ended after `cpu_ms` of CPU time."""
    if number == signal.SIGSYS:
        return Status.FORBIDDEN, "a system call that is never allowed"
    # The kernel counts CPU time for its limit in whole ticks, the usage exactly: under load the two
    # differ by 10 % and more, so a kill after half the limit is put down to it.
    if number == signal.SIGXCPU or (number == signal.SIGKILL and cpu_ms >= limits.cpu_seconds * 500):
        return Status.TIMEOUT, f"CPU limit of {limits.cpu_seconds} s"
    if number == signal.SIGXFSZ:
        return Status.OUTPUT_LIMIT, "wrote past the limit on results and log"
    return Status.CRASH, signal.Signals(number).name
