"""Turns what a watcher reported and an evaluation wrote into a `WholeResult`; trusts only the former."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from evovpo.sandbox.forkserver import metrics
from evovpo.sandbox.forkserver.strict_json import Decoder
from evovpo.sandbox.probe import Level
from evovpo.sandbox.result import exception_status, signal_verdict
from evovpo.types import Json, Limits, Status

_DETAIL_LIMIT = 2000
_LOG_TAIL = 300


@dataclass(frozen=True, slots=True)
class WholeResult:
    """How an evaluation ended. All text in it may be the candidate's: untrusted."""

    status: Status
    metrics: tuple[tuple[str, Json], ...] = ()
    """As the evaluator returned them, in order; not finite numbers as text. Of the stages that were
    completed, where a later one failed."""
    artifacts: tuple[tuple[str, str], ...] = ()
    detail: str = ""
    """Why the status is not `ok`."""
    log: str = ""
    """Start of what evaluator and candidate wrote to standard output and error."""
    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    """Of all processes of the evaluation, the start of Python included."""
    isolation: str = ""
    """The `Level` that was in force."""


class Report(NamedTuple):
    """What the watcher says about an evaluation; trusted."""

    status: int
    """Wait status."""
    is_ready: bool
    """The evaluation was locked down and about to run."""
    ended_for: str
    """Why the watcher ended it: `wall`, `tasks`, `memory`, `disk`, `log`, `supervisor`, or not at all."""
    is_over: bool
    """Nothing of it is left."""
    wall_ms: float
    cpu_ms: float
    child_cpu_ms: float
    """Of the process that ran the evaluator alone, which is what its own limit counts."""


def judge(report: Report | str, written: bytes, log: bytes, limits: Limits, level: Level) -> WholeResult:
    """Return the result of an evaluation; trusts the report, and of what was written only its form.

    `written` holds at most one byte more than the limit on results.
    """
    text = log.decode(errors="replace")
    if isinstance(report, str) or not report.is_ready or not report.is_over:
        why = report if isinstance(report, str) else "the evaluation failed before it was locked down"
        if not isinstance(report, str) and not report.is_over:
            why = "processes of the evaluation could not be ended"
        detail = f"{why}: {text[-_LOG_TAIL:].strip()}"
        return WholeResult(Status.SANDBOX_ERROR, detail=detail, log=text, isolation=level)
    line = Line()
    if len(written) <= limits.result_bytes and written:
        line = read_line(written)
    status, detail = _verdict(report, line, bool(written), len(written) > limits.result_bytes, limits)
    return WholeResult(
        status=status,
        metrics=line.metrics,
        artifacts=line.artifacts,
        detail=detail[:_DETAIL_LIMIT],
        log=text,
        wall_ms=report.wall_ms,
        cpu_ms=report.cpu_ms,
        isolation=level,
    )


class Line(NamedTuple):
    """What the evaluation wrote, as far as it is acceptable."""

    metrics: tuple[tuple[str, Json], ...] = ()
    artifacts: tuple[tuple[str, str], ...] = ()
    is_done: bool = False
    exception: Mapping[str, Any] | None = None
    fault: str = ""
    """Why the rest is unusable; empty if it is not."""


def read_line(written: bytes) -> Line:
    """Return the one line of a result, strictly read, with artifacts cut to their limits."""
    try:
        line, impurity = Decoder().read(written)
        if impurity:
            raise ValueError(impurity)
        found = _pairs(line.get("metrics"))
        artifacts = metrics.capped((name, str(value)) for name, value in _pairs(line.get("artifacts")))
        if "exc" not in line and line.get("done") is not True:
            raise ValueError("a line without its end")
    except (ValueError, RecursionError) as error:
        return Line(fault=f"unusable result: {error}"[:_LOG_TAIL])
    return Line(
        metrics=tuple(found),
        artifacts=tuple(artifacts),
        is_done=line.get("done") is True,
        exception=line if "exc" in line else None,
    )


def _pairs(value: object) -> list[tuple[str, Json]]:
    if not isinstance(value, list):
        raise ValueError("a line without its lists")
    for pair in value:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise ValueError("a list of other things than names with values")
    if len({pair[0] for pair in value}) != len(value):
        raise ValueError("a name twice")
    return [(pair[0], pair[1]) for pair in value]


def _verdict(
    report: Report, line: Line, has_written: bool, is_too_long: bool, limits: Limits
) -> tuple[Status, str]:
    """Return status and detail: the kernel's word first, the evaluation's last."""
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
    if report.ended_for:
        return ended[report.ended_for]
    if os.WIFSIGNALED(report.status):
        return signal_verdict(os.WTERMSIG(report.status), report.child_cpu_ms, limits)
    if is_too_long:
        return Status.OUTPUT_LIMIT, f"more than {limits.result_bytes} bytes of results"
    if line.fault:
        return Status.BAD_OUTPUT, line.fault
    if os.WEXITSTATUS(report.status) != 0:
        return Status.CRASH, f"exit status {os.WEXITSTATUS(report.status)}"
    if not has_written:
        return Status.BAD_OUTPUT, "ended without a result"
    if line.exception is None:
        return Status.OK, ""
    name, number = line.exception["exc"], line.exception.get("errno")
    detail = f"{name}: {line.exception.get('msg')}\n{line.exception.get('trace') or ''}".strip()
    return exception_status(name, number), detail
