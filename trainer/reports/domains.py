"""What a training on a domain would be, what it brought, and what policies are worth: for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evovpo.experiments.intervals import mean
from evovpo.reports.doctor.report import HEADLINES
from evovpo.reports.pictures import Curve, write_budgets
from evovpo.reports.text import counted, folded, plain_table, printable, right

if TYPE_CHECKING:  # these load torch
    from trainer.domains.figures import PolicyFigures
    from trainer.domains.preview import Preview
    from trainer.domains.training import Trained

_LONGEST = 400


def trained_table(found: Trained) -> Table:
    """Return best@k and E_w best@k by k before and after a training that was measured."""
    table = plain_table(
        right("k"),
        *map(right, ("best@k before", "after", "E_w best@k before", "after")),
        title="Before and after",
    )
    maps = (found.before, found.after, found.expected_before, found.expected_after)
    for k in found.before or ():
        table.add_row(k, *(f"{one[k]:.3f}" for one in maps if one is not None))
    return table


def gain_line(found: Trained) -> str:
    """Return the gain with its interval in a sentence."""
    gain, k = found.gain or {}, list(found.before or ("",))[-1]
    return (
        f"E_w best@{k}: {gain['mean']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}] over the start model "
        "(95 % interval over the prompts; this one training)."
    )


def preview_view(found: Preview) -> RenderableType:
    """Return prompts with a completion and its rewards each, the doctor's verdict, and what it would take."""
    parts: list[RenderableType] = []
    for prompt, one in found.shown:
        table = Table.grid("", folded(), padding=(0, 1))
        table.add_row(Text("prompt", style="dim"), _short(_joined(prompt)))
        table.add_row(Text("answer", style="dim"), _short(one.text))
        for answer in one.answers:
            rewards = answer.rewards or ()
            values = ", ".join(
                f"{name} {value:.2f}" for name, value in zip(found.domain.components, rewards, strict=False)
            )
            reason = f" ({answer.reason})" * bool(answer.reason)
            table.add_row(Text("reward", style="dim"), Text(printable((values or "none: a fault") + reason)))
        parts += [table, Text()]
    if found.diagnosis is None:
        parts.append(Text("No answer could be read: train the format first, by imitation.", style="bold red"))
    else:
        parts.append(Text(HEADLINES[found.diagnosis.verdict], style="bold"))
        parts += [Text(f"• {printable(one.text)}") for one in found.diagnosis.findings]
    parts.append(
        Text(
            f"\n{counted(len(found.domain.prompts), 'prompt')}; about {found.tokens:,} completion tokens, "
            f"at most {found.most_tokens:,}.\n{found.parameters:,} parameters, {found.trained_parameters:,} "
            f"trained; about {found.memory_bytes / 2**30:.1f} GiB on one device."
        )
    )
    return Group(*parts)


def figures_json(found: Sequence[PolicyFigures]) -> dict[str, Any]:
    """Return the figures of the first policy; of several, all of them too and each one minus the first."""
    from trainer.domains.figures import BY_K, DIVERSITY, ends, minus

    first, *others = found
    if not others:
        return first.as_json()
    differences = [
        {"model": one.name, "temperature": one.temperature}
        | {name: {str(k): ends(minus(one, first, name, k).interval) for k in one.ks} for name in BY_K}
        | {DIVERSITY: ends(minus(one, first, DIVERSITY).interval)}
        for one in others
    ]
    return first.as_json() | {"policies": [one.as_json() for one in found], "minus_first": differences}


def figures_view(found: Sequence[PolicyFigures], domain: str) -> RenderableType:
    """Return a table for each figure by k, policies side by side, and one of diversity.

    Behind the first policy, each one's difference to it with its interval, bold where that excludes zero.
    """
    from trainer.domains.figures import BY_K, DIVERSITY, minus

    first, *others = found
    names = _names(found)
    tables: list[RenderableType] = []
    for figure, title in (BY_K | {DIVERSITY: "diversity: mean L1 distance of two answers' rewards"}).items():
        table = plain_table(right("k"), *(right(name, no_wrap=False) for name in names), title=title)
        for k in first.ks if figure != DIVERSITY else (0,):
            cells = [Text(f"{_mean(first, figure, k):.3f}")]
            for one in others:
                difference = minus(one, first, figure, k)
                cells.append(Text(f"{_mean(one, figure, k):.3f} ({difference.interval:+.3f})"))
                if difference.is_clear:
                    cells[-1].stylize("bold")
            if not others:
                interval = mean(first.values(figure, k))
                cells[0].append(f" [{interval.low:.3f}, {interval.high:.3f}]", style="dim")
            table.add_row(str(k or ""), *cells)
        tables.append(table)
    faults = sum(one.faults for policy in found for one in policy.measures)
    lost = f" {counted(faults, 'completion')} could not be judged." if faults else ""
    place = f"{Path(domain).name}: {counted(len(first.measures), 'prompt')}"
    note = f"{place}; 95 % intervals over the prompts.{lost}"
    return Group(*tables, note)


def write_figures_png(path: Path, found: Sequence[PolicyFigures], domain: str) -> None:
    """Write best@k and E_w best@k of policies against k. Raises `ConfigError` for an unwritable file."""
    from trainer.domains.figures import BY_K

    panels = {
        BY_K[figure]: [
            Curve(name, one.ks, tuple(one.by_k(figure).values()))
            for name, one in zip(_names(found), found, strict=True)
        ]
        for figure in ("best_at_k", "expected_best_at_k")
    }
    note = f"{counted(len(found[0].measures), 'prompt')}. Bands: 95 % bootstrap over the prompts."
    write_budgets(path, panels, title=f"Answers on {Path(domain).name}", note=note, budget="answers")


def _names(found: Sequence[PolicyFigures]) -> list[str]:
    """Return a name for each policy: the last part of its path, and what else tells it from the others."""
    names = [Path(one.name).name for one in found]
    if len({one.temperature for one in found}) > 1:
        names = [f"{name} T {one.temperature:g}" for name, one in zip(names, found, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{place}: {name}" for place, name in enumerate(names, start=1)]
    return names


def _mean(one: PolicyFigures, figure: str, k: int) -> float:
    return float(one.values(figure, k).mean())


def _joined(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(one["content"] for one in prompt)


def _short(text: str) -> Text:
    return Text(printable(text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."))
