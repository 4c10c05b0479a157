"""Two policy versions side by side, on the same problems: a table and a picture of best@k and pass@k."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from evovpo.analysis.statistics import Array, Interval, mean_interval
from evovpo.reports.pictures import BeforeAfter, Curve, write_before_after
from trainer.loop.guard import differences_by_k, signed
from trainer.loop.probe import ProbeResult


class _Compared(NamedTuple):
    """One figure of two versions on P problems."""

    title: str
    before_P_k: Array  # noqa: N815
    after_P_k: Array  # noqa: N815
    differences: dict[int, Interval]
    """After minus before, by k, paired over the problems."""


def _compared(before: ProbeResult, after: ProbeResult) -> Iterator[_Compared]:
    ks = [k for k in before.ks if k in after.ks]
    for title, figure in (
        ("best@k: best mean reward of k answers", "best_at_k"),
        ("pass@k: one of k answers is right on all rows", "pass_at_k"),
    ):
        differences = differences_by_k(after, before, figure, ks)
        yield _Compared(title, before.values(figure, ks), after.values(figure, ks), differences)


def before_after_table(
    before: ProbeResult, after: ProbeResult, names: tuple[str, str] = ("start", "trained")
) -> Group:
    """Return best@k and pass@k of two versions by k, a table each, with the paired difference.

    A difference whose 95 % interval excludes zero is bold. Raises `ConfigError` for probes of other problems.
    """
    tables = []
    for title, first, second, differences in _compared(before, after):
        table = Table(title=title, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD)
        for name in ("k", *names):
            table.add_column(name, justify="right")
        table.add_column("difference [95 % interval]", justify="right", no_wrap=True)
        for i, (k, difference) in enumerate(differences.items()):
            style = ("bold green" if difference.mean > 0 else "bold red") if difference.is_clear else ""
            cells = (f"{first[:, i].mean():.3f}", f"{second[:, i].mean():.3f}")
            table.add_row(str(k), *cells, Text(signed(difference), style))
        tables.append(table)
    return Group(
        "Before and after, on problems outside the training", *tables, _what_was_measured(before, after)
    )


def write_before_after_png(
    path: Path,
    before: ProbeResult,
    after: ProbeResult,
    names: tuple[str, str] = ("start model", "trained"),
    title: str = "Before and after training, on problems outside the training",
) -> None:
    """Write best@k and pass@k of two versions against k, with 95 % bands over the problems.

    Marks of the second are filled where the paired difference, which is what tells two versions apart, has a
    95 % interval that excludes zero. Raises `ConfigError` for probes of different problems and for a file
    that cannot be written.
    """
    panels = [
        BeforeAfter(
            panel,
            _curve(names[0], first, differences),
            _curve(names[1], second, differences),
            tuple(difference.is_clear for difference in differences.values()),
        )
        for panel, first, second, differences in _compared(before, after)
    ]
    write_before_after(
        path,
        panels,
        title=title,
        note=f"{_what_was_measured(before, after)} Bands: 95 % bootstrap over problems. Filled circles: "
        "the 95 % interval of the paired difference excludes zero.",
    )


def _curve(name: str, values_P_k: Array, ks: Iterable[int]) -> Curve:  # noqa: N803
    intervals = [mean_interval(column, np.random.default_rng(0)) for column in values_P_k.T]
    return Curve(name, tuple(ks), tuple(intervals))


def _what_was_measured(before: ProbeResult, after: ProbeResult) -> str:
    sampled = min(before.sampled, after.sampled)
    lengths = " and ".join(map(str, dict.fromkeys((before.answers, after.answers))))
    chains = "" if lengths == "1" else f" in chains of {lengths}"
    faults = before.faults + after.faults
    lost = f" {faults} completions were left out because the sandbox failed on them." if faults else ""
    return f"{len(before.problems)} problems, {sampled} answers each{chains}, root prompts.{lost}"
