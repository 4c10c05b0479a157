"""Notes: what a model writes down about the search from time to time, for every later prompt."""

import numpy as np

from evovpo.search.population import Population
from evovpo.search.selection import inspirations
from evovpo.search.standing import Standing
from evovpo.search.strategies.strategy import Plan
from evovpo.types import Parent, ParentRole, PromptKind

_CHARACTERS = 4000
"""Of notes that a model wrote, what later prompts show."""
_PROGRAMS = 3
"""Programs beside the best one that notes are made from."""


class Notes:
    """The last notes, and when the next ones are due."""

    def __init__(self, interval: int) -> None:
        self.text = ""
        """What a model wrote down last; empty before."""
        self.asks = 0
        """Asks of a model since notes were asked for last."""
        self._interval = interval

    def write(self, text: str) -> None:
        """Keep new notes; where nothing was written, the old ones stay."""
        self.text = text.strip()[:_CHARACTERS] or self.text

    def plan(self, standing: Standing, population: Population, rng: np.random.Generator) -> Plan | None:
        """Return an ask for notes, if they are due and the format can show what they are about.

        It shows the best program and those that add most to it.
        """
        best = standing.best
        if not self._interval or self.asks < self._interval or best is None:
            return None
        # A format that shows no second program has no room for notes either.
        parts = [Parent(best.program.id, role) for role in (ParentRole.PARENT, ParentRole.INSPIRATION)]
        if not all(map(standing.can_show, parts)):
            return None
        self.asks = 0
        others = [member for member in population.elites.values() if member.program_id != best.program.id]
        rewards_N_D = np.array([best.evaluation.rewards, *(member.rewards for member in others)])  # noqa: N806
        picks = inspirations(rewards_N_D, 0, _PROGRAMS, rng)
        shown = [Parent(others[pick - 1].program_id, ParentRole.INSPIRATION) for pick in picks]
        return Plan(PromptKind.NOTES, (parts[0], *shown))
