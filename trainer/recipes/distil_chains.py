"""Teach chains from single answers: `python -m trainer.recipes.distil_chains OUT`.

The built-in model was pretrained on chains whose later answers are mutations of the truth, so that a chain of
three covers less than three single answers do. Here it learns from itself instead: for generated tasks
its own single answers are sampled, and different ones are put into chains in the order in which they came.
Nothing is judged: what a chain holds becomes what independent sampling without repetition would have
given, and training can start from there. Single answers are trained on too, so that they stay as they were.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
from transformers import AutoTokenizer

from evovpo.builtin.chain import END_ID, SEPARATOR_ID
from evovpo.cli.options import argument, option
from evovpo.proposers.sampler import Weights, sample
from trainer.cli.progress import WorkBar
from trainer.domains.on_policy import ask, load_start_model
from trainer.domains.tokens import TokenDomain, open_token_domain
from trainer.learning.offline import completion_logits
from trainer.learning.packing import TrainingRow, batches
from trainer.recipes import run_recipe

ANSWERS = 3
_SAMPLES = 24
"""Single answers sampled for a task."""
_TASKS_PER_STEP = 6
_LEARNING_RATE = 3e-4
_SEED = 1
"""Of tasks and sampling; studies draw their tasks from other seeds."""


def chain_rows(
    prompts: tuple[tuple[int, ...], tuple[int, ...]],
    completions: Sequence[Sequence[int]],
    answers: int,
    rng: Random,
) -> list[list[TrainingRow]]:
    """Return the rows of a task: its chains behind the second prompt, and as many singles behind the first.

    Completions that end without the end token are left out. The answers of a chain differ; they are drawn one
    after the other with the frequencies in which they came, for as many chains as whole ones fit.
    """
    whole = [tuple(ids) for ids in completions if ids and ids[-1] == END_ID]
    if len(set(whole)) < answers:
        return []
    chains: list[TrainingRow] = []
    for _ in range(max(1, len(whole) // answers)):
        pool, chain = whole, []
        for place in range(answers):
            chosen = rng.choice(pool)
            pool = [ids for ids in pool if ids != chosen]
            chain += [*chosen[:-1], END_ID if place == answers - 1 else SEPARATOR_ID]
        chains.append(_row(prompts[1], tuple(chain)))
    return [[_row(prompts[0], ids) for ids in whole[: len(chains)]], chains]


def _row(prompt_ids: tuple[int, ...], ids: tuple[int, ...]) -> TrainingRow:
    return TrainingRow(prompt_ids, ids, (0.0,) * len(ids), np.zeros(len(ids)))


def distil(domain: TokenDomain, tasks: Sequence[Any], on_step: Callable[[int, int, float], None]) -> Any:
    """Return the start model of `domain`, taught to write chains of its own single answers to these tasks.

    `on_step` is told the step, how many there are, and the loss in nats a token.
    """
    torch.manual_seed(_SEED)
    model = load_start_model(domain)
    weights = Weights(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, weight_decay=0.0)
    steps = -(-len(tasks) // _TASKS_PER_STEP)
    rng = Random(_SEED)
    for step in range(steps):
        part = tasks[step * _TASKS_PER_STEP : (step + 1) * _TASKS_PER_STEP]
        requests = [ask(domain, task, 1, rng.getrandbits(62), _SAMPLES) for task in part]
        groups = [
            group
            for task, completions in zip(part, sample(weights, requests, (END_ID,)), strict=True)
            for group in chain_rows(
                (domain.prompt_ids(task, 1), domain.prompt_ids(task, ANSWERS)),
                [completion.token_ids for completion in completions],
                ANSWERS,
                rng,
            )
        ]
        for group in optimizer.param_groups:
            group["lr"] = _LEARNING_RATE * min(1.0, 2 * (1 - step / steps))
        on_step(step + 1, steps, _step(model, optimizer, groups))
    return model


def _step(model: Any, optimizer: torch.optim.Optimizer, groups: Sequence[Sequence[TrainingRow]]) -> float:
    tokens = sum(len(row.completion_ids) for group in groups for row in group)
    total = 0.0
    for batch in batches(groups, model.device):
        loss = F.cross_entropy(completion_logits(model, batch), batch.completion_ids, reduction="sum")
        (loss / tokens).backward()
        total += loss.item() / tokens
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total


def main(
    out: Annotated[Path, argument("OUT", "Folder for the model.")],
    tasks: Annotated[int, option("N", "Tasks to sample answers for.")] = 1500,
) -> None:
    """Write the model, taught to write chains, to a folder, for `evovpo measure --domain strings`."""
    torch.set_num_threads(1)
    with open_token_domain("strings") as domain, WorkBar() as bar:
        model = distil(
            domain,
            domain.tasks("train", tasks, _SEED),
            lambda step, steps, loss: bar.show("teaching chains", step, steps, f"loss {loss:.3f}"),
        )
        model.save_pretrained(out)
        AutoTokenizer.from_pretrained(domain.model_folder).save_pretrained(out)


if __name__ == "__main__":
    run_recipe(main)
