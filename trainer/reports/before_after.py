"""Two policy versions side by side, on the same problems: a table and a picture of best@k and pass@k."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Group
from rich.text import Text

from evovpo.analysis.statistics import Array, Interval, mean_interval
from evovpo.reports.pictures import BeforeAfter, Curve, write_before_after
from evovpo.reports.text import plain_table, right
from trainer.loop.guard import differences_by_k
from trainer.loop.probe import ProbeResult


def _panels(
    before: ProbeResult, after: ProbeResult, names: tuple[str, str]
) -> Iterator[tuple[BeforeAfter, dict[int, Interval]]]:
    """Yield best@k and pass@k of two versions, with after minus before by k, paired over the problems."""
    ks = [k for k in before.ks if k in after.ks]
    for title, figure in (
        ("best@k: best mean reward of k answers", "best_at_k"),
        ("pass@k: one of k answers is right on all rows", "pass_at_k"),
    ):
        differences = differences_by_k(after, before, figure, ks)
        first, second = (
            Curve(name, tuple(ks), tuple(_interval(column) for column in found.values(figure, ks).T))
            for name, found in zip(names, (before, after), strict=True)
        )
        yield (
            BeforeAfter(title, first, second, tuple(one.is_clear for one in differences.values())),
            differences,
        )


def before_after_table(
    before: ProbeResult, after: ProbeResult, names: tuple[str, str] = ("start", "trained")
) -> Group:
    """Return best@k and pass@k of two versions by k, a table each, with the paired difference.

    A difference whose 95 % interval excludes zero is bold. Raises `ConfigError` for probes of other problems.
    """
    tables = []
    for panel, differences in _panels(before, after, names):
        table = plain_table(*map(right, ("k", *names)), right("difference [95 % interval]", no_wrap=True))
        table.title, table.title_justify = panel.panel, "left"
        means = zip(panel.before.means, panel.after.means, strict=True)
        for (k, difference), pair in zip(differences.items(), means, strict=True):
            style = ("bold green" if difference.mean > 0 else "bold red") if difference.is_clear else ""
            table.add_row(str(k), *(f"{mean:.3f}" for mean in pair), Text(f"{difference:+.3f}", style))
        tables.append(table)
    return Group(
        "Before and after, on problems outside the training", *tables, _what_was_measured(before, after)
    )


def write_before_after_png(path: Path, before: ProbeResult, after: ProbeResult) -> None:
    """Write best@k and pass@k of two versions against k, with 95 % bands over the problems.

    Marks of the second are filled where the paired difference, which is what tells two versions apart, has a
    95 % interval that excludes zero. Raises `ConfigError` for probes of different problems and for a file
    that cannot be written.
    """
    panels = [panel for panel, _ in _panels(before, after, ("start model", "trained"))]
    write_before_after(
        path,
        panels,
        title="Before and after training, on problems outside the training",
        note=f"{_what_was_measured(before, after)} Bands: 95 % bootstrap over problems. Filled circles: "
        "the 95 % interval of the paired difference excludes zero.",
    )


def _interval(values_P: Array) -> Interval:  # noqa: N803
    return mean_interval(values_P, np.random.default_rng(0))


def _what_was_measured(before: ProbeResult, after: ProbeResult) -> str:
    sampled = min(before.sampled, after.sampled)
    lengths = " and ".join(map(str, dict.fromkeys((before.answers, after.answers))))
    chains = "" if lengths == "1" else f" in chains of {lengths}"
    faults = before.faults + after.faults
    lost = f" {faults} completions were left out because the sandbox failed on them." if faults else ""
    return f"{len(before.problems)} problems, {sampled} answers each{chains}, root prompts.{lost}"
