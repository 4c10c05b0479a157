"""The halves of a closed loop, in turns and side by side: searches write groups, trainings read what is new.

What was done is read from the store, and what comes next follows from it: either half may be killed
anywhere; given again, the same call goes on. In turns, a round searches every problem and then trains once.
Side by side, the search never waits: it follows the served version, also within a run, and the trainer takes
what is new.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evovpo.errors import DivergedError, NothingToTrainError
from evovpo.runs.driver import Progress
from evovpo.runs.outcome import Outcome
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start_or_resume
from evovpo.store import Store
from evovpo.types import Problem, Run, Training
from trainer.loop.loop import Loop
from trainer.loop.retrain import RetrainResult, Watch, retrain, serve_start_model
from trainer.loop.training_plan import start_version

POLL_SECONDS = 1.0
"""How often the trainer of a loop side by side looks for new groups."""
STEPS_WORTH_TRAINING = 2
"""New groups, in steps, that it waits for while the search goes on."""


def _ignore(*_: object) -> None:
    """Watch nothing."""


@dataclass(frozen=True)
class LoopWatch:
    """What a caller wants to be told on the way."""

    searching: Callable[[int, int, Problem], None] = _ignore
    """Round, index of the problem, problem: before its run begins or goes on."""
    started: Callable[[Run], None] = _ignore
    told: Callable[[Progress], None] = _ignore
    searched: Callable[[Outcome], None] = _ignore
    training: Watch = Watch()  # noqa: RUF009  # frozen
    trained: Callable[[RetrainResult], None] = _ignore
    not_trained: Callable[[str], None] = _ignore
    """Why a training came to nothing; the loop goes on with the version that is served."""
    probed: Callable[[str, int, int], None] = _ignore
    """What is measured at the end, problems done, of how many."""


def begin(loop: Loop, store: Store) -> None:
    """Serve the start model if nothing is served yet."""
    serve_start_model(store, start_version(loop.search.proposer.model, loop.searched[0]))


def take_turns(loop: Loop, store: Store, rounds: int, policies: Path, watch: LoopWatch) -> None:
    """Search and train in turns, once a round; what is done already is not done again."""
    begin(loop, store)
    for round_number in range(1, rounds + 1):
        search_round(loop, store, round_number, watch)
        train_round(loop, store, round_number, policies, watch)


# ---------------------------------------------------------------- searching


def search_rounds(loop: Loop, store: Store, rounds: int, watch: LoopWatch) -> None:
    """Make the runs of all rounds that are not finished yet, one after the other."""
    begin(loop, store)
    for round_number in range(1, rounds + 1):
        search_round(loop, store, round_number, watch)


def search_round(loop: Loop, store: Store, round_number: int, watch: LoopWatch) -> None:
    """Make the runs of one round that are not finished yet; an interrupted one goes on."""
    ended = {row.run for row in store.runs() if row.status.is_finished}
    for index, run_id in enumerate(loop.run_ids(round_number)):
        if run_id not in ended:
            search_problem(loop, store, round_number, index, watch)


def search_problem(loop: Loop, store: Store, round_number: int, index: int, watch: LoopWatch) -> Outcome:
    """Start the run of one problem in a round, or take it up again; return what it has come to."""
    run_id, problem = loop.run_id(round_number, index), loop.searched[index]
    pause_at = loop.pause_at(round_number)
    watch.searching(round_number, index, problem)
    request = RunRequest(problem, loop.settings(round_number), run_id=run_id, pause_at=pause_at)
    outcome = start_or_resume(request, store, watch.started, watch.told)
    watch.searched(outcome)
    return outcome


# ---------------------------------------------------------------- training


def train_round(loop: Loop, store: Store, round_number: int, policies: Path, watch: LoopWatch) -> None:
    """Train once on what the runs of a round wrote, unless that is done."""
    train_what_is_new(loop, store, policies, watch, runs=loop.run_ids(round_number))


def train_what_is_new(
    loop: Loop,
    store: Store,
    policies: Path,
    watch: LoopWatch,
    *,
    at_least: int = 1,
    runs: Sequence[str] | None = None,
) -> bool:
    """Train on the groups that no training has read, if there are `at_least` so many; say if one was made.

    Of all runs of the loop, or of these. A training that was cut short is finished first.
    """
    stored = {row.run for row in store.runs()}
    wanted = sorted(filter(loop.owns, stored)) if runs is None else [run for run in runs if run in stored]
    trainings = [one for one in loop_trainings(loop, store) if set(one.runs) & set(wanted)]
    for training in trainings:
        if not _is_done(store, training):
            after = {run: last for run, last in zip(training.runs, training.after, strict=True) if last}
            _train(loop, store, training.runs, after, read_through(training), policies, watch)
            return True
    read: dict[str, str] = {}
    for training in trainings:
        read |= read_through(training)
    new: dict[str, int] = {}
    last: dict[str, str] = {}
    for run in wanted:
        for group in store.groups(run, read.get(run)):
            new[run] = new.get(run, 0) + 1
            last[run] = group.prompt.id
    if not new and not trainings and runs is not None:
        watch.not_trained(f"no group of {', '.join(runs)} is complete")
    if sum(new.values()) < max(1, at_least):
        return False
    after = {run: read[run] for run in new if run in read}
    return _train(loop, store, tuple(new), after, last, policies, watch)


def train_beside(
    loop: Loop,
    store: Store,
    rounds: int,
    policies: Path,
    watch: LoopWatch,
    is_alone: Callable[[], bool] = lambda: False,
) -> None:
    """Train on what is new until every run of the loop has ended and nothing is left.

    `is_alone` says that nobody searches any more: then what there is is the last.
    """
    begin(loop, store)
    wanted = {run_id for number in range(1, rounds + 1) for run_id in loop.run_ids(number)}
    while True:
        ended = {row.run for row in store.runs() if row.status.is_finished}
        is_last = wanted <= ended or is_alone()
        enough = 1 if is_last else STEPS_WORTH_TRAINING * loop.train.update.groups_per_step
        if not train_what_is_new(loop, store, policies, watch, at_least=enough):
            if is_last:
                return
            time.sleep(POLL_SECONDS)


def loop_trainings(loop: Loop, store: Store) -> list[Training]:
    """Return the trainings on the runs of this loop, oldest first."""
    return [training for training in store.trainings() if all(map(loop.owns, training.runs))]


def read_through(training: Training) -> dict[str, str]:
    """Return the prompt of the last group that a training read, by run."""
    return {run: last for run, last in zip(training.runs, training.through, strict=True) if last}


def _is_done(store: Store, training: Training) -> bool:
    """True if a training ended, or one on the same groups did: ids change where the start model moves."""
    ended, groups = store.ended_trainings(), (training.runs, training.after, training.through)
    return any(one.id in ended and (one.runs, one.after, one.through) == groups for one in store.trainings())


def _train(
    loop: Loop,
    store: Store,
    runs: Sequence[str],
    after: Mapping[str, str],
    through: Mapping[str, str],
    policies: Path,
    watch: LoopWatch,
) -> bool:
    """Train, and return whether a version came of it; otherwise say why."""
    try:
        result = retrain(
            store,
            runs,
            loop.train,
            policies=policies,
            after=after,
            through=through,
            problems=loop.held_out,
            watch=watch.training,
        )
    except (NothingToTrainError, DivergedError) as error:
        watch.not_trained(str(error))
        return False
    watch.trained(result)
    return True
