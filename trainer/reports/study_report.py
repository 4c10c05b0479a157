"""The report of a study: tables in Markdown, pictures, and all figures as JSON, beside the study's file."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from evovpo.analysis.statistics import Interval
from evovpo.experiments.intervals import Difference, UnlockedProblems
from evovpo.page.reports import chart, report, table
from evovpo.reports.pictures import MOST_BANDS, KCurve, StepCurve, write_arms, write_budgets, write_training
from trainer.experiments.study import START, Study
from trainer.experiments.study_export import Export
from trainer.experiments.study_results import ArmSearches, Comparison, StudyArmResult, StudyResults, summarise
from trainer.experiments.verdict import verdict

_Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The names of the columns, and rows."""
_LOGGED = {
    "diversity of a group": "diversity",
    "distinct answers of a group": "distinct",
    "entropy, nats a token": "entropy",
    "groups without spread": "zero_spread_share",
}


def write_report(results: StudyResults) -> tuple[str, list[Path]]:
    """Write `report.md`, `results.json` and pictures where the rows are; return text and files."""
    folder = results.study.folder
    pictures = list(_pictures(folder, results))
    text = report_markdown(results, [picture.name for picture in pictures])
    (folder / "report.md").write_text(text)
    (folder / "results.json").write_text(json.dumps(report_json(results), indent=1) + "\n")
    return text, [folder / "report.md", folder / "results.json", *pictures]


def report_json(results: StudyResults) -> dict[str, Any]:
    """Return the figures of all arms and the verdict; intervals as `value`, `low`, `high`.

    `solved_by_search` and `unlocked` (against the first reference, which unlocks nothing against itself) are
    of the study's first strategy; under `by_strategy` are those of all.
    """
    study, problems = results.study, len(results.problems)
    if study.test.tasks:
        return _test_json(results)
    main, reference = study.strategies[0].name, study.references[0]
    against = {one.arm: one.unlocked for one in results.comparisons if one.reference == reference}
    against[reference] = {
        name: UnlockedProblems((), Interval(0.0, 0.0, 0.0, problems), len(found.seeds))
        for name, found in results.arm(reference).searched.items()
    }
    arms = {}
    for found in results.arms:
        gained = against.get(found.arm.name, {})
        by_strategy = {
            name: {"solved_by_search": one, "unlocked": gained.get(name)}
            for name, one in found.searched.items()
        }
        arms[found.arm.name] = {
            "seeds": len(found.searched[main].seeds) if main in found.searched else 0,
            **_named(found.at_k),
            **by_strategy.get(main, {"solved_by_search": None, "unlocked": None}),
            "by_strategy": by_strategy,
            "distinct_share": found.distinct_share,
            "diversity": found.diversity,
            "hypervolume": found.hypervolume,
            "missing": found.missing,
        }
    figures = {
        "study": study.name,
        "problems": problems,
        "evaluations": study.evaluations,
        "reference": reference,
        "strategy": main,
        "arms": arms,
        "comparisons": [
            {
                "arm": one.arm,
                "reference": one.reference,
                **_named(one.at_k),
                "solved_by_search": one.solved,
                "area": one.area,
                "unlocked": one.unlocked,
                "locked": one.locked,
            }
            for one in results.comparisons
        ],
        "strategies": [
            {"arm": one.arm, "strategy": one.strategy, "reference": one.reference, **_json(one.solved)}
            for one in results.strategies
        ],
        "verdict": verdict(results),
    }
    return {key: _json(value) for key, value in figures.items()}


def _named(at_k: Mapping[str, Mapping[int, Any]]) -> dict[str, Mapping[int, Any]]:
    """Return the figures by k as JSON names them; rows without any have the first two, empty."""
    expected = {"expected_best_at_k": at_k["expected_at_k"]} if "expected_at_k" in at_k else {}
    return {"best_at_k": {}, "pass_at_k": {}, **at_k, **expected}


