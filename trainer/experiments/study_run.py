"""Runs the missing parts of a study: tuning, trainings, searches. Each stage continues where it stopped.

Each search is an ordinary run, and its row is exported when it ends. An arm's seed i means a run with seed i
and, for a trained arm, the i-th trained model. A problem is solved if the shortest program that is right on
all training rows is also right on all held-out rows.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from evovpo.errors import raise_faults
from evovpo.experiments.batch_file import Batch, Variant
from evovpo.experiments.batch_plan import plan_cells
from evovpo.experiments.cell_runs import Work, only_batch, sized
from evovpo.experiments.pool import FailedTask, Message, TaskDone, TaskProgress, kept_processes, run_all
from evovpo.store import Store
from evovpo.types import PolicyVersion
from trainer.domains.catalogue import START_FOLDERS, open_domain
from trainer.domains.sampling import model_folder
from trainer.experiments.study import START, Study, StudyArm, StudyStrategy, store_url
from trainer.experiments.study_export import Export, SearchKey, search_row
from trainer.experiments.study_trainings import finals, grid, model_of, run_tests, run_trainings, tuned_arms
from trainer.learning.policy_models import load_tokenizer

OnStage: TypeAlias = Callable[[str, int, int | None, str], None]
"""A progress callback. It gets a stage, number done, total (if known), and the reason if searches wait."""


def check(study: Study, work: Path) -> None:
    """Check the searches, the models and the store of a study without running anything.

    Raises `PolicyError` if a model has no tokenizer, and `ConfigError` for any other fault.
    """
    _check_tokens(study)
    faults: list[str] = []
    work.mkdir(parents=True, exist_ok=True)
    if study.test.tasks:
        return
    trials = [  # with the start model in place of models still to be trained
        _batch(study, arm, study.start, 0, [study.strategy(name) for name in arm.strategies])
        for arm in study.arms
    ]
    trials = [one.model_copy(update={"name": f"{study.name} (trial)"}) for one in trials]
    plan_cells(trials, store_url(work), faults)
    raise_faults(faults)


def _check_tokens(study: Study) -> None:
    answering = [arm for arm in study.arms if arm.objective or study.test.tasks]
    folders = {study.start if arm.model in ("", START) else Path(arm.model) for arm in answering}
    if others := sorted(folders - {START_FOLDERS[study.domain]}):
        with open_domain(study.domain, tasks=1) as domain:
            for folder in others:
                version = PolicyVersion(0, None, str(model_folder(str(folder))))
                domain.check_tokens(load_tokenizer(version))


@kept_processes()
def run_study(
    study: Study, export: Export, work: Path, processes: int, on_stage: OnStage
) -> list[FailedTask]:
    """Run the missing parts of a study, add their rows to `export`, and return the failed searches.

    `work` is the folder for models and the store. Raises `ConfigError` if existing rows were made with other
    settings, and `StoreError` if the store fails.
    """
    export.hold(study)
    left = {arm.name: {key.seed for key in export.missing(study, arm)} for arm in study.arms}

    def stage(name: str, done: int, total: int | None) -> Callable[[str], None]:
        on_stage(name, done, total, "")
        count = itertools.count(done + 1)
        return lambda part: on_stage(f"{name}: {part}", next(count), total, "")

    points = {one.name: one for arm in tuned_arms(study) for one in grid(study, arm)}
    told = stage("tuning", sum(name in export.trainings for name in points), len(points))
    run_trainings(study, export, work, list(points.values()), processes, told)

    needed = (one for arm in study.arms for one in finals(study, arm, export) if one.seed in left[arm.name])
    trained = {one.name: one for one in needed}
    told = stage("training", sum((work / "models" / name).exists() for name in trained), len(trained))
    run_trainings(study, export, work, list(trained.values()), processes, told)

    if study.test.tasks:
        models = sum(len({key.seed for key in export.missing(study, arm)}) for arm in study.arms)
        run_tests(study, export, work, processes, stage("answering test tasks", 0, models))
        return []
    return _run_searches(study, export, work, processes, partial(on_stage, "searching"))


def _batch(study: Study, arm: StudyArm, model: Path, seed: int, strategies: Sequence[StudyStrategy]) -> Batch:
    proposer = Variant(arm.name, {"proposer": {"name": "local", "model": str(model)}})
    return Batch(
        name=study.name, problems=study.problems, evaluations=(arm.evaluations,), seeds=(seed,),
        proposers=(proposer,), origin=f"{study.path}: arm {arm.name}",
        strategies=tuple(Variant(one.name, one.settings_for(arm)) for one in strategies),
    )  # fmt: skip


def _run_searches(
    study: Study, export: Export, work: Path, processes: int, on_search: Callable[[int, int, str], None]
) -> list[FailedTask]:
    faults: list[str] = []
    url = store_url(work)
    wanted = [key for arm in study.arms for key in export.missing(study, arm)]
    batches = []
    for name, seed in dict.fromkeys((key.arm, key.seed) for key in wanted):
        arm, names = study.arm(name), {key.strategy for key in wanted if (key.arm, key.seed) == (name, seed)}
        strategies = [one for one in study.strategies if one.name in names]
        batches.append(_batch(study, arm, model_of(study, export, work, arm, seed), seed, strategies))
    works = [one for one in plan_cells(batches, url, faults) if _key_of(one) in set(wanted)]
    raise_faults(faults)
    by_run = {one.name: one for one in works}
    with Store.open(url, create=True) as store, only_batch(url):

        def export_one(run_id: str, cpu_seconds: float | None = None) -> None:
            one = by_run.pop(run_id)
            is_independent = study.strategy(one.cell.arm.strategy).is_independent
            row = search_row(store, run_id, one.problem, study.ks if is_independent else ())
            if cpu_seconds is not None:
                row["cpu_seconds"] = round(cpu_seconds, 3)
            export.add_searches([_key_of(one)._asdict() | row])

        def take(message: Message) -> None:
            if isinstance(message, TaskDone):
                export_one(message.name, message.value.cpu_seconds)
            if isinstance(message, FailedTask):
                by_run.pop(message.name)
            waits = message.value.waits if isinstance(message, TaskProgress) else ""
            on_search(len(works) - len(by_run), len(works), waits)

        for one in works:  # finished, but interrupted before their rows were written
            if one.is_finished:
                export_one(one.name)
        on_search(len(works) - len(by_run), len(works), "")
        return run_all(sized([*by_run.values()], processes), processes, take)


def _key_of(work: Work) -> SearchKey:
    cell = work.cell
    return SearchKey(cell.arm.proposer, cell.arm.strategy, cell.seed, cell.problem_id)
