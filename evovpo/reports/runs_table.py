"""Tables of runs, programs, problems, problem checks and OpenEvolve settings."""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from evovpo.analysis import scores
from evovpo.builtin.strings.format import expression_fault
from evovpo.config import Config
from evovpo.errors import ProblemError
from evovpo.judging.check import CheckReport
from evovpo.problem.openevolve.config_file import Effect, OpenEvolveSettings
from evovpo.problem.openevolve.metrics import suggest_bounds
from evovpo.reports.text import (
    changes_view,
    counted,
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
from evovpo.runs.stored import Ancestor, RowResult, example_rows
from evovpo.store import RunRow, Store
from evovpo.types import Evaluation, Json, ParentRole, Problem, Status

_ROWS_SHOWN = 24
_MISSES_SHOWN = 6
_OF_LOOP = re.compile(r"-r\d+-p\d+$")
_PARTS = {
    ParentRole.PARENT: "parent",
    ParentRole.INSPIRATION: "inspiration",
    ParentRole.PARTNER: "partner",
    ParentRole.JOIN_THEN: "then",
    ParentRole.JOIN_ELSE: "else",
}


def judgement_table(problem: Problem, evaluation: Evaluation | None) -> RenderableType:
    if problem.is_by_example:
        return rows_table(problem, example_rows(problem, evaluation), _ROWS_SHOWN)
    rewards = (evaluation.rewards if evaluation else None) or (0.0,) * len(problem.objectives)
    values = dict((evaluation.metrics if evaluation else None) or ())
    score = None if evaluation is None else scores.score_of(problem, evaluation)
    counted: dict[str, float] = {}
    if score not in (None, scores.NO_SCORE) and problem.evaluator is not None:
        counted = scores.counted_metrics(values, problem.evaluator.left_out or ())
        values.setdefault(scores.score_name(values, problem.evaluator.left_out), score)
    is_raw = problem.evaluator is not None
    is_one = problem.has_one_score
    figures = [right("value", overflow="fold")] * is_raw + [right("reward")] * (not is_one)
    table = plain_table("metric" if is_raw else "objective", *figures, folded())
    said = {
        one.name: (reward_text(reward), one.description)
        for one, reward in zip(problem.objectives, rewards, strict=True)
    }
    others = ((name, "part of the mean" if name in counted else "no objective") for name in values)
    said |= {name: ("", role) for name, role in others if name not in said}
    for name, (reward, text) in said.items():
        value = _metric_text(values[name]) if name in values else "-"
        text = text.partition("; the initial program's is")[0]
        cells = [name, *[value] * is_raw, *[reward] * (not is_one)]
        table.add_row(*(Text(printable(cell)) for cell in cells), Text(printable(text), style="dim"))
    return table


def _metric_text(value: Json) -> str:
    found = scores.number(value)
    return printable(json.dumps(value)[:200]) if found is None else f"{found:.6g}"


def rows_table(problem: Problem, rows: Sequence[RowResult], limit: int) -> RenderableType:
    """Return a table of outputs for up to `limit` examples, failed ones first."""
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


def misses_view(problem: Problem, heldout: Sequence[RowResult]) -> RenderableType | None:
    """Return a table of the held-out rows on which a program is wrong, or None if there are none."""
    misses = [row for row in heldout if not row.passed]
    if not misses:
        return None
    title = Text(f"Held-out examples that it gets wrong ({len(misses)} of {len(heldout)})", style="bold")
    return Group(title, rows_table(problem, misses, _MISSES_SHOWN))


def lineage_table(problem: Problem, ancestors: Sequence[Ancestor]) -> Table:
    """Return a table of a program and its ancestors. The column `made from` has the parents' row numbers."""
    programs = {ancestor.program.id: ancestor.program for ancestor in ancestors}
    numbers = {ancestor.program.id: number for number, ancestor in enumerate(ancestors, start=1)}
    figure = right("passed" if problem.is_by_example else "score" if problem.has_one_score else "mean")
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
        origins = {
            "seed": "starting program",
            "root": "the examples alone",
            "join": "join of ",
            "shorten": "shortened from ",
            "other run": "another run, as it was",
            "shown": "another lineage of this run",
        }
        total = len(problem.objectives)
        result = f"{ancestor.passed}/{total}" if problem.is_by_example else reward_text(ancestor.mean_reward)
        result = result if ancestor.score is None else f"{ancestor.score:.6g}"
        shown = changes or Text(one_line(source, problem.entry))
        idea = Text(f"{printable(ancestor.idea)}\n", style="italic") if ancestor.idea else Text()
        table.add_row(
            str(number),
            idea + shown,
            result,
            origins.get(ancestor.origin, "") + ", ".join(parts),
        )
    return table


def runs_table(rows: Sequence[RunRow]) -> Table:
    """Return the table of runs that `evovpo runs` prints. The runs of a loop are one row."""
    run, status, start = (Column(name, no_wrap=True) for name in ("run", "status", "started"))
    figures = (right(name, no_wrap=True) for name in ("seed", "evaluations", "best"))
    table = plain_table(run, folded("problem"), status, *figures, start)
    styles = {"solved": "green", "memorised": "yellow", "failed": "red", "interrupted": "yellow"}
    for name, group in groupby(rows, key=lambda row: _OF_LOOP.sub("", row.run)):
        alike = list(group)
        row = alike[0]
        best = max((one.best_mean_reward for one in alike if one.best_mean_reward is not None), default=None)
        shown = "-" if best is None else reward_text(best)
        started = datetime.fromisoformat(row.created_at).astimezone().strftime("%m-%d %H:%M")
        if name != row.run:
            solved = f"{sum(one.ending == 'solved' for one in alike)} solved"
            evaluations = str(sum(one.evaluations for one in alike))
            what = f"loop: {counted(len(alike), 'run')}"
            table.add_row(name, what, solved, "", evaluations, shown, started)
            continue
        shown = shown if row.score is None else f"{row.score:.6g}"
        is_unchecked = row.ending == "solved" and row.solved_heldout is None
        ended = Text(row.ending + "\n(unchecked)" * is_unchecked, style=styles.get(row.ending, ""))
        table.add_row(row.run, row.problem, ended, str(row.seed), str(row.evaluations), shown, started)
    return table


def row_json(row: RunRow) -> dict[str, Json]:
    solved = {"solved_train": row.solved_train, "solved_heldout": row.solved_heldout}
    fields = {name: value for name, value in row._asdict().items() if not name.startswith("score")}
    return {**fields, "status": row.ending, **solved, **scores.score_json(row.score_name, row.score)}


def problems_table(problems: Sequence[Problem]) -> Table:
    table = plain_table(Column("problem", no_wrap=True), right("rows", no_wrap=True), "asks for")
    for problem in problems:
        rows = f"{len(problem.train)}+{len(problem.heldout)}" if problem.is_by_example else "scorer"
        asked = " ".join(problem.statement.strip().split("\n\n")[0].split())
        table.add_row(problem.id, rows, Text(printable(asked), no_wrap=True, overflow="ellipsis"))
    return table


def check_view(report: CheckReport) -> RenderableType:
    problem = report.problem
    counts = ("training rows", "held-out rows") if problem.is_by_example else ()
    table = plain_table("starting program", "ends", right("mean reward"), *map(right, counts))
    for seed in report.seeds:
        cells = [seed.name, str(seed.evaluation.status), reward_text(seed.evaluation.mean_reward)]
        if problem.is_by_example:
            cells += [f"{seed.evaluation.passed} of {len(problem.train)}"]
            cells += [f"{seed.heldout_passed} of {len(problem.heldout)}"]
        table.add_row(*map(Text, cells))
    title = Text(f"{problem.id} can be used.", style="bold green")
    if report.fault:
        title = Text(f"{problem.id} is not usable.", style="bold red")
    lines: list[RenderableType] = [title, table]
    if problem.evaluator is not None:
        first = report.seeds[0].evaluation
        said = f"{printable(first.feedback)}\ntrust: {problem.trust}".lstrip()
        lines = [title, judgement_table(problem, first), Text(said)]
    lines += [Text(f"note: {printable(warning)}", style="yellow") for warning in report.warnings]
    fault = expression_fault(problem)
    if fault and problem.evaluator is None:
        lines.append(
            Text(f"note: the built-in model cannot write for it: {printable(fault)}", style="yellow")
        )
    return Group(*lines)


def check_json(report: CheckReport) -> dict[str, Json]:
    """Return a check's result as JSON. `initial` has the metrics or rewards of the first starting program."""
    problem, first = report.problem, report.seeds[0].evaluation
    names = [objective.name for objective in problem.objectives]
    found = zip(names, first.rewards or (), strict=False) if first.metrics is None else first.metrics
    return {
        "usable": not report.fault,
        "initial": dict(found),
        "problem": {"id": problem.id, "version": problem.version, "objectives": [*names]},
        "feedback": first.feedback,
        "trust": str(problem.trust),
        "warnings": [*report.warnings],
    }


def bounds_text(store: Store, run_id: str) -> str:
    """Return the text of a `metrics.toml` with bounds that fit the metrics of a run's programs.

    Raises `ProblemError` if the run has no metrics.
    """
    run = store.run(run_id)
    problem = store.problem(run.problem_id, run.problem_version)
    if problem.evaluator is None:
        raise ProblemError(
            f"run {run.id} is of '{problem.id}', whose rewards lie in [0, 1] as they are; expected a run of "
            "an OpenEvolve project"
        )
    judged = [item.metrics for item in store.scores(run.id) if item.status is Status.OK]
    if not judged:
        raise ProblemError(f"run {run.id} has judged no program without a failure; let it run on")
    allowed = Config.from_json(run.config_json).evaluator.allow
    return f"allow = {json.dumps(allowed)}  # as that run had it\n" * bool(allowed) + suggest_bounds(
        problem.evaluator, judged
    )


def settings_table(settings: OpenEvolveSettings) -> RenderableType:
    table = plain_table("key of the file", "here", folded())
    styles = {Effect.MAPPED: "green", Effect.NONE: "dim", Effect.UNKNOWN: "yellow"}
    for effect, style in styles.items():
        for key in settings.keys:
            if key.effect is effect:
                cells = (Text(printable(key.name)), Text(str(effect), style=style))
                table.add_row(*cells, Text(printable(key.remark)))
    return table
