"""What a round of the loop over families is worth, by what is learned: imitation, reinforcement, or both.

    python tests/bench/family_loop.py collect --rows docs/results/family-loop/rows.jsonl --work FOLDER
    python tests/bench/family_loop.py compare docs/results/family-loop/rows.jsonl

`collect` searches the families of `strings-family` that the suite does not hold out, but for one sibling of
each, once a seed. Every arm then trains the start model on what those same searches left, and is measured on
problems that nothing was trained on: a `sibling` of what was searched, or one of a `new` family. Primary:
problems solved on held-out rows too within 96 answers to a root prompt each (an expectation), and in one
search of 100 evaluations, with and without joins; beside it the mean over 1, 6, 12, 24, 48 and 96 answers,
the area under the problems solved by the logarithm of the answers. The arm `start` is the frozen model;
`at_equal_cpu` is that model with the CPU time of the arm `imitation` as further answers. Resumable: a line of
JSON a seed and arm.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from evovpo.analysis.statistics import bootstrap_interval
from evovpo.builtin import BUILT_IN_MODEL
from evovpo.config import Config, RunConfig
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import load_suite
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start
from evovpo.store import Store
from evovpo.types import PolicyVersion, Problem, content_id
from trainer.config import TrainConfig
from trainer.learning.data import RunPart
from trainer.learning.imitation import with_validation
from trainer.loop.loop import Loop
from trainer.loop.probe import ProbeResult, probe
from trainer.loop.retrain import retrain
from trainer.loop.turns import Turns

ARMS = {
    "imitation": ["imitate.share=1", "update.kl=0", "update.learning_rate=6e-4"],
    "both": ["imitate.share=0.5"],
    "vpo-at-k": [],
    "grpo": ["objective.name=grpo"],
}
"""Settings of the trainer, beside its defaults; `start` is not trained."""
ANSWERS, KS = 96, (1, 6, 12, 24, 48, 96)
EVALUATIONS, MEASURED = 150, 100
"""Of the searches that are learned from, and of those that measure."""
MOST_TIMES = 12
"""Most answers of the frozen model in place of the training, in multiples of `ANSWERS`."""


def problems(suite: str, seed: int) -> tuple[list[Problem], dict[str, list[Problem]]]:
    """Return the searched problems, and those that measure, by kind."""
    searched: list[Problem] = []
    measured: dict[str, list[Problem]] = {"sibling": [], "new": []}
    families: dict[str, list[Problem]] = {}
    for entry in load_suite(suite):
        problem = load_problem(entry.path)
        if entry.is_held_out:
            measured["new"].append(problem)
        else:
            families.setdefault(entry.family, []).append(problem)
    for siblings in families.values():
        ranked = sorted(siblings, key=lambda one: content_id("sibling", str(seed), one.id))
        measured["sibling"] += ranked[: len(ranked) > 1]
        searched += ranked[len(ranked) > 1 :]
    return [with_validation(problem) for problem in searched], measured


def search_settings(seed: int) -> Config:
    """Return the settings of the searches that are learned from."""
    given = ["search.answers=1", f"search.evaluations={EVALUATIONS}", "proposer.policy=served"]
    return Config.load(None, [*given, f"run.seed={seed}"])


def collect(suite: str, seed: int, rows: Path, work: Path, arms: Sequence[str], jobs: int) -> None:
    """Search once, then train and measure each arm that has no row yet."""
    done = {(row["seed"], row["arm"]) for row in read(rows)}
    searched, measured = problems(suite, seed)
    search = search_settings(seed)
    folder = work / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    loop = Loop(tuple(searched), (), search, TrainConfig.load(None, [f"run.seed={seed}"]))
    with Store.open(f"sqlite:///{folder / 'searches.db'}") as store:
        turns = Turns(loop, store, folder / "none", jobs=jobs)
        turns.begin()
        turns.search_round(1)
    for arm in ("start", *arms):
        if (seed, arm) in done:
            continue
        version, seconds, figures = PolicyVersion(0, None, str(BUILT_IN_MODEL)), 0.0, {}
        if arm != "start":
            file = folder / f"{arm}.db"
            shutil.copy(folder / "searches.db", file)
            changes = [f"run.seed={seed}", "probe.problems=0", *ARMS[arm]]
            with Store.open(f"sqlite:///{file}") as store:
                began = time.process_time()
                parts = [RunPart(run) for run in loop.run_ids(1)]
                result = retrain(store, parts, TrainConfig.load(None, changes), folder / arm, problems=())
                seconds = time.process_time() - began
                version = store.policy_version(result.policy_version or 0)
                figures = {"groups": result.groups, "targets": result.targets, "steps": result.steps}
        row = {"seed": seed, "arm": arm, "cpu_seconds": round(seconds, 1), **figures, "problems": []}
        for kind, held in measured.items():
            row["problems"] += measure(version, held, kind, seed, search)
        with rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(seed, arm, row["cpu_seconds"], flush=True)
    if (seed, "at_equal_cpu") not in {(row["seed"], row["arm"]) for row in read(rows)}:
        at_equal_cpu(seed, rows, measured, search)


def measure(
    version: PolicyVersion, held: Sequence[Problem], kind: str, seed: int, search: Config
) -> list[dict[str, object]]:
    """Return one row for each problem: figures by k, and what a search came to."""
    probed = probe(version, held, k_max=ANSWERS, seed=seed + 1, config=search)
    found = []
    for problem, one in zip(held, probed.measures, strict=True):
        row: dict[str, object] = {
            "id": problem.id,
            "kind": kind,
            "best_at_k": np.round(one.best_at_k(KS), 5).tolist(),
            "solved_at_k": np.round(one.solved_at_k(KS), 5).tolist(),
            "pair_at_k": np.round(one.pair_at_k(KS), 5).tolist(),
        }
        for name, joins in (("joins", "true"), ("no_joins", "false")):
            config = search.changed(
                search={"evaluations": MEASURED, "joins": joins == "true"},
                proposer={"name": "local", "model": version.path, "policy": "start"},
                run=RunConfig(seed=seed + 100),
            )
            with Store.open("sqlite://") as store:
                outcome = start(RunRequest(problem, config), store)
            is_solved = outcome.solved and outcome.solved_heldout is not False
            row[name] = outcome.evaluations if is_solved else None
        found.append(row)
    return found


def at_equal_cpu(seed: int, rows: Path, measured: dict[str, list[Problem]], search: Config) -> None:
    """Write what the frozen model solves with the CPU time of imitation as answers more."""
    key = (seed, "imitation")
    spent = next(row["cpu_seconds"] for row in read(rows) if (row["seed"], row["arm"]) == key)
    held = [(kind, problem) for kind, found in measured.items() for problem in found]
    version = PolicyVersion(0, None, str(BUILT_IN_MODEL))
    only = [problem for _, problem in held]
    began = time.process_time()
    probe(version, only, k_max=ANSWERS, seed=seed + 2, config=search)
    times = min(1.0 + spent / (time.process_time() - began), MOST_TIMES)
    probed: ProbeResult = probe(version, only, k_max=round(ANSWERS * times), seed=seed + 2, config=search)
    row = {"seed": seed, "arm": "at_equal_cpu", "cpu_seconds": spent, "answers": probed.sampled}
    row["problems"] = []
    for (kind, problem), one in zip(held, probed.measures, strict=True):
        value = one.solved_at_k([probed.sampled])
        row["problems"].append({"id": problem.id, "kind": kind, "solved": round(float(value[0]), 5)})
    with rows.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read(rows: Path) -> list[dict]:
    """Return the rows so far."""
    return [json.loads(line) for line in rows.read_text().splitlines()] if rows.is_file() else []


def gain(mine: np.ndarray, other: np.ndarray, unit: int, digits: int = 1) -> str:
    """Return the mean of one `[seed, problem]` table minus another's, in problems, with its interval."""
    found = bootstrap_interval(mine, other, np.random.default_rng(0))
    mean, low, high = (f"{value * unit:+.{digits}f}" for value in found[:3])
    return f"{mean} [{low}, {high}]"


