"""Training while searching: between parts of its runs the model learns from the problems that it searches.

Every problem is one run. A round carries each run that is not solved a part of its budget further, with the
model served then; a training on the groups of the round gives the model of the next round. Populations go
on, so that nothing but the model changes: with one round this is a plain search, its baseline.

All of it lies in one folder: the store, the policies, and a file for each part that is done. Killed
anywhere, the same call goes on; what was stored of a part that was cut short is kept, but not the CPU time
that it took. No held-out problem guards a training: only one that diverges is not served. The optimiser
begins anew in each training.
"""

import multiprocessing
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from evovpo.config import Config
from evovpo.store import Store
from evovpo.types import content_id
from trainer.loop.loop import Loop
from trainer.loop.parts import (
    SearchPart,
    SearchTrainingResult,
    TrainingPart,
    claim,
    read_part,
    search_file,
    store_url,
    sum_up,
    training_file,
    written,
)
from trainer.loop.turns import (
    LoopWatch,
    begin,
    loop_trainings,
    read_through,
    search_problem,
    train_round,
)


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
        begin(plan, store)
    searches: list[SearchPart] = []
    trainings: list[TrainingPart] = []
    going = list(range(len(plan.searched)))
    with _pool(processes) as pool:
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
    file = search_file(folder, number, index)
    done = read_part(SearchPart, file)
    if done is not None:
        return done
    cpu, began = _cpu_seconds(), time.monotonic()
    with Store.open(store_url(folder), create=False) as store:
        outcome = search_problem(plan, store, number, index, LoopWatch())
        status = store.run(outcome.run).status
    part = SearchPart(
        run=outcome.run,
        problem=plan.searched[index].id,
        round=number,
        evaluations=outcome.evaluations,
        solved=outcome.solved,
        is_ended=status.is_finished,
        cpu_seconds=round(_cpu_seconds() - cpu, 3),
        seconds=round(time.monotonic() - began, 3),
    )
    return written(file, part)


def training_part(plan: SearchTraining, folder: Path, number: int) -> TrainingPart:
    """Train on the groups of a round and serve what comes of it, unless that is done; see `search_part`."""
    file = training_file(folder, number)
    done = read_part(TrainingPart, file)
    if done is not None:
        return done
    cpu, began = _cpu_seconds(), time.monotonic()
    before = (read_part(TrainingPart, training_file(folder, n)) for n in range(1, number))
    read_before = [part.through for part in before if part is not None]
    with Store.open(store_url(folder), create=False) as store:
        said: list[str] = []
        train_round(plan, store, number, folder / "policies", LoopWatch(not_trained=said.append))
        of_round = (one for one in loop_trainings(plan, store) if read_through(one) not in read_before)
        training = next(of_round, None)
        steps = [] if training is None else store.training_steps(training.id)
        versions = {one.config_hash: one.number for one in store.policy_versions()}
        ends = [one.detail for one in store.policy_events() if training and one.training_id == training.id]
    version = None if training is None else versions.get(training.id)
    part = TrainingPart(
        round=number,
        version=version,
        why_not="" if version is not None else [*ends, *said, "no new group"][0],
        through={} if training is None else read_through(training),
        steps=len(steps),
        groups=sum(step.groups for step in steps),
        tokens=sum(step.tokens for step in steps),
        cpu_seconds=round(_cpu_seconds() - cpu, 3),
        seconds=round(time.monotonic() - began, 3),
    )
    return written(file, part)


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
