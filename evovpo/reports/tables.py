"""Tables: judgements, examples, the lineage of a program, the list of runs, the islands of a search."""

import json
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from evovpo.problem.openevolve import metrics
from evovpo.reports.text import (
    changes_view,
    folded,
    one_line,
    only_expression,
    plain_table,
    printable,
    reward_text,
    right,
    shortened,
    value_text,
)
from evovpo.runs.stored import Ancestor, Row, example_rows
from evovpo.search.search import Search
from evovpo.store import RunRow
from evovpo.types import Evaluation, Json, ParentRole, Problem, RunStatus

_ROWS_SHOWN = 24
_MISSES_SHOWN = 6
_PARTS = {
    ParentRole.PARENT: "parent",
    ParentRole.INSPIRATION: "inspiration",
    ParentRole.PARTNER: "partner",
    ParentRole.JOIN_THEN: "then",
    ParentRole.JOIN_ELSE: "else",
}


def judgement_table(problem: Problem, evaluation: Evaluation | None) -> RenderableType:
    """Return how a program does by training example or, for a problem with a scorer, by objective.

    What an evaluator of its own returned stands beside the reward that the objective makes of it.
    """
    if problem.is_by_example:
        return rows_table(problem, example_rows(problem, evaluation), _ROWS_SHOWN)
    rewards = (evaluation.rewards if evaluation else None) or (0.0,) * len(problem.objectives)
    values = dict((evaluation.metrics if evaluation else None) or ())
    is_raw = problem.evaluator is not None
    raw = [right("value", overflow="fold")] * is_raw
    table = plain_table("metric" if is_raw else "objective", *raw, right("reward"), folded())
    for objective, reward in zip(problem.objectives, rewards, strict=True):
        value = _metric_text(values.pop(objective.name)) if objective.name in values else "-"
        text = Text(printable(objective.description), style="dim")
        table.add_row(Text(printable(objective.name)), *[Text(value)] * is_raw, reward_text(reward), text)
    for name, other in values.items():
        table.add_row(Text(printable(name)), Text(_metric_text(other)), "", Text("no objective", style="dim"))
    return table


def _metric_text(value: Json) -> str:
    found = metrics.number(value)
    return printable(json.dumps(value)[:200]) if found is None else f"{found:.6g}"


def rows_table(problem: Problem, rows: Sequence[Row], limit: int) -> RenderableType:
    """Return examples with a program's outputs and pass marks; of more than `limit`, failed ones first."""
    numbered = list(enumerate(rows, start=1))
    if len(numbered) > limit:
        numbered = sorted(sorted(numbered, key=lambda item: item[1].passed)[:limit])
    headers: list[RenderableType] = [*map(Text, problem.parameters), "wanted", "got"]
    table = plain_table(right("#", style="dim"), *map(folded, headers), "")
    for number, row in numbered:
        mark = Text("✓ right", style="green") if row.passed else Text("✗ wrong", style="red")
        got = "(no output)" if row.got is None and row.output is not None else value_text(row.got)
        table.add_row(
            str(number),
            *(Text(value_text(value)) for value in row.inputs),
            Text(value_text(row.output)),
            Text(got, style="" if row.passed else "red"),
            mark,
        )
    return shortened(table, len(rows) - limit)


def misses_view(problem: Problem, heldout: Sequence[Row]) -> RenderableType | None:
    """Return the held-out rows that a program is wrong on, or none if there are none."""
    misses = [row for row in heldout if not row.passed]
    if not misses:
        return None
    title = Text(f"Held-out examples that it gets wrong ({len(misses)} of {len(heldout)})", style="bold")
    return Group(title, rows_table(problem, misses, _MISSES_SHOWN))


def lineage_table(problem: Problem, ancestors: Sequence[Ancestor]) -> Table:
    """Return the programs that the first one came from; numbers in `made from` are those of the rows.

    Of a program that is more than one expression, the lines are shown in which it differs from its parent.
    """
    programs = {ancestor.program.id: ancestor.program for ancestor in ancestors}
    numbers = {ancestor.program.id: number for number, ancestor in enumerate(ancestors, start=1)}
    figure = right("passed" if problem.is_by_example else "mean")
    table = plain_table(right("#", style="dim"), folded("program", ratio=1), figure, "made from")
    for number, ancestor in enumerate(ancestors, start=1):
        is_join = ancestor.origin == "join"
        source = ancestor.program.source
        before = [programs[one.program_id] for one in ancestor.made_from if one.role is ParentRole.PARENT]
        changes = Text()
        if before and only_expression(source, problem.entry) is None:
            changes = changes_view(before[0].source, source)
        parts = [
            f"{numbers[one.program_id]}"
            + f" ({_PARTS[one.role]})" * (is_join or one.role is not ParentRole.PARENT)
            for one in ancestor.made_from
        ]
        origins = {"seed": "starting program", "root": "the examples alone", "join": "join of "}
        total = len(problem.objectives)
        result = f"{ancestor.passed}/{total}" if problem.is_by_example else reward_text(ancestor.mean_reward)
        table.add_row(
            str(number),
            changes or Text(one_line(source, problem.entry)),
            result,
            origins.get(ancestor.origin, "") + ", ".join(parts),
        )
    return table


def runs_table(rows: Sequence[RunRow]) -> Table:
    """Return the list of runs."""
    run, status = (Column(name, no_wrap=True) for name in ("run", "status"))
    figures = (right("evaluations", no_wrap=True), right("best mean reward"))
    table = plain_table(run, folded("problem"), status, *figures)
    styles = {RunStatus.SOLVED: "green", RunStatus.FAILED: "red", RunStatus.INTERRUPTED: "yellow"}
    for row in rows:
        best = "-" if row.best_mean_reward is None else reward_text(row.best_mean_reward)
        ended = Text(str(row.status), style=styles.get(row.status, ""))
        table.add_row(row.run, Text(printable(row.problem)), ended, str(row.evaluations), best)
    return table


def population_table(search: Search) -> Table:
    """Return the islands of a search."""
    names = ("island", "programs", "archive", "filled cells", "best mean reward")
    table = plain_table(*map(right, names))
    for island in search.islands:
        best = max((member.mean_reward for member in island.members), default=0.0)
        counts = (island.index, len(island.members), len(island.elites), len(island.filled_cells))
        table.add_row(*map(str, counts), reward_text(best))
    if search.restarts:
        table.caption = f"islands started anew: {search.restarts}"
    return table


def population_json(search: Search) -> list[Json]:
    """Return the islands of a search for machines: index, program ids, and the best mean reward."""
    return [
        {
            "island": island.index,
            "programs": [member.program_id for member in island.members],
            "best_mean_reward": max((member.mean_reward for member in island.members), default=0.0),
        }
        for island in search.islands
    ]
