"""What a strategy decides, what it learns of, and what all strategies have in common."""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from evovpo.search.population import Insertion, Member
from evovpo.types import Parent, ParentRole, Prompt, PromptKind


class Plan(NamedTuple):
    """What an ask of a model is to show.

    Programs that the prompt format cannot show are left out; without its parent a mutation is a root prompt.
    """

    kind: PromptKind = PromptKind.ROOT
    parents: tuple[Parent, ...] = ()
    """Programs in their parts; the one to improve comes first."""
    only: Sequence[int] | None = None
    """Training rows that it concentrates on; None for all."""
    island: int = 0


class Reply(NamedTuple):
    """What a judged reply brought into the search."""

    prompt: Prompt
    members: Sequence[Member]
    """Its new programs that ran; of the starting programs also those that fail."""
    insertions: Sequence[Insertion]
    """What became of all its new programs."""
    is_complete: bool
    """True if the prompt lacks no more replies."""


Chance = Callable[[int], np.random.Generator]
"""Number of a stream -> a generator of this ask, for decisions that not every ask takes."""


class Strategy:
    """Chooses what every ask of a model shows; one with state of its own overrides what differs.

    `plan` is called once for every such ask, `observe` for every reply but notes. What a strategy knows
    follows from the order of these calls and from the given generators alone, so that a replayed history
    rebuilds it.
    """

    has_memory: ClassVar[bool] = True
    """True if replies change later prompts; without memory all asks are independent draws."""
    can_join: ClassVar[bool] = False
    """True if programs are also joined without a model."""

    @property
    def is_ready(self) -> bool:
        """False while the next ask should wait for replies to tickets that are open."""
        return True

    def plan(self, rng: np.random.Generator, chance: Chance) -> Plan:
        """Return what the next ask shows; `rng` is the generator of this ask."""
        raise NotImplementedError

    def observe(self, reply: Reply) -> None:
        """Take note of a reply; the starting programs come first, with the prompt of kind `SEED`."""
        raise NotImplementedError


def expand(member: Member | None) -> Plan:
    """Return the plan to improve one program, or without one to write from the problem alone."""
    if member is None:
        return Plan()
    return Plan(PromptKind.MUTATE, (Parent(member.program_id, ParentRole.PARENT),))
