"""The report of a run, as text and JSON: outcome, best program, lineage and curve."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from evovpo.analysis.scores import Scored, combined_curve, only_failures, score_json
from evovpo.config import Config
from evovpo.reports.run_curve import curve_lines
from evovpo.reports.runs_table import judgement_table, lineage_table, misses_view
from evovpo.reports.text import calls_text, counted, printable, program_view, reward_text
from evovpo.runs.stored import Ancestor, Outcome, RunView, example_rows
from evovpo.store import RunSummary, solved_at
from evovpo.types import Json, Problem, Run, RunStatus, Status, Trust


def finished_text(run: Run) -> str:
    """Return in words how a finished run ended, or an empty string for an unfinished run."""
    ends = {
        RunStatus.SOLVED: "solved",
        RunStatus.EXHAUSTED: f"its budget of {counted(run.evaluations, 'evaluation')} is used",
        RunStatus.STOPPED: "stopped early, as its settings ask",
    }
    return ends.get(run.status, "")


def nothing_judged(
    outcome: Outcome,
    summary: RunSummary,
    scores: Sequence[Scored] = (),
    feedback_of: Callable[[str], str] = lambda program_id: "",
) -> str:
    """If a run judged no candidate, or all programs in `scores` failed, return a sentence that says so.

    Otherwise, return an empty string. `feedback_of` returns the evaluator's feedback on a program id.
    """
    judged = sum(summary.by_status.values()) - summary.by_status.get(Status.SANDBOX_ERROR, 0)
    if not outcome.evaluations or judged:
        if scores and only_failures(scores, feedback_of):
            return (
                "every program of this run failed; `evovpo check` shows what the evaluator says of the "
                "initial program"
            )
        return ""
    if summary.by_status:
        return (
            f"none of the {outcome.evaluations} candidates could be run: the sandbox failed each time; "
            "`python -m evovpo.sandbox --selftest` says what this machine refuses"
        )
    return (
        f"none of the {outcome.evaluations} candidates held a program"
        + f" (the run ended because {outcome.stopped})" * bool(outcome.stopped)
        + ": the model does not write what its prompts ask for, or its replies are cut off"
    )


def headline(problem: Problem, status: RunStatus, outcome: Outcome, solved_after: int | None) -> Text:
    """Return a line on how a run ended. `solved_after` is the number of evaluations up to the solution."""
    rows, what = outcome.heldout_total, "examples" if problem.is_by_example else "objectives"
    text = Text(f"{printable(problem.id)}: ", style="bold")
    if not outcome.solved:
        ends = {
            RunStatus.EXHAUSTED: "budget used" if problem.has_one_score else "not solved",
            RunStatus.STOPPED: "stopped" + (f": {outcome.stopped}" if outcome.stopped else ""),
            RunStatus.FAILED: "failed",
            RunStatus.RUNNING: "not finished",
        }
        best = f", best mean reward {reward_text(outcome.best_mean_reward)}"
        if problem.is_by_example:
            best = f", best program passes {outcome.train_passed} of {outcome.train_total}"
        elif outcome.score is not None:
            best = f", best {printable(outcome.score_name)} {outcome.score:.6g}"
        return text.append(f"{ends.get(status, 'interrupted')}{best}", style="yellow")
    after = outcome.evaluations if solved_after is None else solved_after
    word, style = ("memorised", "bold yellow") if outcome.is_memorised else ("solved", "bold green")
    text.append(f"{word} after {counted(after, 'evaluation')}", style=style)
    if outcome.is_memorised:
        wrong = f"wrong on {rows - outcome.heldout_passed} of {rows} held-out"
        text.append(f": right on all {outcome.train_total} training {what}, {wrong}", style=style)
    elif rows:
        text.append(f", and right on all {rows} held-out {what}", style=style)
    else:
        text.append(f", with no held-out {what} to check it on", style="dim")
    return text


def figures(outcome: Outcome, budget: int, problem: Problem, solved_after: int | None) -> Table:
    """Return a table of a run's results. `budget` is in evaluations; `solved_after` is as in `headline`."""
    table = Table.grid(Column(style="dim"), "", padding=(0, 2))
    if problem.is_by_example:
        table.add_row("training examples", f"{outcome.train_passed} of {outcome.train_total}")
        unseen = f"{outcome.heldout_passed} of {outcome.heldout_total} (the search never sees these)"
        table.add_row("held-out examples", unseen if outcome.heldout_total else "none in this problem")
    elif not problem.has_one_score:
        other = f" (by program {outcome.best_mean_program_id}, not the one above)" * outcome.is_by_score
        table.add_row("objectives at 1", f"{outcome.train_passed} of {outcome.train_total}{other}")
        if outcome.heldout_total:
            unseen = f"{outcome.heldout_passed} of {outcome.heldout_total} (on cases kept from the search)"
            table.add_row("held-out objectives at 1", unseen)
    if outcome.score is not None:
        mean = f"; its mean reward: {reward_text(outcome.program_mean_reward)}" * outcome.is_by_score
        name = f"best {printable(outcome.score_name)}"
        table.add_row(name, f"{outcome.score:.6g} (the program above{mean})")
    if not problem.has_one_score:
        whose = f" (program {outcome.best_mean_program_id}, not the one above)" * outcome.is_by_score
        table.add_row("best mean reward", reward_text(outcome.best_mean_reward) + whose)
    if outcome.trust == Trust.LOW:
        table.add_row("trust", "low: evaluator and candidate shared a process, so check what wins")
    joins = f", {outcome.joins} of them joined from two programs" * bool(outcome.joins)
    late = outcome.evaluations - (outcome.evaluations if solved_after is None else solved_after)
    under_way = f", {late} of them after it was solved" * bool(late)
    table.add_row("evaluations", f"{outcome.evaluations} of {budget}{joins}{under_way}")
    table.add_row("programs run", f"{outcome.executed}; those known before are not run again")
    if outcome.seconds:
        table.add_row("time", f"{outcome.seconds:.1f} s")
    return table


