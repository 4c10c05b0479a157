"""The report of `evovpo doctor`: is Vector Policy Optimization (VPO) worthwhile for a problem?"""

from collections.abc import Callable
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evovpo.analysis.doctor.findings import COLLINEAR, RARE, Diagnosis, Verdict, diagnose, percent
from evovpo.analysis.doctor.sample_figures import SET_SIZE, take_sample
from evovpo.config import Config
from evovpo.config_values import toml_value
from evovpo.errors import ProblemError, StoreError
from evovpo.problem.folder import load_problem, with_folder_grouping
from evovpo.problem.suites import resolve_problem
from evovpo.reports.text import folded, plain_table, printable, right, shortened
from evovpo.runs.driver import Progress
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import start
from evovpo.runs.stored import find_run
from evovpo.store import Store
from evovpo.types import Json, Problem, Run

SAMPLING: dict[str, object] = {
    "search.evaluations": 240,
    "search.answers": 3,
    "search.joins": False,
    "search.stop_when_solved": False,
}
"""Settings of a new run that collects answers to a problem. All candidates come from the model, several per
completion, as in VPO training. Ten prompts give 240 answers."""
_ROWS_SHOWN = 40
_STYLES = {Verdict.WORTH: "green", Verdict.CHANGE: "yellow", Verdict.NOT: "red"}


class DoctorReport(NamedTuple):
    problem: Problem
    """The stored problem, with the current grouping of the problem's folder."""
    run: Run
    diagnosis: Diagnosis
    is_new: bool = False


def named_problem(target: str) -> Problem | None:
    try:
        folder = resolve_problem(target)
    except ProblemError:
        if "/" in target:
            raise
        return None
    return load_problem(folder) if (folder / "problem.toml").is_file() else None


def examine_run(store: Store, target: str) -> DoctorReport:
    try:
        run = store.run(find_run(store, target))
    except StoreError as error:
        try:
            resolve_problem(target)
        except ProblemError as other:
            raise StoreError(f"{target} is neither a run nor a problem. {error}. {other}") from None
        raise
    problem = with_folder_grouping(store.problem(run.problem_id, run.problem_version))
    report = _report(store, run, problem)
    if report is None:
        raise StoreError(
            f"run {run.id} has no prompt whose completions are all judged and hold a program; let it go on"
            f" (`evovpo resume {run.id}`), or name another run"
        )
    return report


def examine_problem(
    store: Store,
    problem: Problem,
    config: Config,
    on_start: Callable[[Run], None] = lambda run: None,
    on_tell: Callable[[Progress], None] = lambda progress: None,
) -> DoctorReport:
    """Return a report on the newest run of this problem version that has usable answers.

    If there is none, start a new run. Raises `StoreError` if no answer of the new run contains a program.
    """
    for run in (store.run(row.run) for row in store.runs() if row.problem == problem.id):  # newest first
        report = _report(store, run, problem) if run.problem_version == problem.version else None
        if report is not None:
            return report
    run_id = start(RunRequest(problem, config), store, on_start=on_start, on_tell=on_tell).run
    report = _report(store, store.run(run_id), problem)
    if report is None:
        raise StoreError(
            f"run {run_id} was made to look at, and none of its {config.search.evaluations} candidates holds"
            " a program: the proposer does not write what this problem asks for; use another one"
        )
    return report._replace(is_new=True)


def _report(store: Store, run: Run, problem: Problem) -> DoctorReport | None:
    sample = take_sample(problem, store.groups(run.id))
    return DoctorReport(problem, run, diagnose(sample)) if len(sample.different_N_D) else None


def report_view(report: DoctorReport) -> RenderableType:
    diagnosis = report.diagnosis
    title = Text(f"{printable(report.problem.id)}: ", style="bold")
    said = f"VPO is {diagnosis.verdict}, with the answers that there are now."
    title.append(said, style=f"bold {_STYLES[diagnosis.verdict]}")
    parts: list[RenderableType] = [title, Text(_origin(report), style="dim"), Text()]
    findings = Table.grid("", folded(), padding=(0, 1))
    for finding in diagnosis.findings:
        text = Text(_sentence(finding.text))
        if finding.advice:
            text.append(f" {_sentence(finding.advice)}", style="bold")
        findings.add_row(Text("•", style=_STYLES[finding.allows]), text)
    if diagnosis.findings:
        parts += [findings, Text()]
    parts += [figures_table(diagnosis), Text(), components_table(diagnosis)]
    if diagnosis.verdict is not Verdict.NOT:
        advice = diagnosis.advice
        settings = f"To train from it: search.answers={advice.answers}, search.rollouts={advice.rollouts}"
        setting = grouping_setting(diagnosis)
        if setting:
            where = f"{report.problem.folder or report.problem.id}/problem.toml"
            settings += f", and this grouping into {len(advice.groups)} in {printable(where)}:\n"
        # One text per line, so that lines do not wrap and can be copied.
        lines = [settings, *setting.splitlines()]
        parts += [Text(), *(Text(line, no_wrap=True, overflow="ignore") for line in lines)]
    return Group(*parts)