def _json(value: Any) -> Any:
    """Return figures as JSON holds them, at any depth."""
    match value:
        case Interval():
            return {"value": value.mean, "low": value.low, "high": value.high}
        case Difference():
            return {**_json(value.interval), "p": value.p, "clear": value.is_clear}
        case UnlockedProblems():
            return {**_json(value.interval), "seeds": value.seeds, "problems": list(value.problems)}
        case ArmSearches():
            return {
                **_json(value.solved),
                "solved_train": _json(value.solved_rows),
                "solved_heldout": _json(value.solved),
                "training_rows_only": _json(value.solved_rows),
                "solved_in_any_seed": list(value.solved_in_any),
                "seeds": len(value.seeds),
                "after": _json(value.after),
                "area": _json(value.area),
                "tokens": value.tokens,
                "seconds": value.seconds,
            }
        case Mapping():
            return {str(key): _json(one) for key, one in value.items()}
        case list():
            return [_json(one) for one in value]
    return value


def _test_json(results: StudyResults) -> dict[str, Any]:
    """Return the figures of a study on test tasks; intervals as `mean`, `low`, `high`.

    `minus_start` compares with the start model asked for single answers: independent sampling, the stronger
    baseline; `minus_own_start` with the start model asked for what the arm is asked.
    """
    study = results.study
    starts = {f"m = {one.arm.search_answers}": one for one in results.arms if one.arm.model == START}
    single = min(starts.values(), key=lambda one: one.arm.search_answers)
    pairs = {(one.arm, one.reference): one.at_k for one in results.comparisons}
    arms: dict[str, Any] = {}
    for one in results.arms:
        if one.arm.arm is None:
            continue
        references = {"minus_start": single.arm.name, "minus_grpo": "grpo"}
        if own := starts.get(f"m = {one.arm.search_answers}"):
            references["minus_own_start"] = own.arm.name
        arms[one.arm.name] = {
            **_test_figures(one),
            "logs": [row["log"] for row in one.trainings],
            **{
                key: _rounded(pairs[one.arm.name, reference])
                for key, reference in references.items()
                if (one.arm.name, reference) in pairs
            },
        }
    return {
        "settings": {
            "budget": dict(study.training),
            "learning_rates": list(study.tuning.learning_rates),
            "kls": list(study.tuning.kls),
            "seeds": study.seeds,
            "validation_tasks": study.tuning.tasks,
            "test_tasks": study.test.tasks,
            "ks": list(study.ks),
            "start": str(study.start),
        },
        "ks": list(study.ks),
        "grid": dict(results.tuning),
        "start": {name: _test_figures(one) for name, one in starts.items()},
        "arms": arms,
        "verdict": verdict(results),
    }


def _test_figures(found: StudyArmResult) -> dict[str, Any]:
    rows = found.trainings
    return {
        **_rounded(found.at_k),
        "diversity": found.diversity,
        "hypervolume": found.hypervolume,
        "distinct_share": found.distinct_share,
        "tokens": float(np.mean([row["tokens"] for row in rows])) if rows else 0.0,
        "steps": float(np.mean([row["steps"] for row in rows])) if rows else 0.0,
        "measured_tokens": found.sampled_tokens,
        "diverged": sum(bool(row["diverged"]) for row in rows),
    }


def _rounded(at_k: Mapping[str, Mapping[int, Interval | Difference]]) -> dict[str, Any]:
    return {
        figure: {
            str(k): {name: round(getattr(_interval(one), name), 5) for name in ("mean", "low", "high")}
            for k, one in by_k.items()
        }
        for figure, by_k in _named(at_k).items()
    }


def _interval(found: Interval | Difference) -> Interval:
    return found.interval if isinstance(found, Difference) else found


def report_markdown(results: StudyResults, pictures: Sequence[str] = ()) -> str:
    """Return the verdict and the tables of a study."""
    parts = [
        f"# {_title(results)}\n",
        "\n".join(f"- {sentence}" for sentence in verdict(results)) + "\n",
        *(f"![{name}]({name})\n" for name in pictures),
        *itertools.starmap(markdown_table, _tables(results)),
    ]
    return "\n".join(parts)


def report_record(study: Study) -> dict[str, Any]:
    """Return the report of a study as the page shows it, from the rows that are exported so far."""
    export = Export(study.folder / "export", is_read_only=True)
    missing = sum(len(export.missing(study, arm)) for arm in study.arms)
    ended = len(export.searches), len(export.searches) + missing
    if not export.searches:
        return report(
            study.name, ended, [f"{len(export.trainings)} trainings have ended, no search yet."], []
        )
    results = summarise(study, export)
    parts = [chart(f"solved by {name}", "evaluations", curves) for name, curves in _budgets(results).items()]
    parts += [table(head[0] or "cost", head, rows) for head, rows in _tables(results)]
    return report(_title(results), ended, verdict(results), parts)


