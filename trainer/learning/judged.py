"""What reward functions say of completions, as reward vectors and groups, without TRL's classes."""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from evovpo.errors import ConfigError
from trainer.learning.step_data import group_figures, mean_figures
from trainer.learning.trl_checks import HOOK, changed
from trainer.objectives import Floats, set_scores

Span: TypeAlias = tuple[int, int]


class Answers(NamedTuple):
    """What a reward function says about one completion when it knows where each answer stands."""

    rewards_M_D: npt.ArrayLike
    """Reward vector of each answer in [0, 1], in the order written."""
    spans: Sequence[Span | None]
    """Half-open range of `completion_ids` that wrote each answer, ascending; none if it is unknown."""


RewardVectorFunc: TypeAlias = Callable[..., "Sequence[npt.ArrayLike | Answers | None]"]
"""Called as TRL calls a reward function: with `prompts`, `completions`, `completion_ids`, every other column
of the dataset, `trainer_state`, `log_metric` and `log_extra`, all by name. Returns for each completion

- an array `[m, D]` with m at most `answers_per_chain`, values in [0, 1]. A completion without answers is an
  empty array; a repeated answer is a row of zeros. D may differ between prompts;
- or `Answers`, which objectives with credit per answer need;
- or None for a fault outside the candidate, such as a sandbox that broke: the rollout leaves its group.
"""


class Chain(NamedTuple):
    rewards_M_D: Floats
    """`[m, D]`, or `[0, 0]` for no answers."""
    spans: tuple[Span | None, ...] | None


class JudgedBatch(NamedTuple):
    """The rows that the reward function saw, in order."""

    prompts: list[Any]
    completion_ids: list[list[int]]
    chains: list[Chain | None]


@dataclass(eq=False)
class Judge:
    """TRL's reward function: returns set scores for its figures and keeps the vectors for the hook."""

    functions: Sequence[RewardVectorFunc]
    answers: int
    needs_spans: bool
    weights: Callable[[int], Floats]
    batches: list[JudgedBatch] | None = None
    """What was judged in the hook; None outside it."""

    __name__ = "set_score"

    def __post_init__(self) -> None:
        if not self.functions:
            raise ConfigError("reward_vector_funcs: expected at least one function, found none; give one")
        for function in self.functions:
            if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
                getattr(function, "__call__", None)  # noqa: B004
            ):
                raise ConfigError(f"{_name(function)} is asynchronous; wrap it in a plain function")

    def __call__(
        self, prompts: list[Any], completion_ids: list[list[int]], **columns: Any
    ) -> list[float | None]:
        if self.batches != []:
            raise changed(f"rewards are not computed once in each {HOOK}")
        chains: list[Chain | None] | None = None
        for function in self.functions:
            name = _name(function)
            found = list(function(prompts=prompts, completion_ids=completion_ids, **columns))
            if len(found) != len(prompts):
                raise ConfigError(
                    f"{name} judged {len(found)} completions; expected {len(prompts)}, one entry each"
                )
            parsed = [
                None if entry is None else parsed_chain(entry, name, self.answers, len(ids))
                for entry, ids in zip(found, completion_ids, strict=True)
            ]
            chains = parsed if chains is None else list(map(_joined, chains, parsed))
        assert chains is not None
        for chain in chains:
            if self.needs_spans and chain is not None and chain.spans is None and len(chain.rewards_M_D):
                raise ConfigError(
                    "the objective credits each answer, and no reward function said which tokens wrote "
                    "it; return Answers(rewards, spans), or choose an objective with one credit a chain"
                )
        self.batches.append(JudgedBatch(list(prompts), list(completion_ids), chains))
        return [None if chain is None else self._score(chain) for chain in chains]

    def _score(self, chain: Chain) -> float:
        answers, components = chain.rewards_M_D.shape
        return float(set_scores([chain.rewards_M_D], self.weights(components))[0]) if answers else 0.0


def parsed_chain(entry: Any, name: str, most: int, tokens: int = sys.maxsize) -> Chain:
    """Return one completion's judgement by the function `name`, checked. Raises `ConfigError` if it is none.

    `most` is the most answers, `tokens` the length of the completion, where it is known.
    """
    rewards, spans = (entry.rewards_M_D, entry.spans) if isinstance(entry, Answers) else (entry, None)
    if isinstance(rewards, torch.Tensor):
        rewards = rewards.detach().float().cpu().numpy()
    try:
        array = np.asarray(rewards, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{name}: expected an array [m, D] of numbers for a completion, found {rewards!r}"
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
    return Chain(array, None if spans is None else _checked_spans(spans, name, len(array), tokens))


def _checked_spans(
    spans: Sequence[Span | None], name: str, answers: int, tokens: int
) -> tuple[Span | None, ...]:
    known = [span for span in spans if span is not None]
    ends = [0, *(position for span in known for position in span), tokens]
    if len(spans) != answers or any(len(span) != 2 for span in known) or ends != sorted(ends):
        raise ConfigError(
            f"{name}: expected {answers} ascending spans (start, end) within {tokens} completion tokens, one "
            f"an answer, found {list(spans)}"
        )
    return tuple(None if span is None else (int(span[0]), int(span[1])) for span in spans)


def _joined(one: Chain | None, other: Chain | None) -> Chain | None:
    """Return the judgements of two functions side by side; none if either is."""
    if one is None or other is None:
        return None
    if len(one.rewards_M_D) != len(other.rewards_M_D):
        raise ConfigError(
            f"reward functions found {len(one.rewards_M_D)} and {len(other.rewards_M_D)} answers in one "
            "completion; they must split it alike"
        )
    if one.spans is not None and other.spans is not None and one.spans != other.spans:
        raise ConfigError(
            f"reward functions found answers at {one.spans} and {other.spans} in one completion; they must "
            "split it alike"
        )
    rewards = np.concatenate([one.rewards_M_D, other.rewards_M_D], axis=1)
    return Chain(rewards, other.spans if one.spans is None else one.spans)


class JudgedGroup(NamedTuple):
    rewards_G_M_D: Floats
    """Missing answers and rollouts that are not valid as zeros."""
    valid_G: npt.NDArray[np.bool_]


def groups_of(
    chains: Sequence[Chain | None], prompts: Sequence[Any], size: int, answers: int
) -> list[JudgedGroup]:
    """Return the groups of a gathered batch: every `size` rows in a row."""
    if len(chains) % size or len(chains) != len(prompts):
        raise changed(f"{len(chains)} rows are not groups of {size}")
    groups = []
    for start in range(0, len(chains), size):
        members = chains[start : start + size]
        if any(prompt != prompts[start] for prompt in prompts[start : start + size]):
            raise changed("the rollouts of one prompt are not consecutive rows")
        sizes = {chain.rewards_M_D.shape[1] for chain in members if chain is not None} - {0}
        if len(sizes) > 1:
            raise ConfigError(
                f"rewards of one prompt have {sorted(sizes)} components; return the same number for all"
            )
        rewards = np.zeros((size, answers, next(iter(sizes), 1)))
        for row, chain in zip(rewards, members, strict=True):
            if chain is not None and chain.rewards_M_D.size:
                row[: len(chain.rewards_M_D)] = chain.rewards_M_D
        groups.append(JudgedGroup(rewards, np.array([chain is not None for chain in members])))
    return groups


def figures_of(
    groups: Sequence[JudgedGroup], found: Sequence[Floats], weights: Callable[[int], Floats]
) -> dict[str, float]:
    """Return the figures of one batch: means over its groups with a valid rollout; faults as a count."""
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


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
