"""Draws the best reward of a run over evaluations, as text and as a picture."""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from evovpo.analysis.scores import combined_curve
from evovpo.reports.pictures import new_figure, plain, write_png
from evovpo.reports.text import counted
from evovpo.runs.stored import RunView
from evovpo.store import CurvePoint, solved_at


def curve_lines(curve: Sequence[CurvePoint], width: int = 72, height: int = 8) -> list[str]:
    last = curve[-1].evaluations if curve else 0
    if last == 0:
        return []
    columns = width - 6
    evaluations = [point.evaluations for point in curve]
    reached = (bisect_right(evaluations, (column + 1) * last / columns) - 1 for column in range(columns))
    levels = [round(curve[max(0, place)].best_mean_reward * height * 8) for place in reached]
    lines = []
    for row in reversed(range(height)):
        label = {height - 1: "1.0", height // 2: "0.5"}.get(row, "")
        cells = "".join(" ▁▂▃▄▅▆▇█"[max(0, min(8, level - row * 8))] for level in levels)
        lines.append(f"{label:>4} ┤{cells}".rstrip())
    lines.append(" 0.0 └" + "─" * columns)
    return [*lines, "      0" + f"{last} evaluations".rjust(columns - 1)]


def write_curve_png(view: RunView, path: Path) -> None:
    problem, curve = view.problem, view.summary.curve
    total = len(problem.objectives)
    x = [point.evaluations for point in curve] or [0]
    means = [point.best_mean_reward for point in curve] or [0.0]
    shares = [point.examples_passed / total for point in curve] or [0.0]
    figure = new_figure(8, 4.5)
    axes = figure.add_subplot()
    frames = [axes] if problem.has_one_score else [axes, axes.twinx()]
    dashed = {"where": "post", "color": "#c26a1b", "linewidth": 1.8, "linestyle": "--"}
    what = "training examples" if problem.is_by_example else "objectives"
    label = "best mean reward" + (f" = share of {what} passed" * problem.is_by_example)
    if not problem.has_one_score:
        axes.step(x, means, where="post", color="#1f5fa8", linewidth=2.2, label=label)
        axes.set_ylim(-0.02, 1.05)  # wider than [0, 1], so that lines at the ends are visible
        axes.set_ylabel("best mean reward of the run", fontsize=12)
    right = frames[-1]
    if points := combined_curve(view.scores):
        steps = [(point.evaluations, point.combined) for point in points]
        steps.append((max(x[-1], steps[-1][0]), steps[-1][1]))
        right.step(*zip(*steps, strict=True), **dashed, label=f"best {points[-1].name}")
        right.set_ylabel(f"best {points[-1].name}", fontsize=12)
    elif not problem.has_one_score:
        if not problem.is_by_example:
            axes.step(x, shares, **dashed, label=f"share of {what} at full reward")
        right.set_ylim(-0.02 * total, 1.05 * total)
        reached = "passed" if problem.is_by_example else "at 1"
        right.set_ylabel(f"{what} {reached} (of {total})", fontsize=12)
        right.set_yticks(range(0, total + 1, max(1, -(-total // 8))))
    solved = solved_at(curve, total)
    if solved is not None:
        mark = {"marker": "*", "markersize": 17, "color": "#2a8a3e", "linestyle": "none"}
        label = f"solved after {counted(solved, 'evaluation')}"
        axes.plot([solved], [1.0], **mark, label=label, clip_on=False, zorder=5)
    axes.set_xlim(0, 1.03 * max(x[-1], 1))  # room for the mark of a run solved at its end
    axes.set_xlabel("evaluations (programs proposed)", fontsize=12)
    axes.grid(alpha=0.25)
    for frame in frames:
        frame.tick_params(labelsize=11)
        frame.spines["top"].set_visible(False)
    figure.legend(loc="outside lower center", fontsize=11, frameon=False, ncols=2)
    axes.set_title(plain(f"{problem.id}: run {view.run.id}, seed {view.run.seed}"), fontsize=13, loc="left")
    write_png(figure, path, "another --png")
