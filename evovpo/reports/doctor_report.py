"""What the doctor says, for people and machines: reads or makes the sample, writes text, JSON and a picture.

The figures and the verdict are made in `evovpo/analysis/doctor.py`. Names of objectives and problems are
untrusted text here too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evovpo.analysis.doctor import (
    COLLINEAR,
    RARE,
    SET_SIZE,
    Diagnosis,
    Scores,
    SetScores,
    Verdict,
    diagnose,
    percent,
    take_sample,
)
from evovpo.config import Config
from evovpo.errors import ProblemError, StoreError
from evovpo.problem.folder import load_problem, with_folder_grouping
from evovpo.problem.suites import resolve_problem
from evovpo.reports.report import find_run, printable, save_png
from evovpo.runs.driver import Progress
from evovpo.runs.runs import start
from evovpo.store import Store
from evovpo.types import Json, Problem, Run

SAMPLING = (
    "search.evaluations=240",
    "search.answers=3",
    "search.joins=false",
    "search.stop_when_solved=false",
)
"""How a sample of a problem without runs is made: by an ordinary search whose candidates are all the model's,
in chains as VPO trains on them. 240 answers are ten prompts."""

_ROWS_SHOWN = 40
_CELLS_WRITTEN = 12
_HEADROOM_COLOURS = ("#A9B4BE", "#D55E00", "#F3D9C6")
_SETS_EXPLAINED = (
    "E max: expected best reward over random weightings, what VPO pays for; headroom: how far it is above the"
    " best mean; union: what it would be if each weighting saw one component only."
)
_STYLES = {Verdict.WORTH: "green", Verdict.CHANGE: "yellow", Verdict.NOT: "red"}
_HEADLINES = {
    Verdict.WORTH: "VPO is worth it here.",
    Verdict.CHANGE: "VPO is worth it here, after changes.",
    Verdict.NOT: "VPO is not worth it here, with the answers that there are now.",
}


class Report(NamedTuple):
    """A diagnosis, and where its sample comes from."""

    problem: Problem
    """With the grouping that it has now."""
    run: Run
    diagnosis: Diagnosis
    others: int = 0
    """Further runs that the problem was found to have, and that were not looked at."""
    is_new: bool = False
    """True if the run was made for this report."""


# ---------------------------------------------------------------- the sample


def named_problem(target: str) -> Problem | None:
    """Return the problem that a target names (a folder or a bundled one), or none if it can only be a run.

    Raises `ProblemError` for a problem that cannot be used, and for a path or a name with a slash, which no
    run has, that names none.
    """
    try:
        folder = resolve_problem(target)
    except ProblemError:
        if "/" in target:
            raise
        return None
    return load_problem(folder) if (folder / "problem.toml").is_file() else None


def examine_run(store: Store, target: str) -> Report:
    """Return the report on a run, given by its id, the beginning of one, or as `latest`.

    Raises `StoreError` if there is none, or if it has nothing to look at, and `ProblemError` if the
    problem's folder is there and cannot be used.
    """
    try:
        run = store.run(find_run(store, target))
    except StoreError as error:
        try:
            resolve_problem(target)
        except ProblemError as other:
            raise StoreError(f"{target} is neither a run nor a problem. {error}. {other}") from None
        raise
    problem = with_folder_grouping(store.problem(run.problem_id, run.problem_version))
    report = _report(store, run, problem)
    if report is None:
        raise StoreError(
            f"run {run.id} has no prompt whose completions are all judged and hold a program; let it go on"
            f" (`evovpo resume {run.id}`), or name another run"
        )
    return report


def examine_problem(
    store: Store,
    problem: Problem,
    config: Config,
    on_start: Callable[[Run], None] = lambda run: None,
    on_tell: Callable[[Progress], None] = lambda progress: None,
) -> Report:
    """Return the report on the newest run of this version of a problem, after making one if there is none.

    A run without anything to look at counts as none. The new run is an ordinary one, kept in the store.
    Raises `StoreError` if it too has nothing to look at; otherwise as `evovpo.runs.runs.start`.
    """
    runs = runs_of(store, problem)
    for run in runs:
        report = _report(store, run, problem)
        if report is not None:
            return report._replace(others=len(runs) - 1)
    run_id = start(problem, config, store, on_start=on_start, on_tell=on_tell).run
    report = _report(store, store.run(run_id), problem)
    if report is None:
        raise StoreError(
            f"run {run_id} was made to look at, and none of its {config.search.evaluations} candidates holds"
            " a program: the proposer does not write what this problem asks for; use another one"
        )
    return report._replace(others=len(runs), is_new=True)


def runs_of(store: Store, problem: Problem) -> list[Run]:
    """Return the runs of this version of a problem, newest first."""
    runs = [store.run(row.run) for row in store.runs() if row.problem == problem.id]
    return [run for run in runs if run.problem_version == problem.version]


def _report(store: Store, run: Run, problem: Problem) -> Report | None:
    """Return the report on a run, or none if no complete group of it holds a program."""
    sample = take_sample(problem, store.groups(run.id))
    return Report(problem, run, diagnose(sample)) if len(sample.different_N_D) else None


# ---------------------------------------------------------------- text


def report_view(report: Report) -> RenderableType:
    """Return all that is shown of a report: verdict, reasons, figures, components, what to change."""
    diagnosis = report.diagnosis
    title = Text(f"{printable(report.problem.id)}: ", style="bold")
    title.append(_HEADLINES[diagnosis.verdict], style=f"bold {_STYLES[diagnosis.verdict]}")
    parts: list[RenderableType] = [title, Text(_origin(report), style="dim"), Text()]
    findings = Table.grid(padding=(0, 1))
    findings.add_column()
    findings.add_column(overflow="fold")
    for finding in diagnosis.findings:
        text = Text(printable(_sentence(finding.text)))
        if finding.advice:
            text.append(f" {printable(_sentence(finding.advice))}", style="bold")
        findings.add_row(Text("•", style=_STYLES[finding.allows]), text)
    if diagnosis.findings:
        parts += [findings, Text()]
    parts += [
        figures_table(diagnosis),
        Text(),
        sets_table(diagnosis),
        Text(_SETS_EXPLAINED, style="dim"),
        Text(),
    ]
    parts.append(components_table(diagnosis))
    if diagnosis.verdict is not Verdict.NOT:
        advice = diagnosis.advice
        settings = (
            f"To train from it: objective.alpha={advice.alpha:g}, search.answers={advice.answers},"
            f" search.rollouts={advice.rollouts}"
        )
        setting = grouping_setting(diagnosis)
        if setting:
            where = f"{report.problem.folder or report.problem.id}/problem.toml"
            settings += f", and these {len(advice.groups)} groups in {printable(where)}:\n"
        # Each line on its own, so that none is broken and all can be copied.
        lines = [settings, *setting.splitlines()]
        parts += [Text(), *(Text(line, no_wrap=True, overflow="ignore") for line in lines)]
    return Group(*parts)


def _origin(report: Report) -> str:
    sample, run = report.diagnosis.sample, report.run
    chains = sum(len(pool) for pool in sample.pools)
    made = "made for this" if report.is_new else str(run.status)
    if report.others:
        made += f", one of {report.others + 1} runs of this problem"
    grouping = f", grouped into {len(sample.names)} components" * bool(report.problem.groups)
    return (
        f"Run {run.id} ({made}): {len(sample.pools)} prompts, {chains} completions of {sample.answers},"
        f" {sample.slots} answers, {len(sample.different_N_D)} different programs;"
        f" {len(report.problem.objectives)} objectives{grouping}."
    )


def figures_table(diagnosis: Diagnosis) -> Table:
    """Return the figures, each with what it means."""
    figures = diagnosis.figures
    varying = sum(not np.isnan(value) for value in np.diagonal(diagnosis.correlation_D_D))
    correlation = "-" if figures.correlation is None else f"{figures.correlation:.2f}"
    flat = f"; in {percent(figures.flat_at_zero)} all earn nothing" * bool(figures.flat_at_zero)
    table = _table()
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("", overflow="fold", style="dim")
    for name, value, text in (
        (
            "components that vary",
            f"{varying} of {len(diagnosis.order)}",
            "the others are the same in all answers",
        ),
        ("effective rank", f"{figures.rank:.1f}", "in how many different ways answers differ"),
        ("mean correlation", correlation, f"of two components; VPO cannot help from about {COLLINEAR:g}"),
        (
            "answers with any reward",
            percent(figures.rewarded),
            f"at {percent(RARE)} or less nothing is gained",
        ),
        ("answers right", percent(figures.right), "every component at 1"),
        ("groups with spread", percent(figures.spread), f"their chains differ in what they earn{flat}"),
        ("unreadable answers", percent(figures.unreadable), "hold no program, and earn nothing"),
        ("repeated answers", percent(figures.repeated), "hold a program that was there before"),
    ):
        table.add_row(name, value, text)
    return table


def sets_table(diagnosis: Diagnosis) -> Table:
    """Return how sets of answers score, with the components as they are and as advised."""
    table = _table()
    table.add_column("sets of answers")
    for name in ("best mean", "E max", "headroom", "union"):
        table.add_column(name, justify="right")
    for name, scores in named_scores(diagnosis):
        best, expected, union = scores.best_mean, scores.expected_best, scores.union
        table.add_row(name, f"{best:.3f}", f"{expected:.3f}", f"{scores.headroom:+.3f}", f"{union:.3f}")
    return table


def named_scores(diagnosis: Diagnosis) -> list[tuple[str, SetScores]]:
    """Return the scores that are shown, with their names."""
    advice = diagnosis.advice
    shown = [("", diagnosis.figures.scores)]
    if is_grouping_advised(diagnosis) or (advice.alpha < 1 and diagnosis.verdict is not Verdict.NOT):
        shown.append((", as advised", advice.scores))
    rows: list[tuple[str, SetScores]] = []
    for suffix, scores in shown:
        if scores.chains is not None:
            rows.append((f"one chain{suffix}", scores.chains))
        rows.append((f"{SET_SIZE} random answers{suffix}", scores.random))
        rows.append((f"all answers to a prompt{suffix}", scores.prompts))
        rows.append((f"the best {SET_SIZE} answers seen{suffix}", scores.best))
    return rows


def is_grouping_advised(diagnosis: Diagnosis) -> bool:
    """True if there is something to group and a reason to train."""
    is_smaller = len(diagnosis.advice.groups) < len(diagnosis.sample.names)
    return is_smaller and diagnosis.verdict is not Verdict.NOT


def components_table(diagnosis: Diagnosis) -> RenderableType:
    """Return the components, those that behave alike together, with the group that each would be in."""
    sample, figures, groups = diagnosis.sample, diagnosis.figures, diagnosis.advice.groups
    is_grouped = is_grouping_advised(diagnosis)
    numbers = {index: number for number, group in enumerate(groups, start=1) for index in group}
    notes = dict.fromkeys(figures.dead, "never above 0") | dict.fromkeys(figures.saturated, "never below 1")
    for group in figures.copies:
        notes |= dict.fromkeys(group[1:], f"always as {sample.names[group[0]]}")
    table = _table()
    table.add_column("component", overflow="fold")
    table.add_column("mean reward", justify="right")
    table.add_column("")
    if is_grouped:
        table.add_column("group", justify="right")
    table.add_column("")
    for index in diagnosis.order[:_ROWS_SHOWN]:
        mean = figures.mean_rewards[index]
        cells: list[RenderableType] = [Text(printable(sample.names[index])), f"{mean:.3f}"]
        cells.append(Text("█" * round(20 * mean), style="cyan"))
        if is_grouped:
            cells.append(str(numbers[index]))
        table.add_row(*cells, Text(printable(notes.get(index, "")), style="dim"))
    if len(sample.names) <= _ROWS_SHOWN:
        return table
    return Group(table, Text(f"   ... and {len(sample.names) - _ROWS_SHOWN} more", style="dim"))


def grouping_setting(diagnosis: Diagnosis) -> str:
    """Return the advised grouping as a section of `problem.toml`, in names of objectives; or empty."""
    sample = diagnosis.sample
    groups = [
        [name for index in group for name in sample.members[index]] for group in diagnosis.advice.groups
    ]
    if not is_grouping_advised(diagnosis):
        return ""
    lines = [f"    [{', '.join(map(toml_text, group))}]," for group in groups if group[1:]]
    return "\n".join(["[grouping]", "groups = [", *lines, "]"])


def toml_text(text: str) -> str:
    """Return a text as TOML writes it, with an escape for every character that could steer a terminal."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(
        character if character.isprintable() else f"\\U{ord(character):08x}" for character in quoted
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")


