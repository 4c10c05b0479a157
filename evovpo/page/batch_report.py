"""Reports on a batch of runs: a terminal table, JSON, a page with charts and heat maps, and files."""

import contextlib
import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
from rich.table import Table

from evovpo.analysis.statistics import Interval
from evovpo.errors import ConfigError
from evovpo.experiments.batch_file import Arm, Batch, read_batch
from evovpo.experiments.results import (
    SOLVED_HELDOUT,
    SOLVED_ROWS,
    ArmRows,
    CellResult,
    Figure,
    Results,
    best_within,
    named,
    read_results,
    solved_within,
)
from evovpo.files import write_errors
from evovpo.page.export import document, packed
from evovpo.page.read_api import Record
from evovpo.page.reports import chart, report, table
from evovpo.reports.pictures import KCurve
from evovpo.reports.text import counted, folded, plain_table, reward_text, right
from evovpo.store import Store
from evovpo.types import Json

_VECTORS_SHOWN = 24
_POINTS = 60
_REACHED = {name: named(name) for name in ("best_mean_reward", "expected_best", "hypervolume")}
_OF_A_CELL = (
    *("status", "solved", "solved_after", "best_mean_reward", "best_score", "proposed", "executed", "tokens"),
    *("sampling_seconds", "evaluation_seconds"),
)
_ARMS = (
    "Solved: a program has every component at full reward; memorised: that, but not on held-out rows. "
    "Intervals: 95 % bootstrap intervals over problems and seeds; with one seed they hold only for this one. "
    "They use the problems on which every seed of the arm has ended. Only here: solved by this arm with some "
    "seed, and by no other arm with any."
)
_MAPS = (
    "Below, each row is a reward vector of some program of any run, sorted by mean. If two rows are light in "
    "different columns, joining the two programs can gain something."
)


def batch_report(name: str, store_url: str | None, limit: int | None = None) -> Record:
    """Return the page's report on the batch file or suite `name`, with at most `limit` problems."""
    with Store.open(store_url, create=False) as store:
        return batch_record(read_results(read_batch(name, limit), store), store)


def batch_record(results: Results, store: Store | None = None) -> Record:
    """Return the page's report on a batch as JSON. With `store`, the report includes heat maps."""
    batch, (columns, *rows) = results.batch, arm_rows(results)
    parts = [table("Arms", columns, rows, _ARMS)]
    curves = {"Share of problems solved": solved_share, "Best mean reward so far": best_within}
    for title, within in curves.items():
        series = []
        for one in results.arms:
            if found := arm_curve(one, within):
                points, intervals = tuple(found)[1:], tuple(found.values())[1:]
                series.append(KCurve(short_label(one.arm, batch), points, intervals))
        parts += [chart(title, "evaluations", series)] * bool(series)
    columns = ("problem", *(short_label(arm, batch) for arm in batch.arms))
    parts.append(table("Problems", columns, _problem_rows(results), _MAPS))
    if store is not None:
        parts += filter(None, (heat_map(store, results, problem) for problem in results.problems))
    ended = sum(one.is_finished for one in results.cells)
    return report(batch.name, (ended, len(results.cells)), results.verdict(), parts)


def write_report(store: Store, results: Results, folder: Path) -> tuple[Path, list[Path]]:
    """Write `report.html`, `results.json` and `cells.csv` to `folder`; return the first path and the others.

    Raises `ConfigError` if the store has no run of the batch, or if an old report in `folder` has more runs.
    """
    begun, before = sum(one.row is not None for one in results.cells), 0
    page, figures, cells = (folder / name for name in ("report.html", "results.json", "cells.csv"))
    with contextlib.suppress(OSError), cells.open(encoding="utf-8", newline="") as file:
        before = sum(bool(row.get("status")) for row in csv.DictReader(file))
    if not (begun or before):
        raise ConfigError(f"{store.name} has no run of {results.batch.name}; give the --store that has them")
    if begun < before:
        raise ConfigError(
            f"{store.name} has {begun} runs of {results.batch.name}, the report in {folder} {before}; give "
            "the --store that has more, or another --out"
        )
    with write_errors(f"{folder}: the report", "give another --out"):
        folder.mkdir(parents=True, exist_ok=True)
        with cells.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(_cell_rows(results))
        figures.write_text(json.dumps(results_json(results), indent=1) + "\n", encoding="utf-8")
        answers = {"/api/report": {"report": batch_record(results, store)}}
        page.write_text(document(["report"], [packed(answers)]), encoding="utf-8")
    return page, [figures, cells]


