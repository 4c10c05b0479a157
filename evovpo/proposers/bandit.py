"""Chooses one of several models for a ticket: by fixed weights, or by the gains of their replies so far.

The choice depends only on the ticket and on what was told, so a resumed run chooses the same models.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


def pick_weighted(weights: Sequence[float], seed: int) -> int:
    """Return a position with probability proportional to its weight; the same for the same seed."""
    return random.Random(f"model {seed}").choices(range(len(weights)), weights)[0]


@dataclass(slots=True)
class _Arm:
    replies: int = 0
    """Told."""
    under_way: int = 0
    """Asked for, and not told yet."""
    tokens: int = 0
    gain: float = 0.0


class Bandit:
    """UCB1 (Auer, Cesa-Bianchi and Fischer 2002) on improvement per token.

    The value of a model is the sum of the gains of its replies over the sum of their tokens, divided by the
    largest such value, so that it lies in [0, 1]; what is added is sqrt(2 ln n / n_i) of the paper, with n
    replies of which the model wrote n_i. We differ in the value, a ratio of sums where the paper has a mean
    of rewards in [0, 1], and in counting replies that are still under way: with several asks at a time they
    would otherwise all go to one model.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._arms = {name: _Arm() for name in names}

    def choose(self, replies: int = 1) -> str:
        """Return the model for a ticket and count its replies as in flight.

        Models that were never asked come first, in their order; of equals the first one.
        """
        total = sum(arm.replies + arm.under_way for arm in self._arms.values())
        best = max(self.values.values())

        def bound(name: str) -> float:
            arm = self._arms[name]
            count = arm.replies + arm.under_way
            if count == 0:
                return math.inf
            scaled = self.values[name] / best if best > 0 else 0.0
            return scaled + math.sqrt(2 * math.log(total) / count)

        chosen = max(self._arms, key=bound)
        self._arms[chosen].under_way += replies
        return chosen

    def give_up(self, model: str, replies: int) -> None:
        """Take note that replies under way will not be told."""
        arm = self._arms[model]
        arm.under_way = max(arm.under_way - replies, 0)

    def observe(self, model: str, gain: float, tokens: int) -> None:
        """Take note of one told reply: how much it raised the best mean reward, and what it was long.

        A model that is not among the names (no longer configured) is left out.
        """
        arm = self._arms.get(model)
        if arm is None:
            return
        arm.under_way = max(arm.under_way - 1, 0)
        arm.replies += 1
        arm.tokens += max(tokens, 1)
        arm.gain += max(gain, 0.0)

    @property
    def values(self) -> Mapping[str, float]:
        """Improvement per token of each model so far, 0 without replies."""
        return {name: arm.gain / arm.tokens if arm.tokens else 0.0 for name, arm in self._arms.items()}
