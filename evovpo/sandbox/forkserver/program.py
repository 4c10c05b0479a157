"""Runs a candidate on its cases, and writes one JSON line for each case and one for the end.

A line has one of these forms:

- `{"i": 0, "out": value}`: case 0 returned a value;
- `{"i": 0, "err": text}`: case 0 raised an exception, and the next cases still run (only with `per_case`);
- `{"i": 0, "bad": text}`: case 0 returned something that is not JSON;
- `{"exc": type, "msg": text, "line": number, "errno": number}`: an exception ended the candidate;
- `{"done": true}`: every case was run.

The candidate can forge these lines, so the reader trusts none of them.
"""

import json
import marshal
import os
import sys
from types import ModuleType, TracebackType
from typing import Any, TypeAlias

PAYLOAD, RESULT = 3, 4
"""Descriptors of the payload and result files. Standard output and error go to the log."""

Payload: TypeAlias = tuple[str, str, list[list[Any]], bool]
"""Source, name of the function, argument lists, and `per_case`. The supervisor, which runs the same Python,
writes the payload with `marshal`, because reading JSON takes ten times longer."""

_FILE_NAME = "candidate.py"
_TEXT_LIMIT = 300


def read_payload() -> Payload:
    payload: Payload = marshal.loads(os.pread(PAYLOAD, os.fstat(PAYLOAD).st_size, 0))
    return payload


def run_payload() -> None:
    """Run the candidate in the payload, and write its result lines. An exception is written as a line too."""
    code, entry, cases, per_case = read_payload()
    try:
        function = load(code).get(entry)
        if function is None:
            raise NameError(f"the program defines no {entry!r}")
        for index, arguments in enumerate(cases):
            try:
                line = {"i": index, "out": function(*arguments)}
            except Exception as error:
                if not per_case or isinstance(error, MemoryError):
                    raise
                line = {"i": index, "err": _printable(f"{type(error).__name__}: {error}")}
            _write(line)
            del line  # it may be large
        _write({"done": True})
    except BaseException as error:  # including SystemExit and KeyboardInterrupt
        _write(exception_line(error))


def load(code: str) -> dict[str, Any]:
    """Execute a candidate and return its namespace. Exceptions of the candidate are not caught."""
    module = ModuleType("candidate")
    module.__file__ = _FILE_NAME
    sys.modules["candidate"] = module  # dataclasses and typing look up their module
    exec(compile(code, _FILE_NAME, "exec"), module.__dict__)
    return module.__dict__


def exception_line(error: BaseException) -> dict[str, Any]:
    return {
        "exc": type(error).__name__,
        "msg": _printable(str(error)),
        "line": _candidate_line(error.__traceback__),
        "errno": getattr(error, "errno", None),
    }


def _printable(text: str) -> str:
    return text[:_TEXT_LIMIT].encode(errors="replace").decode()


def _candidate_line(traceback: TracebackType | None) -> int | None:
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == _FILE_NAME:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _plain(value: object) -> object:
    if type(value).__module__.partition(".")[0] == "numpy":
        return value.tolist()  # type: ignore[attr-defined]
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_encode = json.JSONEncoder(default=_plain, allow_nan=False, ensure_ascii=False).encode


def _write(line: dict[str, Any]) -> None:
    try:
        data = _encode(line).encode()
    except (TypeError, ValueError, RecursionError) as error:
        text = _printable(f"{type(error).__name__}: {error}")
        data = json.dumps({"i": line.get("i"), "bad": text}).encode()
    write_all(RESULT, data + b"\n")


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
