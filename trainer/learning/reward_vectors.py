"""Calls a reward function during training with TRL, and arranges the reward vectors by group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from evovpo.errors import ConfigError
from trainer.learning.step_data import group_figures, mean_figures
from trainer.learning.trl_hook import HOOK, changed
from trainer.objectives import Floats, set_scores

RewardVectorFunc: TypeAlias = Callable[..., "Sequence[npt.ArrayLike | None]"]
"""A reward function that returns reward vectors. As in TRL, all arguments are passed by name.

The arguments are `prompts`, `completions`, `completion_ids`, every other column of the dataset,
`trainer_state`, `log_metric` and `log_extra`. The result has an entry for each completion: an array `[m, D]`
of rewards in [0, 1] for its m answers, at most `answers_per_chain`. Without answers, the array is empty; a
repeated answer has zeros. The entry is None if something outside the completion failed. D may vary by prompt.
"""


Chain: TypeAlias = Floats
"""Rewards `[m, D]` of a chain, which is the m answers of one completion; `[0, 0]` without answers."""


class JudgedBatch(NamedTuple):
    """The rows passed to the reward function, in order, and their rewards."""

    prompts: list[Any]
    completion_ids: list[list[int]]
    chains: list[Chain | None]


@dataclass(eq=False)
class RewardFunction:
    """A reward function for TRL that returns scores of answer sets, and keeps the reward vectors."""

    function: RewardVectorFunc
    answers: int
    weights: Callable[[int], Floats]
    batches: list[JudgedBatch] | None = None
    """Batches judged while the hook runs; None at other times."""

    __name__ = "set_score"

    def __call__(
        self, prompts: list[Any], completion_ids: list[list[int]], **columns: Any
    ) -> list[float | None]:
        if self.batches != []:
            raise changed(f"rewards are not computed once in each {HOOK}")
        name = str(getattr(self.function, "__name__", type(self.function).__name__))
        found = list(self.function(prompts=prompts, completion_ids=completion_ids, **columns))
        if len(found) != len(prompts):
            raise ConfigError(
                f"{name} judged {len(found)} completions; expected {len(prompts)}, one entry each"
            )
        chains = [None if entry is None else parsed_chain(entry, name, self.answers) for entry in found]
        self.batches.append(JudgedBatch(list(prompts), list(completion_ids), chains))
        return [None if chain is None else self._score(chain) for chain in chains]

    def _score(self, chain: Chain) -> float:
        answers, components = chain.shape
        return float(set_scores([chain], self.weights(components))[0]) if answers else 0.0


def parsed_chain(entry: Any, name: str, most: int) -> Chain:
    """Return the rewards of one completion, of shape (m, D). Raises `ConfigError` if they are invalid."""
    if isinstance(entry, torch.Tensor):
        entry = entry.detach().float().cpu().numpy()
    try:
        array = np.asarray(entry, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{name}: expected an array [m, D] of numbers for a completion, found {entry!r}"
        ) from error
    if array.size == 0 and array.ndim < 3 and not len(array):
        array = array.reshape(0, 0)
    if array.ndim != 2 or (len(array) and not array.shape[1]) or len(array) > most:
        raise ConfigError(
            f"{name}: expected an array [m, D] for a completion, m at most {most} (answers_per_chain), "
            f"found shape {array.shape}"
        )
    if array.size and not (array.min() >= 0 and array.max() <= 1):
        raise ConfigError(
            f"{name}: rewards lie in [0, 1], found {array.min()} to {array.max()}; rescale them: a missing "
            "answer counts as zeros, which must not be a good reward"
        )
    return array


class JudgedGroup(NamedTuple):
    rewards_G_M_D: Floats
    """Reward vectors; zero for missing answers and invalid rollouts."""
    valid_G: npt.NDArray[np.bool_]


def groups_of(
    chains: Sequence[Chain | None], prompts: Sequence[Any], size: int, answers: int
) -> list[JudgedGroup]:
    """Split the rows of all processes into groups of `size` consecutive rows, which share a prompt."""
    if len(chains) % size or len(chains) != len(prompts):
        raise changed(f"{len(chains)} rows are not groups of {size}")
    groups = []
    for start in range(0, len(chains), size):
        members = chains[start : start + size]
        if any(prompt != prompts[start] for prompt in prompts[start : start + size]):
            raise changed("the rollouts of one prompt are not consecutive rows")
        sizes = {chain.shape[1] for chain in members if chain is not None} - {0}
        if len(sizes) > 1:
            raise ConfigError(
                f"rewards of one prompt have {sorted(sizes)} components; return the same number for all"
            )
        rewards = np.zeros((size, answers, next(iter(sizes), 1)))
        for row, chain in zip(rewards, members, strict=True):
            if chain is not None and chain.size:
                row[: len(chain)] = chain
        groups.append(JudgedGroup(rewards, np.array([chain is not None for chain in members])))
    return groups


def figures_of(
    groups: Sequence[JudgedGroup], found: Sequence[Floats], weights: Callable[[int], Floats]
) -> dict[str, float]:
    """Return a batch's statistics: number of invalid rollouts, and means over groups with valid rollouts."""
    judged = [(group, values) for group, values in zip(groups, found, strict=True) if group.valid_G.any()]
    figures = {"faults": float(sum((~group.valid_G).sum() for group in groups))}
    if not judged:
        return figures
    means = mean_figures(
        [group_figures([*group.rewards_G_M_D[group.valid_G]], (), weights(group.rewards_G_M_D.shape[2]))
         for group, _ in judged]
    )._asdict()  # fmt: skip
    del means["distinct"]
    return figures | means | {"zero_spread_share": float(np.mean([not values.any() for _, values in judged]))}
