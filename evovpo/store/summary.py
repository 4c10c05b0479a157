"""Queries for reports: the list of runs and the summary of a run."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from statistics import fmean
from typing import Any, NamedTuple

from sqlalchemy import Connection, Integer, Row, Select, func, select

from evovpo.store.database import reading
from evovpo.store.row_records import vectors_of
from evovpo.store.runs import CallTotals, Runs, require_run, with_status
from evovpo.store.schema import (
    candidates,
    evaluations,
    programs,
    prompts,
    rewards,
    rollouts,
    run_events,
    runs,
    tells,
)
from evovpo.types import Json, ParseStatus, PromptKind, Rewards, RunStatus, Status

_PAGE = 1000
FREE = tuple(kind for kind in PromptKind if kind.is_free)
"""Kinds of prompts whose programs do not count against the budget."""


class RunRow(NamedTuple):
    run: str
    problem: str
    status: RunStatus
    evaluations: int
    """Candidates proposed so far; starting programs and shorter variants do not count."""
    best_mean_reward: float | None
    seed: int
    created_at: str
    heldout: tuple[int, int] | None = None
    score: float | None = None
    score_name: str = ""

    @property
    def solved_train(self) -> bool:
        return self.best_mean_reward == 1.0

    @property
    def solved_heldout(self) -> bool | None:
        """True if the best program also passes all held-out rows; None if there is no held-out result."""
        return _solved_heldout(self)

    @property
    def ending(self) -> str:
        return self.status.ending(self.solved_heldout)


class CurvePoint(NamedTuple):
    """Statistics of a run after one tell (evaluated reply)."""

    tell: int
    evaluations: int
    best_mean_reward: float
    examples_passed: int


def solved_at(curve: Sequence[CurvePoint], objectives: int) -> int | None:
    """Return the number of evaluations until a program had full reward on all objectives, or None."""
    return next((point.evaluations for point in curve if point.examples_passed == objectives), None)


def rises(curve: Sequence[CurvePoint], digits: int | None = None) -> list[tuple[int, float]]:
    """Return a pair (evaluations, best mean reward) for each rise of the reward, rounded to `digits`."""
    bests = (p.best_mean_reward if digits is None else round(p.best_mean_reward, digits) for p in curve)
    points = zip((p.evaluations for p in curve), bests, strict=True)
    return [next(same) for _, same in groupby(points, key=itemgetter(1))]


class CandidateLine(NamedTuple):
    """The data that summaries need about a candidate, its prompt and its evaluation."""

    kind: PromptKind
    way: str
    """Name of the prompt's `Way` (`evovpo.search.ways`), or empty."""
    island: int
    parse_status: ParseStatus
    program_id: str | None
    evaluation_id: str | None
    status: Status | None
    executed: bool
    seconds: float
    mean_reward: float | None
    passed: int
    length: int
    metrics: dict[str, Json] | None
    rewards: Rewards


class TellLine(NamedTuple):
    position: int
    policy_version: int | None
    """None if no model answered."""
    tokens: int
    seconds: float
    candidates: list[CandidateLine]


