"""Joins two programs without a model: a condition on the inputs chooses the program that runs.

A join must pass more training rows than each of its two programs. With few rows, some condition always fits,
and a join can memorise the rows. Therefore, a join that uses one of its programs for only one training row
is proposed late in a run.
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
_PROPOSED = 8
_SHARE = 0.1
_LONE_ROWS_AFTER = 0.5
_WAITING = 256


class JoinLanguage(NamedTuple):
    """The conditions and functions for joining programs of one programming-by-example problem."""

    conditions: tuple[str, ...]
    """Conditions on the inputs, as source text; C is their number."""
    holds_C_N: npt.NDArray[np.float64]
    """Shape (C, N): 1 if a condition holds for a training row, else 0."""
    join: Callable[[str, str, str], Program | None]
    """Maps (then source, condition, else source) to the join of both; None if the join is too long."""
    shorter: Callable[[str], Sequence[Program]] = lambda source: ()
    """Maps a program's source to shorter programs. In each, one expression is cut to a piece of itself."""


class Join(NamedTuple):
    """A program joined from two parent programs, and the number of training rows that the join passes."""

    program: Program
    parents: tuple[Parent, Parent]
    """The program used if the condition holds, then the program used if not."""
    passed: int
    smaller_side: int
    """Number of training rows on the side of the condition that has fewer rows."""


def find_joins(
    language: JoinLanguage, new: Member, others: Sequence[Member], limit: int, above: int = 0
) -> list[Join]:
    """Return up to `limit` joins of `new` with programs in `others`, best first.

    Each join passes more than `above` training rows, and more rows than each of its two programs. The join
    that passes the most rows is the best.
    """
    if not others:
        return []
    mine_N = _passed(new)
    theirs_K_N = np.array([_passed(other) for other in others])
    holds, fails = language.holds_C_N, 1.0 - language.holds_C_N
    smaller_C = np.minimum(holds.sum(axis=1), fails.sum(axis=1))
    sizes_C = np.array([len(condition) for condition in language.conditions])
    best_K = np.maximum(mine_N.sum(), theirs_K_N.sum(axis=1))
    passed_F_C_K = np.stack(  # F: which of the two programs gets the rows where the condition holds
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
"""Heap entry: priority (lower first), program id, join."""


class Joins:
    """The queue of joins to propose. It stays empty if programs of the problem cannot be joined."""

    def __init__(self, standing: Standing, language: JoinLanguage | None) -> None:
        self._standing = standing
        self._language = language
        self._given_out = 0
        self._queue: list[_Waiting] = []
        self._lone_rows: list[_Waiting] = []
        self._queued: set[str] = set()

    @property
    def _language_in_use(self) -> JoinLanguage | None:
        has_conditions = self._language is not None and bool(self._language.conditions)
        return self._language if self._standing.config.joins and has_conditions else None

    @property
    def unspent(self) -> int:
        config = self._standing.config
        share = int(config.evaluations * _SHARE) if self._language_in_use else 0
        return share - self._given_out

    def count(self, prompt: Prompt) -> None:
        self._given_out += len(prompt.proposals) if prompt.kind is PromptKind.JOIN else 0

    def offer(self, new: Member, elites: Iterable[Member]) -> None:
        """Join `new` with programs in `elites`. Queue the joins that pass more rows than the best program."""
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
        """Remove joins from the queue and return them. Each passes more rows than the best program so far.

        `remaining` is the number of candidates that the budget of the search still allows.
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
