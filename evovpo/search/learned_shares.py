"""Learns how often to use each way (kind of prompt) from the improvements by recent replies.

This is adaptive operator selection by probability matching with discounting (Fialho 2010). The share of a way
grows with the average improvement by replies to this kind of prompt. Older replies count less.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

_FADES = 0.99
"""Each new reply multiplies the weight of every earlier reply by this factor."""
_AT_FIRST = 0.02
"""Gain per reply that is assumed of each way at first: one new best program in 50 replies."""
_REPLIES = 15.0
"""The assumed gain `_AT_FIRST` counts as much as this number of replies."""
_LEAST = 0.003


class Shares:
    """The share of each way (kind of prompt) among all prompts. Shares are constant if `learns` is False."""

    def __init__(
        self,
        at_first: Mapping[str, float],
        learns: bool = True,
        least: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._least = {name: least.get(name, _LEAST) for name, share in at_first.items() if share > 0.0}
        # Sorted, because the stored settings do not keep the order of a table.
        self._at_first = {name: share for name, share in sorted(at_first.items()) if share > 0.0}
        self._learns = learns
        self._replies = dict.fromkeys(self._at_first, 0.0)
        self._gains = dict.fromkeys(self._at_first, 0.0)

    @property
    def now(self) -> dict[str, float]:
        """The current share of each way, by name; the shares sum to 1."""
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
        """Return the name of a random kind of prompt, drawn with the current shares as probabilities."""
        shares = self.now
        return str(rng.choice(list(shares), p=list(shares.values())))

    def learn(self, way: str, gain: float) -> None:
        """Record `gain`, the improvement by one reply to a prompt of the kind `way`. Ignore unknown ways."""
        if way not in self._gains:
            return
        for name in self._gains:
            self._replies[name] *= _FADES
            self._gains[name] *= _FADES
        self._replies[way] += 1.0
        self._gains[way] += gain
