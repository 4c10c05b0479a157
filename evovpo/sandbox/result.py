"""Builds a result from the kernel's report, which is trusted, and the output of a process, which is not."""

import errno
import os
import signal
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

from evovpo.sandbox.forkserver.strict_json import capped, read_object
from evovpo.sandbox.probe import Level
from evovpo.types import Json, Limits, Status

_LONGEST = 300


class ProcessOutput(NamedTuple):
    """Parsed output of an untrusted process; `values` are fields of a `Result` or `WholeResult`."""

    values: dict[str, Any]
    is_done: bool = False
    raised: tuple[Status, str] | None = None
    fault: str = ""


def read_lines(data: bytes, cases: int, per_case: bool) -> ProcessOutput:
    """Parse the result lines of a candidate. With `per_case`, an invalid output fails only its own case."""
    outputs: list[Json] = [None] * cases
    errors: list[str | None] = [None] * cases
    is_done, raised = False, None
    for raw in filter(None, data.split(b"\n")):
        try:
            line, impurity = read_object(raw)
            index = line.get("i")
            if "exc" in line:
                place = f" (line {line['line']})" if isinstance(line.get("line"), int) else ""
                detail = f"{line['exc']}: {line.get('msg')}"[:_LONGEST] + place
                raised = _exception_status(line), detail
            elif line.get("done") is True:
                is_done = True
            elif type(index) is not int or not 0 <= index < cases:
                raise ValueError(f"a line for case {str(index)[:20]} of {cases}")
            elif "out" in line and not impurity:
                outputs[index] = line["out"]
            else:
                errors[index] = str(line.get("err") or line.get("bad") or impurity or "no output")[:_LONGEST]
                if not per_case:
                    raise ValueError(errors[index])
        except (ValueError, RecursionError) as error:
            fault = f"unusable output: {error}"[:_LONGEST]
            return ProcessOutput({"outputs": [None] * cases, "errors": [None] * cases}, fault=fault)
    return ProcessOutput({"outputs": outputs, "errors": errors}, is_done, raised)