@dataclass
class RunSummary:
    """The summary of a run so far. Call `add` with each further tell (evaluated reply)."""

    proposed: int = 0
    """Candidates that count against the budget: all except starting programs and shorter variants."""
    executed: int = 0
    joins: int = 0
    rollouts: int = 0
    tokens: int = 0
    sampling_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    by_parse_status: dict[ParseStatus, int] = field(default_factory=dict)
    by_status: dict[Status, int] = field(default_factory=dict)
    """Counts of the proposed candidates that have an evaluation, including duplicates."""
    by_way: dict[str, list[int]] = field(default_factory=dict)
    """Name of a `Way` -> [candidates, candidates that raised the best mean reward]."""
    best_program_id: str | None = None
    """Program with the highest mean reward. Ties go to most components passed, then shortest, then first."""
    best_mean_reward: float | None = None
    examples_passed: int = 0
    best_length: int = 0
    best_is_ok: bool = False
    curve: list[CurvePoint] = field(default_factory=list)
    """A point for every change of the best mean reward or `examples_passed`, and one for the last tell."""
    calls: CallTotals = field(default_factory=lambda: CallTotals(0, 0, 0, 0, None, {}))
    heldout: tuple[int, int] | None = None
    risen: list[Sequence[Any]] = field(default_factory=list)
    """[`proposed` so far, rewards] of each candidate that no earlier candidate equals or dominates."""
    tells: int = 0
    _reached: Any = field(default=None, init=False, repr=False, compare=False)

    @property
    def solved_heldout(self) -> bool | None:
        return _solved_heldout(self)

    def add(self, tell: TellLine) -> None:
        self.rollouts += tell.policy_version is not None
        self.tokens += tell.tokens
        self.sampling_seconds += tell.seconds
        for line in tell.candidates:
            self._count(line)
            if line.mean_reward is not None:
                self._judge(line, line.mean_reward)
        mean = self.best_mean_reward or 0.0
        if tell.candidates and (not self.curve or self.curve[-1][2:] != (mean, self.examples_passed)):
            self.curve.append(CurvePoint(tell.position, self.proposed, mean, self.examples_passed))
        self.tells = tell.position + 1

    def _count(self, line: CandidateLine) -> None:
        self.executed += line.executed
        self.evaluation_seconds += line.seconds
        if not line.kind.is_free:
            self.proposed += 1
            self.joins += line.kind is PromptKind.JOIN
            self.by_parse_status[line.parse_status] = self.by_parse_status.get(line.parse_status, 0) + 1
            if line.status is not None:
                self.by_status[line.status] = self.by_status.get(line.status, 0) + 1
        if line.way:
            asked, rose = self.by_way.get(line.way, [0, 0])
            has_risen = line.mean_reward is not None and line.mean_reward > (self.best_mean_reward or 0.0)
            self.by_way[line.way] = [asked + 1, rose + has_risen]

    def _judge(self, line: CandidateLine, mean_reward: float) -> None:
        import numpy as np  # imported here to keep opening a store fast

        best = (self.best_mean_reward, self.examples_passed, self.best_is_ok, -self.best_length)
        is_ok = line.status is Status.OK
        if best[0] is None or (mean_reward, line.passed, is_ok, -line.length) > best:
            self.best_mean_reward, self.examples_passed = mean_reward, line.passed
            self.best_program_id, self.best_is_ok, self.best_length = line.program_id, is_ok, line.length
        if self._reached is None:
            self._reached = np.empty((0, len(line.rewards)))
        if not (self._reached >= line.rewards).all(axis=1).any():
            self.risen.append([self.proposed, list(line.rewards)])
            self._reached = np.vstack([self._reached, line.rewards])


class Summaries(Runs):
    @reading
    def runs(self, connection: Connection) -> list[RunRow]:
        """Return all runs, newest first."""
        return [
            RunRow(
                *(row.id, row.problem_id, row.status, row.proposed, row.best, row.seed, row.created_at),
                heldout=heldout_of(row),
            )
            for row in connection.execute(_runs())
        ]

    @reading
    def vectors(
        self, connection: Connection, run_ids: Collection[str]
    ) -> list[tuple[str, tuple[float, ...]]]:
        """Return the id and rewards of every evaluated program of the runs, highest mean reward first."""
        pairs = select(candidates.c.program_id, candidates.c.evaluation_id)
        told = pairs.where(candidates.c.run_id.in_(run_ids)).distinct().subquery()
        rows = connection.execute(
            select(told.c.program_id, told.c.evaluation_id, func.length(programs.c.source), rewards.c.value)
            .join(programs, programs.c.id == told.c.program_id)
            .join(rewards, rewards.c.evaluation_id == told.c.evaluation_id)
            .order_by(told.c.evaluation_id, rewards.c.objective)
        )
        found: dict[str, tuple[int, tuple[float, ...]]] = {}
        for (program_id, _, length), components in groupby(rows, key=itemgetter(0, 1, 2)):
            found[program_id] = length, tuple(row.value for row in components)
        by_merit = sorted(found.items(), key=lambda item: (-fmean(item[1][1]), item[1][0], item[0]))
        return [(program_id, vector) for program_id, (_, vector) in by_merit]

    @reading
    def run_summary(self, connection: Connection, run_id: str) -> RunSummary:
        require_run(connection, run_id)
        event = connection.execute(with_status().where(runs.c.id == run_id)).one()
        found = RunSummary()
        last = connection.scalar(select(func.max(tells.c.position)).where(tells.c.run_id == run_id))
        for first in range(0, 0 if last is None else last + 1, _PAGE):
            for tell in _tell_lines(connection, run_id, first, first + _PAGE - 1):
                found.add(tell)
        if found.curve and found.curve[-1].tell < found.tells - 1:
            end = found.curve[-1]._replace(tell=found.tells - 1, evaluations=found.proposed)
            found.curve.append(end)
        found.calls, found.heldout = self._call_totals(connection, run_id), heldout_of(event)
        return found

    @reading
    def tell_lines(self, connection: Connection, run_id: str, first: int, last: int) -> list[TellLine]:
        """Return the tells (evaluated replies) of a run from position `first` to `last`, both included."""
        return _tell_lines(connection, run_id, first, last)