def compare(rows: Path, only: Sequence[int]) -> Iterator[str]:
    """Yield the tables: problems solved by arm and kind, and each arm minus others, with intervals."""
    found = read(rows)
    seeds = sorted({row["seed"] for row in found if row["arm"] == "imitation"} & set(only or range(10**6)))
    by = {(row["seed"], row["arm"]): row for row in found if row["seed"] in seeds}
    arms = [arm for arm in ("start", *ARMS) if all((seed, arm) in by for seed in seeds)]

    def values(arm: str, kind: str, figure: str) -> np.ndarray:
        table = []
        for seed in seeds:
            ones = [one for one in by[seed, arm]["problems"] if kind in (one["kind"], "all")]
            if arm == "at_equal_cpu":
                table.append([one["solved"] for one in ones])
            elif figure == "answers":
                table.append([one["solved_at_k"][-1] for one in ones])
            elif figure == "area":
                table.append([np.mean(one["solved_at_k"]) for one in ones])
            elif figure == "best":
                table.append([one["best_at_k"][-1] for one in ones])
            else:
                table.append([float(one[figure] is not None) for one in ones])
        return np.array(table)

    figures = {
        "answers": f"solved in {ANSWERS} answers",
        "area": f"mean over 1 to {ANSWERS}",
        "best": f"mean best@{ANSWERS}",
        "no_joins": f"solved in a search of {MEASURED}, no joins",
        "joins": "the same with joins",
    }
    over = "one seed" if len(seeds) == 1 else f"means over {len(seeds)} seeds"
    kinds = {
        "all": "of both kinds below",
        "sibling": "siblings of what was searched",
        "new": "families that nothing was trained on",
    }
    for kind, name in kinds.items():
        count = values("start", kind, "answers").shape[1]

        yield f"\n**{count} problems a seed, {name}**: sums over problems, {over}\n"
        yield "| arm | CPU s of training | " + " | ".join(figures.values()) + " |"
        yield "|---" * (2 + len(figures)) + "|"
        for arm in arms:
            cells = []
            for figure in figures:
                mine, start_model = values(arm, kind, figure), values("start", kind, figure)
                unit, digits = (1, 3) if figure == "best" else (count, 1)
                difference = "" if arm == "start" else f" ({gain(mine, start_model, unit, digits)})"
                cells.append(f"{mine.mean() * unit:.{digits}f}{difference}")
            spent = np.mean([by[seed, arm]["cpu_seconds"] for seed in seeds])
            yield f"| {arm} | {spent:.0f} | " + " | ".join(cells) + " |"
        if any((seed, "at_equal_cpu") not in by for seed in seeds):
            continue
        frozen = values("at_equal_cpu", kind, "answers")
        answers = np.mean([by[seed, "at_equal_cpu"]["answers"] for seed in seeds])
        beyond = gain(values("imitation", kind, "answers"), frozen, count)
        yield (
            f"\nThe start model with imitation's CPU time as more answers ({answers:.0f} a problem, not "
            f"{ANSWERS}) solves {frozen.mean() * count:.1f}; imitation minus that: {beyond}."
        )


Parser = argparse.ArgumentParser


def command_line(description: str | None) -> tuple[Parser, Parser, Parser]:
    """Return a parser, and those of its commands `collect` and `compare`."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(description=description, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("--suite", default="strings-family")
    collecting.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    collecting.add_argument("--rows", type=Path, required=True)
    collecting.add_argument("--work", type=Path, required=True, help="a folder for stores and versions")
    collecting.add_argument("--jobs", type=int, default=1)
    comparing = commands.add_parser("compare")
    comparing.add_argument("rows", type=Path)
    return parser, collecting, comparing


def main() -> None:
    """Collect rows, or print the tables."""
    parser, collecting, comparing = command_line(__doc__)
    collecting.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    comparing.add_argument("--seeds", type=int, nargs="*", default=[], help="only these")
    args = parser.parse_args()
    if args.command == "compare":
        print("\n".join(compare(args.rows, args.seeds)))
        return
    for seed in args.seeds:
        collect(args.suite, seed, args.rows, args.work, args.arms, args.jobs)


if __name__ == "__main__":
    main()
