"""Draws training curves and the results of experiments, which compare arms (sets of settings).

The colours are from Okabe and Ito (2008). If a picture cannot be written, functions raise `ConfigError`.
"""

import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from PIL import Image

from evovpo.analysis.statistics import Interval
from evovpo.errors import ConfigError
from evovpo.files import write_errors, written_whole
from evovpo.reports.text import printable

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
_QUIET = "#C9C9C9"
_DPI = 110
MOST_BANDS = 4


class KCurve(NamedTuple):
    """Means and confidence intervals of a statistic for several k (numbers of answers, or budgets)."""

    label: str
    ks: tuple[int, ...]
    intervals: tuple[Interval, ...]

    @property
    def means(self) -> list[float]:
        return [interval.mean for interval in self.intervals]


class StepCurve(NamedTuple):
    """A statistic of one arm (set of settings) at several training steps."""

    label: str
    steps: Sequence[float]
    values: Sequence[float]


def write_arms(
    path: Path,
    differences: Sequence[KCurve],
    *,
    reference: str,
    title: str,
    note: str,
    figure_name: str = "best@k",
) -> None:
    if not differences:
        raise ConfigError(f"{path}: no arm to draw; expected at least one beside {reference}")
    columns = min(3, len(differences))
    rows = math.ceil(len(differences) / columns)
    figure = new_figure(4.3 * columns + 0.6, 3.4 * rows + 0.9)
    ends = [end for curve in differences for i in curve.intervals for end in (i.low, i.high)]
    margin = 0.06 * (max(*ends, 0.0) - min(*ends, 0.0) or 1.0)
    shared: Any = None
    for index, curve in enumerate(differences):
        axes = figure.add_subplot(rows, columns, index + 1, sharex=shared, sharey=shared)
        shared = shared or axes
        colour, mark = COLOURS[index % (len(COLOURS) - 1)], MARKS[index % len(MARKS)]
        for other in differences:
            if other is not curve:
                axes.plot(other.ks, other.means, color=_QUIET, linewidth=1, zorder=1)
        axes.axhline(0.0, color="black", linewidth=1.2, zorder=2, label=plain(reference))
        _draw_band(axes, curve, colour)
        axes.plot(curve.ks, curve.means, color=colour, linewidth=2, zorder=4)
        _draw_marks(axes, curve, colour, mark, [i.is_clear for i in curve.intervals])
        _k_axis(axes, curve.ks)
        axes.set_ylim(min(*ends, 0.0) - margin, max(*ends, 0.0) + margin)
        _legend(axes)
        axes.set_title(plain(curve.label), loc="left", fontsize=12, color=colour, fontweight="bold")
        if index % columns == 0:
            axes.set_ylabel(fill(plain(f"{figure_name} minus {reference}'s"), 32), fontsize=10)
        else:
            axes.tick_params(labelleft=False)
    _finish(figure, path, title, note)


def write_training(path: Path, panels: Mapping[str, Sequence[StepCurve]], *, title: str, note: str) -> None:
    if not any(len(line.values) for lines in panels.values() for line in lines):
        raise ConfigError(f"{path}: no training step to draw; expected at least one line with a value")
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = new_figure(4.3 * columns + 0.6, 3.0 * rows + 0.9)
    labels = list(dict.fromkeys(line.label for lines in panels.values() for line in lines))
    for index, (panel, lines) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, columns, index + 1)
        for line in lines:
            if len(line.values):
                colour = COLOURS[labels.index(line.label) % len(COLOURS)]
                axes.plot(line.steps, line.values, color=colour, linewidth=2, label=plain(line.label))
        axes.set_title(plain(panel), loc="left", fontsize=12)
        _quiet_axes(axes)
        axes.margins(x=0.02)
        axes.xaxis.get_major_locator().set_params(integer=True)
        _legend(axes)
        if index >= len(panels) - columns:
            axes.set_xlabel("training step", fontsize=10)
    _finish(figure, path, title, note)


