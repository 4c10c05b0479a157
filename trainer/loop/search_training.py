"""Training while searching: between parts of its runs the model learns from the problems that it searches.

Every problem is one run. A round carries each run that is not solved a part of its budget further, with the
model served then; a training on the groups of the round gives the model of the next round. Populations go
on, so that nothing but the model changes: with one round this is a plain search, its baseline.

All of it lies in one folder: the store, the policies, and a file for each part that is done. Killed
anywhere, the same call goes on; what was stored of a part that was cut short is kept, but not the CPU time
that it took. No held-out problem guards a training: only one that diverges is not served. The optimiser
begins anew in each training.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from evovpo.config import Config
from evovpo.errors import ConfigError, DivergedError, NothingToTrainError
from evovpo.files import write_json
from evovpo.reports.report import solved_at
from evovpo.runs.prompt_format import choose_format
from evovpo.runs.proposer import check_proposer
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start_or_resume
from evovpo.store import Store
from evovpo.types import Json, PolicyVersion, Problem, Training, content_id
from trainer.config import ObjectiveConfig, RunConfig, TrainConfig, UpdateConfig
from trainer.experiments.arms import Arm
from trainer.loop.retrain import retrain, serve_start_model
from trainer.objectives import find_objective


@dataclass(frozen=True)
class SearchTraining:
    """Searches that train as they go; `plan_search_training` makes one that is checked."""

    problems: tuple[Problem, ...]
    search: Config
    """Of every run: its model, `search.evaluations` for all rounds together, and its seed."""
    train: TrainConfig
    rounds: int
    """Parts of a run; between two of them is a training."""

    @property
    def id(self) -> str:
        """Return a hash of all that it does."""
        versions = (problem.version for problem in self.problems)
        return content_id(self.search.to_json(), self.train.to_json(), str(self.rounds), *versions)

    def run_id(self, index: int) -> str:
        """Return the id of the run of problem `index`."""
        return content_id("search-training", self.id, self.problems[index].id)

    def pause_at(self, round_number: int) -> int:
        """Return after how many evaluations of a run a round (from 1) ends."""
        return self.search.search.evaluations * round_number // self.rounds


class SearchPart(NamedTuple):
    """One round of one run."""

    run: str
    problem: str
    round: int
    evaluations: int
    """Of the run so far."""
    solved: bool
    is_ended: bool
    """True if there is nothing left for later rounds."""
    cpu_seconds: float
    """Of the process that sampled, and of the sandbox."""
    seconds: float


class TrainingPart(NamedTuple):
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
    cpu_seconds: float
    """Reading the groups, training, writing and checking the version."""
    seconds: float


class ProblemResult(NamedTuple):
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


class SearchTrainingResult(NamedTuple):
    """What all of it came to; `result.json` in the folder holds the same."""

    problems: tuple[ProblemResult, ...]
    trainings: tuple[TrainingPart, ...]
    search_cpu_seconds: float
    training_cpu_seconds: float

    @property
    def compute_ratio(self) -> float:
        """Return all CPU seconds by those of the searches alone: what a frozen search may use as well."""
        return 1.0 + self.training_cpu_seconds / self.search_cpu_seconds


# ---------------------------------------------------------------- planning


def plan_search_training(
    problems: Sequence[Problem],
    settings: Mapping[str, object],
    arm: Arm,
    start_model: Path,
    *,
    evaluations: int,
    rounds: int,
    seed: int,
    groups_per_step: int = 8,
) -> SearchTraining:
    """Return the searches of these problems that train by an arm's objective, learning rate, KL and passes.

    `settings` are sections as in a configuration file, the strategy of the searches: `search.answers` must
    be the arm's. Raises `ConfigError` naming all that does not go together, `ProblemError` for a problem
    that the model cannot write for.
    """
    config = Config.load(None, (), _sections(settings, start_model, evaluations, seed))
    asked = config.search
    faults = []
    if not problems:
        faults.append("no problem to search; name at least one")
    if not 1 <= rounds <= evaluations // (asked.answers * asked.rollouts):
        faults.append(
            f"{rounds} rounds of {evaluations} evaluations, {asked.answers * asked.rollouts} an ask; "
            "expected 1 round or more with at least one ask in each"
        )
    if asked.answers != arm.answers:
        faults.append(
            f"search.answers is {asked.answers}, and the arm trains on {arm.answers} answers a completion; "
            "give both the same"
        )
    if asked.rollouts < 2:
        faults.append(f"search.rollouts is {asked.rollouts}; a group to train on needs 2 or more")
    faults += [
        f"{name} is {getattr(arm, name):g}; what prompts ask for is the search's: leave it out"
        for name in ("single_share", "parent_share")
        if getattr(arm, name)
    ]
    objective = ObjectiveConfig(**{"name": arm.objective, **arm.settings})
    faults += [
        f"{name} of the objective is {getattr(objective, name)}; expected less than search.rollouts, "
        f"{asked.rollouts}"
        for name in ("k", "c")
        if name in find_objective(arm.objective).settings and getattr(objective, name) >= asked.rollouts
    ]
    if faults:
        raise ConfigError(f"arm {arm.name}, training while it searches: " + "; ".join(faults))
    for problem in problems:
        check_proposer(problem, config)
        choose_format(problem, config)
    train = TrainConfig(
        objective=objective,
        update=UpdateConfig(
            learning_rate=arm.learning_rate,
            kl=arm.kl,
            entropy=arm.entropy,
            passes=arm.passes,
            groups_per_step=groups_per_step,
        ),
        run=RunConfig(seed=seed),
    )
    return SearchTraining(tuple(problems), config, train, rounds)


def _sections(
    settings: Mapping[str, object], start_model: Path, evaluations: int, seed: int
) -> dict[str, object]:
    """Return the settings of the runs: one ask at a time, so that they repeat; the model that is served."""
    search = settings.get("search", {})
    assert isinstance(search, Mapping)
    return {
        **settings,
        "search": {"in_flight": 1, **search, "evaluations": evaluations},
        "proposer": {"name": "local", "model": str(start_model.resolve()), "policy": "served", "threads": 1},
        "sandbox": {"workers": 1},
        "run": {"seed": seed},
    }


# ---------------------------------------------------------------- doing


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
    _claim(folder, plan)
    with Store.open(store_url(folder), create=True) as store:
        serve_start_model(store, PolicyVersion(0, None, plan.search.proposer.model))
    searches: list[SearchPart] = []
    trainings: list[TrainingPart] = []
    going = list(range(len(plan.problems)))
    with _pool(processes) as pool:
        for number in range(1, plan.rounds + 1):
            found: dict[int, SearchPart] = {}
            waiting: dict[Future[SearchPart], int] = {}
            for index in going:
                done = _read_search(folder, number, index)
                if done is None:
                    waiting[pool.submit(search_part, plan, folder, number, index)] = index
                else:
                    found[index] = done
                    on_part(done)
            try:
                for future in as_completed(waiting):
                    found[waiting[future]] = future.result()
                    on_part(future.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            searches += found.values()
            going = [index for index in going if not found[index].is_ended]
            if not going or number == plan.rounds:
                break
            trained = _read_training(folder, number)
            trainings.append(trained or pool.submit(training_part, plan, folder, number).result())
            on_part(trainings[-1])
    result = _result(plan, folder, searches, trainings)
    write_json(folder / "result.json", result_json(result))
    return result


def store_url(folder: Path) -> str:
    """Return the store in a folder."""
    return f"sqlite:///{(folder / 'runs.db').resolve()}"


def search_part(plan: SearchTraining, folder: Path, number: int, index: int) -> SearchPart:
    """Carry the run of a problem through a round, unless that is done; for a process of its own."""
    done = _read_search(folder, number, index)
    if done is not None:
        return done
    cpu, began = _cpu_seconds(), time.monotonic()
    run_id, problem, pause_at = plan.run_id(index), plan.problems[index], plan.pause_at(number)
    with Store.open(store_url(folder), create=False) as store:
        request = RunRequest(problem, plan.search, run_id=run_id, pause_at=pause_at)
        outcome = start_or_resume(request, store)
    asked = plan.search.search
    part = SearchPart(
        run=run_id,
        problem=problem.id,
        round=number,
        evaluations=outcome.evaluations,
        solved=outcome.solved,
        is_ended=bool(outcome.stopped)
        or (outcome.solved and asked.stop_when_solved)
        or outcome.evaluations >= asked.evaluations,
        cpu_seconds=round(_cpu_seconds() - cpu, 3),
        seconds=round(time.monotonic() - began, 3),
    )
    write_json(_search_path(folder, number, index), part._asdict())
    return part


def training_part(plan: SearchTraining, folder: Path, number: int) -> TrainingPart:
    """Train on the groups of a round and serve what comes of it, unless that is done; see `search_part`."""
    done = _read_training(folder, number)
    if done is not None:
        return done
    cpu, began = _cpu_seconds(), time.monotonic()
    searched = (_read_search(folder, number, index) for index in range(len(plan.problems)))
    runs = [part.run for part in searched if part is not None]
    read: dict[str, str] = {}
    for earlier in range(1, number):
        trained = _read_training(folder, earlier)
        read |= {} if trained is None else trained.through
    after = {run: read[run] for run in runs if run in read}
    training, version, why_not = None, None, ""
    with Store.open(store_url(folder), create=False) as store:
        try:
            if _served_before(store, runs, after) is None:
                retrain(store, runs, plan.train, policies=folder / "policies", after=after, problems=())
            training, version = _served_before(store, runs, after) or (None, None)
        except NothingToTrainError as error:
            why_not = str(error)
        except DivergedError as error:
            training, why_not = store.trainings()[-1], str(error)
        steps = [] if training is None else store.training_steps(training.id)
    through = {} if training is None else dict(zip(training.runs, training.through, strict=True))
    part = TrainingPart(
        round=number,
        version=None if version is None else version.number,
        why_not=why_not,
        through={run: last for run, last in through.items() if last is not None},
        steps=len(steps),
        groups=sum(step.groups for step in steps),
        tokens=sum(step.tokens for step in steps),
        cpu_seconds=round(_cpu_seconds() - cpu, 3),
        seconds=round(time.monotonic() - began, 3),
    )
    write_json(_training_path(folder, number), part._asdict())
    return part


def _served_before(
    store: Store, runs: Sequence[str], after: Mapping[str, str]
) -> tuple[Training, PolicyVersion] | None:
    """Return the training of these groups whose version was served, with the version, or none."""
    served = {event.number for event in store.policy_events() if event.kind.is_serving}
    for training in store.trainings():
        if training.runs == tuple(runs) and training.after == tuple(after.get(run) for run in runs):
            for version in store.policy_versions():
                if version.config_hash == training.id and version.number in served:
                    return training, version
    return None


# ---------------------------------------------------------------- what came of it


def result_json(result: SearchTrainingResult) -> dict[str, Json]:
    """Return a result as JSON."""
    found: dict[str, Json] = json.loads(
        json.dumps(
            {
                **result._asdict(),
                "problems": [one._asdict() for one in result.problems],
                "trainings": [one._asdict() for one in result.trainings],
                "compute_ratio": round(result.compute_ratio, 4),
            }
        )
    )
    return found


def _result(
    plan: SearchTraining, folder: Path, searches: Sequence[SearchPart], trainings: Sequence[TrainingPart]
) -> SearchTrainingResult:
    with Store.open(store_url(folder), create=False) as store:
        problems = tuple(
            _problem_result(store, problem, [part for part in searches if part.run == plan.run_id(index)])
            for index, problem in enumerate(plan.problems)
        )
    return SearchTrainingResult(
        problems,
        tuple(trainings),
        round(sum(part.cpu_seconds for part in searches), 3),
        round(sum(part.cpu_seconds for part in trainings), 3),
    )


def _problem_result(store: Store, problem: Problem, parts: Sequence[SearchPart]) -> ProblemResult:
    run_id = parts[0].run
    summary = store.run_summary(run_id)
    curve: list[tuple[int, float]] = []
    for point in summary.curve:
        if not curve or point.best_mean_reward > curve[-1][1]:
            curve.append((point.evaluations, point.best_mean_reward))
    return ProblemResult(
        problem=problem.id,
        run=run_id,
        evaluations=summary.proposed,
        solved_after=solved_at(summary.curve, len(problem.objectives)),
        curve=tuple(curve),
        tokens=summary.tokens,
        cpu_seconds=round(sum(part.cpu_seconds for part in parts), 3),
    )


# ---------------------------------------------------------------- files and processes


def _claim(folder: Path, plan: SearchTraining) -> None:
    """Make a folder the plan's own. Raises `ConfigError` if it is another's."""
    path = folder / "plan.json"
    (folder / "parts").mkdir(parents=True, exist_ok=True)
    if path.exists():
        if json.loads(path.read_text())["id"] != plan.id:
            raise ConfigError(
                f"{folder} holds searches that train with other settings, problems or rounds ({path}); "
                "finish them with those, or give another folder"
            )
        return
    about = {"id": plan.id, "rounds": plan.rounds, "problems": [problem.id for problem in plan.problems]}
    write_json(path, about | {"search": plan.search.to_json(), "train": plan.train.to_json()})


def _search_path(folder: Path, number: int, index: int) -> Path:
    return folder / "parts" / f"{number:03d}-search-{index:03d}.json"


def _training_path(folder: Path, number: int) -> Path:
    return folder / "parts" / f"{number:03d}-training.json"


def _read_search(folder: Path, number: int, index: int) -> SearchPart | None:
    path = _search_path(folder, number, index)
    return SearchPart(**json.loads(path.read_text())) if path.exists() else None


def _read_training(folder: Path, number: int) -> TrainingPart | None:
    path = _training_path(folder, number)
    return TrainingPart(**json.loads(path.read_text())) if path.exists() else None


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of the children that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Yield processes that search and train with one thread each, and end with this one."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_watch_parent) as pool:
        yield pool


def _watch_parent() -> None:
    """End this process when its parent is gone: the next call takes up what it searches."""
    torch.set_num_threads(1)

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
