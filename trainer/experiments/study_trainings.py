"""Runs a study's trainings, runs the test tasks on its models, and exports the results as rows.

All tuned arms have the same grid of learning rates and KL coefficients, but an arm can fix its KL
coefficient. Tuning chooses the grid point and the sampling temperature with the highest mean of the statistic
`tuning.figure` on validation tasks. For an untrained arm, it chooses only the temperature. Final trainings
have other seeds than the tuning.
"""

import dataclasses
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
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
from trainer.domains.domain import TaskFamily
from trainer.domains.maze.search import search_mazes
from trainer.domains.strings.search import search_strings
from trainer.domains.strings.string_family import StringFamily
from trainer.domains.task_search import TaskSearch, search_row, solved_by
from trainer.experiments.study import START, TEST, Study, StudyArm, recipe
from trainer.experiments.study_export import Export, by_name, task_name
from trainer.loop.probe import cpu_seconds

TUNING_SEED = 1000
_MEASURE_SEED = 7


class StudyTraining(NamedTuple):
    arm: TrainingArm
    """Settings of the training, with learning rate and KL coefficient."""
    seed: int

    @property
    def name(self) -> str:
        arm = self.arm
        return f"{recipe(arm)}-lr{arm.learning_rate:g}-kl{arm.kl:g}-seed{self.seed}"


def grid(study: Study, arm: StudyArm) -> list[StudyTraining]:
    assert arm.arm is not None
    return [
        StudyTraining(dataclasses.replace(arm.arm, learning_rate=learning_rate, kl=kl), TUNING_SEED)
        for learning_rate in study.tuning.learning_rates
        for kl in (study.tuning.kls if arm.kl is None else [arm.kl])
    ]


def tuned_arms(study: Study) -> list[StudyArm]:
    """Return the trained arms with their own tuning. Other trained arms use the tuning of `tuned_as`."""
    return [arm for arm in study.arms if arm.objective and not arm.tuned_as]


def best_point(study: Study, arm: StudyArm, export: Export) -> StudyTraining | None:
    """Return the best training of an arm's tuning grid, or None if a training of the grid has no row yet."""
    points = grid(study, study.arm(arm.tuned_as) if arm.tuned_as else arm)
    if any(point.name not in export.trainings for point in points):
        return None
    return max(points, key=lambda point: export.trainings[point.name]["score"])


def finals(study: Study, arm: StudyArm, export: Export) -> list[StudyTraining]:
    """Return an arm's final trainings; none before its tuning has ended, or for an untrained arm."""
    best = best_point(study, arm, export) if arm.objective else None
    if best is None or arm.arm is None:
        return []
    settings = dataclasses.replace(arm.arm, learning_rate=best.arm.learning_rate, kl=best.arm.kl)
    return [StudyTraining(settings, seed) for seed in range(arm.seeds)]


def temperature(study: Study, arm: StudyArm, export: Export) -> float | None:
    """Return the temperature of an arm's best grid point; None for an untrained arm (see `answer_rows`)."""
    best = best_point(study, arm, export) if arm.objective else None
    return None if best is None else float(export.trainings[best.name].get("temperature", 1.0))


def model_of(study: Study, export: Export, work: Path, arm: StudyArm, seed: int) -> Path:
    if arm.objective:
        return (work / "models" / finals(study, arm, export)[seed].name).resolve()
    return study.start if arm.model == START else Path(arm.model)


@dataclass(frozen=True)
class TrainingJob:
    """A job for the process pool: a training, or all test tasks on one model. `work` returns the rows."""

    name: str
    work: Callable[[], Any]

    def run(self, tell: Callable[[Any], None]) -> Any:
        """Return the result of `work`. Raises `FatalError` for any error: all jobs would fail alike."""
        try:
            torch.set_num_threads(1)
            transformers_logging.disable_progress_bar()
            return self.work()
        except Exception as error:
            raise FatalError(error) from error


def _finish(works: Mapping[str, Callable[[], Any]], processes: int, take: Callable[[str, Any], None]) -> None:

    def told(message: Message) -> None:
        if isinstance(message, TaskDone):
            take(*message)

    for one in run_all(list(starmap(TrainingJob, works.items())), processes, told):
        raise TrainingError(f"{one.name}: {one.reason}")


def train_row(study: Study, training: StudyTraining, folder: Path | None) -> dict[str, Any]:
    """Run a training and return its row.

    The model is stored in `folder` or, if `folder` is None, measured on the validation tasks. If the training
    diverges, its tuning score is 0, and its model is the start model.
    """
    began, cpu, tokens = time.monotonic(), cpu_seconds(), 0
    log: list[dict[str, float]] = []
    arm = dataclasses.asdict(training.arm)
    row: dict[str, Any] = {"training": training.name, "seed": training.seed, "arm": arm}
    with open_family(study.domain, study.start) as domain:
        row["diverged"] = ""
        try:
            model, log = train(training.arm, domain, study.training, training.seed, on_step=log.append)
        except DivergedError as error:
            row["diverged"] = str(error)
            model = load_start_model(domain)
        if folder is None:
            found, tokens = _validated(study, model, domain, training.arm.answers)
            row |= {"kind": "tuning", **found} | ({"score": 0.0} if row["diverged"] else {})
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


