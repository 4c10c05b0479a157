"""The searches of arms that train while they search: rounds over all problems, with a training between two.

Every problem is one run. A round carries each run that is not solved a part of its budget further, with the
model served then; a training on the groups of the round gives the model of the next round. Populations go
on, so that nothing but the model changes: with one round this is a plain search, its baseline. The model
starts from the study's start model, and learns from nothing but the problems that are searched.

All of it lies in one folder: the store, the policies, and a file for each part that is done, because the
store knows no CPU time. Killed anywhere, the same call goes on; what was stored of a part that was cut short
is kept, but not the CPU time that it took. No held-out problem guards a training: only one that diverges is
not served. The optimiser begins anew in each training.
"""

import dataclasses
import json
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from evovpo.errors import ConfigError
from evovpo.experiments.pool import kept_processes
from evovpo.files import write_json
from evovpo.problem.folder import load_problem
from evovpo.store import Store
from trainer.domains.on_policy import Arm
from trainer.experiments.export import Export, search_row
from trainer.experiments.records import Study, StudyArm
from trainer.experiments.trainings import Job, chosen, finish
from trainer.loop.loop import SearchTraining, plan_search_training
from trainer.loop.turns import LoopWatch, Turns, parts_of

_Part = TypeVar("_Part", "SearchPart", "TrainingPart")


@dataclasses.dataclass(frozen=True)
class SearchPart:
    """One round of one run."""

    run: str
    problem: str
    round: int
    evaluations: int
    """Of the run so far."""
    solved: bool
    is_ended: bool
    """True if there is nothing left for later rounds."""
    cpu_seconds: float = 0.0
    """Of the process that sampled, and of the sandbox."""
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class TrainingPart:
    """The training after a round."""

    round: int
    version: int | None
    """The policy version that it made; none if it made none."""
    why_not: str
    """Why it made none: nothing to train on, or diverged; else empty."""
    through: dict[str, str]
    """The prompt of the last group that it read, by run."""
    steps: int
    groups: int
    """Trained on, each as often as it was."""
    tokens: int
    """Completion tokens trained on, likewise."""
    cpu_seconds: float = 0.0
    """Reading the groups, training, writing and checking the version."""
    seconds: float = 0.0


def check_while_searching(study: Study, faults: list[str]) -> None:
    """Add what is wrong with the arms that train while they search."""
    for arm in study.arms:
        if arm.while_searching and arm.arm is not None:
            for strategy in arm.strategies:
                try:
                    _plan(study, arm, strategy, dataclasses.replace(arm.arm, learning_rate=1e-4, kl=0.0), 0)
                except ConfigError as error:
                    faults.append(f"{study.path}: arm {arm.name}, strategy {strategy}: {error}")


def run_while_searching(
    study: Study, export: Export, work: Path, processes: int, on_part: Callable[[str], None]
) -> None:
    """Make the searches of these arms that have no row, and export a row for each problem.

    `on_part` is told what ends on the way. What is done of a seed is kept in its folder below `work`.
    """
    for arm in (one for one in study.arms if one.while_searching):
        settings = chosen(study, arm, export)
        assert settings is not None  # what it is tuned as was tuned before
        for strategy, seed in sorted({(key.strategy, key.seed) for key in export.missing(study, arm)}):
            name = f"{arm.name}, {strategy}, seed {seed}"
            plan = _plan(study, arm, strategy, settings, seed)
            folder = work / "while-searching" / name.replace(", ", "-").replace(" ", "-")

            def told(part: SearchPart | TrainingPart, name: str = name) -> None:
                what = f"searched {part.problem}" if isinstance(part, SearchPart) else "trained"
                on_part(f"{name}: round {part.round}, {what}")

            searches, trainings = search_while_training(plan, folder, processes, told)
            share = sum(part.cpu_seconds for part in trainings) / len(plan.searched)
            with Store.open(store_url(folder)) as store:
                for problem, run in zip(plan.searched, plan.run_ids(1), strict=True):
                    key = {"arm": arm.name, "strategy": strategy, "seed": seed, "problem": problem.id}
                    row = search_row(store, run, problem, ())
                    seconds = sum(part.cpu_seconds for part in searches if part.run == run)
                    cost = {"cpu_seconds": round(seconds, 3), "training_seconds": round(share, 3)}
                    export.add_searches([key | row | cost])


