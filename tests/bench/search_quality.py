"""Quality of searches at equal model calls: `python tests/bench/search_quality.py --json`.

A made-up proposer in three strengths searches the problems of `search_problems.py` with evovpo, with hill
climbing, a genetic algorithm, best of n and OpenEvolve's own database (selection, cells, islands, migration).
Every arm asks for one program at a time and is told its score before the next. Programs are scored in this
process.

- `evovpo`: default settings; a problem's components are a vector.
- `evovpo-mean`: the same on the one score that all other arms see, the mean of the components.
- `climb`, `specialist`, `explore`, `combine`, `fresh`: as `evovpo` with one way to ask alone.
- `rollouts-2`, `-4`, `-8` (where named): so many programs for one prompt.
- `hill`: (1+1) hill climbing that accepts equals. `ga`: steady state, 100 programs, tournaments of 4.
- `best-of-n`: new programs only. `openevolve`: version 0.4 with its default settings.

Rows are kept in `--rows` as they are made, so that a run that was stopped goes on; the table is over the
problems that report, `--choosing` over those by which settings were chosen, with seeds of their own.
"""

import argparse
import contextlib
import gzip
import json
import logging
import multiprocessing
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

import numpy as np
from search_problems import CHOOSING, REPORTING, STRENGTHS, TASKS, Genome, Task, propose, read

from evovpo.config import SearchConfig
from evovpo.reports.pictures import write_png
from evovpo.search.search import SearchState
from evovpo.types import (
    Candidate,
    Evaluation,
    Feature,
    JudgedCandidate,
    Objective,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    Sampling,
    Status,
    Tell,
)

MARKS = (100, 300, 1000)
"""Calls after which the best score is noted."""
ROWS = Path(__file__).parents[2] / "docs" / "results" / "search-quality" / "rows.json.gz"
_ONE_WAY = ("climb", "specialist", "explore", "combine", "fresh")
_DRAWS = 2000
"""Bootstrap draws of an interval."""

Searcher = Callable[[Task, str, random.Random], Iterator[float]]
"""(problem, strength, generator) -> the mean score of one program after the other."""


def start_of(task: Task, rng: random.Random) -> Genome:
    """Return the starting program of a problem, or one drawn where it has none."""
    return task.fresh(rng) if task.start is None else task.start


def hill(task: Task, strength: str, rng: random.Random) -> Iterator[float]:
    best = start_of(task, rng)
    best_score = fmean(task.score(best))
    while True:
        new = propose(task, STRENGTHS[strength], [best], rng)
        score = fmean(task.score(new))
        if score >= best_score:
            best, best_score = new, score
        yield score


def genetic(task: Task, strength: str, rng: random.Random) -> Iterator[float]:
    """A steady-state genetic algorithm: 100 programs, tournaments of 4 for parents and for who leaves."""
    first = start_of(task, rng)
    pool = [(fmean(task.score(first)), first)]

    def drawn() -> list[tuple[float, Genome]]:
        return [rng.choice(pool) for _ in range(4)]

    while True:
        parents = [max(drawn(), key=lambda one: one[0])[1] for _ in range(2)]
        new = propose(task, STRENGTHS[strength], parents, rng)
        pool.append((fmean(task.score(new)), new))
        if len(pool) > 100:
            pool.remove(min(drawn(), key=lambda one: one[0]))
        yield pool[-1][0]


def best_of_n(task: Task, strength: str, rng: random.Random) -> Iterator[float]:
    while True:
        yield fmean(task.score(propose(task, STRENGTHS[strength], [], rng)))


