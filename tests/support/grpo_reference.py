"""One training step written out by hand: row by row, token by token, no padding, nothing of the trainer.

`trainer.learning.vpo_trainer` and `trainer.learning.policy_update` are held against this.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

CLIP, DUAL_CLIP = 0.2, 3.0


class Row(NamedTuple):
    """One rollout of T completion tokens."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    advantages: list[float]
    """(T)"""
    old: list[float]
    """Log-probabilities under the policy that sampled (T)."""


class Step(NamedTuple):
    loss: Tensor
    clipped: int
    """Tokens whose ratio was cut, so that they have no policy gradient."""


def token_logprobs(
    model: Any, prompt_ids: Sequence[int], completion_ids: Sequence[int], temperature: float = 1.0
) -> Tensor:
    """Return the log-probability (T) of each completion token, from one plain forward pass."""
    logits = model(input_ids=torch.tensor([[*prompt_ids, *completion_ids]])).logits[0] / temperature
    distribution = torch.log_softmax(logits, -1)
    return torch.stack(
        [distribution[len(prompt_ids) + t - 1, token] for t, token in enumerate(completion_ids)]
    )


def step(
    model: Any, start: Any, rows: Sequence[Row], tokens: float, *, kl: float, temperature: float = 1.0
) -> Step:
    """Return PPO's clipped loss with dual clip plus `kl` times the k3 estimate, summed over `tokens`."""
    total, clipped = torch.zeros(()), 0
    for row in rows:
        new = token_logprobs(model, row.prompt_ids, row.completion_ids, temperature)
        with torch.no_grad():
            reference = token_logprobs(start, row.prompt_ids, row.completion_ids, temperature)
        for t, advantage in enumerate(row.advantages):
            ratio = torch.exp(new[t] - row.old[t])
            low, high = (0.0, 1 + CLIP) if advantage >= 0 else (1 - CLIP, DUAL_CLIP)
            clipped += not low <= ratio.item() <= high
            gain = ratio.clamp(low, high) * advantage
            difference = reference[t] - new[t]
            total = total - gain + kl * (torch.exp(difference) - difference - 1)
    return Step(total / tokens, clipped)


def z_scores(scores: Sequence[float]) -> list[float]:
    """Return the deviations from the mean over the population's standard deviation plus 1e-6."""
    mean = sum(scores) / len(scores)
    spread = math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
    return [(score - mean) / (spread + 1e-6) if spread >= 1e-6 else 0.0 for score in scores]
