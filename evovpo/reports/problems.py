"""Problems for people: the list of them, what a check found, what an OpenEvolve project brings."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from evovpo.builtin.choice import built_in_fault
from evovpo.errors import ProblemError
from evovpo.judging.check import CheckReport
from evovpo.problem.openevolve.metrics import suggest_bounds
from evovpo.problem.openevolve.settings import Effect, Settings
from evovpo.reports.tables import judgement_table
from evovpo.reports.text import counted, folded, plain_table, printable, reward_text, right
from evovpo.store import Store
from evovpo.types import Problem, Status


def problems_table(problems: Sequence[Problem]) -> Table:
    """Return problems with what they ask for: the first paragraph of each statement."""
    table = plain_table(Column("problem", no_wrap=True), right("rows"), folded("asks for"))
    for problem in problems:
        rows = f"{len(problem.train)}+{len(problem.heldout)}" if problem.is_by_example else "scorer"
        asked = " ".join(problem.statement.strip().split("\n\n")[0].split())
        table.add_row(problem.id, rows, Text(printable(asked)))
    return table


def check_view(report: CheckReport) -> RenderableType:
    """Return what was found about a problem folder that can be used."""
    problem = report.problem
    counts = ("training rows", "held-out rows") if problem.is_by_example else ()
    table = plain_table("starting program", "ends", right("mean reward"), *map(right, counts))
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
    judged = [item.metrics for item in store.scores(run.id) if item.status is Status.OK]
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
    text = Text(f"OpenEvolve configuration: {counted(mapped, 'key')} mapped, {none} without effect, ")
    text.append(f"{unknown} unknown; all of them:  evovpo check {printable(name)}")
    for effect, style in ((Effect.NONE, "dim"), (Effect.UNKNOWN, "yellow")):
        if names[effect]:
            text.append(f"\n  {effect}: " + ", ".join(map(printable, names[effect])), style=style)
    return text


def settings_table(settings: Settings) -> RenderableType:
    """Return what became of each key of an OpenEvolve configuration file, those without effect last."""
    table = plain_table("key of the file", "here", folded())
    styles = {Effect.MAPPED: "green", Effect.NONE: "dim", Effect.UNKNOWN: "yellow"}
    for effect, style in styles.items():
        for key in settings.keys:
            if key.effect is effect:
                cells = (Text(printable(key.name)), Text(str(effect), style=style))
                table.add_row(*cells, Text(printable(key.remark)))
    return table
