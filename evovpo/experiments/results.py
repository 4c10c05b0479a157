"""What a batch came to, read from the store alone: cells, arms with intervals, curves, heat maps.

A problem counts as solved when a program has every component at full reward. Means over problems and seeds
have bootstrap intervals in which both are drawn anew (`evovpo/analysis/statistics.py`): they speak of other
problems of the kind and of other seeds. They rest on the problems for which every seed of the arm has ended.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evovpo.analysis.statistics import Array, Interval, mean_interval, paired_interval, sign_flip_p
from evovpo.experiments.plan import Arm, Batch, Cell, cells
from evovpo.reports.report import solved_at
from evovpo.store import CurvePoint, Store, unescape_text
from evovpo.types import RunStatus

_GRID = 60
"""Points of a curve."""
_POINT_DRAWS = 2000
"""Resamples for a point of a curve."""
_CLEAR = 0.05
"""Below this a p-value counts as clear."""
_VECTORS_SHOWN = 24
"""Rows of a heat map."""
_CHUNK = 500
"""Evaluations whose rewards are read at a time."""


class CellResult(NamedTuple):
    """A cell and what its run came to so far."""

    cell: Cell
    status: RunStatus | None
    """None if the run has not begun."""
    solved: bool
    solved_after: int | None
    """Evaluations up to the first program with every component at full reward; none if there is none."""
    best_mean_reward: float
    proposed: int
    executed: int
    tokens: int
    sampling_seconds: float
    evaluation_seconds: float
    curve: tuple[CurvePoint, ...]

    @property
    def is_finished(self) -> bool:
        """True if the run has nothing left to do."""
        return self.status is not None and self.status.is_finished


class ArmResult(NamedTuple):
    """What an arm came to over problems and seeds."""

    arm: Arm
    cells: int
    finished: int
    seeds: int
    problems: int
    """That the intervals rest on: every seed has ended."""
    solved: Interval | None
    """Mean number of these problems solved with one seed; none without such a problem."""
    solved_in_any: int
    """Of all problems, how many were solved with some seed."""
    unlocked: tuple[str, ...]
    """Problems solved with some seed, and by no other arm with any."""
    best: Interval | None
    """Mean reward of the best program."""
    evaluations: float
    """Mean over the finished cells."""


class Difference(NamedTuple):
    """An arm against the first arm of the batch, on the same problems."""

    arm: Arm
    reference: Arm
    solved: Interval
    """Difference in the number of problems solved with one seed, of `n`."""
    best: Interval
    p: float
    """Two-sided, that random signs of the problems' differences in solving are as far from zero: with few
    problems that agree, a bootstrap interval has no width, and this still says how little they show."""

    @property
    def is_clear(self) -> bool:
        """True if the interval of problems solved excludes zero and chance signs rarely reach as far."""
        return (self.solved.is_above_zero or self.solved.is_below_zero) and self.p < _CLEAR


class Curve(NamedTuple):
    """How an arm gets on with its budget."""

    arm: Arm
    evaluations: tuple[int, ...]
    solved: tuple[Interval, ...]
    """Share of problems solved after so many evaluations."""
    best: tuple[Interval, ...]
    """Mean reward of the best program so far."""


class HeatMap(NamedTuple):
    """The best different reward vectors that any cell reached on a problem, with a program for each."""

    problem: str
    components: tuple[str, ...]
    programs: tuple[tuple[str, str], ...]
    """Id and source of the shortest program with each vector, best mean reward first."""
    alike: tuple[int, ...]
    """How many different programs have each vector."""
    rewards_N_D: npt.NDArray[np.float64]  # noqa: N815
    vectors: int
    """Different vectors, those included that are not here."""
    judged: int
    """Different programs that were judged for the problem."""


@dataclass(frozen=True)
class Results:
    """Everything that a report of a batch shows."""

    batch: Batch
    problems: tuple[str, ...]
    cells: tuple[CellResult, ...]
    arms: tuple[ArmResult, ...]
    differences: tuple[Difference, ...]
    curves: tuple[Curve, ...]


# ---------------------------------------------------------------- reading


def read_results(batch: Batch, store: Store) -> Results:
    """Return what is stored of a batch. Raises `StoreError`."""
    known = {row.run: row.status for row in store.runs()}
    return summarise(batch, [_read_cell(store, cell, known.get(cell.run_id)) for cell in cells(batch)])


def summarise(batch: Batch, found: Sequence[CellResult]) -> Results:
    """Return the figures of all cells of a batch; the same cells give the same numbers."""
    problems = tuple(dict.fromkeys(result.cell.problem_id for result in found))
    by_arm = {arm: [result for result in found if result.cell.arm == arm] for arm in batch.arms}
    solved_by = {
        arm: {result.cell.problem_id for result in results if result.solved}
        for arm, results in by_arm.items()
    }
    arms = []
    for arm, results in by_arm.items():
        others = set().union(*(names for other, names in solved_by.items() if other != arm))
        arms.append(_arm_result(arm, results, sorted(solved_by[arm] - others), batch.seeds))
    return Results(
        batch=batch,
        problems=problems,
        cells=tuple(found),
        arms=tuple(arms),
        differences=tuple(_differences(by_arm, batch.seeds)),
        curves=tuple(_curves(by_arm, batch.seeds)),
    )


def read_heat_map(store: Store, results: Results, problem: str) -> HeatMap | None:
    """Return the best vectors of a problem over all cells; none if nothing was judged."""
    runs = [result.cell.run_id for result in results.cells if result.cell.problem_id == problem]
    marks = {f"run{number}": run for number, run in enumerate(runs)}
    of_runs = ", ".join(f":{name}" for name in marks)
    judged = store.query(
        "SELECT candidates.program_id AS program, max(candidates.evaluation_id) AS evaluation, "
        "max(length(programs.source)) AS length, max(means.mean_reward) AS mean_reward "
        "FROM candidates JOIN programs ON programs.id = candidates.program_id "
        "JOIN (SELECT evaluation_id, avg(value) AS mean_reward FROM rewards "
        f"WHERE evaluation_id IN (SELECT evaluation_id FROM candidates WHERE run_id IN ({of_runs})) "
        "GROUP BY evaluation_id) AS means "
        "ON means.evaluation_id = candidates.evaluation_id "
        f"WHERE candidates.run_id IN ({of_runs}) GROUP BY candidates.program_id "
        "ORDER BY mean_reward DESC, length, program",
        **marks,
    )
    if not judged:
        return None
    first: dict[tuple[float, ...], str] = {}
    counts: Counter[tuple[float, ...]] = Counter()
    for start in range(0, len(judged), _CHUNK):
        chunk = judged[start : start + _CHUNK]
        vectors = _vectors(store, [str(row["evaluation"]) for row in chunk])
        for row in chunk:
            vector = vectors[str(row["evaluation"])]
            first.setdefault(vector, str(row["program"]))
            counts[vector] += 1
    shown = dict(itertools.islice(first.items(), _VECTORS_SHOWN))
    sources = [
        store.query("SELECT source FROM programs WHERE id = :id", id=program)[0]["source"]
        for program in shown.values()
    ]
    named = store.query(
        "SELECT name FROM rewards WHERE evaluation_id = :evaluation ORDER BY objective",
        evaluation=judged[0]["evaluation"],
    )
    return HeatMap(
        problem=problem,
        components=tuple(unescape_text(str(row["name"])) for row in named),
        programs=tuple(
            (program, unescape_text(str(source)))
            for program, source in zip(shown.values(), sources, strict=True)
        ),
        alike=tuple(counts[vector] for vector in shown),
        rewards_N_D=np.array(list(shown)),
        vectors=len(first),
        judged=len(judged),
    )


def _vectors(store: Store, evaluations: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Return the reward vectors of evaluations, by id."""
    marks = {f"e{number}": evaluation for number, evaluation in enumerate(evaluations)}
    found: dict[str, list[float]] = {}
    for row in store.query(
        "SELECT evaluation_id, value FROM rewards "
        f"WHERE evaluation_id IN ({', '.join(f':{name}' for name in marks)}) "
        "ORDER BY evaluation_id, objective",
        **marks,
    ):
        found.setdefault(str(row["evaluation_id"]), []).append(float(row["value"]))
    return {evaluation: tuple(values) for evaluation, values in found.items()}


