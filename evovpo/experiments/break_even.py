"""After how many problems a training has paid for itself: cost per solved problem, the training included.

A training costs once, and what it gains comes with each problem that is searched afterwards. An arm that
spends c on a problem and solves the share s of them has spent (T + n c) / (n s) on each solved one after n
problems, where T is all that came before: its training, and the trainings that it was tuned by. An untrained
arm, with T = 0, always spends c0 / s0. Both are the same after n = T / (s c0 / s0 - c) problems; where this
is not positive, the training never pays.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evovpo.analysis.statistics import Array, Interval, resampling_weights

UNITS = ("cpu_seconds", "tokens")
PROBLEMS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
"""Numbers of problems that cost per solved problem is shown for."""
_DRAWS = 2000


class ArmCosts(NamedTuple):
    """What an arm spent, in one unit."""

    training: float
    """Before the first problem; 0 for an untrained arm."""
    cost_S_T: Array
    """On each problem, until it was solved or given up, with each seed."""
    solved_S_T: Array
    """Whether it was solved: 0 to 1."""


class BreakEven(NamedTuple):
    """After how many problems a trained arm has spent no more on a solved one than an untrained arm.

    None is never; `low` and `high` are the ends of the 95 % interval.
    """

    arm: str
    reference: str
    strategy: str
    unit: str
    """One of `UNITS`."""
    problems: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return f"{_text(self.problems)} [{_text(self.low)}, {_text(self.high)}]"


def compare(
    arm: str, reference: str, strategy: str, unit: str, trained: ArmCosts, untrained: ArmCosts
) -> BreakEven:
    """Return after how many problems a training pays.

    The interval draws problems, alike for both arms, and the seeds of each arm anew.
    """
    drawn = _pays_after(trained.training, *_draws(trained), *_draws(untrained))
    means = [values.mean()[None] for values in (*trained[1:], *untrained[1:])]
    found = float(_pays_after(trained.training, *means)[0])
    numbers = [one if math.isfinite(one) else None for one in (found, *_ends(drawn))]
    return BreakEven(arm, reference, strategy, unit, *numbers)


def cost_per_solved(spent: ArmCosts, problems: Sequence[int] = PROBLEMS) -> tuple[Interval, ...]:
    """Return what one solved problem costs after so many problems, the training included.

    The upper end of an interval is infinite where so few are solved that some draws hold none.
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
    """Return the part of a search's cost until it had solved its problem: all of it if it never did."""
    return cost if solved_after is None else cost * min(1.0, solved_after / max(evaluations, 1))


def _draws(spent: ArmCosts) -> tuple[Array, Array]:
    """Return mean cost and solved share of each resample; those of problems are the same for every arm."""
    seeds, tasks = spent.cost_S_T.shape
    tasks_B_T = resampling_weights(tasks, _DRAWS, np.random.default_rng(0))
    seeds_B_S = resampling_weights(seeds, _DRAWS, np.random.default_rng([1, round(spent.training)]))
    cost, solved = (
        np.einsum("bt,bt->b", tasks_B_T, seeds_B_S @ values) for values in (spent.cost_S_T, spent.solved_S_T)
    )
    return cost, solved


def _ends(drawn: Array) -> tuple[float, float]:
    """Return the ends of the 95 % interval; values of the sample, because some are infinite."""
    low = np.quantile(drawn, 0.025, method="lower")
    return float(low), float(np.quantile(drawn, 0.975, method="higher"))


def _per_solved(cost: Array, solved: Array) -> Array:
    return np.divide(cost, solved, out=np.full_like(cost, np.inf), where=solved > 0)


def _pays_after(training: float, cost: Array, solved: Array, other_cost: Array, other_solved: Array) -> Array:
    """Return T / (s c0 / s0 - c); where that is not positive, infinity: never."""
    other = _per_solved(other_cost, other_solved)
    saved = np.multiply(solved, other, out=np.zeros_like(cost), where=solved > 0) - cost
    return np.divide(training, saved, out=np.full_like(cost, np.inf), where=saved > 0)


def _text(problems: float | None) -> str:
    return "never" if problems is None else f"{math.ceil(problems):,}"
