"""Settings, results and figures of searches of a domain's tasks in this process."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from evovpo.judging.measure import JudgedAnswer, measure

AT_ONCE = 16
"""Tasks whose prompts are sampled in one batch."""


class TaskSearch(NamedTuple):
    """Settings of the search of a task."""

    evaluations: int
    rollouts: int
    """Completions per prompt, each with one answer."""
    temperature: float = 1.0
    joins: bool = False
    """Join complementary programs without the model; only strings have joins."""


class Searched(NamedTuple):
    """The result of the search of one task."""

    answers: list[JudgedAnswer]
    """All proposed answers, in order."""
    tokens: int
    """Completion tokens of the search."""
    solved_after: int | None
    """Evaluations until the task was solved; None if it was not."""


def search_row(found: Searched, ks: Sequence[int]) -> dict[str, Any]:
    """Return the figures of the first k answers for each k, and of all answers."""
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
    """Return 1 for each k whose k evaluations solved the task, else 0."""
    return {str(k): float(found.solved_after is not None and found.solved_after <= k) for k in ks}


def task_seed(seed: int, number: int) -> int:
    """Return the seed of the search of one task."""
    return int(np.random.default_rng([seed, number, 3]).integers(2**31))
