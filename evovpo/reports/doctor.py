"""The doctor: takes the sample of a run or problem, diagnoses it, and reports as text and JSON."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evovpo.analysis.doctor.findings import COLLINEAR, RARE, Diagnosis, Verdict, diagnose, percent
from evovpo.analysis.doctor.sample_figures import SET_SIZE, Scores, SetScores, take_sample
from evovpo.config import Config
from evovpo.config_values import toml_value
from evovpo.errors import ProblemError, StoreError
from evovpo.problem.folder import load_problem, with_folder_grouping
from evovpo.problem.suites import resolve_problem
from evovpo.reports.text import folded, plain_table, printable, right, shortened
from evovpo.runs.driver import Progress
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start
from evovpo.runs.stored import find_run
from evovpo.store import Store
from evovpo.types import Json, Problem, Run

SAMPLING: dict[str, object] = {
    "search.evaluations": 240,
    "search.answers": 3,
    "search.joins": False,
    "search.stop_when_solved": False,
}
"""Settings to sample a problem without runs: an ordinary search in which all candidates come from the model,
in chains as in VPO training. 240 answers are ten prompts."""
_ROWS_SHOWN = 40
_SETS_EXPLAINED = (
    "E max: expected best reward over random weightings, the reward of VPO; headroom: its excess over the"
    " best mean; union: its value if each weighting had a single component."
)
_STYLES = {Verdict.WORTH: "green", Verdict.CHANGE: "yellow", Verdict.NOT: "red"}
HEADLINES = {
    Verdict.WORTH: "VPO is worth it here.",
    Verdict.CHANGE: "VPO is worth it here, after changes.",
    Verdict.NOT: "VPO is not worth it here, with the answers that there are now.",
}


class DoctorReport(NamedTuple):
    """A diagnosis and the source of its sample."""

    problem: Problem
    """With its present grouping."""
    run: Run
    diagnosis: Diagnosis
    others: int = 0
    """Number of further runs of the problem, which are ignored."""
    is_new: bool = False
    """True if the run was made for this report."""


def named_problem(target: str) -> Problem | None:
    """Return the problem that a target names, or None if it must be a run; raises `ProblemError`."""
    try:
        folder = resolve_problem(target)
    except ProblemError:
        if "/" in target:
            raise
        return None
    return load_problem(folder) if (folder / "problem.toml").is_file() else None


def examine_run(store: Store, target: str) -> DoctorReport:
    """Return the report on a run: its id, the beginning of its id, or `latest`; raises `StoreError`."""
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
    """Return the report on the newest run of this version of a problem, or on a new run if there is none.

    Raises `StoreError` if no answer of the new run holds a program.
    """
    of_problem = [store.run(row.run) for row in store.runs() if row.problem == problem.id]  # newest first
    runs = [run for run in of_problem if run.problem_version == problem.version]
    for run in runs:
        report = _report(store, run, problem)
        if report is not None:
            return report._replace(others=len(runs) - 1)
    run_id = start(RunRequest(problem, config), store, on_start=on_start, on_tell=on_tell).run
    report = _report(store, store.run(run_id), problem)
    if report is None:
        raise StoreError(
            f"run {run_id} was made to look at, and none of its {config.search.evaluations} candidates holds"
            " a program: the proposer does not write what this problem asks for; use another one"
        )
    return report._replace(others=len(runs), is_new=True)


def _report(store: Store, run: Run, problem: Problem) -> DoctorReport | None:
    """Return the report on a run, or None if none of its complete groups holds a program."""
    sample = take_sample(problem, store.groups(run.id))
    return DoctorReport(problem, run, diagnose(sample)) if len(sample.different_N_D) else None


def report_view(report: DoctorReport) -> RenderableType:
    """Return a report for the terminal: verdict, reasons, figures, components and advice."""
    diagnosis = report.diagnosis
    title = Text(f"{printable(report.problem.id)}: ", style="bold")
    title.append(HEADLINES[diagnosis.verdict], style=f"bold {_STYLES[diagnosis.verdict]}")
    parts: list[RenderableType] = [title, Text(_origin(report), style="dim"), Text()]
    findings = Table.grid("", folded(), padding=(0, 1))
    for finding in diagnosis.findings:
        text = Text(_sentence(finding.text))
        if finding.advice:
            text.append(f" {_sentence(finding.advice)}", style="bold")
        findings.add_row(Text("•", style=_STYLES[finding.allows]), text)
    if diagnosis.findings:
        parts += [findings, Text()]
    parts += [figures_table(diagnosis), Text(), sets_table(diagnosis), Text(_SETS_EXPLAINED, style="dim")]
    parts += [Text(), components_table(diagnosis)]
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
    if report.others:
        made += f", one of {report.others + 1} runs of this problem"
    grouping = f", grouped into {len(sample.names)} components" * bool(report.problem.groups)
    return (
        f"Run {run.id} ({made}): {len(sample.pools)} prompts, {chains} completions of {sample.answers},"
        f" {sample.slots} answers, {len(sample.different_N_D)} different programs;"
        f" {len(report.problem.objectives)} objectives{grouping}."
    )


def figures_table(diagnosis: Diagnosis) -> Table:
    """Return a table of the figures with their meanings."""
    figures = diagnosis.figures
    correlation = "-" if figures.correlation is None else f"{figures.correlation:.2f}"
    flat = f"; in {percent(figures.flat_at_zero)} all earn nothing" * bool(figures.flat_at_zero)
    table = plain_table("figure", right("value"), folded(style="dim"))
    for name, value, text in (
        (
            "components that vary",
            f"{figures.varying} of {len(figures.mean_rewards)}",
            "the other components are the same in all answers",
        ),
        ("effective rank", f"{figures.rank:.1f}", "number of independent ways in which answers differ"),
        ("mean correlation", correlation, f"of two components; VPO cannot help from about {COLLINEAR:g}"),
        (
            "answers with any reward",
            percent(figures.rewarded),
            f"at {percent(RARE)} or less nothing is gained",
        ),
        ("answers right", percent(figures.right), "every component at 1"),
        ("groups with spread", percent(figures.spread), f"their chains differ in what they earn{flat}"),
        ("unreadable answers", percent(figures.unreadable), "without a program, and without reward"),
        ("repeated answers", percent(figures.repeated), "repeat an earlier program"),
    ):
        table.add_row(name, value, text)
    return table


def sets_table(diagnosis: Diagnosis) -> Table:
    """Return a table of the scores of sets of answers, with present and with advised components."""
    table = plain_table("sets of answers", *map(right, ("best mean", "E max", "headroom", "union")))
    for name, scores in named_scores(diagnosis):
        best, expected, union = scores.best_mean, scores.expected_best, scores.union
        table.add_row(name, f"{best:.3f}", f"{expected:.3f}", f"{scores.headroom:+.3f}", f"{union:.3f}")
    return table


def named_scores(diagnosis: Diagnosis) -> list[tuple[str, SetScores]]:
    """Return the names and values of the scores to show."""
    shown = [("", diagnosis.figures.scores)]
    if diagnosis.is_grouping_advised:
        shown.append((", as advised", diagnosis.advice.scores))
    names = ["one chain", f"{SET_SIZE} random answers", "all answers to a prompt"]
    names.append(f"the best {SET_SIZE} answers seen")
    return [
        (name + suffix, found)
        for suffix, scores in shown
        for name, found in zip(names, scores, strict=True)
        if found is not None
    ]


def components_table(diagnosis: Diagnosis) -> RenderableType:
    """Return a table of the components, ordered by advised group."""
    sample, figures, groups = diagnosis.sample, diagnosis.figures, diagnosis.advice.groups
    is_grouped = diagnosis.is_grouping_advised
    numbers = {index: number for number, group in enumerate(groups, start=1) for index in group}
    notes = dict.fromkeys(figures.dead, "never above 0") | dict.fromkeys(figures.saturated, "never below 1")
    for group in figures.copies:
        notes |= dict.fromkeys(group[1:], f"always as {sample.names[group[0]]}")
    group_column = [right("group")] * is_grouped
    table = plain_table(folded("component"), right("mean reward"), "", *group_column, "")
    for index in list(itertools.chain.from_iterable(groups))[:_ROWS_SHOWN]:
        mean = figures.mean_rewards[index]
        cells: list[RenderableType] = [Text(printable(sample.names[index])), f"{mean:.3f}"]
        cells.append(Text("█" * round(20 * mean), style="cyan"))
        if is_grouped:
            cells.append(str(numbers[index]))
        table.add_row(*cells, Text(printable(notes.get(index, "")), style="dim"))
    return shortened(table, len(sample.names) - _ROWS_SHOWN)


def grouping_setting(diagnosis: Diagnosis) -> str:
    """Return the advised grouping of objectives as a section of `problem.toml`; empty without one."""
    if not diagnosis.is_grouping_advised:
        return ""
    lines = [
        f"    [{', '.join(map(toml_value, group))}]," for group in diagnosis.objective_groups if group[1:]
    ]
    return "\n".join(["[grouping]", "groups = [", *lines, "]"])


def _sentence(text: str) -> str:
    return printable(f"{text[:1].upper()}{text[1:]}.")


def report_json(report: DoctorReport) -> dict[str, Json]:
    """Return the report as JSON; groups are lists of objective names."""
    diagnosis = report.diagnosis
    sample, figures, advice = diagnosis.sample, diagnosis.figures, diagnosis.advice
    names = sample.names
    shares = ("rewarded", "right", "spread", "flat_at_zero", "unreadable", "repeated")
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
        "components": list(names),
        "effective_rank": figures.rank,
        "mean_correlation": figures.correlation,
        "mean_rewards": list(figures.mean_rewards),
        "dead": [names[index] for index in figures.dead],
        "saturated": [names[index] for index in figures.saturated],
        "copies": [[names[index] for index in group] for group in figures.copies],
        "sets": _scores_json(figures.scores),
        **{f"{name}_share": getattr(figures, name) for name in shares},
        "faulty_completions": sample.faulty,
        **dict.fromkeys(("prediction", "png")),  # of older versions
        "advice": {
            "groups": [[*group] for group in diagnosis.objective_groups],
            **{"answers": advice.answers, "rollouts": advice.rollouts},
            **dict.fromkeys(("alpha", "ungrouped_alpha"), 1.0),  # of older versions
            "sets": _scores_json(advice.scores),
        },
    }


def _scores_json(scores: Scores) -> dict[str, Json]:
    return {
        name: None if score is None else {**score._asdict(), "headroom": score.headroom}
        for name, score in scores._asdict().items()
    }
