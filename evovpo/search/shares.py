"""How often each way to ask is used, learned from its recent gains.

Adaptive operator selection by probability matching with discounting (Fialho 2010). A way's share is its
initial share times its gain per reply; old gains fade, so a way that failed is tried again.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

_FADES = 0.99
"""What a past reply counts after one more."""
_AT_FIRST = 0.02
"""Gain per reply of every way at first: a new best in every 50th."""
_REPLIES = 15.0
"""Replies that the first estimate is worth."""
_LEAST = 0.003
"""Share of every way, whatever it brought."""


class Shares:
    """The shares of the ways; `learns` is False to keep the initial ones."""

    def __init__(
        self,
        at_first: Mapping[str, float],
        learns: bool = True,
        least: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._least = {name: least.get(name, _LEAST) for name, share in at_first.items() if share > 0.0}
        # Sorted, because the store does not keep the order of a table.
        self._at_first = {name: share for name, share in sorted(at_first.items()) if share > 0.0}
        self._learns = learns
        self._replies = dict.fromkeys(self._at_first, 0.0)
        self._gains = dict.fromkeys(self._at_first, 0.0)

    @property
    def now(self) -> dict[str, float]:
        """The shares, which sum to 1."""
        total = sum(self._at_first.values())
        if not self._learns:
            return {name: share / total for name, share in self._at_first.items()}
        worth = {
            name: share * (_REPLIES * _AT_FIRST + self._gains[name]) / (_REPLIES + self._replies[name])
            for name, share in self._at_first.items()
        }
        rest = (1.0 - sum(self._least.values())) / sum(worth.values())
        return {name: self._least[name] + rest * value for name, value in worth.items()}

    def choose(self, rng: np.random.Generator) -> str:
        """Return a way drawn by its share."""
        shares = self.now
        return str(rng.choice(list(shares), p=list(shares.values())))

    def learn(self, way: str, gain: float) -> None:
        """Take note of what a reply to an ask of a way brought."""
        if way not in self._gains:
            return
        for name in self._gains:
            self._replies[name] *= _FADES
            self._gains[name] *= _FADES
        self._replies[way] += 1.0
        self._gains[way] += gain
