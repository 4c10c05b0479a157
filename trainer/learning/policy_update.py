"""Trains a model with optimiser steps on given rollouts.

The loss is PPO's clipped objective, averaged over the step's completion tokens, plus a k3 estimate of the KL
from a reference model, as in `vpo_trainer.py`. Importance ratios are relative to the sampling policy.
"""

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from evovpo.config_tree import AboveZero, Count
from evovpo.errors import DivergedError
from trainer.config import UpdateConfig
from trainer.learning.packing import PackedBatch, TrainingRow, batches, collate

_DUAL_CLIP = 3.0
"""Upper bound of the importance ratio of tokens with a negative advantage (dual clip)."""


class UpdateSettings(UpdateConfig):
    """Settings of a step. The defaults are VPO's, except for the learning rate and the KL weight."""

    temperature: AboveZero = 1.0
    """Sampling temperature of the rollouts."""
    clip: AboveZero = 0.2
    """The importance ratio is clipped to 1 ± `clip`."""
    warmup_steps: Count = 0
    """Steps over which the learning rate grows; 0 in on-policy training."""
    max_grad_norm: AboveZero = 1.0
    """Maximum norm of the gradient."""


class Updater:
    """A model with its optimiser (AdamW, constant learning rate after a warm-up) and frozen reference model.

    `model`, which is changed in place, is a Hugging Face causal language model or a PEFT model around one.
    `reference` is the model that the KL term compares with; by default, it is `model` without its adapter.
    Raises `ValueError` if there is a KL term, but neither a reference nor an adapter.
    """

    def __init__(self, model: Any, settings: UpdateSettings, reference: Any | None = None) -> None:
        if settings.kl > 0 and reference is None and not hasattr(model, "disable_adapter"):
            raise ValueError("a KL term needs a reference model, or a model with an adapter; give one")
        self.model, self.settings, self.reference = model, settings, reference
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._made = 0
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=settings.learning_rate, betas=(0.9, 0.999), weight_decay=0.0
        )

    def state_dict(self) -> dict[str, Any]:
        trained = {name: p.detach() for name, p in self.model.named_parameters() if p.requires_grad}
        return {"model": trained, "optimizer": self._optimizer.state_dict(), "made": self._made}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"], strict=False)  # the state has only trained weights
        self._made = state["made"]
        self._optimizer.load_state_dict(state["optimizer"])

    def update(self, groups: Sequence[Sequence[TrainingRow]], *, are_texts: bool = False) -> dict[str, float]:
        """Make one optimiser step on these groups and return the statistics of the step.

        If `are_texts` is true, the model imitates the rows, and advantages are ignored. The statistics are
        `loss`, `kl` (nats per token, to the reference; 0 without a KL term), `entropy` (nats per token),
        `clip_share` (share of tokens with a clipped ratio), `ratio_max`, `grad_norm` (before clipping) and
        `tokens` (completion tokens). Raises `DivergedError`, leaving the weights unchanged, if the loss or
        the gradient is not finite. Raises `ValueError` if the rows of a group have different prompts.
        """
        sums = dict.fromkeys(("loss", "kl", "entropy", "clip_share"), 0.0)
        ratio_max = 0.0
        self.model.train()
        self._optimizer.zero_grad(set_to_none=True)
        kept = [group for group in groups if group]
        tokens = sum(len(row.completion_ids) for group in kept for row in group)
        for batch in batches(kept, self.model.device):
            logits = completion_logits(self.model, batch, self.settings.bf16)
            reference = self._reference(batch)
            if are_texts:
                losses = _text_losses(logits, batch, reference, self.settings)
            else:
                if reference is not None:  # to save memory, keep only the values of the chosen tokens
                    reference = _chosen(reference, batch.completion_ids)
                losses = _token_losses(logits, batch, reference, self.settings)
            (losses["loss"].sum() / tokens).backward()
            for name in sums:
                sums[name] += float(losses[name].detach().sum()) / tokens
            ratio_max = max(ratio_max, float(losses["ratio"].detach().max()))
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, self.settings.max_grad_norm))
        if not (math.isfinite(sums["loss"]) and math.isfinite(norm)):
            self._optimizer.zero_grad(set_to_none=True)
            raise DivergedError(
                f"training diverged: loss {sums['loss']}, gradient norm {norm}; the step was not taken; "
                f"lower the learning rate (it is {self.settings.learning_rate:g})"
            )
        self._made += 1
        for parameters in self._optimizer.param_groups:
            share_of_rate = min(1.0, self._made / (self.settings.warmup_steps + 1))
            parameters["lr"] = self.settings.learning_rate * share_of_rate
        self._optimizer.step()
        return sums | {"ratio_max": ratio_max, "grad_norm": norm, "tokens": float(tokens)}

    def _reference(self, batch: PackedBatch) -> Tensor | None:
        if self.settings.kl == 0:
            return None
        adapter = contextlib.nullcontext() if self.reference is not None else self.model.disable_adapter()
        model = self.model if self.reference is None else self.reference
        with torch.no_grad(), adapter:
            logits = completion_logits(model, batch, self.settings.bf16)
        return _log_softmax(logits, self.settings.temperature)


