"""Islands that take turns: sub-populations with migration, crossover, repair and new starts."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evovpo.config import SearchConfig
from evovpo.search.memory import Failures
from evovpo.search.population import InsertionStatus, Island, Member, Population, by_merit
from evovpo.search.selection import SELECTIONS, inspirations
from evovpo.search.standing import Standing
from evovpo.search.strategies.strategy import Chance, Plan, Reply, Strategy
from evovpo.types import Parent, ParentRole, PromptKind

_MIGRATION, _SPECIAL, _RESTART = 1, 2, 3
"""Streams of random numbers (`Chance`)."""


@dataclass
class Islands(Strategy):
    """Each ask takes its parent from the next island in turn, by the configured selection."""

    population: Population
    failures: Failures
    standing: Standing
    can_join: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._asks = 0
        self._stale_asks = [0] * len(self.population.islands)

    @property
    def config(self) -> SearchConfig:
        """The settings that hold now."""
        return self.standing.config

    def plan(self, rng: np.random.Generator, chance: Chance) -> Plan:
        """Return what the next island's ask shows, after migration and a new start where they are due."""
        count = len(self.population.islands)
        index = self._asks % count
        self._asks += 1
        if self._asks % (count * self.config.migration_interval) == 0:
            self._migrate(chance(_MIGRATION))
        self._stale_asks[index] += 1
        if 0 < self.config.restart_after < self._stale_asks[index]:
            self._restart(index, chance(_RESTART))
        island = self.population.islands[index]
        return self._special(island, chance) or self._usual(island, rng)

    def observe(self, reply: Reply) -> None:
        for insertion in reply.insertions:
            if insertion.status is not InsertionStatus.REJECTED:
                self._stale_asks[insertion.island] = 0

    def _usual(self, island: Island, rng: np.random.Generator) -> Plan:
        """Return a mutation, or an ask without a parent that may concentrate on rows a program fails."""
        if not island.members:
            return Plan(island=island.index)
        chosen = self._select(island, rng)
        member = island.members[chosen]
        parent = Parent(member.program_id, ParentRole.PARENT)
        # A prompt that shows no program says too little where only the evaluator knows what to define.
        if rng.random() >= self.config.root_share or self.standing.problem.evaluator is not None:
            picks = self._inspiring(island, chosen, self.config.inspirations, rng)
            return Plan(PromptKind.MUTATE, (parent, *picks), island=island.index)
        only = None
        if rng.random() < self.config.focus_share:
            failed = [row for row, value in enumerate(member.rewards) if value < 1.0]
            if self.standing.problem.is_by_example and 2 <= len(failed) < len(member.rewards):
                only = failed
        return Plan(only=only, island=island.index)

    def _special(self, island: Island, chance: Chance) -> Plan | None:
        """Return a repair or a crossover where it is their turn and there is something to make it of."""
        repair, crossover = self.config.repair_share, self.config.crossover_share
        if repair + crossover == 0.0:
            return None
        rng = chance(_SPECIAL)
        draw = rng.random()
        if draw < repair:
            failing = self.failures.take(island.index)
            return None if failing is None else Plan(PromptKind.REPAIR, (failing,), island=island.index)
        if draw < repair + crossover and len(island.members) > 1:
            chosen = self._select(island, rng)
            picks = self._inspiring(island, chosen, 1 + self.config.inspirations, rng)
            parent = Parent(island.members[chosen].program_id, ParentRole.PARENT)
            partners = [Parent(pick.program_id, ParentRole.PARTNER) for pick in picks[:1]]
            if partners and all(map(self.standing.can_show, (parent, *partners))):
                return Plan(PromptKind.CROSSOVER, (parent, *partners, *picks[1:]), island=island.index)
        return None

    def _select(self, island: Island, rng: np.random.Generator) -> int:
        return SELECTIONS[self.config.selection](island.rewards_N_D, island.cells_N, rng)

    def _inspiring(self, island: Island, chosen: int, most: int, rng: np.random.Generator) -> list[Parent]:
        picks = inspirations(island.rewards_N_D, chosen, most, rng)
        return [Parent(island.members[pick].program_id, ParentRole.INSPIRATION) for pick in picks]

    def _migrate(self, rng: np.random.Generator) -> None:
        """Copy the first-chosen members of every island to the next one in the ring."""
        islands = self.population.islands
        moving: list[list[Member]] = []
        for island in islands:
            count = min(self.config.migrants, len(island.members))
            picks = {self._select(island, rng) for _ in range(count)}
            moving.append([island.members[pick] for pick in sorted(picks)])
        for island, members in zip(islands, [moving[-1], *moving[:-1]], strict=True):
            for member in members:
                island.insert(member)

    def _restart(self, index: int, rng: np.random.Generator) -> None:
        """Empty an island and found it anew with the best elite of another, or the starting programs.

        The only island that holds the best program of the run is left as it is, unless there is no other.
        """
        islands, best = self.population.islands, self.standing.best
        others = [island for island in islands if island.index != index and island.members]
        self._stale_asks[index] = 0
        founders = self.population.seeds
        if others:
            holders = [
                island.index
                for island in islands
                if best and any(member.program_id == best.program.id for member in island.members)
            ]
            if holders == [index]:
                return
            founders = [by_merit(others[rng.integers(len(others))].members)[0]]
        self.population.found_anew(index, founders)