def openevolve(task: Task, strength: str, rng: random.Random) -> Iterator[float]:
    """OpenEvolve's database under its default settings; its pool of processes is left out."""
    from openevolve.config import DatabaseConfig
    from openevolve.database import Program as Theirs
    from openevolve.database import ProgramDatabase

    logging.disable(logging.CRITICAL)
    features = {"feature_dimensions": list(task.features)} if task.features else {}
    database = ProgramDatabase(
        DatabaseConfig(random_seed=rng.randrange(2**31), log_prompts=False, **features)
    )

    def record(genome: Genome, number: int, parent: Any = None) -> Any:
        described = dict(zip(task.features, map(float, task.describe(genome)), strict=True))
        metrics = {"combined_score": fmean(task.score(genome)), **described}
        child = Theirs(str(number), repr(genome), metrics=metrics, iteration_found=number)
        return child if parent is None else _child(child, parent)

    database.add(record(start_of(task, rng), 0), iteration=0)
    number = 0
    while True:
        number += 1
        island = number % database.config.num_islands
        parent, inspirations = database.sample_from_island(island, num_inspirations=2)
        home = parent.metadata.get("island", island)
        on_island = [database.programs[key] for key in database.islands[home] if key in database.programs]
        top = sorted(on_island, key=lambda one: -one.metrics["combined_score"])[:5]
        shown = [parent, *top, *inspirations]
        new = record(
            propose(task, STRENGTHS[strength], [read(one.code) for one in shown], rng), number, parent
        )
        database.add(new, iteration=number, target_island=island)
        database.increment_island_generation(island_idx=new.metadata.get("island", island))
        if database.should_migrate():
            database.migrate_programs()
        yield float(new.metrics["combined_score"])


def _child(child: Any, parent: Any) -> Any:
    child.parent_id, child.generation = parent.id, parent.generation + 1
    return child


class _NoFormat:
    """A prompt format without texts: the proposer gets the programs themselves."""

    reply_tokens, max_rows, rollouts, others = 1, 0, 1, 0
    ways: ClassVar[dict[str, float]] = {}

    def messages(self, problem: Problem, request: object) -> tuple[()]:
        return ()

    def can_show(self, problem: Problem, program: Program, role: object) -> bool:
        return True


def evovpo(is_vector: bool, way: str = "", **settings: Any) -> Searcher:
    """Return evovpo's search under these settings, on the components or on their mean."""
    ways = {"ways": {way: 1.0}} if way else {}

    def search(task: Task, strength: str, rng: random.Random) -> Iterator[float]:
        has_components = is_vector and task.components > 1
        problem = Problem(
            *(task.name, task.name, "", "", ()),
            objectives=tuple(Objective(f"c{n}") for n in range(task.components if has_components else 1)),
            seeds=(Program(repr(start_of(task, rng))),),
            features=tuple(Feature(f"metric:{name}", bins=10) for name in task.features),
            scorer_path="none",
        )
        config = SearchConfig(stop_when_solved=False, **{**ways, **settings})
        found = SearchState(problem, config, _NoFormat(), "run", rng.randrange(2**31))  # type: ignore[arg-type]

        def judged(program: Program, prompt: Prompt) -> tuple[JudgedCandidate, float]:
            scores = task.score(read(program.source))
            rewards = scores if has_components else (fmean(scores),)
            known = found.evaluation(program.id) is not None
            metrics = tuple(zip(task.features, map(float, task.describe(read(program.source))), strict=True))
            new = Evaluation(program.id, "", Status.OK, rewards, "", 0.0, "none", metrics=metrics or None)
            status = ParseStatus.DUPLICATE if known else ParseStatus.PARSED
            return JudgedCandidate(Candidate("", prompt.id, None, 0, status, program), new, True), fmean(
                scores
            )

        while True:
            prompt = found.ask()
            if prompt is None:
                return
            if prompt.kind is PromptKind.SEED:
                found.tell(Tell(prompt.id, None, tuple(judged(one, prompt)[0] for one in prompt.proposals)))
                continue
            shown = [read(found.standing.programs[one.program_id].program.source) for one in prompt.parents]
            for index in range(prompt.rollouts):
                program = Program(repr(propose(task, STRENGTHS[strength], shown, rng)))
                rollout = Rollout("", prompt.id, index, 0, "", None, None, None, Sampling(), "stop", 0.0)
                told, score = judged(program, prompt)
                found.tell(Tell(prompt.id, rollout, (told,)))
                yield score

    return search


ARMS: dict[str, Searcher] = {
    "evovpo": evovpo(True),
    "evovpo-mean": evovpo(False),
    **{way: evovpo(True, way) for way in _ONE_WAY},
    "hill": hill,
    "ga": genetic,
    "best-of-n": best_of_n,
    "openevolve": openevolve,
    **{f"rollouts-{size}": evovpo(True, rollouts=size) for size in (2, 4, 8)},
}
"""The arms; the last ones only where they are named."""
USUAL = tuple(name for name in ARMS if not name.startswith("rollouts"))


class Job(NamedTuple):
    arm: str
    task: str
    strength: str
    seed: int


