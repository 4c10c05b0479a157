"""MBPP: JSON Lines with task_id, text, code and test_list, or the sanitized JSON list with prompt for text.

The formats are those of github.com/google-research/google-research, folder mbpp (arXiv 2108.07732). `code` is
a right solution: its signature is all that is taken of it. `challenge_test_list` becomes held-out tests.
"""

import ast
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from evovpo.errors import ProblemError
from evovpo.problem.importers.assertions import (
    ReadTests,
    Signature,
    UnreadableError,
    parse,
    read_tests,
    signature,
)
from evovpo.problem.importers.reading import Record, read_records, text_field
from evovpo.problem.importers.tasks import Loaded, Skipped, finished

FIELDS = ("task_id", "code", "test_list")


def load(path: Path, limit: int | None = None) -> list[Loaded]:
    """Return the tasks of a file; raises `ProblemError` for a file that is not of this format."""
    return [_task(record) for record in read_records(path, FIELDS, limit)]


def _task(record: Record) -> Loaded:
    name = f"MBPP/{record['task_id']}"
    words = next((field for field in ("text", "prompt") if field in record), None)
    if words is None:
        raise ProblemError(
            f"task {name}: expected the field text or prompt, found neither; name another format"
        )
    text, code = text_field(record, words, name), text_field(record, "code", name)
    tests = _assertions(record, "test_list", name)
    try:
        function = signature(code, _called(code, tests))
        found = _read(tests, function)
        heldout = _read(_assertions(record, "challenge_test_list", name), function)
    except UnreadableError as error:
        return Skipped(name, str(error))
    head = f"def {function.name}({', '.join(function.parameters)}):"
    statement = f"{text.strip()}\n\nThe function is {head[4:-1]}.\n"
    seed = f"{head}\n    return None\n"
    left_out = [*found.left_out, *heldout.left_out]
    return finished(
        name, statement, function.name, function.parameters, seed, found.tests, left_out, heldout.tests
    )


def _assertions(record: Record, field: str, name: str) -> list[str]:
    value = record.get(field) or []
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise ProblemError(f"task {name}: {field}: expected a list of texts, found {value!r:.60}")
    return value


def _called(code: str, tests: Sequence[str]) -> str:
    """Return the function of the solution that the tests name most often."""
    defined = {node.name for node in parse(code).body if isinstance(node, ast.FunctionDef)}
    named = Counter(
        node.id
        for test in tests
        for node in ast.walk(parse(test))
        if isinstance(node, ast.Name) and node.id in defined
    )
    if not named:
        raise UnreadableError("its tests call no function of the solution")
    return named.most_common(1)[0][0]


def _read(tests: Sequence[str], function: Signature) -> ReadTests:
    return read_tests(parse("\n".join(tests)).body, function.name, function)
