"""The cells that train, and those that answer test tasks: each gives rows of the export.

Every tuned arm gets the same grid and the same rule: the point with the highest mean of best@k over
`TUNING_KS` on validation tasks. Final trainings begin anew under other seeds, and their models stay.
"""

import dataclasses
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers.utils import logging as transformers_logging

from evovpo.errors import DivergedError, TrainingError
from evovpo.experiments.pool import FatalError, Message, TaskDone, run_all
from evovpo.files import written_whole
from trainer.domains.arm_training import TrainingArm, load_start_model, measure, train
from trainer.domains.catalogue import open_family
from trainer.experiments.study import START, TEST, Study, StudyArm, recipe
from trainer.experiments.study_export import Export, task_name
from trainer.loop.probe import cpu_seconds

TUNING_KS = (1, 3, 6, 12, 24, 48)
TUNING_SEED = 1000
_MEASURE_SEED = 7
"""Of sampled answers, the same for every model."""


class StudyTraining(NamedTuple):
    """One training, fully told by what it depends on."""

    arm: TrainingArm
    """With learning rate and KL."""
    seed: int

    @property
    def name(self) -> str:
        """The name of its row and of its model's folder."""
        arm = self.arm
        return f"{recipe(arm)}-lr{arm.learning_rate:g}-kl{arm.kl:g}-seed{self.seed}"


def grid(study: Study, arm: StudyArm) -> list[StudyTraining]:
    """Return the trainings that an arm is tuned by."""
    assert arm.arm is not None
    return [
        StudyTraining(dataclasses.replace(arm.arm, learning_rate=learning_rate, kl=kl), TUNING_SEED)
        for learning_rate in study.tuning.learning_rates
        for kl in (study.tuning.kls if arm.kl is None else [arm.kl])
    ]


def tuned_arms(study: Study) -> list[StudyArm]:
    """Return the arms that are tuned themselves."""
    return [arm for arm in study.arms if arm.objective and not arm.tuned_as]


def chosen(study: Study, arm: StudyArm, export: Export) -> TrainingArm | None:
    """Return an arm with the learning rate and KL that it trains with, or None before it is tuned."""
    assert arm.arm is not None
    points = grid(study, study.arm(arm.tuned_as) if arm.tuned_as else arm)
    rows = [export.trainings.get(point.name) for point in points]
    if any(row is None for row in rows):
        return None
    scores = [row["score"] for row in rows if row is not None]
    best = points[int(np.argmax(scores))].arm
    return dataclasses.replace(arm.arm, learning_rate=best.learning_rate, kl=best.kl)


def finals(study: Study, arm: StudyArm, export: Export) -> list[StudyTraining]:
    """Return an arm's final trainings; none before it is tuned, or of one that is not trained before."""
    settings = chosen(study, arm, export) if arm.objective else None
    return [] if settings is None else [StudyTraining(settings, seed) for seed in range(arm.seeds)]


def model_of(study: Study, export: Export, work: Path, arm: StudyArm, seed: int) -> Path:
    """Return the folder of the model that an arm has with a seed."""
    if arm.objective:
        return (work / "models" / finals(study, arm, export)[seed].name).resolve()
    return study.start if arm.model == START else Path(arm.model)


@dataclass(frozen=True)
class TrainingJob:
    """A task for a process of its own, which gives rows."""

    name: str
    work: Callable[[], Any]

    def run(self, tell: Callable[[Any], None]) -> Any:
        """Do it, with one thread, and return what it gives.

        Raises `FatalError`: what one of these needs, all of them do.
        """
        try:
            torch.set_num_threads(1)
            transformers_logging.disable_progress_bar()
            return self.work()
        except Exception as error:
            raise FatalError(error) from error


def finish(jobs: Sequence[TrainingJob], processes: int, take: Callable[[str, Any], None]) -> list[Any]:
    """Do jobs with different names and return their results; `take` is called with each name and result.

    Raises `TrainingError` for one whose process is ended from outside again and again.
    """
    found: dict[str, Any] = {}

    def told(message: Message) -> None:
        if isinstance(message, TaskDone):
            found[message.name] = message.value
            take(*message)

    for one in run_all(jobs, processes, told):
        raise TrainingError(f"{one.name}: {one.reason}")
    return [found[job.name] for job in jobs]


