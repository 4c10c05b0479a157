"""The report of a study: Markdown tables, pictures, and all results as JSON, next to the study file."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from evovpo.analysis.statistics import Interval
from evovpo.experiments.break_even import UNITS
from evovpo.experiments.intervals import Difference, UnlockedProblems
from evovpo.experiments.results import SOLVED, SOLVED_ROWS, ArmRows, Comparison, area, named, solved_within
from evovpo.reports.pictures import MOST_BANDS, KCurve, StepCurve, write_arms, write_budgets, write_training
from evovpo.reports.text import markdown_table
from trainer.experiments.study import FIGURES, Study
from trainer.experiments.study_results import StudyResults, budgets
from trainer.reports.training import write_costs

_Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]
_LOGGED = {
    "diversity of a group": "diversity",
    "distinct answers of a group": "distinct",
    "entropy, nats a token": "entropy",
    "groups without spread": "zero_spread_share",
}


def write_report(results: StudyResults) -> tuple[str, list[Path]]:
    """Write `report.md`, `results.json` and pictures into the study's folder; return the text and paths."""
    folder = results.study.folder
    pictures = list(_pictures(folder, results))
    text = report_markdown(results, [picture.name for picture in pictures])
    (folder / "report.md").write_text(text)
    (folder / "results.json").write_text(json.dumps(report_json(results), indent=1) + "\n")
    return text, [folder / "report.md", folder / "results.json", *pictures]


def report_json(results: StudyResults) -> dict[str, Any]:
    """Return the results of all arms and the verdict as JSON; intervals have `value`, `low` and `high`.

    An arm's `solved_by_search` and `unlocked` (solved problems that the first reference arm does not solve)
    are those of the study's first strategy, or None without searches. `by_strategy` has both for every
    strategy.
    """
    study = results.study
    figures = {
        "study": study.name,
        "primary": study.primary,
        "problems": len(results.problems),
        "evaluations": study.evaluations,
        "reference": study.references[0],
        "strategy": study.strategies[0].name if study.strategies else None,
        "grid": results.tuning(),
        "arms": {arm.name: _arm_json(results, arm.name) for arm in study.arms},
        "comparisons": [_comparison_json(one) for one in results.comparisons],
        "strategies": [
            {
                "arm": ours.arm.proposer,
                "strategy": ours.arm.strategy,
                "reference": last.arm.strategy,
                **_json(ours.minus(last, SOLVED)),
            }
            for ours, last in results.strategies()
        ],
        "break_even": [one._asdict() for one in results.break_even()],
        "verdict": results.verdict(),
    }
    return {key: _json(value) for key, value in figures.items()}


def _arm_json(results: StudyResults, arm: str) -> dict[str, Any]:
    study, searched = results.study, results.searched(arm)
    main, reference = next((one.name for one in study.strategies), ""), study.references[0]
    trainings = results.trainings(arm)
    against = next((one for one in results.comparisons if (one.arm, one.reference) == (arm, reference)), None)
    by_strategy = {}
    for name, rows in searched.items():
        gained = None
        if arm == reference:
            gained = UnlockedProblems((), Interval(0.0, 0.0, 0.0, len(results.problems)), len(rows.seeds))
        elif against is not None and name in against.pairs:
            gained = rows.unlocks(against.pairs[name][1])
        by_strategy[name] = {"solved_by_search": _searched_json(rows), "unlocked": gained}
    return {
        "seeds": len(searched[main].seeds) if main in searched else 0,
        **_with_json_names(results.at_k(arm)),
        **by_strategy.get(main, {"solved_by_search": None, "unlocked": None}),
        "by_strategy": by_strategy,
        **_sampled(results.samples(arm)),
        "training_tokens": float(np.mean([row["tokens"] for row in trainings])) if trainings else 0.0,
        "diverged": sum(bool(row["diverged"]) for row in trainings),
        "missing": results.missing[arm],
    }


