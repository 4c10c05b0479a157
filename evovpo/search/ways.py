"""Ways to ask: which programs a prompt shows, and for what. One function each.

A way looks at the population and returns a plan, or None if it cannot be used yet. `strategies.py`
chooses the way of each ask; `shares.py` learns from their gains.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evovpo.search.memory import Failures
from evovpo.search.population import Island, Member, Population, weights_by_rank
from evovpo.search.standing import Standing
from evovpo.types import Parent, ParentRole, PromptKind

PARTNERS = 5
"""Programs of which `combine` takes the partner that adds most."""
FOCUSED = 0.25
"""Share of `fresh` prompts by example that show only the training rows that a good program fails."""


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
    """The way to ask that made it of `WAYS`; empty where a strategy has one way only."""


@dataclass(frozen=True)
class View:
    """The part of the search that a way can use."""

    population: Population
    island: Island
    """The island in turn."""
    failures: Failures
    standing: Standing


def expand(member: Member | None, island: int = 0) -> Plan:
    """Return the plan to improve one program, or without one to write from the problem alone."""
    if member is None:
        return Plan(island=island)
    return Plan(PromptKind.MUTATE, (Parent(member.program_id, ParentRole.PARENT),), island=island)


def climb(view: View, rng: np.random.Generator) -> Plan | None:
    """Improve the best program of the run, of equals the newest: (1+1) hill climbing with neutral drift."""
    return _improve(view.population.leader, view.population.home)


def specialist(view: View, rng: np.random.Generator) -> Plan | None:
    """Improve the program that is best under weights that grow on the components which it fails."""
    return _improve(view.population.weigh(), view.island.index)


def explore(view: View, rng: np.random.Generator) -> Plan | None:
    """Improve the best program of the cell explored least, of equals the newest.

    Without axes: a program of the island by lexicase selection over the components, or one by rank.
    """
    population, island = view.population, view.island
    if view.standing.problem.features and population.cells:
        cell = min(population.cells, key=lambda one: (population.visits[one], -population.cells[one].order))
        population.visits[cell] += 1
        return _improve(population.cells[cell], island.index)
    if len(view.standing.problem.objectives) > 1 and island.members:
        return _improve(by_lexicase(island, rng), island.index)
    return _improve(by_rank(island.members, rng), island.index)


def combine(view: View, rng: np.random.Generator) -> Plan | None:
    """Combine the best program with one of other rewards, from the island in turn, that adds to it."""
    leader = view.population.leader
    others = [] if leader is None else [one for one in view.island.members if one.rewards != leader.rewards]
    if leader is None or not others:
        return None
    drawn = [by_rank(others, rng) for _ in range(PARTNERS)]
    partner = max(filter(None, drawn), key=lambda one: gain_over(leader, one))
    roles = (Parent(leader.program_id, ParentRole.PARENT), Parent(partner.program_id, ParentRole.PARTNER))
    if not all(map(view.standing.can_show, roles)):
        return None
    return Plan(PromptKind.CROSSOVER, roles, island=view.population.home)


def repair(view: View, rng: np.random.Generator) -> Plan | None:
    """Mend the newest failing program of the island, at most twice each."""
    failing = view.failures.take(view.island.index)
    return None if failing is None else Plan(PromptKind.REPAIR, (failing,), island=view.island.index)


def fresh(view: View, rng: np.random.Generator) -> Plan | None:
    """Write a program from the problem alone; by example sometimes only for rows that a good program fails.

    Where only the evaluator knows what to define, a starting program is improved instead.
    """
    island, problem = view.island, view.standing.problem
    if problem.evaluator is not None:
        seeds = view.population.seeds
        return _improve(seeds[rng.integers(len(seeds))], island.index) if seeds else None
    only = None
    if problem.is_by_example and island.members and rng.random() < FOCUSED:
        rewards = by_lexicase(island, rng).rewards
        failed = [row for row, value in enumerate(rewards) if value < 1.0]
        only = failed if 2 <= len(failed) < len(rewards) else None
    return Plan(only=only, island=island.index)


class Way(NamedTuple):
    """A way to ask, with its initial share."""

    plan: Callable[[View, np.random.Generator], Plan | None]
    share: float
    share_of_vectors: float
    """The same where programs are compared by more than one component."""


WAYS = {
    "climb": Way(climb, 0.92, 0.32),
    "specialist": Way(specialist, 0.0, 0.60),
    "explore": Way(explore, 0.03, 0.03),
    "combine": Way(combine, 0.02, 0.02),
    "repair": Way(repair, 0.02, 0.02),
    "fresh": Way(fresh, 0.01, 0.01),
}


def by_lexicase(island: Island, rng: np.random.Generator) -> Member:
    """Return a member by lexicase selection (Helmuth et al. 2015), of equals the first by rank.

    The components come in random order; each keeps only the members that are best at it.
    """
    left_N = np.arange(len(island.members))
    for component in rng.permutation(island.rewards_N_D.shape[1]):
        column_N = island.rewards_N_D[left_N, component]
        left_N = left_N[column_N == column_N.max()]
    return island.members[int(left_N[0])]


def by_rank(members: list[Member], rng: np.random.Generator) -> Member | None:
    """Return one of members in order of rank, drawn with probability proportional to 1 / rank."""
    if not members:
        return None
    return members[int(rng.choice(len(members), p=weights_by_rank(len(members))))]


def gain_over(one: Member, other: Member) -> float:
    """Return by how much `other` is better than `one`, summed over the components where it is."""
    return sum(max(0.0, theirs - mine) for mine, theirs in zip(one.rewards, other.rewards, strict=True))


def _improve(member: Member | None, island: int) -> Plan | None:
    return None if member is None else expand(member, island)
