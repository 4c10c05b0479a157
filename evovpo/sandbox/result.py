"""Turns what the kernel reported and what the child wrote into a `Result`; trusts only the former."""

import errno
import os
import signal
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evovpo.sandbox.forkserver.strict_json import Decoder
from evovpo.types import Json, Limits, Status

_TEXT_LIMIT = 300


@dataclass(frozen=True, slots=True)
class Result:
    """How running a program ended."""

    status: Status
    outputs: list[Json]
    """One value for each case; None where there is none."""
    detail: str = ""
    """Why the status is not `ok`. Partly the candidate's own words: untrusted."""
    log: str = ""
    """Start of what it wrote to standard output and error; untrusted."""
    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    maxrss_mb: float = 0.0
    isolation: str = ""
    """The `Level` that was in force."""
    errors: list[str | None] = field(default_factory=list)
    """One text for each case that went wrong on its own, None for the others; only `per_case` runs
    have such texts. Untrusted."""


class Report(NamedTuple):
    """What the fork-server says about a child; trusted."""

    status: int
    """Wait status."""
    is_ready: bool
    """The child was locked down and about to run the candidate."""
    is_killed: bool
    """The server ended it at its wall-clock limit."""
    wall_ms: float
    cpu_ms: float
    maxrss_kb: int


class Lines(NamedTuple):
    """What the child wrote, as far as it could be understood."""

    outputs: list[Json]
    errors: list[str | None]
    is_done: bool
    exception: dict[str, Any] | None
    fault: str
    """Why the rest is unusable; empty if it is not."""


def sandbox_failure(detail: str, cases: int, isolation: str) -> Result:
    """Return the result of a run that failed by the sandbox's own fault."""
    return Result(Status.SANDBOX_ERROR, [None] * cases, detail, isolation=isolation, errors=[None] * cases)


def judge(
    report: Report, written: bytes, log: bytes, cases: int, limits: Limits, per_case: bool, isolation: str
) -> Result:
    """Return the result of a run. `written` holds at most one byte more than the limit on results."""
    is_too_long = len(written) > limits.result_bytes
    if is_too_long:
        lines = Lines([None] * cases, [None] * cases, False, None, "")
    else:
        # What ended by force may have stopped in the middle of a line.
        whole = written if report.status == 0 else written[: written.rfind(b"\n") + 1]
        lines = read_lines(whole, cases, per_case)
    status, detail = _verdict(report, lines, is_too_long, limits)
    if not report.is_ready:
        detail = f"{detail}: {log[-_TEXT_LIMIT:].decode(errors='replace').strip()}"
    return Result(
        status=status,
        outputs=lines.outputs,
        detail=detail,
        log=log.decode(errors="replace"),
        wall_ms=report.wall_ms,
        cpu_ms=report.cpu_ms,
        maxrss_mb=report.maxrss_kb / 1024,
        isolation=isolation,
        errors=lines.errors,
    )


def judge_serving(report: Report, log: bytes, limits: Limits, isolation: str) -> Result:
    """Return how a program ended that answered calls until it was told to end, which is no fault."""
    status, detail = Status.OK, ""
    if not report.is_ready:
        status = Status.SANDBOX_ERROR
        detail = f"the child failed before the candidate ran: {log[-_TEXT_LIMIT:].decode(errors='replace')}"
    elif not report.is_killed and os.WIFSIGNALED(report.status):
        status, detail = signal_verdict(os.WTERMSIG(report.status), report.cpu_ms, limits)
    elif not report.is_killed and report.status != 0:
        status, detail = Status.CRASH, f"exit status {os.WEXITSTATUS(report.status)}"
    return Result(
        status,
        [],
        detail,
        log.decode(errors="replace"),
        report.wall_ms,
        report.cpu_ms,
        report.maxrss_kb / 1024,
        isolation,
    )


def _verdict(report: Report, lines: Lines, is_too_long: bool, limits: Limits) -> tuple[Status, str]:
    """Return status and detail: the kernel's word first, the child's last."""
    if not report.is_ready:
        return Status.SANDBOX_ERROR, "the child failed before the candidate ran"
    if report.is_killed:
        return Status.TIMEOUT, f"wall-clock limit of {limits.wall_seconds:g} s"
    if os.WIFSIGNALED(report.status):
        return signal_verdict(os.WTERMSIG(report.status), report.cpu_ms, limits)
    if is_too_long:
        return Status.OUTPUT_LIMIT, f"more than {limits.result_bytes} bytes of results"
    if lines.fault:
        return Status.BAD_OUTPUT, lines.fault
    if report.status != 0:
        return Status.CRASH, f"exit status {os.WEXITSTATUS(report.status)}"
    if lines.exception is not None:
        return _exception_verdict(lines.exception)
    if not lines.is_done:
        return Status.BAD_OUTPUT, "ended without a result for every case"
    return Status.OK, ""


def signal_verdict(number: int, cpu_ms: float, limits: Limits) -> tuple[Status, str]:
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


def _exception_verdict(exception: dict[str, Any]) -> tuple[Status, str]:
    name, number, line = (exception.get(key) for key in ("exc", "errno", "line"))
    detail = f"{name}: {exception.get('msg')}"[:_TEXT_LIMIT]
    if isinstance(line, int):
        detail += f" (line {line})"
    return exception_status(name, number), detail


def exception_status(name: object, number: object) -> Status:
    """Return what an exception of that class name and `errno` says of a program: mostly `error`."""
    if name == "MemoryError" or number == errno.ENOMEM:
        return Status.MEMORY
    if number in (errno.EPERM, errno.EACCES):
        return Status.FORBIDDEN
    return Status.OUTPUT_LIMIT if number in (errno.EFBIG, errno.ENOSPC) else Status.ERROR


def read_lines(data: bytes, cases: int, per_case: bool) -> Lines:
    """Return the child's lines, strictly read: plain JSON, finite floats, integers of at most 40 digits.

    With `per_case` an output that breaks these rules is an error of its case; otherwise it is a fault
    of the whole run, as is with both whatever is not a line of the protocol.
    """
    outputs: list[Json] = [None] * cases
    errors: list[str | None] = [None] * cases
    is_done, exception = False, None
    for raw in filter(None, data.split(b"\n")):
        try:
            line, impurity = Decoder().read(raw)
            index = line.get("i")
            if "exc" in line:
                exception = line
            elif line.get("done") is True:
                is_done = True
            elif type(index) is not int or not 0 <= index < cases:
                raise ValueError(f"a line for case {str(index)[:20]} of {cases}")
            elif "out" in line and not impurity:
                outputs[index] = line["out"]
            else:
                errors[index] = str(line.get("err") or line.get("bad") or impurity or "no output")[
                    :_TEXT_LIMIT
                ]
                if not per_case:
                    raise ValueError(errors[index])
        except (ValueError, RecursionError) as error:
            fault = f"unusable output: {error}"[:_TEXT_LIMIT]
            return Lines([None] * cases, [None] * cases, False, None, fault)
    return Lines(outputs, errors, is_done, exception, "")
