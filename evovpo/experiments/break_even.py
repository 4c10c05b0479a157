"""The number of problems after which a training has paid for itself (break-even).

A training costs T, including the trainings for tuning. The trained arm then spends c per problem and solves a
share s of the problems, so n problems cost (T + n c) / (n s) per solved problem. The untrained arm spends c0
per problem and solves a share s0, so the cost per solved problem is c0 / s0. Both costs are equal for

    n = T / (s c0 / s0 - c).

If the divisor is not positive, the training never pays.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evovpo.analysis.statistics import Array, Interval, resampling_weights

UNITS = ("cpu_seconds", "tokens")
PROBLEMS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
"""Numbers of problems after which the cost per solved problem is shown."""
_DRAWS = 2000


class ArmCosts(NamedTuple):
    """The costs of an arm, all in one unit, and the problems that it solved."""

    training: float
    cost_S_T: Array
    """Cost of the search with each seed on each problem, until the problem was solved or the search ended."""
    solved_S_T: Array


class BreakEven(NamedTuple):
    """Number of problems after which a trained arm costs no more per solved problem than an untrained arm.

    None means never; `low` and `high` are the ends of the 95 % interval.
    """

    arm: str
    reference: str
    strategy: str
    unit: str
    problems: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return f"{_text(self.problems)} [{_text(self.low)}, {_text(self.high)}]"


def compare(
    arm: str, reference: str, strategy: str, unit: str, trained: ArmCosts, untrained: ArmCosts
) -> BreakEven:
    """Return the number of problems after which the training of `trained` has paid for itself."""
    drawn = _pays_after(trained.training, *_draws(trained), *_draws(untrained))
    means = [values.mean()[None] for values in (*trained[1:], *untrained[1:])]
    found = float(_pays_after(trained.training, *means)[0])
    numbers = [one if math.isfinite(one) else None for one in (found, *_ends(drawn))]
    return BreakEven(arm, reference, strategy, unit, *numbers)


def cost_per_solved(spent: ArmCosts, problems: Sequence[int] = PROBLEMS) -> tuple[Interval, ...]:
    """Return the cost per solved problem, training included, after n problems, for each n in `problems`.

    The upper end of an interval is infinite if too many resamples contain no solved problem.
    """
    cost, solved = _draws(spent)
    mean_cost, mean_solved = spent.cost_S_T.mean()[None], spent.solved_S_T.mean()[None]
    found = []
    for count in problems:
        mean = float(_per_solved(mean_cost + spent.training / count, mean_solved)[0])
        ends = _ends(_per_solved(cost + spent.training / count, solved))
        found.append(Interval(mean, *ends, spent.cost_S_T.shape[1]))
    return tuple(found)


def until_solved(cost: float, evaluations: int, solved_after: int | None) -> float:
    """Return the cost of a search until the problem was solved; for an unsolved problem, the full cost."""
    return cost if solved_after is None else cost * min(1.0, solved_after / max(evaluations, 1))


def _draws(spent: ArmCosts) -> tuple[Array, Array]:
    seeds, tasks = spent.cost_S_T.shape
    tasks_B_T = resampling_weights(tasks, _DRAWS, np.random.default_rng(0))
    seeds_B_S = resampling_weights(seeds, _DRAWS, np.random.default_rng([1, round(spent.training)]))
    cost, solved = (
        np.einsum("bt,bt->b", tasks_B_T, seeds_B_S @ values) for values in (spent.cost_S_T, spent.solved_S_T)
    )
    return cost, solved


def _ends(drawn: Array) -> tuple[float, float]:
    """Return the ends of the 95 % interval. They are not interpolated, because values can be infinite."""
    low = np.quantile(drawn, 0.025, method="lower")
    return float(low), float(np.quantile(drawn, 0.975, method="higher"))


def _per_solved(cost: Array, solved: Array) -> Array:
    return np.divide(cost, solved, out=np.full_like(cost, np.inf), where=solved > 0)


def _pays_after(training: float, cost: Array, solved: Array, other_cost: Array, other_solved: Array) -> Array:
    """Return the break-even number of problems (see the top of this file); infinity means never."""
    other = _per_solved(other_cost, other_solved)
    saved = np.multiply(solved, other, out=np.zeros_like(cost), where=solved > 0) - cost
    return np.divide(training, saved, out=np.full_like(cost, np.inf), where=saved > 0)


def _text(problems: float | None) -> str:
    return "never" if problems is None else f"{math.ceil(problems):,}"
