"""The request that a prompt is made from, the parsed answer, and the protocol of prompt formats.

Held-out rows are never passed in, so only training rows can reach a prompt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from evovpo.types import Evaluation, Message, ParentRole, Problem, Program, PromptKind, Rollout


class Change(NamedTuple):
    """One step on the way to a program."""

    idea: str
    """What the model said of it, in one line."""
    before: float
    """What ranked the parent (`evovpo.analysis.scores.merit`)."""
    after: float
    """What ranks the program that came of it."""


CHANGES = 3
"""Most changes of a program's history that are kept."""


@dataclass(frozen=True, slots=True)
class ShownProgram:
    """A judged program as a prompt shows it."""

    program: Program
    evaluation: Evaluation
    changes: tuple[Change, ...] = ()
    """The last changes that led to it, as far as a model said what they are; oldest first."""


class Attempt(NamedTuple):
    """An earlier failed answer to the same parent."""

    text: str
    reason: str
    """Why it was refused, or how it failed."""


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """The content of a prompt."""

    answers: int
    """M: answers asked for in one completion."""
    kind: PromptKind = PromptKind.ROOT
    parent: ShownProgram | None = None
    partner: ShownProgram | None = None
    """The second parent of a crossover."""
    inspirations: tuple[ShownProgram, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    """Earlier failed answers to the same parent, oldest first."""
    rows: tuple[int, ...] = ()
    notes: str = ""
    """What a model wrote down about the search so far."""
    draw: int = 0
    """A random number of this ask, for formats whose texts vary."""


class Answer(NamedTuple):
    """One slot of a completion: its text, its program if one could be read, and its tokens."""

    text: str
    program: Program | None
    token_span: tuple[int, int] | None
    reason: str = ""
    """Why there is no program, where the format can say more than that it cannot be read."""


class PromptFormat(Protocol):
    """Makes prompts for a problem and parses their answers."""

    reply_tokens: int
    """Maximum completion tokens unless the configuration sets them."""
    max_rows: int
    """Maximum number of training rows in a prompt."""
    rollouts: int
    """Completions per prompt unless the configuration sets them."""
    ways: ClassVar[Mapping[str, float]]
    """Shares of the ways to ask at first (`evovpo.search.ways`); empty for the usual ones."""
    others: int
    """Number of best programs of the island that a mutation shows besides the parent."""

    def messages(self, problem: Problem, request: PromptRequest) -> tuple[Message, ...]:
        """Return the prompt."""

    def can_show(self, problem: Problem, program: Program, role: ParentRole) -> bool:
        """True if a prompt can show this program in this part; search offers only such programs."""

    def reply(self, problem: Problem, programs: Sequence[Program], parent: Program | None = None) -> str:
        """Return the completion, for a model to learn, of which `answers` reads these programs."""

    def answers(
        self, problem: Problem, rollout: Rollout, answers: int, parent: Program | None = None
    ) -> list[Answer]:
        """Return exactly `answers` slots, empty ones where nothing was written; edits apply to `parent`."""


def choose_rows(
    count: int, most: int, rng: np.random.Generator, only: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Return which of `count` training rows, or of `only` these, a prompt shows: at most `most`, shuffled."""
    pool = list(range(count)) if only is None else list(only)
    return tuple(int(row) for row in rng.permutation(pool)[:most])
