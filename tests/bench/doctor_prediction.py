"""How well the doctor's prediction agrees with what trainings gained: a table and a picture.

    python tests/bench/doctor_prediction.py --sample maze strings   # rows: answers of the start models
    python tests/bench/doctor_prediction.py                         # the table and the picture, from rows

Predicted: from 24 answers of the start model to each of 32 training tasks of a domain, which were never part
of a measurement. Measured: E_w best@6 of an objective's arm of single answers minus the start model's, in
tables of published studies (`docs/results/*.md`) and in the `results.json` of studies on test tasks.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import numpy as np

from evovpo.analysis.doctor.prediction import OBJECTIVES, predict
from evovpo.files import write_json

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
ROWS = RESULTS / "doctor-prediction"
K, TASKS, ANSWERS = 6, 32, 24
STUDIES = {
    "maze": ("maze", "maze-study.md"),
    "strings": ("strings", "strings-study.md"),
    "maze-conflict": ("maze-conflict", "maze-conflict-study/results.json"),
}
"""The domain whose start model is sampled, and the published figures, left out where there are none."""
HEAD = "| E_w best@k under random weightings minus the start model's single answers' |"


def sample(name: str) -> None:
    """Write the reward vectors of answers of a domain's start model, different ones with their counts."""
    from trainer.domains.on_policy import load_start_model, measure
    from trainer.domains.tokens import open_token_domain

    rows = []
    with open_token_domain(name) as domain:
        found = measure(load_start_model(domain), domain, domain.tasks("train", TASKS), 1, ANSWERS, seed=17)
    for task in found:
        vectors, counts = np.unique(task.measure.rewards_C_m_D[:, 0], axis=0, return_counts=True)
        rows.append({"vectors": np.round(vectors, 6).tolist(), "counts": counts.tolist()})
    ROWS.mkdir(parents=True, exist_ok=True)
    write_json(ROWS / f"{name}.json", rows)


def measured(path: Path) -> dict[str, tuple[float, float, float]]:
    """Return by arm of a published study the gain in E_w best@k, with the ends of its interval."""
    if path.suffix == ".json":
        arms = json.loads(path.read_text())["arms"]
        gains = {name: arm["minus_start"]["expected_at_k"][str(K)] for name, arm in arms.items()}
        return {name: (gain["mean"], gain["low"], gain["high"]) for name, gain in gains.items()}
    lines = iter(path.read_text().splitlines())
    head = next(line for line in lines if line.startswith(HEAD))
    column = head.split("|").index(f" k = {K} ")
    found = {}
    for line in lines:
        cells = line.split("|")
        if len(cells) <= column:
            break
        if "---" not in line:
            mean, low, high = map(float, re.findall(r"[+-][\d.]+", cells[column]))
            found[cells[1].strip()] = (mean, low, high)
    return found


def points() -> list[tuple[str, str, float, tuple[float, float, float]]]:
    """Return suite, objective, predicted and measured gain of all that is published."""
    found = []
    for suite, (domain, published) in STUDIES.items():
        if not (ROWS / f"{domain}.json").exists() or not (RESULTS / published).exists():
            continue
        rows = json.loads((ROWS / f"{domain}.json").read_text())
        pools = [[np.repeat(row["vectors"], row["counts"], axis=0)] for row in rows]
        gains = predict(pools, K).gains
        told = measured(RESULTS / published)
        found += [(suite, name, gains[name].expected_best, told[name]) for name in OBJECTIVES if name in told]
    return found


def draw(path: Path) -> None:
    """Write the picture: predicted against measured, a colour a suite."""
    from evovpo.reports import pictures

    figure = pictures.new_figure(6.4, 4.8)
    axes = figure.add_subplot()
    shown = points()
    for number, suite in enumerate(dict.fromkeys(point[0] for point in shown)):
        part = [point for point in shown if point[0] == suite]
        means = [told[0] for *_, told in part]
        ends = np.abs(np.array([told[1:] for *_, told in part]) - np.array(means)[:, None]).T
        predicted = [point[2] for point in part]
        axes.errorbar(predicted, means, yerr=ends, fmt="o", color=f"C{number}", label=suite, capsize=3)
        for place, (_, name, x, told) in enumerate(part):
            axes.annotate(
                name, (x, told[0]), xytext=(6, 12 * place - 8), textcoords="offset points", fontsize=9
            )
    ends_of_both = (0.0, max(value for point in shown for value in (point[2], point[3][2])))
    axes.plot(ends_of_both, ends_of_both, color="#C9C9C9", linewidth=1, zorder=0, label="as predicted")
    axes.set_xlabel(f"predicted gain in E_w best@{K}")
    axes.set_ylabel("measured gain, 95 %")
    axes.legend(frameon=False)
    pictures.write_png(figure, path, "another folder")


def main() -> None:
    """Command line: sample domains, or print the table and write the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", nargs="+", metavar="DOMAIN", help="write the rows of these domains")
    parser.add_argument("--png", type=Path, default=ROWS / "predicted.png")
    options = parser.parse_args()
    if options.sample:
        for name in options.sample:
            sample(name)
        return
    for suite, name, predicted, (mean, low, high) in points():
        print(f"| {suite} | `{name}` | {predicted:+.3f} | {mean:+.3f} [{low:+.3f}, {high:+.3f}] |")
    draw(options.png)


if __name__ == "__main__":
    main()
