"""The task family `strings`: generated string tasks that need a program with a branch.

A program without a branch may be right on some rows of a task, but it is wrong on other rows. Answers are
judged in the sandbox, as in a search.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from transformers import AutoTokenizer

from evovpo.builtin.chain import MAX_ROWS
from evovpo.builtin.strings.expressions import ARGUMENTS
from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.builtin.strings.grammar import has_branch
from evovpo.judging.evaluator import Evaluator
from evovpo.judging.measure import JudgedAnswer
from evovpo.prompts.request import PromptRequest, ShownProgram
from evovpo.sandbox import Sandbox
from evovpo.types import Example, Objective, Problem, Program, PromptKind, Rollout, Sampling, content_id
from trainer.domains.domain import Split
from trainer.domains.strings.tasks import StringTask, sample_task

MIN_ROWS = 4
HELDOUT_ROWS = 20
_TOKENS_PER_ANSWER = 56


class StringFamily:
    """The built-in model's pretraining tasks that need a branch. Reward component i is for row i."""

    name = "strings"
    components = tuple(f"row {number}" for number in range(1, MAX_ROWS + 1))
    shows_parents = True

    def __init__(self, model_folder: Path, sandbox: Sandbox) -> None:
        self.model_folder, self.sandbox = model_folder, sandbox
        self._tokenizer = AutoTokenizer.from_pretrained(model_folder, trust_remote_code=False)
        self._known: dict[tuple[str, str], ShownProgram] = {}

    def max_tokens(self, answers: int) -> int:
        return answers * _TOKENS_PER_ANSWER

    def tasks(self, split: Split, count: int, seed: int = 0) -> list[Problem]:
        """Return the first `count` tasks of a split; each has `MIN_ROWS` rows or more and needs a branch."""
        rng = Random(f"conflicting:{split}:{seed}")
        found: list[Problem] = []
        while len(found) < count:
            task = sample_task(rng, 0 if split == "train" else HELDOUT_ROWS)
            if has_branch(task.tree) and len(task.rows) >= MIN_ROWS:
                found.append(as_problem(task))
        return found

    def prompt_ids(self, task: Problem, answers: int, parent: str | None = None) -> tuple[int, ...]:
        """Return the token ids of a prompt with all rows. A given `parent` is shown with its outputs."""
        shown = None if parent is None else self._known[task.version, parent]
        kind = PromptKind.ROOT if shown is None else PromptKind.MUTATE
        request = PromptRequest(answers, kind, shown, rows=tuple(range(len(task.train))))
        messages = ExpressionFormat(task).messages(task, request)
        return self.encode("".join(message.content for message in messages))

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a prompt's text."""
        ids: list[int] = self._tokenizer(text)["input_ids"]
        return tuple(ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of a completion."""
        return str(self._tokenizer.decode(list(token_ids)))

    def judge(self, task: Problem, completion_ids: Sequence[int], answers: int) -> list[JudgedAnswer]:
        """Return exactly `answers` judged answers. A program that was judged before is not run again."""
        text = self.decode(completion_ids)
        rollout = Rollout("", "", 0, 0, text, tuple(completion_ids), None, None, Sampling(), "stop", 0.0)
        zeros = JudgedAnswer(None, (0.0,) * len(task.objectives))
        return [
            (zeros if answer.program is None else self._judged(task, answer.program))._replace(
                span=answer.token_span
            )
            for answer in ExpressionFormat(task).answers(task, rollout, answers)
        ]

    def _judged(self, task: Problem, program: Program) -> JudgedAnswer:
        key = (task.version, program.id)
        shown = self._known.get(key) or ShownProgram(program, Evaluator(task, self.sandbox).evaluate(program))
        if shown.evaluation.rewards is not None:  # else the sandbox failed: try again next time
            self._known[key] = shown
        return JudgedAnswer(program.id, shown.evaluation.rewards)


def as_problem(task: StringTask) -> Problem:
    """Return a sampled task as a problem by example, with one objective per row."""
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
        heldout=tuple(Example(row, output) for row, output in task.heldout),
    )
