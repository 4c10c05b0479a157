"""Judged programs, and fronts of them: compared by dominance of their reward vectors, never by a sum of them.

Of two programs with the same vector the shorter stays, and of too many the one whose loss costs least goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from evovpo.types import Rewards


@dataclass(frozen=True, slots=True)
class Member:
    """A judged program in a population."""

    program_id: str
    source: str
    rewards: Rewards
    order: int
    """Position in the order of insertion over the whole run; breaks ties, older first."""

    @property
    def mean_reward(self) -> float:
        """The mean over the components, for reports and for strategies that need one number."""
        return sum(self.rewards) / len(self.rewards)

    def replaces(self, other: Member) -> bool:
        """True if `other` has no place beside this one: dominated, or equal and not shorter."""
        if all(mine >= theirs for mine, theirs in zip(self.rewards, other.rewards, strict=True)):
            if self.rewards != other.rewards:
                return True
            return (len(self.source), self.order) < (len(other.source), other.order)
        return False


def by_merit(members: Iterable[Member]) -> list[Member]:
    """Return programs by mean reward, best first; of equal ones the shorter, then the older comes first."""
    return sorted(members, key=lambda member: (-member.mean_reward, len(member.source), member.order))


@dataclass(slots=True)
class Front:
    """A set of mutually non-dominated members, at most `capacity` of them."""

    capacity: int
    members: list[Member] = field(default_factory=list)

    def insert(self, new: Member) -> bool:
        """Return whether `new` stayed; evicts what it replaces and, if full, the least distinct."""
        if any(member.program_id == new.program_id or member.replaces(new) for member in self.members):
            return False
        self.members = [member for member in self.members if not new.replaces(member)]
        self.members.append(new)
        if len(self.members) > self.capacity:
            evicted = self._least_distinct()
            self.members.remove(evicted)
            return evicted is not new
        return True

    def _least_distinct(self) -> Member:
        """Return the member whose loss costs least over all objectives, longest and newest first."""
        rewards = np.array([member.rewards for member in self.members])
        top_two = np.sort(rewards, axis=0)[-2:]
        others = np.where(rewards == top_two[1], top_two[0], top_two[1])
        losses = np.maximum(rewards - others, 0.0).sum(axis=1)
        ranked = [
            (loss, -len(m.source), -m.order) for loss, m in zip(losses.tolist(), self.members, strict=True)
        ]
        return self.members[min(range(len(ranked)), key=ranked.__getitem__)]
