"""The population of a search: the best evaluated programs of each island and of each MAP-Elites cell.

No two programs of an island have equal rewards. A new program usually replaces an older one with equal
rewards, so that the search drifts across plateaus.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from evovpo.analysis.scores import NO_SCORE, compared, failure, number
from evovpo.types import Evaluation, Feature, Json, Problem, Program, Status

WEIGHT_STEP = 0.02
"""Weight that `weigh` adds to each component where the specialist has reward 0; weights start at 1."""
_ROUNDING = 1e-9
SIDE_GAIN = 0.2
"""Gain of a program with a new best value in one component, or of the first in a cell of declared axes."""
DRIFT_GAIN = 0.05
"""Gain of a program with the same rank as the best program: a step across a plateau."""


@dataclass(frozen=True, slots=True)
class Member:
    program_id: str
    source: str
    rewards: tuple[float, ...]
    """The values by which programs are compared (`evovpo.analysis.scores.compared`)."""
    order: int
    metrics: tuple[tuple[str, Json], ...] = ()
    is_ok: bool = True

    @property
    def mean_reward(self) -> float:
        return sum(self.rewards) / len(self.rewards)

    @property
    def rank(self) -> tuple[float, bool]:
        """The sort key (higher is better): the mean reward, then whether the program ran without failure."""
        return self.mean_reward, self.is_ok

    def dominates(self, other: Self) -> bool:
        pairs = zip(self.rewards, other.rewards, strict=True)
        return self.rewards != other.rewards and all(mine >= theirs for mine, theirs in pairs)


def by_merit(members: Iterable[Member]) -> list[Member]:
    """Return programs sorted by mean reward, best first. Ties go to the shorter, then the older program."""
    return sorted(members, key=lambda member: (-member.mean_reward, len(member.source), member.order))


def non_dominated(rewards_N_D: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return a mask of shape (N,) that is True for each row of rewards that no other row dominates."""
    at_least = (rewards_N_D[:, None, :] >= rewards_N_D[None, :, :]).all(axis=2)
    better = (rewards_N_D[:, None, :] > rewards_N_D[None, :, :]).any(axis=2)
    return np.asarray(~(at_least & better).any(axis=0))


Cell = tuple[int, ...]


def weights_by_rank(count: int) -> npt.NDArray[np.float64]:
    """Return selection probabilities for the ranks 1 to `count`, proportional to 1 / rank."""
    weights_N = 1.0 / np.arange(1, count + 1)
    return np.asarray(weights_N / weights_N.sum())


class Grid:
    """The grid of MAP-Elites. Each axis is a property of programs, divided into bins.

    Bin edges that the problem declares are fixed. An axis without declared edges has equal bins between its
    lowest and highest value so far. When this range grows, programs must be assigned to cells again.
    """

    def __init__(self, features: Sequence[Feature], objectives: Sequence[str]) -> None:
        self._features = tuple(features) or (Feature("length"),)
        self._objectives = list(objectives)
        self._ranges: list[tuple[float, float] | None] = [None] * len(self._features)

    @property
    def edges(self) -> tuple[tuple[float, ...], ...]:
        """The inner bin edges of each axis: empty if no edges are declared and all values are still equal."""
        return tuple(map(self._edges, self._features, self._ranges))

    def insert(self, member: Member) -> bool:
        """Extend the range of each axis to include a program's value. Return whether a range grew."""
        before = list(self._ranges)
        for axis, feature in enumerate(self._features):
            value = self._value(feature, member)
            if value > NO_SCORE:
                low, high = self._ranges[axis] or (value, value)
                self._ranges[axis] = min(low, value), max(high, value)
        return self._ranges != before

    def cell(self, member: Member) -> Cell:
        axes = zip(self._features, self.edges, strict=True)
        return tuple(bisect_right(edges, self._value(feature, member)) for feature, edges in axes)

    def _edges(self, feature: Feature, found: tuple[float, float] | None) -> tuple[float, ...]:
        if feature.edges or found is None or found[0] == found[1]:
            return feature.edges
        low, high = found
        return tuple(low + (high - low) * place / feature.bins for place in range(1, feature.bins))

    def _value(self, feature: Feature, member: Member) -> float:
        name = feature.name
        if name == "length":
            return float(len(member.source))
        if name == "score":
            return member.mean_reward
        if name.startswith("metric:"):
            value = number(dict(member.metrics).get(name.removeprefix("metric:")))
            return NO_SCORE if value is None else value
        return member.rewards[self._objectives.index(name.removeprefix("reward:"))]


