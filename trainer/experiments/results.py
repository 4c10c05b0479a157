"""Figures of a study from its export: means with intervals, paired differences, problems unlocked.

Values are arrays `[S, T]`, seeds by problems. Only seeds count whose searches of every problem have ended.
Means and differences have bootstrap intervals over seeds and problems (`evovpo/analysis/statistics.py`). A
difference is clear if its interval excludes zero and random signs of the problems' differences reach as far
in less than one of twenty cases. Neither is corrected for the number of comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evovpo.analysis.statistics import Array, Interval, mean_interval, paired_interval, sign_flip_p
from evovpo.errors import ConfigError
from trainer.experiments.export import Export, SearchKey
from trainer.experiments.plan import Study, StudyArm
from trainer.experiments.trainings import chosen, finals, grid, tuned_arms

K_FIGURES = ("best_at_k", "pass_at_k")
_CLEAR = 0.05
_BUDGET_POINTS = 40
_UNLOCK_DRAWS = 2000


class Difference(NamedTuple):
    """One arm's mean figure minus another's, on the same problems."""

    interval: Interval
    p: float

    @property
    def is_clear(self) -> bool:
        """True if there is a winner."""
        return (self.interval.is_above_zero or self.interval.is_below_zero) and self.p < _CLEAR


class Unlocked(NamedTuple):
    """Problems that an arm solves with some seed and another arm with none, by the same number of seeds."""

    problems: tuple[str, ...]
    interval: Interval
    seeds: int


class BudgetCurve(NamedTuple):
    """Problems solved after so many evaluations, of one seed."""

    evaluations: tuple[int, ...]
    solved: tuple[Interval, ...]


class Searched(NamedTuple):
    """What the searches of an arm by one strategy came to."""

    seeds: tuple[int, ...]
    """Those with every problem."""
    solved: Interval
    """Problems solved with one seed: right on all training and all held-out rows."""
    solved_rows: Interval
    """Problems with a program that is right on all training rows, with one seed."""
    solved_in_any: tuple[str, ...]
    """Problems solved with some seed."""
    curve: BudgetCurve
    tokens: float
    """Sampled by the searches of one seed."""
    seconds: float
    """Of sampling and running programs, the searches of one seed; they shared the machine with others."""
    training_seconds: float
    """CPU seconds of training while searching, of one seed."""


@dataclass(frozen=True)
class ArmResult:
    """All figures of an arm."""

    arm: StudyArm
    searched: Mapping[str, Searched]
    """By strategy; those without a finished seed are missing."""
    at_k: Mapping[str, Mapping[int, Interval]]
    """best@k and pass@k by k; empty without a finished seed of independent samples."""
    distinct_share: float
    diversity: float
    """Of independent samples; both 0 without."""
    trainings: Sequence[Mapping[str, Any]]
    """Rows of its final trainings."""
    missing: int
    """Searches without a row."""


@dataclass(frozen=True)
class Comparison:
    """An arm against a reference."""

    arm: str
    reference: str
    at_k: Mapping[str, Mapping[int, Difference]]
    solved: Mapping[str, Difference]
    """By strategy, in problems."""
    unlocked: Mapping[str, Unlocked]
    """By strategy: what the arm solves and the reference does not."""
    locked: Mapping[str, Unlocked]
    """By strategy: the other way round."""


@dataclass(frozen=True)
class StrategyComparison:
    """One strategy against another with the same arm, in problems solved."""

    arm: str
    strategy: str
    reference: str
    solved: Difference


@dataclass(frozen=True)
class Results:
    """Everything that the report of a study shows."""

    study: Study
    problems: tuple[str, ...]
    arms: tuple[ArmResult, ...]
    comparisons: tuple[Comparison, ...]
    strategies: tuple[StrategyComparison, ...]
    tuning: Mapping[str, Sequence[Mapping[str, Any]]]
    """By arm, the points of the grid that have a row: learning rate, KL, score, and whether it was chosen."""

    def arm(self, name: str) -> ArmResult:
        """Return the figures of an arm."""
        return next(found for found in self.arms if found.arm.name == name)


# ---------------------------------------------------------------- rows to arrays


class _Rows:
    """The searches of one arm by one strategy, whole seeds only."""

    def __init__(
        self, study: Study, export: Export, arm: StudyArm, strategy: str, problems: Sequence[str]
    ) -> None:
        self._rows = export.searches
        self._arm, self._strategy, self._problems = arm.name, strategy, problems
        self.seeds = tuple(
            seed
            for seed in study.search_seeds(arm, strategy)
            if problems and all(self._key(seed, problem) in self._rows for problem in problems)
        )

    def _key(self, seed: int, problem: str) -> SearchKey:
        return SearchKey(self._arm, self._strategy, seed, problem)

    def values(self, value: Callable[[Mapping[str, Any]], float]) -> Array:
        """Return `[S, T]`: a figure of each seed on each problem."""
        return np.array(
            [
                [value(self._rows[self._key(seed, problem)]) for problem in self._problems]
                for seed in self.seeds
            ],
            dtype=np.float64,
        ).reshape(len(self.seeds), len(self._problems))


def _is_solved(row: Mapping[str, Any]) -> float:
    return float(row["solved_after"] is not None and row["is_right"])


def _has_rows(row: Mapping[str, Any]) -> float:
    return float(row["solved_after"] is not None)


def _solved_by(evaluations: int) -> Callable[[Mapping[str, Any]], float]:
    return lambda row: float(_is_solved(row) and row["solved_after"] <= evaluations)


def _field(name: str) -> Callable[[Mapping[str, Any]], float]:
    return lambda row: float(row[name])


def _at_k(figure: str, k: int) -> Callable[[Mapping[str, Any]], float]:
    return lambda row: float(row[figure][str(k)])


# ---------------------------------------------------------------- figures


def summarise(study: Study, export: Export) -> Results:
    """Return the figures of what is exported so far. Raises `ConfigError` if no search is."""
    names = {arm.name for arm in study.arms}
    problems = tuple(dict.fromkeys(key.problem for key in sorted(export.searches) if key.arm in names))
    if not problems:
        raise ConfigError(f"{study.folder / 'export'} holds no search of this study yet; run it first")
    rows = {
        (arm.name, strategy): _Rows(study, export, arm, strategy, problems)
        for arm in study.arms
        for strategy in arm.strategies
    }
    return Results(
        study=study,
        problems=problems,
        arms=tuple(_arm_result(study, export, arm, rows, problems) for arm in study.arms),
        comparisons=tuple(
            _compare(study, arm, study.arm(reference), rows, problems) for reference, arm in _pairs(study)
        ),
        strategies=tuple(_compare_strategies(study, rows)),
        tuning={arm.name: _tuning(study, export, arm) for arm in tuned_arms(study)},
    )


def _pairs(study: Study) -> Iterator[tuple[str, StudyArm]]:
    """Yield each reference with each arm that is compared with it: of equal evaluations unless it says so."""
    for reference in study.references:
        for arm in study.arms:
            if arm.name != reference and arm.evaluations == study.evaluations:
                yield reference, arm
    for arm in study.arms:
        for reference in arm.references:
            if reference not in study.references:
                yield reference, arm


def _arm_result(
    study: Study,
    export: Export,
    arm: StudyArm,
    rows: Mapping[tuple[str, str], _Rows],
    problems: Sequence[str],
) -> ArmResult:
    searched = {
        strategy: _searched(arm, rows[arm.name, strategy], problems)
        for strategy in arm.strategies
        if rows[arm.name, strategy].seeds
    }
    samples = _independent(study, arm, rows)
    is_tuned = arm.is_trained_before and chosen(study, arm, export) is not None
    trainings = finals(study, arm, export) if is_tuned else []
    return ArmResult(
        arm=arm,
        searched=searched,
        at_k={} if samples is None else {
            figure: {k: mean_interval(samples.values(_at_k(figure, k)), _rng()) for k in study.ks}
            for figure in K_FIGURES
        },
        distinct_share=0.0 if samples is None else float(samples.values(_field("distinct_share")).mean()),
        diversity=0.0 if samples is None else float(samples.values(_field("diversity")).mean()),
        trainings=[export.trainings[one.name] for one in trainings if one.name in export.trainings],
        missing=sum(
            SearchKey(arm.name, strategy, seed, problem) not in export.searches
            for strategy in arm.strategies
            for seed in study.search_seeds(arm, strategy)
            for problem in problems
        ),
    )  # fmt: skip


def _searched(arm: StudyArm, rows: _Rows, problems: Sequence[str]) -> Searched:
    solved = rows.values(_is_solved)
    budgets = sorted({round(x) for x in np.geomspace(10, arm.evaluations, _BUDGET_POINTS)})
    points = [
        _times(mean_interval(rows.values(_solved_by(n)), _rng(), draws=2000), len(problems)) for n in budgets
    ]
    return Searched(
        seeds=rows.seeds,
        solved=_times(mean_interval(solved, _rng()), len(problems)),
        solved_rows=_times(mean_interval(rows.values(_has_rows), _rng()), len(problems)),
        solved_in_any=_where(problems, solved.max(axis=0) > 0),
        curve=BudgetCurve(tuple(budgets), tuple(points)),
        tokens=float(rows.values(lambda row: row["tokens"]).sum(axis=1).mean()),
        seconds=float(rows.values(lambda row: row["seconds"]).sum(axis=1).mean()),
        training_seconds=float(rows.values(lambda row: row.get("training_seconds", 0.0)).sum(axis=1).mean()),
    )


def _where(problems: Sequence[str], is_one_T: npt.NDArray[np.bool_]) -> tuple[str, ...]:  # noqa: N803
    return tuple(problems[int(place)] for place in np.flatnonzero(is_one_T))


def _independent(study: Study, arm: StudyArm, rows: Mapping[tuple[str, str], _Rows]) -> _Rows | None:
    """Return an arm's independent samples, if a seed of them has ended."""
    for strategy in study.strategies:
        if (
            strategy.is_independent
            and strategy.name in arm.strategies
            and rows[arm.name, strategy.name].seeds
        ):
            return rows[arm.name, strategy.name]
    return None


