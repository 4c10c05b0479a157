"""The report of a batch for people and machines: terminal tables, one HTML file, CSV files, JSON.

The HTML file holds its pictures and its style, names no other address and runs no script, so it opens
anywhere. Names of problems, sources and objectives are untrusted text: they are escaped.
"""

from __future__ import annotations

import base64
import csv
import html
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.table import Table

from evovpo.analysis.statistics import Interval
from evovpo.errors import ConfigError
from evovpo.experiments.plan import Arm, Batch
from evovpo.experiments.results import Curve, HeatMap, Results, read_heat_map, verdict
from evovpo.reports.report import printable, reward_text
from evovpo.store import Store
from evovpo.types import Json

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B")
"""Of Okabe and Ito (2008), told apart by colour-blind readers."""
_STYLES = ("-", "--", "-.", ":")
_CARD_COLUMNS = 16
"""Most components of a heat map that stands beside others."""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""What a browser may do for the page: nothing that needs a network or runs."""
_LABEL_CHARACTERS = 24
"""Longest name of a component under a heat map."""
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222 }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #ddd }
th { font-weight: 600; color: #555 } td { white-space: nowrap }
th:first-child, td:first-child { text-align: left }
td.yes { background: #d9efe3 } td.open { color: #888 }
div.table { overflow-x: auto } a { color: inherit }
div.maps { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 0 2rem }
section { min-width: 0 } section.wide { grid-column: 1 / -1 }
img { max-width: 100%; height: auto } pre { background: #f5f5f5; padding: .7rem; overflow-x: auto }
summary { cursor: pointer } .quiet { color: #666 }
"""


class Files(NamedTuple):
    """Where a report was written."""

    page: Path
    tables: tuple[Path, ...]
    """CSV files."""


def write_report(store: Store, results: Results, folder: Path) -> Files:
    """Write `report.html` and the CSV files into `folder`, made if need be; raises `ConfigError`."""
    maps = [found for problem in results.problems if (found := read_heat_map(store, results, problem))]
    tables = dict(_tables(results, maps))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in tables.items():
            with (folder / name).open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(rows)
        page = folder / "report.html"
        page.write_text(page_text(results, maps), encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{folder}: the report cannot be written ({error.strerror}); give another --out"
        ) from error
    return Files(page, tuple(folder / name for name in tables))


# ---------------------------------------------------------------- terminal and JSON


