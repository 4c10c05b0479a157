"""Model-free recombination of expression programs: `a if c else b`.

Two programs whose passed rows complement each other are joined under one condition that tells
their rows apart. Which rows a join passes is known without running it, so only joins that pass
more than either side are proposed. A join can memorise: with few rows some condition always
fits. Three rules hold that back: sides that each answer for at least two rows come first, short
programs come first, and reports always show held-out rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evovpo.expressions import conditions, from_source, join, to_source
from evovpo.population import Member
from evovpo.types import Problem, Program


class Join(NamedTuple):
    """A program made of two, with the rows that it will pass."""

    program: Program
    then_id: str
    else_id: str
    passed: int
    """Training rows that it passes; known without running it."""
    smaller_side: int
    """Training rows that the condition sends to the side that gets fewer."""


class Joiner:
    """Finds joins for one by-example problem; holds its conditions and which rows they hold for."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        rows = [[str(value) for value in example.inputs] for example in problem.train]
        found = conditions(rows)
        self._tests = [condition.text for condition in found]
        holds = [[condition.holds(row) for row in rows] for condition in found]
        self._holds_C_N = np.array(holds, dtype=np.float64).reshape(len(found), len(rows))
        count = self._holds_C_N.sum(axis=1)
        self._smaller_C = np.minimum(count, len(rows) - count)

    def joins(self, new: Member, others: Sequence[Member], limit: int) -> list[Join]:
        """Return up to `limit` joins of `new` with `others` that pass more rows than either, best first.

        Order: more rows passed, then a larger smaller side (one row or more), then shorter source.
        """
        if not others or not self._tests:
            return []
        mine_N = _passed(new)  # noqa: N806
        theirs_K_N = np.array([_passed(other) for other in others])  # noqa: N806
        holds, fails = self._holds_C_N, 1.0 - self._holds_C_N
        best_K = np.maximum(mine_N.sum(), theirs_K_N.sum(axis=1))  # noqa: N806
        found: list[tuple[int, int, int, int, int, int]] = []
        for flipped, passed_C_K in enumerate(  # noqa: N806
            (
                (holds @ mine_N)[:, None] + fails @ theirs_K_N.T,
                (fails @ mine_N)[:, None] + holds @ theirs_K_N.T,
            )
        ):
            for c, k in np.argwhere(passed_C_K > best_K[None, :]).tolist():
                length = len(self._tests[c]) + len(others[k].source)
                found.append(
                    (-int(passed_C_K[c, k]), -min(int(self._smaller_C[c]), 2), length, c, k, flipped)
                )
        found.sort()
        made: list[Join] = []
        for passed, _, _, c, k, flipped in found[:limit]:
            then, otherwise = (others[k], new) if flipped else (new, others[k])
            program = self._program(then, self._tests[c], otherwise)
            if program is not None:
                made.append(
                    Join(program, then.program_id, otherwise.program_id, -passed, int(self._smaller_C[c]))
                )
        return made

    def _program(self, then: Member, test: str, otherwise: Member) -> Program | None:
        first = from_source(then.source, self._problem.entry)
        second = from_source(otherwise.source, self._problem.entry)
        if first is None or second is None:
            return None
        expression = join(first, test, second)
        if expression is None:
            return None
        return Program(to_source(expression, self._problem.entry, self._problem.parameters))


def _passed(member: Member) -> npt.NDArray[np.float64]:
    return np.array([1.0 if value >= 1.0 else 0.0 for value in member.rewards])
