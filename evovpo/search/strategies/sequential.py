"""One chain of refinements."""

import numpy as np

from evovpo.search.members import Member, best_member
from evovpo.search.strategies.strategy import Chance, Plan, Reply, Strategy, expand
from evovpo.types import PromptKind


class Sequential(Strategy):
    """The parent is the best program of the last group that had one.

    The last group counts even if it is worse than those before it, as in sequential revision; a group whose
    programs all fail, or are known already, leaves the chain where it is. One ask is open at a time.
    """

    def __init__(self) -> None:
        self._current: Member | None = None
        self._group: list[Member] = []
        self._open = 0

    @property
    def is_ready(self) -> bool:
        """True if the last ask has all its replies."""
        return self._open == 0

    def plan(self, rng: np.random.Generator, chance: Chance) -> Plan:
        """Return the end of the chain."""
        self._open += 1
        return expand(self._current)

    def observe(self, reply: Reply) -> None:
        """Collect the group; at its end the chain moves on."""
        self._group += reply.members
        if not reply.is_complete:
            return
        self._open -= reply.prompt.kind is not PromptKind.SEED
        if self._group:
            self._current = best_member(self._group)
        self._group = []
