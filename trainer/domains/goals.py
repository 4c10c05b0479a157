"""Goal-conditioned training, a baseline of the VPO paper (arXiv 2605.22817).

Each prompt shows a weight for each reward component. The reward of an answer is the weighted sum. In
training, the weights are drawn from Dirichlet(1, …, 1). In measurements, the domain's own weights
(`Domain.scalar`) are used.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evovpo.errors import ConfigError
from trainer.domains.domain import Domain, Row

_SAID = "\n\nThis is what counts, and how much:\n"


def with_goals(domain: Domain, seed: int | None) -> Domain:
    """Return the domain with random component weights in each prompt.

    If `seed` is None, the weights are not random but the domain's own (`scalar`). Raises `ConfigError` if the
    domain judges token ids, or if its rows have different numbers of components.
    """
    if domain.judge_ids is not None or any("size" in row for row in domain.prompts):
        raise ConfigError(
            f"--goals: a prompt of {domain.name} cannot show weights of its components; leave it out"
        )
    count = len(domain.components)
    usual = np.array(domain.scalar or (1.0,) * count)
    rng = np.random.default_rng(seed)
    goals = [usual / usual.sum() if seed is None else rng.dirichlet(np.ones(count)) for _ in domain.prompts]
    prompts = []
    for row, goal in zip(domain.prompts, np.round(goals, 2).tolist(), strict=True):
        lines = [f"{name}: {weight:.2f}" for name, weight in zip(domain.components, goal, strict=True)]
        prompts.append({**row, "prompt": _added(row["prompt"], _SAID + "\n".join(lines)), "goal": goal})
    return replace(domain, prompts=prompts)


def by_goal(rewards: Sequence[Any], rows: Sequence[Row]) -> list[Any]:
    """Return an array of weighted rewards, of shape (m, 1), for each completion. Leave None as it is."""
    return [
        None if found is None else np.asarray(found) @ np.array(row["goal"])[:, None]
        for found, row in zip(rewards, rows, strict=True)
    ]


def _added(prompt: Any, text: str) -> Any:
    if isinstance(prompt, str):
        return prompt + text
    return [*prompt[:-1], {**prompt[-1], "content": prompt[-1]["content"] + text}]
