"""Training while searching: between parts of its runs the model learns from the problems that it searches.

Every problem is one run. A round carries each run that is not solved a part of its budget further, with the
model served then; a training on the groups of the round gives the model of the next round. Populations go
on, so that nothing but the model changes: with one round this is a plain search, its baseline.

All of it lies in one folder: the store, the policies, and a file for each part that is done. Killed
anywhere, the same call goes on; what was stored of a part that was cut short is kept, but not the CPU time
that it took. No held-out problem guards a training: only one that diverges is not served. The optimiser
begins anew in each training.
"""

import json
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from evovpo.config import Config
from evovpo.experiments.pool import end_with_parent
from evovpo.store import Store
from evovpo.types import content_id
from trainer.loop.loop import Loop
from trainer.loop.parts import (
    SearchPart,
    SearchTrainingResult,
    TrainingPart,
    claim,
    done_once,
    store_url,
    sum_up,
)
from trainer.loop.turns import LoopWatch, Turns, parts_of


@dataclass(frozen=True)
class SearchTraining(Loop):
    """A loop whose rounds carry the same runs on, without held-out problems."""

    rounds: int
    """Parts of a run, of which `search.evaluations` is the budget; between two of them is a training."""

    @cached_property
    def id(self) -> str:
        """Return a hash of all that it does."""
        versions = (problem.version for problem in self.searched)
        return content_id(self.search.to_json(), self.train.to_json(), str(self.rounds), *versions)

    def run_id(self, round_number: int, index: int) -> str:
        """Return the id of the run of problem `index`, the same in every round."""
        return content_id("search-training", self.id, self.searched[index].id)

    def owns(self, run_id: str) -> bool:
        """True for the id of one of its runs."""
        return run_id in self.run_ids(1)

    def settings(self, round_number: int) -> Config:
        """Return the settings of the runs."""
        return self.search

    def pause_at(self, round_number: int) -> int:
        """Return after how many evaluations of a run a round (from 1) ends."""
        return self.search.search.evaluations * round_number // self.rounds


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
    about = {"rounds": plan.rounds, "problems": [problem.id for problem in plan.searched]}
    claim(folder, plan.id, about | {"search": plan.search.to_json(), "train": plan.train.to_json()})
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
    return sum_up(folder, plan.searched, searches, trainings)


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

    return done_once(SearchPart, folder, f"{number:03d}-search-{index:03d}", search)


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

    return done_once(TrainingPart, folder, f"{number:03d}-training", train)


def _watch_parent() -> None:
    """Search and train with one thread, and end when the parent is gone: the next call goes on from there."""
    torch.set_num_threads(1)
    threading.Thread(target=end_with_parent, daemon=True).start()
