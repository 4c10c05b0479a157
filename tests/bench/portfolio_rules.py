"""Do a few packing rules together do better on unseen instances than the best single one?

    evovpo evolve portfolio/packing --evaluations 320 --store packing.db
    python tests/bench/portfolio_rules.py portfolio/packing --store packing.db --out docs/results/portfolio

The portfolios of 1, 2, 4 and 8 rules of a run (`evovpo show --portfolio`, alpha 0.1) are chosen by the
rewards of the search, and pack as many new instances of every family. A portfolio is used in two ways: its
rule *by family* is the one that was best there in the search, and *by instance* all its rules pack, and the
best packing counts. Beside it stand the rule with the best mean reward (`single`), best fit, first fit, and
the rule that FunSearch published for OR3. `rows.jsonl` has one line an instance: the excess over the lower
bound, by rule.
"""

import argparse
import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np

from evovpo.analysis.statistics import Interval, bootstrap_interval
from evovpo.config import Config
from evovpo.judging.evaluator import open_sandbox
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import resolve_problem
from evovpo.reports.pictures import Curve, write_budgets
from evovpo.reports.portfolio import read_portfolio
from evovpo.runs.stored import find_run, stored_run
from evovpo.store import Store

SIZES = (1, 2, 4, 8)
ALPHA = 0.1
"""Of the weightings: an instance is of one family, so nearly one component counts at a time."""
FUNSEARCH = ((2, 4), (3, 3), (5, 2), (7, 1), (9, 0.9), (12, 0.95), (15, 0.97), (21, 0.98), (1000, 0.99))
"""Romera-Paredes et al., Nature 625 (2024): up to which gap left in a bin, its priority."""


def published(item: int, remaining: int) -> float:
    return next(value for gap, value in FUNSEARCH if remaining - item <= gap)


def unseen(scorer: dict[str, Any], count: int) -> dict[str, list[list[int]]]:
    """Return as many new instances of each family."""
    found: dict[str, list[list[int]]] = {}
    part = 0
    while not found or min(map(len, found.values())) < count:
        for family, items in scorer["instances"](f"unseen-{part}").items():
            found[family] = [*found.get(family, []), *items][:count]
        part += 1
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("problem", help="a bin packing problem")
    parser.add_argument("--store", required=True)
    parser.add_argument("--run", default="latest")
    parser.add_argument("--instances", type=int, default=12, help="new ones of each family")
    parser.add_argument("--out", type=Path, required=True, help="folder of rows.jsonl and tables.md")
    options = parser.parse_args()
    folder = resolve_problem(options.problem)
    problem, scorer = load_problem(folder), runpy.run_path(str(folder / "score.py"))
    with Store.open(options.store, create=False) as store:
        view = stored_run(store, find_run(store, options.run))
        kept = {size: read_portfolio(store, view, size, ALPHA) for size in SIZES}
        assert view.best is not None
        sources = {"single": view.best.source} | {
            f"rule {place}": one.source for place, one in enumerate(kept[SIZES[-1]], 1)
        }
    pairs = scorer["PAIRS"]
    tables: dict[str, list[Any]] = {
        "best fit": [item - remaining for item, remaining in pairs],
        "first fit": [0] * len(pairs),
        "FunSearch": [published(*pair) for pair in pairs],
    }
    with open_sandbox(problem, Config()) as sandbox:
        for name, source in sources.items():
            result = sandbox.run(source, problem.entry, scorer["cases"](), problem.limits)
            assert result.outputs is not None, (name, result.detail)
            tables[name] = list(result.outputs)
    trained = {name: scorer["figures"](table) for name, table in tables.items()}
    rows = []
    for family, instances in unseen(scorer, options.instances).items():
        bounds = [scorer["lower_bound"](items) for items in instances]
        used = {
            name: scorer["bins_used"](instances, scorer["preferences"](table))
            for name, table in tables.items()
        }
        for number, bound in enumerate(bounds):
            excess = {name: round(bins[number] / bound - 1, 5) for name, bins in used.items()}
            rows.append({"family": family, "instance": number, "excess": excess})

    def by_instance(names: list[str]) -> list[float]:
        return [min(row["excess"][name] for name in names) for row in rows]

    def by_family(names: list[str]) -> list[float]:
        return [row["excess"][min(names, key=lambda name: trained[name][row["family"]])] for row in rows]

    fixed = ["best fit", "first fit", "FunSearch"]
    values = {name: by_instance([name]) for name in ("single", *fixed)}
    values |= {"the three fixed rules, by family": by_family(fixed)}
    values |= {"the three fixed rules, by instance": by_instance(fixed)}
    for size in SIZES:
        names = [f"rule {place}" for place in range(1, min(size, len(kept[size])) + 1)]
        values |= {f"portfolio of {size}, by family": by_family(names)}
        values |= {f"portfolio of {size}, by instance": by_instance(names)}
    lines = ["| on unseen instances | excess, % | minus the single rule [95 %] |", "|---|---|---|"]
    intervals = {}
    for name, found in values.items():
        less = 100 * (np.array([found]) - np.array([values["single"]]))
        interval = intervals[name] = bootstrap_interval(less, None, np.random.default_rng(0))
        said = f"{interval.mean:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]" if less.any() else "–"
        lines.append(f"| {name} | {100 * float(np.mean(found)):.2f} | {said} |")
    curves = []
    for way in ("by instance", "by family"):
        more = [intervals[f"portfolio of {size}, {way}"] for size in SIZES]
        saved = tuple(Interval(-one.mean, -one.high, -one.low, one.n) for one in more)
        curves.append(Curve(f"rule chosen {way}", SIZES, saved))
    note = f"Means over {len(rows)} unseen instances with 95 % intervals."
    panels, title = {"Points of excess saved": curves}, "Portfolios against the best single rule"
    options.out.mkdir(parents=True, exist_ok=True)
    write_budgets(options.out / "saved.png", panels, title=title, note=note, budget="rules kept")
    lines += ["", "| rule | share of weightings | E_w with those above it | program |", "|---|---|---|---|"]
    for place, one in enumerate(kept[SIZES[-1]], 1):
        returned = one.source.rpartition("return ")[2].strip().replace("|", "\\|")
        lines.append(f"| {place} | {one.share:.0%} | {one.together:.3f} | `{returned}` |")
    (options.out / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (options.out / "tables.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
