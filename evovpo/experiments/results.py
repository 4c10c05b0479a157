"""What a batch came to, read from its store: cells, arms with intervals, curves, sentences.

A problem counts as solved when a program has every component at full reward; whether that program is right on
held-out rows too is stored when a run ends. Figures (`evovpo/experiments/intervals.py`) rest on the problems
for which every seed of the arm has ended.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from evovpo.analysis.doctor.sample_figures import weightings
from evovpo.analysis.grouping import grouped
from evovpo.analysis.portfolio import coverage
from evovpo.analysis.statistics import Array, Interval
from evovpo.experiments.batch import Arm, Batch, Cell, cells
from evovpo.experiments.intervals import Difference, curve, difference, mean
from evovpo.store import CurvePoint, Store, solved_at
from evovpo.types import RunStatus

_GRID = 60
"""Points of a curve."""
_AS_SUMMED_UP = ("proposed", "executed", "tokens", "sampling_seconds", "evaluation_seconds", "curve")
_SOLVED, _BEST = attrgetter("solved"), attrgetter("best_mean_reward")


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
    solved_heldout: bool | None = None
    """Solved, and the best program right on every held-out row; `None` where there are none."""
    expected_best: float = 0.0
    """E_w max w·r of all its programs, under the weightings of `evovpo show`."""
    hypervolume: float = 0.0
    """Of all its programs."""

    @property
    def is_finished(self) -> bool:
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
    solved_heldout: Interval | None
    """As `solved`, over the problems with held-out rows; `None` without such a problem."""
    expected_best: Interval | None
    hypervolume: Interval | None


class ArmDifference(NamedTuple):
    """An arm against the first arm of the batch, on the same problems."""

    arm: Arm
    reference: Arm
    solved: Difference
    """In the number of problems solved with one seed, of `n`."""
    best: Difference


class Curve(NamedTuple):
    """How an arm gets on with its budget."""

    arm: Arm
    evaluations: tuple[int, ...]
    solved: tuple[Interval, ...]
    """Share of problems solved after so many evaluations."""
    best: tuple[Interval, ...]
    """Mean reward of the best program so far."""


@dataclass(frozen=True)
class Results:
    """Everything that a report of a batch shows."""

    batch: Batch
    problems: tuple[str, ...]
    cells: tuple[CellResult, ...]
    arms: tuple[ArmResult, ...]
    differences: tuple[ArmDifference, ...]
    curves: tuple[Curve, ...]


def read_results(batch: Batch, store: Store) -> Results:
    """Return what is stored of a batch. Raises `StoreError`."""
    known = {row.run: row.status for row in store.runs()}
    return summarise(batch, [_read_cell(store, cell, known.get(cell.run_id)) for cell in cells(batch)])


def summarise(batch: Batch, found: Sequence[CellResult]) -> Results:
    """Return the figures of all cells of a batch; the same cells give the same numbers."""
    by_arm = [_Cells(arm, [one for one in found if one.cell.arm == arm], batch.seeds) for arm in batch.arms]
    return Results(
        batch=batch,
        problems=tuple(dict.fromkeys(result.cell.problem_id for result in found)),
        cells=tuple(found),
        arms=tuple(one.result([other for other in by_arm if other is not one]) for one in by_arm),
        differences=tuple(_differences(by_arm)),
        curves=tuple(one.curve() for one in by_arm if one.problems),
    )


def _read_cell(store: Store, cell: Cell, status: RunStatus | None) -> CellResult:
    if status is None:
        return CellResult(cell, None, False, None, 0.0, 0, 0, 0, 0.0, 0.0, ())
    summary = store.run_summary(cell.run_id)
    run = store.run(cell.run_id)
    problem = store.problem(run.problem_id, run.problem_version)
    after = solved_at(summary.curve, len(problem.objectives))
    found = CellResult(
        cell=cell,
        status=status,
        solved=after is not None,
        solved_after=after,
        best_mean_reward=summary.best_mean_reward or 0.0,
        solved_heldout=summary.solved_heldout,
        **{name: getattr(summary, name) for name in _AS_SUMMED_UP},
    )
    if not summary.risen:
        return found
    rewards_N_D = grouped(problem, [vector for _, vector in summary.risen])
    together = coverage(rewards_N_D, weightings(rewards_N_D.shape[1]))
    return found._replace(expected_best=together.expected_best, hypervolume=together.hypervolume)


class _Cells:
    """The cells of one arm, and which problems have ended with every seed."""

    def __init__(self, arm: Arm, results: Sequence[CellResult], seeds: Sequence[int]) -> None:
        self.arm, self.results, self._seeds = arm, results, seeds
        self._at = {(result.cell.seed, result.cell.problem_id): result for result in results}
        open_ones = {result.cell.problem_id for result in results if not result.is_finished}
        problems = dict.fromkeys(result.cell.problem_id for result in results)
        self.problems = [name for name in problems if name not in open_ones]
        self.solved = {result.cell.problem_id for result in results if result.solved}

    def values(self, value: Callable[[CellResult], float], problems: Sequence[str]) -> Array:
        """Return `[S, T]`: a figure of each seed on each problem."""
        found = [[value(self._at[seed, problem]) for problem in problems] for seed in self._seeds]
        return np.array(found, dtype=np.float64)

    def result(self, others: Sequence["_Cells"]) -> ArmResult:
        finished = [result for result in self.results if result.is_finished]
        unknown = {result.cell.problem_id for result in self.results if result.solved_heldout is None}
        with_heldout = [problem for problem in self.problems if problem not in unknown]
        return ArmResult(
            arm=self.arm,
            cells=len(self.results),
            finished=len(finished),
            seeds=len(self._seeds),
            problems=len(self.problems),
            solved=self._mean(_SOLVED, self.problems, len(self.problems)),
            solved_in_any=len(self.solved),
            unlocked=tuple(sorted(self.solved.difference(*(other.solved for other in others)))),
            best=self._mean(_BEST, self.problems),
            evaluations=sum(result.proposed for result in finished) / max(len(finished), 1),
            solved_heldout=self._mean(attrgetter("solved_heldout"), with_heldout, len(with_heldout)),
            expected_best=self._mean(attrgetter("expected_best"), self.problems),
            hypervolume=self._mean(attrgetter("hypervolume"), self.problems),
        )

    def _mean(
        self, value: Callable[[CellResult], float], problems: Sequence[str], times: float = 1.0
    ) -> Interval | None:
        return mean(self.values(value, problems), times) if problems else None

    def curve(self) -> Curve:
        budget = self.arm.evaluations
        points = sorted({round(x) for x in np.linspace(0, budget, min(_GRID, budget) + 1)})
        at = [[partial(figure, point) for point in points] for figure in (_solved_by, _best_by)]
        solved, best = (curve([self.values(value, self.problems) for value in values]) for values in at)
        return Curve(self.arm, tuple(points), solved, best)


def _differences(by_arm: Sequence[_Cells]) -> Iterator[ArmDifference]:
    """Yield each later arm against the first, on the problems that both have ended."""
    first, *others = by_arm
    for one in others:
        problems = [problem for problem in first.problems if problem in one.problems]
        if problems:
            solved, best = (
                difference(one.values(value, problems), first.values(value, problems), times)
                for value, times in ((_SOLVED, len(problems)), (_BEST, 1.0))
            )
            yield ArmDifference(one.arm, first.arm, solved, best)


def _solved_by(evaluations: int, result: CellResult) -> float:
    return result.solved_after is not None and result.solved_after <= evaluations


def _best_by(evaluations: int, result: CellResult) -> float:
    return max((one.best_mean_reward for one in result.curve if one.evaluations <= evaluations), default=0.0)


def verdict(results: Results) -> list[str]:
    """Return in plain words what the comparisons say; no arm wins by an interval that includes zero,
    or by problems so few that chance signs would do the same."""
    sentences, cells = [], len(results.cells)
    if unfinished := sum(not result.is_finished for result in results.cells):
        sentences.append(f"{unfinished} of {cells} runs have not ended; what follows rests on the others.")
    for one in results.differences:
        value, low, high, problems = one.solved.interval
        figures = (
            f"{value:+.2f} of {problems} problems solved [{low:+.2f}, {high:+.2f}], p = {one.solved.p:.2g}"
        )
        better = one.arm if value > 0.0 else one.reference
        conclusion = f"({better.label}) solves more" if one.solved.is_clear else "no difference is clear"
        sentences.append(f"({one.arm.label}) against ({one.reference.label}): {figures}; {conclusion}.")
    if not results.differences and not unfinished:
        sentences.append("There is one arm: nothing to compare.")
    return sentences
