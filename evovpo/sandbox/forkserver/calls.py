"""Calls from an evaluator to a candidate in another process, as JSON frames on a stream socket.

A frame is a length (4 bytes, little-endian) and a JSON object. The candidate first sends `{"ready": true}`
or `{"exc": ...}`. It then answers `{"call": name, "args": [...], "kwargs": {...}}` with `{"out": value}` or
`{"exc": type, "msg": text}`. A numpy array is sent as `{"$array": [dtype, shape, base64]}`. `serve` runs in
the candidate's process and is not trusted; `SocketModule` runs in the evaluator and parses strictly.
"""

import binascii
import json
import re
import struct
from types import ModuleType
from typing import IO, Any

from . import program
from .strict_json import read_object

MODULE = "evovpo_calls"
ARRAY = "$array"
_LENGTH = struct.Struct("<I")
_DTYPE = re.compile(r"[<>|=]?[biuf][0-9]{1,2}")


class CandidateError(RuntimeError):
    """The candidate raised an exception, ended, or returned an invalid answer."""


def pack(value: Any) -> Any:
    """Return a value encoded as JSON types. Raises TypeError for a value that cannot be encoded."""
    if value is None or isinstance(value, bool | int | float | str):
        if type(value).__module__ == "numpy":  # float64 is a float too
            return value.item()  # type: ignore[union-attr]
        return value
    if isinstance(value, list | tuple):
        return [pack(item) for item in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == ARRAY:
                raise TypeError(f"a dictionary with the key {key!r:.60} cannot pass; keys are texts")
        return {key: pack(item) for key, item in value.items()}
    if type(value).__module__.partition(".")[0] == "numpy":
        if value.ndim == 0:
            return pack(value.item())
        if _DTYPE.fullmatch(value.dtype.str):
            return {
                ARRAY: [value.dtype.str, list(value.shape), binascii.b2a_base64(value.tobytes()).decode()]
            }
    raise TypeError(f"a value of type {type(value).__name__} cannot pass between candidate and evaluator")


def unpack(value: Any) -> Any:
    """Return the value that `pack` encoded. Raises ValueError if the encoding is invalid."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if isinstance(value, dict):
        return _array(value[ARRAY]) if ARRAY in value else {key: unpack(item) for key, item in value.items()}
    return value


def _array(parts: Any) -> Any:
    if not (isinstance(parts, list) and len(parts) == 3):
        raise ValueError("an array without type, shape and data")
    kind, shape, data = parts
    if not (isinstance(kind, str) and _DTYPE.fullmatch(kind) and isinstance(data, str)):
        raise ValueError("an array of another type than numbers")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("an array without a shape")
    import numpy  # imported late: only processes that use arrays need numpy

    found = numpy.frombuffer(binascii.a2b_base64(data), dtype=kind).reshape(shape).copy()
    if not numpy.isfinite(found).all():
        raise ValueError("an array with a number that is not finite")
    return found


def _send(descriptor: int, message: dict[str, Any]) -> None:
    data = json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
    program.write_all(descriptor, _LENGTH.pack(len(data)) + data)


def _receive(stream: IO[bytes], most_bytes: int) -> bytes:
    """Return the next frame, or b"" at the end of the stream. Raises ValueError if the frame is too long."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return b""
    (length,) = _LENGTH.unpack(head)
    if length > most_bytes:
        raise ValueError(f"an answer of {length} bytes; at most {most_bytes} are accepted")
    frame = stream.read(length)
    return frame if len(frame) == length else b""


def serve(descriptor: int, code: str) -> None:
    """Load a candidate, and answer calls to its functions until the evaluator closes the socket."""
    try:
        names = program.load(code)
    except BaseException as error:  # including SystemExit
        _send(descriptor, program.exception_line(error))
        return
    _send(descriptor, {"ready": True})
    stream = open(descriptor, "rb", closefd=False)  # noqa: SIM115  # open until the process ends
    while frame := _receive(stream, 1 << 32):
        call = json.loads(frame)
        try:
            arguments, keywords = unpack(call["args"]), unpack(call["kwargs"])
            answer = {"out": pack(names[call["call"]](*arguments, **keywords))}
            _send(descriptor, answer)
        except BaseException as error:
            _send(descriptor, program.exception_line(error))


class SocketModule(ModuleType):
    """The module that a stub imports to call an untrusted candidate through a socket; thread-safe."""

    CandidateError = CandidateError

    def __init__(self, descriptor: int, most_bytes: int) -> None:
        import threading  # not at the top: it would slow every fork of the fork-server

        super().__init__(MODULE)
        self._descriptor = descriptor
        self._stream = open(descriptor, "rb", closefd=False)  # noqa: SIM115
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._is_connected = False

    def connect(self) -> None:
        """Wait until the candidate is loaded. Raises `CandidateError` if the candidate cannot be loaded."""
        with self._lock:
            if not self._is_connected:
                if self._answer().get("ready") is not True:
                    raise CandidateError("the candidate did not say that it is ready")
                self._is_connected = True

    def call(self, name: str, arguments: Any, keywords: Any) -> Any:
        """Call a function of the candidate and return its result. Raises `CandidateError` if this fails."""
        request = {"call": name, "args": pack(arguments), "kwargs": pack(keywords)}
        with self._lock:
            try:
                _send(self._descriptor, request)
            except OSError as error:
                raise CandidateError("the candidate ended") from error
            answer = self._answer()
        if "out" not in answer:
            raise CandidateError("the candidate's answer has no value")
        try:
            return unpack(answer["out"])
        except (ValueError, TypeError) as error:
            raise CandidateError(f"the candidate's answer is not acceptable: {error}") from None

    def _answer(self) -> dict[str, Any]:
        try:
            frame = _receive(self._stream, self._most_bytes)
            if not frame:
                raise CandidateError("the candidate ended")
            answer, impurity = read_object(frame)
            if impurity:
                raise ValueError(impurity)
        except (OSError, ValueError, RecursionError) as error:
            raise CandidateError(f"the candidate's answer is not acceptable: {error}"[:300]) from None
        if "exc" in answer:
            place = f" (line {answer['line']})" if isinstance(answer.get("line"), int) else ""
            raise CandidateError(f"{answer['exc']}: {answer.get('msg')}"[:300] + place)
        return answer
