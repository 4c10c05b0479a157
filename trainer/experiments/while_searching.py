"""The searches of arms that train while they search: rounds over all problems, with a training between two.

The model starts from the study's start model, and learns from nothing but the problems that are searched.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evovpo.errors import ConfigError
from evovpo.problem.folder import load_problem
from evovpo.store import Store
from trainer.experiments.arms import Arm, with_settings
from trainer.experiments.export import Export
from trainer.experiments.plan import Study, StudyArm
from trainer.experiments.searches import Judge, missing, search_row, settings_of
from trainer.experiments.trainings import chosen
from trainer.loop.search_training import (
    SearchPart,
    SearchTraining,
    TrainingPart,
    plan_search_training,
    search_while_training,
    store_url,
)


def check_while_searching(study: Study, faults: list[str]) -> None:
    """Add what is wrong with the arms that train while they search."""
    for arm in study.arms:
        if arm.rounds and arm.arm is not None:
            for strategy in arm.strategies:
                try:
                    _plan(study, arm, strategy, with_settings(arm.arm, 1e-4, 0.0), 0)
                except ConfigError as error:
                    faults.append(f"{study.path}: arm {arm.name}, strategy {strategy}: {error}")


def run_while_searching(
    study: Study, export: Export, work: Path, processes: int, on_part: Callable[[str], None]
) -> None:
    """Make the searches of these arms that have no row, and export a row for each problem.

    `on_part` is told what ends on the way. What is done of a seed is kept in its folder below `work`.
    """
    for arm in study.arms:
        if not arm.rounds:
            continue
        settings = chosen(study, arm, export)
        assert settings is not None  # what it is tuned as was tuned before
        for strategy, seed in sorted({(key.strategy, key.seed) for key in missing(study, export, arm)}):
            name = f"{arm.name}, {strategy}, seed {seed}"
            plan = _plan(study, arm, strategy, settings, seed)
            folder = work / "while-searching" / name.replace(", ", "-").replace(" ", "-")

            def told(part: SearchPart | TrainingPart, name: str = name) -> None:
                on_part(f"{name}: {_said(part)}")

            result = search_while_training(plan, folder, processes, told)
            share = result.training_cpu_seconds / len(result.problems)
            with Store.open(store_url(folder)) as store, Judge() as judge:
                for problem, found in zip(plan.problems, result.problems, strict=True):
                    key = {"arm": arm.name, "strategy": strategy, "seed": seed, "problem": problem.id}
                    row = search_row(store, found.run, problem, judge, ())
                    cost = {"cpu_seconds": found.cpu_seconds, "training_seconds": round(share, 3)}
                    export.add_search(key | row | cost)


def _plan(study: Study, arm: StudyArm, strategy: str, settings: Arm, seed: int) -> SearchTraining:
    return plan_search_training(
        [load_problem(path) for path in study.problems],
        settings_of(study.strategy(strategy), arm),
        settings,
        study.start,
        evaluations=arm.evaluations,
        rounds=arm.rounds,
        seed=seed,
    )


def _said(part: SearchPart | TrainingPart) -> str:
    what = f"searched {part.problem}" if isinstance(part, SearchPart) else "trained"
    return f"round {part.round}, {what}"
