"""Text reports of trainings: the plan, the result, a comparison of versions and the list of versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from evovpo.analysis.statistics import Interval, bootstrap_interval
from evovpo.errors import ConfigError
from evovpo.experiments.break_even import PROBLEMS, ArmCosts, cost_per_solved
from evovpo.experiments.intervals import mean
from evovpo.reports.pictures import KCurve, write_budgets
from evovpo.reports.text import counted, folded, plain_table, right
from evovpo.store import Store
from evovpo.types import Json, PolicyEventKind, TrainingStep

if TYPE_CHECKING:  # it loads torch, which tables do not need
    from trainer.loop.probe import ProbeResult
    from trainer.loop.training_plan import TrainingPlan

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


def plan_table(plan: TrainingPlan) -> Table:
    from trainer.learning.stored_groups import Skip

    reasons = [reason for reason in Skip if any(one.skipped.get(reason) for one in plan.data)]
    table = plain_table("run", *map(right, ("complete", "used", *map(str, reasons))), title="Groups")
    counts = []
    for one in plan.data:
        counts.append([one.total, len(one.groups), *(one.skipped.get(reason, 0) for reason in reasons)])
        table.add_row(one.run_id, *map(str, counts[-1]))
    if len(counts) > 1:
        table.add_section()
        table.add_row("all", *(str(sum(column)) for column in zip(*counts, strict=True)))
    return table


def plan_line(plan: TrainingPlan) -> str:
    faulty = sum(one.faulty_rollouts for one in plan.data)
    left_out = f", {faulty} rollouts left out after sandbox faults" if faulty else ""
    return (
        f"{counted(len(plan.steps), 'step')} with {plan.training.objective} from policy version "
        f"{plan.start.number}, on {plan.groups_used} groups and {plan.tokens} tokens{left_out}"
        + f"; {plan.targets}"
        * bool(plan.config.imitate.share)
    )


def steps_table(steps: Sequence[TrainingStep]) -> Table:
    """Return a table of a training's mean statistics in the first and in the last quarter of its steps."""
    part = max(1, len(steps) // 4)
    ends = {"first": steps[:part], "last": steps[-part:]}
    heads = (right(f"{name} {len(some)}") for name, some in ends.items())
    table = plain_table("mean over steps", *heads, title="Training")
    for label, field in _FIGURES:
        means = (sum(float(getattr(step, field)) for step in some) / part for some in ends.values())
        table.add_row(label, *(f"{value:.4f}" for value in means))
    return table


def policies_json(store: Store) -> list[dict[str, Json]]:
    served = store.served()
    made_by = {training.id: training for training in store.trainings()}
    refused = {one.number: one.detail for one in store.policy_events() if one.kind is PolicyEventKind.REFUSED}
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
    figures = map(right, ("version", "parent"))
    best = right("best@1, parent's\nand its own", no_wrap=True)
    table = plain_table("", *figures, "objective", right("steps"), best, folded("folder"))
    for row in rows:
        names = ("steps", "probe.parent.best_at_1", "probe.best_at_1")
        steps, before, after = (row["metrics"].get(name) for name in names)
        state = "served" if row["served"] else "refused" if row["refused"] else ""
        table.add_row(
            Text(state, style="bold green" if row["served"] else "red"),
            str(row["number"]),
            "" if row["parent"] is None else str(row["parent"]),
            row["objective"] or "start model",
            "" if steps is None else f"{steps:.0f}",
            "" if before is None else f"{before:.3f} to {after:.3f}",
            "/".join(Path(row["path"]).parts[-2:]),
        )
    return table


def _panels(
    before: ProbeResult, after: ProbeResult, names: tuple[str, str]
) -> Iterator[tuple[str, KCurve, KCurve, list[Interval]]]:
    if before.problems != after.problems:
        raise ConfigError(
            f"one probe holds {len(after.problems)} problems and the other {len(before.problems)}; expected "
            "the same ones in the same order: probe both versions with the same problems"
        )
    ks = tuple(k for k in before.ks if k in after.ks)
    for title, figure in (
        ("best@k: best mean reward of k answers", "best_at_k"),
        ("pass@k: one of k answers is right on all rows", "pass_at_k"),
    ):
        old, new = (found.values(figure, ks).T for found in (before, after))
        first, second = (tuple(map(mean, values)) for values in (old, new))
        curves = KCurve(names[0], ks, first), KCurve(names[1], ks, second)
        yield title, *curves, [bootstrap_interval([one], [two]) for one, two in zip(new, old, strict=True)]


def before_after_table(
    before: ProbeResult, after: ProbeResult, names: tuple[str, str] = ("start", "trained")
) -> Group:
    """Return tables of best@k and pass@k for two versions, with differences paired by problem.

    A difference whose 95 % interval excludes zero is bold. Raises `ConfigError` if the problems differ.
    """
    tables = []
    for title, first, second, differences in _panels(before, after, names):
        difference_head = right("difference [95 % interval]", no_wrap=True)
        table = plain_table(*map(right, ("k", *names)), difference_head, title=title)
        for k, *pair, difference in zip(first.ks, first.means, second.means, differences, strict=True):
            style = ("bold green" if difference.mean > 0 else "bold red") if difference.is_clear else ""
            table.add_row(str(k), *(f"{value:.3f}" for value in pair), Text(f"{difference:+.3f}", style))
        tables.append(table)
    title = "Before and after, on problems outside the training"
    return Group(title, *tables, _what_was_measured(before, after))


def write_before_after_png(path: Path, before: ProbeResult, after: ProbeResult) -> None:
    """Plot best@k and pass@k of two versions against k, with 95 % bands over the problems.

    Raises `ConfigError` if the problems differ or the file cannot be written.
    """
    panels = {name: curves for name, *curves, _ in _panels(before, after, ("start model", "trained"))}
    title = "Before and after training, on problems outside the training"
    note = f"{_what_was_measured(before, after)} Bands: 95 % bootstrap over problems."
    write_budgets(path, panels, title=title, note=note, budget="k, answers drawn")


def write_costs(path: Path, spent: Mapping[str, Mapping[str, ArmCosts]]) -> bool:
    """Plot the cost per solved problem, training included, against the number of problems.

    `spent` maps panels of the picture to the costs of each arm. An arm that solves no problem has no curve.
    If there is no curve, writes nothing and returns False. Raises `ConfigError` if `path` cannot be written.
    """
    panels = {}
    for panel, by_arm in spent.items():
        solving = {name: one for name, one in by_arm.items() if one.solved_S_T.any()}
        if solving:
            panels[panel.replace("_", " ")] = [
                KCurve(name, PROBLEMS, cost_per_solved(one)) for name, one in solving.items()
            ]
    if panels:
        note = "All that came before is included: searches, trainings, their tuning and guards."
        title = "Cost per solved problem"
        write_budgets(path, panels, title=title, note=note, budget="problems", is_cost=True)
    return bool(panels)


def _what_was_measured(before: ProbeResult, after: ProbeResult) -> str:
    sampled = min(before.sampled, after.sampled)
    lengths = " and ".join(map(str, dict.fromkeys((before.answers, after.answers))))
    chains = "" if lengths == "1" else f" in chains of {lengths}"
    faults = before.faults + after.faults
    lost = f" {faults} completions were left out because the sandbox failed on them." if faults else ""
    return f"{len(before.problems)} problems, {sampled} answers each{chains}, from the examples alone.{lost}"
