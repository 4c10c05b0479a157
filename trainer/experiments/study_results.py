"""Figures of a study from its export: means with intervals, paired differences, problems unlocked.

Only seeds count whose searches of every problem, or answers to every test task, have ended.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from evovpo.analysis.statistics import Array, Interval
from evovpo.errors import ConfigError
from evovpo.experiments.intervals import Difference, UnlockedProblems, curve, difference, mean, unlocked
from trainer.experiments.study import TEST, Study, StudyArm
from trainer.experiments.study_export import Export, SearchKey
from trainer.experiments.study_trainings import chosen, finals, grid, tuned_arms

_BUDGET_POINTS, _FEWEST = 40, 10
"""Budgets that problems solved are counted after, even by the logarithm, and the smallest."""
_Row: TypeAlias = Mapping[str, Any]
_Figure = TypeVar("_Figure")


class ArmSearches(NamedTuple):
    """What the searches of an arm by one strategy came to."""

    seeds: tuple[int, ...]
    """Those with every problem."""
    solved: Interval
    """Problems solved with one seed: right on all training and all held-out rows."""
    solved_rows: Interval
    """Problems with a program that is right on all training rows, with one seed."""
    solved_in_any: tuple[str, ...]
    after: Mapping[int, Interval]
    """Problems solved after so many evaluations, with one seed."""
    area: Interval
    """Mean of these: the area under problems solved by the logarithm of evaluations, with one seed."""
    tokens: float
    """Sampled by the searches of one seed."""
    seconds: float
    """Of sampling and running programs, the searches of one seed; they shared the machine with others."""


@dataclass(frozen=True)
class StudyArmResult:
    """All figures of an arm."""

    arm: StudyArm
    searched: Mapping[str, ArmSearches]
    """By strategy; those without a finished seed are missing."""
    trainings: Sequence[_Row]
    """Rows of its final trainings."""
    missing: int
    """Searches without a row."""
    at_k: Mapping[str, Mapping[int, Interval]] = field(default_factory=dict)
    """best@k and pass@k by k, of independent samples; empty without a finished seed of them, as below 0."""
    distinct_share: float = 0.0
    diversity: float = 0.0
    hypervolume: float | None = None
    """Of all samples of a problem; rows before it was kept lack it."""
    sampled_tokens: float = 0.0
    """Of one seed."""


@dataclass(frozen=True)
class Comparison:
    """An arm against a reference."""

    arm: str
    reference: str
    at_k: Mapping[str, Mapping[int, Difference]]
    solved: Mapping[str, Difference]
    """By strategy, in problems."""
    area: Mapping[str, Difference]
    """By strategy, in problems on average over the budgets."""
    unlocked: Mapping[str, UnlockedProblems]
    """By strategy: what the arm solves and the reference does not."""
    locked: Mapping[str, UnlockedProblems]
    """By strategy: the other way round."""


class StrategyComparison(NamedTuple):
    """One strategy against another with the same arm, in problems solved."""

    arm: str
    strategy: str
    reference: str
    solved: Difference


@dataclass(frozen=True)
class StudyResults:
    """Everything that the report of a study shows."""

    study: Study
    problems: tuple[str, ...]
    arms: tuple[StudyArmResult, ...]
    comparisons: tuple[Comparison, ...]
    strategies: tuple[StrategyComparison, ...]
    tuning: Mapping[str, Sequence[_Row]]
    """By arm, the points of the grid that have a row: learning rate, KL, score, and whether it was chosen."""

    def arm(self, name: str) -> StudyArmResult:
        """Return the figures of an arm."""
        return next(found for found in self.arms if found.arm.name == name)


class _Rows:
    """The rows of one arm by one strategy, or on test tasks; whole seeds only."""

    def __init__(
        self, study: Study, export: Export, arm: StudyArm, strategy: str, problems: Sequence[str]
    ) -> None:
        self.missing = 0
        self._whole: dict[int, Sequence[_Row]] = {}
        for seed in study.seeds_of(arm, strategy):
            keys = [SearchKey(arm.name, strategy, seed, problem) for problem in problems]
            rows = [export.searches[key] for key in keys if key in export.searches]
            self.missing += len(keys) - len(rows)
            if len(rows) == len(keys):
                self._whole[seed] = rows
        self.seeds = tuple(self._whole)

    def values(self, value: Callable[[_Row], float]) -> Array:
        """Return `[S, T]`: a figure of each seed on each problem."""
        return np.array([[value(row) for row in rows] for rows in self._whole.values()], dtype=np.float64)

    def field(self, name: str) -> Array:
        """Return the same of a field, 0 in rows without it."""
        return self.values(lambda row: row.get(name, 0.0))

    def at_k(self, figure: str, k: int) -> Array:
        """Return the same of a figure by k."""
        return self.values(lambda row: row[figure][str(k)])

    def has(self, figure: str) -> bool:
        """True if every row holds a figure."""
        return all(figure in row for rows in self._whole.values() for row in rows)

    def solved(self, after: float = math.inf) -> Array:
        """Return the same of whether it was solved within so many evaluations: 1 or 0."""
        return self.values(lambda row: row["is_right"] and row["solved_after"] <= after)

    def area(self, budgets: Sequence[float]) -> Array:
        """Return the same of the share of these budgets within which it was solved."""
        share: Array = np.mean([self.solved(budget) for budget in budgets], axis=0)
        return share

    def of_a_seed(self, field: str) -> float:
        """Return the sum of a field over the problems, of a seed in the mean."""
        return float(self.field(field).sum(axis=1).mean())


def summarise(study: Study, export: Export) -> StudyResults:
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
            for strategy in study.strategies_of(arm)
        }

    def results(self) -> StudyResults:
        study = self._study
        return StudyResults(
            study=study,
            problems=self._problems,
            arms=tuple(self._arm_result(arm) for arm in study.arms),
            comparisons=tuple(self._compare(arm, study.arm(reference)) for reference, arm in _pairs(study)),
            strategies=tuple(self._compare_strategies()),
            tuning={arm.name: self._tuning(arm) for arm in tuned_arms(study)},
        )

    def _ended(self, arm: StudyArm) -> dict[str, _Rows]:
        """Return the searches of an arm by strategy, of those with a seed that has ended."""
        found = {strategy: self._rows[arm.name, strategy] for strategy in arm.strategies}
        return {strategy: rows for strategy, rows in found.items() if rows.seeds}

    def _samples(self, arm: StudyArm) -> _Rows | None:
        """Return an arm's independent samples, if a seed of them has ended."""
        for name in self._study.strategies_of(arm):
            rows = self._rows[arm.name, name]
            if rows.seeds and (name == TEST or self._study.strategy(name).is_independent):
                return rows
        return None

    def _by_k(
        self, figure_at: Callable[[str, int], _Figure], *samples: _Rows
    ) -> dict[str, dict[int, _Figure]]:
        """Return what `figure_at` gives for each figure by k that all rows hold."""
        study = self._study
        return {
            figure: {k: figure_at(figure, k) for k in study.ks}
            for figure in study.figures
            if all(rows.has(figure) for rows in samples)
        }

    def _arm_result(self, arm: StudyArm) -> StudyArmResult:
        trainings, samples = self._export.trainings, self._samples(arm)
        names = [one.name for one in finals(self._study, arm, self._export)]
        sampled: dict[str, Any] = {}
        if samples is not None:
            sampled = {
                "at_k": self._by_k(lambda figure, k: mean(samples.at_k(figure, k)), samples),
                "distinct_share": float(samples.field("distinct_share").mean()),
                "diversity": float(samples.field("diversity").mean()),
                "hypervolume": float(samples.field("hypervolume").mean())
                if samples.has("hypervolume")
                else None,
                "sampled_tokens": samples.of_a_seed("tokens"),
            }
        return StudyArmResult(
            arm=arm,
            searched={name: self._searched(arm, rows) for name, rows in self._ended(arm).items()},
            trainings=[trainings[name] for name in names if name in trainings],
            missing=sum(rows.missing for (name, _), rows in self._rows.items() if name == arm.name),
            **sampled,
        )

    def _searched(self, arm: StudyArm, rows: _Rows) -> ArmSearches:
        problems = self._problems
        budgets = _budgets(arm.evaluations)
        points = curve([rows.solved(budget) for budget in budgets], len(problems))
        return ArmSearches(
            seeds=rows.seeds,
            solved=mean(rows.solved(), len(problems)),
            solved_rows=mean(rows.values(lambda row: row["solved_after"] is not None), len(problems)),
            solved_in_any=tuple(compress(problems, rows.solved().max(axis=0).tolist())),
            after=dict(zip(budgets, points, strict=True)),
            area=mean(rows.area(budgets), len(problems)),
            tokens=rows.of_a_seed("tokens"),
            seconds=rows.of_a_seed("seconds"),
        )

    def _compare(self, arm: StudyArm, reference: StudyArm) -> Comparison:
        problems, ours, theirs = self._problems, self._ended(arm), self._ended(reference)
        samples, baseline = self._samples(arm), self._samples(reference)
        both = [name for name in ours if name in theirs]
        solved = {name: (ours[name].solved(), theirs[name].solved()) for name in both}
        budgets = _budgets(arm.evaluations)
        areas = {name: (ours[name].area(budgets), theirs[name].area(budgets)) for name in both}
        return Comparison(
            arm=arm.name,
            reference=reference.name,
            at_k={} if samples is None or baseline is None else self._by_k(
                lambda figure, k: difference(samples.at_k(figure, k), baseline.at_k(figure, k)),
                samples,
                baseline,
            ),
            solved={name: difference(*pair, len(problems)) for name, pair in solved.items()},
            area={name: difference(*pair, len(problems)) for name, pair in areas.items()},
            unlocked={name: unlocked(*pair, problems) for name, pair in solved.items()},
            locked={name: unlocked(*pair[::-1], problems) for name, pair in solved.items()},
        )  # fmt: skip

    def _compare_strategies(self) -> Iterator[StrategyComparison]:
        """Compare every strategy with the last of the file, arm by arm."""
        for arm in self._study.arms:
            ended = self._ended(arm)
            last = ended.pop(self._study.strategies[-1].name, None) if ended else None
            for strategy, rows in ended.items():
                if last is not None:
                    found = difference(rows.solved(), last.solved(), len(self._problems))
                    yield StrategyComparison(arm.name, strategy, self._study.strategies[-1].name, found)

    def _tuning(self, arm: StudyArm) -> list[_Row]:
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


def _budgets(evaluations: int) -> list[int]:
    """Return the budgets that problems solved are counted after."""
    return sorted({round(x) for x in np.geomspace(_FEWEST, evaluations, _BUDGET_POINTS)})


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
