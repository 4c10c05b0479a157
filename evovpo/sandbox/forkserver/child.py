"""What a forked child does: lock itself down, run the candidate, write one JSON line per case.

Lines, told apart by their keys, in this order:

- `{"i": 0, "out": value}`: case 0 returned a value;
- `{"i": 0, "err": text}`: case 0 raised, and the others go on (only with `per_case`);
- `{"i": 0, "bad": text}`: case 0 returned something that is not JSON;
- `{"exc": type, "msg": text, "line": number, "errno": number}`: the candidate ended by an exception;
- `{"done": true}`: every case was run.

All of it is the candidate's word: it can write these lines itself. The reader trusts none of them.
"""

from __future__ import annotations

import contextlib
import json
import marshal
import os
import resource
import sys
from types import ModuleType, TracebackType
from typing import Any, NoReturn, TypeAlias

from . import kernel

PAYLOAD, RESULT, CONTROL, READY_READER, READY_WRITER = 3, 4, 5, 6, 7
"""File descriptors, the same in server and child; the child keeps those up to `RESULT`. Standard
output and error are the log."""

Payload: TypeAlias = tuple[str, str, list[list[Any]], bool]
"""Source, name of the function, argument lists, and whether a case may fail on its own. It comes from
the supervisor of the same Python, in marshal's format: reading JSON costs a child ten times more."""

_FILE_NAME = "candidate.py"
_TEXT_LIMIT = 300


def become_candidate(
    server_pid: int, cpu_seconds: tuple[int, int], child_filter: kernel.Filter | None
) -> NoReturn:
    """Lock this fresh child down, run the candidate of the payload, and exit.

    Landlock, the server's seccomp filter and the other resource limits are inherited. A byte on the
    ready pipe says that the lock-down is complete; the pipe is closed before the candidate runs, so
    it cannot forge the byte, nor pass its own failure off as the sandbox's.
    """
    code = 1
    try:
        kernel.die_with_parent()
        if os.getppid() != server_pid:  # it died before the call above
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_CPU, cpu_seconds)
        if child_filter is not None:
            child_filter.load()
        os.write(READY_WRITER, b"R")
        os.closerange(CONTROL, 1 << 16)
        run_payload()
        with contextlib.suppress(OSError):  # the log is full
            sys.stdout.flush()
            sys.stderr.flush()
        code = 0
    except BaseException as error:  # the last frame of an untrusted process: report and end
        os.write(2, f"[sandbox child] {type(error).__name__}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(code)


def read_payload() -> Payload:
    """Return what the supervisor wants run."""
    payload: Payload = marshal.loads(os.pread(PAYLOAD, os.fstat(PAYLOAD).st_size, 0))
    return payload


def run_payload() -> None:
    """Run the candidate of the payload file and write its lines to the result file.

    Exceptions of the candidate become lines.
    """
    code, entry, cases, per_case = read_payload()
    try:
        module = ModuleType("candidate")
        module.__file__ = _FILE_NAME
        sys.modules["candidate"] = module  # dataclasses and typing look their module up
        exec(compile(code, _FILE_NAME, "exec"), module.__dict__)
        function = module.__dict__.get(entry)
        if function is None:
            raise NameError(f"the program defines no {entry!r}")
        for index, arguments in enumerate(cases):
            if per_case:
                _write(_attempt(index, function, arguments))
            else:
                _write({"i": index, "out": function(*arguments)})
        _write({"done": True})
    except BaseException as error:  # SystemExit and KeyboardInterrupt are the candidate's doing too
        _write(
            {
                "exc": type(error).__name__,
                "msg": _printable(str(error)),
                "line": _line_of(error.__traceback__),
                "errno": getattr(error, "errno", None),
            }
        )


def _attempt(index: int, function: Any, arguments: list[Any]) -> dict[str, Any]:
    """Return the line of one case that may raise on its own."""
    try:
        return {"i": index, "out": function(*arguments)}
    except MemoryError:
        raise
    except Exception as error:
        return {"i": index, "err": _printable(f"{type(error).__name__}: {error}")}


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
    view = memoryview(data + b"\n")
    while view:
        view = view[os.write(RESULT, view) :]
