"""Islands: sub-populations with migration, and a choice among the ways to ask."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from evovpo.search.memory import Failures
from evovpo.search.plan import Chance, Plan, Reply
from evovpo.search.population import Member, Population, weights_by_rank
from evovpo.search.shares import Shares
from evovpo.search.standing import Standing
from evovpo.search.strategies.strategy import Strategy
from evovpo.search.ways import WAYS, View

EXPLORE_AXES = 0.2
"""Share of `explore` at first, before all are scaled to 1, where a problem declares axes."""
LEAST_OF_AXES = 0.25
"""What `explore` gets at least there: who declares axes wants their cells filled."""
_MIGRATION = 1
"""Stream of random numbers (`Chance`)."""


@dataclass
class Islands(Strategy):
    """Each ask uses one of the ways to ask; ways that use one island take the islands in turn."""

    population: Population
    failures: Failures
    standing: Standing
    can_join: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._asks = 0
        least = {"explore": LEAST_OF_AXES} if self.standing.problem.features else {}
        self.shares = Shares(first_shares(self.standing), self.standing.config.learns_ways, least)

    def plan(self, rng: np.random.Generator, chance: Chance) -> Plan:
        """Return what the next ask shows, after migration where it is due."""
        islands, interval = self.population.islands, self.standing.config.migration_interval
        island = islands[self._asks % len(islands)]
        self._asks += 1
        if self._asks % (len(islands) * interval) == 0:
            self._migrate(chance(_MIGRATION))
        view = View(self.population, island, self.failures, self.standing)
        for way in (self.shares.choose(rng), "climb"):
            plan = WAYS[way].plan(view, rng)
            if plan is not None:
                return plan._replace(way=way)
        return Plan(island=island.index, way="fresh")

    def observe(self, reply: Reply) -> None:
        """Learn what the way of the reply's ask brought."""
        self.shares.learn(reply.prompt.way, reply.gain)

    def _migrate(self, rng: np.random.Generator) -> None:
        """Copy some members of every island, drawn by rank, to the next one in the ring."""
        islands, rate = self.population.islands, self.standing.config.migration_rate
        moving: list[list[Member]] = []
        for island in islands:
            members = island.members
            count = math.ceil(rate * len(members))
            weights_N = weights_by_rank(len(members))
            drawn = rng.choice(len(members), count, replace=False, p=weights_N) if count else ()
            moving.append([members[place] for place in sorted(drawn)])
        for island, arriving in zip(islands, [moving[-1], *moving[:-1]], strict=True):
            for member in arriving:
                island.insert(member)


def first_shares(standing: Standing) -> dict[str, float]:
    """Return the shares of the ways at first: of the settings, the prompt format, or the usual ones."""
    config: Mapping[Any, float] = standing.config.ways
    given = config or standing.prompt_format.ways
    is_vector = len(standing.problem.objectives) > 1 and not standing.problem.has_one_score
    usual = {name: way.share_of_vectors if is_vector else way.share for name, way in WAYS.items()}
    if standing.problem.features:
        usual["explore"] = EXPLORE_AXES
    return dict(given or usual)
