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

from evovpo.builtin.expression_prompts import make_program, read_expression
from evovpo.builtin.expressions import conditions, join
from evovpo.search.population import Member
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
        self._sizes_C = np.array([len(test) for test in self._tests])

    def joins(self, new: Member, others: Sequence[Member], limit: int, above: int = 0) -> list[Join]:
        """Return up to `limit` joins of `new` with `others`, best first.

        Each passes more rows than either of its sides and more than `above`. Order: more rows passed, then
        a larger smaller side (one row or more), then shorter source.
        """
        if not others or not self._tests:
            return []
        mine_N = _passed(new)  # noqa: N806
        theirs_K_N = np.array([_passed(other) for other in others])  # noqa: N806
        holds, fails = self._holds_C_N, 1.0 - self._holds_C_N
        best_K = np.maximum(mine_N.sum(), theirs_K_N.sum(axis=1))  # noqa: N806
        passed_F_C_K = np.stack(  # noqa: N806 - F: which of the two the condition sends its rows to
            (
                (holds @ mine_N)[:, None] + fails @ theirs_K_N.T,
                (fails @ mine_N)[:, None] + holds @ theirs_K_N.T,
            )
        )
        flipped, c, k = np.nonzero(passed_F_C_K > np.maximum(best_K, above))
        passed = passed_F_C_K[flipped, c, k]
        sizes_K = np.array([len(other.source) for other in others])  # noqa: N806
        order = np.lexsort(
            (flipped, k, c, self._sizes_C[c] + sizes_K[k], -np.minimum(self._smaller_C[c], 2), -passed)
        )
        made: list[Join] = []
        for place in order.tolist():
            if len(made) == limit:
                break
            other, test = others[k[place]], int(c[place])
            then, otherwise = (other, new) if flipped[place] else (new, other)
            program = self._program(then, self._tests[test], otherwise)
            if program is not None:
                smaller = int(self._smaller_C[test])
                made.append(Join(program, then.program_id, otherwise.program_id, int(passed[place]), smaller))
        return made

    def _program(self, then: Member, test: str, otherwise: Member) -> Program | None:
        first = read_expression(then.source, self._problem.entry)
        second = read_expression(otherwise.source, self._problem.entry)
        if first is None or second is None:
            return None
        expression = join(first, test, second)
        return None if expression is None else make_program(expression, self._problem)


def _passed(member: Member) -> npt.NDArray[np.float64]:
    return np.array([1.0 if value >= 1.0 else 0.0 for value in member.rewards])
