"""Generated string tasks whose examples conflict, as a domain of the study.

The program behind every task branches: no straight program is right on all of its rows, and one that
is right on some is wrong on others. Answers are judged as in a search: by the sandbox.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import NamedTuple, Self

from transformers import AutoTokenizer

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.builtin.strings.grammar import ARGUMENTS, has_branch
from evovpo.judging.evaluator import Evaluator
from evovpo.judging.measure import JudgedAnswer
from evovpo.prompts import Request, Shown
from evovpo.sandbox import Sandbox
from evovpo.types import Example, Objective, Problem, PromptKind, Rollout, Sampling, content_id
from trainer.domains.domain import Split
from trainer.domains.strings.tasks import Task, sample_task

MIN_ROWS = 4
_TOKENS_PER_ANSWER = 56
"""Nineteen in twenty programs of the pretraining data with a branch are shorter."""


class StringTask(NamedTuple):
    """One task: its rows as a problem, whose objective i is row i."""

    key: str
    problem: Problem


class StringDomain:
    """Tasks from the generator of the built-in model's pretraining that need a branch; a context manager.

    `workers` programs are run at a time. Raises `SandboxError` as the sandbox does.
    """

    name = "strings"
    shows_parents = True

    def __init__(self, model_folder: Path = BUILT_IN_MODEL) -> None:
        self.model_folder = model_folder
        self._tokenizer = AutoTokenizer.from_pretrained(model_folder)
        self._sandbox = Sandbox(workers=1, preload=())
        self._known: dict[tuple[str, str], Shown] = {}
        """Programs judged so far, by problem version and program id."""

    def __enter__(self) -> Self:
        self._sandbox.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sandbox.__exit__(kind, value, trace)

    def max_tokens(self, answers: int) -> int:
        """Return the longest completion worth sampling."""
        return answers * _TOKENS_PER_ANSWER

    def tasks(self, split: Split, count: int, seed: int = 0) -> list[StringTask]:
        """Return the first `count` tasks of a split, each with at least `MIN_ROWS` rows and a branch."""
        rng = Random(f"conflicting:{split}:{seed}")
        found: list[StringTask] = []
        while len(found) < count:
            task = sample_task(rng)
            if has_branch(task.tree) and len(task.rows) >= MIN_ROWS:
                found.append(StringTask(f"{split}-{seed}-{len(found)}", as_problem(task)))
        return found

    def prompt_ids(self, task: StringTask, answers: int, parent: str | None = None) -> tuple[int, ...]:
        """Return the prompt that shows all rows, and a parent with what it gave, if there is one."""
        problem = task.problem
        shown = None if parent is None else self._known[problem.version, parent]
        kind = PromptKind.ROOT if shown is None else PromptKind.MUTATE
        request = Request(answers, kind, shown, rows=tuple(range(len(problem.train))))
        messages = ExpressionFormat(problem).messages(problem, request)
        ids: list[int] = self._tokenizer("".join(message.content for message in messages))["input_ids"]
        return tuple(ids)

    def judge(self, task: StringTask, completion_ids: Sequence[int], answers: int) -> list[JudgedAnswer]:
        """Return exactly `answers` answers; a program that was judged before is not run again."""
        text = str(self._tokenizer.decode(list(completion_ids)))
        problem = task.problem
        rollout = Rollout("", "", 0, 0, text, tuple(completion_ids), None, None, Sampling(), "stop", 0.0)
        judged = []
        zeros = (0.0,) * len(problem.objectives)
        for answer in ExpressionFormat(problem).answers(problem, rollout, answers):
            if answer.program is None:
                judged.append(JudgedAnswer(None, zeros, answer.token_span))
                continue
            key = (problem.version, answer.program.id)
            if key not in self._known:
                evaluation = Evaluator(problem, self._sandbox).evaluate(answer.program)
                if evaluation.rewards is None:  # the sandbox failed, and may not the next time
                    judged.append(JudgedAnswer(answer.program.id, None, answer.token_span))
                    continue
                self._known[key] = Shown(answer.program, evaluation)
            rewards = self._known[key].evaluation.rewards
            judged.append(JudgedAnswer(answer.program.id, rewards, answer.token_span))
        return judged


def as_problem(task: Task) -> Problem:
    """Return a sampled task as a problem by example whose objectives are its rows."""
    arguments = len(task.rows[0])
    train = tuple(Example(row, output) for row, output in zip(task.rows, task.outputs, strict=True))
    version = content_id(repr(train))
    return Problem(
        id=f"generated/{version}",
        version=version,
        statement="",
        entry="transform",
        parameters=tuple(ARGUMENTS[:arguments]),
        objectives=tuple(Objective(f"row {number}") for number in range(1, len(train) + 1)),
        seeds=(),
        train=train,
    )
