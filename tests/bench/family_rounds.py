"""What five rounds of the loop over families come to: search, imitate all finds so far, search on.

    python tests/bench/family_rounds.py collect --rows docs/results/family-loop/rounds.jsonl --work FOLDER
    python tests/bench/family_rounds.py compare docs/results/family-loop/rounds.jsonl --png rounds.png

Problems, settings and figures are those of `family_loop.py`, its arm `imitation`. Each round searches with
the version that the rounds before it taught; every version is taught from the start model. Versions are
measured by answers to root prompts alone; primary is the mean over 1, 6, 12, 24, 48 and 96 answers. Beside
the last stands the start model with the CPU time of all trainings as further answers. Resumable: a line of
JSON a seed and round; round 0 is the start model.
"""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from family_loop import ANSWERS, ARMS, KS, MOST_TIMES, command_line, gain, problems, read, search_settings

from evovpo.analysis.statistics import bootstrap_interval
from evovpo.builtin import BUILT_IN_MODEL
from evovpo.config import Config
from evovpo.reports.pictures import Curve, write_budgets
from evovpo.store import Store
from evovpo.types import PolicyVersion, Problem
from trainer.config import TrainConfig
from trainer.loop.loop import Loop
from trainer.loop.probe import probe
from trainer.loop.turns import Turns


def collect(suite: str, seed: int, rounds: int, rows: Path, work: Path, jobs: int, limit: int | None) -> None:
    """Search and imitate in turns, and write what each round came to."""
    done = {(row["seed"], row["round"]) for row in read(rows)}
    searched, measured = problems(suite, seed)
    held = [problem for found in measured.values() for problem in found[:limit]]
    search = search_settings(seed)
    train = TrainConfig.load(None, [f"run.seed={seed}", "probe.problems=0", *ARMS["imitation"]])
    loop = Loop(tuple(searched[:limit]), (), search, train)
    folder = work / f"rounds-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    start_model = PolicyVersion(0, None, str(BUILT_IN_MODEL))
    with Store.open(f"sqlite:///{folder / 'loop.db'}") as store:
        turns = Turns(loop, store, folder / "policies", jobs=jobs)
        turns.begin()
        for number in range(rounds + 1):
            if number:
                turns.search_round(number)
                turns.train_on_finds(number)
            if (seed, number) in done:
                continue
            versions = store.policy_versions()
            metrics = [dict(version.metrics) for version in versions]
            spent = sum(one.get("cpu_seconds", 0.0) for one in metrics)
            began = time.process_time()
            after = solved(versions[-1], held, ANSWERS, seed, search)
            seconds = time.process_time() - began
            answers = round(ANSWERS * min(1.0 + spent / seconds, MOST_TIMES)) if number == rounds else ANSWERS
            row = {
                "seed": seed,
                "round": number,
                "targets": metrics[-1].get("targets", 0.0),
                "cpu_seconds": round(spent, 1),
                "solved_at_k": after,
            }
            if number == rounds:
                row |= {"answers_at_equal_cpu": answers}
                row |= {"at_equal_cpu": solved(start_model, held, answers, seed, search)}
            with rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"seed {seed}, round {number}: {spent:.0f} CPU seconds of training", flush=True)


def solved(
    version: PolicyVersion, held: Sequence[Problem], most: int, seed: int, search: Config
) -> dict[str, list[float]]:
    """Return for each problem the chance to solve it within each of `KS` answers, and last within `most`."""
    probed = probe(version, held, k_max=most, seed=seed + 1, config=search)
    values = [np.round(one.solved_at_k([*KS, most]), 5).tolist() for one in probed.measures]
    return dict(zip([problem.id for problem in held], values, strict=True))


def compare(rows: Path) -> Iterator[str]:
    """Yield the table: problems solved after each round, and that minus the start model's."""
    by = {(row["seed"], row["round"]): row for row in read(rows)}
    seeds = sorted({seed for seed, _ in by})
    last = min(max(number for one, number in by if one == seed) for seed in seeds)

    def values(number: int, figure: str) -> np.ndarray:
        return np.array([list(by[seed, number][figure].values()) for seed in seeds])

    start_model = values(0, "solved_at_k")
    count = start_model.shape[1]

    listed = ", ".join(map(str, seeds))
    yield f"\n**{count} problems a seed**: sums over problems, means over seeds {listed}\n"
    yield f"| round | imitated | CPU s of all trainings | mean over 1 to {ANSWERS} | in {ANSWERS} answers |"
    yield "|---" * 5 + "|"
    for number in range(last + 1):
        mine = values(number, "solved_at_k")
        cells = [
            f"{one.mean() * count:.1f} ({gain(one, other, count)})"
            for one, other in ((area(mine), area(start_model)), (mine[..., -1], start_model[..., -1]))
        ]
        targets, spent = (
            np.mean([by[seed, number][name] for seed in seeds]) for name in ("targets", "cpu_seconds")
        )
        yield f"| {number} | {targets:.0f} | {spent:.0f} | {' | '.join(cells)} |"
    frozen = values(last, "at_equal_cpu")[..., -1]
    answers = np.mean([by[seed, last]["answers_at_equal_cpu"] for seed in seeds])
    beyond = gain(mine[..., -1], frozen, count)
    yield (
        f"\nThe start model with the CPU time of all trainings as more answers ({answers:.0f} a problem, not "
        f"{ANSWERS}) solves {frozen.mean() * count:.1f}; round {last} minus that: {beyond}."
    )


def draw(rows: Path, path: Path) -> None:
    """Write the problems solved against the answers to each, a curve for every second round."""
    by = {(row["seed"], row["round"]): row for row in read(rows)}
    seeds, rounds = sorted({seed for seed, _ in by}), sorted({number for _, number in by})
    curves = []
    for number in rounds[:1] + rounds[1::2]:
        values = np.array([list(by[seed, number]["solved_at_k"].values()) for seed in seeds])[..., : len(KS)]
        shares = [bootstrap_interval(values[..., k], None, np.random.default_rng(0)) for k in range(len(KS))]
        curves.append(Curve(f"round {number}" if number else "start model", KS, tuple(shares)))
    panels = {f"Share of {values.shape[1]} new problems solved": curves}
    note = f"Means over seeds {', '.join(map(str, seeds))} with 95 % intervals over problems and seeds."
    write_budgets(path, panels, title="After each round of the loop", note=note, budget="answers to each")


def area(solved_at_k: np.ndarray) -> np.ndarray:
    """Return the mean over `KS` of problems solved within so many answers: an area over their logarithm."""
    return solved_at_k[..., : len(KS)].mean(axis=-1)


def main() -> None:
    """Collect rows, or print the table."""
    parser, collecting, comparing = command_line(__doc__)
    collecting.add_argument("--rounds", type=int, default=5)
    collecting.add_argument("--limit", type=int, help="only so many problems to search and of each kind")
    comparing.add_argument("--png", type=Path)
    args = parser.parse_args()
    if args.command == "compare":
        print("\n".join(compare(args.rows)))
        if args.png:
            draw(args.rows, args.png)
        return
    for seed in args.seeds:
        collect(args.suite, seed, args.rounds, args.rows, args.work, args.jobs, args.limit)


if __name__ == "__main__":
    main()