def _searched_json(rows: ArmRows) -> dict[str, Any]:
    points = budgets(rows.arm.evaluations)
    return {
        **_json(rows.mean(SOLVED)),
        "solved_train": rows.mean(SOLVED_ROWS),
        "solved_heldout": rows.mean(SOLVED),
        "training_rows_only": rows.mean(SOLVED_ROWS),
        "solved_in_any_seed": list(rows.solved_in_any()),
        "seeds": len(rows.seeds),
        "after": dict(zip(points, _solved_curve(rows), strict=True)),
        "area": rows.mean(area(points)),
        "tokens": rows.of_a_seed("tokens"),
        "seconds": rows.of_a_seed("seconds"),
    }


def _solved_curve(rows: ArmRows) -> tuple[Interval, ...]:
    return rows.curve([solved_within(point) for point in budgets(rows.arm.evaluations)])


def _comparison_json(found: Comparison) -> dict[str, Any]:
    pairs = found.pairs.items()
    return {
        "arm": found.arm,
        "reference": found.reference,
        **_with_json_names(found.at_k),
        "solved_by_search": {name: ours.minus(theirs, SOLVED) for name, (ours, theirs) in pairs},
        "area": {name: _area_minus(*pair) for name, pair in pairs},
        "unlocked": {name: ours.unlocks(theirs) for name, (ours, theirs) in pairs},
        "locked": {name: theirs.unlocks(ours) for name, (ours, theirs) in pairs},
    }


def _area_minus(ours: ArmRows, theirs: ArmRows) -> Difference:
    return ours.minus(theirs, area(budgets(ours.arm.evaluations)))


def _sampled(samples: ArmRows | None) -> dict[str, float | None]:
    """Return the means of the statistics that do not depend on k. `hypervolume` can be None."""
    found = dict.fromkeys(("distinct_share", "diversity"), 0.0) | {"hypervolume": None}
    if samples is None:
        return found
    return {name: float(samples.values(named(name)).mean()) if samples.has(name) else one
            for name, one in found.items()}  # fmt: skip


def _with_json_names(at_k: Mapping[str, Mapping[int, Any]]) -> dict[str, Mapping[int, Any]]:
    expected = {"expected_best_at_k": at_k["expected_at_k"]} if "expected_at_k" in at_k else {}
    return {"best_at_k": {}, "pass_at_k": {}, **at_k, **expected}


def _json(value: Any) -> Any:
    match value:
        case Interval():
            return {"value": value.mean, "low": value.low, "high": value.high}
        case Difference():
            return {**_json(value.interval), "p": value.p, "clear": value.is_clear}
        case UnlockedProblems():
            return {**_json(value.interval), "seeds": value.seeds, "problems": list(value.problems)}
        case Mapping():
            return {str(key): _json(one) for key, one in value.items()}
        case list():
            return [_json(one) for one in value]
    return value


def report_markdown(results: StudyResults, pictures: Sequence[str] = ()) -> str:
    parts = [
        f"# {_title(results)}\n",
        *([f"Primary figure, fixed beforehand: {primary}.\n"] if (primary := results.study.primary) else []),
        "\n".join(f"- {sentence}" for sentence in results.verdict()) + "\n",
        *(f"![{name}]({name})\n" for name in pictures),
        *itertools.starmap(markdown_table, _tables(results)),
    ]
    return "\n".join(parts)


def _title(results: StudyResults) -> str:
    study, problems = results.study, len(results.problems)
    if study.test.evaluations:
        return f"{study.name}: {problems} test tasks, {study.test.evaluations} evaluations a search"
    if study.test.tasks:
        return f"{study.name}: {problems} test tasks, answered"
    return f"{study.name}: {problems} problems, {study.evaluations} evaluations a search"


def _answers(study: Study) -> str:
    return "searches' answers" if study.test.evaluations else "i.i.d. answers"


def _tables(results: StudyResults) -> Iterator[_Table]:
    yield from _at_k_tables(results)
    yield from _search_tables(results)
    yield _cost_table(results)
    if results.costs():
        yield _break_even_table(results)
    grid = [
        [name, f"{point['learning_rate']:g}", f"{point['kl']:g}", f"{point['temperature']:g}",
         f"{point['score']:.4f}", "chosen" if point["chosen"] else "diverged" if point["diverged"] else ""]
        for name, points in results.tuning().items() for point in points
    ]  # fmt: skip
    yield ["arm", "learning rate", "KL", "temperature", "validation score", ""], grid


