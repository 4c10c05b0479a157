"""Read-only answers for people: what a run found, how it got there, and how well it did on the way.

Functions return data or rich renderables, and read the store; none writes to it. Programs, their outputs
and feedback are untrusted text: they pass through `printable`, so that none reaches a terminal as a
control sequence or as markup.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from evovpo.builtin.choice import built_in_fault
from evovpo.config import Config, StoreConfig
from evovpo.errors import ConfigError, ProblemError, StoreError
from evovpo.judging.check import CheckReport
from evovpo.judging.evaluator import Evaluator, open_sandbox
from evovpo.problem.openevolve import metrics
from evovpo.problem.openevolve.metrics import suggest_bounds
from evovpo.problem.openevolve.scores import Scored, best_combined, combined_curve, read_scores
from evovpo.problem.openevolve.settings import Effect, Settings
from evovpo.runs.outcome import Outcome, mean_reward
from evovpo.search.search import Search
from evovpo.store import CallTotals, CurvePoint, LineageStep, RunRow, RunSummary, Store, solved_at
from evovpo.types import (
    Evaluation,
    Json,
    Objective,
    ParentRole,
    ParseStatus,
    Problem,
    Program,
    Run,
    RunStatus,
    Status,
    Trust,
)

_ROWS_SHOWN = 24
_MISSES_SHOWN = 6
_CHANGES_SHOWN = 8
_PARTS = {
    ParentRole.PARENT: "parent",
    ParentRole.INSPIRATION: "inspiration",
    ParentRole.PARTNER: "partner",
    ParentRole.JOIN_THEN: "then",
    ParentRole.JOIN_ELSE: "else",
}


# ---------------------------------------------------------------- data


class Row(NamedTuple):
    """One example (or objective) as a program does on it."""

    inputs: tuple[Json, ...]
    wanted: Json
    got: Json
    """None also where the output was too long to keep, or there is none."""
    passed: bool


class Ancestor(NamedTuple):
    """One program in the lineage of another."""

    program: Program
    origin: str
    """How it was made: `seed`, `root`, `mutate` (also to repair), `crossover` or `join`."""
    made_from: tuple[tuple[ParentRole, str], ...]
    """Ids of the programs that it was made from, each with its part."""
    mean_reward: float
    passed: int
    """Objectives at full reward."""


@dataclasses.dataclass(frozen=True)
class RunView:
    """What is stored of a run, and how its best program does on the held-out rows."""

    run: Run
    problem: Problem
    summary: RunSummary
    best: Program | None
    """By `combined_score` where an evaluator returns one, else by mean reward; none before any judgement."""
    evaluation: Evaluation | None
    """Of the best program."""
    heldout: tuple[Row, ...]
    scores: tuple[Scored, ...] = ()
    """What an evaluator of its own returned for each program, in order."""

    def outcome(self, seconds: float) -> Outcome:
        """Return what the run came to as far as it is stored."""
        total = len(self.problem.objectives)
        solved = self.best is not None and self.summary.examples_passed == total
        right = sum(row.passed for row in self.heldout)
        scored = best_combined(self.scores)
        return Outcome(
            run=self.run.id,
            solved=solved,
            best_mean_reward=self.summary.best_mean_reward or 0.0,
            train_passed=self.summary.examples_passed,
            train_total=total,
            heldout_passed=right,
            heldout_total=len(self.heldout),
            evaluations=self.summary.proposed,
            executed=self.summary.executed,
            joins=self.summary.joins,
            seconds=round(seconds, 3),
            program="" if self.best is None else self.best.source,
            trust=str(self.problem.trust),
            combined_score=None if scored is None else scored.combined,
            program_id="" if self.best is None else self.best.id,
            program_mean_reward=mean_reward(self.evaluation),
            best_mean_program_id=self.summary.best_program_id or "",
        )


def find_run(store: Store, name: str) -> str:
    """Return the id of a run, given by its id, by a prefix that only one id has, or as `latest`.

    Raises `StoreError` if there is none, or several.
    """
    if name != "latest":
        return store.run(name).id
    rows = store.runs()
    if not rows:
        raise StoreError(f"{store.name} holds no run yet; start one with `evovpo evolve PROBLEM`")
    return rows[0].run


def read_run(store: Store, run_id: str) -> RunView:
    """Return what is stored of a run, after running its best program on the held-out rows.

    Raises `StoreError` for an unknown run and `SandboxError` if programs cannot be run here.
    """
    run = store.run(run_id)
    problem = store.problem(run.problem_id, run.problem_version)
    config = Config.from_json(run.config_json).changed(store=StoreConfig(url=store.name))
    summary = store.run_summary(run.id)
    scores = read_scores(store, run.id) if problem.evaluator else ()
    scored = best_combined(scores)
    best_id = summary.best_program_id if scored is None else scored.program_id
    best = None if best_id is None else store.program(best_id)
    evaluation = None if best is None else store.known_evaluation(problem.version, best.id)
    heldout = () if best is None else run_heldout(problem, best, config)
    return RunView(run, problem, summary, best, evaluation, heldout, scores)


def run_heldout(problem: Problem, program: Program, config: Config) -> tuple[Row, ...]:
    """Return how a program does on the held-out rows, by running it; empty without such rows."""
    if not problem.heldout:
        return ()
    objectives = tuple(Objective(f"row-{number + 1}") for number in range(len(problem.heldout)))
    unseen = dataclasses.replace(problem, train=problem.heldout, heldout=(), objectives=objectives)
    with open_sandbox(problem, config) as sandbox:
        return example_rows(unseen, Evaluator(unseen, sandbox).evaluate(program))


def example_rows(problem: Problem, evaluation: Evaluation | None) -> tuple[Row, ...]:
    """Return the training rows with what a judged program gave for them; empty for a scorer problem."""
    rewards = evaluation.rewards if evaluation else None
    outputs = evaluation.outputs if evaluation else None
    return tuple(
        Row(
            example.inputs,
            example.output,
            None if outputs is None else outputs[number],
            rewards is not None and rewards[number] >= 1.0,
        )
        for number, example in enumerate(problem.train)
    )


def lineage(store: Store, run_id: str, problem: Problem, program: Program) -> list[Ancestor]:
    """Return a program and everything that it was made from, nearest first, back to where it began."""
    steps: dict[str, LineageStep] = {}
    found: dict[str, Program] = {program.id: program}
    for step in store.lineage(run_id, program.id):
        if step.candidate.program is not None:
            steps[step.candidate.program.id] = step
            found.setdefault(step.candidate.program.id, step.candidate.program)
        for _, parent in step.parents:
            found.setdefault(parent.id, parent)
    ancestors = []
    for item in found.values():
        step_of = steps.get(item.id)
        made_from = () if step_of is None else tuple((role, parent.id) for role, parent in step_of.parents)
        evaluation = store.known_evaluation(problem.version, item.id)
        rewards = (evaluation.rewards if evaluation else None) or (0.0,) * len(problem.objectives)
        ancestors.append(
            Ancestor(
                item,
                _origin(step_of),
                made_from,
                sum(rewards) / len(rewards),
                sum(value >= 1.0 for value in rewards),
            )
        )
    return ancestors


def _origin(step: LineageStep | None) -> str:
    if step is None:
        return "seed"
    if step.candidate.rollout_id is None:
        return "join" if step.parents else "seed"
    roles = {role for role, _ in step.parents}
    if ParentRole.PARTNER in roles:
        return "crossover"
    return "mutate" if ParentRole.PARENT in roles else "root"


def finished_text(run: Run) -> str:
    """Return how a finished run ended, in words; empty for one that can be resumed."""
    ends = {
        RunStatus.SOLVED: "solved",
        RunStatus.EXHAUSTED: f"its budget of {_count(run.evaluations, 'evaluation')} is used",
        RunStatus.STOPPED: "stopped early, as its settings ask",
    }
    return ends.get(run.status, "")


def nothing_judged(outcome: Outcome, summary: RunSummary) -> str:
    """Return why a run that proposed candidates judged none of them; empty if it judged some."""
    if not outcome.evaluations or any(
        count for status, count in summary.by_status.items() if status is not Status.SANDBOX_ERROR
    ):
        return ""
    if summary.by_status:
        return (
            f"none of the {outcome.evaluations} candidates could be run: the sandbox failed each time; "
            "`python -m evovpo.sandbox --selftest` says what this machine refuses"
        )
    return (
        f"none of the {outcome.evaluations} candidates held a program: the model does not write what this "
        "problem's prompts ask for; use another one"
    )


# ---------------------------------------------------------------- text


def printable(text: str) -> str:
    """Return `text` with every character that could steer a terminal written as an escape."""
    return "".join(
        character
        if character.isprintable() or character == "\n"
        else "    "
        if character == "\t"
        else repr(character)[1:-1]
        for character in text
    )


def one_line(source: str, entry: str) -> str:
    """Return a program in one line: what it returns if it does nothing else, else its first lines."""
    expression = _only_expression(source, entry)
    if expression is not None:
        return printable(expression)
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    return printable(" ⏎ ".join(lines[:4]) + (" ⏎ ..." if len(lines) > 4 else ""))


def _only_expression(source: str, entry: str) -> str | None:
    """Return what a program returns, if it does nothing else; none for any other program."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == entry]
    if functions and len(functions[-1].body) == 1:
        returned = functions[-1].body[0]
        if isinstance(returned, ast.Return) and returned.value is not None:
            return ast.get_source_segment(source, returned.value) or ast.unparse(returned.value)
    return None


