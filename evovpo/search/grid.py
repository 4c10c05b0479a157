"""The MAP-Elites axes of a problem: which cell a program belongs to.

Bin edges are fixed from the moment they are known, so that a cell number never changes its meaning within a
run.
"""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from evovpo.search.members import Member
from evovpo.types import Feature

LEARNING_PROGRAMS = 32
"""Programs that a grid looks at before it freezes undeclared bin edges."""

Cell = tuple[int, ...]


class Grid:
    """The axes with their bin edges.

    Edges that the problem declares are used as they are. Others are learned once, as quantiles
    over the first `LEARNING_PROGRAMS` programs, and then frozen; until then there are no cells.
    """

    def __init__(self, features: Sequence[Feature], objectives: Sequence[str]) -> None:
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
        self._seen.append(self._values(member))
        if len(self._seen) < LEARNING_PROGRAMS:
            return False
        for axis, feature in enumerate(self._features):
            if self._edges[axis] is None:
                values = [seen[axis] for seen in self._seen]
                quantiles = np.quantile(values, np.arange(1, feature.bins) / feature.bins)
                self._edges[axis] = tuple(sorted(set(quantiles.tolist())))
        return True

    def cell(self, member: Member) -> Cell:
        """Return the bin index on every axis; only once `is_frozen`."""
        values = self._values(member)
        return tuple(
            bisect_right(edges or (), value) for edges, value in zip(self._edges, values, strict=True)
        )

    def _values(self, member: Member) -> tuple[float, ...]:
        return tuple(self._value(feature.name, member) for feature in self._features)

    def _value(self, name: str, member: Member) -> float:
        if name == "length":
            return float(len(member.source))
        return member.rewards[self._objectives.index(name.removeprefix("reward:"))]