def _title(results: StudyResults) -> str:
    study, problems = results.study, len(results.problems)
    if study.test.tasks:
        return f"{study.name}: {problems} test tasks, answered"
    return f"{study.name}: {problems} problems, {study.evaluations} evaluations a search"


def _tables(results: StudyResults) -> Iterator[_Table]:
    yield from _at_k_tables(results)
    yield from _search_tables(results)
    yield _cost_table(results)
    grid = [
        [name, f"{point['learning_rate']:g}", f"{point['kl']:g}", f"{point['score']:.4f}",
         "chosen" if point["chosen"] else "diverged" if point["diverged"] else ""]
        for name, points in results.tuning.items() for point in points
    ]  # fmt: skip
    yield ["arm", "learning rate", "KL", "validation score", ""], grid


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _at_k_tables(results: StudyResults) -> Iterator[_Table]:
    head = [f"k = {k}" for k in results.study.ks]
    for figure, title in results.study.figures.items():
        shown = {arm.arm.name: arm.at_k[figure] for arm in results.arms if figure in arm.at_k}
        # On mazes no answer is ever right: a table of zeros says nothing, nor one of rows without the figure.
        if (results.study.test.tasks or not shown) and not any(
            one.mean for by_k in shown.values() for one in by_k.values()
        ):
            continue
        lines = [[name, *(_text(one, 3) for one in by_k.values())] for name, by_k in shown.items()]
        yield ([title, *head], lines)
        for reference in results.study.references:
            lines = [
                [one.arm, *(_text(found, 3) for found in one.at_k[figure].values())]
                for one in results.comparisons
                if one.reference == reference and figure in one.at_k
            ]
            if lines:
                yield ([f"{title} minus {reference}'s", *head], lines)


def _search_tables(results: StudyResults) -> Iterator[_Table]:
    references = results.study.references
    pairs = {(one.arm, one.reference): one for one in results.comparisons}
    for strategy in results.study.strategies:
        counts, against = [], []
        for arm in results.arms:
            name, found = arm.arm.name, arm.searched.get(strategy.name)
            if found is not None:
                solved = (_text(one, 1) for one in (found.solved, found.area, found.solved_rows))
                counts.append([name, str(len(found.seeds)), *solved, str(len(found.solved_in_any))])
                compared = [_compared(pairs.get((name, one)), strategy.name) for one in references]
                against.append([name, *itertools.chain(*compared)])
        head = [f"solved by {strategy.name}, of {len(results.problems)}", "seeds", "with one seed"]
        yield ([*head, "mean over budgets", "training rows alone", "with any seed"], counts)
        heads = [
            (f"minus {name}'s", "mean over budgets", f"unlocked against {name} / the other way")
            for name in references
        ]
        yield ([f"{strategy.name}, compared", *itertools.chain(*heads)], against)
    lines = [
        [one.arm, one.reference, strategy, *_compared(one, strategy)]
        for one in results.comparisons
        if one.reference not in references
        for strategy in one.solved
    ]
    if lines:
        head = ["further pairs", "against", "strategy", "problems solved", "mean over budgets"]
        head.append("unlocked / the other way")
        yield (head, lines)
    lines = [[one.arm, one.strategy, one.reference, _text(one.solved, 1)] for one in results.strategies]
    if lines:
        yield (["same models", "strategy", "against", "problems solved"], lines)


def _compared(found: Comparison | None, strategy: str) -> tuple[str, str, str]:
    """Return the differences in problems solved and what is unlocked either way; dashes without a pair."""
    if found is None or strategy not in found.solved:
        return "–", "–", "–"
    ours, theirs = found.unlocked[strategy], found.locked[strategy]
    ends = f"[{ours.interval.low:.0f}, {ours.interval.high:.0f}]"
    differences = _text(found.solved[strategy], 1), _text(found.area[strategy], 1)
    return *differences, f"{len(ours.problems)} {ends} / {len(theirs.problems)}"


