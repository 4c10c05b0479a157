"""Figures of a study from its export: means with intervals, paired differences, problems unlocked.

Only seeds count whose searches of every problem, or answers to every test task, have ended.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evovpo.analysis.statistics import Array, Interval
from evovpo.errors import ConfigError
from evovpo.experiments.intervals import (
    Difference,
    Unlocked,
    curve,
    difference,
    mean,
    names_where,
    unlocked,
)
from trainer.experiments.export import Export, SearchKey
from trainer.experiments.records import TEST, Study, StudyArm
from trainer.experiments.trainings import chosen, finals, grid, tuned_arms

_BUDGET_POINTS = 40


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
    sampled_tokens: float
    """Of the independent samples of one seed."""
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


class _Rows:
    """The rows of one arm by one strategy, or on test tasks; whole seeds only."""

    def __init__(
        self, study: Study, export: Export, arm: StudyArm, strategy: str, problems: Sequence[str]
    ) -> None:
        rows = [
            [export.searches.get(SearchKey(arm.name, strategy, seed, problem)) for problem in problems]
            for seed in study.seeds_of(arm, strategy)
        ]
        whole = [[row for row in of_seed if row is not None] for of_seed in rows]
        self._rows = [of_seed for of_seed in whole if len(of_seed) == len(problems)]
        self._problems = len(problems)
        self.seeds = tuple(
            seed
            for seed, of_seed in zip(study.seeds_of(arm, strategy), whole, strict=True)
            if len(of_seed) == len(problems)
        )
        self.missing = sum(len(problems) - len(of_seed) for of_seed in whole)

    def values(self, value: Callable[[Mapping[str, Any]], float]) -> Array:
        """Return `[S, T]`: a figure of each seed on each problem."""
        found = [[value(row) for row in of_seed] for of_seed in self._rows]
        return np.array(found, dtype=np.float64).reshape(len(self.seeds), self._problems)


def _is_solved(row: Mapping[str, Any]) -> float:
    return float(row["solved_after"] is not None and row["is_right"])


def _has_rows(row: Mapping[str, Any]) -> float:
    return float(row["solved_after"] is not None)


def _solved_by(evaluations: int) -> Callable[[Mapping[str, Any]], float]:
    return lambda row: float(_is_solved(row) and row["solved_after"] <= evaluations)


def _field(name: str) -> Callable[[Mapping[str, Any]], float]:
    return lambda row: float(row.get(name, 0.0))


def _at_k(figure: str, k: int) -> Callable[[Mapping[str, Any]], float]:
    return lambda row: float(row[figure][str(k)])


# ---------------------------------------------------------------- figures


def summarise(study: Study, export: Export) -> Results:
    """Return the figures of what is exported so far. Raises `ConfigError` if no search is."""
    names = {arm.name for arm in study.arms}
    problems = tuple(dict.fromkeys(key.problem for key in sorted(export.searches) if key.arm in names))
    if not problems:
        raise ConfigError(f"{study.folder / 'export'} holds no search of this study yet; run it first")
    return _Summary(study, export, problems).results()


class _Summary:
    """The rows of a study by arm and strategy, and the figures that they give."""

    def __init__(self, study: Study, export: Export, problems: tuple[str, ...]) -> None:
        self._study, self._export, self._problems = study, export, problems
        self._rows = {
            (arm.name, strategy): _Rows(study, export, arm, strategy, problems)
            for arm in study.arms
            for strategy in ([TEST] if study.test_tasks else arm.strategies)
        }

    def results(self) -> Results:
        study = self._study
        return Results(
            study=study,
            problems=self._problems,
            arms=tuple(self._arm_result(arm) for arm in study.arms),
            comparisons=tuple(self._compare(arm, study.arm(reference)) for reference, arm in _pairs(study)),
            strategies=tuple(self._compare_strategies()),
            tuning={arm.name: self._tuning(arm) for arm in tuned_arms(study)},
        )

    def _ended(self, arm: StudyArm) -> list[str]:
        """Return the strategies of an arm with a seed that has ended."""
        return [strategy for strategy in arm.strategies if self._rows[arm.name, strategy].seeds]

    def _samples(self, arm: StudyArm) -> _Rows | None:
        """Return an arm's independent samples, if a seed of them has ended."""
        found = (self._rows[arm.name, name] for name in self._study.sampled_by(arm))
        return next((rows for rows in found if rows.seeds), None)

    def _arm_result(self, arm: StudyArm) -> ArmResult:
        study, export = self._study, self._export
        samples = self._samples(arm)
        is_tuned = arm.is_trained_before and chosen(study, arm, export) is not None
        trainings = finals(study, arm, export) if is_tuned else []
        return ArmResult(
            arm=arm,
            searched={strategy: self._searched(arm, strategy) for strategy in self._ended(arm)},
            at_k={} if samples is None else {
                figure: {k: mean(samples.values(_at_k(figure, k))) for k in study.ks}
                for figure in study.figures
            },
            distinct_share=0.0 if samples is None else float(samples.values(_field("distinct_share")).mean()),
            diversity=0.0 if samples is None else float(samples.values(_field("diversity")).mean()),
            sampled_tokens=0.0 if samples is None else _of_a_seed(samples, "tokens"),
            trainings=[export.trainings[one.name] for one in trainings if one.name in export.trainings],
            missing=sum(rows.missing for (name, _), rows in self._rows.items() if name == arm.name),
        )  # fmt: skip

    def _searched(self, arm: StudyArm, strategy: str) -> Searched:
        rows, problems = self._rows[arm.name, strategy], self._problems
        solved = rows.values(_is_solved)
        budgets = sorted({round(x) for x in np.geomspace(10, arm.evaluations, _BUDGET_POINTS)})
        points = curve([rows.values(_solved_by(n)) for n in budgets], len(problems))
        return Searched(
            seeds=rows.seeds,
            solved=mean(solved, len(problems)),
            solved_rows=mean(rows.values(_has_rows), len(problems)),
            solved_in_any=names_where(problems, solved.max(axis=0) > 0),
            curve=BudgetCurve(tuple(budgets), points),
            tokens=_of_a_seed(rows, "tokens"),
            seconds=_of_a_seed(rows, "seconds"),
            training_seconds=_of_a_seed(rows, "training_seconds"),
        )

    def _compare(self, arm: StudyArm, reference: StudyArm) -> Comparison:
        ours, theirs = self._samples(arm), self._samples(reference)
        solved = {
            name: (
                self._rows[arm.name, name].values(_is_solved),
                self._rows[reference.name, name].values(_is_solved),
            )
            for name in self._ended(arm)
            if name in self._ended(reference)
        }
        return Comparison(
            arm=arm.name,
            reference=reference.name,
            at_k={} if ours is None or theirs is None else {
                figure: {
                    k: difference(ours.values(_at_k(figure, k)), theirs.values(_at_k(figure, k)))
                    for k in self._study.ks
                }
                for figure in self._study.figures
            },
            solved={name: difference(*pair, len(self._problems)) for name, pair in solved.items()},
            unlocked={name: unlocked(*pair, self._problems) for name, pair in solved.items()},
            locked={name: unlocked(pair[1], pair[0], self._problems) for name, pair in solved.items()},
        )  # fmt: skip

    def _compare_strategies(self) -> Iterator[StrategyComparison]:
        """Compare every strategy with the last of the file, arm by arm."""
        for arm in self._study.arms:
            *_, last = [None, *(one.name for one in self._study.strategies)]
            ended = self._ended(arm)
            for strategy in ended:
                if last in ended and strategy != last:
                    ours, theirs = (
                        self._rows[arm.name, name].values(_is_solved) for name in (strategy, str(last))
                    )
                    yield StrategyComparison(
                        arm.name, strategy, str(last), difference(ours, theirs, len(self._problems))
                    )

    def _tuning(self, arm: StudyArm) -> list[dict[str, Any]]:
        trainings = self._export.trainings
        best = chosen(self._study, arm, self._export)
        return [
            {
                "learning_rate": point.arm.learning_rate,
                "kl": point.arm.kl,
                "score": trainings[point.name]["score"],
                "diverged": bool(trainings[point.name]["diverged"]),
                "chosen": point.arm == best,
            }
            for point in grid(self._study, arm)
            if point.name in trainings
        ]


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


def _of_a_seed(rows: _Rows, field: str) -> float:
    """Return the sum of a field over the problems, of a seed in the mean."""
    return float(rows.values(_field(field)).sum(axis=1).mean())
