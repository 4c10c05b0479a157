"""Solve a whole suite of problem folders with the model and with random sampling, at equal budgets.

    python tests/bench/suite_benchmark.py problems/strings --evaluations 1000 --seeds 0 1 2 --json

Every problem is one run for each proposer and seed, as `evovpo evolve` would do it (with joins).
`--write-suite` writes the measured difficulty, the model's share of unsolved runs, to
`suite.toml`. Resumable: finished runs are kept in `--progress FILE`.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from strings_benchmark import solve

from evovpo.config import Config
from evovpo.problem.folder import load_problem
from evovpo.runs.choices import open_proposer


def run_suite(
    folder: Path, proposers: list[str], seeds: list[int], settings: list[str], progress: Path | None
) -> dict[str, dict[str, Any]]:
    """Return results by `proposer/seed/problem`; prints one line a run to standard error."""
    done: dict[str, dict[str, Any]] = (
        json.loads(progress.read_text()) if progress and progress.exists() else {}
    )
    problems = [load_problem(path.parent) for path in sorted(folder.glob("*/problem.toml"))]
    for seed in seeds:
        for name in proposers:
            config = Config.load(None, [*settings, f"run.seed={seed}", f"proposer.name={name}"])
            for problem in problems:
                key = f"{name}/{seed}/{problem.id}"
                if key not in done:
                    done[key] = solve(problem, config, open_proposer(problem, config))
                    if progress:
                        progress.write_text(json.dumps(done))
                result = done[key]
                mark = "unseen too" if result["unseen"] else "train only" if result["solved"] else "-"
                print(f"{key}: {mark} after {result['programs']}", file=sys.stderr, flush=True)
    return done


def summarise(done: dict[str, dict[str, Any]], proposers: list[str], seeds: list[int]) -> dict[str, Any]:
    """Return counts a proposer and seed: solved on training rows, and on held-out rows too."""
    report: dict[str, Any] = {"problems": len({key.split("/", 2)[2] for key in done})}
    for name in proposers:
        rows = [
            [result for key, result in done.items() if key.startswith(f"{name}/{seed}/")] for seed in seeds
        ]
        report[name] = {
            "solved_train": [sum(row["solved"] for row in part) for part in rows],
            "solved_unseen": [sum(row["unseen"] for row in part) for part in rows],
            "solved_by_join": [sum(row["by_join"] for row in part) for part in rows],
            "executed": [sum(row["executed"] for row in part) for part in rows],
            "seconds": [round(sum(row["seconds"] for row in part), 1) for part in rows],
        }
    return report


def suite_text(folder: Path, done: dict[str, dict[str, Any]], seeds: list[int], evaluations: int) -> str:
    """Return `suite.toml`: every problem with the share of the model's runs that did not solve it."""
    lines = [
        "# Difficulty is measured: the share of runs of the built-in model (with joins) that did not solve",
        f"# the problem, held-out rows included, within {evaluations} evaluations, over {len(seeds)} seeds.",
        "# Made by tests/bench/suite_benchmark.py --write-suite.",
        "",
        "[suite]",
        f'name = "{folder.name}"',
        'description = "Columns of text: string functions from examples."',
    ]
    for path in sorted(folder.glob("*/problem.toml")):
        name = path.parent.name
        solved = [done[f"local/{seed}/{folder.name}/{name}"]["unseen"] for seed in seeds]
        difficulty = 1 - sum(solved) / len(solved)
        lines += ["", "[[problems]]", f'path = "{name}"', f"difficulty = {difficulty:.2f}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--evaluations", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--proposers", nargs="+", choices=("local", "random"), default=["local", "random"])
    parser.add_argument("--model", default="", help="model folder; the built-in one by default")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="further settings"
    )
    parser.add_argument("--progress", type=Path, help="file that keeps finished runs")
    parser.add_argument("--write-suite", action="store_true", help="write FOLDER/suite.toml")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    started = time.monotonic()
    settings = [f"search.evaluations={options.evaluations}", f"proposer.model={options.model}", *options.set]
    done = run_suite(options.folder, options.proposers, options.seeds, settings, options.progress)
    report = summarise(done, options.proposers, options.seeds) | {
        "seconds": round(time.monotonic() - started, 1)
    }
    if options.write_suite:
        (options.folder / "suite.toml").write_text(
            suite_text(options.folder, done, options.seeds, options.evaluations)
        )
    print(
        json.dumps(report) if options.json else "\n".join(f"{key}: {value}" for key, value in report.items())
    )


if __name__ == "__main__":
    main()