def _read_cell(store: Store, cell: Cell, status: RunStatus | None) -> CellResult:
    if status is None:
        return CellResult(cell, None, False, None, 0.0, 0, 0, 0, 0.0, 0.0, ())
    summary = store.run_summary(cell.run_id)
    rows = store.query(
        "SELECT count(*) AS n FROM objectives JOIN runs ON runs.problem_id = objectives.problem_id "
        "AND runs.problem_version = objectives.problem_version WHERE runs.id = :run",
        run=cell.run_id,
    )
    objectives = int(rows[0]["n"])
    after = solved_at(summary.curve, objectives)
    return CellResult(
        cell=cell,
        status=status,
        solved=after is not None,
        solved_after=after,
        best_mean_reward=summary.best_mean_reward or 0.0,
        proposed=summary.proposed,
        executed=summary.executed,
        tokens=summary.tokens,
        sampling_seconds=summary.sampling_seconds,
        evaluation_seconds=summary.evaluation_seconds,
        curve=summary.curve,
    )


# ---------------------------------------------------------------- figures


def _matrix(
    results: Sequence[CellResult],
    seeds: Sequence[int],
    problems: Sequence[str],
    value: Callable[[CellResult], float],
) -> Array:
    """Return `[S, T]`: a figure of each seed on each problem."""
    at = {(result.cell.seed, result.cell.problem_id): value(result) for result in results}
    return np.array([[at[seed, problem] for problem in problems] for seed in seeds])


