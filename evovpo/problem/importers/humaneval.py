"""HumanEval: `human-eval`'s JSON Lines with task_id, prompt, entry_point, canonical_solution and test.

The format is that of github.com/openai/human-eval (arXiv 2107.03374): `prompt` is the beginning of a program
up to the function's docstring, and `test` defines `check(candidate)`, whose assertions become tests.
"""

import ast
from typing import Any

from evovpo.problem.importers.assertions import parse, read_tests, signature
from evovpo.problem.importers.tasks import ImportedTask, Record, UnusableTaskError


class HumanEvalRecord(Record):
    task_id: Any
    prompt: str
    entry_point: str
    test: str

    @property
    def name(self) -> str:
        return str(self.task_id)

    def task(self) -> ImportedTask:
        seed = self.prompt.rstrip() + "\n    return None\n"
        found = signature(seed, self.entry_point)
        statement = f"Write the function {found.name}, which begins like this:\n\n{self.prompt.strip()}\n"
        for node in parse(self.test).body:
            match node:
                case ast.FunctionDef(name="check", args=ast.arguments(args=[candidate]), body=body):
                    tests, left_out = read_tests(body, candidate.arg, found)
                    return ImportedTask(
                        self.name, statement, found.name, found.parameters, seed, tests, (), left_out
                    )
        raise UnusableTaskError("its test defines no check(candidate)")
