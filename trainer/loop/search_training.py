"""Training while searching: between parts of its runs the model learns from the problems that it searches.

Every problem is one run. A round carries each run that is not solved a part of its budget further, with the
model served then; a training on the groups of the round gives the model of the next round. Populations go
on, so that nothing but the model changes: with one round this is a plain search, its baseline.

All of it lies in one folder: the store, the policies, and a file for each part that is done, because the
store knows no CPU time. Killed anywhere, the same call goes on; what was stored of a part that was cut short
is kept, but not the CPU time that it took. No held-out problem guards a training: only one that diverges is
not served. The optimiser begins anew in each training.
"""

import json
import multiprocessing
import os
import resource
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch

from evovpo.errors import ConfigError
from evovpo.experiments.pool import end_with_parent
from evovpo.files import write_json
from evovpo.store import Store, rises, solved_at
from trainer.loop.loop import SearchTraining
from trainer.loop.turns import LoopWatch, Turns, parts_of

_Part = TypeVar("_Part", "SearchPart", "TrainingPart")


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class ProblemResult:
    """What the search of one problem came to."""

    problem: str
    run: str
    evaluations: int
    solved_after: int | None
    """Evaluations up to the first program that is right on all training rows; none if there is none."""
    curve: tuple[tuple[int, float], ...]
    """Evaluations and best mean reward, wherever that rises."""
    tokens: int
    """Completion tokens sampled."""
    cpu_seconds: float
    """Of the search alone."""


@dataclass(frozen=True)
class SearchTrainingResult:
    """What all of it came to; `result.json` in the folder holds the same."""

    problems: tuple[ProblemResult, ...]
    trainings: tuple[TrainingPart, ...]
    search_cpu_seconds: float
    training_cpu_seconds: float

    @property
    def compute_ratio(self) -> float:
        """Return all CPU seconds by those of the searches alone: what a frozen search may use as well."""
        return 1.0 + self.training_cpu_seconds / self.search_cpu_seconds


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
    part = replace(found, cpu_seconds=round(cpu, 3), seconds=round(seconds, 3))
    write_json(file, asdict(part))
    return part


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of the children that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _sum_up(
    plan: SearchTraining, folder: Path, searches: Sequence[SearchPart], trainings: Sequence[TrainingPart]
) -> SearchTrainingResult:
    """Return what the parts of all problems came to, and write it to `result.json`."""
    found = []
    with Store.open(store_url(folder), create=False) as store:
        for problem in plan.searched:
            parts = [part for part in searches if part.problem == problem.id]
            summary = store.run_summary(parts[0].run)
            found.append(
                ProblemResult(
                    problem=problem.id,
                    run=parts[0].run,
                    evaluations=summary.proposed,
                    solved_after=solved_at(summary.curve, len(problem.objectives)),
                    curve=tuple(rises(summary.curve)),
                    tokens=summary.tokens,
                    cpu_seconds=round(sum(part.cpu_seconds for part in parts), 3),
                )
            )
    result = SearchTrainingResult(
        tuple(found),
        tuple(trainings),
        round(sum(part.cpu_seconds for part in searches), 3),
        round(sum(part.cpu_seconds for part in trainings), 3),
    )
    shown = asdict(result) | {"compute_ratio": round(result.compute_ratio, 4)}
    write_json(folder / "result.json", shown)
    return result


def search_while_training(
    plan: SearchTraining,
    folder: Path,
    processes: int = 2,
    on_part: Callable[[SearchPart | TrainingPart], None] = lambda part: None,
) -> SearchTrainingResult:
    """Do what is missing of a plan in `folder`, and return what it came to.

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
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_watch_parent) as pool:
        for number in range(1, plan.rounds + 1):
            futures = [pool.submit(search_part, plan, folder, number, index) for index in going]
            try:
                for future in as_completed(futures):
                    on_part(future.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            found = [future.result() for future in futures]
            searches += found
            going = [index for index, part in zip(going, found, strict=True) if not part.is_ended]
            if not going or number == plan.rounds:
                break
            trainings.append(pool.submit(training_part, plan, folder, number).result())
            on_part(trainings[-1])
    return _sum_up(plan, folder, searches, trainings)


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
        files = (folder / "parts").glob("*-training.json")
        rounds = [json.loads(file.read_text()) for file in files]
        before = [one["through"] for one in rounds if one["round"] < number]
        said: list[str] = []
        turns = Turns(plan, store, folder / "policies", LoopWatch(not_trained=said.append))
        turns.train_what_is_new(runs=plan.run_ids(number))
        read = {
            one.id: {part.run_id: part.through for part in parts_of(one) if part.through}
            for one in turns.trainings()
        }
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


def _watch_parent() -> None:
    """Search and train with one thread, and end when the parent is gone: the next call goes on from there."""
    torch.set_num_threads(1)
    threading.Thread(target=end_with_parent, daemon=True).start()