def _validated(study: Study, model: Any, domain: TaskFamily, answers: int) -> tuple[dict[str, Any], int]:
    tuning, tasks = study.tuning, domain.tasks("validation", study.tuning.tasks)
    scores, tokens = {}, 0
    for one in tuning.temperatures:
        rows = _answered(study, model, domain, tasks, answers, tuning.ks, one)
        scores[one] = round(float(np.mean([list(row[tuning.figure].values()) for row in rows])), 5)
        tokens += sum(row["tokens"] for row in rows)
    best = max(scores, key=scores.__getitem__)
    found: dict[str, Any] = {"score": scores[best]}
    if len(scores) > 1:
        found |= {"temperature": best, "scores": {f"{one:g}": score for one, score in scores.items()}}
    return found, tokens


def _answered(
    study: Study, model: Any, domain: Any, tasks: Sequence[Any], answers: int, ks: Sequence[int], at: float
) -> list[dict[str, Any]]:
    if not study.test.evaluations:
        return [
            by_name(task.measure.by_k(ks), ks, 5)
            | {name: getattr(task.measure, name) for name in ("distinct_share", "diversity", "hypervolume")}
            | {"faulty_completions": task.measure.faults, "tokens": task.tokens}
            for task in measure(model, domain, tasks, answers, max(ks), _MEASURE_SEED, at)
        ]
    began, test = cpu_seconds(), study.test
    how = TaskSearch(test.evaluations, test.answers_per_ask, at, test.joins)
    if isinstance(domain, StringFamily):
        found = search_strings(model, domain, tasks, how, _MEASURE_SEED)
        rows = [search_row(one, ks) | {"pass_at_k": solved_by(one, ks)} for one in found]
    else:
        rows = [search_row(one, ks) for one in search_mazes(model, domain, tasks, how, _MEASURE_SEED)]
    spent = {"cpu_seconds": round((cpu_seconds() - began) / len(tasks), 4)}
    return [row | spent for row in rows]


def answer_rows(
    study: Study, arm: StudyArm, seed: int, model_folder: Path, at: float | None
) -> list[dict[str, Any]]:
    """Let a model answer the test tasks, by search or independent sampling. Return a row for each task.

    `at` is the sampling temperature; if it is None, the best temperature on the validation tasks is used.
    """
    choices, chosen = study.tuning.temperatures, dict[str, Any]()
    with open_family(study.domain, model_folder) as domain:
        model, tasks = load_start_model(domain), domain.tasks("test", study.test.tasks, study.test.seed)
        if at is None and len(choices) > 1:
            chosen, _ = _validated(study, model, domain, arm.search_answers)
        elif len(choices) > 1:
            chosen = {"temperature": at}
        used = chosen.get("temperature", choices[0])
        rows = _answered(study, model, domain, tasks, arm.search_answers, study.ks, used)
    return [
        {"arm": arm.name, "strategy": TEST, "seed": seed, "problem": task_name(number)} | chosen | row
        for number, row in enumerate(rows)
    ]


def run_trainings(
    study: Study,
    export: Export,
    work: Path,
    needed: Sequence[StudyTraining],
    processes: int,
    on_training: Callable[[str], None],
) -> None:
    """Run the `needed` trainings that lack a row or a stored model, and add missing rows to `export`."""
    missing: dict[str, Callable[[], Any]] = {}
    for training in needed:
        folder = None if training.seed == TUNING_SEED else work / "models" / training.name
        if training.name not in export.trainings or not (folder is None or folder.exists()):
            missing[training.name] = partial(train_row, study, training, folder)

    def take(name: str, row: dict[str, Any]) -> None:
        if name not in export.trainings:
            export.add_training(row)
        on_training(name)

    (work / "models").mkdir(parents=True, exist_ok=True)
    _finish(missing, processes, take)


def run_tests(
    study: Study, export: Export, work: Path, processes: int, on_test: Callable[[str], None]
) -> None:
    """Run the test tasks on each model that lacks results, and add the rows to `export`."""
    missing = {(arm.name, key.seed): arm for arm in study.arms for key in export.missing(study, arm)}
    tests: dict[str, Callable[[], Any]] = {}
    for (name, seed), arm in missing.items():
        model, at = model_of(study, export, work, arm, seed), temperature(study, arm, export)
        tests[f"{name}, {TEST}, seed {seed}"] = partial(answer_rows, study, arm, seed, model, at)

    def take(name: str, rows: list[dict[str, Any]]) -> None:
        export.add_searches(rows)
        on_test(name)

    _finish(tests, processes, take)