def run(job: Job) -> tuple[Job, list[float]]:
    """Return the best score after each of `MARKS` calls; all arms of a seed begin alike."""
    rng = random.Random(f"{job.task} {job.strength} {job.seed}")
    scores = ARMS[job.arm](TASKS[job.task], job.strength, rng)
    best, found = 0.0, []
    for call in range(1, MARKS[-1] + 1):
        best = max(best, next(scores, best))
        if call in MARKS:
            found.append(round(best, 6))
    return job, found


Rows = dict[Job, list[float]]


def load(path: Path) -> Rows:
    if not path.exists():
        return {}
    kept = json.loads(gzip.decompress(path.read_bytes()))
    return {Job(*key.split("|")[:3], int(key.split("|")[3])): row for key, row in kept.items()}


def save(path: Path, rows: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f'"{"|".join(map(str, job))}": {json.dumps(rows[job])}' for job in sorted(rows)]
    path.write_bytes(gzip.compress(("{\n" + ",\n".join(lines) + "\n}\n").encode(), mtime=0))


def make(jobs: Sequence[Job], path: Path, processes: int) -> Rows:
    """Return the rows of all jobs; those that the file lacks are made and added to it."""
    rows = load(path)
    missing = [job for job in jobs if job not in rows]
    with contextlib.ExitStack() as stack:
        # A pool only where there is more than one: forking a process that has threads may hang.
        pool = None if processes == 1 else stack.enter_context(multiprocessing.Pool(processes))
        made = map(run, missing) if pool is None else pool.imap_unordered(run, missing, chunksize=4)
        for count, (job, row) in enumerate(made, start=1):
            rows[job] = row
            if count % 200 == 0 or count == len(missing):
                save(path, rows)
                print(f"{count} of {len(missing)} runs", file=sys.stderr)
    return rows


def mean_ranks(
    rows: Rows, arms: Sequence[str], tasks: Sequence[Task], seeds: Sequence[int]
) -> dict[str, Any]:
    """Return arm -> calls -> mean rank of its mean best score over problems and strengths; ties share one."""
    found: dict[str, dict[str, float]] = {arm: {} for arm in arms}
    for mark, calls in enumerate(MARKS):
        ranks: dict[str, list[float]] = {arm: [] for arm in arms}
        for task in tasks:
            for strength in STRENGTHS:
                means = {
                    arm: fmean(rows[Job(arm, task.name, strength, seed)][mark] for seed in seeds)
                    for arm in arms
                }
                for arm in arms:
                    better = sum(mean > means[arm] + 1e-9 for mean in means.values())
                    equal = sum(abs(mean - means[arm]) <= 1e-9 for mean in means.values()) - 1
                    ranks[arm].append(1 + better + equal / 2)
        for arm in arms:
            found[arm][str(calls)] = round(fmean(ranks[arm]), 3)
    return found


def gains(
    rows: Rows, arm: str, other: str, tasks: Sequence[Task], seeds: Sequence[int]
) -> dict[str, dict[str, float]]:
    """Return calls -> mean difference of two arms with its 95 % interval, a bootstrap over seeds."""
    rng, found = np.random.default_rng(0), {}
    cells = [(task.name, strength) for task in tasks for strength in STRENGTHS]
    for mark, calls in enumerate(MARKS):
        values_C_S = np.array(
            [
                [rows[Job(arm, *cell, seed)][mark] - rows[Job(other, *cell, seed)][mark] for seed in seeds]
                for cell in cells
            ]
        )
        drawn = rng.integers(len(seeds), size=(_DRAWS, *values_C_S.shape))
        means = np.take_along_axis(values_C_S[None], drawn, axis=2).mean(axis=(1, 2))
        low, high = np.quantile(means, (0.025, 0.975))
        found[str(calls)] = {
            "mean": round(float(values_C_S.mean()), 4),
            "low": round(float(low), 4),
            "high": round(float(high), 4),
        }
    return found