# ---------------------------------------------------------------- machines


def report_json(report: Report) -> dict[str, Json]:
    """Return for machines what `report_view` shows; groups are lists of names of objectives."""
    diagnosis = report.diagnosis
    sample, figures, advice = diagnosis.sample, diagnosis.figures, diagnosis.advice
    names = sample.names
    return {
        "problem": report.problem.id,
        "run": report.run.id,
        "is_new_run": report.is_new,
        "verdict": diagnosis.verdict.name.lower(),
        "findings": [
            finding._asdict() | {"allows": finding.allows.name.lower()} for finding in diagnosis.findings
        ],
        "prompts": len(sample.pools),
        "answers": sample.slots,
        "different_programs": len(sample.different_N_D),
        "answers_per_chain": sample.answers,
        "components": list(names),
        "effective_rank": figures.rank,
        "mean_correlation": figures.correlation,
        "mean_rewards": list(figures.mean_rewards),
        "dead": [names[index] for index in figures.dead],
        "saturated": [names[index] for index in figures.saturated],
        "copies": [[names[index] for index in group] for group in figures.copies],
        "sets": _scores_json(figures.scores),
        "rewarded_share": figures.rewarded,
        "right_share": figures.right,
        "spread_share": figures.spread,
        "flat_at_zero_share": figures.flat_at_zero,
        "unreadable_share": figures.unreadable,
        "repeated_share": figures.repeated,
        "faulty_completions": sample.faulty,
        "advice": {
            "groups": [
                [name for index in group for name in sample.members[index]] for group in advice.groups
            ],
            "alpha": advice.alpha,
            "ungrouped_alpha": advice.ungrouped_alpha,
            "answers": advice.answers,
            "rollouts": advice.rollouts,
            "sets": _scores_json(advice.scores),
        },
    }


