"""The order of objectives on mazes in which no route serves everyone: tables from rows of `evovpo measure`.

    python tests/bench/conflict_order.py docs/results/maze-conflict/seed-*.json --png covered.png

Each file is what one seed's `evovpo measure --json` printed: the policies side by side, at each temperature.
The page beside the rows has the commands. Each seed is a training of its own: the last table has them side
by side, with paired intervals over the mazes.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from evovpo.analysis.statistics import Interval
from evovpo.reports.pictures import KCurve, write_budgets

FIGURES = (
    *((f"mean best@{k}", "best_at_k", k) for k in ("1", "12", "32")),
    *((f"E_w best@{k}", "expected_best_at_k", k) for k in ("6", "12", "32")),
    ("union@12", "union_at_k", "12"),
)


def arm(policy: dict) -> str:
    """Return the objective that a folder is named after: `vpo-at-k` of `order/vpo-at-k-2`."""
    return Path(policy["model"]).name.rpartition("-")[0]


def tables(seeds: Sequence[dict]) -> Iterator[str]:
    """Yield a table for each temperature, and one of the paired differences to the first policy."""
    policies = [seed["policies"] for seed in seeds]
    for place, first in enumerate(policies[0]):
        if any(arm(one[place]) != arm(first) for one in policies):
            raise SystemExit("the files do not hold the same objectives in the same order")
    for temperature in dict.fromkeys(one["temperature"] for one in policies[0]):
        yield f"\n**T = {temperature:g}**, means over {len(seeds)} seeds\n"
        columns = [name for name, _, _ in FIGURES]
        yield f"| objective | {' | '.join(columns)} | diversity |"
        yield "|---" * (len(columns) + 2) + "|"
        for place, policy in enumerate(policies[0]):
            if policy["temperature"] == temperature:
                ones = [one[place] for one in policies]
                values = [[one[figure][k]["mean"] for one in ones] for _, figure, k in FIGURES]
                values.append([one["diversity"]["mean"] for one in ones])
                cells = [f"{np.mean(value):.3f}" for value in values]
                yield f"| {arm(policy)} | {' | '.join(cells)} |"
    first = policies[0][0]
    yield f"\n**E_w best@12 minus that of {arm(first)} at T = {first['temperature']:g}**, each seed\n"
    yield "| objective | T | " + " | ".join(f"file {number + 1}" for number in range(len(seeds))) + " |"
    yield "|---" * (2 + len(seeds)) + "|"
    for place, one in enumerate(seeds[0]["minus_first"]):
        found = [seed["minus_first"][place]["expected_best_at_k"]["12"] for seed in seeds]
        cells = [f"{value['mean']:+.3f} [{value['low']:+.3f}, {value['high']:+.3f}]" for value in found]
        yield f"| {arm(one)} | {one['temperature']:g} | {' | '.join(cells)} |"


def draw(path: Path, seeds: Sequence[dict]) -> None:
    """Write E_w best@k against k, a panel for each temperature."""
    panels: dict[str, list[KCurve]] = {}
    for place, policy in enumerate(seeds[0]["policies"]):
        found = [seed["policies"][place]["expected_best_at_k"] for seed in seeds]
        means = [
            Interval(*(float(np.mean([one[k][end] for one in found])) for end in ("mean", "low", "high")), 0)
            for k in found[0]
        ]
        curve = KCurve(arm(policy), tuple(map(int, found[0])), tuple(means))
        panels.setdefault(f"T = {policy['temperature']:g}", []).append(curve)
    note = f"Means over {len(seeds)} seeds, of figures and of the ends of 95 % intervals over mazes."
    write_budgets(
        path, panels, title="E_w best@k where no route has both rewards", note=note, budget="routes"
    )


def main() -> None:
    """Print the tables, and draw."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--png", type=Path)
    options = parser.parse_args()
    seeds = [json.loads(file.read_text(encoding="utf-8")) for file in options.files]
    print("\n".join(tables(seeds)))
    if options.png:
        draw(options.png, seeds)


if __name__ == "__main__":
    main()
