"""Makes the trainings of a study that have no row yet: tuning on validation tasks, then the final ones.

Every tuned arm gets the same grid and the same rule: the point with the highest mean of best@k on validation
tasks, over `trainer.experiments.study.TUNING_KS`. Final trainings begin anew under other seeds, and their
models stay.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evovpo.errors import DivergedError
from evovpo.files import written_whole
from trainer.experiments.arms import (
    Arm,
    TrainingBudget,
    curves,
    load_start_model,
    measure,
    train,
    with_settings,
)
from trainer.experiments.export import Export
from trainer.experiments.plan import Study, StudyArm, recipe
from trainer.experiments.study import TUNING_KS, TUNING_SEED, open_domain


class Training(NamedTuple):
    """One training, fully told by what it depends on."""

    arm: Arm
    """With learning rate and KL."""
    seed: int

    @property
    def name(self) -> str:
        """The name of its row and of its model's folder."""
        arm = self.arm
        return f"{recipe(arm)}-lr{arm.learning_rate:g}-kl{arm.kl:g}-seed{self.seed}"


def grid(study: Study, arm: StudyArm) -> list[Training]:
    """Return the trainings that an arm is tuned by."""
    assert arm.arm is not None
    return [
        Training(with_settings(arm.arm, learning_rate, kl), TUNING_SEED)
        for learning_rate in study.learning_rates
        for kl in study.kls
    ]


def tuned_arms(study: Study) -> list[StudyArm]:
    """Return the arms that are tuned themselves."""
    return [arm for arm in study.arms if arm.is_trained_before and not arm.tuned_as]


def chosen(study: Study, arm: StudyArm, export: Export) -> Arm | None:
    """Return an arm with the learning rate and KL that it trains with, or none before it is tuned."""
    assert arm.arm is not None
    tuned = study.arm(arm.tuned_as) if arm.tuned_as else arm
    points = grid(study, tuned)
    rows = [export.trainings.get(point.name) for point in points]
    if any(row is None for row in rows):
        return None
    scores = [row["score"] for row in rows if row is not None]
    best = points[int(np.argmax(scores))].arm
    return with_settings(arm.arm, best.learning_rate, best.kl)


def finals(study: Study, arm: StudyArm, export: Export) -> list[Training]:
    """Return an arm's final trainings. Raises `ValueError` if it is not tuned yet."""
    settings = chosen(study, arm, export)
    if settings is None:
        raise ValueError(f"arm {arm.name} is not tuned yet")
    return [Training(settings, seed) for seed in range(arm.seeds)]


def model_folder(work: Path, training: Training) -> Path:
    """Return where the model of a final training stays."""
    return work / "models" / training.name


def run_trainings(
    study: Study,
    export: Export,
    work: Path,
    needed: Sequence[Training],
    pool: ProcessPoolExecutor,
    on_training: Callable[[str], None],
) -> None:
    """Make trainings in `pool`: rows of all that have none, and models of the final ones that have none."""
    missing: dict[str, Training] = {}
    for training in needed:
        folder = model_folder(work, training)
        is_there = training.name in export.trainings and (training.seed == TUNING_SEED or folder.exists())
        if not is_there:
            missing.setdefault(training.name, training)
    if not missing:
        return
    (work / "models").mkdir(parents=True, exist_ok=True)
    waiting: dict[Future[dict[str, Any]], str] = {}
    for training in missing.values():
        place = None if training.seed == TUNING_SEED else model_folder(work, training)
        waiting[
            pool.submit(make, training, study.domain, study.start, study.budget, place, study.tuning_tasks)
        ] = training.name
    try:
        for future in as_completed(waiting):
            row = future.result()
            if row["training"] not in export.trainings:
                export.add_training(row)
            on_training(row["training"])
    except BaseException:
        for future in waiting:
            future.cancel()
        raise


def make(
    training: Training,
    domain_name: str,
    start: Path,
    budget: TrainingBudget,
    folder: Path | None,
    tuning_tasks: int,
) -> dict[str, Any]:
    """Train, and return the row; with `folder` the model goes there, without it answers validation tasks.

    A training that diverges is a result: its score is 0, and its model the start model.
    """
    import torch
    from transformers.utils import logging as transformers_logging

    torch.set_num_threads(1)
    transformers_logging.disable_progress_bar()
    began, cpu = time.monotonic(), time.process_time()
    log: list[dict[str, float]] = []
    row: dict[str, Any] = {
        "training": training.name,
        "seed": training.seed,
        "arm": dataclasses.asdict(training.arm),
    }
    with open_domain(domain_name, str(start)) as domain:
        diverged = ""
        try:
            model, log = train(training.arm, domain, budget, training.seed, on_step=log.append)
        except DivergedError as error:
            diverged = str(error)
            model = load_start_model(domain)
        row |= {"diverged": diverged, "cpu_seconds": round(time.process_time() - cpu, 1)}
        if folder is None:
            tasks = domain.tasks("validation", tuning_tasks)
            measured = measure(model, domain, tasks, training.arm.answers, max(TUNING_KS), seed=7)
            score = 0.0 if diverged else float(np.mean(curves(measured, TUNING_KS).best_at_k))
            row |= {"kind": "tuning", "score": round(score, 5)}
        else:
            keep(model, start, folder)
            row |= {
                "kind": "final",
                "log": [{name: round(value, 4) for name, value in step.items()} for step in log],
            }
    tokens = log[-1]["tokens"] if log else 0
    return row | {"tokens": int(tokens), "steps": len(log), "seconds": round(time.monotonic() - began, 1)}


def keep(model: Any, start: Path, folder: Path) -> None:
    """Write a model with the tokenizer of the start model; a reader never sees half a folder."""
    with written_whole(folder) as partial:
        model.save_pretrained(partial)
        for file in start.glob("tokenizer*"):
            shutil.copy(file, partial)
