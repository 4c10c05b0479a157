"""The report of a batch: one HTML file with pictures, and CSV files beside it.

The HTML file holds its pictures and its style, names no other address and runs no script, so it opens
anywhere. Names of problems, sources and objectives are untrusted text: they are escaped.
"""

import base64
import contextlib
import csv
import html
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from evovpo.errors import ConfigError
from evovpo.experiments.results import CellResult, Results, verdict
from evovpo.files import write_errors
from evovpo.reports import pictures
from evovpo.reports.batch_tables import HeatMap, arm_rows, csv_tables, read_heat_map, short_label
from evovpo.reports.text import counted, printable, reward_text
from evovpo.store import Store

_CARD_COLUMNS = 16
"""Most components of a heat map that stands beside others."""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""What a browser may do for the page: nothing that needs a network or runs."""
_LABEL_CHARACTERS = 24
"""Longest name of a component under a heat map."""
_STYLE = """
table { margin: 1rem 0 } th, td { text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
td.yes { background: var(--added) } td.open { color: var(--quiet) }
div.table { overflow-x: auto } pre { background: var(--soft); padding: .7rem; overflow-x: auto }
div.maps { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 0 2rem }
section { min-width: 0 } section.wide { grid-column: 1 / -1 } img { max-width: 100%; background: white }
"""
"""What a report has beside the style of the page in the browser."""


def write_report(store: Store, results: Results, folder: Path) -> tuple[Path, list[Path]]:
    """Write a page and CSV files into `folder`, made if need be, and return them.

    Raises `ConfigError` if the store has no run of the batch or fewer than the report that stands there, and
    if the files cannot be written.
    """
    begun, before = sum(one.status is not None for one in results.cells), 0
    with contextlib.suppress(OSError), (folder / "cells.csv").open(encoding="utf-8", newline="") as file:
        before = sum(bool(row.get("status")) for row in csv.DictReader(file))
    if begun < max(1, before):
        raise ConfigError(
            f"{store.name} has {begun} runs of {results.batch.name}, the report in {folder} {before}; give "
            "the --store that has more, or another --out"
        )
    maps = [found for problem in results.problems if (found := read_heat_map(store, results, problem))]
    tables = []
    with write_errors(f"{folder}: the report", "give another --out"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, columns, rows in csv_tables(results, maps):
            tables.append(folder / name)
            with tables[-1].open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([columns, *rows])
        page = folder / "report.html"
        page.write_text(page_text(results, maps), encoding="utf-8")
    return page, tables


def page_text(results: Results, maps: Sequence[HeatMap]) -> str:
    """Return the report as one HTML document."""
    batch = results.batch
    arms = list(arm_rows(results))
    parts = [
        f"<h1>{_text(batch.name)}</h1>",
        f"<p>{len(results.problems)} problems, {len(results.arms)} arms, "
        f"{counted(len(batch.seeds), 'seed')}: {len(results.cells)} runs, "
        f"{sum(one.is_finished for one in results.cells)} of them ended.</p>",
        "<h2>What it says</h2><ul>",
        *(f"<li>{_text(sentence)}</li>" for sentence in verdict(results)),
        "</ul><h2>Arms</h2>",
        _table(arms[0], ([f"<td>{_text(cell)}</td>" for cell in row] for row in arms[1:])),
        '<p class="quiet">Solved: a program has every component at full reward; memorised: that, but not '
        "on held-out rows. Intervals: 95 % bootstrap intervals in which problems and seeds are drawn anew; "
        "with one seed they say nothing of others. They rest on the problems for which every seed of the arm "
        "has ended. Only here: solved by this arm with some seed, and by no other with any.</p>",
    ]
    if results.curves:
        parts += [
            "<h2>Against the budget</h2>",
            _picture(_curves_figure(results), "Problems solved and best reward against evaluations"),
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
    style = (Path(__file__).parents[1] / "page/assets/page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(batch.name)}</title><style>{style}{_STYLE}</style></head>\n"
        f"<body><main>\n{body}\n</main></body></html>\n"
    )


def _problem_table(results: Results, shown: Collection[str]) -> str:
    """Return the table of problems by arms: in how many seeds solved, or else the best mean reward.

    Problems that are `shown` have a section, to which the table points.
    """
    arms = results.batch.arms
    by_place: dict[tuple[str, object], list[CellResult]] = {}
    for one in results.cells:
        by_place.setdefault((one.cell.problem_id, one.cell.arm), []).append(one)
    rows = []
    for problem in results.problems:
        name = _text(problem)
        if problem in shown:
            name = f'<a href="#{_anchor(problem, results.problems)}">{name}</a>'
        rows.append([f"<td>{name}</td>", *(_problem_cell(by_place[problem, arm]) for arm in arms)])
    return _table(["problem", *(short_label(arm, results.batch) for arm in arms)], rows)


def _problem_cell(found: Sequence[CellResult]) -> str:
    solved = sum(one.solved for one in found)
    is_open = not all(one.is_finished for one in found)
    kind = "yes" if solved else "open" if is_open else ""
    best = reward_text(max(one.best_mean_reward for one in found))
    text = f"solved {solved} of {len(found)}" if solved else f"best {best}"
    if memorised := sum(one.solved and one.solved_heldout is False for one in found):
        text += f", {memorised} of these memorised"
    return f'<td class="{kind}">{text}{", not ended" * is_open}</td>'


def _problem_section(found: HeatMap, problems: Sequence[str]) -> Iterator[str]:
    wide = ' class="wide"' * (len(found.components) > _CARD_COLUMNS)
    yield f'<section id="{_anchor(found.problem, problems)}"{wide}><h3>{_text(found.problem)}</h3>'
    rows = f"{counted(found.vectors, 'vector')} of {found.judged} different programs"
    if found.vectors > len(found.programs):
        rows = f"the best {len(found.programs)} of {rows}"
    yield _picture(_heat_map_figure(found), f"Rewards by component: {rows}")
    yield f'<p class="quiet">{rows[0].upper()}{rows[1:]}</p>'
    best = _text(found.programs[0][1])
    yield f"<details><summary>Best program</summary><pre>{best}</pre></details></section>"


def _anchor(problem: str, problems: Sequence[str]) -> str:
    return f"problem-{problems.index(problem) + 1}"


def _table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table from the names of its columns and from rows of `<td>` elements."""
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    lines = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _text(text: str) -> str:
    return html.escape(printable(text))


def _picture(figure: Any, meaning: str) -> str:
    data = base64.b64encode(pictures.png_bytes(figure)).decode()
    return f'<img src="data:image/png;base64,{data}" alt="{_text(meaning)}">'


def _curves_figure(results: Results) -> Any:
    panels = {
        title: [
            pictures.Curve(short_label(one.arm, results.batch), one.evaluations[1:], getattr(one, name)[1:])
            for one in results.curves
        ]
        for name, title in (("solved", "share of problems solved"), ("best", "best mean reward so far"))
    }
    return pictures.draw_budgets(panels)


def _heat_map_figure(found: HeatMap) -> Any:
    rows, columns = found.rewards_N_D.shape
    most = _LABEL_CHARACTERS
    names = [name if len(name) <= most else name[: most - 3] + "..." for name in found.components]
    cells = min(1.8, max(1.2, 0.2 * columns)) if columns <= _CARD_COLUMNS else min(8.6, 0.12 * columns)
    height = 0.6 + 0.06 * max(map(len, names)) + max(0.6, 0.13 * rows)
    figure = pictures.new_figure(1.4 + cells, height, dpi=110)
    axes = figure.add_subplot()
    extent = (-0.5, columns - 0.5, rows + 0.5, 0.5)  # vectors count from 1
    style = {"vmin": 0, "vmax": 1, "cmap": "viridis", "aspect": "auto", "interpolation": "nearest"}
    image = axes.imshow(found.rewards_N_D, extent=extent, **style)
    ticks = range(0, columns, -(-columns // 40))
    axes.set_xticks(ticks, [pictures.plain(names[tick]) for tick in ticks], rotation=90)
    axes.set_yticks(range(1, rows + 1), map(str, found.alike))
    axes.set_ylabel("programs", fontsize=7)
    axes.tick_params(labelsize=7, length=2)
    bar = figure.colorbar(image, ax=axes, ticks=(0.0, 0.5, 1.0), aspect=30)
    bar.ax.tick_params(labelsize=7, length=2)
    return figure