def train_row(study: Study, training: StudyTraining, folder: Path | None) -> dict[str, Any]:
    """Make a training and return its row; its model goes to `folder`.

    Without a folder the training is one that tunes, which answers validation tasks instead. A training that
    diverges is a result: its score is 0, and its model the start model.
    """
    began, cpu, tokens = time.monotonic(), cpu_seconds(), 0
    log: list[dict[str, float]] = []
    arm = dataclasses.asdict(training.arm)
    row: dict[str, Any] = {"training": training.name, "seed": training.seed, "arm": arm}
    with open_family(study.domain, study.start) as domain:
        diverged = ""
        try:
            model, log = train(training.arm, domain, study.training, training.seed, on_step=log.append)
        except DivergedError as error:
            diverged = str(error)
            model = load_start_model(domain)
        row["diverged"] = diverged
        if folder is None:
            tasks = domain.tasks("validation", study.tuning.tasks)
            measured = measure(model, domain, tasks, training.arm.answers, max(TUNING_KS), _MEASURE_SEED)
            best = np.mean([task.measure.best_at_k(TUNING_KS) for task in measured])
            row |= {"kind": "tuning", "score": 0.0 if diverged else round(float(best), 5)}
            tokens = sum(task.tokens for task in measured)
        else:
            with written_whole(folder) as part:  # with the tokenizer of the start model
                model.save_pretrained(part)
                for file in study.start.glob("tokenizer*"):
                    shutil.copy(file, part)
            steps = [{name: round(value, 4) for name, value in step.items()} for step in log]
            row |= {"kind": "final", "log": steps}
    tokens += int(log[-1]["tokens"]) if log else 0
    spent = {"cpu_seconds": round(cpu_seconds() - cpu, 1), "seconds": round(time.monotonic() - began, 1)}
    return row | {"tokens": tokens, "steps": len(log)} | spent


def answer_rows(study: Study, arm: StudyArm, seed: int, model_folder: Path) -> list[dict[str, Any]]:
    """Let a model answer the test tasks, and return a row for each."""
    ks = study.ks
    with open_family(study.domain, model_folder) as domain:
        model, tasks = load_start_model(domain), domain.tasks("test", study.test.tasks, study.test.seed)
        measured = measure(model, domain, tasks, arm.search_answers, max(ks), seed=_MEASURE_SEED)
    return [
        {"arm": arm.name, "strategy": TEST, "seed": seed, "problem": task_name(number)}
        | {
            figure: dict(zip(map(str, ks), np.round(values, 5).tolist(), strict=True))
            for figure, values in task.measure.by_k(ks).items()
        }
        | {name: getattr(task.measure, name) for name in ("distinct_share", "diversity", "hypervolume")}
        | {"faulty_completions": task.measure.faults, "tokens": task.tokens}
        for number, task in enumerate(measured)
    ]


def run_trainings(
    study: Study,
    export: Export,
    work: Path,
    needed: Sequence[StudyTraining],
    processes: int,
    on_training: Callable[[str], None],
) -> None:
    """Make trainings: rows of all that have none, and models of the final ones that have none."""
    missing: dict[str, TrainingJob] = {}
    for training in needed:
        folder = None if training.seed == TUNING_SEED else work / "models" / training.name
        if training.name not in export.trainings or not (folder is None or folder.exists()):
            missing.setdefault(
                training.name, TrainingJob(training.name, partial(train_row, study, training, folder))
            )

    def take(name: str, row: dict[str, Any]) -> None:
        if name not in export.trainings:
            export.add_training(row)
        on_training(name)

    (work / "models").mkdir(parents=True, exist_ok=True)
    finish(list(missing.values()), processes, take)


def run_tests(
    study: Study, export: Export, work: Path, processes: int, on_test: Callable[[str], None]
) -> None:
    """Let every model with a missing row answer all test tasks."""
    missing = {(arm.name, key.seed): arm for arm in study.arms for key in export.missing(study, arm)}
    tests = [
        TrainingJob(
            f"{arm.name}, {TEST}, seed {seed}",
            partial(answer_rows, study, arm, seed, model_of(study, export, work, arm, seed)),
        )
        for (_, seed), arm in missing.items()
    ]

    def take(name: str, rows: list[dict[str, Any]]) -> None:
        export.add_searches(rows)
        on_test(name)

    finish(tests, processes, take)
