"""Measure a maze model by sampling: `python -m trainer.recipes.maze.measure [FOLDER]`.

For one and for three answers per completion: how many answers can be read and reach the exit, which
zone they visit, the mean reward, best@k and the diversity of the pool. A quick look at one model;
comparisons of models with intervals are the study's.
"""

from __future__ import annotations

import argparse
import json
from itertools import combinations
from pathlib import Path
from statistics import mean

import torch
from transformers import AutoModelForCausalLM

from evovpo.builtin.chain_format import END_ID
from evovpo.proposers.sampler import Request, Weights, sample
from trainer.domains.domain import Answer
from trainer.domains.maze import MAZE_MODEL
from trainer.domains.maze.domain import MazeDomain

_KS = (1, 3, 10, 30)


def describe_pools(pools: list[list[Answer]]) -> dict[str, float]:
    """Return the figures of the answers to each task, in the order in which they were drawn.

    `best@k` is the mean over tasks of the best component mean among the first k answers (for pools of k
    or more); `diversity` the mean L1 distance between the reward vectors of two answers to one task.
    """
    answers = [answer for pool in pools for answer in pool]
    arrived = [answer for answer in answers if answer.rewards[0] > 0]
    figures = {
        "readable": mean(answer.key is not None for answer in answers),
        "reached_exit": len(arrived) / len(answers),
        "with_gold": mean(answer.rewards[1] > 0 for answer in answers),
        "with_diamond": mean(answer.rewards[2] > 0 for answer in answers),
        "mean_moves_to_exit": mean(len(answer.key or "") for answer in arrived) if arrived else 0.0,
        "different_keys": mean(len({answer.key for answer in pool}) / len(pool) for pool in pools),
        "diversity": mean(_spread(pool) for pool in pools),
    }
    for name, component in zip(("completion", "gold", "diamond", "lava"), range(4), strict=True):
        figures[f"mean_{name}"] = mean(answer.rewards[component] for answer in answers)
    for k in (k for k in _KS if all(len(pool) >= k for pool in pools)):
        figures[f"best@{k}"] = mean(max(mean(a.rewards) for a in pool[:k]) for pool in pools)
    return {name: round(value, 4) for name, value in figures.items()}


def _spread(pool: list[Answer]) -> float:
    return mean(
        sum(abs(a - b) for a, b in zip(one.rewards, other.rewards, strict=True))
        for one, other in combinations(pool, 2)
    )


def measure(
    folder: Path, *, answers: int, tasks: int = 100, pool: int = 30, temperature: float = 1.0, seed: int = 0
) -> dict[str, float]:
    """Return the figures of the model in `folder` on validation mazes, `pool` answers to each."""
    domain = MazeDomain()
    weights = Weights(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32))
    mazes = domain.tasks("validation", tasks)
    chains = -(-pool // answers)
    requests = [
        Request(
            domain.prompt_ids(task, answers),
            seed + number,
            tuple(range(chains)),
            temperature,
            domain.max_tokens(answers),
        )
        for number, task in enumerate(mazes)
    ]
    pools = []
    for task, completions in zip(mazes, sample(weights, requests, [END_ID]), strict=True):
        judged = [domain.judge(task, completion.token_ids, answers) for completion in completions]
        pools.append([answer for chain in judged for answer in chain][:pool])
    return describe_pools(pools)


def main() -> None:
    """Print one JSON object for each number of answers per completion."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, nargs="?", default=MAZE_MODEL, help="default: the bundled model")
    parser.add_argument("--temperature", type=float, default=1.0, help="default 1.0")
    options = parser.parse_args()
    for answers in (1, 3):
        figures = measure(options.folder, answers=answers, temperature=options.temperature)
        print(json.dumps({"answers": answers, "temperature": options.temperature} | figures))


if __name__ == "__main__":
    main()
