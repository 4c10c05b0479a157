"""How sure a comparison is: paired bootstrap intervals over tasks and seeds, sign-flip tests.

Values are arrays `[S, T]`: S training seeds of one arm, each evaluated on the same T tasks (for a model that
was not trained, S is 1). Two arms are compared on the same tasks, in the same order: what a task is worth
cancels in the difference. Tasks and seeds are crossed (every seed meets every task), so the two-level
bootstrap draws seeds and tasks independently of each other (Owen 2007, "The pigeonhole bootstrap",
arXiv 0712.1111), which errs towards wide intervals.

Each resample draws n - 1 of n units with replacement (Rao and Wu 1988, "Resampling inference with complex
survey data"), which makes the variance of a resampled mean unbiased. Drawing n would understate it by
(n - 1)/n: a third of it is lost with three seeds. What this does not mend is that three seeds say little of
their own spread. In simulations with 40 tasks and three seeds an arm, nominal 95 % intervals held the truth
95 % of the time with a spread of .1 between seeds beside noise of .3 within tasks, 88 % with .3 beside .1,
and 84 % where seeds were the only source of spread; resampling tasks alone gave 60 %, 10 % and 0 %.
"""

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evovpo.errors import ConfigError

Array = npt.NDArray[np.float64]

DRAWS = 10_000
"""Resamples; the ends of a 95 % interval then move by some 2 % of its width between generators."""
_EXACT_TASKS = 14
"""Up to so many tasks all 2^T patterns of signs are tried instead of a sample."""


class Interval(NamedTuple):
    """A mean with the ends of its confidence interval."""

    mean: float
    low: float
    high: float
    n: int
    """Tasks that it rests on."""

    @property
    def is_below_zero(self) -> bool:
        """True if the whole interval is."""
        return self.high < 0.0

    @property
    def is_clear(self) -> bool:
        """True if the whole interval lies on one side of zero."""
        return self.is_below_zero or self.low > 0.0


def mean_interval(
    values_S_T: npt.ArrayLike,  # noqa: N803
    rng: np.random.Generator,
    *,
    draws: int = DRAWS,
    level: float = 0.95,
) -> Interval:
    """Return the mean over seeds and tasks with its bootstrap interval.

    Tasks and seeds are resampled: the interval speaks of another training on other tasks. One seed (S = 1, or
    a plain `[T]` such as the means over seeds) adds no spread of its own: the interval then speaks of these
    very trainings. Raises `ConfigError` as `paired_interval`.
    """
    values = _checked(values_S_T)
    return paired_interval(values, np.zeros((1, values.shape[1])), rng, draws=draws, level=level)


def paired_interval(
    values_S_T: npt.ArrayLike,  # noqa: N803
    reference_R_T: npt.ArrayLike,  # noqa: N803
    rng: np.random.Generator,
    *,
    draws: int = DRAWS,
    level: float = 0.95,
) -> Interval:
    """Return the mean of (values - reference) on the same T tasks, with its bootstrap interval.

    Tasks are resampled for both arms together, the S and R training seeds of each arm by itself, for seed 1
    of one arm has nothing to do with seed 1 of another.

    Raises `ConfigError` for arms on different numbers of tasks, for no task, and for values that are not
    finite.
    """
    values, reference = _checked(values_S_T), _checked(reference_R_T)
    if values.shape[1] != reference.shape[1]:
        raise ConfigError(
            f"one arm has {values.shape[1]} tasks and the other {reference.shape[1]}; a paired difference "
            "needs both on the same tasks in the same order"
        )
    tasks_B_T = _resampling_weights(values.shape[1], draws, rng)  # noqa: N806
    resampled_B_T = _resampling_weights(len(values), draws, rng) @ values  # noqa: N806
    resampled_B_T -= _resampling_weights(len(reference), draws, rng) @ reference  # noqa: N806
    means_B = np.einsum("bt,bt->b", tasks_B_T, resampled_B_T)  # noqa: N806
    low, high = np.quantile(means_B, [(1 - level) / 2, (1 + level) / 2])
    mean = (values.mean(axis=0) - reference.mean(axis=0)).mean()
    return Interval(float(mean), float(low), float(high), values.shape[1])


def sign_flip_p(differences_T: npt.ArrayLike, rng: np.random.Generator, *, draws: int = DRAWS) -> float:  # noqa: N803
    """Return the two-sided p-value of a mean paired difference under random signs.

    If neither arm were better, each task's difference could as well have had the other sign: p is the share
    of sign patterns whose mean is at least as far from zero. All patterns are tried for up to 14 tasks;
    beyond that `draws` random ones and the one observed, so that p is never 0 (Phipson and Smyth 2010).
    Differences of seeds are averaged for each task before: the test speaks of these very trainings.
    """
    differences = _checked(differences_T)[0]
    observed = abs(differences.sum())
    tasks = len(differences)
    if tasks <= _EXACT_TASKS:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=tasks)))
    else:
        signs = rng.integers(0, 2, (draws, tasks)) * 2.0 - 1.0
    # Sums of the same numbers in another order differ in their last bits.
    as_far = int((np.abs(signs @ differences) >= observed - 1e-12 * np.abs(differences).sum()).sum())
    return as_far / len(signs) if tasks <= _EXACT_TASKS else (as_far + 1) / (draws + 1)


def _resampling_weights(units: int, draws: int, rng: np.random.Generator) -> Array:
    """Return `[draws, units]`: the share of each unit among n - 1 drawn of n with replacement."""
    drawn = max(units - 1, 1)
    return rng.multinomial(drawn, np.full(units, 1 / units), draws) / drawn


def _checked(values: npt.ArrayLike) -> Array:
    """Return `values` as `[S, T]`, finite and not empty; a plain `[T]` is one seed."""
    array = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if array.ndim != 2 or not array.size:
        raise ConfigError(
            f"values have shape {array.shape}; expected seeds by tasks, at least 1 by 1: evaluate some tasks"
            " first"
        )
    if not np.isfinite(array).all():
        raise ConfigError(
            f"{int((~np.isfinite(array)).sum())} of {array.size} values are not finite; evaluate every task "
            "with every seed, or leave the task out of all arms"
        )
    return array