def _at_k_tables(results: StudyResults) -> Iterator[_Table]:
    head = [f"k = {k}" for k in results.study.ks]
    for figure, title in FIGURES.items():
        by_arm = {arm.name: results.at_k(arm.name) for arm in results.study.arms}
        shown = {name: at_k[figure] for name, at_k in by_arm.items() if figure in at_k}
        # On mazes no answer is ever right: skip tables of zeros, and of rows without the figure.
        if (results.study.test.tasks or not shown) and not any(
            one.mean for by_k in shown.values() for one in by_k.values()
        ):
            continue
        lines = [[name, *(f"{one:.3f}" for one in by_k.values())] for name, by_k in shown.items()]
        yield ([title, *head], lines)
        for reference in results.study.references:
            lines = [
                [name, *(f"{one:.3f}" for one in by_k.values())]
                for name, by_k in _minus(results, reference, figure).items()
            ]
            if lines:
                yield ([f"{title} minus {reference}'s", *head], lines)


def _minus(results: StudyResults, reference: str, figure: str) -> dict[str, Mapping[int, Difference]]:
    found = (one for one in results.comparisons if one.reference == reference)
    return {one.arm: one.at_k[figure] for one in found if figure in one.at_k}


def _search_tables(results: StudyResults) -> Iterator[_Table]:
    references = results.study.references
    pairs = {(one.arm, one.reference): one.pairs for one in results.comparisons}
    for strategy in (one.name for one in results.study.strategies):
        counts, against = [], []
        for name, rows in results.searched_by(strategy).items():
            figures = (SOLVED, area(budgets(rows.arm.evaluations)), SOLVED_ROWS)
            solved = (f"{rows.mean(figure):.1f}" for figure in figures)
            counts.append([name, str(len(rows.seeds)), *solved, str(len(rows.solved_in_any()))])
            compared = [_compared(pairs.get((name, one), {}).get(strategy)) for one in references]
            against.append([name, *itertools.chain(*compared)])
        head = [f"solved by {strategy}, of {len(results.problems)}", "seeds", "with one seed"]
        yield ([*head, "mean over budgets", "training rows alone", "with any seed"], counts)
        heads = [
            (f"minus {name}'s", "mean over budgets", f"unlocked against {name} / the other way")
            for name in references
        ]
        yield ([f"{strategy}, compared", *itertools.chain(*heads)], against)
    lines = [
        [one.arm, one.reference, strategy, *_compared(pair)]
        for one in results.comparisons
        if one.reference not in references
        for strategy, pair in one.pairs.items()
    ]
    if lines:
        head = ["further pairs", "against", "strategy", "problems solved", "mean over budgets"]
        head.append("unlocked / the other way")
        yield (head, lines)
    lines = [
        [ours.arm.proposer, ours.arm.strategy, last.arm.strategy, f"{ours.minus(last, SOLVED):.1f}"]
        for ours, last in results.strategies()
    ]
    if lines:
        yield (["same models", "strategy", "against", "problems solved"], lines)


def _compared(pair: tuple[ArmRows, ArmRows] | None) -> tuple[str, str, str]:
    if pair is None:
        return "–", "–", "–"
    ours, theirs = pair
    gained, lost = ours.unlocks(theirs), theirs.unlocks(ours)
    ends = f"[{gained.interval.low:.0f}, {gained.interval.high:.0f}]"
    differences = f"{ours.minus(theirs, SOLVED):.1f}", f"{_area_minus(ours, theirs):.1f}"
    return *differences, f"{len(gained.problems)} {ends} / {len(lost.problems)}"


