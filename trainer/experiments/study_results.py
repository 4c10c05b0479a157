"""The results of a study: its rows by arm and strategy, comparisons of arms, and the verdict.

A seed counts only if it is complete: all its searches have ended, or all its test tasks are answered.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from evovpo.analysis.statistics import Interval
from evovpo.errors import ConfigError
from evovpo.experiments.batch_file import Arm
from evovpo.experiments.break_even import UNITS, ArmCosts, BreakEven, compare, until_solved
from evovpo.experiments.intervals import Difference
from evovpo.experiments.results import SOLVED, ArmRows, Comparison, Figure, Row, by_k, in_words, verdict
from trainer.experiments.study import FIGURES, TEST, Study, StudyArm
from trainer.experiments.study_export import Export, SearchKey
from trainer.experiments.study_trainings import best_point, finals, grid, tuned_arms

_BUDGET_POINTS, _FEWEST = 40, 10
"""Number of points on a curve of solved problems by evaluations, and evaluations at the first point."""


class StudyResults:
    def __init__(self, study: Study, export: Export) -> None:
        """Read the exported rows. Raises `ConfigError` if this study has no exported search yet."""
        names = {arm.name for arm in study.arms}
        self.study, self._export = study, export
        self.problems = tuple(
            dict.fromkeys(key.problem for key in sorted(export.searches) if key.arm in names)
        )
        if not self.problems:
            raise ConfigError(f"{study.folder / 'export'} holds no search of this study yet; run it first")
        self.missing: dict[str, int] = {}
        """Number of searches without a row, by arm."""
        self._rows: dict[str, dict[str, ArmRows]] = {}
        for arm in study.arms:
            found = {strategy: self._read(arm, strategy) for strategy in study.strategies_of(arm)}
            self._rows[arm.name] = {name: rows for name, rows in found.items() if not rows.is_empty}
        self.comparisons = tuple(self._compare(arm, reference) for reference, arm in _pairs(study))

    def _read(self, arm: StudyArm, strategy: str) -> ArmRows:
        rows, whole = dict[tuple[int, str], Row](), []
        for seed in self.study.seeds_of(arm, strategy):
            keys = [SearchKey(arm.name, strategy, seed, problem) for problem in self.problems]
            found = {key: self._export.searches[key] for key in keys if key in self._export.searches}
            rows |= {(seed, key.problem): row for key, row in found.items()}
            self.missing[arm.name] = self.missing.get(arm.name, 0) + len(keys) - len(found)
            if len(found) == len(keys):
                whole.append(seed)
        return ArmRows(Arm(arm.name, strategy, arm.evaluations), rows, whole, self.problems)

    def searched(self, arm: str) -> dict[str, ArmRows]:
        """Return the rows of an arm's searches for each strategy that has at least one complete seed."""
        return {name: rows for name, rows in self._rows[arm].items() if name != TEST}

    def searched_by(self, strategy: str) -> dict[str, ArmRows]:
        """Return the rows of searches with `strategy` for each arm that has at least one complete seed."""
        return {arm: rows[strategy] for arm, rows in self._rows.items() if strategy in rows}

    def samples(self, arm: str) -> ArmRows | None:
        """Return the rows of an arm's independent samples or test tasks; None if no seed is complete."""
        for name, rows in self._rows[arm].items():
            if name == TEST or self.study.strategy(name).is_independent:
                return rows
        return None

    def at_k(self, arm: str) -> dict[str, dict[int, Interval]]:
        """Return the means over an arm's `samples` by statistic and k; empty if there are no samples."""
        samples, ks = self.samples(arm), self.study.ks
        return {
            figure: {k: found for k in ks if (found := samples.mean(by_k(figure, k)))}
            for figure in FIGURES
            if samples is not None and samples.has(figure)
        }

    def trainings(self, arm: str) -> list[Row]:
        names = (one.name for one in finals(self.study, self.study.arm(arm), self._export))
        return [self._export.trainings[name] for name in names if name in self._export.trainings]

    def tuning(self) -> dict[str, list[Row]]:
        """Return, for each tuned arm, its finished tuning runs with scores and whether each was chosen."""
        found = dict[str, list[Row]]()
        for arm in tuned_arms(self.study):
            best, found[arm.name] = best_point(self.study, arm, self._export), []
            for point in grid(self.study, arm):
                if (row := self._export.trainings.get(point.name)) is not None:
                    about = {"learning_rate": point.arm.learning_rate, "kl": point.arm.kl}
                    about |= {"score": row["score"], "temperature": row.get("temperature", 1.0)}
                    about |= {"diverged": bool(row["diverged"]), "chosen": point == best}
                    found[arm.name].append(about)
        return found

    def costs(self) -> dict[tuple[str, str], dict[str, ArmCosts]]:
        """Return {(strategy, unit): costs by arm}. An entry needs the costs of at least one trained arm."""
        strategies = [TEST] if self.study.test.evaluations else [one.name for one in self.study.strategies]
        found = {(name, unit): self._costs(name, unit) for name in strategies for unit in UNITS}
        return {key: arms for key, arms in found.items() if any(one.training for one in arms.values())}

    def _costs(self, strategy: str, unit: str) -> dict[str, ArmCosts]:
        cost = Figure(unit, lambda row: until_solved(row[unit], row["evaluations"], row["solved_after"]))
        found = {}
        for arm in self.study.arms:
            rows, own = self._rows[arm.name].get(strategy), self.trainings(arm.name)
            if rows is None or not rows.has(unit) or (arm.objective and not own):
                continue
            training = 0.0
            if arm.objective:
                tuned = grid(self.study, self.study.arm(arm.tuned_as) if arm.tuned_as else arm)
                training = sum(self._export.trainings[one.name][unit] for one in tuned)
                training += sum(row[unit] for row in own) / len(own)
            found[arm.name] = ArmCosts(training, rows.values(cost), rows.values(SOLVED))
        return found

    def break_even(self) -> list[BreakEven]:
        """Return after how many problems each trained arm pays off, compared with each untrained arm."""
        return [
            compare(ours, theirs, strategy, unit, by_arm[ours], by_arm[theirs])
            for (strategy, unit), by_arm in self.costs().items()
            for ours in by_arm
            for theirs in by_arm
            if self.study.arm(ours).objective and not self.study.arm(theirs).objective
        ]

    def _compare(self, arm: StudyArm, reference: StudyArm) -> Comparison:
        ours, theirs = self.searched(arm.name), self.searched(reference.name)
        samples, baseline = self.samples(arm.name), self.samples(reference.name)
        at_k: dict[str, Mapping[int, Difference]] = {}
        if samples is not None and baseline is not None:
            for figure in FIGURES:
                if samples.has(figure) and baseline.has(figure):
                    at_k[figure] = {k: samples.minus(baseline, by_k(figure, k)) for k in self.study.ks}
        pairs = {name: (rows, theirs[name]) for name, rows in ours.items() if name in theirs}
        return Comparison(arm.name, reference.name, pairs, at_k=at_k)

    def strategies(self) -> Iterator[tuple[ArmRows, ArmRows]]:
        """Yield each arm's rows with every strategy but the last, paired with the rows with the last."""
        for arm in self.study.arms:
            found = self.searched(arm.name)
            last = found.pop(self.study.strategies[-1].name, None) if found else None
            yield from ((rows, last) for rows in found.values() if last is not None)

    def verdict(self) -> list[str]:
        """Return sentences about missing searches, compared arms and compared strategies."""
        return [
            *(f"{name}: {count} searches are not done; only whole seeds count."
              for name, count in self.missing.items() if count),
            *verdict(self.comparisons, FIGURES),
            *(f"{ours.arm.proposer}, {ours.arm.strategy} against {last.arm.strategy}: "
              f"solves {in_words(ours, last)}." for ours, last in self.strategies()),
        ]  # fmt: skip


def budgets(evaluations: int) -> list[int]:
    """Return log-spaced numbers of evaluations, up to `evaluations`, at which to count solved problems."""
    return sorted({round(x) for x in np.geomspace(_FEWEST, evaluations, _BUDGET_POINTS)})


def _pairs(study: Study) -> Iterator[tuple[StudyArm, StudyArm]]:
    for reference in study.references:
        for arm in study.arms:
            if arm.name != reference and arm.evaluations == study.evaluations:
                yield study.arm(reference), arm
    for arm in study.arms:
        for reference in arm.references:
            if reference not in study.references:
                yield study.arm(reference), arm
