"""One step of `VPOTrainer` on fixed completions, and one training on a domain, as each process does them.

    torchrun --nproc_per_node 2 tests/support/two_processes.py MODEL DATA DOMAIN OUT

Process 0 writes the weights after the step to OUT/weights.pt.
"""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset

from trainer import VPOConfig, VPOTrainer
from trainer.domains import training
from trainer.domains.training import TrainingRequest, train

TEXTS = {"a": ["b0c", "cc", "d1e2", "e"], "bc(": ["f", "g0h", "hh1", "i j"]}


def judge(completion_ids: list[list[int]], **_: Any) -> list[Any]:
    return [np.array([[sum(ids) % 7 / 7, len(ids) / 12]]) for ids in completion_ids]


def step(model: Path, out: Path, processes: int) -> VPOTrainer:
    """Return a trainer after one plain gradient step on four completions of each of two prompts."""

    def rollouts(prompts: list[str], trainer: Any) -> dict[str, Any]:
        seen: Counter[str] = Counter()
        found: dict[str, Any] = {"prompt_ids": [], "completion_ids": [], "logprobs": []}
        for prompt in prompts:
            tokenizer = trainer.processing_class
            found["prompt_ids"].append(tokenizer(prompt)["input_ids"])
            ids = [*tokenizer(TEXTS[prompt][seen[prompt]])["input_ids"], tokenizer.eos_token_id]
            seen[prompt] += 1
            found["completion_ids"].append(ids)
            found["logprobs"].append([-2.0] * len(ids))
        return found

    args = VPOConfig(
        output_dir=str(out), objective="vpo-at-k", k=2, num_generations=4, max_steps=1, optim="sgd",
        per_device_train_batch_size=8 // processes, learning_rate=0.1, lr_scheduler_type="constant",
        max_grad_norm=0.0, beta=0.1, use_cpu=True, save_strategy="no", report_to="none", disable_tqdm=True,
        max_completion_length=12,
    )  # fmt: skip
    dataset = Dataset.from_list([{"prompt": prompt} for prompt in TEXTS])
    trainer = VPOTrainer(str(model), judge, args, dataset)
    trainer.rollout_func = rollouts
    trainer.train()
    return trainer


if __name__ == "__main__":
    model, data, domain, out = map(Path, sys.argv[1:])
    done = step(model, out / "step", 2)
    assert done.accelerator.num_processes == 2
    if done.accelerator.is_main_process:
        torch.save(done.accelerator.unwrap_model(done.model).state_dict(), out / "weights.pt")
    asked = TrainingRequest(
        domain=str(domain), data=str(data), model=str(model), output=str(out / "trained"), steps=1, prompts=2,
        rollouts=4, test=2, ks=(1, 2), settings={"k": 2},
    )  # fmt: skip
    own = training._measured

    def noted(asked: TrainingRequest, trainer: VPOTrainer, *given: Any) -> Any:
        with (out / "measured.txt").open("a") as file:
            file.write(f"{given[1]} {type(trainer.model_wrapped).__name__}\n")
        return own(asked, trainer, *given)

    training._measured = noted
    train(asked)
