"""Read-only answers for reports: the list of runs and what one run did.

Where a vector becomes a scalar here, it is the mean over its components, and the name says so.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import fmean
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Integer, Row, Select, func, select

from evovpo.store.database import reading
from evovpo.store.runs import CallTotals, Runs, require_run, with_status
from evovpo.store.tables import (
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
from evovpo.types import ParseStatus, PromptKind, RunStatus, Status


class RunRow(NamedTuple):
    """One run in the list of runs."""

    run: str
    problem: str
    status: RunStatus
    evaluations: int
    """Candidates proposed so far, whatever became of them; the problem's starting programs are none."""
    best_mean_reward: float | None
    """None if nothing was judged yet."""
    seed: int
    created_at: str
    """When it was started, in UTC, as ISO 8601."""
    heldout: tuple[int, int] | None = None
    """On how many held-out rows the answer is right, and of how many; none for a run that has not ended, or
    ended before this was kept."""

    combined_score: float | None = None
    """The best one; none where nobody asked for it, and where there is none."""

    @property
    def solved_train(self) -> bool:
        """Every training row (or objective) at full reward."""
        return self.best_mean_reward == 1.0

    @property
    def solved_heldout(self) -> bool | None:
        """Solved, and right on every held-out row; `None` where there are none, or it is unknown."""
        return _solved_heldout(self)

    @property
    def ending(self) -> str:
        """The status, or `memorised` for a run solved on training rows only."""
        return self.status.ending(self.solved_heldout)


class CurvePoint(NamedTuple):
    """Where a run stood after one tell."""

    tell: int
    evaluations: int
    """Candidates proposed up to and with this tell."""
    best_mean_reward: float
    examples_passed: int
    """Components equal to 1 of the best program by mean reward; of several, the most."""


def solved_at(curve: Sequence[CurvePoint], objectives: int) -> int | None:
    """Return after how many evaluations all objectives were at full reward, or None."""
    return next((point.evaluations for point in curve if point.examples_passed == objectives), None)


def rises(curve: Sequence[CurvePoint], digits: int | None = None) -> list[tuple[int, float]]:
    """Return evaluations and best mean reward, rounded if so asked, wherever that rises."""
    bests = (p.best_mean_reward if digits is None else round(p.best_mean_reward, digits) for p in curve)
    points = zip((p.evaluations for p in curve), bests, strict=True)
    return [next(same) for _, same in groupby(points, key=itemgetter(1))]


class RunSummary(NamedTuple):
    """What one run did so far."""

    proposed: int
    """Candidates that count against the budget: not the problem's starting programs."""
    executed: int
    """Programs that the sandbox ran for this run, starting programs included."""
    joins: int
    """Proposed candidates that no model wrote."""
    rollouts: int
    tokens: int
    """Completion tokens, where the backend gave them."""
    sampling_seconds: float
    evaluation_seconds: float
    """Of the programs that the sandbox ran for this run."""
    by_parse_status: dict[ParseStatus, int]
    by_status: dict[Status, int]
    """Over the proposed candidates with a judgement, duplicates included."""
    best_program_id: str | None
    """Highest mean reward; then most components passed, then the shortest source, then the first.
    May be a starting program."""
    best_mean_reward: float | None
    examples_passed: int
    curve: tuple[CurvePoint, ...]
    """One point a tell; the first, with the starting programs, at no evaluations."""
    calls: CallTotals
    """Requests to model servers; all zero where none was asked."""
    heldout: tuple[int, int] | None = None
    """As of `RunRow`."""
    judged_at: Mapping[str, int] = {}
    """Of each program with rewards, in order: candidates proposed up to and with its first judgement."""

    @property
    def solved_heldout(self) -> bool | None:
        """As of `RunRow`."""
        return _solved_heldout(self)