def read_line(written: bytes) -> ProcessOutput:
    """Parse the result line of an evaluation. Artifacts are truncated to their limits."""
    try:
        line, impurity = read_object(written)
        if impurity:
            raise ValueError(impurity)
        found = _pairs(line.get("metrics"))
        artifacts = capped((name, str(value)) for name, value in _pairs(line.get("artifacts")))
        is_done = line.get("done") is True
        if "exc" not in line and not is_done:
            raise ValueError("a line without its end")
    except (ValueError, RecursionError) as error:
        return ProcessOutput({}, fault=f"unusable result: {error}"[:_LONGEST])
    raised = None
    if "exc" in line:
        detail = f"{line['exc']}: {line.get('msg')}\n{line.get('trace') or ''}".strip()
        raised = _exception_status(line), detail
    stopped = line["stopped"] if type(line.get("stopped")) is int else 0
    return ProcessOutput(
        {"metrics": tuple(found), "artifacts": tuple(artifacts), "stopped": stopped}, is_done, raised
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


def _exception_status(line: Mapping[str, Any]) -> Status:
    name, number = line["exc"], line.get("errno")
    if name == "MemoryError" or number == errno.ENOMEM:
        return Status.MEMORY
    # Starting more processes than allowed fails with EAGAIN, which honest programs do not get.
    if number in (errno.EPERM, errno.EACCES, errno.EAGAIN):
        return Status.FORBIDDEN
    return Status.OUTPUT_LIMIT if number in (errno.EFBIG, errno.ENOSPC) else Status.ERROR


_LOG_TAIL = 300
_DETAIL_LIMIT = 2000


@dataclass(frozen=True, slots=True)
class _Ending:
    """Outcome of an untrusted process. All text in it is untrusted."""

    status: Status
    _: KW_ONLY
    detail: str = ""
    log: str = ""
    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    """CPU time of all processes of the run. A watcher's first evaluation includes the watcher's own start."""
    isolation: str = ""
    """The `Level` of the run, followed by the permissions that were opened for the run."""


@dataclass(frozen=True, slots=True)
class Result(_Ending):
    outputs: list[Json]
    """One value for each case; None if there is no output."""
    _: KW_ONLY
    errors: list[str | None] = field(default_factory=list)
    """Error text of each case, or None. Only `per_case` runs have error texts."""


@dataclass(frozen=True, slots=True)
class WholeResult(_Ending):
    """Result of an evaluation by an evaluator that imports its candidate."""

    metrics: tuple[tuple[str, Json], ...] = ()
    """Metrics in the evaluator's order; non-finite numbers are text. If a stage failed, only the metrics of
    completed stages are included."""
    artifacts: tuple[tuple[str, str], ...] = ()
    stopped: int = 0
    """Number of the stage, from 1, whose threshold was not reached; 0 if all stages ran."""


class ChildReport(NamedTuple):
    """The fork-server's report on a child, or the watcher's report on an evaluation. It is trusted."""

    status: int
    is_ready: bool
    """True if the process completed its lock-down before running untrusted code."""
    ended_for: str
    """Why the run was killed: `wall`, `tasks`, `memory`, `disk`, `log`, `supervisor`; empty if not killed."""
    wall_ms: float
    cpu_ms: float
    child_cpu_ms: float
    """CPU time of the child process alone, to which the CPU limit applies."""
    is_over: bool = True
    """True if no process of the run is left."""


def sandbox_failure(detail: str, cases: int, isolation: str) -> Result:
    none: list[Any] = [None] * cases
    return Result(Status.SANDBOX_ERROR, none, detail=detail, isolation=isolation, errors=none)


def judge(
    report: ChildReport, written: bytes, log: bytes, cases: int, limits: Limits, per_case: bool, level: Level
) -> Result:
    """Return the result of a candidate. `written` is its output, at most one byte longer than the limit."""
    # A killed process may have stopped in the middle of a line.
    whole = written if report.status == 0 else written[: written.rfind(b"\n") + 1]
    said = read_lines(whole if len(written) <= limits.result_bytes else b"", cases, per_case)
    return Result(**_ending(report, said, written, log, limits, level))


def judge_serving(report: ChildReport, log: bytes, limits: Limits, level: Level) -> Result:
    """Return the result of a program that answered calls until it ended or the fork-server killed it."""
    if report.ended_for:
        report = report._replace(ended_for="", status=0)
    return Result(**_ending(report, ProcessOutput({"outputs": []}, is_done=True), b"", log, limits, level))


def judge_whole(
    report: ChildReport | str, written: bytes, log: bytes, limits: Limits, level: Level
) -> WholeResult:
    """Return the result of an evaluation. `report` is an error text if the watcher sent no report."""
    if isinstance(report, str):
        text = log.decode(errors="replace")
        detail = f"{report}: {text[-_LOG_TAIL:].strip()}"
        return WholeResult(Status.SANDBOX_ERROR, detail=detail, log=text, isolation=level)
    is_read = report.is_over and 0 < len(written) <= limits.result_bytes
    said = read_line(written) if is_read else ProcessOutput({})
    return WholeResult(**_ending(report, said, written, log, limits, level))


def _ending(
    report: ChildReport, said: ProcessOutput, written: bytes, log: bytes, limits: Limits, level: Level
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


def _verdict(
    report: ChildReport, said: ProcessOutput, is_too_long: bool, limits: Limits
) -> tuple[Status, str]:
    """Return status and detail. Facts from the kernel take precedence over the output of the process."""
    most = limits.processes + limits.threads
    ended = {
        "wall": (Status.TIMEOUT, f"wall-clock limit of {limits.wall_seconds:g} s"),
        "tasks": (Status.FORBIDDEN, f"more than {most} processes and threads besides the first"),
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
    if number == signal.SIGSYS:
        return Status.FORBIDDEN, "a system call that is never allowed"
    # The kernel enforces the limit in whole ticks, but reports exact CPU time. Under load the two differ by
    # 10 % or more, so a kill after at least half of the limit counts as a timeout.
    if number == signal.SIGXCPU or (number == signal.SIGKILL and cpu_ms >= limits.cpu_seconds * 500):
        return Status.TIMEOUT, f"CPU limit of {limits.cpu_seconds} s"
    if number == signal.SIGXFSZ:
        return Status.OUTPUT_LIMIT, "wrote past the limit on results and log"
    return Status.CRASH, signal.Signals(number).name
