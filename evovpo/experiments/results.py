"""Statistics of arms (methods under comparison), comparisons of arms, and a verdict in sentences.

Everything is computed from rows; a row is the result of one search as JSON. Rows of batches come from the
store, and rows of studies (`trainer/experiments`) come from exported files.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from evovpo.analysis.doctor.sample_figures import weightings
from evovpo.analysis.grouping import grouped
from evovpo.analysis.scores import best_combined
from evovpo.analysis.statistics import Array, Interval, expected_best, hypervolume
from evovpo.config import Config
from evovpo.experiments.batch_file import Arm, Batch, Cell, cells
from evovpo.experiments.intervals import CURVE_DRAWS, Difference, UnlockedProblems, difference, mean, unlocked
from evovpo.runs.stored import scores_of
from evovpo.store import RunSummary, Store, rises, solved_at
from evovpo.types import Problem, RunStatus

Row: TypeAlias = Mapping[str, Any]
_T = TypeVar("_T")
_NO_DIFFERENCE = "no clear difference"


@dataclass(frozen=True)
class Figure:
    """A statistic: a number that is computed from the row of one search."""

    name: str
    of: Callable[[Row], float] = field(compare=False)
    is_sum: bool = False


SOLVED = Figure("solved", lambda row: row["is_right"], True)
"""Whether the search solved all training examples and, if the problem has any, all held-out examples."""
SOLVED_ROWS = Figure("solved on training rows", lambda row: row["solved_after"] is not None, True)
SOLVED_HELDOUT = Figure("solved on held-out rows", lambda row: bool(row["solved_heldout"]), True)
"""Whether all held-out examples were solved; only for problems with held-out examples."""


def named(name: str) -> Figure:
    """Return a `Figure` that reads the field `name` of a row; a missing field counts as 0."""
    return Figure(name, lambda row: row.get(name) or 0.0)


def by_k(name: str, k: int) -> Figure:
    return Figure(f"{name} {k}", lambda row: row[name][str(k)])


def solved_within(evaluations: float, solved: Figure = SOLVED) -> Figure:
    """Return a `Figure` that is 1 if a search solved its problem within `evaluations`, else 0."""
    return Figure(
        f"{solved.name} within {evaluations}",
        lambda row: bool(solved.of(row)) and row["solved_after"] <= evaluations,
        solved.is_sum,
    )


def best_within(evaluations: float) -> Figure:
    """Return a `Figure` for the best mean reward that a search found within `evaluations`."""
    return Figure(
        f"best within {evaluations}",
        lambda row: max((float(best) for at, best in row["curve"] if at <= evaluations), default=0.0),
    )


def area(budgets: Sequence[int]) -> Figure:
    """Return a `Figure` for the share of `budgets` (in evaluations) that were enough to solve the problem."""

    def of(row: Row) -> float:
        after = row["solved_after"] if row["is_right"] else math.inf
        return float(np.mean([after <= budget for budget in budgets]))

    return Figure(f"area to {budgets[-1]}", of, True)


class ArmRows:
    def __init__(
        self, arm: Arm, rows: Mapping[tuple[int, str], Row], seeds: Sequence[int], problems: Sequence[str]
    ) -> None:
        """`rows` maps (seed, problem) to a row. Only rows of the given seeds and problems are used."""
        self.arm, self.seeds, self.problems = arm, tuple(seeds), tuple(problems)
        self._rows = rows
        self._found: dict[tuple[object, ...], Any] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.seeds and self.problems)

    def has(self, field: str) -> bool:
        return all(field in self._rows[seed, problem] for seed in self.seeds for problem in self.problems)

    def values(self, figure: Figure, problems: Sequence[str] | None = None) -> Array:
        """Return a statistic as an array of shape (S, T), for S seeds and T `problems` (default: all)."""
        wanted = self.problems if problems is None else problems
        found = [[figure.of(self._rows[seed, one]) for one in wanted] for seed in self.seeds]
        return np.array(found, dtype=np.float64).reshape(len(self.seeds), len(wanted))

    def mean(self, figure: Figure, problems: Sequence[str] | None = None) -> Interval | None:
        """Return a statistic's mean (sum if `figure.is_sum`) over `problems`; None if there are no rows."""
        wanted = self.problems if problems is None else tuple(problems)
        if not (self.seeds and wanted):
            return None
        times = len(wanted) if figure.is_sum else 1
        return self._once(lambda: mean(self.values(figure, wanted), times), figure, wanted)

    def curve(self, figures: Sequence[Figure]) -> tuple[Interval, ...]:
        """Return each statistic as `mean` does, with intervals from fewer resamples; empty without rows."""
        if self.is_empty:
            return ()
        times = len(self.problems) if figures[0].is_sum else 1
        return self._once(
            lambda: tuple(mean(self.values(one), times, CURVE_DRAWS) for one in figures), "curve", *figures
        )

    def minus(self, other: "ArmRows", figure: Figure) -> Difference:
        """Return this arm's statistic minus the other arm's, paired over the common problems."""
        both = [problem for problem in other.problems if problem in self.problems]
        times = len(both) if figure.is_sum else 1
        pair = self.values(figure, both), other.values(figure, both)
        return self._once(lambda: difference(*pair, times), "minus", id(other), figure)

    def unlocks(self, other: "ArmRows", figure: Figure = SOLVED) -> UnlockedProblems:
        """Return the problems that this arm solves with at least one seed, and the other arm with none."""
        both = [problem for problem in other.problems if problem in self.problems]
        pair = self.values(figure, both), other.values(figure, both)
        return self._once(lambda: unlocked(*pair, both), "unlocks", id(other), figure)

    def solved_in_any(self, figure: Figure = SOLVED) -> tuple[str, ...]:
        return tuple(compress(self.problems, self.values(figure).max(axis=0, initial=0.0).tolist()))

    def of_a_seed(self, field: str) -> float:
        """Return the sum of a numeric field over all problems, averaged over the seeds."""
        return float(self.values(named(field)).sum(axis=1).mean())

    def _once(self, compute: Callable[[], _T], *key: object) -> _T:
        if key not in self._found:
            self._found[key] = compute()
        return cast(_T, self._found[key])


