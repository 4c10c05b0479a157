"""What a strategy decides for an ask, and what it is told of a reply."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from evovpo.search.population import Member
from evovpo.types import Parent, ParentRole, Prompt, PromptKind


class Plan(NamedTuple):
    """What a prompt is to show.

    Programs that the prompt format cannot show are left out; without its parent a mutation is a root prompt.
    """

    kind: PromptKind = PromptKind.ROOT
    parents: tuple[Parent, ...] = ()
    """Programs in their parts; the one to improve comes first."""
    only: Sequence[int] | None = None
    """Training rows that it concentrates on; None for all."""
    island: int = 0
    way: str = ""
    """The way to ask that made it (`evovpo.search.ways`); empty where a strategy has one way only."""


class Reply(NamedTuple):
    """The effect of a judged reply on the search."""

    prompt: Prompt
    members: Sequence[Member]
    """Its new programs that ran; of the starting programs also those that fail."""
    gain: float
    """The most that one of its programs was worth (`Population.gain`)."""


Chance = Callable[[int], np.random.Generator]
"""Number of a stream -> a generator of this ask, for decisions that not every ask takes."""


def expand(member: Member | None, island: int = 0) -> Plan:
    """Return the plan to improve one program, or without one to write from the problem alone."""
    if member is None:
        return Plan(island=island)
    return Plan(PromptKind.MUTATE, (Parent(member.program_id, ParentRole.PARENT),), island=island)
