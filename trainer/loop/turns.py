"""The halves of a closed loop, in turns and side by side: searches write groups, trainings read what is new.

What was done is read from the store, and what comes next follows from it: either half may be killed
anywhere; given again, the same call goes on. In turns, a round searches every problem and then trains once.
Side by side, the search never waits: it follows the served version, also within a run, and the trainer takes
what is new. At the end both models are compared on the problems that were held out.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from evovpo.errors import DivergedError, NothingToTrainError
from evovpo.proposers.local import load_model
from evovpo.runs.driver import Progress
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start_or_resume
from evovpo.runs.stored import Outcome
from evovpo.store import Store
from evovpo.types import Json, PolicyVersion, Problem, Run, Training
from trainer.learning.data import RunPart
from trainer.loop.loop import Loop
from trainer.loop.probe import KS, ProbeResult, probe
from trainer.loop.retrain import RetrainResult, retrain, serve_start_model
from trainer.loop.training_plan import Watch, ignore, start_version

POLL_SECONDS = 1.0
"""How often the trainer of a loop side by side looks for new groups."""
STEPS_WORTH_TRAINING = 2
"""New groups, in steps, that it waits for while the search goes on."""


@dataclass(frozen=True)
class LoopWatch(Watch):
    """What a caller wants to be told on the way."""

    searching: Callable[[int, int, Problem], None] = ignore
    """Round, index of the problem, problem: before its run begins or goes on."""
    started: Callable[[Run], None] = ignore
    told: Callable[[Progress], None] = ignore
    searched: Callable[[Outcome], None] = ignore
    trained: Callable[[RetrainResult], None] = ignore
    not_trained: Callable[[str], None] = ignore
    """Why a training came to nothing; the loop goes on with the version that is served."""
    measured: Callable[[str, int, int], None] = ignore
    """What is measured at the end, problems done, of how many."""


@dataclass(frozen=True)
class Turns:
    """A loop at work on a store, with its policies in a folder."""

    loop: Loop
    store: Store
    policies: Path
    watch: LoopWatch = LoopWatch()

    def begin(self) -> None:
        """Serve the start model if nothing is served yet."""
        start_model = start_version(self.loop.search.proposer.model, self.loop.searched[0])
        serve_start_model(self.store, start_model)

    def take(self, rounds: int, *, trains: bool = True) -> None:
        """Search and train in turns, once a round, or only search; what is done is not done again."""
        self.begin()
        for number in range(1, rounds + 1):
            self.search_round(number)
            if trains:
                self.train_what_is_new(runs=self.loop.run_ids(number))

    def search_round(self, number: int) -> None:
        """Make the runs of one round that are not finished yet; an interrupted one goes on."""
        ended = {row.run for row in self.store.runs() if row.status.is_finished}
        for index, run_id in enumerate(self.loop.run_ids(number)):
            if run_id not in ended:
                self.search_problem(number, index)

    def search_problem(self, number: int, index: int) -> Outcome:
        """Start the run of one problem in a round, or take it up again; return what it has come to."""
        loop, problem = self.loop, self.loop.searched[index]
        self.watch.searching(number, index, problem)
        request = RunRequest(
            problem,
            loop.settings(number),
            run_id=loop.run_id(number, index),
            pause_at=loop.pause_at(number),
        )
        outcome = start_or_resume(request, self.store, self.watch.started, self.watch.told)
        self.watch.searched(outcome)
        return outcome

    def train_what_is_new(self, at_least: int = 1, runs: Sequence[str] | None = None) -> bool:
        """Train on the groups that no training read, if there are `at_least` so many; say if one was made.

        Of all runs of the loop, or of these. A training that was cut short is finished first.
        """
        stored = {row.run for row in self.store.runs()}
        wanted = [run for run in runs or sorted(filter(self.loop.owns, stored)) if run in stored]
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
        new = [RunPart(run, read.get(run), prompts[-1]) for run, prompts in groups.items() if prompts]
        if not new and not trainings and runs is not None:
            self.watch.not_trained(f"no group of {', '.join(runs)} is complete")
        if sum(map(len, groups.values())) < max(1, at_least):
            return False
        return self._train(new)

    def train_beside(self, rounds: int, is_alone: Callable[[], bool] = lambda: False) -> None:
        """Train on what is new until every run of the loop has ended and nothing is left.

        `is_alone` says that nobody searches any more: then what there is is the last.
        """
        self.begin()
        wanted = {run_id for number in range(1, rounds + 1) for run_id in self.loop.run_ids(number)}
        while True:
            ended = {row.run for row in self.store.runs() if row.status.is_finished}
            is_last = wanted <= ended or is_alone()
            worth = STEPS_WORTH_TRAINING * self.loop.train.update.groups_per_step
            if not self.train_what_is_new(at_least=1 if is_last else worth):
                if is_last:
                    return
                time.sleep(POLL_SECONDS)

    def trainings(self) -> list[Training]:
        """Return the trainings on the runs of this loop, oldest first."""
        return [training for training in self.store.trainings() if all(map(self.loop.owns, training.runs))]

    def _train(self, parts: Sequence[RunPart]) -> bool:
        """Train, and return whether a version came of it; otherwise say why."""
        held_out, watch = self.loop.held_out, self.watch
        try:
            result = retrain(
                self.store, parts, self.loop.train, self.policies, problems=held_out, watch=watch
            )
        except (NothingToTrainError, DivergedError) as error:
            watch.not_trained(str(error))
            return False
        watch.trained(result)
        return True


def parts_of(training: Training) -> list[RunPart]:
    """Return what a training read."""
    return list(map(RunPart, training.runs, training.after, training.through))


class LoopResult(NamedTuple):
    """What a loop came to; `evovpo loop --json` prints these fields."""

    rounds: int
    policy_versions: int
    """Versions that the loop's trainings made."""
    weights_changed: bool
    """Whether the last trained version differs from the start model in any weight."""
    before: Json
    """`best_at_k` and `pass_at_k` of the start model on the held-out problems, by k; none without any."""
    after: Json
    """The same of the last version that was trained, whether it is served or not."""
    served: int
    """Number of the version that searches follow."""