def _scores_json(scores: Scores) -> dict[str, Json]:
    return {
        name: None if score is None else {**score._asdict(), "headroom": score.headroom}
        for name, score in scores._asdict().items()
    }


# ---------------------------------------------------------------- picture


def write_png(report: Report, path: Path) -> None:
    """Write the picture: correlations in the order of likeness, mean rewards beside them, and headroom.

    Raises `ConfigError` if the file cannot be written.
    """
    # Imported only here: it takes most of a second, and only this draws.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    diagnosis = report.diagnosis
    height = min(11.0, max(4.4, 1.9 + 0.32 * len(diagnosis.order)))
    figure = Figure(figsize=(height + 8.0, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 3, width_ratios=[height - 1.5, 1.7, 3.6], height_ratios=[height, 0.16])
    heat, room, scale, key = (figure.add_subplot(grid[place]) for place in ((0, 0), (0, 2), (1, 0), (1, 2)))
    bars = figure.add_subplot(grid[0, 1], sharey=heat)
    figure.colorbar(_draw_correlations(heat, diagnosis), cax=scale, orientation="horizontal")
    _draw_rewards(bars, diagnosis)
    _draw_headroom(room, diagnosis)
    key.legend(*room.get_legend_handles_labels(), loc="center", fontsize=10, frameon=False, ncols=3)
    key.set_axis_off()
    for axes in (heat, bars, room, scale):
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0)
    figure.suptitle(
        _plain(f"{report.problem.id}: {_HEADLINES[diagnosis.verdict]}"), fontsize=14, x=0.01, ha="left"
    )
    save_png(figure, path)


