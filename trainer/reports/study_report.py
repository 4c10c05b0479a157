"""The results of a study for people: tables in Markdown, and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evovpo.analysis.statistics import Interval
from trainer.reports.figures import Curve, Line, write_arms, write_training


def report_markdown(results: Mapping[str, Any]) -> str:
    """Return the tables of a study: means by k, differences to GRPO and to the start model, the grid."""
    ks = [str(k) for k in results["ks"]]
    rows = {f"start model, {name}": entry for name, entry in results["start"].items()} | results["arms"]
    parts = []
    titles = (
        ("best_at_k", "best@k"),
        ("pass_at_k", "pass@k"),
        ("expected_at_k", "E_w best@k under random weightings"),
    )
    # On mazes no answer is ever right: a table of zeros says nothing.
    shown = [
        (figure, title)
        for figure, title in titles
        if any(entry[figure][k]["mean"] for entry in rows.values() for k in ks)
    ]
    for figure, title in shown:
        lines = [[name, *(f"{entry[figure][k]['mean']:.3f}" for k in ks)] for name, entry in rows.items()]
        parts.append(table([title, *(f"k = {k}" for k in ks)], lines))
    references = (
        ("minus_grpo", "tuned GRPO's"),
        ("minus_start", "the start model's single answers'"),
        ("minus_own_start", "the start model's in the same format"),
    )
    for key, other in references:
        for figure, title in shown:
            lines = [
                [name, *(_signed(entry[key][figure][k]) for k in ks)]
                for name, entry in results["arms"].items()
                if key in entry
            ]
            parts.append(table([f"{title} minus {other}", *(f"k = {k}" for k in ks)], lines))
    lines = [
        [
            name,
            f"{entry['diversity']:.2f}",
            f"{entry['distinct_share']:.2f}",
            f"{entry['tokens']:,.0f}" if entry["tokens"] else "–",
            f"{entry['steps']:.0f}" if entry["steps"] else "–",
        ]
        for name, entry in rows.items()
    ]
    parts.append(table(["", "diversity", "distinct answers", "tokens generated", "steps"], lines))
    lines = [
        [name, f"{point['learning_rate']:g}", f"{point['kl']:g}", f"{point['score']:.4f}",
         "chosen" if point["chosen"] else ""]
        for name, points in results["grid"].items() for point in points
    ]  # fmt: skip
    parts.append(table(["arm", "learning rate", "KL", "validation score", ""], lines))
    return "\n".join(parts)


def write_pictures(folder: Path, results: Mapping[str, Any], domain: str) -> list[Path]:
    """Write the arms' differences and their training curves into `folder`; return the files."""
    ks = tuple(int(k) for k in results["ks"])
    seeds = results["settings"]["seeds"]
    note = f"{seeds} trainings an arm; bands: 95 % bootstrap over tasks and trainings, paired by task."
    written = []
    pairs = (("minus_grpo", "tuned GRPO"), ("minus_start", "the start model"))
    for key, reference in pairs:
        curves = [
            _curve(name, ks, entry[key]["best_at_k"])
            for name, entry in results["arms"].items()
            if key in entry
        ]
        start = None
        if key == "minus_grpo" and "grpo" in results["arms"]:
            opposite = results["arms"]["grpo"]["minus_start"]["best_at_k"]
            flipped = {
                k: {"mean": -i["mean"], "low": -i["high"], "high": -i["low"]} for k, i in opposite.items()
            }
            start = _curve("start model", ks, flipped)
        if curves:
            path = folder / f"{domain}-{key.replace('_', '-')}.png"
            write_arms(
                path, curves, reference=reference, start=start, title=f"Trained arms on {domain}", note=note
            )
            written.append(path)
    panels = {
        title: [
            mean_line(name, [[row[figure] for row in log] for log in entry["logs"]])
            for name, entry in results["arms"].items()
        ]
        for figure, title in (
            ("set_score", "set score of a chain"),
            ("diversity", "diversity of a group"),
            ("distinct", "distinct answers of a group"),
            ("entropy", "entropy, nats a token"),
        )
    }
    path = folder / f"{domain}-training.png"
    write_training(
        path, panels, title=f"Training on {domain}", note=f"Means over {seeds} trainings and ten steps."
    )
    return [*written, path]


def _curve(name: str, ks: tuple[int, ...], intervals: Mapping[str, Mapping[str, float]]) -> Curve:
    found = [intervals[str(k)] for k in ks]
    return Curve(name, ks, tuple(Interval(i["mean"], i["low"], i["high"], 0) for i in found))


def mean_line(name: str, trainings: Sequence[Sequence[float]], width: int = 10) -> Line:
    """Return an arm's figure against its steps: the mean over trainings, and over the last `width` steps."""
    steps = min(map(len, trainings))
    means = [sum(values[step] for values in trainings) / len(trainings) for step in range(steps)]
    windows = [means[max(0, step - width + 1) : step + 1] for step in range(steps)]
    return Line(name, range(steps), [sum(window) / len(window) for window in windows])


def _signed(interval: Mapping[str, float]) -> str:
    text = f"{interval['mean']:+.3f} [{interval['low']:+.3f}, {interval['high']:+.3f}]"
    return f"**{text}**" if interval["low"] > 0 or interval["high"] < 0 else text


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
