"""Reads a stored run: its outcome, held-out results and lineage."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from evovpo.analysis.scores import Scored, best_combined, score_of
from evovpo.config import Config, StoreConfig
from evovpo.errors import StoreError
from evovpo.judging.evaluator import Evaluator, open_sandbox, unseen_rows
from evovpo.prompts.replies import idea_of
from evovpo.store import RunRow, RunSummary, Store
from evovpo.trust import asked_for, is_marked
from evovpo.types import (
    Candidate,
    Evaluation,
    Json,
    Limits,
    Parent,
    ParentRole,
    Problem,
    Program,
    Run,
    RunPart,
    RunStatus,
    Trust,
)


class Outcome(NamedTuple):
    """The outcome of a run. `evovpo evolve --json` prints most of its fields."""

    run: str
    solved: bool
    """True if the best program has full reward on every training row (or objective)."""
    best_mean_reward: float
    train_passed: int
    """Number of training rows (or objectives) that the program with the best mean reward passes."""
    train_total: int
    heldout_passed: int
    heldout_total: int
    evaluations: int
    executed: int
    joins: int
    seconds: float
    program: str
    """Source of the best program by `combined_score` or, if there is no such score, by mean reward."""
    stopped: str = ""
    trust: str = str(Trust.HIGH)
    """`high`, or `low` if candidate and evaluator shared a process."""
    score: float | None = None
    """Score of `program`, the highest score of the run; None if programs are ranked by mean reward."""
    score_name: str = ""
    program_id: str = ""
    program_mean_reward: float = 0.0
    best_mean_program_id: str = ""
    status: str = ""
    """The stored status, or `memorised` if solved on training rows only."""
    best_metrics: Mapping[str, Json] = {}

    @property
    def best(self) -> float:
        return self.best_mean_reward if self.score is None else self.score

    @property
    def solved_heldout(self) -> bool | None:
        """True if the best program passes all training and held-out rows, or None if no rows are held out."""
        return self.solved and self.heldout_passed == self.heldout_total if self.heldout_total else None

    @property
    def is_memorised(self) -> bool:
        return self.solved and self.solved_heldout is False

    @property
    def is_right(self) -> bool:
        """True if the best program passes all training rows and fails no held-out row."""
        return self.solved and not self.is_memorised

    @property
    def is_by_score(self) -> bool:
        return self.score is not None and self.program_id != self.best_mean_program_id


class RowResult(NamedTuple):
    inputs: tuple[Json, ...]
    output: Json
    got: Json
    """The program's output; None if there is none, or if it was too long to store."""
    passed: bool


class Ancestor(NamedTuple):
    program: Program
    origin: str
    """How the program was made: `seed`, `root`, `mutate` (also for repairs), `crossover`, `join`, `shorten`,
    `other run`, or `shown` (a program of this run that was only an inspiration)."""
    made_from: tuple[Parent, ...]
    mean_reward: float
    passed: int
    score: float | None = None
    """Score of the program; None if programs are not ranked by a single score."""
    idea: str = ""


@dataclasses.dataclass(frozen=True)
class RunView:
    """A stored run with the held-out results of its best program."""

    run: Run
    problem: Problem
    summary: RunSummary
    best: Program | None
    """The best program by `combined_score` if the evaluator returns one, else by mean reward."""
    evaluation: Evaluation | None
    heldout: tuple[RowResult, ...]
    scores: tuple[Scored, ...] = ()
    """Programs with their raw metrics, in order; empty if the evaluator returns no metrics."""
    parts: tuple[RunPart, ...] = ()

    def outcome(self, seconds: float, heldout: Sequence[bool] | None = None, stopped: str = "") -> Outcome:
        """Return the outcome of the run. `heldout` replaces the held-out results of the view."""
        right = [row.passed for row in self.heldout] if heldout is None else heldout
        passed, total = (sum(right), len(right)) if right else self.summary.heldout or (0, 0)
        scored = best_combined(self.scores)
        outcome = Outcome(
            run=self.run.id,
            solved=self.best is not None and self.summary.examples_passed == len(self.problem.objectives),
            best_mean_reward=self.summary.best_mean_reward or 0.0,
            train_passed=self.summary.examples_passed,
            train_total=len(self.problem.objectives),
            heldout_passed=passed,
            heldout_total=total,
            evaluations=self.summary.proposed,
            executed=self.summary.executed,
            joins=self.summary.joins,
            seconds=round(seconds, 3),
            program="" if self.best is None else self.best.source,
            stopped=stopped or self._why_stopped(scored),
            trust=str(self.problem.trust),
            score=None if scored is None else scored.combined,
            score_name="" if scored is None else scored.name,
            program_id="" if self.best is None else self.best.id,
            program_mean_reward=self.evaluation.mean_reward if self.evaluation else 0.0,
            best_mean_program_id=self.summary.best_program_id or "",
            best_metrics=dict((self.evaluation.metrics if self.evaluation else None) or ()),
        )
        return outcome._replace(status=self.run.status.ending(outcome.solved_heldout))

    def _why_stopped(self, scored: Scored | None) -> str:
        if self.run.status is not RunStatus.STOPPED:
            return ""
        config, calls = Config.from_json(self.run.config_json), self.summary.calls
        tokens, money = config.budget.tokens or math.inf, config.budget.money or math.inf
        if calls.prompt_tokens + calls.completion_tokens >= tokens or (calls.cost or 0.0) >= money:
            return "its budget is spent"
        target, patience = config.search.target, config.search.patience
        best = self.summary.best_mean_reward if scored is None else scored.combined
        if target is not None and (best or 0.0) >= target:
            return f"the target of {target} is reached"
        return f"no better program in {patience} evaluations" if patience else ""


