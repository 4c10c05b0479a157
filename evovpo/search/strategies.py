"""Strategies choose the content of prompts. They are `Islands` and two baselines (i.i.d. and best-of-N)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evovpo.search.learned_shares import Shares
from evovpo.search.memory import Failures
from evovpo.search.population import Member, Population, by_merit, weights_by_rank
from evovpo.search.standing import Standing
from evovpo.search.ways import WAYS, Plan, View, expand
from evovpo.types import Prompt, PromptKind

EXPLORE_AXES = 0.2
"""Initial share of the way `explore`, before normalization, if the problem declares MAP-Elites axes."""
LEAST_OF_AXES = 0.25
"""Minimum share of the way `explore` if the problem declares axes, so that the cells are filled."""
_MIGRATION = 1


class Reply(NamedTuple):
    prompt: Prompt
    members: Sequence[Member]
    """New programs that ran, and starting programs even if they failed."""
    gain: float
    """Largest gain of the reply's programs (`Population.gain`)."""


Chance = Callable[[int], np.random.Generator]
"""A function from a stream number to a random generator, for decisions that only some prompts need."""


class Strategy:
    """The base class of strategies, which choose the content of each prompt to a model.

    The search calls `plan` once for each of these prompts, and `observe` for every reply. The state of a
    strategy may depend only on these calls and their arguments, so that a replay rebuilds the same state.
    """

    has_memory: ClassVar[bool] = True
    """False if prompts are independent draws: a model's replies do not change later prompts, and no programs
    are joined without a model."""

    def plan(self, rng: np.random.Generator, chance: Chance) -> Plan:
        """Return the next prompt's plan. Use only the random generators `rng` and `chance(stream_number)`."""
        raise NotImplementedError

    def observe(self, reply: Reply) -> None:
        """Learn from a reply. The first reply contains the starting programs."""
        raise NotImplementedError


class IndependentSampling(Strategy):
    """A strategy that repeats the same prompt: i.i.d. sampling or best-of-N sampling.

    If `shows_start` is true, each prompt asks to improve the best starting program; otherwise, each prompt
    asks for a program from scratch.
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


@dataclass
class Islands(Strategy):
    """A strategy that draws a random way (kind of prompt) for each prompt. The islands take turns."""

    population: Population
    failures: Failures
    standing: Standing

    def __post_init__(self) -> None:
        self._asks = 0
        least = {"explore": LEAST_OF_AXES} if self.standing.problem.features else {}
        self.shares = Shares(first_shares(self.standing), not self.standing.config.ways, least)

    def plan(self, rng: np.random.Generator, chance: Chance) -> Plan:
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
        self.shares.learn(reply.prompt.way, reply.gain)

    def _migrate(self, rng: np.random.Generator) -> None:
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
    """Return the initial share of each way. Settings override the shares of the prompt format."""
    config: Mapping[Any, float] = standing.config.ways
    given = config or standing.prompt_format.ways
    is_vector = len(standing.problem.objectives) > 1 and not standing.problem.has_one_score
    usual = {name: way.share_of_vectors if is_vector else way.share for name, way in WAYS.items()}
    if standing.problem.features:
        usual["explore"] = EXPLORE_AXES
    return dict(given or usual)


def make_strategy(population: Population, failures: Failures, standing: Standing) -> Strategy:
    config = standing.config
    if config.strategy == "islands":
        return Islands(population, failures, standing)
    # The statement of a problem with its own evaluator does not say what a program must define.
    return IndependentSampling(
        shows_start=config.strategy == "best-of-n" or standing.problem.evaluator is not None
    )
