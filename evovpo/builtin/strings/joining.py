"""How expression programs are joined: `a if condition else b`, for `evovpo/search/joins.py`."""

import numpy as np

from evovpo.builtin.strings.conditions import conditions, join
from evovpo.builtin.strings.format import expression_fault, make_program, read_expression
from evovpo.search.joins import JoinLanguage
from evovpo.types import Problem, Program


def join_language(problem: Problem) -> JoinLanguage | None:
    """Return how programs of `problem` are joined.

    None if it is not one of strings by example, or no condition tells its rows apart.
    """
    if expression_fault(problem):
        return None
    rows = [[str(value) for value in example.inputs] for example in problem.train]
    found = conditions(rows)
    if not found:
        return None

    def joined(then: str, condition: str, otherwise: str) -> Program | None:
        first, second = read_expression(then, problem.entry), read_expression(otherwise, problem.entry)
        if first is None or second is None:
            return None
        expression = join(first, condition, second)
        return None if expression is None else make_program(expression, problem)

    return JoinLanguage(
        conditions=tuple(condition.text for condition in found),
        holds_C_N=np.array([[float(condition.holds(row)) for row in rows] for condition in found]),
        join=joined,
    )
