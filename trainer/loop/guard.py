"""Whether a new policy version is clearly worse than its parent: the guard before it is served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evovpo.analysis.statistics import Array, Interval, paired_interval
from evovpo.errors import ConfigError
from evovpo.types import Json
from trainer.loop.probe import ProbeResult

FEWEST_PROBLEMS = 6
"""On fewer problems no version is called clearly worse: of two equal versions the new one loses on each of 5
by chance once in 32, more often than the 2.5 % that one side of a 95 % interval stands for."""


class Verdict(NamedTuple):
    """Whether a new version is clearly worse than its parent, and the figures that say so."""

    is_worse: bool
    differences: dict[int, Interval]
    """best@k of the new version minus the parent's, by k, paired over problems."""
    reason: str

    def summary(self) -> dict[str, Json]:
        """Return the verdict as JSON."""
        return {
            "is_worse": self.is_worse,
            "reason": self.reason,
            "differences": {
                str(k): {"mean": i.mean, "low": i.low, "high": i.high, "problems": i.n}
                for k, i in self.differences.items()
            },
        }


def clearly_worse(
    new: ProbeResult, parent: ProbeResult, *, budget: int, margin: float = 0.01, seed: int = 0
) -> Verdict:
    """Return whether `new` has clearly forgotten something that `parent` could: the guard before serving.

    Compared are best@1 and best@k at the search's budget (or the most that were sampled, if fewer), paired
    over the problems. The new version is clearly worse if for one of them the 95 % bootstrap interval of
    the difference lies below 0 and its mean below -`margin`: a loss must be both certain and worth
    mentioning. By chance it refuses a version that is no worse too: of samples of the built-in model compared
    with other samples of it, 2.5 to 3 % on 12 problems or more, 5 to 9 % on 6 to 8. On fewer than
    `FEWEST_PROBLEMS` problems none is. Raises `ConfigError` for probes of different problems.
    """
    check_same_problems(new, parent)
    ks = sorted({1, min(budget, new.sampled, parent.sampled)})
    differences = differences_by_k(new.best(ks), parent.best(ks), ks, seed)
    shown = ", ".join(f"best@{k} {signed(interval)}" for k, interval in differences.items())
    problems = len(new.problems)
    if problems < FEWEST_PROBLEMS:
        return Verdict(
            False, differences, f"too few problems to tell ({problems} of {FEWEST_PROBLEMS}): {shown}"
        )
    worse = [k for k, i in differences.items() if i.is_below_zero and i.mean < -margin]
    if not worse:
        return Verdict(False, differences, f"not clearly worse on {problems} problems: {shown}")
    where = " and ".join(f"best@{k}" for k in worse)
    return Verdict(True, differences, f"clearly worse at {where} on {problems} problems: {shown}")


def differences_by_k(
    new_P_k: Array,  # noqa: N803
    parent_P_k: Array,  # noqa: N803
    ks: Sequence[int],
    seed: int = 0,
) -> dict[int, Interval]:
    """Return for each k the mean paired difference over problems with its 95 % interval."""
    return {
        k: paired_interval([new_P_k[:, i]], [parent_P_k[:, i]], np.random.default_rng(seed))
        for i, k in enumerate(ks)
    }


def signed(interval: Interval) -> str:
    """Return a difference in words: `+0.031 [-0.004, +0.066]`."""
    return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def check_same_problems(first: ProbeResult, second: ProbeResult) -> None:
    """Raise `ConfigError` unless two probes hold the same problems in the same order."""
    ordered = [[(p.problem_id, p.problem_version) for p in result.problems] for result in (first, second)]
    if ordered[0] != ordered[1]:
        raise ConfigError(
            f"one probe holds {len(ordered[0])} problems and the other {len(ordered[1])}; expected the same "
            "ones in the same order: probe both versions with the same problems"
        )
