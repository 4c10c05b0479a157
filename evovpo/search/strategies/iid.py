"""Baselines without memory: independent prompts."""

import numpy as np

from evovpo.search.plan import Chance, Plan, Reply, expand
from evovpo.search.population import Member, by_merit
from evovpo.search.strategies.strategy import Strategy
from evovpo.types import PromptKind


class IndependentSampling(Strategy):
    """The same prompt every time: i.i.d. sampling, or best-of-N from the best starting program.

    With `shows_start` the best starting program is the parent, otherwise there is none.
    """

    has_memory = False

    def __init__(self, shows_start: bool) -> None:
        self._shows_start = shows_start
        self._start: Member | None = None

    def plan(self, rng: np.random.Generator, chance: Chance) -> Plan:
        return expand(self._start)

    def observe(self, reply: Reply) -> None:
        if self._shows_start and reply.prompt.kind is PromptKind.SEED and reply.members:
            self._start = by_merit(reply.members)[0]