def result(view: RunView, outcome: Outcome) -> RenderableType:
    solved_after = solved_at(view.summary.curve, len(view.problem.objectives))
    parts: list[RenderableType] = [headline(view.problem, view.run.status, outcome, solved_after)]
    if view.problem.evaluator is None:  # OpenEvolve's is for models
        parts += [Text(printable(view.problem.statement), style="italic"), Text()]
    parts += [program_view(outcome.program), Text(), judgement_table(view.problem, view.evaluation), Text()]
    is_near = 2 * outcome.train_passed > outcome.train_total
    misses = misses_view(view.problem, view.heldout) if is_near else None
    if misses is not None:
        parts += [misses, Text()]
    return Group(*parts, figures(outcome, view.run.evaluations, view.problem, solved_after))


def run_report(view: RunView, ancestors: Sequence[Ancestor]) -> RenderableType:
    summary = view.summary
    if view.best is None:
        return Text(f"Run {view.run.id} of {view.problem.id} has judged nothing yet.", style="yellow")
    run = view.run
    outcome = view.outcome(0.0)
    head = Text(f"run {run.id}, {outcome.status}, seed {run.seed}, {run.created_at}", style="dim")
    config = Config.from_json(run.config_json)
    usual = config.sampling.temperature
    known = [(one.name, one.temperature or usual) for one in config.models]
    known = known or [(config.proposer.model or config.proposer.name, usual)]
    said = ", ".join(f"{printable(name)} at temperature {temperature:g}" for name, temperature in known)
    head.append(f"\nproposer: {said}")
    origin = config.run.origin
    if origin:
        begun = counted(len(origin) - 1, "program")
        head.append(f"\nadditional starting programs from run {origin[0]}: {begun}")
    for part, later in pairwise(view.parts):
        before, now = (Config.from_json(one.config_json) for one in (part, later))
        changes = before.differences(now).items()
        said = ", ".join(f"{name} {old} -> {new}" if "." in name else name for name, (old, new) in changes)
        head.append(f"\nwent on under other settings after ask {later.asks_before}: {said}")
    cost = Text(counted(summary.rollouts, "completion"), style="dim")
    if summary.tokens:
        cost.append(f" of {summary.tokens} tokens, sampled in {summary.sampling_seconds:.1f} s")
    cost.append(f"; running programs took {summary.evaluation_seconds:.1f} s of the sandbox")
    if summary.by_way:
        ways = sorted(summary.by_way.items(), key=lambda item: -item[1][0])
        said = ", ".join(f"{way} {asked} ({rose})" for way, (asked, rose) in ways)
        cost.append(f"\nways to ask, with programs (and new bests) of each: {said}")
    if summary.calls.calls:
        cost.append(f"\n{calls_text(summary.calls)}")
    shown = f"program shown, the best by {outcome.score_name}" if outcome.is_by_score else "best program"
    parts: list[RenderableType] = [head, result(view, outcome), cost, Text()]
    parts += [Text(f"Lineage of the {shown}", style="bold"), lineage_table(view.problem, ancestors)]
    if lines := [] if view.problem.has_one_score else curve_lines(summary.curve):
        solved = solved_at(summary.curve, len(view.problem.objectives))
        remark = "" if solved is None else f", solved after {solved}"
        whose = f" (program {outcome.best_mean_program_id}, not the one shown)" * outcome.is_by_score
        title = Text(f"Best mean reward of the run against evaluations{whose}{remark}", style="bold")
        parts += [Text(), title, Text("\n".join(lines), no_wrap=True), Text()]
    if points := combined_curve(view.scores):
        above = "\n" * view.problem.has_one_score
        parts += [Text(f"{above}Best {printable(outcome.score_name)} against evaluations", style="bold")]
        parts += [Text(f"  after {point.evaluations}: {point.combined:.6g}") for point in points[-12:]]
    return Group(*parts)


