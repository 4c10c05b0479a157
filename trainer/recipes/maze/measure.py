"""Measure a maze model by sampling: `python -m trainer.recipes.maze.measure [FOLDER]`.

For one and for three answers per completion: how many answers can be read and reach the exit, which
zone they visit, the mean reward, best@k and the diversity of the pool. A quick look at one model;
comparisons of models with intervals are the study's.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

from evovpo.cli.options import argument, option
from evovpo.judging.measure import Measure, measure
from trainer.domains.maze import MAZE_MODEL
from trainer.domains.maze.domain import MazeDomain
from trainer.domains.on_policy import ask, complete, load_start_model
from trainer.recipes import run_recipe

_KS = (1, 3, 10, 30)


def describe(measures: Sequence[Measure]) -> dict[str, float]:
    """Return the figures of the answers to each maze; best@k for every k of which all have enough answers."""
    pools = [found.rewards_C_m_D.reshape(-1, 4) for found in measures]
    rewards_N_4 = np.concatenate(pools)  # noqa: N806
    keys = [[key for chain in found.keys_C_m for key in chain] for found in measures]
    arrived = rewards_N_4[:, 0] > 0
    moves = np.array([len(key or "") for pool in keys for key in pool])
    figures = {
        "readable": np.mean([key is not None for pool in keys for key in pool]),
        "reached_exit": arrived.mean(),
        "with_gold": (rewards_N_4[:, 1] > 0).mean(),
        "with_diamond": (rewards_N_4[:, 2] > 0).mean(),
        "mean_moves_to_exit": moves[arrived].mean() if arrived.any() else 0.0,
        "different_keys": np.mean([len(set(pool)) / len(pool) for pool in keys]),
        "diversity": np.mean([found.diversity for found in measures]),
    }
    for name, component in zip(("completion", "gold", "diamond", "lava"), rewards_N_4.T, strict=True):
        figures[f"mean_{name}"] = component.mean()
    ks = [k for k in _KS if all(len(pool) >= k for pool in pools)]
    best = np.mean([found.best_at_k(ks) for found in measures], axis=0)
    figures |= {f"best@{k}": value for k, value in zip(ks, best, strict=True)}
    return {name: round(float(value), 4) for name, value in figures.items()}


def measure_model(
    folder: Path, *, answers: int, tasks: int = 100, pool: int = 30, temperature: float = 1.0, seed: int = 0
) -> dict[str, float]:
    """Return the figures of the model in `folder` on validation mazes, `pool` answers to each."""
    domain = MazeDomain(model_folder=folder)
    chains = -(-pool // answers)
    mazes = domain.tasks("validation", tasks)
    requests = [
        ask(domain, maze, answers, seed + number, chains)._replace(temperature=temperature)
        for number, maze in enumerate(mazes)
    ]
    return describe(
        [
            measure([domain.judge(maze, completion.token_ids, answers) for completion in completions])
            for maze, completions in zip(mazes, complete(load_start_model(domain), requests), strict=True)
        ]
    )


def main(
    folder: Annotated[Path, argument("[FOLDER]", "A maze model, by default the bundled one.")] = MAZE_MODEL,
    temperature: Annotated[float, option("T", "Of sampling.")] = 1.0,
) -> None:
    """Measure a maze model: print one JSON object for each number of answers per completion."""
    for answers in (1, 3):
        figures = measure_model(folder, answers=answers, temperature=temperature)
        print(json.dumps({"answers": answers, "temperature": temperature} | figures))


if __name__ == "__main__":
    run_recipe(main)
