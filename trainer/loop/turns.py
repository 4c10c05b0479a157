"""Runs a loop: rounds of searches, each followed by a training.

A loop that was killed continues from the store. At the end the first and the last model are compared on
held-out problems.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evovpo.config import Config
from evovpo.errors import DivergedError, NothingToTrainError, TrainingError
from evovpo.experiments.pool import Message, TaskDone, TaskStarted, run_all
from evovpo.runs.driver import Progress
from evovpo.runs.run import start_or_resume
from evovpo.runs.stored import Outcome
from evovpo.store import Store
from evovpo.types import Problem, Run, Training
from trainer.learning.stored_groups import RunSpan
from trainer.loop.loop import Loop
from trainer.loop.retrain import RetrainResult, retrain, serve_start_model
from trainer.loop.training_plan import TrainingCallbacks, ignore, start_version


@dataclass(frozen=True)
class LoopWatch(TrainingCallbacks):
    """Callbacks for progress."""

    searching: Callable[[int, int, Problem], None] = ignore
    """Round, index of the problem, problem: before its run begins or goes on."""
    started: Callable[[Run], None] = ignore
    told: Callable[[Progress], None] = ignore
    searched: Callable[[Outcome], None] = ignore
    trained: Callable[[RetrainResult], None] = ignore
    not_trained: Callable[[str], None] = ignore
    """Why a training failed; the loop continues with the served version."""
    measured: Callable[[str, int, int], None] = ignore
    """What is measured at the end, problems done, of how many."""


@dataclass(frozen=True)
class Turns:
    """A running loop with its store and policy folder."""

    loop: Loop
    store: Store
    policies: Path
    watch: LoopWatch = LoopWatch()
    jobs: int = 1
    """Processes that search at a time."""
    url: str | None = None
    """The store's address, with its password; by default the file of `store`."""

    def begin(self) -> None:
        """Serve the start model if nothing is served yet."""
        start_model = start_version(self.loop.search.proposer.model)
        serve_start_model(self.store, start_model)

    def take(self, rounds: int, *, trains: bool = True) -> None:
        """Search and train in turns, once a round, or only search; what is done is not done again."""
        self.begin()
        for number in range(1, rounds + 1):
            self.search_round(number)
            if trains:
                if self.loop.train.imitate.share:
                    self.train_on_finds(number)
                else:
                    self.train_what_is_new(self.loop.run_ids(number))

    def search_round(self, number: int) -> None:
        """Make the runs of one round that are not finished yet; an interrupted one goes on.

        In `jobs` processes at a time, or in this one if one is enough or the store is in memory. Raises
        `TrainingError` naming the runs that failed.
        """
        ended = {row.run for row in self.store.runs() if row.status.is_finished}
        left = [index for index, run_id in enumerate(self.loop.run_ids(number)) if run_id not in ended]
        url = self.url or (self.store.name if self.store.file else None)
        if min(self.jobs, len(left)) <= 1 or url is None:
            for index in left:
                self.search_problem(number, index)
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

    def search_problem(self, number: int, index: int) -> Outcome:
        """Start or resume the run of one problem in a round; return its outcome."""
        loop, problem = self.loop, self.loop.searched[index]
        self.watch.searching(number, index, problem)
        outcome = start_or_resume(
            loop.request(number, index), self.store, self.watch.started, self.watch.told
        )
        self.watch.searched(outcome)
        return outcome

    def train_what_is_new(self, runs: Sequence[str]) -> bool:
        """Train on the groups of these runs that no training has read; return whether a version came of it.

        A training that was cut short is finished first.
        """
        stored = {row.run for row in self.store.runs()}
        wanted = [run for run in runs if run in stored]
        trainings = [one for one in self.trainings() if set(one.runs) & set(wanted)]
        # By what was read, because ids change where the start model moves.
        ended = self.store.ended_trainings()
        done = [parts_of(one) for one in self.store.trainings() if one.id in ended]
        for training in trainings:
            if parts_of(training) not in done:
                self._train(parts_of(training))
                return True
        read = {part.run_id: part.through for one in trainings for part in parts_of(one) if part.through}
        groups = {run: [group.prompt.id for group in self.store.groups(run, read.get(run))] for run in wanted}
        new = [RunSpan(run, read.get(run), prompts[-1]) for run, prompts in groups.items() if prompts]
        if not new and not trainings:
            self.watch.not_trained(f"no group of {', '.join(runs)} is complete")
        return bool(new) and self._train(new)

    def train_on_finds(self, number: int) -> None:
        """Train, from the start model, on what all searches up to this round hold, unless that was done."""
        runs = [run for one in range(1, number + 1) for run in self.loop.run_ids(one)]
        ended = self.store.ended_trainings()
        if not any(list(one.runs) == runs and one.id in ended for one in self.trainings()):
            self._train([RunSpan(run) for run in runs])

    def trainings(self) -> list[Training]:
        """Return the trainings on the runs of this loop, oldest first."""
        return [training for training in self.store.trainings() if all(map(self.loop.owns, training.runs))]

    def _train(self, parts: Sequence[RunSpan]) -> bool:
        """Train, and return whether a version came of it; otherwise say why."""
        problems, watch = self.loop.guarded or self.loop.held_out, self.watch
        try:
            result = retrain(
                self.store, parts, self.loop.train, self.policies, problems=problems, watch=watch
            )
        except (NothingToTrainError, DivergedError) as error:
            watch.not_trained(str(error))
            return False
        watch.trained(result)
        return True


def parts_of(training: Training) -> list[RunSpan]:
    """Return what a training read."""
    return list(map(RunSpan, training.runs, training.after, training.through))


@dataclass(frozen=True)
class _Search:
    """The run of one problem in a round, as a task of another process."""

    loop: Loop
    round_number: int
    index: int
    store: str

    @property
    def name(self) -> str:
        """The id of the run."""
        return self.loop.run_id(self.round_number, self.index)

    @property
    def config(self) -> Config:
        """What it searches with."""
        return self.loop.search

    def run(self, tell: Callable[[Any], None]) -> Outcome:
        """Start the run or take it up."""
        with Store.open(self.store) as store:
            return start_or_resume(self.loop.request(self.round_number, self.index), store)