class InsertionStatus(StrEnum):
    """What happened to a program that was offered to an island."""

    NEW_CELL = "new_cell"
    """The program is the first of its MAP-Elites cell, whether or not the island keeps it."""
    IMPROVED = "improved"
    """Kept: the rewards are new to the island, and no program of the island dominates the new program."""
    KEPT = "kept"
    """Kept: the new program is dominated, or it replaces an older program with the same rewards."""
    REJECTED = "rejected"
    """Not kept: an older program with the same rewards stays, or the island is full of better programs."""


class Insertion(NamedTuple):
    program_id: str
    island: int
    status: InsertionStatus


class Island:
    """A sub-population of at most `capacity` programs, no two with the same rewards."""

    def __init__(self, index: int, capacity: int) -> None:
        self.index = index
        self._capacity = capacity
        self._kept: dict[tuple[float, ...], Member] = {}

    def insert(self, member: Member) -> InsertionStatus:
        """Offer a program to the island, and return the outcome. A full island drops its worst member."""
        equal = self._kept.get(member.rewards)
        is_new = equal is None and not any(one.dominates(member) for one in self._kept.values())
        # On equal rewards a program that ran beats a failed one; else the newer wins, if a reward is not 0.
        if equal is not None and (member.is_ok, any(member.rewards)) <= (equal.is_ok, False):
            return InsertionStatus.REJECTED
        self._kept[member.rewards] = member
        for name in ("members", "rewards_N_D", "front"):  # cached, and computed again after a change
            self.__dict__.pop(name, None)
        if len(self._kept) > self._capacity:
            leaves = self._worst()
            del self._kept[leaves.rewards]
            if leaves is member:
                return InsertionStatus.REJECTED
        return InsertionStatus.IMPROVED if is_new else InsertionStatus.KEPT

    def _worst(self) -> Member:
        members = list(self._kept.values())
        ranks = [member.rank for member in members]
        best_at: set[int] = set()
        for column in zip(*(member.rewards for member in members), strict=True):
            best_at.add(max(range(len(members)), key=lambda place: (column[place], ranks[place])))
        others = [place for place in range(len(members)) if place not in best_at] or range(len(members))
        return members[min(others, key=lambda place: (ranks[place], members[place].order))]

    @cached_property
    def members(self) -> list[Member]:
        """The programs sorted by rank, best first; among equals, the newest comes first."""
        return sorted(self._kept.values(), key=lambda member: (member.rank, member.order), reverse=True)

    @cached_property
    def rewards_N_D(self) -> npt.NDArray[np.float64]:
        """The rewards of `members`, as an array of shape (N, D) with a row for each member."""
        return np.array([member.rewards for member in self.members])

    @cached_property
    def front(self) -> list[Member]:
        if not self.members:
            return []
        mask = non_dominated(self.rewards_N_D)
        return [member for member, stays in zip(self.members, mask, strict=True) if stays]


