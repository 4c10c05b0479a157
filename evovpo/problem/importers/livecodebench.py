"""Reads tasks of LiveCodeBench: JSON Lines with question, starter code, public and private tests.

The format is the one for code generation in github.com/LiveCodeBench/LiveCodeBench (arXiv 2403.07974). A test
of type `functional` has one JSON argument per line and a JSON result. The name of its function is in
`metadata`. A test of type `stdin` becomes a test of a function that turns input text into output text.
Private tests are pickled JSON text, compressed with zlib, in base64. The unpickler cannot import or run code.
"""

import ast
import base64
import binascii
import io
import json
import pickle
import textwrap
import zlib
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel

from evovpo.errors import ProblemError
from evovpo.problem.importers import tasks
from evovpo.problem.importers.tasks import Case, ImportedTask, SkippedTask, UnusableTaskError
from evovpo.types import Json

_MOST_BYTES = 256 << 20
_MOST_DIGITS = 40
_Cases = list[dict[str, Any]]


def load_tasks(path: Path, limit: int | None = None) -> list[ImportedTask | SkippedTask]:
    """Return the first `limit` tasks of a file. Raises `ProblemError` if the file has another format."""
    loaded: list[ImportedTask | SkippedTask] = []
    for number, value in enumerate(islice(tasks.read_values(path), limit), start=1):
        record = tasks.checked_record(value, LiveCodeBenchRecord, f"{path}: record {number}")
        try:
            loaded.append(tasks.usable(record.task()))
        except UnusableTaskError as error:
            loaded.append(SkippedTask(record.name, str(error)))
    if not loaded:
        raise ProblemError(f"{path}: expected at least one task, found none; is it the right file?")
    return loaded


class LiveCodeBenchRecord(BaseModel, strict=True):
    """The fields that are read from a record of the file; all other fields are ignored."""

    question_id: Any
    question_content: str
    starter_code: str
    public_test_cases: Any
    private_test_cases: Any
    platform: Any = None
    metadata: Any = None
    contest_date: str = ""

    @property
    def name(self) -> str:
        return f"{self.platform or 'LiveCodeBench'}/{self.question_id}"

    def task(self) -> ImportedTask:
        """Return the task of this record. Raises `UnusableTaskError` if the task cannot be used."""
        cases = [
            case
            for field in ("public_test_cases", "private_test_cases")
            for case in _cases(getattr(self, field), f"task {self.name}: {field}")
        ]
        kinds = {str(case["testtype"]) for case in cases}
        if kinds == {"stdin"}:
            return self._by_text(cases)
        if kinds == {"functional"}:
            return self._by_call(self._function_name(), cases)
        raise UnusableTaskError(f"its tests are of the types {', '.join(sorted(kinds)) or 'none'}")

    def _by_text(self, cases: _Cases) -> ImportedTask:
        statement = (
            f"{self.question_content.strip()}\n\nWrite this as the function solve(text): text is all of the "
            "standard input, and what would be printed is returned as one text.\n"
        )
        seed = 'def solve(text):\n    return ""\n'
        tests = [Case((str(case["input"]),), str(case["output"])) for case in cases]
        task = ImportedTask(self.name, statement, "solve", ("text",), seed, tests, date=self.contest_date)
        return task._replace(compares_words=True)

    def _by_call(self, entry: str, cases: _Cases) -> ImportedTask:
        parameters = _parameters(self.starter_code, entry)
        head = f"{entry}({', '.join(parameters)})"
        tests: list[Case] = []
        left_out: list[str] = []
        for case in cases:
            try:
                lines = [line for line in str(case["input"]).split("\n") if line.strip()]
                arguments = tuple(map(_value, lines))
                expected = _value(str(case["output"]))
                if len(arguments) != len(parameters):
                    raise UnusableTaskError("it has another number of arguments than the function")
                tests.append(Case(arguments, expected))
            except UnusableTaskError as error:
                left_out.append(str(error))
            except (ValueError, RecursionError):
                left_out.append("its arguments or its result are no JSON")
        statement = (
            f"{self.question_content.strip()}\n\nWrite this as the function {head}, not as a method of a "
            "class.\n"
        )
        seed = f"def {head}:\n    return None\n"
        return ImportedTask(
            self.name, statement, entry, parameters, seed, tests, (), left_out, date=self.contest_date
        )

    def _function_name(self) -> str:
        metadata = self.metadata or "{}"
        try:
            return str((json.loads(metadata) if isinstance(metadata, str) else metadata)["func_name"])
        except (ValueError, KeyError, TypeError) as error:
            raise UnusableTaskError("metadata does not say the function's name (func_name)") from error


def _value(text: str) -> Json:
    value: Json = json.loads(text, parse_int=_whole_number)
    json.dumps(value, allow_nan=False)
    return value


def _whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise UnusableTaskError(f"a whole number of more than {_MOST_DIGITS} digits")
    return int(digits)


def _parameters(starter: str, entry: str) -> tuple[str, ...]:
    for body in ("        pass", "    pass"):
        try:
            tree = tasks.parse(textwrap.dedent(starter).rstrip() + "\n" + body)
        except UnusableTaskError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == entry:
                return tuple(part.arg for part in node.args.args if part.arg != "self")
    raise UnusableTaskError(f"its starter code has no function {entry}")


def _cases(value: object, where: str) -> _Cases:
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            found = _unpacked(value, where)
    if not isinstance(found, list) or not all(
        isinstance(case, dict) and case.keys() >= {"input", "output", "testtype"} for case in found
    ):
        raise ProblemError(
            f"{where}: expected a list of tests with input, output and testtype, found {found!r:.60};"
            " is it the right file?"
        )
    return found


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler for text, numbers, lists and dictionaries. It refuses all data that need an import."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError("it refers to something outside")


def _unpacked(text: str, where: str) -> object:
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
        if stream.unconsumed_tail:
            raise ProblemError(f"{where}: more than {_MOST_BYTES >> 20} MiB of tests; remove the task")
        found = _PlainUnpickler(io.BytesIO(data)).load()
        return json.loads(found) if isinstance(found, str) else found
    except (
        binascii.Error, zlib.error, pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError,
        AttributeError, TypeError, RecursionError, MemoryError, OverflowError,
    ) as error:  # fmt: skip
        raise ProblemError(
            f"{where}: expected JSON, or base64 of zlib of a pickled JSON text, found: {error};"
            " nothing of it was run"
        ) from error
