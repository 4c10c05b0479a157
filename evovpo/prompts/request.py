"""The content of a prompt, the parsed answer, and the protocol of prompt formats.

Held-out rows are not part of a request, so only training rows can appear in prompts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from evovpo.types import Evaluation, Message, ParentRole, Problem, Program, PromptKind, Rollout


class Change(NamedTuple):
    """One change in the history of a program."""

    idea: str
    """The model's description, in one line."""
    before: float
    """Merit of the parent (`evovpo.analysis.scores.merit`)."""
    after: float
    """Merit of the changed program."""


CHANGES = 3
"""Maximum changes kept in the history of a program."""


@dataclass(frozen=True, slots=True)
class ShownProgram:
    """A judged program in a prompt."""

    program: Program
    evaluation: Evaluation
    changes: tuple[Change, ...] = ()
    """The latest described changes that led to the program, oldest first."""


class Attempt(NamedTuple):
    """An earlier failed answer to the same parent."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """The content of a prompt."""

    answers: int
    """M: answers requested in one completion."""
    kind: PromptKind = PromptKind.ROOT
    parent: ShownProgram | None = None
    partner: ShownProgram | None = None
    """The second parent of a crossover."""
    inspirations: tuple[ShownProgram, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    """Earlier failed answers to the same parent, oldest first."""
    rows: tuple[int, ...] = ()
    draw: int = 0
    """A random number of this ask, for formats with varying texts."""


class Answer(NamedTuple):
    """One slot of a completion: its text, its program if one could be parsed, and its tokens."""

    text: str
    program: Program | None
    token_span: tuple[int, int] | None
    reason: str = ""
    """Why there is no program; empty if the format gives no reason."""


class PromptFormat(Protocol):
    """Makes prompts for a problem and parses their answers."""

    reply_tokens: int
    """Default maximum completion tokens."""
    max_rows: int
    rollouts: int
    """Default completions per prompt."""
    ways: ClassVar[Mapping[str, float]]
    """Initial shares of the ways to ask (`evovpo.search.ways`); empty for the defaults."""
    others: int
    """Number of best programs of the island shown besides the parent of a mutation."""

    def messages(self, problem: Problem, request: PromptRequest) -> tuple[Message, ...]:
        """Return the prompt."""

    def can_show(self, problem: Problem, program: Program, role: ParentRole) -> bool:
        """Return whether a prompt can show this program in this role; the search shows only such programs."""

    def reply(self, problem: Problem, programs: Sequence[Program], parent: Program | None = None) -> str:
        """Return a completion that `answers` parses as these programs, for training."""

    def answers(
        self, problem: Problem, rollout: Rollout, answers: int, parent: Program | None = None
    ) -> list[Answer]:
        """Return exactly `answers` slots, padded with empty ones; edits apply to `parent`."""


def choose_rows(
    count: int, most: int, rng: np.random.Generator, only: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Return up to `most` random training rows for a prompt, of `only` or else of all `count`."""
    pool = list(range(count)) if only is None else list(only)
    return tuple(int(row) for row in rng.permutation(pool)[:most])