class Comparison(NamedTuple):
    arm: str
    reference: str
    pairs: Mapping[str, tuple[ArmRows, ArmRows]]
    solved: Figure = SOLVED
    at_k: Mapping[str, Mapping[int, Difference]] = {}
    """Name of a statistic -> k -> difference in independent samples of the arms; empty without samples."""


def verdict(comparisons: Sequence[Comparison], titles: Mapping[str, str]) -> list[str]:
    """Return a sentence for each comparison. Only a significant difference counts as ahead or behind.

    `titles` maps each key of `Comparison.at_k` to its wording in the sentence.
    """
    found = []
    for one in comparisons:
        parts = [f"{titles[name]} {_at_k_in_words(at_k)}" for name, at_k in one.at_k.items()]
        parts += [
            f"solved by {strategy} {in_words(*pair, one.solved)}, {_unlocked_in_words(*pair, one)}"
            for strategy, pair in one.pairs.items()
        ]
        if parts:
            found.append(f"{one.arm} against {one.reference}: {'; '.join(parts)}.")
    return found


def in_words(ours: ArmRows, theirs: ArmRows, solved: Figure = SOLVED) -> str:
    """Return a text that gives the difference in solved problems, and says whether it is significant."""
    found = ours.minus(theirs, solved)
    value, low, high, problems = found.interval
    return f"{value:+.1f} of {problems} [{low:+.1f}, {high:+.1f}], p = {found.p:.2g} ({_outcome(found)})"


def _rewards_in_words(comparison: Comparison) -> str:
    ours, theirs = comparison.pairs["search"]
    found = ours.minus(theirs, named("best_mean_reward"))
    value, low, high, problems = found.interval
    return (
        f"{comparison.arm} against {comparison.reference}: best mean reward {value:+.4f} [{low:+.4f}, "
        f"{high:+.4f}] on {problems} problems, p = {found.p:.2g} ({_outcome(found)}); neither solves any."
    )


def _unlocked_in_words(ours: ArmRows, theirs: ArmRows, comparison: Comparison) -> str:
    gained, lost = ours.unlocks(theirs, comparison.solved), theirs.unlocks(ours, comparison.solved)
    seeds = "seed" if gained.seeds == 1 else f"{gained.seeds} seeds"
    return (
        f"unlocks {len(gained.problems)} that {comparison.reference} never solves and lacks "
        f"{len(lost.problems)} that it solves ({seeds} each)"
    )


def _at_k_in_words(differences: Mapping[int, Difference]) -> str:
    parts = []
    for outcome in ("ahead", "behind", _NO_DIFFERENCE):
        ks = ", ".join(str(k) for k, one in differences.items() if _outcome(one) == outcome)
        if ks:
            parts.append(f"{'with ' * (outcome == _NO_DIFFERENCE)}{outcome} at k = {ks}")
    return ", ".join(parts)


def _outcome(found: Difference) -> str:
    return _NO_DIFFERENCE if not found.is_clear else "ahead" if found.interval.mean > 0 else "behind"


class CellResult(NamedTuple):
    cell: Cell
    row: dict[str, Any] | None

    @property
    def is_finished(self) -> bool:
        return self.row is not None and RunStatus(self.row["status"]).is_finished

    @property
    def is_solved(self) -> bool:
        return self.row is not None and self.row["solved"]


