"""Types: the content of a prompt, a parsed answer, and the protocol of prompt formats.

Held-out rows are not part of a request, so only training rows can appear in prompts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from evovpo.types import Evaluation, Message, ParentRole, Problem, Program, PromptKind, Rollout


class Change(NamedTuple):
    idea: str
    """The model's description of the change, in one line."""
    before: float
    """Merit of the parent (`evovpo.analysis.scores.merit`)."""
    after: float


CHANGES = 3
"""Maximum changes kept in the history of a program."""


@dataclass(frozen=True, slots=True)
class ShownProgram:
    program: Program
    evaluation: Evaluation
    changes: tuple[Change, ...] = ()
    """The latest changes that led to the program, oldest first; only changes with a description."""


class Attempt(NamedTuple):
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """The content of a prompt; `rows` are indices of the training rows to show."""

    answers: int
    kind: PromptKind = PromptKind.ROOT
    parent: ShownProgram | None = None
    partner: ShownProgram | None = None
    inspirations: tuple[ShownProgram, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    """Earlier failed answers to prompts with the same parent, oldest first."""
    rows: tuple[int, ...] = ()
    draw: int = 0
    """A random number, for formats that vary their texts."""


class Answer(NamedTuple):
    text: str
    program: Program | None
    token_span: tuple[int, int] | None
    reason: str = ""


class PromptFormat(Protocol):
    """An object that writes prompts for a problem and parses the answers."""

    reply_tokens: int
    max_rows: int
    rollouts: int
    ways: ClassVar[Mapping[str, float]]
    """Kind of prompt (`evovpo.search.ways`) -> its initial share of all prompts; empty for the defaults."""
    others: int

    def messages(self, problem: Problem, request: PromptRequest) -> tuple[Message, ...]:
        """Return the messages of the prompt."""

    def can_show(self, problem: Problem, program: Program, role: ParentRole) -> bool:
        """True if a prompt can show `program` in this role. The search never shows other programs."""

    def reply(self, problem: Problem, programs: Sequence[Program], parent: Program | None = None) -> str:
        """Return a completion, as training data, that the method `answers` would parse as `programs`."""

    def answers(
        self, problem: Problem, rollout: Rollout, answers: int, parent: Program | None = None
    ) -> list[Answer]:
        """Return the requested answers in a completion; missing ones are empty. Edits apply to `parent`."""


def choose_rows(
    count: int, most: int, rng: np.random.Generator, only: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Return up to `most` random row indices, from `only` if given, otherwise from `range(count)`."""
    pool = list(range(count)) if only is None else list(only)
    return tuple(int(row) for row in rng.permutation(pool)[:most])