def arms_table(results: Results) -> Table:
    """Return a row for each arm."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("arm")
    for name in ("ended", "solved [95 %]", "only here", "best reward [95 %]"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in results.arms:
        solved = _interval_text(one.solved, 1)
        table.add_row(
            printable(_short(one.arm, results.batch)),
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
            "solved_by_search": _interval_json(one.solved),
            "best_mean_reward": _interval_json(one.best),
            "p": one.p,
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


def _short(arm: Arm, batch: Batch) -> str:
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


def _arm_rows(results: Results) -> Iterator[tuple[str, ...]]:
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


# ---------------------------------------------------------------- CSV


def _tables(results: Results, maps: Sequence[HeatMap]) -> Iterator[tuple[str, list[Sequence[object]]]]:
    """Yield the name and the rows of each CSV file, header first."""
    arm = ["proposer", "strategy", "evaluations"]
    fields = ["status", "solved", "solved_after", "best_mean_reward", "proposed", "executed", "tokens"]
    seconds = ["sampling_seconds", "evaluation_seconds"]
    yield (
        "cells.csv",
        [
            ["run", "problem", *arm, "seed", *fields, *seconds],
            *(
                [
                    one.cell.run_id,
                    one.cell.problem_id,
                    *one.cell.arm,
                    one.cell.seed,
                    one.status or "",
                    int(one.solved),
                    "" if one.solved_after is None else one.solved_after,
                    one.best_mean_reward,
                    one.proposed,
                    one.executed,
                    one.tokens,
                    one.sampling_seconds,
                    one.evaluation_seconds,
                ]
                for one in results.cells
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


def _bounds(interval: Interval | None) -> tuple[object, object, object]:
    return ("", "", "") if interval is None else (interval.mean, interval.low, interval.high)


# ---------------------------------------------------------------- HTML


def page_text(results: Results, maps: Sequence[HeatMap]) -> str:
    """Return the report as one HTML document."""
    batch = results.batch
    seeds = f"{len(batch.seeds)} seed" + "s" * (len(batch.seeds) != 1)
    parts = [
        f"<h1>{_text(batch.name)}</h1>",
        f"<p>{len(results.problems)} problems, {len(results.arms)} arms, {seeds}: {len(results.cells)} runs, "
        f"{sum(one.is_finished for one in results.cells)} of them ended.</p>",
        "<h2>What it says</h2><ul>",
        *(f"<li>{_text(sentence)}</li>" for sentence in verdict(results)),
        "</ul><h2>Arms</h2>",
        _html_table(_arm_rows(results)),
        '<p class="quiet">Solved: a program has every component at full reward. Intervals: 95 % bootstrap '
        "intervals in which problems and seeds are drawn anew; with one seed they say nothing of others. "
        "They rest on the problems for which every seed of the arm has ended. Only here: solved by this arm "
        "with some seed, and by no other with any.</p>",
    ]
    if results.curves:
        parts += [
            "<h2>Against the budget</h2>",
            _picture(_curves_png(results), "Problems solved and best reward against evaluations"),
            '<p class="quiet">Bands are the same intervals, point by point.</p>',
        ]
    parts += ["<h2>Problems</h2>", _problem_table(results, {found.problem for found in maps})]
    if maps:
        parts += [
            "<h2>Rewards by component</h2>",
            '<p class="quiet">A row is a reward vector that some program of any run has, the best mean on '
            "top; on its left, how many different programs have it. Columns are the components. Dark is 0, "
            "light is 1. Where two rows are light in different columns, joining two programs has something "
            "to gain.</p>",
            '<div class="maps">',
            *(part for found in maps for part in _problem_section(found, results.problems)),
            "</div>",
        ]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(batch.name)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _problem_table(results: Results, shown: Collection[str]) -> str:
    """Return the table of problems by arms: in how many seeds solved, or else the best mean reward.

    Problems that are `shown` have a section, to which the table points.
    """
    arms = results.batch.arms
    by_place: dict[tuple[str, object], list[Any]] = {}
    for one in results.cells:
        by_place.setdefault((one.cell.problem_id, one.cell.arm), []).append(one)
    names = ["problem", *(_short(arm, results.batch) for arm in arms)]
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    lines = []
    for problem in results.problems:
        name = _text(problem)
        if problem in shown:
            name = f'<a href="#{_anchor(problem, results.problems)}">{name}</a>'
        columns = [f"<td>{name}</td>"]
        for arm in arms:
            found = by_place[problem, arm]
            solved = sum(one.solved for one in found)
            best = max(one.best_mean_reward for one in found)
            is_open = not all(one.is_finished for one in found)
            kind = "yes" if solved else "open" if is_open else ""
            text = f"solved {solved} of {len(found)}" if solved else f"best {reward_text(best)}"
            columns.append(f'<td class="{kind}">{text}{", not ended" * is_open}</td>')
        lines.append(f"<tr>{''.join(columns)}</tr>")
    return _table(head, "".join(lines))


def _problem_section(found: HeatMap, problems: Sequence[str]) -> Iterator[str]:
    wide = ' class="wide"' * (len(found.components) > _CARD_COLUMNS)
    yield f'<section id="{_anchor(found.problem, problems)}"{wide}><h3>{_text(found.problem)}</h3>'
    rows = f"{found.vectors} vector{'s' * (found.vectors != 1)} of {found.judged} different programs"
    if found.vectors > len(found.programs):
        rows = f"the best {len(found.programs)} of {rows}"
    yield _picture(_heat_map_png(found), f"Rewards by component: {rows}")
    yield f'<p class="quiet">{rows[0].upper()}{rows[1:]}</p>'
    best = _text(found.programs[0][1])
    yield f"<details><summary>Best program</summary><pre>{best}</pre></details></section>"


def _anchor(problem: str, problems: Sequence[str]) -> str:
    return f"problem-{problems.index(problem) + 1}"


def _html_table(rows: Iterable[Sequence[str]]) -> str:
    head, *body = [[_text(cell) for cell in row] for row in rows]
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in body)
    names = "".join(f"<th>{cell}</th>" for cell in head)
    return _table(names, lines)


def _table(head: str, lines: str) -> str:
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _text(text: str) -> str:
    return html.escape(printable(text))


def _picture(png: bytes, meaning: str) -> str:
    data = base64.b64encode(png).decode()
    return f'<img src="data:image/png;base64,{data}" alt="{_text(meaning)}">'


# ---------------------------------------------------------------- pictures


def _curves_png(results: Results) -> bytes:
    """Return the picture of problems solved and of the best mean reward, against evaluations."""
    figure = _figure(11, 4.6)
    panels = figure.subplots(1, 2)
    for axes, name, title in zip(
        panels, ("solved", "best"), ("share of problems solved", "best mean reward so far"), strict=True
    ):
        for number, curve in enumerate(results.curves):
            values: Sequence[Interval] = getattr(curve, name)
            colour = _COLOURS[number % len(_COLOURS)]
            style: Mapping[str, Any] = {
                "color": colour,
                "linestyle": _STYLES[number % len(_STYLES)],  # so that equal curves are all seen
                "label": _plain(_short(curve.arm, results.batch)),
            }
            axes.step(curve.evaluations, [value.mean for value in values], where="post", **style)
            low, high = [value.low for value in values], [value.high for value in values]
            axes.fill_between(
                curve.evaluations, low, high, step="post", color=colour, alpha=0.12, linewidth=0
            )
        axes.set_ylim(-0.02, 1.05)
        axes.set_xlim(left=0)
        axes.set_title(title, loc="left", fontsize=12)
        axes.set_xlabel("evaluations (programs proposed)")
        axes.grid(alpha=0.25)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, ncols=2)
    return _png(figure)


def _heat_map_inches(found: HeatMap) -> tuple[float, float]:
    """Return width and height of a heat map: of its cells, and of what stands around them."""
    rows, columns = found.rewards_N_D.shape
    cells = min(1.8, max(1.2, 0.2 * columns)) if columns <= _CARD_COLUMNS else min(8.6, 0.12 * columns)
    names = 0.06 * max(len(_shortened(name)) for name in found.components)
    return 1.4 + cells, 0.6 + names + max(0.6, 0.13 * rows)


def _heat_map_png(found: HeatMap) -> bytes:
    """Return the picture of vectors by components."""
    rows, columns = found.rewards_N_D.shape
    figure = _figure(*_heat_map_inches(found))
    axes = figure.add_subplot()
    image = axes.imshow(
        found.rewards_N_D,
        extent=(-0.5, columns - 0.5, rows + 0.5, 0.5),  # vectors count from 1
        vmin=0,
        vmax=1,
        cmap="viridis",
        aspect="auto",
        interpolation="nearest",
    )
    every = -(-columns // 40)
    ticks = range(0, columns, every)
    axes.set_xticks(ticks, [_plain(_shortened(found.components[tick])) for tick in ticks], rotation=90)
    axes.set_yticks(range(1, rows + 1), map(str, found.alike))
    axes.set_ylabel("programs", fontsize=7)
    axes.tick_params(labelsize=7, length=2)
    bar = figure.colorbar(image, ax=axes, ticks=(0.0, 0.5, 1.0), aspect=30)
    bar.ax.tick_params(labelsize=7, length=2)
    return _png(figure)


def _figure(width: float, height: float) -> Any:
    # Imported only here: it takes most of a second.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    # Without the version of the library, so that the same rows give the same file.
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def _plain(text: str) -> str:
    """Return text that matplotlib does not read as mathematics, in characters that its font has."""
    return printable(text).encode("ascii", "replace").decode().replace("$", r"\$")


def _shortened(text: str) -> str:
    return text if len(text) <= _LABEL_CHARACTERS else text[: _LABEL_CHARACTERS - 3] + "..."
