"""The doctor's picture: correlations, mean rewards and the headroom of sets of answers."""

from pathlib import Path
from typing import Any

import numpy as np

from evovpo.analysis.doctor.findings import Diagnosis
from evovpo.reports import pictures
from evovpo.reports.doctor.examine import DoctorReport
from evovpo.reports.doctor.report import HEADLINES, named_scores

_CELLS_WRITTEN = 12
_HEADROOM_COLOURS = ("#A9B4BE", "#D55E00", "#F3D9C6")


def write_png(report: DoctorReport, path: Path) -> None:
    """Write the picture: correlations in the order of likeness, mean rewards beside them, and headroom.

    Raises `ConfigError` if the file cannot be written.
    """
    diagnosis = report.diagnosis
    height = min(11.0, max(4.4, 1.9 + 0.32 * len(diagnosis.order)))
    figure = pictures.new_figure(height + 8.0, height)
    grid = figure.add_gridspec(2, 3, width_ratios=[height - 1.5, 1.7, 3.6], height_ratios=[height, 0.16])
    heat, room, scale, key = (figure.add_subplot(grid[place]) for place in ((0, 0), (0, 2), (1, 0), (1, 2)))
    bars = figure.add_subplot(grid[0, 1], sharey=heat)
    colours = _draw_correlations(heat, diagnosis)
    figure.colorbar(
        colours, cax=scale, orientation="horizontal", ticks=(-1, 0, 1), label="grey: never varies"
    )
    _draw_rewards(bars, diagnosis)
    _draw_headroom(room, diagnosis)
    key.legend(*room.get_legend_handles_labels(), loc="center", fontsize=10, frameon=False, ncols=3)
    key.set_axis_off()
    for axes in (heat, bars, room, scale):
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0)
    title = f"{report.problem.id}: {HEADLINES[diagnosis.verdict]}"
    figure.suptitle(_in_one_line(title), fontsize=14, x=0.01, ha="left")
    pictures.write_png(figure, path, "another --png")


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
    for group in advice.groups if diagnosis.is_grouping_advised else ():
        positions = sorted(place[index] for index in group)
        # Those of a group lie side by side, but for components that do not vary.
        if positions[-1] - positions[0] + 1 == len(group) > 1:
            corner, size = positions[0] - 0.5, len(group)
            frame = Rectangle((corner, corner), size, size, fill=False, edgecolor="black", linewidth=2.2)
            axes.add_patch(frame).set_clip_on(False)
    names = [_in_one_line(diagnosis.sample.names[index]) for index in order]
    axes.set_yticks(range(count), names, fontsize=_name_size(count))
    axes.set_xticks([])
    axes.set_title("correlation", fontsize=11, loc="left")
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


def _in_one_line(text: str) -> str:
    return pictures.plain(text.replace("\n", " "))