def changes_view(before: str, after: str) -> Text:
    """Return the lines that differ between two programs, `-` and `+` before them, and how many are left out.

    Empty if only the ends of lines differ.
    """
    compared = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    lines = [line for line in list(compared)[2:] if not line.startswith("@@")]
    shown = [
        Text(printable(line), style="red" if line.startswith("-") else "green")
        for line in lines[:_CHANGES_SHOWN]
    ]
    if len(lines) > _CHANGES_SHOWN:
        shown.append(Text(f"... and {_count(len(lines) - _CHANGES_SHOWN, 'changed line')} more", style="dim"))
    return Text("\n").join(shown)


def program_view(source: str) -> RenderableType:
    """Return a program, highlighted; its lines are never broken, so that it can be copied."""
    text = Syntax("", "python", background_color="default").highlight(printable(source).strip("\n"))
    text.no_wrap, text.overflow = True, "ignore"
    text.rstrip()
    return Group(text)  # printed bare, a text loses that it is not to be wrapped


def headline(problem: Problem, status: RunStatus, outcome: Outcome, solved_after: int | None) -> Text:
    """Return the one sentence that says how a run ended; `solved_after` counts evaluations."""
    rows = outcome.heldout_total
    text = Text(f"{printable(problem.id)}: ", style="bold")
    if not outcome.solved:
        ends = {
            RunStatus.EXHAUSTED: "not solved",
            RunStatus.STOPPED: "stopped" + (f": {outcome.stopped}" if outcome.stopped else ""),
            RunStatus.FAILED: "failed",
            RunStatus.RUNNING: "not finished",
        }
        best = f", best mean reward {reward_text(outcome.best_mean_reward)}"
        if problem.is_by_example:
            best = f", best program passes {outcome.train_passed} of {outcome.train_total}"
        elif outcome.is_by_score:
            best = _both_bests(outcome)
        return text.append(f"{ends.get(status, 'interrupted')}{best}", style="yellow")
    after = outcome.evaluations if solved_after is None else solved_after
    text.append(f"solved after {_count(after, 'evaluation')}", style="bold green")
    if outcome.is_by_score:
        text.append(_both_bests(outcome), style="yellow")
    if outcome.solved_heldout:
        text.append(f", and right on all {rows} held-out examples", style="bold green")
    elif rows:
        wrong = rows - outcome.heldout_passed
        text.append(f", but wrong on {wrong} of {rows} held-out examples", style="bold yellow")
    return text