def report(rows: Rows, arms: Sequence[str], tasks: Sequence[Task], seeds: Sequence[int]) -> dict[str, Any]:
    """Return mean ranks, mean scores, and gains over the baselines."""
    scores = {
        arm: {
            f"{task.name} {strength}": [
                round(fmean(rows[Job(arm, task.name, strength, seed)][mark] for seed in seeds), 4)
                for mark in range(len(MARKS))
            ]
            for task in tasks
            for strength in STRENGTHS
        }
        for arm in arms
    }
    pairs = [(arm, other) for arm in arms[:2] for other in ("hill", "ga", "openevolve") if other in arms]
    vectors = [task for task in tasks if task.components > 1]
    found = {
        "mean_rank": mean_ranks(rows, arms, tasks, seeds),
        "gain": {f"{arm} minus {other}": gains(rows, arm, other, tasks, seeds) for arm, other in pairs},
        "scores": scores,
        "problems": [task.name for task in tasks],
        "seeds": list(seeds),
    }
    if {"evovpo", "evovpo-mean"} <= set(arms):
        found["vector minus mean"] = {
            task.name: gains(rows, "evovpo", "evovpo-mean", [task], seeds) for task in vectors
        }
    return found


def text(found: dict[str, Any]) -> str:
    lines = [f"{'mean rank after':16}" + "".join(f"{calls:>9}" for calls in MARKS)]
    for arm, ranks in found["mean_rank"].items():
        lines.append(f"{arm:16}" + "".join(f"{rank:9.2f}" for rank in ranks.values()))
    named = [
        *found["gain"].items(),
        *((f"vector, {k}", v) for k, v in found.get("vector minus mean", {}).items()),
    ]
    for name, marks in named:
        shown = (f"{one['mean']:+.3f} [{one['low']:+.3f}, {one['high']:+.3f}]" for one in marks.values())
        lines.append(f"{name:28} " + "  ".join(shown))
    return "\n".join(lines)


def picture(found: dict[str, Any], rows: Rows, path: Path) -> None:
    """Draw mean ranks over calls, and by problem the gain of evovpo over hill climbing and OpenEvolve."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained", dpi=110)
    left, right = figure.subplots(1, 2)
    for arm, ranks in found["mean_rank"].items():
        is_ours = arm.startswith("evovpo")
        style = "k--" if arm == "openevolve" else ""
        left.plot(MARKS, list(ranks.values()), style, marker="o", label=arm, linewidth=3 if is_ours else 1)
    left.set(
        xscale="log", xticks=MARKS, xticklabels=MARKS, xlabel="model calls", ylabel="mean rank (1 is best)"
    )
    left.invert_yaxis()
    left.legend(fontsize=7, ncols=2)
    tasks = [TASKS[name] for name in found["problems"]]
    for offset, other in ((-0.15, "hill"), (0.15, "openevolve")):
        if other not in found["mean_rank"]:
            continue
        ends = [gains(rows, "evovpo", other, [task], found["seeds"])[str(MARKS[-1])] for task in tasks]
        low = [one["mean"] - one["low"] for one in ends]
        high = [one["high"] - one["mean"] for one in ends]
        places = [place + offset for place in range(len(tasks))]
        means = [one["mean"] for one in ends]
        right.errorbar(means, places, xerr=[low, high], fmt="o", label=f"minus {other}")
    right.axvline(0.0, color="grey", linewidth=1)
    right.set(yticks=range(len(tasks)), yticklabels=found["problems"])
    right.set_xlabel(f"difference of the best score after {MARKS[-1]} calls, 95 % intervals")
    right.legend(fontsize=8)
    write_png(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--choosing", action="store_true", help="the problems that settings are chosen by")
    parser.add_argument("--arms", default=",".join(USUAL), help="arms, with commas")
    parser.add_argument("--seeds", type=int, default=10, help="runs of each arm on each problem and strength")
    parser.add_argument("--rows", type=Path, default=ROWS, help="file that keeps the rows")
    parser.add_argument("--picture", type=Path, help="file for a picture of the report")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    tasks, first = (CHOOSING, 100) if options.choosing else (REPORTING, 0)
    seeds = range(first, first + options.seeds)
    arms = options.arms.split(",")
    jobs = [
        Job(arm, task.name, strength, seed)
        for seed in seeds
        for arm in arms
        for task in tasks
        for strength in STRENGTHS
    ]
    with contextlib.suppress(KeyboardInterrupt):
        rows = make(jobs, options.rows, options.processes)
        found = report(rows, arms, tasks, seeds)
        if options.picture:
            picture(found, rows, options.picture)
        print(json.dumps(found) if options.json else text(found))


if __name__ == "__main__":
    main()