def outcome_json(outcome: Outcome) -> dict[str, Json]:
    """Return an outcome as JSON, without the score and `best_metrics` if they are missing."""
    fields: dict[str, Json] = dict(outcome._asdict())
    del fields["score"], fields["score_name"]
    if not fields["best_metrics"]:
        del fields["best_metrics"]
    return {
        **fields,
        **score_json(outcome.score_name, outcome.score),
        "solved_train": outcome.solved,
        "solved_heldout": outcome.solved_heldout,
    }


def run_json(view: RunView, ancestors: Sequence[Ancestor]) -> dict[str, Json]:
    outcome = outcome_json(view.outcome(0.0))
    del outcome["seconds"]
    point_keys = ("evaluations", "best_mean_reward", "examples_passed")
    metrics: dict[str, Json] = {}
    if view.problem.evaluator is not None:
        metrics["score_curve"] = [
            {"evaluations": point.evaluations, "score": point.combined}
            for point in combined_curve(view.scores)
        ]
    return {
        **outcome,
        "problem": view.problem.id,
        "seed": view.run.seed,
        "budget": view.run.evaluations,
        "origin": next(iter(Config.from_json(view.run.config_json).run.origin), None),
        "parts": [part.asks_before for part in view.parts],
        "ways": {
            way: {"programs": asked, "new_bests": rose} for way, (asked, rose) in view.summary.by_way.items()
        },
        "sampling_seconds": view.summary.sampling_seconds,
        "evaluation_seconds": view.summary.evaluation_seconds,
        "calls": {**view.summary.calls._asdict()},
        "rewards": list((view.evaluation.rewards if view.evaluation else None) or ()),
        "examples": [row._asdict() for row in example_rows(view.problem, view.evaluation)],
        "heldout": [row._asdict() for row in view.heldout],
        "lineage": [
            {
                "program_id": ancestor.program.id,
                "program": ancestor.program.source,
                "origin": ancestor.origin,
                "made_from": [asdict(parent) for parent in ancestor.made_from],
                "mean_reward": ancestor.mean_reward,
                "idea": ancestor.idea,
            }
            for ancestor in ancestors
        ],
        "curve": [{key: getattr(point, key) for key in point_keys} for point in view.summary.curve],
        **metrics,
    }
