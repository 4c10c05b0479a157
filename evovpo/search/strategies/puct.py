"""A tree over programs, searched by PUCT."""

import math

import numpy as np

from evovpo.analysis.scores import NO_SCORE
from evovpo.search.plan import Chance, Plan, Reply, expand
from evovpo.search.population import Member
from evovpo.search.strategies.strategy import Strategy

EXPLORATION = 1.0
"""c of the rule."""


class Puct(Strategy):
    """Expands the program with the highest score of all programs of the tree.

    score(s) = Q(s) + c * scale * P(s) * sqrt(1 + T) / (1 + n(s)): the rule of AlphaZero (Silver et al.
    2018) in the form that TTT-Discover (arXiv 2601.16175, section 3.2) gives it for reusing solutions. P(s)
    falls linearly with the rank of s by mean reward, n(s) counts the asks that expanded s or something below
    it, T all asks, and scale is the range of mean rewards (1 where there is none). Q(s) is the best mean
    reward at s or anywhere below it; TTT-Discover takes the children alone. An ask counts from when it is
    handed out, so that asks open at a time spread. Ties go to the oldest.
    """

    def __init__(self) -> None:
        self._members: list[Member] = []
        self._means: list[float] = []
        self._places: dict[str, int] = {}
        self._above: list[int | None] = []
        self._best: list[float] = []
        self._visits: list[int] = []
        self._asks = 0

    def plan(self, rng: np.random.Generator, chance: Chance) -> Plan:
        """Return the program with the highest score and count its visit."""
        if not self._members:
            return expand(None)
        means_N = np.array(self._means)
        count = len(means_N)
        ranks_N = np.empty(count)
        ranks_N[np.lexsort((np.arange(count), -means_N))] = np.arange(count)
        prior_N = (count - ranks_N) / (count * (count + 1) / 2)
        finite_N = means_N[means_N > NO_SCORE]
        scale = float(np.ptp(finite_N)) if len(finite_N) else 0.0
        scale = scale or 1.0
        weight = EXPLORATION * scale * math.sqrt(1 + self._asks)
        scores_N = np.array(self._best) + weight * prior_N / (1 + np.array(self._visits))
        chosen = int(scores_N.argmax())
        self._asks += 1
        place: int | None = chosen
        while place is not None:
            self._visits[place] += 1
            place = self._above[place]
        return expand(self._members[chosen])

    def observe(self, reply: Reply) -> None:
        """Hang the new programs below the parent of their prompt and pass their rewards up."""
        above = self._places.get(reply.prompt.parent_id or "")
        for member in reply.members:
            self._places[member.program_id] = len(self._members)
            self._members.append(member)
            self._means.append(member.mean_reward)
            self._above.append(above)
            self._best.append(member.mean_reward)
            self._visits.append(0)
            place = above
            while place is not None:
                self._best[place] = max(self._best[place], member.mean_reward)
                place = self._above[place]
