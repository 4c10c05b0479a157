"""LiveCodeBench (arXiv 2403.07974): programs that run in the sandbox on the tests of their task.

The rewards are VPO's (arXiv 2605.22817), with one component per test. If a task has more than 16 tests, they
are distributed over 16 components, and each component is the share of its tests that pass. Files have the
format of LiveCodeBench or of DeepCoder (`trainer/domains/text/deepcoder.py`). If a task reads standard input,
the prompt asks for a function from the input text to the output text. Programs with equal syntax trees are
duplicates.

A program's tests run one after another in one process. A test that ends the process (too slow, out of memory)
fails, and the remaining tests run in a new process. A program gets at most three processes, which together
have 10 seconds of wall-clock time and 6 seconds of CPU time.
"""

import ast
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import RootModel

from evovpo.analysis.grouping import MOST_COMPONENTS, group_rewards
from evovpo.errors import AnswerError, ProblemError
from evovpo.judging.measure import JudgedAnswer
from evovpo.problem.examples import same_value
from evovpo.problem.importers.livecodebench import LiveCodeBenchRecord
from evovpo.problem.importers.problem_writer import dealt, folder_name
from evovpo.problem.importers.score import same_words
from evovpo.problem.importers.tasks import ImportedTask, UnusableTaskError, checked_record, parse, usable
from evovpo.prompts.replies import blocks
from evovpo.sandbox import Sandbox
from evovpo.types import Limits, Status, content_id
from trainer.domains.domain import Domain, Row
from trainer.domains.text.answers import chat, text_domain
from trainer.domains.text.deepcoder import as_livecodebench, is_deepcoder
from trainer.domains.text.rows import files_of, read_rows

MAX_TOKENS = (2048, 3072)
COMPONENTS = tuple(f"tests-{hand}" for hand in range(1, MOST_COMPONENTS + 1))
_REST = Limits(wall_seconds=1.0, cpu_seconds=1)
LIMITS = (Limits(wall_seconds=8.0, cpu_seconds=4), _REST, _REST)
"""Limits of the first, second and third process of a program."""
_ONE = "Write it in one fenced python block."
_SEVERAL = (
    "Write {} whole programs, each with a different approach and in a fenced python block of its own, and a "
    "line --- between two blocks."
)


def open_file(data: Path, answers: int) -> Domain:
    """Return the domain of a LiveCodeBench file. Tasks without a usable test are left out.

    Raises `ProblemError` if no task is left, and `SandboxError` if programs cannot be run safely.
    """
    files = files_of(data)
    tasks = [task for file in files for task in _tasks(file)]
    if not tasks:
        raise ProblemError(f"{data}: expected tasks with tests that can be used, found none")
    sandbox = Sandbox(preload=(), hidden=[file.resolve() for file in files])
    form = _ONE if answers == 1 else _SEVERAL.format(answers)

    def read(source: str, row: Row) -> JudgedAnswer:
        task = tasks[row["task"]]
        try:
            key = content_id(ast.dump(parse(source)))
        except UnusableTaskError as error:
            raise AnswerError("its code is not Python") from error
        passed: list[bool] = []
        reason = ""
        is_right: Callable[[Any, Any], bool] = same_words if task.compares_words else same_value
        for limits in LIMITS:
            left = task.tests[len(passed) :]
            cases = [test.arguments for test in left]
            result = sandbox.run(source, task.entry, cases, limits, per_case=True)
            if result.status is Status.SANDBOX_ERROR:
                return JudgedAnswer(key, None, reason=result.detail)
            runs = list(zip(left, result.outputs, result.errors, strict=True))
            while result.status is not Status.OK and runs and runs[-1][1] is runs[-1][2] is None:
                runs.pop()  # the tests that were not reached
            passed += [error is None and is_right(output, test.expected) for test, output, error in runs]
            if len(passed) == len(task.tests):
                break
            passed.append(False)
            reason = reason or f"{result.status}: {result.detail}"
        passed += [False] * (len(task.tests) - len(passed))
        rewards = tuple(group_rewards(passed, dealt(len(passed))).tolist())
        return JudgedAnswer(key, rewards, reason="" if any(rewards) else reason)

    prompts = [
        chat(f"{task.statement}\n{form}")
        | {"task": number, "id": folder_name(task.name), "date": task.date}
        | {"size": len(dealt(len(task.tests)))}
        for number, task in enumerate(tasks)
    ]
    cores = max(2, len(os.sched_getaffinity(0)))
    domain = text_domain(
        "livecodebench", COMPONENTS, answers, prompts, read, MAX_TOKENS, part=_block, threads=cores
    )
    return replace(domain, close=sandbox.close)


def _tasks(file: Path) -> Iterator[ImportedTask]:
    for number, row in enumerate(read_rows(file, RootModel[dict[str, Any]]), 1):
        where = f"{file}: row {number}"
        value = as_livecodebench(row.root, where) if is_deepcoder(row.root) else row.root
        with suppress(UnusableTaskError):
            yield usable(checked_record(value, LiveCodeBenchRecord, where).task())


def _block(text: str, number: int, answers: int) -> str:
    found = [block for block in blocks(text) if block.language in ("python", "python3", "py", "")]
    if len(found) < number or not found[number - 1].is_closed:
        raise AnswerError(f"it has no closed python block number {number}")
    return found[number - 1].text
