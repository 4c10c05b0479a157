"""Runs the searches of many tasks of a domain at once, in this process."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from evovpo.judging.measure import JudgedAnswer, measure
from evovpo.proposers.sampler import Completion, SampleRequest
from evovpo.types import Prompt, Rollout, Sampling
from trainer.domains.arm_training import sampler_of

_TASKS_AT_ONCE = 16


class TaskSearch(NamedTuple):
    evaluations: int
    rollouts: int
    """Completions per prompt, each with one answer."""
    temperature: float = 1.0
    joins: bool = False
    """Whether the search joins complementary programs without the model; only strings have joins."""


class Searched(NamedTuple):
    answers: list[JudgedAnswer]
    tokens: int
    solved_after: int | None
    """Evaluations until the task was solved; None if it was not."""


class OpenSearch(Protocol):
    """The search of one task; `run_searches` calls its methods in turn."""

    def ask(self) -> Prompt | None:
        """Return the next prompt of the search, or None once the search has ended."""

    def request(self, prompt: Prompt) -> SampleRequest:
        """Return the request that samples a prompt's completions from the model."""

    def tell(self, prompt: Prompt, completions: Sequence[Completion]) -> None:
        """Judge a prompt's completions and pass the results to the search."""


def run_searches(model: Any, searches: Sequence[OpenSearch]) -> None:
    """Run all searches to their end; completions are sampled with the model's current weights."""
    complete = sampler_of(model)
    while asked := [(one, prompt) for one in searches if (prompt := one.ask()) is not None]:
        for first in range(0, len(asked), _TASKS_AT_ONCE):
            part = asked[first : first + _TASKS_AT_ONCE]
            of_model = [(one, prompt) for one, prompt in part if prompt.has_model]
            found = complete([one.request(prompt) for one, prompt in of_model])
            for (one, prompt), completions in zip(of_model, found, strict=True):
                one.tell(prompt, completions)
            for one, prompt in part:
                if not prompt.has_model:
                    one.tell(prompt, [])


def as_rollout(prompt: Prompt, index: int, completion: Completion, text: str = "") -> Rollout:
    return Rollout(
        f"{prompt.id}-{index}", prompt.id, index, 0, text, completion.token_ids, completion.logprobs, None,
        Sampling(), "stop", 0.0,
    )  # fmt: skip


def search_row(found: Searched, ks: Sequence[int]) -> dict[str, Any]:
    """Return a JSON row with statistics of the first k answers for each k, and of all answers."""
    at_k: dict[str, dict[str, float]] = {}
    for k in ks:
        for figure, values in measure([[answer] for answer in found.answers[:k]]).by_k([k]).items():
            at_k.setdefault(figure, {})[str(k)] = round(float(values[0]), 5)
    whole = measure([[answer] for answer in found.answers])
    return {
        **at_k,
        **{name: getattr(whole, name) for name in ("distinct_share", "diversity", "hypervolume")},
        "faulty_completions": whole.faults,
        "evaluations": len(found.answers),
        "solved_after": found.solved_after,
        "is_right": found.solved_after is not None,
        "tokens": found.tokens,
    }


def solved_by(found: Searched, ks: Sequence[int]) -> Mapping[str, float]:
    return {str(k): float(found.solved_after is not None and found.solved_after <= k) for k in ks}


def task_seed(seed: int, number: int) -> int:
    return int(np.random.default_rng([seed, number, 3]).integers(2**31))
