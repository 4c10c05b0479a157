"""Checks on every batch that TRL works as `trainer/learning/grpo.py` expects."""

import importlib.metadata
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import torch

from evovpo.errors import ConfigError, TrainingError

HOOK = "_generate_and_score_completions"
"""The method of `GRPOTrainer` behind which the advantages are replaced."""


def check_output(
    out: Any, prompts: Sequence[Any], completion_ids: Sequence[Sequence[int]], rows: int
) -> None:
    """Raise `TrainingError` unless TRL's batch holds the rows that were judged, in their order."""
    for key in ("advantages", "completion_ids", "completion_mask", "num_items_in_batch"):
        if not isinstance(out, dict) or not isinstance(out.get(key), torch.Tensor):
            raise changed(f"a batch has no tensor {key!r}")
    for key in ("advantages", "completion_ids", "completion_mask"):
        if len(out[key]) != rows or len(prompts) != rows:
            raise changed(f"{len(out[key])} rows of {key!r} for {rows} prompts")
    for row, ids in zip(out["completion_ids"].tolist(), completion_ids, strict=True):
        if row[: len(ids)] != list(ids):
            raise changed("a batch holds other completions than were judged, or in another order")


def behaviour(out: Mapping[str, Any]) -> torch.Tensor:
    """Return the log-probabilities of `rollout_func` (B, T). Raises `TrainingError` if they got lost."""
    logprobs = out.get("sampling_per_token_logps")
    if logprobs is None or logprobs.shape != out["completion_ids"].shape:
        raise changed("the log-probabilities of rollout_func do not reach the batch")
    assert isinstance(logprobs, torch.Tensor)
    return logprobs


def checked_rollouts(
    rollout_func: Callable[..., Mapping[str, Any]], temperature: float
) -> Callable[..., dict[str, Any]]:
    """Return `rollout_func` with its output checked.

    TRL neither uses its log-probabilities nor notices another temperature, and would train on a wrong ratio
    without a word.
    """

    def rollouts(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        output = dict(rollout_func(prompts, trainer))
        missing = [key for key in ("logprobs", "temperature", "completion_ids") if output.get(key) is None]
        if missing:
            raise ConfigError(
                f"rollout_func returned no {' and no '.join(missing)}; return the behaviour policy's "
                "log-probability of every completion token and the temperature it sampled at"
            )
        sampled_at = output.pop("temperature")
        for value in [sampled_at] if isinstance(sampled_at, Real) else sampled_at:
            if not math.isclose(value, temperature, rel_tol=1e-6):
                raise ConfigError(
                    f"rollout_func sampled at temperature {value}, and training computes probabilities at "
                    f"{temperature}; set temperature={value} in VPOConfig or sample at {temperature}"
                )
        lengths = [len(ids) for ids in output["completion_ids"]]
        if [len(row) for row in output["logprobs"]] != lengths or not all(
            isinstance(value, Real) and math.isfinite(value) and value <= 1e-6
            for row in output["logprobs"]
            for value in row
        ):
            raise ConfigError(
                "rollout_func: expected one finite natural log-probability, at most 0, for every completion "
                "token; found another number of them, or other values"
            )
        return output

    return rollouts


def changed(what: str) -> TrainingError:
    """Return the error of a TRL that does not do what is relied on."""
    return TrainingError(
        f"TRL {importlib.metadata.version('trl')} does not work as trainer/learning/grpo.py expects: {what}; "
        "install a version that pyproject.toml allows"
    )
