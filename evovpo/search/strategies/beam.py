"""Beam search over generations, and sequential revision: a beam of one."""

import numpy as np

from evovpo.search.plan import Chance, Plan, Reply, expand
from evovpo.search.population import Member, by_merit
from evovpo.search.strategies.strategy import Strategy
from evovpo.types import PromptKind


class Beam(Strategy):
    """The `width` best programs of the last generation are expanded in turn.

    A generation is `width` asks; the next one begins when all their replies are told. Its beam is the best
    new programs of the last generation, whether or not they beat the beam that they came from; where
    there are fewer than `width`, the best of the old beam stay. A beam of one is a chain with one ask open at
    a time; a group whose programs all fail, or are known already, leaves it where it is.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._beam: list[Member] = []
        self._offspring: list[Member] = []
        self._asked = 0
        self._open = 0

    @property
    def is_ready(self) -> bool:
        """True unless all asks of a generation are handed out and some lack replies."""
        return self._asked < self._width or self._open == 0

    def plan(self, rng: np.random.Generator, chance: Chance) -> Plan:
        if self._asked >= self._width and self._open == 0:
            new = by_merit(self._offspring)[: self._width]
            self._beam = new + by_merit(self._beam)[: self._width - len(new)]
            self._offspring, self._asked = [], 0
        parent = self._beam[self._asked % len(self._beam)] if self._beam else None
        self._asked += 1
        self._open += 1
        return expand(parent)

    def observe(self, reply: Reply) -> None:
        """Collect the generation; starting programs are the first beam."""
        if reply.prompt.kind is PromptKind.SEED:
            self._beam = by_merit(reply.members)[: self._width]
            return
        self._offspring += reply.members
        self._open -= reply.is_complete
