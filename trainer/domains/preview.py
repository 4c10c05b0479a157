"""The preview of a training: some prompts, the rewards of a few completions, and the expected cost."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evovpo.analysis.doctor.findings import diagnose
from evovpo.analysis.doctor.sample_figures import Sample, sample_of
from evovpo.judging.measure import without_repeats
from trainer.domains.domain import Domain
from trainer.domains.sampling import JudgedCompletion, complete, load_policy, prompt_ids
from trainer.domains.training import TrainingRequest

_PROMPTS, _SHOWN = 8, 3


def preview(asked: TrainingRequest) -> dict[str, Any]:
    """Return the preview of a training as JSON, from `asked.rollouts` completions of each of eight prompts.

    `memory_bytes` is an estimate for one device. On a CPU, two such estimates were wrong by 9 and 12 %.
    Raises the errors of `trainer.domains.training.train`.
    """
    with asked.open(for_test=False) as domain:
        config, folder = asked.config(domain), asked.start(domain)
        domain = replace(domain, max_tokens=min(domain.max_tokens, config.max_completion_length or 0))
        policy = load_policy(str(folder))
        rows = domain.prompts[:_PROMPTS]
        found = complete(policy, domain, rows, replace(asked.ask(config), completions=asked.rollouts))
        sampled = asked.steps * asked.prompts * asked.rollouts
        length = np.mean([one.tokens for completions in found for one in completions])
        parameters = sum(weights.numel() for weights in policy.model.parameters())
        held = memory_bytes(parameters, lora=bool(asked.lora), has_reference=bool(config.beta))
        shape, batch = policy.model.config, config.per_device_train_batch_size
        template: Any = config.chat_template_kwargs or {}
        asking = max(len(prompt_ids(policy.tokenizer, row["prompt"], template)) for row in rows)
        width = shape.hidden_size * shape.num_hidden_layers * (1 if config.gradient_checkpointing else 16)
        sample = _sample(domain, found)
        diagnosis = diagnose(sample) if len(sample.different_N_D) else None
        return {
            "domain": domain.name,
            "components": list(domain.components),
            "prompts": len(domain.prompts),
            "samples": [
                {
                    "prompt": row["prompt"],
                    "completion": one[0].text,
                    "rewards": [answer.rewards for answer in one[0].answers],
                    "reasons": [answer.reason for answer in one[0].answers],
                }
                for row, one in zip(rows[:_SHOWN], found, strict=False)
            ],
            "verdict": None if diagnosis is None else str(diagnosis.verdict),
            "findings": [] if diagnosis is None else [one.text for one in diagnosis.findings],
            "tokens": round(float(length) * sampled),
            "most_tokens": domain.max_tokens * sampled,
            "parameters": parameters,
            "memory_bytes": held
            + 4 * batch * (2 * shape.vocab_size * domain.max_tokens + width * (asking + domain.max_tokens)),
        }


def memory_bytes(parameters: float, *, lora: bool, has_reference: bool) -> int:
    """Return the bytes of a model's weights, gradients, Adam moments and KL reference, all in float32.

    With LoRA, only the base model's weights are counted. These weights are also the KL reference.
    """
    return round(4 * parameters * (1 if lora else 4 + has_reference))


def _sample(domain: Domain, found: Sequence[Sequence[JudgedCompletion]]) -> Sample:
    prompts = []
    for number, completions in enumerate(found):
        chains = []
        for one in completions:
            rewards = [answer.rewards for answer in without_repeats(one.answers)]
            keys = [None if answer.key is None else f"{number}:{answer.key}" for answer in one.answers]
            if None not in rewards:
                chains.append((np.array(rewards), keys))
        prompts.append([chain for chain in chains if chain[0].shape[1] == len(domain.components)])
    faulty = sum(map(len, found)) - sum(map(len, prompts))
    members = tuple((name,) for name in domain.components)
    return sample_of(domain.components, members, prompts, domain.answers, faulty)