class Results:
    """The stored results of a batch. An arm's statistics leave out problems on which a run has not ended."""

    def __init__(self, batch: Batch, cells: Sequence[CellResult]) -> None:
        self.batch, self.cells = batch, tuple(cells)
        self.problems = tuple(dict.fromkeys(one.cell.problem_id for one in cells))
        self.arms = tuple(self._rows_of(arm) for arm in batch.arms)

    def of(self, arm: Arm) -> list[CellResult]:
        return [one for one in self.cells if one.cell.arm == arm]

    def _rows_of(self, arm: Arm) -> ArmRows:
        found = self.of(arm)
        rows = {(one.cell.seed, one.cell.problem_id): one.row for one in found if one.row is not None}
        still_open = {one.cell.problem_id for one in found if not one.is_finished}
        problems = [one for one in self.problems if one not in still_open]
        return ArmRows(arm, rows, self.batch.seeds, problems)

    def with_heldout(self, arm: ArmRows) -> list[str]:
        runs = ((one.cell.problem_id, one.row) for one in self.of(arm.arm))
        unknown = {problem for problem, row in runs if row is None or row["solved_heldout"] is None}
        return [problem for problem in arm.problems if problem not in unknown]

    def solved_in_any(self, arm: Arm) -> set[str]:
        return {one.cell.problem_id for one in self.of(arm) if one.is_solved}

    def unlocked(self, arm: Arm) -> tuple[str, ...]:
        """Return the problems that so far only `arm` has solved, with at least one seed."""
        others = (self.solved_in_any(other) for other in self.batch.arms if other != arm)
        return tuple(sorted(self.solved_in_any(arm).difference(*others)))

    def comparisons(self) -> Iterator[Comparison]:
        """Yield the comparison of each other arm with the first, if both have finished a common problem."""
        first, *others = self.arms
        for one in others:
            if set(first.problems) & set(one.problems):
                pairs = {"search": (one, first)}
                yield Comparison(f"({one.arm.label})", f"({first.arm.label})", pairs, SOLVED_ROWS)

    def verdict(self) -> list[str]:
        if any(one.solved_in_any(SOLVED_ROWS) for one in self.arms):
            found = verdict([*self.comparisons()], {})
        else:
            found = [*map(_rewards_in_words, self.comparisons())]
        if unfinished := sum(not one.is_finished for one in self.cells):
            said = f"{unfinished} of {len(self.cells)} runs have not ended; what follows rests on the others."
            return [said, *found]
        ended = [one.cell.run_id for one in self.cells if one.row and one.row["status"] == RunStatus.STOPPED]
        found = found or ["There is one arm: nothing to compare."]
        if not ended:
            return found
        said = f"{len(ended)} of {len(self.cells)} runs stopped early: `evovpo show {ended[0]}` says why."
        return [said, *found]


def read_results(batch: Batch, store: Store) -> Results:
    """Return the stored results of a batch. Raises `StoreError` if the store cannot be read."""
    known = {row.run: row.status for row in store.runs()}
    return Results(batch, [_read_cell(store, cell, known.get(cell.run_id)) for cell in cells(batch)])


def _read_cell(store: Store, cell: Cell, status: RunStatus | None) -> CellResult:
    if status is None:
        return CellResult(cell, None)
    run, summary = store.run(cell.run_id), store.run_summary(cell.run_id)
    problem = store.problem(run.problem_id, run.problem_version)
    row = run_row(problem, summary)
    row |= {"status": status, "solved": row["solved_train"], "proposed": row["evaluations"]}
    for name in ("executed", "sampling_seconds", "evaluation_seconds"):
        row[name] = getattr(summary, name)
    row |= {"best_mean_reward": summary.best_mean_reward or 0.0, "expected_best": 0.0, "hypervolume": 0.0}
    if not Config.from_json(run.config_json).evaluator.judges:  # whose requests are counted with the others
        row["tokens"] = row["tokens"] or summary.calls.completion_tokens
    scored = best_combined(scores_of(store, run, problem))
    row |= {"best_score": scored and scored.combined, "score_name": scored and scored.name}
    if summary.risen:
        rewards_N_D = grouped(problem, [vector for _, vector in summary.risen])
        row["expected_best"] = expected_best(rewards_N_D, weightings(rewards_N_D.shape[1]))
        row["hypervolume"] = hypervolume(rewards_N_D)
    return CellResult(cell, row)


def run_row(problem: Problem, summary: RunSummary) -> dict[str, Any]:
    """Return the fields that rows of batches and of studies share, such as a run's curve and tokens."""
    solved_after = solved_at(summary.curve, len(problem.objectives))
    return {
        "evaluations": summary.proposed,
        "solved_after": solved_after,
        "solved_train": solved_after is not None,
        "solved_heldout": summary.solved_heldout,
        "is_right": solved_after is not None and summary.solved_heldout is not False,
        "curve": rises(summary.curve, 5),
        "tokens": summary.tokens,
    }
