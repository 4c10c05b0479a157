"""Runs what a study lacks, stage by stage: tuning, trainings, searches; every stage goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from evovpo.experiments.plan import plan_cells, raise_faults
from trainer.experiments.export import Export
from trainer.experiments.plan import Study, StudyArm, store_url
from trainer.experiments.searches import missing, run_searches, trial_batches
from trainer.experiments.study import worker_pool
from trainer.experiments.trainings import finals, grid, run_trainings, tuned_arms
from trainer.experiments.while_searching import check_while_searching, run_while_searching


class Stage(NamedTuple):
    """Where a study stands."""

    name: str
    done: int
    total: int
    """0 where it is not known before."""


class Failure(NamedTuple):
    """A search that could not end."""

    run: str
    reason: str


def check(study: Study, work: Path) -> None:
    """Raise `ConfigError` naming all that is wrong with the searches and the store; spends nothing."""
    faults: list[str] = []
    work.mkdir(parents=True, exist_ok=True)
    batches = [batch for arm in study.arms for batch in trial_batches(study, arm)]
    plan_cells(batches, store_url(work), faults)
    check_while_searching(study, faults)
    raise_faults(faults)


def run_study_file(
    study: Study,
    export: Export,
    work: Path,
    processes: int,
    on_stage: Callable[[Stage], None],
) -> list[Failure]:
    """Run what is missing and return the searches that failed; `export` has the rows of all others.

    `work` keeps models and the store. Raises `ConfigError` if rows at hand were made with other settings,
    `StoreError` if the store fails.
    """
    export.hold(study)
    arms = [arm for arm in study.arms if missing(study, export, arm)]

    points = {one.name: one for arm in tuned_arms(study) for one in grid(study, arm)}
    done = sum(name in export.trainings for name in points)

    def told(stage: str, total: int) -> Callable[[str], None]:
        def count(name: str) -> None:
            nonlocal done
            done += 1
            on_stage(Stage(f"{stage}: {name}", done, total))

        return count

    with worker_pool(processes) as pool:
        on_stage(Stage("tuning", done, len(points)))
        run_trainings(study, export, work, list(points.values()), pool, told("tuned", len(points)))

        trained = {one.name: one for arm in _trained(arms) for one in finals(study, arm, export)}
        done = sum((work / "models" / name).exists() for name in trained)
        on_stage(Stage("training", done, len(trained)))
        run_trainings(study, export, work, list(trained.values()), pool, told("trained", len(trained)))

    failed = run_searches(
        study,
        export,
        work,
        processes,
        lambda found: on_stage(Stage("searching", found.done, found.total)),
    )
    parts = 0

    def searched(part: str) -> None:
        nonlocal parts
        parts += 1
        on_stage(Stage(part, parts, 0))

    run_while_searching(study, export, work, processes, searched)
    return [Failure(one.run_id, one.reason) for one in failed]


def _trained(arms: list[StudyArm]) -> list[StudyArm]:
    return [arm for arm in arms if arm.is_trained_before]
