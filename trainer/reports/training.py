"""What a training will read, what it did, and which versions there are: tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Column, Table
from rich.text import Text

from evovpo.reports.text import counted, folded, plain_table, right
from evovpo.store import Store
from evovpo.types import Json, PolicyEventKind, TrainingStep

if TYPE_CHECKING:  # it loads torch, which tables do without
    from trainer.loop.training_plan import Plan

_FIGURES = (
    ("set score", "set_score"),
    ("pool score", "pool_score"),
    ("mean reward", "mean_reward"),
    ("pass rate", "pass_rate"),
    ("diversity", "diversity"),
    ("different programs", "distinct_programs"),
    ("entropy", "entropy"),
    ("KL to the start model", "kl"),
    ("clipped tokens", "clip_share"),
)


def plan_table(plan: Plan) -> Table:
    """Return the groups of each run: how many are trained on, and how many are not and why."""
    from trainer.learning.data import Skip

    reasons = [reason for reason in Skip if any(one.skipped.get(reason) for one in plan.data)]
    table = _titled("Groups", "run", *map(right, ("complete", "used", *map(str, reasons))))
    counts = {
        one.run_id: [one.total, len(one.groups), *(one.skipped.get(reason, 0) for reason in reasons)]
        for one in plan.data
    }
    for run, row in counts.items():
        table.add_row(run, *map(str, row))
    if len(counts) > 1:
        table.add_section()
        table.add_row("all", *(str(sum(column)) for column in zip(*counts.values(), strict=True)))
    return table


def _titled(title: str, *columns: str | Column) -> Table:
    table = plain_table(*columns)
    table.title, table.title_justify = title, "left"
    return table


def plan_line(plan: Plan) -> str:
    """Return the rest of a plan in one line."""
    faulty = sum(one.faulty_rollouts for one in plan.data)
    left_out = f", {faulty} rollouts left out after sandbox faults" if faulty else ""
    return (
        f"{counted(len(plan.steps), 'step')} with {plan.training.objective} from policy version "
        f"{plan.start.number}, on {plan.groups_used} groups and {plan.tokens} tokens{left_out}"
    )


def steps_table(steps: Sequence[TrainingStep]) -> Table:
    """Return the figures at the beginning and the end of a training: means over a quarter of its steps."""
    part = max(1, len(steps) // 4)
    ends = {"first": steps[:part], "last": steps[-part:]}
    heads = (right(f"{name} {len(some)}") for name, some in ends.items())
    table = _titled("Training", "mean over steps", *heads)
    for label, field in _FIGURES:
        means = (sum(float(getattr(step, field)) for step in some) / part for some in ends.values())
        table.add_row(label, *(f"{mean:.4f}" for mean in means))
    return table


def probe_table(found: Mapping[str, Any]) -> Table:
    """Return best@k and pass@k of a version and its parent from the comparison of `retrain`."""
    new, parent = found["version"], found["parent"]
    title = f"Probe: {new['problems']} problems outside the training, {new['sampled']} answers each"
    heads = (f"{figure} {name}" for figure in ("best@k", "pass@k") for name in ("parent", "new"))
    table = _titled(title, *map(right, ("k", *heads)))
    columns = [result[figure] for figure in ("best_at_k", "pass_at_k") for result in (parent, new)]
    for k in columns[0]:
        table.add_row(k, *(f"{values[k]:.3f}" for values in columns))
    return table


def policies_json(store: Store) -> list[dict[str, Json]]:
    """Return one object a version, ascending by number."""
    served = store.served()
    made_by = {training.id: training for training in store.trainings()}
    refused = {
        event.number: event.detail for event in store.policy_events() if event.kind is PolicyEventKind.REFUSED
    }
    found: list[dict[str, Json]] = []
    for version in store.policy_versions():
        training = made_by.get(version.config_hash)
        found.append(
            {
                "number": version.number,
                "served": served is not None and served.number == version.number,
                "parent": version.parent,
                "objective": None if training is None else training.objective,
                "runs": [] if training is None else list(training.runs),
                "refused": refused.get(version.number),
                "path": version.path,
                "metrics": dict(version.metrics),
            }
        )
    return found


def policies_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the versions of `policies_json` as a table; the served one is marked."""
    figures = map(right, ("version", "parent"))
    table = plain_table("", *figures, "objective", right("steps"), right("best@1"), folded("folder"))
    for row in rows:
        steps, best = (row["metrics"].get(name) for name in ("steps", "probe.best_at_1"))
        state = "served" if row["served"] else "refused" if row["refused"] else ""
        table.add_row(
            Text(state, style="bold green" if row["served"] else "red"),
            str(row["number"]),
            "" if row["parent"] is None else str(row["parent"]),
            row["objective"] or "start model",
            "" if steps is None else f"{steps:.0f}",
            "" if best is None else f"{best:.3f}",
            _from_here(row["path"]),
        )
    return table


def _from_here(path: str) -> str:
    """Return a path without the current directory, if it lies there."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