@kept_processes()
def search_while_training(
    plan: SearchTraining,
    folder: Path,
    processes: int = 2,
    on_part: Callable[[SearchPart | TrainingPart], None] = lambda part: None,
) -> tuple[list[SearchPart], list[TrainingPart]]:
    """Do what is missing of a plan in `folder`, and return all its parts, in the order of the rounds.

    `on_part` is told each part that ends, those done before too. Raises `ConfigError` if the folder holds
    another plan, `StoreError` as the store does (also if another process searches the same runs),
    `TrainingError` and `PublishError` as `retrain` does.
    """
    _claim(plan, folder)
    with Store.open(store_url(folder), create=True) as store:
        Turns(plan, store, folder / "policies").begin()
    searches: list[SearchPart] = []
    trainings: list[TrainingPart] = []
    going = list(range(len(plan.searched)))
    for number in range(1, plan.rounds + 1):
        if number > 1:
            training = Job("training", partial(training_part, plan, folder, number - 1))
            trainings += finish([training], 1, lambda _, part: on_part(part))
        jobs = [Job(f"search {index}", partial(search_part, plan, folder, number, index)) for index in going]
        found = finish(jobs, processes, lambda _, part: on_part(part))
        searches += found
        going = [index for index, part in zip(going, found, strict=True) if not part.is_ended]
        if not going:
            break
    return searches, trainings


def _claim(plan: SearchTraining, folder: Path) -> None:
    """Make a folder the plan's own. Raises `ConfigError` if it is another's."""
    path = folder / "plan.json"
    (folder / "parts").mkdir(parents=True, exist_ok=True)
    if not path.exists():
        about = {"id": plan.id, "rounds": plan.rounds, "problems": [one.id for one in plan.searched]}
        write_json(path, about | {"search": plan.search.to_json(), "train": plan.train.to_json()})
    elif json.loads(path.read_text())["id"] != plan.id:
        raise ConfigError(
            f"{folder} holds searches that train with other settings, problems or rounds ({path}); "
            "finish them with those, or give another folder"
        )


def store_url(folder: Path) -> str:
    """Return the store in a folder."""
    return f"sqlite:///{(folder / 'runs.db').resolve()}"


def _done_once(kind: type[_Part], folder: Path, name: str, work: Callable[[Store], _Part]) -> _Part:
    """Return a part from its file, or else do it and write it there with the time that it took."""
    file = folder / "parts" / f"{name}.json"
    if file.exists():
        return kind(**json.loads(file.read_text()))
    cpu, began = _cpu_seconds(), time.monotonic()
    with Store.open(store_url(folder), create=False) as store:
        found = work(store)
    cpu, seconds = _cpu_seconds() - cpu, time.monotonic() - began
    part = dataclasses.replace(found, cpu_seconds=round(cpu, 3), seconds=round(seconds, 3))
    write_json(file, dataclasses.asdict(part))
    return part


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of the children that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def search_part(plan: SearchTraining, folder: Path, number: int, index: int) -> SearchPart:
    """Carry the run of a problem through a round, unless that is done; for a process of its own."""

    def search(store: Store) -> SearchPart:
        outcome = Turns(plan, store, folder / "policies").search_problem(number, index)
        return SearchPart(
            run=outcome.run,
            problem=plan.searched[index].id,
            round=number,
            evaluations=outcome.evaluations,
            solved=outcome.solved,
            is_ended=store.run(outcome.run).status.is_finished,
        )

    return _done_once(SearchPart, folder, f"{number:03d}-search-{index:03d}", search)


def training_part(plan: SearchTraining, folder: Path, number: int) -> TrainingPart:
    """Train on the groups of a round and serve what comes of it, unless that is done; see `search_part`."""

    def train(store: Store) -> TrainingPart:
        rounds = [json.loads(file.read_text()) for file in (folder / "parts").glob("*-training.json")]
        before = [one["through"] for one in rounds if one["round"] < number]
        said: list[str] = []
        turns = Turns(plan, store, folder / "policies", LoopWatch(not_trained=said.append))
        turns.train_what_is_new(runs=plan.run_ids(number))
        parts = {one.id: parts_of(one) for one in turns.trainings()}
        read = {id_: {part.run_id: part.through for part in of if part.through} for id_, of in parts.items()}
        training = next((id_ for id_, through in read.items() if through not in before), "")
        steps = store.training_steps(training)
        versions = {one.config_hash: one.number for one in store.policy_versions() if one.config_hash}
        version = versions.get(training)
        ends = [one.detail for one in store.policy_events() if one.training_id == training]
        return TrainingPart(
            round=number,
            version=version,
            why_not="" if version is not None else [*ends, *said, "no new group"][0],
            through=read.get(training, {}),
            steps=len(steps),
            groups=sum(step.groups for step in steps),
            tokens=sum(step.tokens for step in steps),
        )

    return _done_once(TrainingPart, folder, f"{number:03d}-training", train)


def _plan(study: Study, arm: StudyArm, strategy: str, settings: Arm, seed: int) -> SearchTraining:
    problems = [load_problem(path) for path in study.problems]
    searched = study.strategy(strategy).settings_for(arm)
    spent = {"evaluations": arm.evaluations, "rounds": arm.while_searching, "seed": seed}
    return plan_search_training(problems, searched, settings, study.start, **spent)