def write_budgets(
    path: Path,
    panels: Mapping[str, Sequence[KCurve]],
    *,
    title: str,
    note: str,
    budget: str = "evaluations",
    is_cost: bool = False,
) -> None:
    """Write a picture with one panel per statistic, plotted over budgets (`ks`) on a logarithmic scale.

    If `is_cost` is true, the values also have a logarithmic scale, and no intervals are drawn. Otherwise,
    panels of at most `MOST_BANDS` curves show intervals as bands.
    """
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = new_figure(6.4 * columns + 1.2, 4.6 * rows + 0.6)
    labels = list(dict.fromkeys(curve.label for curves in panels.values() for curve in curves))
    shared: Any = None
    for index, (panel, curves) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, columns, index + 1, sharey=shared)
        shared = None if is_cost else shared or axes
        for curve in curves:
            colour = COLOURS[labels.index(curve.label) % len(COLOURS)]
            dashes = "-" if labels.index(curve.label) < len(COLOURS) else "--"
            if len(curves) <= MOST_BANDS and not is_cost:
                _draw_band(axes, curve, colour)
            label = plain(curve.label)
            axes.plot(curve.ks, curve.means, dashes, color=colour, linewidth=1.8, zorder=3, label=label)
        axes.set_xscale("log")
        least, most = min(curve.ks[0] for curve in curves), max(curve.ks[-1] for curve in curves)
        ticks = [
            *(tick for tick in (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000) if least <= tick < 0.8 * most),
            most,
        ]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_xlabel(budget, fontsize=10)
        axes.set_title(plain(panel), loc="left", fontsize=12)
        if is_cost:
            axes.set_yscale("log")
        _quiet_axes(axes)
        _legend(axes)
    if shared is not None:
        shared.set_ylim(bottom=0)  # last, because a fixed limit is not widened by later panels
    _finish(figure, path, title, note)


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure; `width` and `height` are in inches."""
    # Imported here because it takes almost a second, and most users of this module do not draw.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08)
    return figure


def _draw_band(axes: Any, curve: KCurve, colour: str) -> None:
    lows, highs = ([getattr(i, end) for i in curve.intervals] for end in ("low", "high"))
    axes.fill_between(curve.ks, lows, highs, color=colour, alpha=0.16, linewidth=0, zorder=2)


def _draw_marks(axes: Any, curve: KCurve, colour: str, mark: str, is_filled: Sequence[bool]) -> None:
    style = {"color": colour, "markersize": 6, "zorder": 5, "clip_on": False}
    for k, mean, filled in zip(curve.ks, curve.means, is_filled, strict=True):
        axes.plot([k], [mean], mark, markerfacecolor=colour if filled else "white", **style)


def _k_axis(axes: Any, ks: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("k, answers drawn", fontsize=10)
    axes.set_xlim(min(ks) * 0.88, max(ks) * 1.12)
    _quiet_axes(axes)


def _quiet_axes(axes: Any) -> None:
    axes.grid(axis="y", alpha=0.25)
    axes.tick_params(labelsize=9.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _legend(axes: Any) -> None:
    axes.legend(fontsize=9, frameon=False, labelcolor="linecolor")


def plain(text: str) -> str:
    """Return text with control characters and $ escaped. For matplotlib, $ would start a formula."""
    return printable(text).replace("$", r"\$")


def _finish(figure: Any, path: Path, title: str, note: str) -> None:
    width = figure.get_figwidth()
    figure.suptitle(fill(plain(title), round(9 * width)), fontsize=14, x=0.01, ha="left")
    if note:
        text = fill(plain(note), round(13 * width))
        figure.supxlabel(text, fontsize=9.5, x=0.01, ha="left", color="#444444")
    write_png(figure, path)


def write_png(figure: Any, path: Path, instead: str = "another place for it") -> None:
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    with write_errors(f"{path}: the picture", f"give {instead}"), written_whole(path) as partial:
        few_colours(drawn).save(partial, "png", optimize=True)


def few_colours(picture: BytesIO) -> Image.Image:
    whole = Image.open(picture).convert("RGB")
    return whole.quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