def _both_bests(outcome: Outcome) -> str:
    """Return which program is shown and which one has the best mean reward, where they differ."""
    return (
        f"; shown: the program with the best combined_score, {outcome.combined_score:.6g} (its mean reward: "
        f"{reward_text(outcome.program_mean_reward)}); another program has the best mean reward of the run: "
        f"{reward_text(outcome.best_mean_reward)} (program {outcome.best_mean_program_id})"
    )


def figures(outcome: Outcome, budget: int, problem: Problem) -> Table:
    """Return the numbers of a run, one a line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    if problem.is_by_example:
        table.add_row("training examples", f"{outcome.train_passed} of {outcome.train_total}")
        unseen = f"{outcome.heldout_passed} of {outcome.heldout_total} (the search never sees these)"
        table.add_row("held-out examples", unseen if outcome.heldout_total else "none in this problem")
    else:
        other = f" (by program {outcome.best_mean_program_id}, not the one above)" * outcome.is_by_score
        table.add_row("objectives at 1", f"{outcome.train_passed} of {outcome.train_total}{other}")
    if outcome.combined_score is not None:
        mean = f"; its mean reward: {reward_text(outcome.program_mean_reward)}" * outcome.is_by_score
        table.add_row("best combined_score", f"{outcome.combined_score:.6g} (the program above{mean})")
    best = reward_text(outcome.best_mean_reward)
    whose = f" (program {outcome.best_mean_program_id}, not the one above)" * outcome.is_by_score
    table.add_row("best mean reward", best + whose)
    if outcome.trust == Trust.LOW:
        table.add_row("trust", "low: evaluator and candidate shared a process, so check what wins")
    table.add_row(
        "evaluations",
        f"{outcome.evaluations} of {budget} proposed: {outcome.executed} executed, "
        f"{_count(outcome.joins, 'join')}",
    )
    if outcome.seconds:
        table.add_row("time", f"{outcome.seconds:.1f} s")
    return table


def judgement_table(problem: Problem, evaluation: Evaluation | None) -> RenderableType:
    """Return how a program does: by training example, or by objective for a problem with a scorer."""
    if problem.is_by_example:
        return rows_table(problem, example_rows(problem, evaluation), _ROWS_SHOWN)
    rewards = (evaluation.rewards if evaluation else None) or (0.0,) * len(problem.objectives)
    if problem.evaluator is not None:
        return metrics_table(problem, rewards, (evaluation.metrics if evaluation else None) or ())
    table = _table()
    table.add_column("objective")
    table.add_column("reward", justify="right")
    table.add_column("", overflow="fold")
    for objective, reward in zip(problem.objectives, rewards, strict=True):
        table.add_row(
            Text(printable(objective.name)),
            reward_text(reward),
            Text(printable(objective.description), style="dim"),
        )
    return table


def metrics_table(
    problem: Problem, rewards: Sequence[float], metrics: Sequence[tuple[str, Json]]
) -> RenderableType:
    """Return what an evaluator returned for a program, with the reward that each objective makes of it."""
    table = _table()
    table.add_column("metric")
    table.add_column("value", justify="right", overflow="fold")
    table.add_column("reward", justify="right")
    table.add_column("", overflow="fold")
    values = dict(metrics)
    for objective, reward in zip(problem.objectives, rewards, strict=True):
        value = _metric_text(values.pop(objective.name)) if objective.name in values else "-"
        text = Text(printable(objective.description), style="dim")
        table.add_row(Text(printable(objective.name)), Text(value), reward_text(reward), text)
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
    table = _table()
    table.add_column("#", justify="right", style="dim")
    for parameter in problem.parameters:
        table.add_column(Text(parameter), overflow="fold")
    table.add_column("wanted", overflow="fold")
    table.add_column("got", overflow="fold")
    table.add_column("")
    for number, row in numbered:
        mark = Text("✓ right", style="green") if row.passed else Text("✗ wrong", style="red")
        got = "(no output)" if row.got is None and row.wanted is not None else _value(row.got)
        table.add_row(
            str(number),
            *(Text(_value(value)) for value in row.inputs),
            Text(_value(row.wanted)),
            Text(got, style="" if row.passed else "red"),
            mark,
        )
    if len(rows) > limit:
        return Group(table, Text(f"   ... and {len(rows) - limit} more", style="dim"))
    return table


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
    table = _table()
    table.add_column("#", justify="right", style="dim")
    table.add_column("program", overflow="fold", ratio=1)
    table.add_column("passed" if problem.is_by_example else "mean", justify="right")
    table.add_column("made from")
    for number, ancestor in enumerate(ancestors, start=1):
        is_join = ancestor.origin == "join"
        parts = [
            f"{numbers[program_id]}"
            + (f" ({_PARTS[role]})" if is_join or role is not ParentRole.PARENT else "")
            for role, program_id in ancestor.made_from
        ]
        origins = {"seed": "starting program", "root": "the examples alone", "join": "join of "}
        total = len(problem.objectives)
        result = f"{ancestor.passed}/{total}" if problem.is_by_example else reward_text(ancestor.mean_reward)
        table.add_row(
            str(number),
            _lineage_cell(problem, ancestor, programs),
            result,
            origins.get(ancestor.origin, "") + ", ".join(parts),
        )
    return table


def _lineage_cell(problem: Problem, ancestor: Ancestor, programs: Mapping[str, Program]) -> Text:
    source = ancestor.program.source
    parents = [programs[name] for role, name in ancestor.made_from if role is ParentRole.PARENT]
    if parents and _only_expression(source, problem.entry) is None:
        changes = changes_view(parents[0].source, source)
        if changes:
            return changes
    return Text(one_line(source, problem.entry))


def runs_table(rows: Sequence[RunRow]) -> Table:
    """Return the list of runs."""
    table = _table()
    table.add_column("run", no_wrap=True)
    table.add_column("problem", overflow="fold")
    table.add_column("status", no_wrap=True)
    table.add_column("evaluations", justify="right", no_wrap=True)
    table.add_column("best mean reward", justify="right")
    styles = {RunStatus.SOLVED: "green", RunStatus.FAILED: "red", RunStatus.INTERRUPTED: "yellow"}
    for row in rows:
        best = "-" if row.best_mean_reward is None else reward_text(row.best_mean_reward)
        status = Text(str(row.status), style=styles.get(row.status, ""))
        table.add_row(row.run, Text(printable(row.problem)), status, str(row.evaluations), best)
    return table


def problems_table(problems: Sequence[Problem]) -> Table:
    """Return problems with what they ask for: the first paragraph of each statement."""
    table = _table()
    table.add_column("problem", no_wrap=True)
    table.add_column("rows", justify="right")
    table.add_column("asks for", overflow="fold")
    for problem in problems:
        rows = f"{len(problem.train)}+{len(problem.heldout)}" if problem.is_by_example else "scorer"
        asked = " ".join(problem.statement.strip().split("\n\n")[0].split())
        table.add_row(problem.id, rows, Text(printable(asked)))
    return table


def check_view(report: CheckReport) -> RenderableType:
    """Return what was found about a problem folder that can be used."""
    problem = report.problem
    table = _table()
    table.add_column("starting program")
    table.add_column("ends")
    table.add_column("mean reward", justify="right")
    if problem.is_by_example:
        table.add_column("training rows", justify="right")
        table.add_column("held-out rows", justify="right")
    for seed in report.seeds:
        rewards = seed.evaluation.rewards or (0.0,)
        cells = [seed.name, str(seed.evaluation.status), reward_text(sum(rewards) / len(rewards))]
        if problem.is_by_example:
            cells += [f"{seed.train_passed} of {len(problem.train)}"]
            cells += [f"{seed.heldout_passed} of {len(problem.heldout)}"]
        table.add_row(*map(Text, cells))
    lines: list[RenderableType] = [Text(f"{problem.id} can be used.", style="bold green"), table]
    if problem.evaluator is not None:
        lines += [judgement_table(problem, report.seeds[0].evaluation), Text(f"trust: {problem.trust}")]
    lines += [Text(f"note: {printable(warning)}", style="yellow") for warning in report.warnings]
    fault = built_in_fault(problem)
    if fault and problem.evaluator is None:
        lines.append(Text(f"note: no built-in model can write for it: {printable(fault)}", style="yellow"))
    return Group(*lines)


def population_table(search: Search) -> Table:
    """Return the islands of a search."""
    table = _table()
    for name in ("island", "programs", "archive", "filled cells", "best mean reward"):
        table.add_column(name, justify="right")
    for island in search.islands:
        best = max((sum(m.rewards) / len(m.rewards) for m in island.members), default=0.0)
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
            "best_mean_reward": max((sum(m.rewards) / len(m.rewards) for m in island.members), default=0.0),
        }
        for island in search.islands
    ]


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")


def _value(value: Json) -> str:
    """Return a value as Python writes it; `repr` also escapes what is not printable."""
    text = repr(value)
    return text if len(text) <= 300 else text[:297] + "..."


def reward_text(value: float) -> str:
    """Return a reward with three decimals; only full reward is written as 1."""
    return f"{value if value >= 1.0 else min(value, 0.999):.3f}"


def calls_text(totals: CallTotals) -> str:
    """Return in words what the requests to model servers came to."""
    failed = f" ({totals.failed} of them brought nothing)" if totals.failed else ""
    cost = "" if totals.cost is None else f", cost {totals.cost:.4g}"
    return (
        f"{_count(totals.calls, 'request')} to servers{failed}, {totals.prompt_tokens} tokens of prompts and "
        f"{totals.completion_tokens} of replies{cost}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


# ---------------------------------------------------------------- whole answers


def result(view: RunView, outcome: Outcome) -> RenderableType:
    """Return what a run ends with: sentence, program, examples, numbers."""
    solved_after = solved_at(view.summary.curve, len(view.problem.objectives))
    parts: list[RenderableType] = [headline(view.problem, view.run.status, outcome, solved_after)]
    parts += [Text(printable(view.problem.statement), style="italic"), Text()]
    parts += [program_view(outcome.program), Text(), judgement_table(view.problem, view.evaluation), Text()]
    misses = misses_view(view.problem, view.heldout) if outcome.solved else None
    if misses is not None:
        parts += [misses, Text()]
    return Group(*parts, figures(outcome, view.run.evaluations, view.problem))


def run_report(view: RunView, ancestors: Sequence[Ancestor]) -> RenderableType:
    """Return all that is shown of a stored run: its result, lineage and curve."""
    summary = view.summary
    if view.best is None:
        return Text(f"Run {view.run.id} of {view.problem.id} has judged nothing yet.", style="yellow")
    head = Text(
        f"run {view.run.id}, {view.run.status}, seed {view.run.seed}, {view.run.created_at}", style="dim"
    )
    tokens = f" of {summary.tokens} tokens, sampled in {summary.sampling_seconds:.1f} s" * bool(
        summary.tokens
    )
    refused = summary.by_parse_status.get(ParseStatus.REJECTED, 0)
    cost = Text(
        f"{_count(summary.rollouts, 'completion')}{tokens}; "
        f"running programs took {summary.evaluation_seconds:.1f} s of the sandbox"
        + (f"; {_count(refused, 'answer')} refused as not novel" if refused else "")
        + (f"\n{calls_text(summary.calls)}" if summary.calls.calls else ""),
        style="dim",
    )
    outcome = view.outcome(0.0)
    shown = "program shown, the best by combined_score" if outcome.is_by_score else "best program"
    parts: list[RenderableType] = [head, result(view, outcome), cost, Text()]
    parts += [Text(f"Lineage of the {shown}", style="bold"), lineage_table(view.problem, ancestors)]
    lines = curve_lines(summary.curve)
    if lines:
        solved = solved_at(summary.curve, len(view.problem.objectives))
        remark = "" if solved is None else f", solved after {solved}"
        whose = f" (program {outcome.best_mean_program_id}, not the one shown)" * outcome.is_by_score
        title = Text(f"Best mean reward of the run against evaluations{whose}{remark}", style="bold")
        parts += [Text(), title, Text("\n".join(lines), no_wrap=True), Text()]
    points = combined_curve(view.scores)
    if points:
        parts += [Text("Best combined_score against evaluations", style="bold")]
        parts += [Text(f"  after {point.evaluations}: {point.combined_score:.6g}") for point in points[-12:]]
    return Group(*parts)


def outcome_json(outcome: Outcome) -> dict[str, Json]:
    """Return an outcome for machines; `combined_score` only where there is one."""
    fields: dict[str, Json] = dict(outcome._asdict())
    if outcome.combined_score is None:
        del fields["combined_score"]
    return {
        **fields,
        "solved_train": outcome.solved_train,
        "solved_heldout": outcome.solved_heldout,
        "solved_unseen": bool(outcome.solved_heldout),
    }


def run_json(view: RunView, ancestors: Sequence[Ancestor]) -> dict[str, Json]:
    """Return for machines what `run_report` shows."""
    rows = example_rows(view.problem, view.evaluation)
    outcome = outcome_json(view.outcome(0.0))
    del outcome["seconds"]
    return {
        **outcome,
        "problem": view.problem.id,
        "status": str(view.run.status),
        "seed": view.run.seed,
        "budget": view.run.evaluations,
        "sampling_seconds": view.summary.sampling_seconds,
        "evaluation_seconds": view.summary.evaluation_seconds,
        "calls": {**view.summary.calls._asdict()},
        "rewards": list((view.evaluation.rewards if view.evaluation else None) or ()),
        "examples": [_row_json(row) for row in rows],
        "heldout": [_row_json(row) for row in view.heldout],
        "lineage": [
            {
                "program_id": ancestor.program.id,
                "program": ancestor.program.source,
                "origin": ancestor.origin,
                "made_from": [
                    {"role": str(role), "program_id": parent} for role, parent in ancestor.made_from
                ],
                "mean_reward": ancestor.mean_reward,
            }
            for ancestor in ancestors
        ],
        "curve": [
            {
                "evaluations": point.evaluations,
                "best_mean_reward": point.best_mean_reward,
                "examples_passed": point.examples_passed,
            }
            for point in view.summary.curve
        ],
        **_scores_json(view),
    }


def _scores_json(view: RunView) -> dict[str, Json]:
    """Return the raw metrics of the best program and the curve of `combined_score`, where there are any."""
    if view.problem.evaluator is None:
        return {}
    curve: list[Json] = [dict(point._asdict()) for point in combined_curve(view.scores)]
    metrics = (view.evaluation.metrics if view.evaluation else None) or ()
    return {"metrics": dict(metrics), "combined_curve": curve}


def bounds_text(store: Store, run_id: str) -> str:
    """Return a `metrics.toml` with bounds from what a run's evaluator returned.

    Raises `ProblemError` for a run of a problem without metrics of its own, and where nothing ran.
    """
    run = store.run(run_id)
    problem = store.problem(run.problem_id, run.problem_version)
    if problem.evaluator is None:
        raise ProblemError(
            f"run {run.id} is of '{problem.id}', whose rewards lie in [0, 1] as they are; expected a run of "
            "an OpenEvolve project"
        )
    judged = [item.metrics for item in read_scores(store, run.id) if item.status is Status.OK]
    if not judged:
        raise ProblemError(f"run {run.id} has judged no program without a failure; let it run on")
    return suggest_bounds(problem.evaluator.metrics, judged)


def settings_note(settings: Settings, name: str) -> RenderableType:
    """Return in a few lines which keys of an OpenEvolve configuration file do nothing here.

    `name` is how the user called the project, for the command that shows all of them.
    """
    names = {
        effect: list(dict.fromkeys(key.name for key in settings.keys if key.effect is effect))
        for effect in Effect
    }
    mapped, none, unknown = (len(names[effect]) for effect in (Effect.MAPPED, Effect.NONE, Effect.UNKNOWN))
    text = Text(f"OpenEvolve configuration: {_count(mapped, 'key')} mapped, {none} without effect, ")
    text.append(f"{unknown} unknown; all of them:  evovpo check {printable(name)}")
    for effect, style in ((Effect.NONE, "dim"), (Effect.UNKNOWN, "yellow")):
        if names[effect]:
            text.append(f"\n  {effect}: " + ", ".join(map(printable, names[effect])), style=style)
    return text


def settings_table(settings: Settings) -> RenderableType:
    """Return what became of each key of an OpenEvolve configuration file, those without effect last."""
    table = _table()
    table.add_column("key of the file")
    table.add_column("here")
    table.add_column("", overflow="fold")
    styles = {Effect.MAPPED: "green", Effect.NONE: "dim", Effect.UNKNOWN: "yellow"}
    for effect, style in styles.items():
        for key in settings.keys:
            if key.effect is effect:
                cells = (Text(printable(key.name)), Text(str(effect), style=style))
                table.add_row(*cells, Text(printable(key.remark)))
    return table


def _row_json(row: Row) -> dict[str, Json]:
    return {"inputs": list(row.inputs), "output": row.wanted, "got": row.got, "passed": row.passed}


# ---------------------------------------------------------------- curves


def curve_lines(curve: Sequence[CurvePoint], width: int = 72, height: int = 8) -> list[str]:
    """Return the best mean reward against evaluations as `height` + 2 lines of about `width` characters.

    Each column stands for an equal share of the evaluations and shows the best program at its end.
    Empty before the first evaluation.
    """
    last = curve[-1].evaluations if curve else 0
    if last == 0:
        return []
    columns = width - 6
    levels: list[int] = []
    position = 0
    for column in range(columns):
        reached = (column + 1) * last / columns
        while position + 1 < len(curve) and curve[position + 1].evaluations <= reached:
            position += 1
        levels.append(round(curve[position].best_mean_reward * height * 8))
    lines = []
    for row in reversed(range(height)):
        label = {height - 1: "1.0", height // 2: "0.5"}.get(row, "")
        cells = "".join(" ▁▂▃▄▅▆▇█"[max(0, min(8, level - row * 8))] for level in levels)
        lines.append(f"{label:>4} ┤{cells}".rstrip())
    lines.append(" 0.0 └" + "─" * columns)
    end = f"{last} evaluations"
    lines.append("      0" + end.rjust(columns - 1))
    return lines


def write_curve_png(view: RunView, path: Path) -> None:
    """Write the curve of a run as a PNG: best mean reward and share of examples passed.

    By example both are the same number, drawn once. Raises `ConfigError` if the file cannot be written.
    """
    # Imported only here: it takes most of a second, and no other command draws.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    problem, curve = view.problem, view.summary.curve
    total = len(problem.objectives)
    x = [point.evaluations for point in curve] or [0]
    means = [point.best_mean_reward for point in curve] or [0.0]
    shares = [point.examples_passed / total for point in curve] or [0.0]
    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    what = "training examples" if problem.is_by_example else "objectives"
    label = "best mean reward" + (f" = share of {what} passed" * problem.is_by_example)
    axes.step(x, means, where="post", color="#1f5fa8", linewidth=2.2, label=label)
    points = combined_curve(view.scores)
    if not problem.is_by_example and not points:
        axes.step(
            x,
            shares,
            where="post",
            color="#c26a1b",
            linewidth=1.8,
            linestyle="--",
            label=f"share of {what} at full reward",
        )
    solved = solved_at(curve, total)
    if solved is not None:
        axes.plot(
            [solved],
            [1.0],
            marker="*",
            markersize=17,
            color="#2a8a3e",
            linestyle="none",
            label=f"solved after {_count(solved, 'evaluation')}",
            clip_on=False,
            zorder=5,
        )
    axes.set_ylim(-0.02, 1.05)  # a little more than [0, 1], so that lines at the ends are seen
    axes.set_xlim(0, 1.03 * max(x[-1], 1))  # room for the mark of a run solved at its very end
    axes.set_xlabel("evaluations (programs proposed)", fontsize=12)
    axes.set_ylabel("best mean reward of the run", fontsize=12)
    right = axes.twinx()
    if points:
        steps = [(point.evaluations, point.combined_score) for point in points]
        steps.append((max(x[-1], steps[-1][0]), steps[-1][1]))
        right.step(
            *zip(*steps, strict=True),
            where="post",
            color="#c26a1b",
            linewidth=1.8,
            linestyle="--",
            label="best combined_score",
        )
        right.set_ylabel("best combined_score", fontsize=12)
    else:
        right.set_ylim(-0.02 * total, 1.05 * total)
        reached = "passed" if problem.is_by_example else "at 1"
        right.set_ylabel(f"{what} {reached} (of {total})", fontsize=12)
        right.set_yticks(range(0, total + 1, max(1, -(-total // 8))))
    axes.tick_params(labelsize=11)
    right.tick_params(labelsize=11)
    axes.grid(alpha=0.25)
    for frame in (axes, right):
        frame.spines["top"].set_visible(False)
    figure.legend(loc="outside lower center", fontsize=11, frameon=False, ncols=2)
    title = f"{problem.id}: run {view.run.id}, seed {view.run.seed}"
    axes.set_title(printable(title).replace("$", r"\$"), fontsize=13, loc="left")
    save_png(figure, path)


def save_png(figure: Any, path: Path) -> None:
    """Write a matplotlib figure; raises `ConfigError` if that cannot be done."""
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise ConfigError(
            f"{path}: the picture cannot be written ({error.strerror}); give another --png"
        ) from error