def find_run(store: Store, name: str) -> str:
    """Return the id of a run. `name` is `latest`, or the start of a run id or problem id.

    The start of a run id must be unique. A problem id means its latest run. Raises `StoreError` if none fits.
    """
    if name == "latest":
        newest = store.newest_run()
        if newest is None:
            raise StoreError(f"{store.name} holds no run yet; start one with `evovpo evolve PROBLEM`")
        return newest
    try:
        return store.run(name).id
    except StoreError:
        newest = store.newest_run(name)
        if newest is None:
            raise
        return newest


def read_run(store: Store, run_id: str) -> RunView:
    view = stored_run(store, run_id)
    if view.best is None:
        return view
    problem, config = to_run(view, store.name)
    return dataclasses.replace(view, heldout=run_heldout(problem, view.best, config))


def to_run(view: RunView, store_name: str) -> tuple[Problem, Config]:
    """Return the problem and settings to use when programs of a stored run are run in the sandbox.

    For a run of another user, the settings are the defaults, and each limit is at most its default.
    """
    problem, config = view.problem, Config.from_json(view.run.config_json)
    if not is_marked(view.run.id, asked_for(config, problem)):
        usual = dataclasses.asdict(Limits())
        limits = {name: min(value, usual[name]) for name, value in dataclasses.asdict(problem.limits).items()}
        problem, config = dataclasses.replace(problem, limits=Limits(**limits)), Config()
    return problem, config.changed(store=StoreConfig(url=store_name))


def scores_of(store: Store, run: Run, problem: Problem) -> list[Scored]:
    """Return a run's programs with raw metrics, in order of proposal. Only OpenEvolve runs have metrics."""
    folder = problem.evaluator
    return [item._replace(left_out=folder.left_out) for item in store.scores(run.id)] if folder else []


def list_runs(store: Store) -> list[RunRow]:
    """Return all runs, newest first, with their best score if they have one."""
    rows = []
    for row in store.runs():
        run = store.run(row.run)
        best = best_combined(scores_of(store, run, store.problem(run.problem_id, run.problem_version)))
        rows.append(row if best is None else row._replace(score=best.combined, score_name=best.name))
    return rows


def stored_run(store: Store, run_id: str) -> RunView:
    """Return a stored run without held-out results."""
    run = store.run(run_id)
    problem = store.problem(run.problem_id, run.problem_version)
    summary = store.run_summary(run.id)
    scores = scores_of(store, run, problem)
    scored = best_combined(scores)
    best_id = summary.best_program_id if scored is None else scored.program_id
    if problem.has_one_score:  # rewards are clipped, so several programs may have equal rewards
        summary = dataclasses.replace(summary, best_program_id=best_id)
    best = None if best_id is None else store.program(best_id)
    evaluation = None if best is None else store.known_evaluation(problem.version, best.id)
    return RunView(run, problem, summary, best, evaluation, (), tuple(scores), (*store.parts(run.id),))


def run_heldout(problem: Problem, program: Program, config: Config) -> tuple[RowResult, ...]:
    """Run a program on the held-out rows and return the results, which are empty if no row is held out."""
    if not problem.heldout:
        return ()
    unseen = unseen_rows(problem)
    with open_sandbox(problem, config) as sandbox:
        return example_rows(unseen, Evaluator(unseen, sandbox).evaluate(program))


def example_rows(problem: Problem, evaluation: Evaluation | None) -> tuple[RowResult, ...]:
    """Return the results of an evaluated program on the training rows, or () for a problem with a scorer."""
    rewards = evaluation.rewards if evaluation else None
    outputs = evaluation.outputs if evaluation else None
    return tuple(
        RowResult(
            example.inputs,
            example.output,
            None if outputs is None else outputs[number],
            rewards is not None and rewards[number] >= 1.0,
        )
        for number, example in enumerate(problem.train)
    )


def lineage(store: Store, run_id: str, problem: Problem, program: Program) -> list[Ancestor]:
    """Return a program and all its ancestors, nearest first."""
    origins = {one.program.id: one for one in store.lineage(run_id, program.id) if one.program is not None}
    starts = {seed.id for seed in problem.seeds}
    ids = {program.id: None}
    for program_id, origin in origins.items():
        ids |= dict.fromkeys([program_id, *(parent.program_id for parent in origin.parents)])
    ancestors = []
    for program_id in ids:
        step = origins.get(program_id)
        if step is None and program_id not in starts:  # an inspiration; its own lineage is not followed
            step = next(iter(store.lineage(run_id, program_id)), None)
        evaluation = store.known_evaluation(problem.version, program_id)
        ancestors.append(
            Ancestor(
                program if program_id == program.id else store.program(program_id),
                _origin(step, program_id in starts, program_id in origins or program_id == program.id),
                origins[program_id].parents if program_id in origins else (),
                evaluation.mean_reward if evaluation else 0.0,
                evaluation.passed if evaluation else 0,
                None if evaluation is None else score_of(problem, evaluation),
                idea_of(origins[program_id].text) if program_id in origins else "",
            )
        )
    return ancestors


def _origin(step: Candidate | None, is_start: bool, is_followed: bool) -> str:
    if step is None or (step.rollout_id is None and not step.parents):
        return "seed" if is_start else "other run"
    if not is_followed:
        return "shown"
    roles = {parent.role for parent in step.parents}
    if step.rollout_id is None:
        return "join" if roles & {ParentRole.JOIN_THEN, ParentRole.JOIN_ELSE} else "shorten"
    if ParentRole.PARTNER in roles:
        return "crossover"
    return "mutate" if ParentRole.PARENT in roles else "root"
