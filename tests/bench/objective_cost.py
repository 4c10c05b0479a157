"""What set objectives cost in a training step, and how noisy they are for K weightings.

    python tests/bench/objective_cost.py --json

Real steps of the strings domain: prompts are sampled from the built-in model, answers judged, and the model
is updated. Timed in CPU seconds of this process: sampling, the objective alone (weightings, set scores,
advantages), and the update; judging runs in other processes and is left out of the total, which makes the
share of the objective larger than it is. Noise is the root mean square difference between the advantages
of a group under K weightings and under very many, over repetitions, for groups with spread.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch

from evovpo.proposers.sampler import Request, Weights, sample
from trainer.domains.on_policy import load_start_model
from trainer.domains.tokens import open_token_domain
from trainer.learning.offline import Updater, UpdateSettings, spread_advantages
from trainer.learning.packing import TrainingRow
from trainer.objectives import OBJECTIVES, Floats, advantages, batch_advantages

EXACT_DRAWS = 1 << 16


def measure(prompts: int, rollouts: int, steps: int, repetitions: int) -> dict[str, Any]:
    """Return CPU milliseconds a step by part, the objective's share, and the noise by K and sampler."""
    torch.set_num_threads(1)
    seconds = {"sampling": 0.0, "update": 0.0}
    groups: list[Floats] = []
    with open_token_domain("strings") as domain:
        model = load_start_model(domain)
        updater = Updater(model, UpdateSettings(kl=0.0))
        tasks = domain.tasks("train", prompts * steps)
        for step in range(steps):
            part = tasks[step * prompts : (step + 1) * prompts]
            began = time.process_time()
            requests = [
                Request(domain.prompt_ids(task, 3), step, tuple(range(rollouts)), 1.0, domain.max_tokens(3))
                for task in part
            ]
            sampled = sample(Weights(model), requests, (2,))
            seconds["sampling"] += time.process_time() - began
            rows = []
            for task, request, completions in zip(part, requests, sampled, strict=True):
                judged = [domain.judge(task, completion.token_ids, 3) for completion in completions]
                rewards = np.array([[answer.rewards for answer in chain] for chain in judged])
                groups.append(rewards)
                values = advantages("vpo", rewards, rng=np.random.default_rng(step))
                spans = [[answer.span for answer in chain] for chain in judged]
                spread = spread_advantages(values, spans, [len(c.token_ids) for c in completions])
                rows.append(
                    [
                        TrainingRow(request.prompt_ids, completion.token_ids, completion.logprobs, per_token)
                        for completion, per_token in zip(completions, spread, strict=True)
                    ]
                )
            began = time.process_time()
            updater.update(rows)
            seconds["update"] += time.process_time() - began
    rest = sum(seconds.values()) / steps
    objectives = {
        name: seconds_of(name, groups, repetitions) / steps
        for name, objective in OBJECTIVES.items()
        if objective.answers == "many"
    }
    return {
        "components": sorted({group.shape[2] for group in groups}),
        "ms_per_step": {name: round(1e3 * value / steps, 2) for name, value in seconds.items()},
        "objective_ms_per_step": {name: round(1e3 * value, 3) for name, value in objectives.items()},
        "objective_share": {
            name: float(f"{value / (rest + value):.3g}") for name, value in objectives.items()
        },
        "noise": noise([group for group in groups if is_spread(group)], repetitions),
    }


def seconds_of(name: str, groups: list[Floats], repetitions: int) -> float:
    """Return the CPU seconds of an objective over all groups, the mean of repetitions."""
    rng = np.random.default_rng(0)
    began = time.process_time()
    for _ in range(repetitions):
        batch_advantages(name, groups, rng=rng)
    return (time.process_time() - began) / repetitions


def is_spread(group: Floats) -> bool:
    """True if the chains of a group differ in their set score."""
    return bool(advantages("vpo", group, rng=np.random.default_rng(0)).any())


def noise(groups: list[Floats], repetitions: int) -> dict[str, dict[str, float]]:
    """Return the root mean square error of the advantages by sampler and K."""
    exact = [advantages("vpo", group, rng=np.random.default_rng(1), draws=EXACT_DRAWS) for group in groups]
    found: dict[str, dict[str, float]] = {}
    for sampler in ("dirichlet", "sobol"):
        found[sampler] = {}
        for draws in (8, 32, 128, 512):
            errors = [
                advantages("vpo", group, rng=np.random.default_rng([2, seed]), draws=draws, sampler=sampler)
                - truth
                for seed in range(repetitions)
                for group, truth in zip(groups, exact, strict=True)
            ]
            found[sampler][str(draws)] = round(float(np.sqrt(np.mean(np.square(np.concatenate(errors))))), 4)
    return found


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=8, help="prompts in a step")
    parser.add_argument("--rollouts", type=int, default=8, help="chains of three a prompt")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    report = measure(options.prompts, options.rollouts, options.steps, options.repetitions)
    print(
        json.dumps(report)
        if options.json
        else "\n".join(f"{name}: {value}" for name, value in report.items())
    )


if __name__ == "__main__":
    main()
