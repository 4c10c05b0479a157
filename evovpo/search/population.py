"""Judged programs, fronts of them, and the islands of MAP-Elites cells and elites that they live on.

Programs are compared by dominance of their reward vectors, never by a sum of them. Of two with the same
vector the shorter stays, and of too many the one whose loss costs least goes. Bin edges are fixed from
the moment they are known, so that a cell number never changes its meaning within a run.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from evovpo.analysis.scores import NO_SCORE, compared, number
from evovpo.types import Evaluation, Feature, Json, Problem, Program, Status


@dataclass(frozen=True, slots=True)
class Member:
    """A judged program in a population."""

    program_id: str
    source: str
    rewards: tuple[float, ...]
    """What it is compared by (`evovpo.analysis.scores.compared`)."""
    order: int
    """Position in the order of insertion over the whole run; breaks ties, older first."""
    metrics: tuple[tuple[str, Json], ...] = ()
    """What an evaluator of its own returned."""
    is_ok: bool = True
    """False where the program failed."""

    @property
    def mean_reward(self) -> float:
        """The mean over the components, for reports and for strategies that need one number."""
        return sum(self.rewards) / len(self.rewards)

    def replaces(self, other: Self) -> bool:
        """True if `other` has no place beside this one: dominated, or equal and not shorter."""
        if self.rewards == other.rewards:
            return (len(self.source), self.order) < (len(other.source), other.order)
        return all(mine >= theirs for mine, theirs in zip(self.rewards, other.rewards, strict=True))


class Offered(NamedTuple):
    """What is kept of every program that came to an island; they sort by merit, best first."""

    loss: float
    """The mean reward, negated."""
    length: int
    order: int
    program_id: str
    rewards: tuple[float, ...]
    is_ok: bool


def _merit(member: Member) -> tuple[float, int, int]:
    return (-member.mean_reward, len(member.source), member.order)


def by_merit(members: Iterable[Member]) -> list[Member]:
    """Return programs by mean reward, best first; of equal ones the shorter, then the older comes first."""
    return sorted(members, key=_merit)


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


CELL_CAPACITY = 4
"""Programs kept in one MAP-Elites cell."""
LEARNING_PROGRAMS = 32
"""Programs that a grid looks at before it freezes undeclared bin edges."""

_COMPUTED = ("members", "rewards_N_D", "cells_N")
"""Of an island, what is computed when it is first asked for after a change."""

Cell = tuple[int, ...]


class Grid:
    """The MAP-Elites axes of a problem with their bin edges: which cell a program belongs to.

    Edges that the problem declares are used as they are. Others are learned once, as quantiles
    over the first `LEARNING_PROGRAMS` programs, and then frozen; until then there are no cells.
    """

    def __init__(self, features: Sequence[Feature], objectives: Sequence[str], ranks: bool = False) -> None:
        self.is_ranked = ranks
        """True where one number alone ranks programs."""
        self._features = tuple(features) or (Feature("length"),)
        self._objectives = list(objectives)
        self._edges: list[tuple[float, ...] | None] = [feature.edges or None for feature in self._features]
        self._seen: list[tuple[float, ...]] = []

    @property
    def is_frozen(self) -> bool:
        """True once every axis has its edges."""
        return all(edges is not None for edges in self._edges)

    @property
    def edges(self) -> tuple[tuple[float, ...] | None, ...]:
        """The inner bin edges of every axis, None while they are being learned."""
        return tuple(self._edges)

    def learn(self, member: Member) -> bool:
        """Take one more program into account; return whether this froze the edges."""
        if self.is_frozen:
            return False
        self._seen.append(tuple(self._value(feature, member) for feature in self._features))
        if len(self._seen) < LEARNING_PROGRAMS:
            return False
        for axis, feature in enumerate(self._features):
            if self._edges[axis] is None:
                values = [seen[axis] for seen in self._seen if seen[axis] > NO_SCORE] or [0.0]
                quantiles = np.quantile(values, np.arange(1, feature.bins) / feature.bins)
                self._edges[axis] = tuple(sorted(set(quantiles.tolist())))
        return True

    def cell(self, member: Member) -> Cell:
        """Return the bin index on every axis; only once `is_frozen`."""
        axes = zip(self._features, self._edges, strict=True)
        return tuple(bisect_right(edges or (), self._value(feature, member)) for feature, edges in axes)

    def _value(self, feature: Feature, member: Member) -> float:
        name = feature.name
        if name == "length":
            return float(len(member.source))
        if name.startswith("metric:"):
            value = number(dict(member.metrics).get(name.removeprefix("metric:")))
            return NO_SCORE if value is None else value
        return member.rewards[self._objectives.index(name.removeprefix("reward:"))]


class InsertionStatus(StrEnum):
    """What became of a program that was offered to an island."""

    NEW_CELL = "new_cell"
    """First of its cell."""
    IMPROVED = "improved"
    """Joined or changed the front of its cell or of the archive."""
    REJECTED = "rejected"
    """Others are at least as good in everything, or the front is full of more distinct ones."""


class Insertion(NamedTuple):
    """The answer of `tell` for one candidate that was offered to an island."""

    program_id: str
    island: int
    status: InsertionStatus


class Island:
    """One sub-population: an archive of elites and the cells of the grid."""

    def __init__(self, index: int, elites: int, grid: Grid) -> None:
        self.index = index
        self._grid = grid
        self._elites = Front(elites)
        self._cells: dict[Cell, Front] = {}
        self.offered: list[Offered] = []
        """Every program that came here, whether or not it stayed, by merit: every ask may read them."""
        self._known: set[str] = set()

    def insert(self, member: Member) -> InsertionStatus:
        """Offer a program to the archive and, once there are edges, to its cell."""
        if member.program_id not in self._known:
            self._known.add(member.program_id)
            insort(self.offered, Offered(*_merit(member), member.program_id, member.rewards, member.is_ok))
        joined = self._elites.insert(member)
        status = InsertionStatus.IMPROVED if joined else InsertionStatus.REJECTED
        if self._grid.is_frozen:
            cell = self._grid.cell(member)
            is_new = cell not in self._cells
            if self._cells.setdefault(cell, Front(CELL_CAPACITY)).insert(member):
                status = InsertionStatus.NEW_CELL if is_new else InsertionStatus.IMPROVED
        if status is not InsertionStatus.REJECTED:
            self._forget()
        return status

    def fill_cells(self) -> None:
        """Place the archive in the cells; called once, when the edges are frozen."""
        for member in self._elites.members:
            self._cells.setdefault(self._grid.cell(member), Front(CELL_CAPACITY)).insert(member)
        self._forget()

    def __getstate__(self) -> dict[str, object]:
        """Return what a snapshot keeps: all but what is computed from it."""
        return {name: value for name, value in self.__dict__.items() if name not in _COMPUTED}

    def _forget(self) -> None:
        for name in _COMPUTED:
            self.__dict__.pop(name, None)

    @cached_property
    def members(self) -> list[Member]:
        """Every program that lives here, oldest first."""
        found = {m.program_id: m for front in (self._elites, *self._cells.values()) for m in front.members}
        return sorted(found.values(), key=lambda member: member.order)

    @cached_property
    def rewards_N_D(self) -> npt.NDArray[np.float64]:  # noqa: N802
        """The reward vectors of `members`, one row each; of numbers that rank alone their dense ranks."""
        rewards_N_D = np.array([member.rewards for member in self.members])  # noqa: N806
        if self._grid.is_ranked and self.members:
            return np.unique(rewards_N_D, return_inverse=True)[1].reshape(-1, 1).astype(np.float64)
        return rewards_N_D

    @cached_property
    def cells_N(self) -> list[int]:  # noqa: N802
        """A number for the cell of each of `members`; all in one while edges are being learned."""
        if not self._grid.is_frozen:
            return [0] * len(self.members)
        numbers: dict[Cell, int] = {}
        return [numbers.setdefault(self._grid.cell(member), len(numbers)) for member in self.members]

    @property
    def elites(self) -> list[Member]:
        """The archive, oldest first."""
        return sorted(self._elites.members, key=lambda member: member.order)

    @property
    def filled_cells(self) -> dict[Cell, tuple[str, ...]]:
        """The program ids in each filled cell."""
        return {cell: tuple(m.program_id for m in kept.members) for cell, kept in sorted(self._cells.items())}


class Population:
    """The islands of a search, on one grid."""

    def __init__(self, problem: Problem, islands: int, elites: int) -> None:
        names = [objective.name for objective in problem.objectives]
        self.grid = Grid(problem.features, names, problem.has_one_score)
        self.islands = [Island(index, elites, self.grid) for index in range(islands)]
        self.seeds: list[Member] = []
        """The starting programs that were judged."""
        self.restarts = 0
        """Islands that were emptied and founded anew so far."""
        self._problem = problem
        self._capacity = elites
        self._born = 0
        self._vectors: dict[tuple[float, ...], tuple[float, ...]] = {}
        """Every reward vector once: of a million programs by example most have one that others have."""

    @property
    def elites(self) -> dict[str, Member]:
        """The archives of all islands as one, by program id."""
        return {member.program_id: member for island in self.islands for member in island.elites}

    def insert(self, program: Program, found: Evaluation, home: int | None) -> tuple[Member, list[Insertion]]:
        """Offer a judged program to its home island; without a home it is a starting program, for all."""
        values = compared(self._problem, found)
        values = self._vectors.setdefault(values, values)
        is_ok = found.status is Status.OK
        member = Member(program.id, program.source, values, self._born, found.metrics or (), is_ok)
        self._born += 1
        if self.grid.learn(member):
            for island in self.islands:
                island.fill_cells()
        if home is None:
            self.seeds.append(member)
        homes = self.islands if home is None else [self.islands[home]]
        return member, [Insertion(program.id, island.index, island.insert(member)) for island in homes]

    def found_anew(self, index: int, founders: Iterable[Member]) -> None:
        """Empty an island and put the founders there."""
        self.islands[index] = Island(index, self._capacity, self.grid)
        for founder in founders:
            self.islands[index].insert(founder)
        self.restarts += 1