def _solved_heldout(run: RunRow | RunSummary) -> bool | None:
    passed, total = run.heldout or (0, 0)
    return run.best_mean_reward == 1.0 and passed == total if total else None


def heldout_of(row: Row[Any]) -> tuple[int, int] | None:
    """Return the held-out result (passed, total) in a row with the latest status of a run, or None."""
    return None if row.heldout_total is None else (row.heldout_passed, row.heldout_total)


def _runs() -> Select[Any]:
    events = run_events.alias()
    first = select(func.min(events.c.number)).where(events.c.run_id == runs.c.id).scalar_subquery()
    proposed = (
        select(func.count())
        .join(prompts, prompts.c.id == candidates.c.prompt_id)
        .where(candidates.c.run_id == runs.c.id, prompts.c.kind.not_in(FREE))
        .scalar_subquery()
    )
    means = (
        select(candidates.c.run_id, func.avg(rewards.c.value).label("mean_reward"))
        .join(rewards, rewards.c.evaluation_id == candidates.c.evaluation_id)
        .group_by(candidates.c.run_id, candidates.c.id)
        .subquery()
    )
    best = (
        select(means.c.run_id, func.max(means.c.mean_reward).label("best"))
        .group_by(means.c.run_id)
        .subquery()
    )
    with_best = with_status().outerjoin(best, best.c.run_id == runs.c.id)
    return with_best.add_columns(proposed.label("proposed"), best.c.best).order_by(first.desc())


def _tell_lines(connection: Connection, run_id: str, first: int, last: int) -> list[TellLine]:
    where = (candidates.c.run_id == run_id) & candidates.c.position.between(first, last)
    judgements = select(candidates.c.evaluation_id).where(where)
    statistics = (
        select(
            rewards.c.evaluation_id,
            func.avg(rewards.c.value).label("mean_reward"),
            func.sum((rewards.c.value >= 1.0).cast(Integer)).label("passed"),
        )
        .where(rewards.c.evaluation_id.in_(judgements))
        .group_by(rewards.c.evaluation_id)
        .subquery()
    )
    proposed = (
        select(
            *(candidates.c.position, candidates.c.parse_status, candidates.c.program_id),
            *(candidates.c.evaluation_id, candidates.c.executed),
            *(prompts.c.kind, prompts.c.way, prompts.c.island),
            *(evaluations.c.status, evaluations.c.seconds, evaluations.c.metrics),
            *(statistics.c.mean_reward, statistics.c.passed),
            func.length(func.coalesce(candidates.c.source, programs.c.source)).label("length"),
        )
        .join(prompts, prompts.c.id == candidates.c.prompt_id)
        .outerjoin(evaluations, evaluations.c.id == candidates.c.evaluation_id)
        .outerjoin(statistics, statistics.c.evaluation_id == candidates.c.evaluation_id)
        .outerjoin(programs, programs.c.id == candidates.c.program_id)
        .where(where)
        .order_by(candidates.c.position, candidates.c.slot)
    )
    vectors = vectors_of(connection, judgements)
    lines: defaultdict[int, list[CandidateLine]] = defaultdict(list)
    for row in connection.execute(proposed):
        line = CandidateLine(
            *(row.kind, row.way, row.island, row.parse_status, row.program_id, row.evaluation_id),
            status=None if row.status is None else Status(row.status),
            executed=row.executed,
            seconds=(row.seconds or 0.0) if row.executed else 0.0,
            mean_reward=row.mean_reward,
            passed=row.passed or 0,
            length=row.length or 0,
            metrics=None if row.metrics is None else dict(row.metrics),
            rewards=vectors.get(row.evaluation_id, ()),
        )
        lines[row.position].append(line)
    told = (
        select(tells.c.position, rollouts.c.policy_version, rollouts.c.tokens, rollouts.c.seconds)
        .outerjoin(rollouts, rollouts.c.id == tells.c.rollout_id)
        .where(tells.c.run_id == run_id, tells.c.position.between(first, last))
        .order_by(tells.c.position)
    )
    return [
        TellLine(position, policy, tokens or 0, seconds or 0.0, lines[position])
        for position, policy, tokens, seconds in connection.execute(told)
    ]
