"""Reads strictly what an untrusted process wrote: JSON, finite floats, integers of at most 40 digits."""

import errno
from collections.abc import Mapping
from typing import Any, NamedTuple

from evovpo.sandbox.forkserver import metrics
from evovpo.sandbox.forkserver.strict_json import read_object
from evovpo.types import Json, Status

_TEXT_LIMIT = 300


class Said(NamedTuple):
    """What an untrusted process wrote, as far as it is acceptable."""

    values: dict[str, Any]
    """Fields of the result."""
    is_done: bool = False
    raised: tuple[Status, str] | None = None
    """What the exception that ended it comes to, and its text."""
    fault: str = ""
    """Why the rest is unusable; empty if it is not."""


def read_lines(data: bytes, cases: int, per_case: bool) -> Said:
    """Return what the lines of a candidate say.

    With `per_case` an output that breaks the rules is an error of its case; otherwise it is a fault
    of the whole run, as is with both whatever is not a line of the protocol.
    """
    outputs: list[Json] = [None] * cases
    errors: list[str | None] = [None] * cases
    is_done, raised = False, None
    for raw in filter(None, data.split(b"\n")):
        try:
            line, impurity = read_object(raw)
            index = line.get("i")
            if "exc" in line:
                place = f" (line {line['line']})" if isinstance(line.get("line"), int) else ""
                detail = f"{line['exc']}: {line.get('msg')}"[:_TEXT_LIMIT] + place
                raised = _exception_status(line), detail
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
            return Said({"outputs": [None] * cases, "errors": [None] * cases}, fault=fault)
    return Said({"outputs": outputs, "errors": errors}, is_done, raised)


def read_line(written: bytes) -> Said:
    """Return what the one line of an evaluation says, with artifacts cut to their limits."""
    try:
        line, impurity = read_object(written)
        if impurity:
            raise ValueError(impurity)
        found = _pairs(line.get("metrics"))
        artifacts = metrics.capped((name, str(value)) for name, value in _pairs(line.get("artifacts")))
        is_done = line.get("done") is True
        if "exc" not in line and not is_done:
            raise ValueError("a line without its end")
    except (ValueError, RecursionError) as error:
        return Said({}, fault=f"unusable result: {error}"[:_TEXT_LIMIT])
    raised = None
    if "exc" in line:
        detail = f"{line['exc']}: {line.get('msg')}\n{line.get('trace') or ''}".strip()
        raised = _exception_status(line), detail
    return Said({"metrics": tuple(found), "artifacts": tuple(artifacts)}, is_done, raised)


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
    """Return what an exception's class name and `errno` say of a program: mostly `error`."""
    name, number = line["exc"], line.get("errno")
    if name == "MemoryError" or number == errno.ENOMEM:
        return Status.MEMORY
    if number in (errno.EPERM, errno.EACCES):
        return Status.FORBIDDEN
    return Status.OUTPUT_LIMIT if number in (errno.EFBIG, errno.ENOSPC) else Status.ERROR
