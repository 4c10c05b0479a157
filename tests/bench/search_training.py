"""Searches that train as they go, beside frozen ones at equal evaluations and at equal CPU time.

    python tests/bench/search_training.py OUT --model FOLDER --problems 8 --evaluations 600 --rounds 3

For each objective and seed: the searches that train in ROUNDS parts, the frozen model with the same
evaluations, and the frozen model with as many evaluations more as the trainings cost. Prints a line of JSON
for each as it ends; OUT keeps everything, and the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from evovpo.problem.folder import load_problem
from evovpo.problem.suites import load_suite
from evovpo.store import Store
from evovpo.types import Problem
from trainer.domains.on_policy import Arm
from trainer.experiments.while_searching import search_while_training, store_url
from trainer.loop.loop import plan_search_training

ANSWERS_PER_ASK = 12
ANSWERS = {"vpo": 3, "grpo": 1}
"""Answers a completion, of each objective that may be named."""


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="start model folder")
    parser.add_argument("--suite", default="strings-hard")
    parser.add_argument("--problems", type=int, default=8, help="how many of the suite, from its beginning")
    parser.add_argument("--evaluations", type=int, default=600, help="of each problem")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--objectives", default="vpo,grpo")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--kl", type=float, default=0.05)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    problems = [load_problem(entry.path) for entry in load_suite(options.suite)[: options.problems]]
    for seed in range(options.seeds):
        for objective in options.objectives.split(","):
            ratio = searched(options, problems, objective, seed, options.rounds, options.evaluations)
            for evaluations in (options.evaluations, round(options.evaluations * ratio)):
                searched(options, problems, objective, seed, 1, evaluations)


def searched(
    options: argparse.Namespace,
    problems: list[Problem],
    objective: str,
    seed: int,
    rounds: int,
    evaluations: int,
) -> float:
    """Search, print the figures, and return all CPU seconds by those of the searches alone.

    One round trains nothing. What a frozen search may use as well is so many times its evaluations.
    """
    answers = ANSWERS[objective]
    rollouts = ANSWERS_PER_ASK // answers
    arm = Arm(objective, objective, answers, rollouts, learning_rate=options.learning_rate, kl=options.kl)
    plan = plan_search_training(
        problems,
        {"search": {"answers": answers, "rollouts": rollouts}},
        arm,
        options.model,
        evaluations=evaluations,
        rounds=rounds,
        seed=seed,
    )
    folder = options.out / f"{objective}-{rounds}x-{evaluations}-seed{seed}"
    parts, trainings = search_while_training(plan, folder, options.processes)
    with Store.open(store_url(folder), create=False) as store:
        found = [store.run_summary(run) for run in plan.run_ids(1)]
    search_seconds = sum(one.cpu_seconds for one in parts)
    training_seconds = sum(one.cpu_seconds for one in trainings)
    ratio = 1.0 + training_seconds / search_seconds
    row: dict[str, Any] = {
        "objective": objective,
        "seed": seed,
        "trainings": rounds - 1,
        "evaluations": evaluations,
        "solved": len({one.problem for one in parts if one.solved}),
        "problems": len(problems),
        "best_mean_reward": round(sum(one.best_mean_reward or 0.0 for one in found) / len(problems), 4),
        "tokens": sum(one.tokens for one in found),
        "search_cpu_seconds": round(search_seconds, 3),
        "training_cpu_seconds": round(training_seconds, 3),
        "compute_ratio": round(ratio, 3),
        "groups": [one.groups for one in trainings],
        "steps": [one.steps for one in trainings],
        "not_trained": [one.why_not for one in trainings if one.why_not],
    }
    print(json.dumps(row), flush=True)
    return ratio


if __name__ == "__main__":
    main()
