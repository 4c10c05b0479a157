"""The figures of a batch in rows: a table for the terminal, JSON, CSV files, and reward vectors."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rich.table import Table

from evovpo.analysis.statistics import Interval
from evovpo.experiments.batch import Arm, Batch
from evovpo.experiments.results import CellResult, Curve, Results, verdict
from evovpo.reports.text import BreakableName, folded, plain_table, right
from evovpo.store import Store
from evovpo.types import Json

_VECTORS_SHOWN = 24
"""Rows of a heat map."""


class HeatMap(NamedTuple):
    """The best different reward vectors that any cell reached on a problem, with a program for each."""

    problem: str
    components: tuple[str, ...]
    programs: tuple[tuple[str, str], ...]
    """Id and source of the shortest program with each vector, best mean reward first."""
    alike: tuple[int, ...]
    """How many different programs have each vector."""
    rewards_N_D: npt.NDArray[np.float64]
    vectors: int
    """Different vectors, those included that are not here."""
    judged: int
    """Different programs that were judged for the problem."""


def read_heat_map(store: Store, results: Results, problem: str) -> HeatMap | None:
    """Return the best vectors of a problem over all cells; none if nothing was judged."""
    begun = (result.cell for result in results.cells if result.status is not None)
    runs = [cell.run_id for cell in begun if cell.problem_id == problem]
    judged = store.vectors(runs)
    if not judged:
        return None
    first: dict[tuple[float, ...], str] = {}
    counts: Counter[tuple[float, ...]] = Counter()
    for program, vector in judged:
        first.setdefault(vector, program)
        counts[vector] += 1
    shown = dict(itertools.islice(first.items(), _VECTORS_SHOWN))
    run = store.run(runs[0])
    objectives = store.problem(run.problem_id, run.problem_version).objectives
    return HeatMap(
        problem=problem,
        components=tuple(objective.name for objective in objectives),
        programs=tuple((program, store.program(program).source) for program in shown.values()),
        alike=tuple(counts[vector] for vector in shown),
        rewards_N_D=np.array(list(shown)),
        vectors=len(first),
        judged=len(judged),
    )


def arm_rows(results: Results) -> Iterator[tuple[str, ...]]:
    """Yield what the page shows of each arm, after the names of the columns."""
    solved = ("solved with one seed [95%]", "held-out rows too [95%]", "in any seed", "only here")
    reached = ("best mean reward [95%]", "E_w best of all programs [95%]", "their hypervolume [95%]")
    yield ("proposer", "strategy", "budget", "ended", *solved, *reached, "evaluations")
    for found in results.arms:
        yield (
            *map(str, found.arm),
            f"{found.finished} of {found.cells}",
            f"{found.solved:.1f} of {found.problems}" if found.solved else "",
            f"{found.solved_heldout:.1f} of {found.solved_heldout.n}" if found.solved_heldout else "",
            str(found.solved_in_any),
            str(len(found.unlocked)),
            *(f"{one:.3f}" if one else "" for one in (found.best, found.expected_best, found.hypervolume)),
            f"{found.evaluations:.0f}",
        )


def arms_table(results: Results) -> Table:
    """Return a row for each arm, as much of it as a terminal has room for."""
    figures = ("ended", "solved [95 %]", "held-out", "only here", "best reward [95 %]")
    table = plain_table(folded("arm"), *(right(name, no_wrap=True) for name in figures))
    _, *rows = arm_rows(results)
    for one, (*_, ended, solved, _, _, unlocked, best, _, _, _) in zip(results.arms, rows, strict=True):
        unseen = one.solved_heldout
        right_too = f"{unseen.mean:.1f} of {unseen.n}" if unseen else ""
        table.add_row(
            BreakableName(short_label(one.arm, results.batch)), ended, solved, right_too, unlocked, best
        )
    return table


def results_json(results: Results) -> dict[str, Json]:
    """Return the arms with their figures and the verdict; each interval as `value`, `low`, `high`, `n`."""
    curves = {curve.arm: curve for curve in results.curves}
    arms: list[Json] = [
        {
            **found.arm._asdict(),
            **{count: getattr(found, count) for count in ("seeds", "cells", "finished", "problems")},
            "solved_by_search": _interval_json(found.solved),
            "solved_train": _interval_json(found.solved),
            "solved_heldout": _interval_json(found.solved_heldout),
            "solved_in_any_seed": found.solved_in_any,
            "unlocked": list(found.unlocked),
            "best_mean_reward": _interval_json(found.best),
            "expected_best": _interval_json(found.expected_best),
            "hypervolume": _interval_json(found.hypervolume),
            "mean_evaluations": found.evaluations,
            "solved_after": _curve_json(curves.get(found.arm), "solved"),
            "best_after": _curve_json(curves.get(found.arm), "best"),
        }
        for found in results.arms
    ]
    differences: list[Json] = [
        {
            "arm": one.arm.label,
            "reference": one.reference.label,
            "solved_by_search": _interval_json(one.solved.interval),
            "solved_train": _interval_json(one.solved.interval),
            "best_mean_reward": _interval_json(one.best.interval),
            "p": one.solved.p,
        }
        for one in results.differences
    ]
    return {
        "batch": results.batch.name,
        "cells": len(results.cells),
        "finished": sum(result.is_finished for result in results.cells),
        "arms": arms,
        "differences": differences,
        "verdict": [*verdict(results)],
    }


def _interval_json(interval: Interval | None) -> Json:
    return None if interval is None else dict(zip(("value", "low", "high", "n"), interval, strict=True))


def _curve_json(curve: Curve | None, figure: str) -> dict[str, Json]:
    """Return a figure of the curve at its end and at the halvings of it; empty without a curve."""
    if curve is None:
        return {}
    wanted = {curve.evaluations[-1] // 2**step for step in range(5)}
    nearest = {min(curve.evaluations, key=lambda point, k=k: abs(point - k)) for k in wanted}  # type: ignore[misc]
    return {
        str(point): _interval_json(value)
        for point, value in zip(curve.evaluations, getattr(curve, figure), strict=True)
        if point in nearest
    }


def short_label(arm: Arm, batch: Batch) -> str:
    """Return the name of an arm without what all arms of the batch share."""
    values = zip(*batch.arms, strict=True)
    apart = [str(one) for one, of_all in zip(arm, values, strict=True) if len(set(of_all)) > 1]
    return ", ".join(apart) or arm.label


def csv_tables(
    results: Results, maps: Sequence[HeatMap]
) -> Iterator[tuple[str, list[str], Iterable[Sequence[object]]]]:
    """Yield the name, the columns and the rows of each CSV file."""
    arm = ["proposer", "strategy", "evaluations"]
    figures = CellResult._fields[1 : CellResult._fields.index("curve")]
    cells = (
        [run, problem, *of_arm, seed, *(_plain(getattr(one, figure)) for figure in figures)]
        for one in results.cells
        for run, problem, of_arm, seed in [one.cell]
    )
    yield "cells.csv", ["run", "problem", *arm, "seed", *figures], cells
    counts, found_in = ["cells", "finished", "seeds", "problems"], ["solved_in_any", "unlocked"]
    bounds = ["solved", "solved_low", "solved_high", "best", "best_low", "best_high"]
    arms = (
        [
            *(*one.arm, *(getattr(one, count) for count in counts)),
            *(*_bounds(one.solved), *_bounds(one.best), one.solved_in_any, len(one.unlocked)),
            *(*_bounds(one.expected_best), *_bounds(one.hypervolume)),
        ]
        for one in results.arms
    )
    reached = [name + end for name in ("expected_best", "hypervolume") for end in ("", "_low", "_high")]
    yield "arms.csv", [*arm, *counts, *bounds, *found_in, *reached], arms
    points = (
        [*curve.arm, point, *_bounds(solved), *_bounds(best)]
        for curve in results.curves
        for point, solved, best in zip(curve.evaluations, curve.solved, curve.best, strict=True)
    )
    yield "curves.csv", ["proposer", "strategy", "budget", "evaluations", *bounds], points
    rewards = (
        [found.problem, rank, program, alike, component, name, float(reward)]
        for found in maps
        for rank, ((program, _), alike, vector) in enumerate(
            zip(found.programs, found.alike, found.rewards_N_D, strict=True), 1
        )
        for component, (name, reward) in enumerate(zip(found.components, vector, strict=True))
    )
    yield "rewards.csv", ["problem", "rank", "program", "alike", "component", "name", "reward"], rewards


def _plain(value: object) -> object:
    """Return a value as CSV files hold it: nothing for None, 0 or 1 for a truth."""
    return "" if value is None else int(value) if isinstance(value, bool) else value


def _bounds(interval: Interval | None) -> tuple[object, ...]:
    return ("", "", "") if interval is None else interval[:3]
