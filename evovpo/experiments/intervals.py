"""Means of an arm (a method under comparison), differences between two arms, and bootstrap intervals.

Values are arrays of shape (S, T), for S seeds and T problems. Intervals resample seeds and problems with a
fixed random seed, and are not corrected for multiple comparisons.
"""

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evovpo.analysis.statistics import DRAWS, Array, Interval, bootstrap_interval, sign_flip_p

_CLEAR = 0.05
CURVE_DRAWS = 2000


class Difference(NamedTuple):
    """The difference between the means of two arms on the same problems."""

    interval: Interval
    p: float
    """Two-sided p-value of a sign-flip test. This test matters if few problems have equal differences: the
    bootstrap interval then has no width."""

    @property
    def is_clear(self) -> bool:
        return self.interval.is_clear and self.p < _CLEAR

    def __format__(self, spec: str) -> str:
        text = f"{self.interval:+{spec}}"
        return f"**{text}**" if self.is_clear else text


class UnlockedProblems(NamedTuple):
    """Problems that one arm solves with at least one of its `seeds` seeds, and another arm with none."""

    problems: tuple[str, ...]
    interval: Interval
    seeds: int


def mean(values_S_T: Array, times: float = 1.0, draws: int = DRAWS) -> Interval:
    """Return the mean of the values with its interval, both multiplied by `times`."""
    return _times(bootstrap_interval(values_S_T, draws=draws), times)


def difference(ours_S_T: Array, theirs_R_T: Array, times: float = 1.0) -> Difference:
    """Return the first arm's mean minus the second's, on the same problems, multiplied by `times`."""
    interval = _times(bootstrap_interval(ours_S_T, theirs_R_T), times)
    return Difference(interval, sign_flip_p(ours_S_T.mean(axis=0) - theirs_R_T.mean(axis=0)))


def unlocked(ours_S_T: Array, theirs_R_T: Array, problems: Sequence[str]) -> UnlockedProblems:
    """Return the problems that the first arm solves with at least one seed, and the second with none.

    If one arm has more seeds, its last seeds are ignored. The interval resamples problems and each arm's
    seeds. It is biased, because a resample has fewer distinct seeds and misses rarely solved problems.
    """
    seeds = min(len(ours_S_T), len(theirs_R_T))
    ours, theirs = ours_S_T[:seeds] > 0, theirs_R_T[:seeds] > 0
    found: npt.NDArray[np.bool_] = np.any(ours, axis=0) & ~np.any(theirs, axis=0)
    rng = np.random.default_rng(0)
    counts = np.empty(CURVE_DRAWS)
    for draw in range(CURVE_DRAWS):
        first, second = rng.integers(seeds, size=(2, seeds))
        drawn = rng.integers(len(problems), size=len(problems))
        counts[draw] = (ours[first].any(axis=0) & ~theirs[second].any(axis=0))[drawn].sum()
    low, high = np.quantile(counts, [0.025, 0.975])
    interval = Interval(float(found.sum()), float(low), float(high), len(problems))
    return UnlockedProblems(tuple(compress(problems, found)), interval, seeds)


def _times(interval: Interval, factor: float) -> Interval:
    return Interval(interval.mean * factor, interval.low * factor, interval.high * factor, interval.n)