def _compare(
    study: Study,
    arm: StudyArm,
    reference: StudyArm,
    rows: Mapping[tuple[str, str], _Rows],
    problems: Sequence[str],
) -> Comparison:
    ours, theirs = _independent(study, arm, rows), _independent(study, reference, rows)
    both = [
        strategy
        for strategy in arm.strategies
        if strategy in reference.strategies
        and rows[arm.name, strategy].seeds
        and rows[reference.name, strategy].seeds
    ]
    solved = {
        name: (rows[arm.name, name].values(_is_solved), rows[reference.name, name].values(_is_solved))
        for name in both
    }
    return Comparison(
        arm=arm.name,
        reference=reference.name,
        at_k={} if ours is None or theirs is None else {
            figure: {
                k: _difference(ours.values(_at_k(figure, k)), theirs.values(_at_k(figure, k)))
                for k in study.ks
            }
            for figure in K_FIGURES
        },
        solved={name: _difference(*pair, times=len(problems)) for name, pair in solved.items()},
        unlocked={name: unlocked(*pair, problems) for name, pair in solved.items()},
        locked={name: unlocked(pair[1], pair[0], problems) for name, pair in solved.items()},
    )  # fmt: skip


def _compare_strategies(study: Study, rows: Mapping[tuple[str, str], _Rows]) -> list[StrategyComparison]:
    """Compare every strategy with the last of the file, arm by arm."""
    reference = study.strategies[-1].name
    return [
        StrategyComparison(
            arm.name,
            strategy,
            reference,
            _difference(
                rows[arm.name, strategy].values(_is_solved),
                rows[arm.name, reference].values(_is_solved),
                times=len(rows[arm.name, strategy].values(_is_solved)[0]),
            ),
        )
        for arm in study.arms
        for strategy in arm.strategies
        if strategy != reference
        and reference in arm.strategies
        and rows[arm.name, strategy].seeds
        and rows[arm.name, reference].seeds
    ]


