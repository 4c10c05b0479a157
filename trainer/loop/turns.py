"""Runs a loop: in each round, searches and then a training. A killed loop continues from the store."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evovpo.config import Config
from evovpo.errors import DivergedError, NothingToTrainError, TrainingError
from evovpo.experiments.pool import Message, TaskDone, TaskStarted, run_all
from evovpo.runs.driver import Progress
from evovpo.runs.start_resume import start_or_resume
from evovpo.runs.stored import Outcome
from evovpo.store import Store
from evovpo.types import Problem, Training
from trainer.loop.loop import Loop
from trainer.loop.retrain import RetrainResult, retrain, serve_start_model
from trainer.loop.training_plan import TrainingCallbacks, ignore, start_version


@dataclass(frozen=True)
class LoopWatch(TrainingCallbacks):
    searching: Callable[[int, int, Problem], None] = ignore
    """Called before a run starts or continues, with the round, the problem's index and the problem."""
    told: Callable[[Progress], None] = ignore
    searched: Callable[[Outcome], None] = ignore
    trained: Callable[[RetrainResult], None] = ignore
    not_trained: Callable[[str], None] = ignore
    """Called with the reason why a training failed; the loop continues with the served version."""
    measured: Callable[[str, int, int], None] = ignore
    """Called while versions are measured, with the version, the number of problems done and the total."""


@dataclass(frozen=True)
class Turns:
    loop: Loop
    store: Store
    policies: Path
    watch: LoopWatch = LoopWatch()
    jobs: int = 1
    url: str | None = None
    """URL of the store, password included; None for the file of `store`."""

    def begin(self) -> None:
        start_model = start_version(self.loop.search.proposer.model)
        serve_start_model(self.store, start_model)

    def take(self, rounds: int, *, trains: bool = True) -> None:
        """Run rounds 1 to `rounds`: search and, if `trains` is true, train. Finished work is skipped."""
        self.begin()
        for number in range(1, rounds + 1):
            self.search_round(number)
            if trains:
                self.train_round(number)

    def search_round(self, number: int) -> None:
        """Start or continue all searches of a round that are not finished.

        Up to `jobs` processes are used. A single search, or a store in memory, uses this process alone.
        Raises a `TrainingError` that names the failed runs if runs fail in other processes.
        """
        ended = {row.run for row in self.store.runs() if row.status.is_finished}
        left = [index for index, run_id in enumerate(self.loop.run_ids(number)) if run_id not in ended]
        url = self.url or (self.store.name if self.store.file else None)
        if min(self.jobs, len(left)) <= 1 or url is None:
            for index in left:
                self.watch.searching(number, index, self.loop.searched[index])
                request = self.loop.request(number, index)
                self.watch.searched(start_or_resume(request, self.store, on_tell=self.watch.told))
            return
        places = {self.loop.run_id(number, index): index for index in left}

        def on_message(message: Message) -> None:
            if isinstance(message, TaskStarted):
                place = places[message.name]
                self.watch.searching(number, place, self.loop.searched[place])
            elif isinstance(message, TaskDone):
                self.watch.searched(message.value)

        tasks = [_Search(self.loop, number, index, url) for index in left]
        if failed := run_all(tasks, self.jobs, on_message):
            reasons = "; ".join(f"{one.name}: {one.reason}" for one in failed)
            raise TrainingError(
                f"{len(failed)} searches of round {number} failed, the others are stored: {reasons}; the "
                "same command goes on"
            )

    def train_round(self, number: int) -> None:
        """Train on the runs of a round (for imitation, of all rounds so far), unless this is already done."""
        first = 1 if self.loop.train.imitate.share else number
        runs = [run for one in range(first, number + 1) for run in self.loop.run_ids(one)]
        ended = self.store.ended_trainings()
        if any(list(one.runs) == runs and one.id in ended for one in self.trainings()):
            return
        problems, watch = self.loop.guarded or self.loop.held_out, self.watch
        try:
            result = retrain(self.store, runs, self.loop.train, self.policies, problems=problems, watch=watch)
        except (NothingToTrainError, DivergedError) as error:
            watch.not_trained(str(error))
        else:
            watch.trained(result)

    def trainings(self) -> list[Training]:
        own = f"{self.loop.id}-"
        return [one for one in self.store.trainings() if all(run.startswith(own) for run in one.runs)]


@dataclass(frozen=True)
class _Search:
    loop: Loop
    round_number: int
    index: int
    store: str

    @property
    def name(self) -> str:
        return self.loop.run_id(self.round_number, self.index)

    @property
    def config(self) -> Config:
        return self.loop.search

    def run(self, tell: Callable[[Any], None]) -> Outcome:
        with Store.open(self.store) as store:
            return start_or_resume(self.loop.request(self.round_number, self.index), store)
