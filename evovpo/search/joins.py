"""Joins two programs without a model: the joined program chooses between them by a condition on its inputs.

Two programs whose passed rows complement each other are joined under one condition that tells
their rows apart. Which rows a join passes is known without running it, so only joins that pass
more than either side are proposed. A join can memorise: with few rows some condition always
fits. Three rules hold that back: sides that each answer for at least two rows come first, short
programs come first, and reports always show held-out rows.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evovpo.search.population import Member
from evovpo.search.standing import Standing
from evovpo.types import Parent, ParentRole, Program, Prompt, PromptKind

_PARTNERS = 24
"""Members that a new program is tried with; the pool is a front, so this is nearly all of it."""
_PROPOSED = 8
"""Most joins in one ticket."""
_SHARE = 0.1
"""Largest share of the budget that joins may take."""
_LONE_ROWS_AFTER = 0.5
"""Share of the budget after which a join may single out one row."""
_WAITING = 256
"""Joins that wait for their turn; the worst of more are forgotten."""


class JoinLanguage(NamedTuple):
    """How the programs of one by-example problem are joined."""

    conditions: tuple[str, ...]
    """Tests on the inputs, C of them."""
    holds_C_N: npt.NDArray[np.float64]
    """For which of N training rows each holds: 1 or 0."""
    join: Callable[[str, str, str], Program | None]
    """(source, condition, source of the other side) -> the program of both; None where there is none."""
    shorter: Callable[[str], Sequence[Program]] = lambda source: ()
    """Source -> programs that one of its parts makes in place of the part around it."""


class Join(NamedTuple):
    """A program made of two, with the rows that it will pass."""

    program: Program
    parents: tuple[Parent, Parent]
    """The program for where the condition holds, then the other."""
    passed: int
    """Training rows that it passes; known without running it."""
    smaller_side: int
    """Training rows that the condition sends to the side that gets fewer."""


def find_joins(
    language: JoinLanguage, new: Member, others: Sequence[Member], limit: int, above: int = 0
) -> list[Join]:
    """Return up to `limit` joins of `new` with `others`, best first.

    Each passes more rows than either of its sides and more than `above`. Order: more rows passed, then
    a larger smaller side (one row or more), then shorter source.
    """
    if not others:
        return []
    mine_N = _passed(new)
    theirs_K_N = np.array([_passed(other) for other in others])
    holds, fails = language.holds_C_N, 1.0 - language.holds_C_N
    smaller_C = np.minimum(holds.sum(axis=1), fails.sum(axis=1))
    sizes_C = np.array([len(condition) for condition in language.conditions])
    best_K = np.maximum(mine_N.sum(), theirs_K_N.sum(axis=1))
    passed_F_C_K = np.stack(  # - F: which of the two the condition sends its rows to
        (
            (holds @ mine_N)[:, None] + fails @ theirs_K_N.T,
            (fails @ mine_N)[:, None] + holds @ theirs_K_N.T,
        )
    )
    flipped, c, k = np.nonzero(passed_F_C_K > np.maximum(best_K, above))
    passed = passed_F_C_K[flipped, c, k]
    sizes_K = np.array([len(other.source) for other in others])
    order = np.lexsort((flipped, k, c, sizes_C[c] + sizes_K[k], -np.minimum(smaller_C[c], 2), -passed))
    made: list[Join] = []
    for place in order.tolist():
        if len(made) == limit:
            break
        other, test = others[k[place]], int(c[place])
        then, otherwise = (other, new) if flipped[place] else (new, other)
        program = language.join(then.source, language.conditions[test], otherwise.source)
        if program is not None:
            smaller = int(smaller_C[test])
            parents = (
                Parent(then.program_id, ParentRole.JOIN_THEN),
                Parent(otherwise.program_id, ParentRole.JOIN_ELSE),
            )
            made.append(Join(program, parents, int(passed[place]), smaller))
    return made


_Waiting = tuple[tuple[int, ...], str, Join]
"""Priority (lower first), id of its program, and the join: a heap entry."""


class Joins:
    """The joins that wait to be proposed; without a language there are none."""

    def __init__(self, standing: Standing, language: JoinLanguage | None) -> None:
        self._standing = standing
        self._language = language
        self._given_out = 0
        self._queue: list[_Waiting] = []
        self._lone_rows: list[_Waiting] = []
        """Joins whose condition singles out one row: it explains nothing; they wait for the end."""
        self._queued: set[str] = set()

    @property
    def _language_in_use(self) -> JoinLanguage | None:
        has_conditions = self._language is not None and bool(self._language.conditions)
        return self._language if self._standing.config.joins and has_conditions else None

    @property
    def unspent(self) -> int:
        """Candidates of the budget that joins may still take."""
        config = self._standing.config
        share = int(config.evaluations * _SHARE) if self._language_in_use else 0
        return share - self._given_out

    def count(self, prompt: Prompt) -> None:
        """Count the joins of a stored ticket."""
        self._given_out += len(prompt.proposals) if prompt.kind is PromptKind.JOIN else 0

    def offer(self, new: Member, elites: Iterable[Member]) -> None:
        """Look for joins of a new member with `elites` that would be better than the best so far."""
        language = self._language_in_use
        if language is None:
            return
        nearest = heapq.nsmallest(
            _PARTNERS,
            (member for member in elites if member.program_id != new.program_id),
            key=lambda m: (-sum(m.rewards), len(m.source), m.order),
        )
        for join in find_joins(language, new, nearest, _PROPOSED, self._standing.passed):
            if join.program.id in self._queued or join.program.id in self._standing.programs:
                continue
            self._queued.add(join.program.id)
            priority = (-join.passed, -min(join.smaller_side, 2), len(join.program.source))
            queue = self._lone_rows if join.smaller_side < 2 else self._queue
            heapq.heappush(queue, (priority, join.program.id, join))
        for queue in (self._queue, self._lone_rows):
            if len(queue) > _WAITING:
                queue[:] = heapq.nsmallest(_WAITING, queue)

    def take(self, remaining: int) -> list[Join]:
        """Return the joins to propose now: better than the best so far, within their share of the budget.

        `remaining` are the candidates of the budget that are not given out yet.
        """
        standing, config = self._standing, self._standing.config
        budget = config.evaluations
        if budget - remaining >= budget * _LONE_ROWS_AFTER:
            while self._lone_rows:
                heapq.heappush(self._queue, self._lone_rows.pop())
        room = min(_PROPOSED, remaining, self.unspent)
        chosen: list[Join] = []
        while self._queue and len(chosen) < room:
            join = heapq.heappop(self._queue)[2]
            if join.passed > standing.passed and join.program.id not in standing.programs:
                chosen.append(join)
        self._given_out += len(chosen)
        return chosen


def _passed(member: Member) -> npt.NDArray[np.float64]:
    return np.array([1.0 if value >= 1.0 else 0.0 for value in member.rewards])
