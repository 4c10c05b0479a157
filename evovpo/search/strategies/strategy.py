"""Base class of the strategies."""

from typing import ClassVar

import numpy as np

from evovpo.search.plan import Chance, Plan, Reply


class Strategy:
    """Chooses what each prompt shows.

    `plan` is called once for every such ask, `observe` for every reply but notes. What a strategy knows
    follows from the order of these calls and from the given generators alone, so that a replayed history
    rebuilds it.
    """

    has_memory: ClassVar[bool] = True
    """True if replies change later prompts; without memory all asks are independent draws."""
    can_join: ClassVar[bool] = False
    """True if programs are also joined without a model."""

    def plan(self, rng: np.random.Generator, chance: Chance) -> Plan:
        """Return what the next ask shows; `rng` is the generator of this ask."""
        raise NotImplementedError

    def observe(self, reply: Reply) -> None:
        """Called with every reply; the starting programs come first, with a prompt of kind `SEED`."""
        raise NotImplementedError
