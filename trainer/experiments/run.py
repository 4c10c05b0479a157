"""Runs what a study lacks, stage by stage: tuning, trainings, searches; every stage goes on where it was."""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from evovpo.experiments.plan import plan_cells
from evovpo.experiments.pool import Failed
from evovpo.experiments.reading import raise_faults
from trainer.experiments.export import Export
from trainer.experiments.records import Study, store_url
from trainer.experiments.searches import run_searches, trial_batch
from trainer.experiments.trainings import finals, grid, run_tests, run_trainings, tuned_arms
from trainer.experiments.while_searching import check_while_searching, run_while_searching

OnStage: TypeAlias = Callable[[str, int, int | None, str], None]
"""Is told a stage, how much of it is done, of how much if that is known, and what is waited for."""


def check(study: Study, work: Path) -> None:
    """Raise `ConfigError` naming all that is wrong with the searches and the store; spends nothing."""
    faults: list[str] = []
    work.mkdir(parents=True, exist_ok=True)
    if study.test.tasks:
        return
    plan_cells([trial_batch(study, arm) for arm in study.arms], store_url(work), faults)
    check_while_searching(study, faults)
    raise_faults(faults)


def run_study(study: Study, export: Export, work: Path, processes: int, on_stage: OnStage) -> list[Failed]:
    """Run what is missing and return the searches that failed; `export` has the rows of all others.

    `work` keeps models and the store. Raises `ConfigError` if rows at hand were made with other settings,
    `StoreError` if the store fails.
    """
    export.hold(study)
    arms = [arm for arm in study.arms if export.missing(study, arm)]

    def stage(name: str, done: int, total: int | None) -> Callable[[str], None]:
        """Tell that a stage begins, and return what tells each of its parts that ends."""
        on_stage(name, done, total, "")
        count = itertools.count(done + 1)
        return lambda part: on_stage(f"{name}: {part}", next(count), total, "")

    points = {one.name: one for arm in tuned_arms(study) for one in grid(study, arm)}
    told = stage("tuning", sum(name in export.trainings for name in points), len(points))
    run_trainings(study, export, work, list(points.values()), processes, told)

    trained = {one.name: one for arm in arms for one in finals(study, arm, export)}
    told = stage("training", sum((work / "models" / name).exists() for name in trained), len(trained))
    run_trainings(study, export, work, list(trained.values()), processes, told)

    if study.test.tasks:
        models = sum(len({key.seed for key in export.missing(study, arm)}) for arm in study.arms)
        run_tests(study, export, work, processes, stage("answering test tasks", 0, models))
        return []
    failed = run_searches(study, export, work, processes, partial(on_stage, "searching"))
    run_while_searching(study, export, work, processes, stage("searching and training", 0, None))
    return failed
