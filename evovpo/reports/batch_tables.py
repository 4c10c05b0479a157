"""The figures of a batch in rows: a table for the terminal, JSON, and CSV files."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from evovpo.analysis.statistics import Interval
from evovpo.experiments.batch import Arm, Batch
from evovpo.experiments.heat_map import HeatMap
from evovpo.experiments.results import CellResult, Curve, Results, verdict
from evovpo.reports.text import plain_table, printable, right
from evovpo.types import Json


def arms_table(results: Results) -> Table:
    """Return a row for each arm."""
    figures = ("ended", "solved [95 %]", "only here", "best reward [95 %]")
    table = plain_table("arm", *(right(name, no_wrap=True) for name in figures))
    for one in results.arms:
        solved = _interval_text(one.solved, 1)
        table.add_row(
            printable(short_label(one.arm, results.batch)),
            f"{one.finished} of {one.cells}",
            f"{solved} of {one.problems}" if solved else "",
            str(len(one.unlocked)),
            _interval_text(one.best, 3),
        )
    return table


def results_json(results: Results) -> dict[str, Json]:
    """Return the arms with their figures and the verdict; each interval as `value`, `low`, `high`, `n`."""
    curves = {curve.arm: curve for curve in results.curves}
    arms: list[Json] = []
    for found in results.arms:
        curve = curves.get(found.arm)
        arms.append(
            {
                **found.arm._asdict(),
                "seeds": found.seeds,
                "cells": found.cells,
                "finished": found.finished,
                "problems": found.problems,
                "solved_by_search": _interval_json(found.solved),
                "solved_train": _interval_json(found.solved),
                "solved_heldout": _interval_json(found.solved_heldout),
                "solved_in_any_seed": found.solved_in_any,
                "unlocked": list(found.unlocked),
                "best_mean_reward": _interval_json(found.best),
                "mean_evaluations": found.evaluations,
                "solved_after": {} if curve is None else _curve_json(curve, curve.solved),
                "best_after": {} if curve is None else _curve_json(curve, curve.best),
            }
        )
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
    said: list[Json] = [*verdict(results)]
    return {
        "batch": results.batch.name,
        "cells": len(results.cells),
        "finished": sum(result.is_finished for result in results.cells),
        "arms": arms,
        "differences": differences,
        "verdict": said,
    }


def _interval_json(interval: Interval | None) -> Json:
    if interval is None:
        return None
    return {"value": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}


def _curve_json(curve: Curve, values: Sequence[Interval]) -> dict[str, Json]:
    """Return the curve at its end and at the halvings of it."""
    wanted = {curve.evaluations[-1] // 2**step for step in range(5)}
    nearest = {min(curve.evaluations, key=lambda point, k=k: abs(point - k)) for k in wanted}  # type: ignore[misc]
    return {
        str(point): _interval_json(value)
        for point, value in zip(curve.evaluations, values, strict=True)
        if point in nearest
    }


def short_label(arm: Arm, batch: Batch) -> str:
    """Return the name of an arm without what all arms of the batch share."""
    apart = [
        str(one)
        for one, of_all in zip(arm, zip(*batch.arms, strict=True), strict=True)
        if len(set(of_all)) > 1
    ]
    return ", ".join(apart) or arm.label


def _interval_text(interval: Interval | None, digits: int) -> str:
    if interval is None:
        return ""
    return f"{interval.mean:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def arm_rows(results: Results) -> Iterator[tuple[str, ...]]:
    yield (
        "proposer",
        "strategy",
        "budget",
        "ended",
        "solved with one seed [95%]",
        "in any seed",
        "only here",
        "best mean reward [95%]",
        "evaluations",
    )
    for found in results.arms:
        solved = _interval_text(found.solved, 1)
        yield (
            found.arm.proposer,
            found.arm.strategy,
            str(found.arm.evaluations),
            f"{found.finished} of {found.cells}",
            f"{solved} of {found.problems}" if solved else "",
            str(found.solved_in_any),
            str(len(found.unlocked)),
            _interval_text(found.best, 3),
            f"{found.evaluations:.0f}",
        )


def csv_tables(results: Results, maps: Sequence[HeatMap]) -> Iterator[tuple[str, list[Sequence[object]]]]:
    """Yield the name and the rows of each CSV file, header first."""
    arm = ["proposer", "strategy", "evaluations"]
    figures = CellResult._fields[1 : CellResult._fields.index("curve")]
    yield (
        "cells.csv",
        [
            ["run", "problem", *arm, "seed", *figures],
            *(
                [run, problem, *of_arm, seed, *(_plain(getattr(one, figure)) for figure in figures)]
                for one in results.cells
                for run, problem, of_arm, seed in [one.cell]
            ),
        ],
    )
    bounds = ["solved", "solved_low", "solved_high", "best", "best_low", "best_high"]
    yield (
        "arms.csv",
        [
            [*arm, "cells", "finished", "seeds", "problems", *bounds, "solved_in_any", "unlocked"],
            *(
                [
                    *(*one.arm, one.cells, one.finished, one.seeds, one.problems),
                    *(*_bounds(one.solved), *_bounds(one.best)),
                    *(one.solved_in_any, len(one.unlocked)),
                ]
                for one in results.arms
            ),
        ],
    )
    yield (
        "curves.csv",
        [
            ["proposer", "strategy", "budget", "evaluations", *bounds],
            *(
                [*curve.arm, point, *_bounds(solved), *_bounds(best)]
                for curve in results.curves
                for point, solved, best in zip(curve.evaluations, curve.solved, curve.best, strict=True)
            ),
        ],
    )
    yield (
        "rewards.csv",
        [
            ["problem", "rank", "program", "alike", "component", "name", "reward"],
            *(
                [found.problem, rank, program, alike, component, name, float(reward)]
                for found in maps
                for rank, ((program, _), alike, vector) in enumerate(
                    zip(found.programs, found.alike, found.rewards_N_D, strict=True), 1
                )
                for component, (name, reward) in enumerate(zip(found.components, vector, strict=True))
            ),
        ],
    )


def _plain(value: object) -> object:
    """Return a value as CSV files hold it: nothing for None, 0 or 1 for a truth."""
    return "" if value is None else int(value) if isinstance(value, bool) else value


def _bounds(interval: Interval | None) -> tuple[object, object, object]:
    return ("", "", "") if interval is None else (interval.mean, interval.low, interval.high)