def arm_rows(results: Results) -> Iterator[tuple[str, ...]]:
    """Yield the column names, then the statistics of each arm (proposer, strategy and budget)."""
    solved = ("solved with one seed [95%]", "held-out rows too [95%]", "in any seed", "only here")
    reached = ("best mean reward [95%]", "E_w best of all programs [95%]", "their hypervolume [95%]")
    yield ("proposer", "strategy", "budget", "ended", *solved, *reached, "evaluations")
    for one in results.arms:
        cells = results.of(one.arm)
        solved_rows, heldout = one.mean(SOLVED_ROWS), _solved_heldout(results, one)
        yield (
            *map(str, one.arm),
            f"{sum(cell.is_finished for cell in cells)} of {len(cells)}",
            f"{solved_rows:.1f} of {len(one.problems)}" if solved_rows else "",
            f"{heldout:.1f} of {heldout.n}" if heldout else "",
            str(len(results.solved_in_any(one.arm))),
            str(len(results.unlocked(one.arm))),
            *(f"{found:.3f}" if (found := one.mean(figure)) else "" for figure in _REACHED.values()),
            f"{_mean_evaluations(cells):.0f}",
        )


def arms_table(results: Results) -> Table:
    figures = ("ended", "solved [95 %]", "held-out", "only here", "best reward [95 %]")
    shown = plain_table(folded("arm"), *(right(name, no_wrap=True) for name in figures))
    _, *rows = arm_rows(results)
    for one, (*_, ended, solved, _, _, unlocked, best, _, _, _) in zip(results.arms, rows, strict=True):
        unseen = _solved_heldout(results, one)
        right_too = f"{unseen.mean:.1f} of {unseen.n}" if unseen else ""
        shown.add_row(short_label(one.arm, results.batch), ended, solved, right_too, unlocked, best)
    return shown


def results_json(results: Results) -> dict[str, Json]:
    """Return a batch's statistics and verdict as JSON. Intervals have `value`, `low`, `high` and `n`."""
    return {
        "batch": results.batch.name,
        "cells": len(results.cells),
        "finished": sum(result.is_finished for result in results.cells),
        "arms": [_arm_json(results, one) for one in results.arms],
        "differences": [
            {
                "arm": ours.arm.label,
                "reference": theirs.arm.label,
                "solved_train": _json(ours.minus(theirs, SOLVED_ROWS).interval),
                "best_mean_reward": _json(ours.minus(theirs, _REACHED["best_mean_reward"]).interval),
                "p": ours.minus(theirs, SOLVED_ROWS).p,
            }
            for comparison in results.comparisons()
            for ours, theirs in comparison.pairs.values()
        ],
        "verdict": [*results.verdict()],
    }


def _arm_json(results: Results, found: ArmRows) -> dict[str, Json]:
    cells = results.of(found.arm)
    return {
        **found.arm._asdict(),
        "seeds": len(found.seeds),
        "cells": len(cells),
        "finished": sum(cell.is_finished for cell in cells),
        "problems": len(found.problems),
        "solved_train": _json(found.mean(SOLVED_ROWS)),
        "solved_heldout": _json(_solved_heldout(results, found)),
        "solved_in_any_seed": len(results.solved_in_any(found.arm)),
        "unlocked": list(results.unlocked(found.arm)),
        **{name: _json(found.mean(figure)) for name, figure in _REACHED.items()},
        "mean_evaluations": _mean_evaluations(cells),
        "solved_after": _curve_json(arm_curve(found, solved_share)),
        "best_after": _curve_json(arm_curve(found, best_within)),
    }


def solved_share(evaluations: float) -> Figure:
    return solved_within(evaluations, replace(SOLVED_ROWS, is_sum=False))


