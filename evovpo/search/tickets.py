"""Tickets: the prompts of a run, with a record of the replies passed to `tell`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evovpo.errors import SearchError
from evovpo.search.joins import Join
from evovpo.types import Problem, Prompt, PromptKind, Tell, content_id


@dataclass(slots=True)
class Ticket:
    """A prompt, and the indices of those replies to it that were passed to `tell`."""

    prompt: Prompt
    joins: Sequence[Join]
    told: tuple[int, ...] = ()

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(index for index in range(self.prompt.rollouts) if index not in self.told)

    def accept(self, tell: Tell, problem: Problem) -> bool:
        """Record a reply and return whether it is new.

        Raises `SearchError` if the reply does not fit the ticket, or if a reward vector has the wrong length.
        """
        prompt = self.prompt
        index = 0 if tell.rollout is None else tell.rollout.index
        if index in self.told:
            return False
        if not 0 <= index < prompt.rollouts:
            raise SearchError(
                f"reply {index} was told to prompt {prompt.id}, which asked for {prompt.rollouts}"
            )
        is_model_reply = tell.rollout is not None
        if is_model_reply != prompt.has_model:
            raise SearchError(
                f"prompt {prompt.id} is a {prompt.kind} ticket; its replies come "
                + ("without a rollout" if is_model_reply else "each with the rollout that a model wrote")
            )
        expected = prompt.answers if is_model_reply else len(prompt.proposals)
        if len(tell.judged) != expected:
            raise SearchError(
                f"reply {index} to prompt {prompt.id} has {len(tell.judged)} candidates, expected "
                f"{expected}: one for each slot, also for one without a program"
            )
        for judged in tell.judged:
            rewards = None if judged.evaluation is None else judged.evaluation.rewards
            if rewards is not None and len(rewards) != len(problem.objectives):
                raise SearchError(
                    f"a reward vector of {len(rewards)} components was told; "
                    f"problem '{problem.id}' has {len(problem.objectives)} objectives"
                )
        self.told += (index,)
        if not self.missing:  # other fields are still needed to count and to notice repeated replies
            self.prompt = replace(prompt, parents=(), messages=(), proposals=())
            self.joins = ()
        return True


class Tickets:
    """The tickets of a run, in the order of their prompts."""

    def __init__(self, run_id: str) -> None:
        self.reserved = 0
        """Number of candidates that the prompts so far take from the budget."""
        self._run_id = run_id
        self._tickets: dict[str, Ticket] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    def issue(
        self, kind: PromptKind, rng: np.random.Generator, tells: int, joins: Sequence[Join] = (), **shown: Any
    ) -> Prompt:
        """Add and return a new prompt with the fields `shown`. `tells` is the number of past replies."""
        sequence, seed = len(self), int(rng.integers(2**31))
        key = content_id(self._run_id, str(sequence))
        prompt = Prompt(key, self._run_id, sequence, tells, kind, seed=seed, **shown)
        self._tickets[prompt.id] = Ticket(prompt, joins)
        self.reserved += prompt.slots
        return prompt

    def take_over(self, prompt: Prompt) -> None:
        self._tickets[prompt.id] = Ticket(prompt, ())
        self.reserved += prompt.slots

    def __getitem__(self, prompt_id: str) -> Ticket:
        ticket = self._tickets.get(prompt_id)
        if ticket is None:
            raise SearchError(
                f"no ticket {prompt_id} was handed out by this search; "
                "tell replies to prompts that `ask` returned"
            )
        return ticket

    @property
    def open(self) -> list[tuple[Prompt, tuple[int, ...]]]:
        """The prompts with missing replies, oldest first, each with the indices of the missing replies."""
        return [(ticket.prompt, ticket.missing) for ticket in self._tickets.values() if ticket.missing]