def _cost_table(results: StudyResults) -> _Table:
    names = [arm.name for arm in results.study.arms]
    sampled = {name: _sampled(results.samples(name)) for name in names}
    lines, has_volume = [], any(one["hypervolume"] is not None for one in sampled.values())
    for name in names:
        training, logs = "–", [row for row in results.trainings(name) if row["tokens"]]
        if logs:
            tokens, seconds = (np.mean([row[field] for row in logs]) for field in ("tokens", "cpu_seconds"))
            training = f"{tokens:,.0f} tokens, {seconds:.0f} CPU s"
        searches = "; ".join(
            f"{strategy} {rows.of_a_seed('tokens'):,.0f} tokens, {rows.of_a_seed('seconds'):.0f} s"
            for strategy, rows in results.searched(name).items()
        )
        figures = [("diversity", 2), ("distinct_share", 2), *[("hypervolume", 3)] * has_volume]
        has_samples = bool(results.at_k(name))
        different = [
            f"{value:.{digits}f}" if has_samples and (value := sampled[name][field]) is not None else "–"
            for field, digits in figures
        ]
        lines.append([name, training, searches, *different])
    spent = ["one training", "searches of one seed"]
    answers = _answers(results.study)
    of_answers = [f"diversity of {answers}", f"distinct {answers}"]
    return (["", *spent, *of_answers, *["their hypervolume"] * has_volume], lines)


def _break_even_table(results: StudyResults) -> _Table:
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for one in results.break_even():
        found.setdefault((one.strategy, one.arm, one.reference), {})[one.unit] = str(one)
    lines = [[*key, *(by_unit.get(unit, "–") for unit in UNITS)] for key, by_unit in found.items()]
    units = [unit.replace("_", " ") for unit in UNITS]
    return (["training pays after so many problems", "arm", "against", *units], lines)


def _pictures(folder: Path, results: StudyResults) -> Iterator[Path]:
    ks, reference = results.study.ks, results.study.references[0]
    note = "Bands: 95 % bootstrap over problems and seeds, paired by problem. Filled: it excludes zero."
    for figure, title in FIGURES.items():
        curves = [
            KCurve(name, ks, tuple(one.interval for one in by_k.values()))
            for name, by_k in _minus(results, reference, figure).items()
        ]
        if curves and figure != "pair_at_k":
            path = folder / f"{figure.replace('_', '-')}.png"
            above = f"{title} of {_answers(results.study)}, {results.study.name}"
            write_arms(path, curves, reference=reference, title=above, note=note, figure_name=title)
            yield path
    panels = {
        strategy.name: [
            KCurve(name, tuple(budgets(rows.arm.evaluations)), _solved_curve(rows))
            for name, rows in results.searched_by(strategy.name).items()
        ]
        for strategy in results.study.strategies
    }
    if panels := {name: curves for name, curves in panels.items() if curves}:
        path, has_bands = folder / "solved-by-budget.png", max(map(len, panels.values())) <= MOST_BANDS
        bands = "Bands: 95 % bootstrap over problems and seeds."
        note = "Right on all training and held-out rows. "
        note += bands if has_bands else "Intervals are in results.json."
        title = f"Problems solved with one seed, of {len(results.problems)}"
        write_budgets(path, panels, title=title, note=note)
        yield path
    path = folder / "cost-per-solved.png"
    if write_costs(path, {f"{strategy}: {unit}": one for (strategy, unit), one in results.costs().items()}):
        yield path
    logs: dict[str, tuple[str, list[Any]]] = {}  # arms may share their trainings
    for arm in results.study.arms:
        rows = [row for row in results.trainings(arm.name) if row.get("log")]
        if rows:
            logs.setdefault(rows[0]["training"], (arm.name, [row["log"] for row in rows]))
    if logs:
        path = folder / "training.png"
        lines = {
            title: [_mean_line(name, of_arm, figure) for name, of_arm in logs.values()]
            for title, figure in _LOGGED.items()
        }
        note = "Means over an arm's trainings and ten steps."
        write_training(path, lines, title="During training", note=note)
        yield path


def _mean_line(name: str, logs: Sequence[Any], figure: str) -> StepCurve:
    steps = range(min(map(len, logs)))
    means = [sum(log[step][figure] for log in logs) / len(logs) for step in steps]
    windows = [means[max(0, step - 9) : step + 1] for step in steps]
    return StepCurve(name, steps, [sum(window) / len(window) for window in windows])