def _draw_correlations(axes: Any, diagnosis: Diagnosis) -> Any:
    """Draw the matrix, with a frame around each advised group, and return the image."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    order, advice = diagnosis.order, diagnosis.advice
    count = len(order)
    ordered = diagnosis.correlation_D_D[np.ix_(order, order)]
    image = axes.imshow(
        np.ma.masked_invalid(ordered),
        cmap=colormaps["RdBu_r"].with_extremes(bad="#E4E4E4"),
        vmin=-1,
        vmax=1,
        aspect="auto",
    )
    if count <= _CELLS_WRITTEN:
        for row, column in zip(*np.nonzero(~np.isnan(ordered)), strict=True):
            value = ordered[row, column]
            colour = "white" if abs(value) > 0.6 else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=9, color=colour)
    place = {index: position for position, index in enumerate(order)}
    for group in advice.groups if is_grouping_advised(diagnosis) else ():
        positions = sorted(place[index] for index in group)
        # Those of a group lie side by side, but for components that do not vary.
        if positions[-1] - positions[0] + 1 == len(group) > 1:
            corner, size = positions[0] - 0.5, len(group)
            frame = Rectangle((corner, corner), size, size, fill=False, edgecolor="black", linewidth=2.2)
            axes.add_patch(frame).set_clip_on(False)
    names = [_plain(diagnosis.sample.names[index]) for index in order]
    axes.set_yticks(range(count), names, fontsize=_name_size(count))
    axes.set_xticks([])
    axes.set_title("correlation of components (grey: never varies)", fontsize=11, loc="left")
    return image


def _draw_rewards(axes: Any, diagnosis: Diagnosis) -> None:
    means = [diagnosis.figures.mean_rewards[index] for index in diagnosis.order]
    axes.barh(range(len(means)), means, color="#0072B2", height=0.7)
    for position, mean in enumerate(means):
        text = f"{mean:.2f}" if mean >= 0.005 or not mean else "<.01"
        axes.text(mean + 0.03, position, text, va="center", fontsize=_name_size(len(means)))
    axes.set_xlim(0, 1.3)
    axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    axes.tick_params(labelleft=False)
    axes.axvline(1, color="#C9C9C9", linewidth=1, zorder=0)
    axes.set_title("mean reward", fontsize=11, loc="left")


def _name_size(count: int) -> float:
    return 10.0 if count <= 24 else max(3.5, 250 / count)


def _draw_headroom(axes: Any, diagnosis: Diagnosis) -> None:
    rows = named_scores(diagnosis)
    for position, (_, scores) in enumerate(rows):
        label = {0: ("best mean", "headroom", "rest of the union")}.get(position, (None, None, None))
        lefts = (0.0, scores.best_mean, scores.expected_best)
        widths = (scores.best_mean, scores.headroom, scores.union - scores.expected_best)
        for left, width, colour, text in zip(lefts, widths, _HEADROOM_COLOURS, label, strict=True):
            axes.barh(position, width, left=left, color=colour, height=0.55, label=text)
        axes.text(min(scores.union, 1.0) + 0.02, position, f"{scores.headroom:+.3f}", va="center")
    axes.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=10)
    axes.set_ylim(max(len(rows), 5) - 0.4, -0.6)
    axes.set_xlim(0, 1.25)
    axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    axes.axvline(1, color="#C9C9C9", linewidth=1, zorder=0)
    axes.set_title("reward of sets of answers", fontsize=11, loc="left")


def _plain(text: str) -> str:
    """Return text that a picture shows as it is, in one line."""
    return printable(text).replace("\n", " ").replace("$", r"\$")
