"""Runs a candidate on its cases and writes one JSON line per case.

Lines, told apart by their keys, in this order:

- `{"i": 0, "out": value}`: case 0 returned a value;
- `{"i": 0, "err": text}`: case 0 raised, and the others go on (only with `per_case`);
- `{"i": 0, "bad": text}`: case 0 returned something that is not JSON;
- `{"exc": type, "msg": text, "line": number, "errno": number}`: the candidate ended by an exception;
- `{"done": true}`: every case was run.

All of it is the candidate's word: it can write these lines itself. The reader trusts none of them.
"""

import json
import marshal
import os
import sys
from types import ModuleType, TracebackType
from typing import Any, TypeAlias

PAYLOAD, RESULT = 3, 4
"""File descriptors. Standard output and error are the log."""

Payload: TypeAlias = tuple[str, str, list[list[Any]], bool]
"""Source, name of the function, argument lists, and whether a case may fail on its own. It comes from
the supervisor of the same Python, in marshal's format: reading JSON costs a child ten times more."""

_FILE_NAME = "candidate.py"
_TEXT_LIMIT = 300


def read_payload() -> Payload:
    """Return what the supervisor wants run."""
    payload: Payload = marshal.loads(os.pread(PAYLOAD, os.fstat(PAYLOAD).st_size, 0))
    return payload


def run_payload() -> None:
    """Run the candidate of the payload file and write its lines, exceptions too, to the result file."""
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
    except BaseException as error:  # SystemExit and KeyboardInterrupt are the candidate's doing too
        _write(exception_line(error))


def load(code: str) -> dict[str, Any]:
    """Return the names of a candidate after running its text; raises whatever it raises."""
    module = ModuleType("candidate")
    module.__file__ = _FILE_NAME
    sys.modules["candidate"] = module  # dataclasses and typing look their module up
    exec(compile(code, _FILE_NAME, "exec"), module.__dict__)
    return module.__dict__


def exception_line(error: BaseException) -> dict[str, Any]:
    """Return what is told of an exception of the candidate."""
    return {
        "exc": type(error).__name__,
        "msg": _printable(str(error)),
        "line": _line_of(error.__traceback__),
        "errno": getattr(error, "errno", None),
    }


def _printable(text: str) -> str:
    """Return the start of a text, without halves of surrogate pairs."""
    return text[:_TEXT_LIMIT].encode(errors="replace").decode()


def _line_of(traceback: TracebackType | None) -> int | None:
    """Return the innermost line of the candidate that a traceback passes through."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == _FILE_NAME:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _plain(value: object) -> object:
    """Return numpy's arrays and scalars as lists and numbers; the encoder asks for what it cannot write."""
    if type(value).__module__.partition(".")[0] == "numpy":
        return value.tolist()  # type: ignore[attr-defined]
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_encode = json.JSONEncoder(default=_plain, allow_nan=False, ensure_ascii=False).encode


def _write(line: dict[str, Any]) -> None:
    """Append a line to the result file. Raises OSError (EFBIG) past the limit on results."""
    try:
        data = _encode(line).encode()
    except (TypeError, ValueError, RecursionError) as error:
        text = _printable(f"{type(error).__name__}: {error}")
        data = json.dumps({"i": line.get("i"), "bad": text}).encode()
    write_all(RESULT, data + b"\n")


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, which a system call may do in parts."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