class Population:
    """The islands of a search, the cells of the MAP-Elites grid, and the best program so far."""

    def __init__(self, problem: Problem, islands: int, elites: int) -> None:
        self.grid = Grid(problem.features, [objective.name for objective in problem.objectives])
        self.islands = [Island(index, elites) for index in range(islands)]
        self.seeds: list[Member] = []
        """The judged starting programs."""
        self.cells: dict[Cell, Member] = {}
        """The best program of each cell, the newest among equals."""
        self.visits: Counter[Cell] = Counter()
        self.leader: Member | None = None
        """The best program by rank, the newest among equals."""
        self.home = 0
        """Index of the island to which the leader was offered; 0 for a starting program."""
        self.weights = [1.0] * len(problem.objectives)
        """Weight of each component, not normalized; `weigh` changes the weights."""
        self.specialist: Member | None = None
        """The best program by weighted rewards, the newest among equals."""
        self.gain = 0.0
        """Gain of the last inserted program: 1 for a new best, less for a smaller step, else 0."""
        self._best: list[float] = []
        self._problem = problem
        self._born = 0
        self._vectors: dict[tuple[float, ...], tuple[float, ...]] = {}

    @property
    def elites(self) -> dict[str, Member]:
        """The non-dominated members (`front`) of every island, by program id, oldest first."""
        found = {member.program_id: member for island in self.islands for member in island.front}
        return {member.program_id: member for member in sorted(found.values(), key=lambda one: one.order)}

    def insert(self, program: Program, found: Evaluation, home: int | None) -> tuple[Member, list[Insertion]]:
        """Offer an evaluated program to the island with index `home`, or to all islands if `home` is None."""
        values = compared(self._problem, found)
        values = self._vectors.setdefault(values, values)
        is_ok = found.status is Status.OK and not (
            found.metrics and failure(dict(found.metrics), found.feedback)
        )
        member = Member(program.id, program.source, values, self._born, found.metrics or (), is_ok)
        self._born += 1
        is_new_cell = self._place(member)
        self._raise(member, home or 0, is_new_cell and bool(self._problem.features))
        if home is None:
            self.seeds.append(member)
        homes = self.islands if home is None else [self.islands[home]]
        statuses = [(island.index, island.insert(member)) for island in homes]
        new = InsertionStatus.NEW_CELL
        return member, [
            Insertion(program.id, index, new if is_new_cell and index == (home or 0) else status)
            for index, status in statuses
        ]

    def weigh(self) -> Member | None:
        """Raise component weights, and return the specialist: the best program by weighted rewards, or None.

        The weight of a component rises if the previous specialist lacks full reward in it. So the search
        leaves local optima of the mean reward, as in clause weighting for satisfiability (Morris 1993).
        """
        if self.specialist is None:
            return None
        pairs = zip(self.weights, self.specialist.rewards, strict=True)
        self.weights = [weight + WEIGHT_STEP * (1.0 - reward) for weight, reward in pairs]
        weights_D = np.array(self.weights)
        for island in self.islands:
            values_N = island.rewards_N_D @ weights_D if island.members else np.zeros(0)
            if len(values_N) and values_N.max() > self._worth(self.specialist) + _ROUNDING:
                self.specialist = island.members[int(values_N.argmax())]
        return self.specialist

    def _worth(self, member: Member) -> float:
        pairs = zip(member.rewards, self.weights, strict=True)
        return sum(reward * weight for reward, weight in pairs)

    def _place(self, member: Member) -> bool:
        if self.grid.insert(member):
            self._number_anew()
        cell = self.grid.cell(member)
        before = self.cells.get(cell)
        if before is None or member.rank >= before.rank:
            self.cells[cell] = member
        return before is None

    def _number_anew(self) -> None:
        cells, visits = self.cells, self.visits
        self.cells, self.visits = {}, Counter()
        for old, member in cells.items():
            cell = self.grid.cell(member)
            self.visits[cell] = max(self.visits[cell], visits[old])
            if cell not in self.cells or member.rank >= self.cells[cell].rank:
                self.cells[cell] = member

    def _raise(self, member: Member, home: int, is_new_cell: bool) -> None:
        best = self._best or [NO_SCORE] * len(member.rewards)
        is_best_at_one = any(value > most for value, most in zip(member.rewards, best, strict=True))
        self._best = list(map(max, member.rewards, best))
        is_better = self.leader is None or member.rank > self.leader.rank
        is_equal = self.leader is not None and member.rank == self.leader.rank
        is_aside = is_new_cell or is_best_at_one
        self.gain = 1.0 if is_better else max(SIDE_GAIN * is_aside, DRIFT_GAIN * is_equal)
        if self.leader is None or member.rank >= self.leader.rank:
            self.leader, self.home = member, home
        if len(member.rewards) > 1:
            before = self.specialist
            if before is None or self._worth(member) >= self._worth(before) - _ROUNDING:
                self.specialist = member
