"""What a training will read, what it did, and which versions there are: tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from evovpo.types import Json, PolicyEvent, PolicyEventKind, PolicyVersion, Training, TrainingStep

if TYPE_CHECKING:  # they load torch, which tables do without
    from trainer.learning.data import RunData
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
    table = Table(box=box.SIMPLE, header_style="bold", title="Groups", title_justify="left")
    table.add_column("run")
    for name in ("complete", "used", *(str(reason) for reason in reasons)):
        table.add_column(name, justify="right")
    for one in plan.data:
        table.add_row(one.run_id, *_counts(one, reasons))
    if len(plan.data) > 1:
        totals = [_counts(one, reasons) for one in plan.data]
        sums = (str(sum(int(cell) for cell in column)) for column in zip(*totals, strict=True))
        table.add_section()
        table.add_row("all", *sums)
    return table


def _counts(one: RunData, reasons: Sequence[str]) -> list[str]:
    skipped: Mapping[str, int] = {str(reason): count for reason, count in one.skipped.items()}
    return [str(one.total), str(len(one.groups)), *(str(skipped.get(str(reason), 0)) for reason in reasons)]


def plan_line(plan: Plan) -> str:
    """Return the rest of a plan in one line."""
    faulty = sum(one.faulty_rollouts for one in plan.data)
    left_out = f", {faulty} rollouts left out after sandbox faults" if faulty else ""
    steps = f"{len(plan.steps)} step{'s' * (len(plan.steps) != 1)}"
    return (
        f"{steps} with {plan.training.objective} from policy version {plan.start.number}, on "
        f"{plan.groups_used} groups and {plan.tokens} tokens{left_out}"
    )


def steps_table(steps: Sequence[TrainingStep]) -> Table:
    """Return the figures at the beginning and the end of a training: means over a quarter of its steps."""
    table = Table(box=box.SIMPLE, header_style="bold", title="Training", title_justify="left")
    table.add_column("mean over steps")
    part = max(1, len(steps) // 4)
    for name, some in (("first", steps[:part]), ("last", steps[-part:])):
        table.add_column(f"{name} {len(some)}", justify="right")
    for label, field in _FIGURES:
        means = (
            sum(float(getattr(step, field)) for step in some) / len(some)
            for some in (steps[:part], steps[-part:])
        )
        table.add_row(label, *(f"{mean:.4f}" for mean in means))
    return table


def probe_table(found: Mapping[str, Json]) -> Table:
    """Return best@k and pass@k of a version and its parent from the comparison of `retrain`."""
    new, parent = found["version"], found["parent"]
    if not isinstance(new, dict) or not isinstance(parent, dict):
        raise TypeError(f"expected the comparison of a training, found {found!r:.80}")
    title = f"Probe: {new['problems']} problems outside the training, {new['sampled']} answers each"
    table = Table(box=box.SIMPLE, header_style="bold", title=title, title_justify="left")
    table.add_column("k", justify="right")
    for figure in ("best@k", "pass@k"):
        for name in ("parent", "new"):
            table.add_column(f"{figure} {name}", justify="right")
    columns = [
        values
        for figure in ("best_at_k", "pass_at_k")
        for result in (parent, new)
        if isinstance(values := result[figure], dict)
    ]
    for k in columns[0]:
        table.add_row(k, *(f"{values[k]:.3f}" for values in columns))
    return table


def policies_json(
    versions: Sequence[PolicyVersion],
    served: PolicyVersion | None,
    trainings: Sequence[Training],
    events: Sequence[PolicyEvent],
) -> list[Json]:
    """Return one object a version, ascending by number."""
    made_by = {training.id: training for training in trainings}
    found: list[Json] = []
    for version in versions:
        training = made_by.get(version.config_hash)
        refused = [
            event.detail
            for event in events
            if event.number == version.number and event.kind is PolicyEventKind.REFUSED
        ]
        found.append(
            {
                "number": version.number,
                "served": served is not None and served.number == version.number,
                "parent": version.parent,
                "objective": None if training is None else training.objective,
                "runs": [] if training is None else list(training.runs),
                "refused": refused[-1] if refused else None,
                "path": version.path,
                "metrics": dict(version.metrics),
            }
        )
    return found


def policies_table(rows: Sequence[Mapping[str, Json]]) -> Table:
    """Return the versions of `policies_json` as a table; the served one is marked."""
    table = Table(box=box.SIMPLE, header_style="bold")
    table.add_column("")
    table.add_column("version", justify="right")
    table.add_column("parent", justify="right")
    table.add_column("objective")
    table.add_column("steps", justify="right")
    table.add_column("best@1", justify="right")
    table.add_column("folder", overflow="fold")
    for row in rows:
        metrics = row["metrics"] if isinstance(row["metrics"], dict) else {}
        steps, best = metrics.get("steps"), metrics.get("probe.best_at_1")
        state = "served" if row["served"] else "refused" if row["refused"] else ""
        table.add_row(
            Text(state, style="bold green" if row["served"] else "red"),
            str(row["number"]),
            "" if row["parent"] is None else str(row["parent"]),
            str(row["objective"] or "start model"),
            f"{steps:.0f}" if isinstance(steps, float) else "",
            f"{best:.3f}" if isinstance(best, float) else "",
            _from_here(str(row["path"])),
        )
    return table


def _from_here(path: str) -> str:
    """Return a path without the current directory, if it lies there."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
