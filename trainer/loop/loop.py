"""The closed loop: searches write groups, trainings turn them into versions, the next searches use those.

What was done is read from the store, and what comes next follows from it: a loop has an id that hashes all
that it does, its runs have ids that derive from it, and its trainings name their runs. So either half may
be killed anywhere; given again, the same call goes on. Interleaved, a round searches every problem and then
trains once. Side by side, the search never waits: it follows the served version, also within a run, and
the trainer takes what is new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from evovpo.builtin.choice import built_in_fault, built_in_model
from evovpo.builtin.strings.format import expression_fault
from evovpo.config import Config, RunConfig
from evovpo.errors import ConfigError, DivergedError, NothingToTrainError
from evovpo.runs.driver import Progress
from evovpo.runs.outcome import Outcome
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start_or_resume
from evovpo.store import Store
from evovpo.types import Json, PolicyVersion, Problem, Run, Training, content_id
from trainer.config import TrainConfig
from trainer.loop.probe import KS, ProbeResult, probe
from trainer.loop.probe_problems import generated_problems, split_problems
from trainer.loop.retrain import RetrainResult, Watch, retrain, serve_start_model, start_version

POLL_SECONDS = 1.0
"""How often the trainer of a loop side by side looks for new groups."""
STEPS_WORTH_TRAINING = 2
"""New groups, in steps, that it waits for while the search goes on."""


@dataclass(frozen=True)
class Loop:
    """What a loop does; the same fields give the same id."""

    searched: tuple[Problem, ...]
    """Problems of every round."""
    held_out: tuple[Problem, ...]
    """Problems of the guard and of before and after only; none where a problem has a scorer."""
    search: Config
    """Of every run, but for its seed."""
    train: TrainConfig

    @property
    def id(self) -> str:
        """Return the first part of the ids of its runs."""
        problems = (problem.version for problem in (*self.searched, *self.held_out))
        # Where the store is, and under which name, is not part of what is done.
        search = self.search.changed(store=type(self.search.store)()).to_json()
        return content_id(search, self.train.to_json(), *problems)[:8]

    def run_id(self, round_number: int, index: int) -> str:
        """Return the id of the run of problem `index` in a round."""
        return f"{self.id}-r{round_number:03d}-p{index:03d}"

    def run_ids(self, round_number: int) -> tuple[str, ...]:
        """Return the ids of all runs of a round, in order."""
        return tuple(self.run_id(round_number, index) for index in range(len(self.searched)))


def plan_loop(
    problems: Sequence[Problem], search: Config, train: TrainConfig, *, limit: int | None = None
) -> Loop:
    """Return the loop over a suite, or over one problem.

    Of a suite `train.probe.problems` are held out, and fewer if less than half would be left; `limit` keeps
    so many of the others. One problem leaves nothing to hold out: generated ones take their place. Problems
    with a scorer are all searched: a probe knows examples only, and there is no supply of their like. Raises
    `ConfigError` for no problem, or settings of search and training that do not fit together.
    """
    if not problems:
        raise ConfigError("a loop needs at least one problem; name a problem or a suite")
    if train.probe.problems < 1:
        raise ConfigError(
            "probe.problems is 0; a loop compares versions before it uses one: hold out 1 or more, better 12"
        )
    if search.proposer.policy != "served":
        raise ConfigError(
            f"proposer.policy is {search.proposer.policy!r}; a loop searches with what it trains: "
            "leave it out, or set it to served"
        )
    if search.search.rollouts < 2:
        raise ConfigError(
            f"search.rollouts is {search.search.rollouts}; a group to train on needs 2 or more; raise it"
        )
    if any(expression_fault(problem) for problem in problems):
        _check_one_model(problems, search)
        return Loop(tuple(problems[:limit]), (), search, train)
    if len(problems) == 1:
        return Loop(tuple(problems), generated_problems(train.probe.problems), search, train)
    split = split_problems(problems, min(train.probe.problems, len(problems) // 2), search.run.seed)
    return Loop(split.searched[:limit], split.held_out, search, train)


def _check_one_model(problems: Sequence[Problem], search: Config) -> None:
    """Raise `ConfigError` unless one model writes for all problems: a loop trains one."""
    faults = [built_in_fault(problem) for problem in problems]
    models = {built_in_model(problem) for problem in problems}
    if search.proposer.name == "local" and (any(faults) or len(models) > 1):
        listed = "; ".join(f"{p.id}: {fault}" for p, fault in zip(problems, faults, strict=True) if fault)
        raise ConfigError(
            f"a loop trains one model, and no built-in one writes for all of these problems "
            f"({listed or 'some want strings, others numbers'}); name problems of one kind"
        )


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


# ---------------------------------------------------------------- the halves


def search_rounds(loop: Loop, store: Store, rounds: int, watch: LoopWatch) -> None:
    """Make the runs of all rounds that are not finished yet, one after the other."""
    begin(loop, store)
    for round_number in range(1, rounds + 1):
        search_round(loop, store, round_number, watch)


def search_round(loop: Loop, store: Store, round_number: int, watch: LoopWatch) -> None:
    """Make the runs of one round that are not finished yet; an interrupted one goes on."""
    stored = {row.run: row.status for row in store.runs()}
    for index, problem in enumerate(loop.searched):
        run_id = loop.run_id(round_number, index)
        status = stored.get(run_id)
        if status is not None and status.is_finished:
            continue
        watch.searching(round_number, index, problem)
        seed = int(content_id(str(loop.search.run.seed), str(round_number)), 16) >> 1
        config = loop.search.changed(run=RunConfig(seed=seed))
        request = RunRequest(problem, config, run_id=run_id)
        outcome = start_or_resume(request, store, watch.started, watch.told)
        watch.searched(outcome)


def train_round(loop: Loop, store: Store, round_number: int, policies: Path, watch: LoopWatch) -> None:
    """Train once on the runs of a round, unless that is done."""
    runs = loop.run_ids(round_number)
    if not any(training.runs == runs and _is_done(store, training) for training in store.trainings()):
        _train(loop, store, runs, {}, {}, policies, watch)


def train_what_is_new(loop: Loop, store: Store, policies: Path, watch: LoopWatch, *, at_least: int) -> bool:
    """Train on the loop's groups that no training has read, if there are `at_least` so many; say if so.

    A training that was cut short is finished first.
    """
    trainings = loop_trainings(loop, store)
    for training in trainings:
        if not _is_done(store, training):
            after = {run: last for run, last in zip(training.runs, training.after, strict=True) if last}
            through = {run: last for run, last in zip(training.runs, training.through, strict=True) if last}
            _train(loop, store, training.runs, after, through, policies, watch)
            return True
    read: dict[str, str] = {}
    for training in trainings:
        read |= {run: last for run, last in zip(training.runs, training.through, strict=True) if last}
    new: dict[str, int] = {}
    last: dict[str, str] = {}
    for row in store.runs():
        if row.run.startswith(f"{loop.id}-"):
            for group in store.groups(row.run, read.get(row.run)):
                new[row.run] = new.get(row.run, 0) + 1
                last[row.run] = group.prompt.id
    if sum(new.values()) < max(1, at_least):
        return False
    runs = tuple(sorted(new))
    after = {run: read[run] for run in runs if run in read}
    return _train(loop, store, runs, after, last, policies, watch)


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
    return [
        training
        for training in store.trainings()
        if all(run.startswith(f"{loop.id}-") for run in training.runs)
    ]


def begin(loop: Loop, store: Store) -> None:
    """Serve the start model if nothing is served yet."""
    serve_start_model(store, start_version(loop.search.proposer.model, loop.searched[0]))


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
            problems=loop.held_out or None,
            watch=watch.training,
        )
    except (NothingToTrainError, DivergedError) as error:
        watch.not_trained(str(error))
        return False
    watch.trained(result)
    return True


# ---------------------------------------------------------------- what came of it


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


class Comparison(NamedTuple):
    """The start model and the last trained version on the held-out problems."""

    before: ProbeResult
    after: ProbeResult


def compare(loop: Loop, store: Store, rounds: int, watch: LoopWatch) -> tuple[LoopResult, Comparison | None]:
    """Measure the start model and the last trained version on the held-out problems, if there are any."""
    start_model = store.policy_version(0)
    ids = {training.id for training in loop_trainings(loop, store)}
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
            on_problem=lambda done, total: watch.probed(name, done, total),
        )

    found: Comparison | None = None
    if loop.held_out:
        before = probed("start model", start_model)
        found = Comparison(before, probed("last trained version", last) if made else before)
    served = store.served()
    result = LoopResult(
        rounds=rounds,
        policy_versions=len(made),
        weights_changed=bool(made) and _differ(start_model, last),
        before=None if found is None else _curves(found.before),
        after=None if found is None else _curves(found.after),
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
    return {
        "best_at_k": {str(k): value for k, value in result.best_at_k.items()},
        "pass_at_k": {str(k): value for k, value in result.pass_at_k.items()},
    }


def _differ(first: PolicyVersion, second: PolicyVersion) -> bool:
    """True if two versions differ in any weight; adapters are merged first."""
    from evovpo.proposers.local import load_model

    one, other = (load_model(version).model.state_dict() for version in (first, second))
    return any(not torch.equal(value, other[name]) for name, value in one.items())