def _origin(report: DoctorReport) -> str:
    sample, run = report.diagnosis.sample, report.run
    chains = sum(len(pool) for pool in sample.pools)
    made = "made for this" if report.is_new else str(run.status)
    grouping = f", grouped into {len(sample.names)} components" * bool(report.problem.groups)
    return (
        f"Run {run.id} ({made}): {len(sample.pools)} prompts, {chains} completions of {sample.answers},"
        f" {sample.slots} answers, {len(sample.different_N_D)} different programs;"
        f" {len(report.problem.objectives)} objectives{grouping}."
    )


def figures_table(diagnosis: Diagnosis) -> Table:
    figures = diagnosis.figures
    rank = f"{figures.rank:.1f} of {len(figures.mean_rewards)}"
    correlation = "-" if figures.correlation is None else f"{figures.correlation:.2f}"
    flat = f"; in {percent(figures.flat_at_zero)} all earn nothing" * bool(figures.flat_at_zero)
    table = plain_table("figure", right("value"), folded(style="dim"))
    table.add_row("effective rank", rank, "number of independent ways in which answers differ")
    text = f"of two components; VPO cannot help from about {COLLINEAR:g}"
    table.add_row("mean correlation", correlation, text)
    text = f"at {percent(RARE)} or less nothing is gained"
    table.add_row("answers with any reward", percent(figures.rewarded), text)
    table.add_row("answers right", percent(figures.right), "every component at 1")
    text = f"their chains differ in what they earn{flat}"
    table.add_row("groups with spread", percent(figures.spread), text)
    table.add_row("unreadable answers", percent(figures.unreadable), "without a program")
    single = "one chain" if diagnosis.sample.answers > 1 else f"{SET_SIZE} random answers"
    sets = (single, "a whole prompt", f"the best {SET_SIZE} seen")
    for name, now, advised in zip(sets, figures.headroom, diagnosis.advice.headroom, strict=True):
        grouped = f"; with the groups below {advised:+.3f}" * diagnosis.is_grouping_advised
        table.add_row(f"headroom of {name}", f"{now:+.3f}", f"E max minus best mean{grouped}")
    return table


def components_table(diagnosis: Diagnosis) -> RenderableType:
    """Return a table of the reward components, sorted by the grouping that the diagnosis advises."""
    sample, figures, groups = diagnosis.sample, diagnosis.figures, diagnosis.advice.groups
    is_grouped = diagnosis.is_grouping_advised
    notes = dict.fromkeys(figures.dead, "never above 0") | dict.fromkeys(figures.saturated, "never below 1")
    table = plain_table(folded("component"), right("mean reward"), *[right("group")] * is_grouped, "")
    rows = [(index, str(number)) for number, group in enumerate(groups, start=1) for index in group]
    for index, number in rows[:_ROWS_SHOWN]:
        name, note = Text(printable(sample.names[index])), Text(notes.get(index, ""), style="dim")
        table.add_row(name, f"{figures.mean_rewards[index]:.3f}", *[number] * is_grouped, note)
    return shortened(table, len(sample.names) - _ROWS_SHOWN)


def grouping_setting(diagnosis: Diagnosis) -> str:
    if not diagnosis.is_grouping_advised:
        return ""
    lines = [
        f"    [{', '.join(map(toml_value, group))}]," for group in diagnosis.objective_groups if group[1:]
    ]
    return "\n".join(["[grouping]", "groups = [", *lines, "]"])


def _sentence(text: str) -> str:
    return printable(f"{text[:1].upper()}{text[1:]}.")


def report_json(report: DoctorReport) -> dict[str, Json]:
    """Return the report as JSON. Each advised group is a list of objective names."""
    diagnosis = report.diagnosis
    sample, figures, advice = diagnosis.sample, diagnosis.figures, diagnosis.advice
    shares = ("rewarded", "right", "spread", "flat_at_zero", "unreadable")
    return {
        "problem": report.problem.id,
        "run": report.run.id,
        "is_new_run": report.is_new,
        "verdict": diagnosis.verdict.name.lower(),
        "findings": [
            finding._asdict() | {"allows": finding.allows.name.lower()} for finding in diagnosis.findings
        ],
        "prompts": len(sample.pools),
        "answers": sample.slots,
        "different_programs": len(sample.different_N_D),
        "answers_per_chain": sample.answers,
        "faulty_completions": sample.faulty,
        "components": list(sample.names),
        "effective_rank": figures.rank,
        "mean_correlation": figures.correlation,
        "mean_rewards": list(figures.mean_rewards),
        "dead": [sample.names[index] for index in figures.dead],
        "saturated": [sample.names[index] for index in figures.saturated],
        "headroom": figures.headroom._asdict(),
        **{f"{name}_share": getattr(figures, name) for name in shares},
        "advice": {
            "groups": [[*group] for group in diagnosis.objective_groups],
            "answers": advice.answers,
            "rollouts": advice.rollouts,
            "headroom": advice.headroom._asdict(),
        },
    }
