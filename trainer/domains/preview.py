"""What a training would train on and take, before anything is spent but a few completions."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from evovpo.analysis.doctor.figures import Sample
from evovpo.analysis.doctor.findings import Diagnosis, diagnose
from evovpo.judging.measure import without_repeats
from trainer.domains.domain import Domain, Floats
from trainer.domains.sampling import Ask, Completed, complete, load_policy
from trainer.domains.training import Asked
from trainer.learning.grpo import VPOConfig

_PROMPTS, _SHOWN = 8, 3
_BYTES = {"weights": 4, "gradients": 4, "adam": 8}
"""Of a trained parameter, in float32."""


class Preview(NamedTuple):
    """What `evovpo train --dry-run` shows."""

    domain: Domain
    shown: tuple[tuple[Any, Completed], ...]
    """Prompts, each with one of its completions."""
    diagnosis: Diagnosis | None
    """What the doctor says of the completions; None where no answer could be read."""
    tokens: int
    """Completion tokens of the training, if completions stay as long as these."""
    most_tokens: int
    """If each is as long as it may be."""
    parameters: int
    trained_parameters: int
    memory_bytes: int
    """Roughly: weights, gradients, Adam's moments, the reference, and the activations of one batch."""

    def as_json(self) -> dict[str, Any]:
        """Return it for machines."""
        shown = [
            {"prompt": prompt, "completion": one.text, "rewards": [answer.rewards for answer in one.answers],
             "reasons": [answer.reason for answer in one.answers]}
            for prompt, one in self.shown
        ]  # fmt: skip
        verdict = None if self.diagnosis is None else str(self.diagnosis.verdict)
        findings = [] if self.diagnosis is None else [one.text for one in self.diagnosis.findings]
        sizes = ("tokens", "most_tokens", "parameters", "trained_parameters", "memory_bytes")
        return {
            "domain": self.domain.name,
            "components": list(self.domain.components),
            "prompts": len(self.domain.prompts),
            "samples": shown,
            "verdict": verdict,
            "findings": findings,
            **{name: getattr(self, name) for name in sizes},
        }


def preview(asked: Asked) -> Preview:
    """Return what a training would be, from G completions of each of eight prompts of the start model.

    Nothing is written. Raises as `trainer.domains.training.train`.
    """
    with asked.open(for_test=False) as domain:
        config, folder = asked.config(domain), asked.start(domain)
        policy = load_policy(str(folder))
        rows = domain.prompts[:_PROMPTS]
        found = complete(policy, domain, rows, Ask(asked.rollouts, config.temperature, asked.seed))
        lengths = [one.tokens for completions in found for one in completions]
        sampled = asked.steps * asked.prompts * asked.rollouts
        parameters = sum(weights.numel() for weights in policy.model.parameters())
        trained = _lora_size(policy.model, asked.lora) if asked.lora else parameters
        return Preview(
            domain=domain,
            shown=tuple((row["prompt"], one[0]) for row, one in zip(rows[:_SHOWN], found, strict=False)),
            diagnosis=_diagnosed(domain, found),
            tokens=round(float(np.mean(lengths)) * sampled),
            most_tokens=domain.max_tokens * sampled,
            parameters=parameters,
            trained_parameters=trained,
            memory_bytes=_memory(policy.model.config, config, parameters, trained, bool(asked.lora)),
        )


def _diagnosed(domain: Domain, found: Sequence[Sequence[Completed]]) -> Diagnosis | None:
    """Return the doctor's diagnosis of the prompts with all components; None if nothing could be read."""
    size = len(domain.components)
    pools: list[tuple[Floats, ...]] = []
    different: dict[str, Floats] = {}
    slots: list[str | None] = []
    faulty = 0
    for number, completions in enumerate(found):
        chains = [without_repeats(one.answers) for one in completions]
        valid = [chain for chain in chains if all(answer.rewards is not None for answer in chain)]
        faulty += len(chains) - len(valid)
        rewards = [np.array([answer.rewards for answer in chain], dtype=np.float64) for chain in valid]
        if not rewards or any(chain.shape[1] != size for chain in rewards):
            continue
        pools.append(tuple(rewards))
        for chain, values in zip(valid, rewards, strict=True):
            for answer, vector in zip(chain, values, strict=True):
                key = None if answer.key is None else f"{number}:{answer.key}"
                slots.append(key)
                if key is not None:
                    different[key] = np.maximum(vector, different.get(key, 0.0))
    if not different:
        return None
    return diagnose(
        Sample(
            names=domain.components,
            members=tuple((name,) for name in domain.components),
            pools=tuple(pools),
            different_N_D=np.array(list(different.values())),
            answers=domain.answers,
            slots=len(slots),
            unreadable=slots.count(None),
            repeated=len(slots) - slots.count(None) - len(different),
            faulty=faulty,
        )
    )


def _lora_size(model: Any, rank: int) -> int:
    """Return the parameters of a LoRA adapter on all linear layers but the output."""
    layers = [
        one for name, one in model.named_modules() if type(one).__name__ == "Linear" and "lm_head" not in name
    ]
    return sum(rank * (one.in_features + one.out_features) for one in layers)


def _memory(shape: Any, config: VPOConfig, parameters: int, trained: int, is_lora: bool) -> int:
    """Return about how many bytes a training takes on one device.

    Of the activations one float32 row of logits a token, twice, and of each layer its input with
    checkpointing or some 16 rows of the hidden size without.
    """
    fixed = parameters * _BYTES["weights"] * (2 if config.beta and not is_lora else 1)
    moving = trained * (_BYTES["gradients"] + _BYTES["adam"])
    tokens = config.per_device_train_batch_size * (config.max_completion_length or 0)
    rows = 1 if config.gradient_checkpointing else 16
    width = getattr(shape, "hidden_size", 0) * getattr(shape, "num_hidden_layers", 0) * rows
    return int(fixed + moving + tokens * 4 * (2 * shape.vocab_size + width))
