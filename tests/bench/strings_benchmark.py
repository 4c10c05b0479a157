"""Solve a file of string tasks and count: how many, with how many proposed programs, in how long.

    python tests/bench/strings_benchmark.py FILE --programs N --seed S --json

FILE is a JSON list of tasks: `{"name", "train": [{"inputs": [...], "output": ...}], "test": [...]}`;
`test` holds unseen rows and may be empty. Every task is one run of the search with a budget of N proposed
programs (duplicates, joins, unparsed and rejected ones included); unseen rows only judge the
result. `solved_without_joins` counts tasks whose solving program descends from no join; a task that
was solved by one is run again without joins. A task that stays unsolved with joins counts as
unsolved without them too, although joins took up to a tenth of its budget. Published counts for
CrossBeam are *values* of a bottom-up search, another unit.

Resumable: finished tasks are kept in `--progress FILE` and not run again.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evovpo.config import Config
from evovpo.proposers import Proposer
from evovpo.runs.choices import open_proposer
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start
from evovpo.runs.stored import Outcome
from evovpo.store import Store
from evovpo.types import Example, Limits, Objective, Problem, Program, Prompt, PromptKind, content_id

CHECKPOINTS = (1, 10, 30, 100, 300, 1000, 3000, 10_000)
"""Program counts at which solved tasks are counted."""


def load_tasks(path: Path) -> list[Problem]:
    """Return the tasks of a benchmark file as problems; unseen rows become held-out rows."""
    return [_problem(task) for task in json.loads(path.read_text())]


def _problem(task: dict[str, Any]) -> Problem:
    train = _examples(task["train"])
    parameters = tuple(f"text{index + 1}" for index in range(len(train[0].inputs)))
    return Problem(
        id=task["name"],
        version=content_id(json.dumps(task, sort_keys=True)),
        statement="",
        entry="solve",
        parameters=parameters,
        objectives=tuple(Objective(f"row-{number}") for number in range(1, len(train) + 1)),
        seeds=(Program(f"def solve({', '.join(parameters)}):\n    return {parameters[0]}\n"),),
        limits=Limits(wall_seconds=2.0, cpu_seconds=2),
        train=train,
        heldout=_examples(task["test"]),
    )


def _examples(rows: list[dict[str, Any]]) -> tuple[Example, ...]:
    return tuple(Example(tuple(row["inputs"]), row["output"]) for row in rows)


def solve(problem: Problem, config: Config, proposer: Proposer) -> dict[str, Any]:
    """Return what one run came to, with the number of programs told up to the solving one."""
    with Store.open("sqlite://") as store:
        outcome = start(RunRequest(problem, config), store, proposer=proposer)
        summary = store.run_summary(outcome.run)
        by_join = outcome.solved and _was_joined(store, outcome)
    solved_at = next(
        (point.evaluations for point in summary.curve if point.examples_passed == outcome.train_total), None
    )
    return {
        "solved": outcome.solved,
        "unseen": bool(outcome.solved_heldout),
        "has_unseen": outcome.heldout_total > 0,
        "by_join": by_join,
        "solved_at": solved_at,
        "programs": outcome.evaluations,
        "executed": outcome.executed,
        "joins": outcome.joins,
        "seconds": outcome.seconds,
        "train_passed": outcome.train_passed,
        "train_total": outcome.train_total,
        "program": outcome.program,
    }


def _was_joined(store: Store, outcome: Outcome) -> bool:
    """True if the best program is a join or descends from one."""
    kinds = {event.id: event.kind for event in store.history(outcome.run) if isinstance(event, Prompt)}
    steps = store.lineage(outcome.run, Program(outcome.program).id)
    return any(kinds[step.prompt_id] is PromptKind.JOIN for step in steps)


def summarise(results: dict[str, dict[str, Any]], programs: int, seconds: float) -> dict[str, Any]:
    """Return the counts over all tasks; the fields that scripts read."""
    with_joins = [result["with_joins"] for result in results.values()]
    without = [result["without_joins"] for result in results.values()]

    def count(rows: list[dict[str, Any]], limit: int) -> int:
        return sum(1 for row in rows if row["solved_at"] is not None and row["solved_at"] <= limit)

    marks = [mark for mark in CHECKPOINTS if mark <= programs]
    return {
        "tasks": len(results),
        "solved_train": sum(row["solved"] for row in with_joins),
        "solved_without_joins": sum(row["solved"] for row in without),
        "solved_unseen": sum(row["unseen"] for row in with_joins),
        "solved_unseen_without_joins": sum(row["unseen"] for row in without),
        "solved_train_of_those_with_unseen": sum(row["solved"] and row["has_unseen"] for row in with_joins),
        "solved_train_of_those_with_unseen_without_joins": sum(
            row["solved"] and row["has_unseen"] for row in without
        ),
        "tasks_with_unseen": sum(row["has_unseen"] for row in with_joins),
        "programs": programs,
        "seconds": round(seconds, 1),
        "median_seconds_solved": round(
            statistics.median([r["seconds"] for r in with_joins if r["solved"]] or [0.0]), 2
        ),
        "solved_within": {str(mark): count(with_joins, mark) for mark in marks},
        "solved_within_without_joins": {str(mark): count(without, mark) for mark in marks},
        "executed": sum(row["executed"] for row in without),
        "per_task": results,
    }


def run(
    tasks: list[Problem],
    config: Config,
    open_proposer: Callable[[Problem], Proposer],
    progress: Path | None,
) -> dict[str, dict[str, Any]]:
    """Return the results of every task, by name; prints one line a run to standard error."""
    done: dict[str, dict[str, Any]] = {}
    if progress and progress.exists():
        done = json.loads(progress.read_text())
    plain = Config.load(None, ["search.joins=false"], json.loads(config.to_json()))
    for number, problem in enumerate(tasks, start=1):
        if problem.id not in done:
            result = solve(problem, config, open_proposer(problem))
            done[problem.id] = {"with_joins": result, "without_joins": None if result["by_join"] else result}
            _keep(progress, done)
        _say(f"[{number}/{len(tasks)}] {problem.id}", done[problem.id]["with_joins"])
    for problem in tasks:
        if done[problem.id]["without_joins"] is None:
            done[problem.id]["without_joins"] = solve(problem, plain, open_proposer(problem))
            _keep(progress, done)
            _say(f"[without joins] {problem.id}", done[problem.id]["without_joins"])
    return {problem.id: done[problem.id] for problem in tasks}


def _keep(progress: Path | None, done: dict[str, dict[str, Any]]) -> None:
    if progress:
        progress.write_text(json.dumps(done))


def _say(what: str, result: dict[str, Any]) -> None:
    end = "not solved" if not result["solved"] else "solved by a join" if result["by_join"] else "solved"
    print(f"{what}: {end} after {result['programs']} programs", file=sys.stderr, flush=True)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--programs", type=int, default=1000, help="proposed programs a task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--proposer", choices=("local", "random"), default="local")
    parser.add_argument("--model", default="", help="model folder; the built-in one by default")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="further settings"
    )
    parser.add_argument("--progress", type=Path, help="file that keeps finished tasks")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    config = Config.load(
        None,
        [
            f"search.evaluations={options.programs}",
            f"run.seed={options.seed}",
            f"proposer.name={options.proposer}",
            f"proposer.model={options.model}",
            *options.set,
        ],
    )
    started = time.monotonic()
    results = run(
        load_tasks(options.file),
        config,
        lambda problem: open_proposer(problem, config),
        options.progress,
    )
    report = summarise(results, options.programs, time.monotonic() - started)
    if options.json:
        print(json.dumps(report))
        return
    for key, value in report.items():
        if key != "per_task":
            print(f"{key}: {value}")


if __name__ == "__main__":
    main()