class Summaries(Runs):
    """Figures about runs."""

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
        """Return the judged programs of runs by id, each once and with its rewards.

        The best mean reward comes first; of several programs the shortest, then the lowest id.
        """
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
        """Return what a run did so far: counts, cost, best program, and the curve over its tells."""
        require_run(connection, run_id)
        event = connection.execute(with_status().where(runs.c.id == run_id)).one()
        sampled = connection.execute(
            select(
                func.count(),
                func.coalesce(func.sum(rollouts.c.tokens), 0),
                func.coalesce(func.sum(rollouts.c.seconds), 0.0),
            ).where(rollouts.c.id.in_(select(tells.c.rollout_id).where(tells.c.run_id == run_id)))
        ).one()
        by_parse_status: Counter[ParseStatus] = Counter()
        by_status: Counter[Status] = Counter()
        proposed = executed = joins = 0
        evaluation_seconds = 0.0
        curve: dict[int, CurvePoint] = {}
        best: tuple[float, int, int] | None = None
        best_program_id = None
        judged_at: dict[str, int] = {}
        for row in connection.execute(judged_where(candidates.c.run_id == run_id)):
            if row.executed:
                executed += 1
                evaluation_seconds += row.seconds or 0.0
            if row.kind is not PromptKind.SEED:
                proposed += 1
                joins += row.kind is PromptKind.JOIN
                by_parse_status[row.parse_status] += 1
                if row.status is not None:
                    by_status[Status(row.status)] += 1
            if row.mean_reward is not None:
                judged_at.setdefault(row.program_id, proposed)
                rank = (row.mean_reward, row.passed, -row.length)
                if best is None or rank > best:
                    best, best_program_id = rank, row.program_id
            mean, passed, _ = best or (0.0, 0, 0)
            curve[row.position] = CurvePoint(row.position, proposed, mean, passed)
        return RunSummary(
            proposed=proposed,
            executed=executed,
            joins=joins,
            rollouts=sampled[0],
            tokens=int(sampled[1]),
            sampling_seconds=float(sampled[2]),
            evaluation_seconds=evaluation_seconds,
            by_parse_status=by_parse_status,
            by_status=by_status,
            best_program_id=best_program_id,
            best_mean_reward=best[0] if best else None,
            examples_passed=best[1] if best else 0,
            curve=tuple(curve.values()),
            calls=self._call_totals(connection, run_id),
            heldout=heldout_of(event),
            judged_at=judged_at,
        )


def _solved_heldout(run: RunRow | RunSummary) -> bool | None:
    passed, total = run.heldout or (0, 0)
    return run.best_mean_reward == 1.0 and passed == total if total else None


def heldout_of(row: Row[Any]) -> tuple[int, int] | None:
    """Return `RunRow.heldout` from a row with the latest status of a run."""
    return None if row.heldout_total is None else (row.heldout_passed, row.heldout_total)


def _runs() -> Select[Any]:
    events = run_events.alias()
    first = select(func.min(events.c.number)).where(events.c.run_id == runs.c.id).scalar_subquery()
    proposed = (
        select(func.count())
        .join(prompts, prompts.c.id == candidates.c.prompt_id)
        .where(candidates.c.run_id == runs.c.id, prompts.c.kind != PromptKind.SEED)
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


def judged_where(where: ColumnElement[bool]) -> Select[Any]:
    """Return the query for the candidates of a run that `where` picks, with what their rewards come to.

    They come in order, each with its mean reward and the number of components that it passed.
    """
    judgements = select(candidates.c.evaluation_id).where(where)
    vectors = (
        select(
            rewards.c.evaluation_id,
            func.avg(rewards.c.value).label("mean_reward"),
            func.sum((rewards.c.value >= 1.0).cast(Integer)).label("passed"),
        )
        .where(rewards.c.evaluation_id.in_(judgements))
        .group_by(rewards.c.evaluation_id)
        .subquery()
    )
    return (
        select(
            candidates.c.position,
            prompts.c.kind,
            candidates.c.parse_status,
            candidates.c.program_id,
            candidates.c.executed,
            evaluations.c.status,
            evaluations.c.seconds,
            vectors.c.mean_reward,
            vectors.c.passed,
            func.length(func.coalesce(candidates.c.source, programs.c.source)).label("length"),
        )
        .join(prompts, prompts.c.id == candidates.c.prompt_id)
        .outerjoin(evaluations, evaluations.c.id == candidates.c.evaluation_id)
        .outerjoin(vectors, vectors.c.evaluation_id == candidates.c.evaluation_id)
        .outerjoin(programs, programs.c.id == candidates.c.program_id)
        .where(where)
        .order_by(candidates.c.position, candidates.c.slot)
    )
