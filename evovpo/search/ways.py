"""Ways (kinds of prompts): functions that plan the task of a prompt and the programs that the prompt shows.

A way returns a plan, or None if the search has no suitable programs yet. `strategies.py` chooses the way of
each prompt. `learned_shares.py` learns how often to use each way.
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
"""Number of programs that `combine` draws, to choose the best partner from them."""
FOCUSED = 0.25
"""Probability that a `fresh` prompt shows only rows that a good program fails (by-example problems)."""


class Plan(NamedTuple):
    """The planned content of a prompt.

    The prompt leaves out programs that the prompt format cannot show. If no program to improve remains, the
    prompt asks for a program from scratch (kind `ROOT`).
    """

    kind: PromptKind = PromptKind.ROOT
    parents: tuple[Parent, ...] = ()
    """Programs with their roles; the program to improve comes first."""
    only: Sequence[int] | None = None
    """Training rows to show; None for all."""
    island: int = 0
    way: str = ""
    """Name in `WAYS` of the way that made the plan; empty if the strategy has no ways."""


@dataclass(frozen=True)
class View:
    population: Population
    island: Island
    failures: Failures
    standing: Standing


def expand(member: Member | None, island: int = 0) -> Plan:
    """Return a plan to improve `member`. If `member` is None, the plan is to write a program from scratch."""
    if member is None:
        return Plan(island=island)
    return Plan(PromptKind.MUTATE, (Parent(member.program_id, ParentRole.PARENT),), island=island)


def climb(view: View, rng: np.random.Generator) -> Plan | None:
    """Return a plan to improve the best program (the newest on ties), as in (1+1) hill climbing."""
    return _improve(view.population.leader, view.population.home)


def specialist(view: View, rng: np.random.Generator) -> Plan | None:
    """Return a plan to improve the best program by weighted rewards (`Population.weigh`)."""
    return _improve(view.population.weigh(), view.island.index)


def explore(view: View, rng: np.random.Generator) -> Plan | None:
    """Return a plan to improve the best program of the least explored MAP-Elites cell.

    If the problem declares no MAP-Elites axes, the plan is to improve a random program of the island. The
    program is drawn by lexicase selection if rewards have several components, and otherwise by rank.
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
    """Return a plan to combine the best program of the run with a complementary program of the island."""
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
    """Return a plan to repair the island's newest failing program. Each program is repaired at most twice."""
    failing = view.failures.take(view.island.index)
    return None if failing is None else Plan(PromptKind.REPAIR, (failing,), island=view.island.index)


def fresh(view: View, rng: np.random.Generator) -> Plan | None:
    """Return a plan to write a program from scratch.

    Sometimes, the prompt shows only the training rows that a randomly chosen good program fails. If the
    problem has its own evaluator, the plan is to improve a random starting program instead.
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
    plan: Callable[[View, np.random.Generator], Plan | None]
    share: float
    share_of_vectors: float
    """Initial share if programs are compared by several components."""


WAYS = {
    "climb": Way(climb, 0.92, 0.32),
    "specialist": Way(specialist, 0.0, 0.60),
    "explore": Way(explore, 0.03, 0.03),
    "combine": Way(combine, 0.02, 0.02),
    "repair": Way(repair, 0.02, 0.02),
    "fresh": Way(fresh, 0.01, 0.01),
}


def by_lexicase(island: Island, rng: np.random.Generator) -> Member:
    """Return a member drawn by lexicase selection (Helmuth et al. 2015)."""
    left_N = np.arange(len(island.members))
    for component in rng.permutation(island.rewards_N_D.shape[1]):
        column_N = island.rewards_N_D[left_N, component]
        left_N = left_N[column_N == column_N.max()]
    return island.members[int(left_N[0])]


def by_rank(members: list[Member], rng: np.random.Generator) -> Member | None:
    """Return a random member, with probability proportional to 1 / rank. `members` are sorted by rank."""
    if not members:
        return None
    return members[int(rng.choice(len(members), p=weights_by_rank(len(members))))]


def gain_over(one: Member, other: Member) -> float:
    """Return the rewards of `other` minus those of `one`, summed over components where `other` is better."""
    return sum(max(0.0, theirs - mine) for mine, theirs in zip(one.rewards, other.rewards, strict=True))


def _improve(member: Member | None, island: int) -> Plan | None:
    return None if member is None else expand(member, island)
