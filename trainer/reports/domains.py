"""Text reports of domains: the preview and result of a training, and the statistics of policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evovpo.experiments.intervals import mean
from evovpo.reports.pictures import KCurve, write_budgets
from evovpo.reports.text import counted, folded, plain_table, printable, right

if TYPE_CHECKING:  # these load torch
    from trainer.domains.policy_figures import PolicyFigures
    from trainer.domains.training import TrainingResult

_LONGEST = 400


def trained_view(found: TrainingResult) -> RenderableType:
    heads = map(right, ("k", "best@k before", "after", "E_w best@k before", "after"))
    table, gain = plain_table(*heads, title="Before and after"), found.gain or {}
    maps = (found.before, found.after, found.expected_before, found.expected_after)
    for k in found.before or ():
        table.add_row(k, *(f"{one[k]:.3f}" for one in maps if one is not None))
    line = f"E_w best@{k}: {gain['mean']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}] over the start model"
    return Group(table, Text(f"{line} (95 % interval over the prompts; this one training)."))


def preview_view(found: Mapping[str, Any]) -> RenderableType:
    """Return a training's preview: some answers with rewards, whether VPO suits the domain, and the cost."""
    parts: list[RenderableType] = []
    for one in found["samples"]:
        table, prompt = Table.grid("", folded(), padding=(0, 1)), one["prompt"]
        text = prompt if isinstance(prompt, str) else "\n".join(message["content"] for message in prompt)
        rows = [("prompt", text), ("answer", one["completion"])]
        for rewards, reason in zip(one["rewards"], one["reasons"], strict=True):
            named = zip(found["components"], rewards or (), strict=False)
            values = ", ".join(f"{name} {value:.2f}" for name, value in named) or "none: a fault"
            rows.append(("reward", values + f" ({reason})" * bool(reason)))
        for name, said in rows:
            table.add_row(Text(name, style="dim"), Text(printable(said[:_LONGEST])))
        parts += [table, Text()]
    verdict = found["verdict"] or "no answer could be read: train the format first, by imitation"
    parts.append(Text(f"VPO here: {verdict}", style="bold"))
    parts += [Text(f"• {printable(text)}") for text in found["findings"]]
    sizes = f"{found['tokens']:,} completion tokens, at most {found['most_tokens']:,}"
    memory = (
        f"{found['parameters']:,} parameters; about {found['memory_bytes'] / 2**30:.1f} GiB on one device"
    )
    return Group(*parts, Text(f"\n{counted(found['prompts'], 'prompt')}; about {sizes}.\n{memory}."))


def figures_json(found: Sequence[PolicyFigures]) -> dict[str, Any]:
    """Return the first policy's statistics as JSON. If there are others, add theirs and the differences."""
    from trainer.domains.policy_figures import BY_K, OF_ALL, ends, minus

    first, *others = found
    differences = [
        {"model": one.name, **one.ask.settings}
        | {name: {str(k): ends(minus(one, first, name, k).interval) for k in one.ks} for name in BY_K}
        | {name: ends(minus(one, first, name).interval) for name in OF_ALL}
        for one in others
    ]
    several = {"policies": [one.as_json() for one in found], "minus_first": differences} if others else {}
    return first.as_json() | several


def figures_view(found: Sequence[PolicyFigures], domain: str) -> RenderableType:
    """Return a table of each statistic for all policies, with their differences from the first policy."""
    from trainer.domains.policy_figures import BY_K, OF_ALL, minus

    first, *others = found
    tables: list[RenderableType] = []
    for figure, title in (BY_K | OF_ALL).items():
        table = plain_table(right("k"), *map(right, _names(found)), title=title)
        for k in (0,) if figure in OF_ALL else first.ks:
            cells = [Text(f"{mean(first.values(figure, k)):.3f}")]
            for one in others:
                difference = minus(one, first, figure, k)
                style = "bold" if difference.is_clear else ""
                value = one.values(figure, k).mean()
                cells.append(Text(f"{value:.3f} ({difference.interval:+.3f})", style))
            table.add_row(str(k or ""), *cells)
        tables.append(table)
    faults = sum(one.faults for policy in found for one in policy.measures)
    lost = f" {counted(faults, 'completion')} could not be judged." if faults else ""
    place = f"{Path(domain).name}: {counted(len(first.measures), 'prompt')}"
    sampled = ", ".join(f"{name} {value:g}" for name, value in list(first.ask.settings.items())[1:])
    return Group(*tables, f"{place}; {sampled}.", f"95 % intervals over the prompts.{lost}")


def write_figures_png(path: Path, found: Sequence[PolicyFigures], domain: str) -> None:
    """Plot best@k and E_w best@k of policies against k. Raises `ConfigError` if `path` cannot be written."""
    from trainer.domains.policy_figures import BY_K

    named = list(zip(_names(found), found, strict=True))
    panels = {
        BY_K[figure]: [KCurve(name, one.ks, tuple(one.by_k(figure).values())) for name, one in named]
        for figure in ("best_at_k", "expected_best_at_k")
    }
    note = f"{counted(len(found[0].measures), 'prompt')}. Bands: 95 % bootstrap over the prompts."
    write_budgets(path, panels, title=f"Answers on {Path(domain).name}", note=note, budget="answers")


def _names(found: Sequence[PolicyFigures]) -> list[str]:
    names = [Path(one.name).name for one in found]
    if len({one.ask.temperature for one in found}) > 1:
        names = [f"{name} T {one.ask.temperature:g}" for name, one in zip(names, found, strict=True)]
    numbered = [f"{place}: {name}" for place, name in enumerate(names, start=1)]
    return names if len(set(names)) == len(names) else numbered