def compare(turns: Turns, rounds: int) -> tuple[LoopResult, tuple[ProbeResult, ProbeResult] | None]:
    """Measure the start model and the last trained version on the held-out problems, if there are any."""
    loop, store = turns.loop, turns.store
    start_model = store.policy_version(0)
    ids = {training.id for training in turns.trainings()}
    made = [version for version in store.policy_versions() if version.config_hash in ids]
    last = made[-1] if made else start_model

    def probed(name: str, version: PolicyVersion) -> ProbeResult:
        return probe(
            version,
            loop.held_out,
            answers=loop.search.search.answers,
            k_max=KS[-1],
            seed=loop.train.run.seed + 1,  # not the answers that the guard chose by
            config=loop.search,
            on_problem=lambda done, total: turns.watch.measured(name, done, total),
        )

    found: tuple[ProbeResult, ProbeResult] | None = None
    if loop.held_out:
        before = probed("start model", start_model)
        found = before, probed("last trained version", last) if made else before
    served = store.served()
    result = LoopResult(
        rounds=rounds,
        policy_versions=len(made),
        weights_changed=bool(made) and _differ(start_model, last),
        before=None if found is None else _curves(found[0]),
        after=None if found is None else _curves(found[1]),
        served=0 if served is None else served.number,
    )
    return result, found


def best_by_round(loop: Loop, store: Store, rounds: int) -> list[float]:
    """Return the mean over the problems of the best mean reward that a round's searches found."""
    best = {row.run: row.best_mean_reward for row in store.runs()}
    return [
        sum(best[run_id] or 0.0 for run_id in loop.run_ids(number)) / len(loop.searched)
        for number in range(1, rounds + 1)
    ]


def _curves(result: ProbeResult) -> Json:
    figures = ("best_at_k", "pass_at_k")
    return {name: {str(k): value for k, value in result.means(name).items()} for name in figures}


def _differ(first: PolicyVersion, second: PolicyVersion) -> bool:
    """True if two versions differ in any weight; adapters are merged first."""
    one, other = (load_model(version).model.state_dict() for version in (first, second))
    return any(not torch.equal(value, other[name]) for name, value in one.items())
