"""Which of several right programs should be the answer, and what partial credit gives.

    python tests/bench/answer_choice.py collect problems/strings-hard --seeds 0 1 2 --log hard.jsonl
    python tests/bench/answer_choice.py collect TASKS.json --partial edit --stop --log edit.jsonl
    python tests/bench/answer_choice.py compare hard.jsonl edit.jsonl --rows rows.csv --json

`collect` makes one run a problem and seed that goes on after its first right program (right on all training
rows; with `--stop` it ends there), and writes every right program with when it came, whether it descends
from a join, and its outputs on inputs without outputs. Up to the first right program such a run is the usual
one, so every rule that takes its answer there or later is compared on the same log. Held-out outputs judge
the answers and choose none. Resumable: one JSON line a run.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from strings_benchmark import load_tasks

from evovpo.config import Config
from evovpo.judging.evaluator import Evaluator, open_sandbox, unseen_rows
from evovpo.problem.examples import same_value
from evovpo.problem.folder import load_problem
from evovpo.runs.choices import open_proposer
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start
from evovpo.store import Store
from evovpo.types import Example, Json, Objective, ParseStatus, Problem, Program, Prompt, PromptKind, Tell

PERTURBED = 16
"""Inputs without outputs that are made of the training inputs of a problem."""

Found = dict[str, Any]
"""A right program: at, ticket, joined, source, unseen (right on each held-out row), other outputs."""
Rule = Callable[[Sequence[Found]], Found]
"""Right programs in the order in which they came -> the answer."""


def problems_of(path: Path, every: bool) -> list[Problem]:
    """Return the problems of a suite or of a file of tasks: `every` one, or those with unseen rows."""
    if path.is_file():
        found = load_tasks(path)
    else:
        found = [load_problem(file.parent) for file in sorted(path.glob("*/problem.toml"))]
    return [problem for problem in found if problem.heldout or every]


def perturbed(problem: Problem, count: int = PERTURBED) -> list[tuple[Json, ...]]:
    """Return inputs like the training inputs: words and numbers of one row replaced by those of others."""
    rng = random.Random(problem.id)
    rows = [example.inputs for example in problem.train]
    made: list[tuple[Json, ...]] = []
    for _ in range(count * 4):
        row = rng.choice(rows)
        new = tuple(
            _mixed(value, [other[place] for other in rows], rng) if isinstance(value, str) else value
            for place, value in enumerate(row)
        )
        if new not in made and new not in rows:
            made.append(new)
        if len(made) == count:
            break
    return made


def _mixed(text: str, others: Sequence[Json], rng: random.Random) -> str:
    def swap(match: re.Match[str]) -> str:
        kind = r"\d+" if match[0].isdigit() else r"[^\W\d_]+"
        pool = [part for other in others if isinstance(other, str) for part in re.findall(kind, other)]
        return rng.choice(pool) if pool and rng.random() < 0.5 else match[0]

    return re.sub(r"\d+|[^\W\d_]+", swap, text)


def right_programs(store: Store, run: str) -> Iterator[Found]:
    """Yield every program that is right on all training rows, once, in the order in which they came."""
    joined: dict[str, bool] = {}
    prompts: dict[str, Prompt] = {}
    proposed = 0
    for event in store.history(run):
        if isinstance(event, Prompt):
            prompts[event.id] = event
            continue
        assert isinstance(event, Tell)
        ticket, kind = prompts[event.prompt_id].sequence, prompts[event.prompt_id].kind
        for judged in event.judged:
            proposed += kind is not PromptKind.SEED
            program, evaluation = judged.candidate.program, judged.evaluation
            if program is None or judged.candidate.parse_status is not ParseStatus.PARSED:
                continue
            parents = [joined.get(parent.program_id, False) for parent in judged.candidate.parents]
            joined[program.id] = kind is PromptKind.JOIN or any(parents)
            if evaluation and evaluation.rewards and min(evaluation.rewards) >= 1.0:
                by_join = joined[program.id]
                yield {"at": proposed, "ticket": ticket, "joined": by_join, "source": program.source}


def collect(problem: Problem, config: Config) -> dict[str, Any]:
    """Return what one run came to, with all its right programs."""
    inputs = perturbed(problem)
    rows = (*problem.heldout, *(Example(row, None) for row in inputs))
    names = tuple(Objective(f"row-{number + 1}") for number in range(len(rows)))
    probe = replace(unseen_rows(problem), train=rows, objectives=names, partial="")
    with Store.open("sqlite://") as store:
        outcome = start(RunRequest(problem, config), store, open_proposer(problem, config))
        programs = list(right_programs(store, outcome.run))
    with open_sandbox(problem, config) as sandbox:
        evaluator = Evaluator(probe, sandbox)
        for found in programs:
            outputs = list(evaluator.evaluate(Program(found["source"])).outputs or [None] * len(rows))
            unseen = list(zip(outputs, problem.heldout, strict=False))
            found["unseen"] = [same_value(output, row.output) for output, row in unseen]
            found["unseen_outputs"] = outputs[: len(problem.heldout)]
            found["perturbed_outputs"] = outputs[len(problem.heldout) :]
    return {
        "train": len(problem.train),
        "unseen": len(problem.heldout),
        "evaluations": config.search.evaluations,
        "best": outcome.train_passed,
        "partial": problem.partial,
        "programs": programs,
    }


def _shortest(programs: Sequence[Found]) -> Found:
    return min(programs, key=lambda found: len(found["source"]))


def _no_join(programs: Sequence[Found]) -> Found:
    return _shortest([found for found in programs if not found["joined"]] or programs)


def _agreeing(kind: str) -> Rule:
    """Return the rule that takes the program whose outputs on inputs without outputs most others share."""

    def rule(programs: Sequence[Found]) -> Found:
        texts = [[json.dumps(output) for output in found[kind]] for found in programs]
        votes = [Counter(outputs) for outputs in zip(*texts, strict=True)]

        def merit(place: int) -> tuple[int, int]:
            agreed = sum(vote[text] for vote, text in zip(votes, texts[place], strict=True))
            return agreed, -len(programs[place]["source"])

        return programs[max(range(len(programs)), key=merit)]

    return rule


RULES: dict[str, tuple[float, Rule]] = {
    "first ticket, shortest (as it is)": (0.0, _shortest),
    "a tenth more, shortest": (0.1, _shortest),
    "a quarter more, shortest": (0.25, _shortest),
    "whole budget, shortest": (1.0, _shortest),
    "whole budget, no join before join": (1.0, _no_join),
    "first ticket, agreement on perturbed inputs": (0.0, _agreeing("perturbed_outputs")),
    "whole budget, agreement on perturbed inputs": (1.0, _agreeing("perturbed_outputs")),
    "whole budget, agreement on held-out inputs": (1.0, _agreeing("unseen_outputs")),
}
"""By name: the share of the budget that a run goes on for after its first right program, and the choice."""


def answers(run: dict[str, Any]) -> dict[str, Found]:
    """Return the answer of each rule to a run; empty where no program is right."""
    if not run["programs"]:
        return {}
    ticket = run["programs"][0]["ticket"]
    told = max(found["at"] for found in run["programs"] if found["ticket"] == ticket)
    found = {}
    for name, (share, rule) in RULES.items():
        until = told + share * run["evaluations"]
        found[name] = rule([program for program in run["programs"] if program["at"] <= until])
    return found


def compare(logs: Sequence[Path]) -> tuple[dict[str, Any], list[list[object]]]:
    """Return figures for each log, and a row for each run.

    Solved: right on all training rows; of these, the share right on held-out rows too by each rule, on all
    problems with held-out rows and on either half of them (every second one).
    """
    report: dict[str, Any] = {}
    rows: list[list[object]] = []
    for log in logs:
        runs = [json.loads(line) for line in log.read_text().splitlines()]
        names = sorted({run["problem"] for run in runs})
        by_rule: dict[str, Counter[str]] = {name: Counter() for name in RULES}
        for run in runs:
            half = "ab"[names.index(run["problem"]) % 2]
            found = answers(run)
            rights = {name: all(answer["unseen"]) for name, answer in found.items()}
            at = run["programs"][0]["at"] if run["programs"] else ""
            flags = [int(rights[name]) if found and run["unseen"] else "" for name in RULES]
            rows.append([log.stem, run["problem"], run["seed"], run["best"], run["train"], at, *flags])
            if run["unseen"]:
                for name, is_right in rights.items():
                    by_rule[name].update({"right": is_right, f"right_{half}": is_right})
                    by_rule[name].update({"solved": 1, f"solved_{half}": 1})
        report[log.stem] = {
            "runs": len(runs),
            "seeds": len({run["seed"] for run in runs}),
            "solved": sum(bool(run["programs"]) for run in runs),
            "none_passed": sum(run["best"] == 0 for run in runs),
            "rows_passed": sum(run["best"] for run in runs) / sum(run["train"] for run in runs),
            "rules": {name: dict(counts) for name, counts in by_rule.items()},
        }
    return report, rows


def _collect_all(options: argparse.Namespace) -> None:
    """Append one line for every run that the log lacks."""
    settings = [
        f"search.evaluations={options.evaluations}",
        f"search.stop_when_solved={str(options.stop).lower()}",
        f"proposer.name={options.proposer}",
    ]
    config = Config.load(None, [*settings, *options.set])
    lines = options.log.read_text().splitlines() if options.log.exists() else []
    done = {(run["problem"], run["seed"]) for run in map(json.loads, lines)}
    for seed in options.seeds:
        for problem in problems_of(options.path, options.all)[:: options.one_in]:
            if (problem.id, seed) in done:
                continue
            asked = replace(problem, partial=options.partial, version=problem.version + options.partial)
            made = collect(asked, config.changed(run={"seed": seed}))
            with options.log.open("a") as file:
                file.write(json.dumps({"problem": problem.id, "seed": seed, **made}) + "\n")
            right = [all(found["unseen"]) for found in made["programs"]]
            counts = f"{len(right)} right, {sum(right)} unseen too"
            print(f"{problem.id} {seed}: {counts}", file=sys.stderr, flush=True)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("path", type=Path, help="folder of a suite, or a file of tasks")
    collecting.add_argument("--evaluations", type=int, default=300)
    collecting.add_argument("--seeds", type=int, nargs="+", default=[0])
    collecting.add_argument("--proposer", choices=("local", "random"), default="local")
    collecting.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    collecting.add_argument("--partial", choices=("", "edit"), default="", help="partial credit")
    collecting.add_argument("--all", action="store_true", help="also tasks without unseen rows")
    collecting.add_argument("--one-in", type=int, default=1, help="take every n-th problem")
    collecting.add_argument("--stop", action="store_true", help="stop at the first right program")
    collecting.add_argument("--log", type=Path, required=True)
    comparing = commands.add_parser("compare")
    comparing.add_argument("logs", type=Path, nargs="+")
    comparing.add_argument("--rows", type=Path, help="CSV file for one row a run")
    comparing.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    if options.command == "collect":
        _collect_all(options)
        return
    report, rows = compare(options.logs)
    if options.rows:
        heads = ["log", "problem", "seed", "train_passed", "train", "first_right_after", *RULES]
        with options.rows.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([heads, *rows])
    if options.json:
        print(json.dumps(report))
        return
    for name, figures in report.items():
        print(f"{name}: {figures['solved']} of {figures['runs']} runs solved")
        for rule, counts in figures["rules"].items():
            print(f"  {rule}: {counts.get('right', 0)} of {counts.get('solved', 0)} right on held-out rows")


if __name__ == "__main__":
    main()