def token_logprobs(model: Any, rows: Sequence[TrainingRow], temperature: float = 1.0) -> list[Tensor]:
    """Return, for each row, the log-probabilities of its T completion tokens, in float32."""
    found: list[Tensor] = []
    with torch.inference_mode():
        for row in rows:
            batch = collate([[row]], model.device)
            logits = completion_logits(model, batch)
            found.append(_chosen(_log_softmax(logits, temperature), batch.completion_ids).cpu())
    return found


def completion_logits(model: Any, batch: PackedBatch, bf16: bool = False) -> Tensor:
    """Return the logits, of shape (N, V), of N completion tokens over a vocabulary of V tokens.

    The model must support a mask over pairs of tokens (attention implementation `eager` or `sdpa`).
    """
    length = batch.ids.shape[1]
    before = torch.ones(length, length, dtype=torch.bool, device=batch.ids.device).tril()
    own = batch.owner[:, None, :] == batch.owner[:, :, None]
    sees = before & (own | (batch.owner[:, None, :] == 0))
    mask = torch.zeros(sees.shape, device=sees.device).masked_fill_(~sees, torch.finfo(torch.float32).min)
    with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=bf16):
        logits = model(
            input_ids=batch.ids,
            attention_mask=mask[:, None],
            position_ids=batch.positions,
            use_cache=False,
            logits_to_keep=length - batch.prompt_length + 1,
        ).logits
    return torch.as_tensor(logits[batch.sequence, batch.source - (batch.prompt_length - 1)])


def _token_losses(
    logits: Tensor, batch: PackedBatch, reference: Tensor | None, settings: UpdateSettings
) -> dict[str, Tensor]:
    distribution = _log_softmax(logits, settings.temperature)
    logprobs = _chosen(distribution, batch.completion_ids)
    ratio = torch.exp(logprobs - batch.logprobs)
    advantages = batch.advantages
    clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
    gain = torch.min(ratio * advantages, clipped * advantages)
    is_cut = (ratio * advantages > clipped * advantages).float()
    gain = torch.where(advantages < 0, torch.max(gain, _DUAL_CLIP * advantages), gain)
    with torch.no_grad():
        entropy = -(distribution.exp() * distribution).sum(-1)
    loss = -gain
    kl = torch.zeros_like(loss)
    if reference is not None:
        difference = reference - logprobs
        kl = torch.exp(difference) - difference - 1
        loss = loss + settings.kl * kl
    return {"loss": loss, "kl": kl, "entropy": entropy, "clip_share": is_cut, "ratio": ratio}


def _text_losses(
    logits: Tensor, batch: PackedBatch, reference: Tensor | None, settings: UpdateSettings
) -> dict[str, Tensor]:
    """Return the values of `_token_losses` for tokens to imitate, with the exact KL(reference || policy)."""
    distribution = _log_softmax(logits, settings.temperature)
    loss = -_chosen(distribution, batch.completion_ids)
    none = torch.zeros_like(loss)
    kl = none if reference is None else (reference.exp() * (reference - distribution)).sum(-1)
    entropy = -(distribution.exp() * distribution).sum(-1)
    return {
        "loss": loss + settings.kl * kl, "kl": kl, "entropy": entropy, "clip_share": none, "ratio": none + 1
    }  # fmt: skip


def _log_softmax(logits: Tensor, temperature: float) -> Tensor:
    return torch.log_softmax(logits.float() / temperature, -1)


def _chosen(distribution: Tensor, ids: Tensor) -> Tensor:
    return distribution.gather(1, ids[:, None])[:, 0]