def _cost_table(results: StudyResults) -> _Table:
    lines, has_volume = [], any(arm.hypervolume is not None for arm in results.arms)
    for arm in results.arms:
        training, logs = "–", [row for row in arm.trainings if row["tokens"]]
        if logs:
            tokens, seconds = (np.mean([row[name] for row in logs]) for name in ("tokens", "cpu_seconds"))
            training = f"{tokens:,.0f} tokens, {seconds:.0f} CPU s"
        searches = "; ".join(
            f"{name} {found.tokens:,.0f} tokens, {found.seconds:.0f} s"
            for name, found in arm.searched.items()
        )
        different = [f"{value:.2f}" if arm.at_k else "–" for value in (arm.diversity, arm.distinct_share)]
        if has_volume:
            different.append("–" if arm.hypervolume is None else f"{arm.hypervolume:.3f}")
        lines.append([arm.arm.name, training, searches, *different])
    spent = ["one training", "searches of one seed"]
    of_answers = ["diversity of i.i.d. answers", "distinct i.i.d. answers"]
    return (["", *spent, *of_answers, *["their hypervolume"] * has_volume], lines)


def _text(found: Interval | Difference, digits: int) -> str:
    """Return an interval; one of a difference with signs, and bold if it is clear."""
    sign = "+" if isinstance(found, Difference) else ""
    text = f"{_interval(found):{sign}.{digits}f}"
    return f"**{text}**" if isinstance(found, Difference) and found.is_clear else text


def _pictures(folder: Path, results: StudyResults) -> Iterator[Path]:
    ks, reference = results.study.ks, results.study.references[0]
    note = "Bands: 95 % bootstrap over problems and seeds, paired by problem. Filled: it excludes zero."
    for figure, title in results.study.figures.items():
        curves = [
            KCurve(one.arm, ks, tuple(found.interval for found in one.at_k[figure].values()))
            for one in results.comparisons
            if one.reference == reference and figure in one.at_k
        ]
        if curves and figure != "pair_at_k":
            path = folder / f"{figure.replace('_', '-')}.png"
            above = f"{title} of i.i.d. answers, {results.study.name}"
            write_arms(path, curves, reference=reference, title=above, note=note, figure_name=title)
            yield path
    if panels := _budgets(results):
        path, has_bands = folder / "solved-by-budget.png", max(map(len, panels.values())) <= MOST_BANDS
        bands = "Bands: 95 % bootstrap over problems and seeds."
        note = "Right on all training and held-out rows. "
        note += bands if has_bands else "Intervals are in results.json."
        title = f"Problems solved with one seed, of {len(results.problems)}"
        write_budgets(path, panels, title=title, note=note)
        yield path
    logs: dict[str, tuple[str, list[Any]]] = {}  # arms may share their trainings
    for arm in results.arms:
        rows = [row for row in arm.trainings if row.get("log")]
        if rows:
            logs.setdefault(rows[0]["training"], (arm.arm.name, [row["log"] for row in rows]))
    if logs:
        path = folder / "training.png"
        lines = {
            title: [_mean_line(name, of_arm, figure) for name, of_arm in logs.values()]
            for title, figure in _LOGGED.items()
        }
        note = "Means over an arm's trainings and ten steps."
        write_training(path, lines, title="During training", note=note)
        yield path


def _budgets(results: StudyResults) -> dict[str, list[KCurve]]:
    """Return by strategy the problems that each arm solves against evaluations."""
    panels: dict[str, list[KCurve]] = {}
    for strategy in (one.name for one in results.study.strategies):
        for arm in results.arms:
            if strategy in arm.searched:
                after = arm.searched[strategy].after
                curve = KCurve(arm.arm.name, tuple(after), tuple(after.values()))
                panels.setdefault(strategy, []).append(curve)
    return panels


def _mean_line(name: str, logs: Sequence[Any], figure: str) -> StepCurve:
    """Return an arm's figure against its steps: the mean over trainings, and over the last ten steps."""
    steps = range(min(map(len, logs)))
    means = [sum(log[step][figure] for log in logs) / len(logs) for step in steps]
    windows = [means[max(0, step - 9) : step + 1] for step in steps]
    return StepCurve(name, steps, [sum(window) / len(window) for window in windows])
