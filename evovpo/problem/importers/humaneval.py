"""HumanEval: `human-eval`'s JSON Lines with task_id, prompt, entry_point, canonical_solution and test.

The format is that of github.com/openai/human-eval (arXiv 2107.03374): `prompt` is the beginning of a program
up to the function's docstring, and `test` defines `check(candidate)`, whose assertions become tests.
"""

import ast
from pathlib import Path

from evovpo.problem.importers.assertions import UnreadableError, parse, read_tests, signature
from evovpo.problem.importers.reading import Record, read_records, text_field
from evovpo.problem.importers.tasks import Loaded, Skipped, finished

FIELDS = ("task_id", "prompt", "entry_point", "test")


def load(path: Path, limit: int | None = None) -> list[Loaded]:
    """Return the tasks of a file; raises `ProblemError` for a file that is not of this format."""
    return [_task(record) for record in read_records(path, FIELDS, limit)]


def _task(record: Record) -> Loaded:
    name = str(record["task_id"])
    prompt, entry, test = (text_field(record, field, name) for field in FIELDS[1:])
    seed = prompt.rstrip() + "\n    return None\n"
    try:
        function = signature(seed, entry)
        body, called = _check(test)
        found = read_tests(body, called, function)
    except UnreadableError as error:
        return Skipped(name, str(error))
    statement = f"Write the function {entry}, which begins like this:\n\n{prompt.strip()}\n"
    return finished(name, statement, entry, function.parameters, seed, found.tests, found.left_out)


def _check(test: str) -> tuple[list[ast.stmt], str]:
    """Return the body of `check` and the name of its parameter."""
    for node in parse(test).body:
        if isinstance(node, ast.FunctionDef) and node.name == "check" and len(node.args.args) == 1:
            return node.body, node.args.args[0].arg
    raise UnreadableError("its test defines no check(candidate)")
