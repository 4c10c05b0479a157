"""MBPP: JSON Lines with task_id, text, code and test_list, or the sanitized JSON list with prompt for text.

The formats are those of github.com/google-research/google-research, folder mbpp (arXiv 2108.07732). `code` is
a right solution: its signature is all that is taken of it. `challenge_test_list` becomes held-out tests.
"""

import ast
from collections import Counter
from typing import Any

from pydantic import AliasChoices, Field

from evovpo.problem.importers.assertions import parse, read_tests, signature
from evovpo.problem.importers.tasks import ImportedTask, Record, UnusableTaskError


class MbppRecord(Record):
    task_id: Any
    code: str
    test_list: list[str]
    text: str = Field(validation_alias=AliasChoices("text", "prompt"))
    challenge_test_list: list[str] | None = None

    @property
    def name(self) -> str:
        return f"MBPP/{self.task_id}"

    def task(self) -> ImportedTask:
        function = signature(self.code, self._called())
        (tests, left_out), (heldout, held_out_left_out) = (
            read_tests(parse("\n".join(lines)).body, function.name, function)
            for lines in (self.test_list, self.challenge_test_list or [])
        )
        head = f"{function.name}({', '.join(function.parameters)})"
        statement = f"{self.text.strip()}\n\nThe function is {head}.\n"
        seed = f"def {head}:\n    return None\n"
        reasons = [*left_out, *held_out_left_out]
        return ImportedTask(
            self.name, statement, function.name, function.parameters, seed, tests, heldout, reasons
        )

    def _called(self) -> str:
        """Return the function of the solution that the tests name most often."""
        defined = {node.name for node in parse(self.code).body if isinstance(node, ast.FunctionDef)}
        nodes = (node for test in self.test_list for node in ast.walk(parse(test)))
        named = Counter(node.id for node in nodes if isinstance(node, ast.Name) and node.id in defined)
        if not named:
            raise UnusableTaskError("its tests call no function of the solution")
        return named.most_common(1)[0][0]
