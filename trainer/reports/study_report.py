"""The report of a study: tables in Markdown, pictures, and all figures as JSON, beside the study's file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from evovpo.analysis.statistics import Interval
from evovpo.experiments.intervals import Difference, Unlocked
from evovpo.reports.pictures import MOST_BANDS, Curve, Line, write_arms, write_budgets, write_training
from evovpo.types import Json
from trainer.experiments.records import START
from trainer.experiments.results import ArmResult, Comparison, Results, Searched
from trainer.experiments.verdict import verdict

_LOGGED = (
    ("diversity", "diversity of a group"),
    ("distinct", "distinct answers of a group"),
    ("entropy", "entropy, nats a token"),
    ("zero_spread_share", "groups without spread"),
)


def write_report(results: Results) -> tuple[str, list[Path]]:
    """Write `report.md`, `results.json` and pictures where the rows are; return text and files."""
    folder = results.study.folder
    pictures = list(_pictures(folder, results))
    text = report_markdown(results, [picture.name for picture in pictures])
    (folder / "report.md").write_text(text)
    (folder / "results.json").write_text(json.dumps(report_json(results), indent=1) + "\n")
    return text, [folder / "report.md", folder / "results.json", *pictures]


# ---------------------------------------------------------------- for machines


def report_json(results: Results) -> dict[str, Json]:
    """Return the figures of all arms and the verdict; intervals as `value`, `low`, `high`.

    `solved_by_search` and `unlocked` (against the first reference, which unlocks nothing against itself) are
    of the study's first strategy; under `by_strategy` are those of all.
    """
    if results.study.test_tasks:
        return _test_json(results)
    titles = results.study.figures
    main = results.study.strategies[0].name
    reference = results.study.references[0]
    against = {one.arm: one.unlocked for one in results.comparisons if one.reference == reference}
    against[reference] = {
        name: Unlocked((), Interval(0.0, 0.0, 0.0, len(results.problems)), len(found.seeds))
        for name, found in results.arm(reference).searched.items()
    }
    arms: dict[str, Json] = {}
    for found in results.arms:
        gained = against.get(found.arm.name, {})
        arms[found.arm.name] = {
            "seeds": len(found.searched[main].seeds) if main in found.searched else 0,
            **{
                figure: {str(k): _interval_json(one) for k, one in found.at_k.get(figure, {}).items()}
                for figure in titles
            },
            "solved_by_search": _solved_json(found.searched.get(main)),
            "unlocked": _unlocked_json(gained.get(main)),
            "by_strategy": {
                name: {"solved_by_search": _solved_json(one), "unlocked": _unlocked_json(gained.get(name))}
                for name, one in found.searched.items()
            },
            "distinct_share": found.distinct_share,
            "diversity": found.diversity,
            "missing": found.missing,
        }
    comparisons: list[Json] = [
        {
            "arm": one.arm,
            "reference": one.reference,
            **{
                figure: {str(k): _difference_json(d) for k, d in one.at_k.get(figure, {}).items()}
                for figure in titles
            },
            "solved_by_search": {name: _difference_json(d) for name, d in one.solved.items()},
            "unlocked": {name: _unlocked_json(gained) for name, gained in one.unlocked.items()},
            "locked": {name: _unlocked_json(lost) for name, lost in one.locked.items()},
        }
        for one in results.comparisons
    ]
    said: list[Json] = [*verdict(results)]
    strategies: list[Json] = [
        {"arm": one.arm, "strategy": one.strategy, "reference": one.reference, **_difference_json(one.solved)}
        for one in results.strategies
    ]
    return {
        "study": results.study.name,
        "problems": len(results.problems),
        "evaluations": results.study.evaluations,
        "reference": reference,
        "strategy": main,
        "arms": arms,
        "comparisons": comparisons,
        "strategies": strategies,
        "verdict": said,
    }


def _interval_json(interval: Interval) -> dict[str, Json]:
    return {"value": interval.mean, "low": interval.low, "high": interval.high}


def _difference_json(found: Difference) -> dict[str, Json]:
    return {**_interval_json(found.interval), "p": found.p, "clear": found.is_clear}


def _unlocked_json(found: Unlocked | None) -> Json:
    if found is None:
        return None
    return {**_interval_json(found.interval), "seeds": found.seeds, "problems": list(found.problems)}


def _solved_json(found: Searched | None) -> Json:
    if found is None:
        return None
    return {
        **_interval_json(found.solved),
        "solved_train": _interval_json(found.solved_rows),
        "solved_heldout": _interval_json(found.solved),
        "training_rows_only": _interval_json(found.solved_rows),
        "solved_in_any_seed": list(found.solved_in_any),
        "seeds": len(found.seeds),
        "after": {
            str(n): _interval_json(one)
            for n, one in zip(found.curve.evaluations, found.curve.solved, strict=True)
        },
        "tokens": found.tokens,
        "seconds": found.seconds,
        "training_seconds": found.training_seconds,
    }


def _test_json(results: Results) -> dict[str, Json]:
    """Return the figures of a study on test tasks; intervals as `mean`, `low`, `high`.

    `minus_start` compares with the start model asked for single answers: independent sampling, the stronger
    baseline; `minus_own_start` with the start model asked for what the arm is asked.
    """
    study = results.study
    budget = study.budget._asdict()
    starts = {f"m = {one.arm.search_answers}": one for one in results.arms if one.arm.model == START}
    single = min(starts.values(), key=lambda one: one.arm.search_answers).arm.name
    pairs = {(one.arm, one.reference): one for one in results.comparisons}
    arms: dict[str, Json] = {}
    for one in results.arms:
        if one.arm.arm is None:
            continue
        own = starts.get(f"m = {one.arm.search_answers}")
        references = {"minus_start": single, "minus_grpo": "grpo"}
        if own is not None:
            references["minus_own_start"] = own.arm.name
        arms[one.arm.name] = {
            **_test_figures(one),
            "logs": [row["log"] for row in one.trainings],
            **{
                key: {
                    figure: {str(k): _mean_json(d.interval) for k, d in by_k.items()}
                    for figure, by_k in pairs[one.arm.name, reference].at_k.items()
                }
                for key, reference in references.items()
                if (one.arm.name, reference) in pairs
            },
        }
    return {
        "settings": {
            "budget": dict(budget),
            "learning_rates": list(study.learning_rates),
            "kls": list(study.kls),
            "seeds": study.seeds,
            "validation_tasks": study.tuning_tasks,
            "test_tasks": study.test_tasks,
            "ks": list(study.ks),
            "start": str(study.start),
        },
        "ks": list(study.ks),
        "grid": {name: [dict(point) for point in points] for name, points in results.tuning.items()},
        "start": {name: _test_figures(one) for name, one in starts.items()},
        "arms": arms,
        "verdict": [*verdict(results)],
    }


def _test_figures(found: ArmResult) -> dict[str, Json]:
    rows = found.trainings
    return {
        **{
            figure: {str(k): _mean_json(one) for k, one in by_k.items()}
            for figure, by_k in found.at_k.items()
        },
        "diversity": found.diversity,
        "distinct_share": found.distinct_share,
        "tokens": float(np.mean([row["tokens"] for row in rows])) if rows else 0.0,
        "steps": float(np.mean([row["steps"] for row in rows])) if rows else 0.0,
        "measured_tokens": found.sampled_tokens,
        "diverged": sum(bool(row["diverged"]) for row in rows),
    }


def _mean_json(interval: Interval) -> dict[str, Json]:
    return {name: round(getattr(interval, name), 5) for name in ("mean", "low", "high")}


# ---------------------------------------------------------------- for people


def report_markdown(results: Results, pictures: Sequence[str] = ()) -> str:
    """Return the verdict and the tables of a study."""
    study = results.study
    spent = "answered" if study.test_tasks else f"{study.evaluations} evaluations a search"
    what = "test tasks" if study.test_tasks else "problems"
    parts = [f"# {study.name}: {len(results.problems)} {what}, {spent}\n"]
    parts.append("\n".join(f"- {sentence}" for sentence in verdict(results)) + "\n")
    parts += [f"![{name}]({name})\n" for name in pictures]
    parts += _at_k_tables(results)
    parts += _search_tables(results)
    parts.append(_cost_table(results))
    lines = [
        [name, f"{point['learning_rate']:g}", f"{point['kl']:g}", f"{point['score']:.4f}",
         "chosen" if point["chosen"] else "diverged" if point["diverged"] else ""]
        for name, points in results.tuning.items() for point in points
    ]  # fmt: skip
    parts.append(table(["arm", "learning rate", "KL", "validation score", ""], lines))
    return "\n".join(parts)


def _at_k_tables(results: Results) -> Iterator[str]:
    ks = results.study.ks
    head = [f"k = {k}" for k in ks]
    for figure, title in results.study.figures.items():
        shown = [arm for arm in results.arms if arm.at_k]
        # On mazes no answer is ever right: a table of zeros says nothing.
        if results.study.test_tasks and not any(
            one.mean for arm in shown for one in arm.at_k[figure].values()
        ):
            continue
        yield table(
            [title, *head], [[arm.arm.name, *(_plain(arm.at_k[figure][k], 3) for k in ks)] for arm in shown]
        )
        for reference in results.study.references:
            lines = [
                [one.arm, *(_signed(one.at_k[figure][k], 3) for k in ks)]
                for one in results.comparisons
                if one.reference == reference and one.at_k
            ]
            if lines:
                yield table([f"{title} minus {reference}'s", *head], lines)


def _search_tables(results: Results) -> Iterator[str]:
    for strategy in results.study.strategies:
        lines = []
        for arm in results.arms:
            found = arm.searched.get(strategy.name)
            if found is None:
                continue
            comparisons = {one.reference: one for one in results.comparisons if one.arm == arm.arm.name}
            lines.append(
                [
                    arm.arm.name,
                    str(len(found.seeds)),
                    _plain(found.solved, 1),
                    _plain(found.solved_rows, 1),
                    str(len(found.solved_in_any)),
                    *(
                        _signed(comparisons[name].solved[strategy.name], 1)
                        if name in comparisons and strategy.name in comparisons[name].solved
                        else "–"
                        for name in results.study.references
                    ),
                    *(_gain(comparisons, name, strategy.name) for name in results.study.references),
                ]
            )
        yield table(
            [
                f"solved by {strategy.name}, of {len(results.problems)}",
                "seeds",
                "solved with one seed",
                "training rows only",
                "with any seed",
                *(f"minus {name}'s" for name in results.study.references),
                *(f"unlocked against {name} / the other way" for name in results.study.references),
            ],
            lines,
        )
    lines = [
        [one.arm, one.reference, strategy, _signed(one.solved[strategy], 1),
         _gain({one.reference: one}, one.reference, strategy)]
        for one in results.comparisons if one.reference not in results.study.references
        for strategy in one.solved
    ]  # fmt: skip
    if lines:
        yield table(
            ["further pairs", "against", "strategy", "problems solved", "unlocked / the other way"], lines
        )
    lines = [[one.arm, one.strategy, one.reference, _signed(one.solved, 1)] for one in results.strategies]
    if lines:
        yield table(["same models", "strategy", "against", "problems solved"], lines)


def _gain(comparisons: Mapping[str, Comparison], reference: str, strategy: str) -> str:
    if reference not in comparisons or strategy not in comparisons[reference].unlocked:
        return "–"
    found = comparisons[reference]
    ours, theirs = found.unlocked[strategy], found.locked[strategy]
    return (
        f"{len(ours.problems)} [{ours.interval.low:.0f}, {ours.interval.high:.0f}] / {len(theirs.problems)}"
    )


def _cost_table(results: Results) -> str:
    lines = []
    for arm in results.arms:
        logs = [row for row in arm.trainings if row["tokens"]]
        training = (
            f"{np.mean([row['tokens'] for row in logs]):,.0f} tokens, "
            f"{np.mean([row['cpu_seconds'] for row in logs]):.0f} CPU s"
            if logs
            else "–"
        )
        searches = "; ".join(
            f"{name} {found.tokens:,.0f} tokens, {found.seconds:.0f} s"
            + (f" and {found.training_seconds:.0f} CPU s of training" if found.training_seconds else "")
            for name, found in arm.searched.items()
        )
        different = [f"{value:.2f}" if arm.at_k else "–" for value in (arm.diversity, arm.distinct_share)]
        lines.append([arm.arm.name, training, searches, *different])
    return table(
        [
            "",
            "one training",
            "searches of one seed",
            "diversity of i.i.d. answers",
            "distinct i.i.d. answers",
        ],
        lines,
    )


def _plain(interval: Interval, digits: int) -> str:
    return f"{interval.mean:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def _signed(found: Difference, digits: int) -> str:
    interval = found.interval
    text = f"{interval.mean:+.{digits}f} [{interval.low:+.{digits}f}, {interval.high:+.{digits}f}]"
    return f"**{text}**" if found.is_clear else text


# ---------------------------------------------------------------- pictures


def _pictures(folder: Path, results: Results) -> Iterator[Path]:
    ks = results.study.ks
    reference = results.study.references[0]
    note = "Bands: 95 % bootstrap over problems and seeds, paired by problem. Filled: it excludes zero."
    for figure, title in results.study.figures.items():
        curves = [
            Curve(one.arm, ks, tuple(one.at_k[figure][k].interval for k in ks))
            for one in results.comparisons
            if one.reference == reference and one.at_k
        ]
        if curves:
            path = folder / f"{figure.replace('_', '-')}.png"
            write_arms(
                path,
                curves,
                reference=reference,
                title=f"{title} of i.i.d. answers, {results.study.name}",
                note=note,
                figure_name=title,
            )
            yield path
    panels = {
        strategy.name: [
            Curve(arm.arm.name, found.curve.evaluations, found.curve.solved)
            for arm in results.arms
            if (found := arm.searched.get(strategy.name)) is not None
        ]
        for strategy in results.study.strategies
    }
    if any(panels.values()):
        path = folder / "solved-by-budget.png"
        write_budgets(
            path,
            {name: curves for name, curves in panels.items() if curves},
            title=f"Problems solved with one seed, of {len(results.problems)}",
            note="Right on all training and held-out rows. "
            + (
                "Bands: 95 % bootstrap over problems and seeds."
                if max(map(len, panels.values())) <= MOST_BANDS
                else "Intervals are in results.json."
            ),
        )
        yield path
    lines = {
        title: [mean_line(arm.arm.name, _logged(arm, figure)) for arm in _with_logs(results)]
        for figure, title in _LOGGED
    }
    if any(lines.values()):
        path = folder / "training.png"
        write_training(
            path, lines, title="During training", note="Means over an arm's trainings and ten steps."
        )
        yield path


def _with_logs(results: Results) -> list[ArmResult]:
    """Return the trained arms, one of those that share their trainings."""
    found: dict[str, ArmResult] = {}
    for arm in results.arms:
        rows = [row for row in arm.trainings if row.get("log")]
        if rows:
            found.setdefault(rows[0]["training"], arm)
    return list(found.values())


def _logged(arm: ArmResult, figure: str) -> list[list[float]]:
    """Return a figure of each step, of each of an arm's trainings."""
    return [[step[figure] for step in row["log"]] for row in arm.trainings if row.get("log")]


def mean_line(name: str, trainings: Sequence[Sequence[float]], width: int = 10) -> Line:
    """Return an arm's figure against its steps: the mean over trainings, and over the last `width` steps."""
    steps = min(map(len, trainings))
    means = [sum(values[step] for values in trainings) / len(trainings) for step in range(steps)]
    windows = [means[max(0, step - width + 1) : step + 1] for step in range(steps)]
    return Line(name, range(steps), [sum(window) / len(window) for window in windows])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