def unlocked(ours_S_T: Array, theirs_R_T: Array, problems: Sequence[str]) -> Unlocked:  # noqa: N803
    """Return the problems that an arm solves with some seed and another with none.

    Both have the same number of seeds, the first of each: one with more of them had more chances. The
    interval draws as many problems and as many seeds of each arm with replacement; a drawn set of seeds has
    fewer different ones, so it lies low for what few seeds solve.
    """
    seeds = min(len(ours_S_T), len(theirs_R_T))
    ours, theirs = ours_S_T[:seeds] > 0, theirs_R_T[:seeds] > 0
    found = (ours_S_T[:seeds].max(axis=0) > 0) & (theirs_R_T[:seeds].max(axis=0) == 0)
    rng = _rng()
    counts = np.empty(_UNLOCK_DRAWS)
    for draw in range(_UNLOCK_DRAWS):
        first, second = rng.integers(seeds, size=(2, seeds))
        drawn = rng.integers(len(problems), size=len(problems))
        counts[draw] = (ours[first].any(axis=0) & ~theirs[second].any(axis=0))[drawn].sum()
    low, high = np.quantile(counts, [0.025, 0.975])
    names = _where(problems, found)
    return Unlocked(names, Interval(float(found.sum()), float(low), float(high), len(problems)), seeds)


def _tuning(study: Study, export: Export, arm: StudyArm) -> list[dict[str, Any]]:
    best = chosen(study, arm, export)
    return [
        {
            "learning_rate": point.arm.learning_rate,
            "kl": point.arm.kl,
            "score": export.trainings[point.name]["score"],
            "diverged": bool(export.trainings[point.name]["diverged"]),
            "chosen": point.arm == best,
        }
        for point in grid(study, arm)
        if point.name in export.trainings
    ]


def _difference(ours: Array, theirs: Array, times: float = 1.0) -> Difference:
    interval = _times(paired_interval(ours, theirs, _rng()), times)
    return Difference(interval, sign_flip_p(ours.mean(axis=0) - theirs.mean(axis=0), _rng()))


def _times(interval: Interval, factor: float) -> Interval:
    return Interval(interval.mean * factor, interval.low * factor, interval.high * factor, interval.n)


def _rng() -> np.random.Generator:
    """Return the same random numbers for every figure: the same rows give the same report."""
    return np.random.default_rng(0)
