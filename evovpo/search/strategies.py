"""Ways to choose the parent of each ask beside islands: baselines without memory, a chain, a beam, a tree.

Each is driven by the search: `choose` once for every ask of a model, `observe` for every reply. What a
strategy knows follows from the order of these calls alone, without chance and without a clock, so that a
replayed history rebuilds it. Programs that fail are never chosen, other than starting programs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from evovpo.config import SearchConfig
from evovpo.search.population import Member, best_member, by_merit
from evovpo.types import ParentRole, Prompt, PromptKind


class Strategy(Protocol):
    """Chooses the parent of every ask."""

    @property
    def has_memory(self) -> bool:
        """True if replies change later prompts; without memory all asks are independent draws."""
        ...

    @property
    def is_ready(self) -> bool:
        """False while the next choice should wait for replies to tickets that are open."""
        ...

    def choose(self) -> Member | None:
        """Return the parent of the next ask, or none for an ask from the problem alone."""
        ...

    def observe(self, prompt: Prompt, members: Sequence[Member], is_complete: bool) -> None:
        """Take note of the new programs of a reply; `is_complete` if the prompt lacks no more replies.

        Starting programs come first, with the prompt of kind `SEED`, also those that fail.
        """
        ...


class Independent:
    """Every ask is the same: i.i.d. sampling, and best-of-N from the best starting program.

    With `shows_start` the best starting program is the parent, otherwise there is none.
    """

    has_memory = False
    is_ready = True

    def __init__(self, shows_start: bool) -> None:
        self._shows_start = shows_start
        self._start: Member | None = None

    def choose(self) -> Member | None:
        """Return the best starting program if it is shown."""
        return self._start if self._shows_start else None

    def observe(self, prompt: Prompt, members: Sequence[Member], is_complete: bool) -> None:
        """Keep the best starting program."""
        if prompt.kind is PromptKind.SEED and members:
            self._start = best_member(members)


class Sequential:
    """One chain of refinements: the parent is the best program of the last group that had one.

    The last group counts even if it is worse than those before it, as in sequential revision; a group whose
    programs all fail, or are known already, leaves the chain where it is. One ask is open at a time.
    """

    has_memory = True

    def __init__(self) -> None:
        self._current: Member | None = None
        self._group: list[Member] = []
        self._open = 0

    @property
    def is_ready(self) -> bool:
        """True if the last ask has all its replies."""
        return self._open == 0

    def choose(self) -> Member | None:
        """Return the end of the chain."""
        self._open += 1
        return self._current

    def observe(self, prompt: Prompt, members: Sequence[Member], is_complete: bool) -> None:
        """Collect the group; at its end the chain moves on."""
        self._group += members
        if not is_complete:
            return
        self._open -= prompt.kind is not PromptKind.SEED
        if self._group:
            self._current = best_member(self._group)
        self._group = []


class Beam:
    """Beam search: the `width` best programs of the last generation are expanded in turn.

    A generation is `width` asks; the next one begins when all their replies are told. Its beam is the best
    new programs of the last generation, whether or not they beat the beam that they came from; where
    there are fewer than `width`, the best of the old beam stay.
    """

    has_memory = True

    def __init__(self, width: int) -> None:
        self._width = width
        self._beam: list[Member] = []
        self._offspring: list[Member] = []
        self._asked = 0
        self._open = 0

    @property
    def is_ready(self) -> bool:
        """True unless all asks of a generation are handed out and some lack replies."""
        return self._asked < self._width or self._open == 0

    def choose(self) -> Member | None:
        """Return the next program of the beam."""
        if self._asked >= self._width and self._open == 0:
            new = by_merit(self._offspring)[: self._width]
            self._beam = new + by_merit(self._beam)[: self._width - len(new)]
            self._offspring, self._asked = [], 0
        parent = self._beam[self._asked % len(self._beam)] if self._beam else None
        self._asked += 1
        self._open += 1
        return parent

    def observe(self, prompt: Prompt, members: Sequence[Member], is_complete: bool) -> None:
        """Collect the generation; starting programs are the first beam."""
        if prompt.kind is PromptKind.SEED:
            self._beam = by_merit(members)[: self._width]
            return
        self._offspring += members
        self._open -= is_complete


class Puct:
    """A tree over programs, from which PUCT chooses the one to expand next.

    score(s) = Q(s) + c * scale * P(s) * sqrt(1 + T) / (1 + n(s)), over all programs of the tree: the rule
    of AlphaZero (Silver et al. 2018) in the form that TTT-Discover (arXiv 2601.16175, section 3.2) gives
    it for reusing solutions. P(s) falls linearly with the rank of s by mean reward, n(s) counts the asks
    that expanded s or something below it, T all asks, and scale is the range of mean rewards (1 where there
    is none). Q(s) is the best mean reward at s or anywhere below it; TTT-Discover takes the children
    alone. An ask counts from when it is handed out, so that asks open at a time spread. Ties go to the
    oldest.
    """

    has_memory = True
    is_ready = True

    def __init__(self, exploration: float) -> None:
        self._exploration = exploration
        self._members: list[Member] = []
        self._means: list[float] = []
        self._places: dict[str, int] = {}
        self._above: list[int | None] = []
        self._best: list[float] = []
        self._visits: list[int] = []
        self._asks = 0

    def choose(self) -> Member | None:
        """Return the program with the highest score and count its visit."""
        if not self._members:
            return None
        means_N = np.array(self._means)  # noqa: N806
        count = len(means_N)
        ranks_N = np.empty(count)  # noqa: N806
        ranks_N[np.lexsort((np.arange(count), -means_N))] = np.arange(count)
        prior_N = (count - ranks_N) / (count * (count + 1) / 2)  # noqa: N806
        scale = float(means_N.max() - means_N.min()) or 1.0
        weight = self._exploration * scale * math.sqrt(1 + self._asks)
        scores_N = np.array(self._best) + weight * prior_N / (1 + np.array(self._visits))  # noqa: N806
        chosen = int(scores_N.argmax())
        self._asks += 1
        place: int | None = chosen
        while place is not None:
            self._visits[place] += 1
            place = self._above[place]
        return self._members[chosen]

    def observe(self, prompt: Prompt, members: Sequence[Member], is_complete: bool) -> None:
        """Hang the new programs below the parent of their prompt and pass their rewards up."""
        parents = [parent.program_id for parent in prompt.parents if parent.role is ParentRole.PARENT]
        above = self._places.get(parents[0]) if parents else None
        for member in members:
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


def make_strategy(config: SearchConfig, needs_program: bool) -> Strategy | None:
    """Return the strategy that the configuration names, or none for islands, which `Search` itself holds.

    With `needs_program` a prompt without any program says too little, and i.i.d. sampling shows the best
    starting program in every ask.
    """
    if config.strategy == "islands":
        return None
    if config.strategy == "sequential":
        return Sequential()
    if config.strategy == "beam":
        return Beam(config.beam)
    if config.strategy == "puct":
        return Puct(config.exploration)
    return Independent(shows_start=needs_program or config.strategy == "best-of-n")
