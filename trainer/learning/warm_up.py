"""Whether what was written, and what a server offers, computes what was trained, on a fixed text."""

import contextlib
import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evovpo.errors import PolicyError, ServerError
from evovpo.proposers.local import load_model
from evovpo.proposers.policies import WarmUp, base_version, is_adapter, read_warm_up
from evovpo.proposers.server import TOLERANCE, VLLMServer, load_and_compare
from evovpo.types import PolicyVersion

_TEXT_TOKENS, _PLACES = 160, 8
"""Length of the fixed text, and how many of its places are compared. It fills a block of vLLM's prefix cache
(128 tokens on CPUs) and takes at most half of the model's context."""


def make_warm_up(model: Any) -> WarmUp:
    """Return what the model says of a fixed text: its likeliest next tokens and their log-probabilities.

    The text is pseudo-random: behind text of its own kind a model is so sure that changed weights hardly
    show. Likeliest tokens, because servers list few.
    """
    vocabulary = len(model.get_input_embeddings().weight)
    length = min(_TEXT_TOKENS, getattr(model.config, "max_position_embeddings", 2 * _TEXT_TOKENS) // 2)
    text = tuple(np.random.default_rng(0).integers(vocabulary, size=length).tolist())
    values, tokens = _next_logprobs(model, text, _PLACES).max(-1)
    return WarmUp(text, tuple(tokens.tolist()), tuple(values.tolist()))


def logprobs(model: Any, text_ids: Sequence[int], next_ids: Sequence[int]) -> tuple[float, ...]:
    """Return the log-probabilities (N) of `next_ids` behind the last N prefixes of a text."""
    found = _next_logprobs(model, text_ids, len(next_ids))
    return tuple(found.gather(1, torch.tensor(next_ids)[:, None])[:, 0].tolist())


def _next_logprobs(model: Any, ids: Sequence[int], places: int) -> torch.Tensor:
    """Return the log-probabilities behind the last prefixes of a text (places, V), in float32, no dropout."""
    if any((p.dtype, p.device.type) != (torch.float32, "cpu") for p in model.parameters()):
        model = copy.deepcopy(model).float().cpu()  # as what was written is loaded: the same arithmetic
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            logits = model(input_ids=torch.tensor([list(ids)])).logits[0, -places:]
    finally:
        model.train(was_training)
    return torch.log_softmax(logits, -1)


def warm_up_of(version: PolicyVersion) -> WarmUp:
    """Return what a version's folder must compute: as published, or as it computes now (a start model)."""
    return read_warm_up(Path(version.path)) or make_warm_up(load_model(version).model)


def warm(
    version: PolicyVersion, served: PolicyVersion, warm_up: WarmUp, targets: Sequence[VLLMServer]
) -> str:
    """Compare the folder loaded afresh and every target with the trainer; return the differences, in words.

    Raises `PolicyError` or `ServerError` at the first that differs or fails; the targets are then back at
    `served`.
    """
    difference = warm_up.difference(logprobs(load_model(version).model, *warm_up[:2]))
    if not difference <= TOLERANCE:
        raise PolicyError(
            f"what lies in {version.path} gives log-probabilities that differ by {difference:.3g} nats from "
            f"the trained model's (allowed: {TOLERANCE:g}); it was not written whole, or stands on another "
            "base model than it was trained on"
        )
    found = [f"{difference:.2g} loaded afresh"]
    for number, target in enumerate(targets):
        try:
            found.append(f"{load_and_compare(target, version, warm_up):.2g} at {target.address}")
        except (PolicyError, ServerError) as error:
            notes = [_put_back(other, version, served) for other in targets[: number + 1]]
            raise ServerError("; ".join([str(error), *filter(None, notes)])) from error
    return f"log-probabilities differ by at most {', '.join(found)}"


def _put_back(target: VLLMServer, version: PolicyVersion, served: PolicyVersion) -> str:
    """Make a target offer what it offered before `version`; return what the user must do, if anything."""
    if is_adapter(version):
        with contextlib.suppress(ServerError):
            target.unload(version)
        return ""
    try:
        base = base_version(served)
        with contextlib.suppress(ServerError):  # one that refused the new weights still has the old ones
            target.load(base)
        load_and_compare(target, base, warm_up_of(base))
        if is_adapter(served):
            load_and_compare(target, served, warm_up_of(served))
    except (PolicyError, ServerError) as error:
        with contextlib.suppress(ServerError):
            target.pause()
        return (
            f"{target.address} could not be put back to version {served.number} either ({error}) and was "
            f"told to pause: restart it on {served.path}"
        )
    return ""