def _whole(results: Sequence[CellResult]) -> list[str]:
    """Return the problems for which every seed has ended, in order."""
    open_ones = {result.cell.problem_id for result in results if not result.is_finished}
    return [name for name in dict.fromkeys(r.cell.problem_id for r in results) if name not in open_ones]


def _times(interval: Interval, factor: float) -> Interval:
    mean, low, high, n = interval
    return Interval(mean * factor, low * factor, high * factor, n)


def _rng() -> np.random.Generator:
    """Return the generator of an interval, of the same seed each time: a report follows from its rows."""
    return np.random.default_rng(0)


def _is_solved(result: CellResult) -> float:
    return float(result.solved)


def _best(result: CellResult) -> float:
    return result.best_mean_reward


def _arm_result(
    arm: Arm, results: Sequence[CellResult], unlocked: Sequence[str], seeds: Sequence[int]
) -> ArmResult:
    problems = _whole(results)
    finished = [result for result in results if result.is_finished]
    solved = best = None
    if problems:
        share = mean_interval(_matrix(results, seeds, problems, _is_solved), _rng())
        solved = _times(share, len(problems))
        best = mean_interval(_matrix(results, seeds, problems, _best), _rng())
    return ArmResult(
        arm=arm,
        cells=len(results),
        finished=len(finished),
        seeds=len(seeds),
        problems=len(problems),
        solved=solved,
        solved_in_any=len({result.cell.problem_id for result in results if result.solved}),
        unlocked=tuple(unlocked),
        best=best,
        evaluations=sum(result.proposed for result in finished) / len(finished) if finished else 0.0,
    )


def _differences(by_arm: dict[Arm, list[CellResult]], seeds: Sequence[int]) -> list[Difference]:
    """Return each later arm against the first, on the problems that both have ended."""
    arms = list(by_arm)
    found = []
    for arm in arms[1:]:
        other = set(_whole(by_arm[arm]))
        problems = [problem for problem in _whole(by_arm[arms[0]]) if problem in other]
        if not problems:
            continue
        solved, best = (
            paired_interval(
                _matrix(by_arm[arm], seeds, problems, value),
                _matrix(by_arm[arms[0]], seeds, problems, value),
                _rng(),
            )
            for value in (_is_solved, _best)
        )
        by_problem = _matrix(by_arm[arm], seeds, problems, _is_solved).mean(axis=0)
        by_problem -= _matrix(by_arm[arms[0]], seeds, problems, _is_solved).mean(axis=0)
        p = sign_flip_p(by_problem, _rng())
        found.append(Difference(arm, arms[0], _times(solved, len(problems)), best, p))
    return found


def _curves(by_arm: dict[Arm, list[CellResult]], seeds: Sequence[int]) -> list[Curve]:
    found = []
    for arm, results in by_arm.items():
        problems = _whole(results)
        if not problems:
            continue
        points = sorted({round(x) for x in np.linspace(0, arm.evaluations, min(_GRID, arm.evaluations) + 1)})
        solved, best = [], []
        for point in points:
            values = _matrix(results, seeds, problems, partial(_solved_by, point))
            solved.append(mean_interval(values, _rng(), draws=_POINT_DRAWS))
            values = _matrix(results, seeds, problems, partial(_best_by, point))
            best.append(mean_interval(values, _rng(), draws=_POINT_DRAWS))
        found.append(Curve(arm, tuple(points), tuple(solved), tuple(best)))
    return found


def _solved_by(evaluations: int, result: CellResult) -> float:
    return float(result.solved_after is not None and result.solved_after <= evaluations)


def _best_by(evaluations: int, result: CellResult) -> float:
    reached = [point.best_mean_reward for point in result.curve if point.evaluations <= evaluations]
    return reached[-1] if reached else 0.0


def verdict(results: Results) -> list[str]:
    """Return in plain words what the comparisons say; no arm wins by an interval that includes zero,
    or by problems so few that chance signs would do the same."""
    sentences = []
    unfinished = sum(not result.is_finished for result in results.cells)
    if unfinished:
        sentences.append(
            f"{unfinished} of {len(results.cells)} runs have not ended; what follows rests on the others."
        )
    for one in results.differences:
        mean, low, high, problems = one.solved
        figures = f"{mean:+.2f} of {problems} problems solved [{low:+.2f}, {high:+.2f}], p = {one.p:.2g}"
        better = one.arm if mean > 0.0 else one.reference
        conclusion = f"({better.label}) solves more" if one.is_clear else "no difference is clear"
        sentences.append(f"({one.arm.label}) against ({one.reference.label}): {figures}; {conclusion}.")
    if not results.differences and not unfinished:
        sentences.append("There is one arm: nothing to compare.")
    return sentences