def arm_curve(arm: ArmRows, within: Callable[[float], Figure]) -> dict[int, Interval]:
    """Return an arm's curve as {number of evaluations n: mean and interval of the statistic `within(n)`}."""
    budget = arm.arm.evaluations
    points = sorted({round(x) for x in np.linspace(0, budget, min(_POINTS, budget) + 1)})
    return dict(zip(points, arm.curve([within(point) for point in points]), strict=False))


def _curve_json(curve: dict[int, Interval]) -> dict[str, Json]:
    if not curve:
        return {}
    wanted = {max(curve) // 2**step for step in range(5)}
    nearest = {min(curve, key=lambda point, k=k: abs(point - k)) for k in wanted}  # type: ignore[misc]
    return {str(point): _json(value) for point, value in curve.items() if point in nearest}


def _json(interval: Interval | None) -> Json:
    return None if interval is None else dict(zip(("value", "low", "high", "n"), interval, strict=True))


def _solved_heldout(results: Results, arm: ArmRows) -> Interval | None:
    return arm.mean(SOLVED_HELDOUT, results.with_heldout(arm))


def _mean_evaluations(cells: Sequence[CellResult]) -> float:
    spent = [one.row["proposed"] for one in cells if one.row is not None and one.is_finished]
    return float(np.mean(spent)) if spent else 0.0


def short_label(arm: Arm, batch: Batch) -> str:
    """Return the name of an arm, without the values that all arms of the batch share."""
    values = zip(*batch.arms, strict=True)
    apart = [str(one) for one, of_all in zip(arm, values, strict=True) if len(set(of_all)) > 1]
    return ", ".join(apart) or arm.label


def _cell_rows(results: Results) -> Iterator[Sequence[object]]:
    yield ["run", "problem", "proposer", "strategy", "evaluations", "seed", *_OF_A_CELL]
    for one in results.cells:
        run, problem, arm, seed = one.cell
        values = [(one.row or {}).get(name) for name in _OF_A_CELL]
        yield [run, problem, *arm, seed, *(int(v) if isinstance(v, bool) else v for v in values)]


def _problem_rows(results: Results) -> Iterator[list[str]]:
    for problem in results.problems:
        of_problem = [one for one in results.cells if one.cell.problem_id == problem]
        by_arm = ([one for one in of_problem if one.cell.arm == arm] for arm in results.batch.arms)
        yield [problem, *map(_problem_cell, by_arm)]


def _problem_cell(found: Sequence[CellResult]) -> str:
    rows = [one.row for one in found if one.row is not None]
    solved = sum(row["solved"] for row in rows)
    best = reward_text(max((row["best_mean_reward"] for row in rows), default=0.0))
    text = f"**solved {solved} of {len(found)}**" if solved else f"best {best}"
    if scores := [(row["best_score"], row["score_name"]) for row in rows if row["best_score"] is not None]:
        score, name = max(scores)
        text += f", best {name} {score:.6g}"
    if memorised := sum(row["solved"] and row["solved_heldout"] is False for row in rows):
        text += f", {memorised} of these memorised"
    return text + ", not ended" * (not all(one.is_finished for one in found))


def heat_map(store: Store, results: Results, problem: str) -> Record | None:
    begun = (one.cell for one in results.cells if one.row is not None)
    runs = [cell.run_id for cell in begun if cell.problem_id == problem]
    judged = store.vectors(runs)  # best first
    if not judged:
        return None
    run = store.run(runs[0])
    objectives = store.problem(run.problem_id, run.problem_version).objectives
    alike = Counter(vector for _, vector in judged)
    shown = list(islice(alike.items(), _VECTORS_SHOWN))
    vectors = f"{counted(len(alike), 'vector')} of {len(judged)} different programs"
    return {
        "kind": "map",
        "title": f"Rewards by component: {problem}",
        "components": [objective.name for objective in objectives],
        "rows": [{"alike": count, "values": list(vector)} for vector, count in shown],
        "note": (f"The best {len(shown)} of {vectors}" if len(alike) > len(shown) else vectors) + ".",
        "best": store.program(judged[0][0]).source,
    }
