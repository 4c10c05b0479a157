"""The doctor's report as text and tables, and as JSON."""

import itertools

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evovpo.analysis.doctor.findings import COLLINEAR, RARE, Diagnosis, Verdict, percent
from evovpo.analysis.doctor.sample_figures import SET_SIZE, Scores, SetScores
from evovpo.config_values import toml_value
from evovpo.reports.doctor.examine import DoctorReport
from evovpo.reports.text import folded, plain_table, printable, right, shortened
from evovpo.types import Json

_ROWS_SHOWN = 40
_SETS_EXPLAINED = (
    "E max: expected best reward over random weightings, what VPO pays for; headroom: how far it is above the"
    " best mean; union: what it would be if each weighting saw one component only."
)
_STYLES = {Verdict.WORTH: "green", Verdict.CHANGE: "yellow", Verdict.NOT: "red"}
HEADLINES = {
    Verdict.WORTH: "VPO is worth it here.",
    Verdict.CHANGE: "VPO is worth it here, after changes.",
    Verdict.NOT: "VPO is not worth it here, with the answers that there are now.",
}


def report_view(report: DoctorReport) -> RenderableType:
    """Return all that is shown of a report: verdict, reasons, figures, components, what to change."""
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
        settings = (
            f"To train from it: objective.alpha={advice.alpha:g}, search.answers={advice.answers},"
            f" search.rollouts={advice.rollouts}"
        )
        setting = grouping_setting(diagnosis)
        if setting:
            where = f"{report.problem.folder or report.problem.id}/problem.toml"
            settings += f", and these {len(advice.groups)} groups in {printable(where)}:\n"
        # Each line on its own, so that none is broken and all can be copied.
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
    """Return the figures, each with what it means."""
    figures = diagnosis.figures
    correlation = "-" if figures.correlation is None else f"{figures.correlation:.2f}"
    flat = f"; in {percent(figures.flat_at_zero)} all earn nothing" * bool(figures.flat_at_zero)
    table = plain_table("figure", right("value"), folded(style="dim"))
    for name, value, text in (
        (
            "components that vary",
            f"{figures.varying} of {len(figures.mean_rewards)}",
            "the others are the same in all answers",
        ),
        ("effective rank", f"{figures.rank:.1f}", "in how many different ways answers differ"),
        ("mean correlation", correlation, f"of two components; VPO cannot help from about {COLLINEAR:g}"),
        (
            "answers with any reward",
            percent(figures.rewarded),
            f"at {percent(RARE)} or less nothing is gained",
        ),
        ("answers right", percent(figures.right), "every component at 1"),
        ("groups with spread", percent(figures.spread), f"their chains differ in what they earn{flat}"),
        ("unreadable answers", percent(figures.unreadable), "hold no program, and earn nothing"),
        ("repeated answers", percent(figures.repeated), "hold a program that was there before"),
    ):
        table.add_row(name, value, text)
    return table


def sets_table(diagnosis: Diagnosis) -> Table:
    """Return how sets of answers score, with the components as they are and as advised."""
    table = plain_table("sets of answers", *map(right, ("best mean", "E max", "headroom", "union")))
    for name, scores in named_scores(diagnosis):
        best, expected, union = scores.best_mean, scores.expected_best, scores.union
        table.add_row(name, f"{best:.3f}", f"{expected:.3f}", f"{scores.headroom:+.3f}", f"{union:.3f}")
    return table


def named_scores(diagnosis: Diagnosis) -> list[tuple[str, SetScores]]:
    """Return the scores that are shown, with their names."""
    advice = diagnosis.advice
    shown = [("", diagnosis.figures.scores)]
    if diagnosis.is_grouping_advised or (advice.alpha < 1 and diagnosis.verdict is not Verdict.NOT):
        shown.append((", as advised", advice.scores))
    names = ["one chain", f"{SET_SIZE} random answers", "all answers to a prompt"]
    names.append(f"the best {SET_SIZE} answers seen")
    return [
        (name + suffix, found)
        for suffix, scores in shown
        for name, found in zip(names, scores, strict=True)
        if found is not None
    ]


def components_table(diagnosis: Diagnosis) -> RenderableType:
    """Return the components, by the groups that they would be in."""
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
    """Return the advised grouping as a section of `problem.toml`, in names of objectives; or empty."""
    if not diagnosis.is_grouping_advised:
        return ""
    lines = [
        f"    [{', '.join(map(toml_value, group))}]," for group in diagnosis.objective_groups if group[1:]
    ]
    return "\n".join(["[grouping]", "groups = [", *lines, "]"])


def _sentence(text: str) -> str:
    return printable(f"{text[:1].upper()}{text[1:]}.")


def report_json(report: DoctorReport) -> dict[str, Json]:
    """Return for machines what `report_view` shows; groups are lists of names of objectives."""
    diagnosis = report.diagnosis
    sample, figures, advice = diagnosis.sample, diagnosis.figures, diagnosis.advice
    names = sample.names
    shares = ("rewarded", "right", "spread", "flat_at_zero", "unreadable", "repeated")
    settings = ("alpha", "ungrouped_alpha", "answers", "rollouts")
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
            **{name: getattr(advice, name) for name in settings},
            "sets": _scores_json(advice.scores),
        },
    }


def _scores_json(scores: Scores) -> dict[str, Json]:
    return {
        name: None if score is None else {**score._asdict(), "headroom": score.headroom}
        for name, score in scores._asdict().items()
    }
