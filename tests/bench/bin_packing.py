"""Does retraining on a search's own logs help on bin packing? Arms at equal evaluations, over seeds.

    python tests/bench/bin_packing.py run OUT --problem bin-packing-or3 --seeds 0-4
    python tests/bench/bin_packing.py report OUT docs/results/bin-packing

`run` appends one row a search to `OUT/rows.jsonl` as it ends and skips what is there; a store and the policy
versions of every search lie beside it. `report` needs the rows only. Several processes may run into one
folder with different `--arms` or `--seeds`.

Searches, trainings and stores are those of `evovpo evolve` and `evovpo retrain`, with one exception: what
is judged are formulas (`evovpo/builtin/formulas/format.py`), plain arithmetic, which this process computes
by itself; a program that is none, or has more than two powers, goes to the sandbox. `--check N` judges the
first N programs of every search both ways and stops at a difference.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import runpy
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from evovpo.analysis.statistics import Interval, bootstrap_interval, sign_flip_p
from evovpo.builtin.chain import join_chain
from evovpo.builtin.formulas.format import FORMULAS, function_of
from evovpo.builtin.formulas.sampler import FormulaSampler
from evovpo.config import Config
from evovpo.errors import NothingToTrainError
from evovpo.judging.evaluator import Evaluator, load_scorer, open_sandbox
from evovpo.problem.folder import load_problem
from evovpo.prompts.request import Shown
from evovpo.proposers import Proposer, check_ticket, rollout_id
from evovpo.runs.choices import open_proposer
from evovpo.runs.driver import Driver, Progress
from evovpo.runs.replay import build_search
from evovpo.store import Store
from evovpo.types import (
    Evaluation,
    ParentRole,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    Rollout,
    Run,
    RunStatus,
    Sampling,
    Status,
)

SUITE = Path(__file__).resolve().parents[2] / "problems" / "heuristics"
STEP = 48
"""Evaluations between two points of a curve."""
TEST_PARTS = ("test-1", "test-2", "test-3", "test-4")
"""Parts of the instance generator that no search and no choice of settings has seen."""
PUBLISHED = {"bin-packing-or3": ("500-items", 3.11, 5.37), "bin-packing-weibull": ("5000-items", 0.68, 3.98)}
"""Group of the published instances' kind; FunSearch's and best fit's excess there in percent."""

PANELS = (
    (("islands", "iid", "grpo"), ("random", "mutation")),
    (("islands-chains", "iid", "vpo"), ("random", "mutation")),
)
"""Of a picture: arms with bands, and without."""


class Arm(NamedTuple):
    """What is compared: settings of the search, and what is trained."""

    name: str
    label: str
    settings: tuple[str, ...]
    objective: str = ""
    """Of the retraining; empty for an arm that does not train."""


FROZEN = ("proposer.name=local", "search.answers=1")
ARMS = {
    arm.name: arm
    for arm in (
        Arm("islands", "islands, frozen", FROZEN),
        Arm("islands-chains", "islands, frozen, 3 answers", ("proposer.name=local", "search.answers=3")),
        Arm("iid", "i.i.d. sampling, frozen", (*FROZEN, "search.strategy=iid")),
        Arm(
            "vpo",
            "islands, retrained: VPO",
            ("proposer.name=local", "search.answers=3", "proposer.policy=served"),
            "vpo",
        ),
        Arm("grpo", "islands, retrained: GRPO", (*FROZEN, "proposer.policy=served"), "grpo"),
        Arm("random", "random formulas, no model", ("proposer.name=random", "search.strategy=iid")),
        Arm(
            "mutation",
            "islands, random changes, no model",
            ("proposer.name=scripted", "prompt.style=formula"),
        ),
    )
}


# ---------------------------------------------------------------- judging and proposing without a model


class FormulaJudge:
    """Judges formulas in this process, anything else in the sandbox."""

    def __init__(self, problem: Problem, sandboxed: Evaluator, checked: int) -> None:
        self._problem = problem
        self._sandboxed = sandboxed
        self._to_check = checked
        self._scorer = load_scorer(problem)

    def evaluate(self, program: Program) -> Evaluation:
        """Return the judgement of `program`."""
        formula = FORMULAS.from_source(program.source, self._problem.entry)
        if formula is None or formula.count("**") > 2:
            return self._sandboxed.evaluate(program)
        found = self._computed(program, formula)
        if self._to_check > 0:
            self._to_check -= 1
            wanted = self._sandboxed.evaluate(program)
            if (found.status, found.rewards) != (wanted.status, wanted.rewards):
                raise AssertionError(f"{formula}: the sandbox says {wanted}, this process {found}")
        return found

    def evaluate_heldout(self, program: Program) -> tuple[bool, ...]:
        """Return nothing: there are no held-out rows."""
        return ()

    def _computed(self, program: Program, formula: str) -> Evaluation:
        began = time.perf_counter()
        function = function_of(formula)
        rewards = (0.0,) * len(self._problem.objectives)
        try:
            outputs: list[Any] = [function(*case) for case in self._scorer.cases]
        except (ArithmeticError, TypeError):
            status = Status.ERROR
        else:
            # What JSON cannot carry out of the sandbox.
            is_bad = any(
                isinstance(value, complex) or value != value or abs(value) == math.inf for value in outputs
            )
            status = Status.BAD_OUTPUT if is_bad else Status.OK
            if not is_bad:
                by_name: Any = self._scorer.score(outputs)
                rewards = tuple(by_name[objective.name] for objective in self._problem.objectives)
        return Evaluation(
            program_id=program.id,
            problem_version=self._problem.version,
            status=status,
            rewards=rewards,
            feedback="" if status is Status.OK else str(status),
            seconds=time.perf_counter() - began,
            isolation="none: a formula",
        )


class MutationProposer:
    """Genetic programming without a model: random changes of the parent, random formulas without one."""

    policy_version = 0

    def __init__(self, problem: Problem, programs: Mapping[str, Shown]) -> None:
        self._problem = problem
        self._programs = programs

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Return chains of changes; see `Proposer.propose`."""
        check_ticket(prompt, indices)
        return [self._rollout(prompt, index, sampling) for index in indices]

    async def aclose(self) -> None:
        """Do nothing: nothing is held."""

    def _rollout(self, prompt: Prompt, index: int, sampling: Sampling) -> Rollout:
        sampler = FormulaSampler(Random(f"{prompt.seed}:{index}"), len(self._problem.parameters))
        parent = next((item.program_id for item in prompt.parents if item.role is ParentRole.PARENT), None)
        shown = None if parent is None else self._programs.get(parent)
        formula = None if shown is None else FORMULAS.from_source(shown.program.source, self._problem.entry)
        drawn = [
            sampler.formula() if formula is None else sampler.mutant(formula) for _ in range(prompt.answers)
        ]
        return Rollout(
            id=rollout_id(prompt.id, index), prompt_id=prompt.id, index=index, policy_version=0,
            text=join_chain(drawn), token_ids=None, logprobs=None, prompt_token_ids=None, sampling=sampling,
            finish_reason="stop", seconds=0.0,
        )  # fmt: skip


# ---------------------------------------------------------------- one search


class Trainer:
    """Retrains on what is new in a run whenever `interval` more evaluations were told."""

    def __init__(
        self,
        store: Store,
        run_id: str,
        objective: str,
        seed: int,
        interval: int,
        settings: Sequence[str],
        policies: Path,
    ) -> None:
        from trainer.config import TrainConfig

        self._store, self._run_id, self._interval, self._policies = store, run_id, interval, policies
        overrides = [f"objective.name={objective}", f"run.seed={seed}", "probe.problems=0", *settings]
        self._config = TrainConfig.load(None, overrides)
        self._due = interval
        self._after: str | None = None
        self.seconds = 0.0
        self.figures: list[dict[str, float]] = []
        self.nothing = 0
        """Trainings that found nothing to train on."""

    def __call__(self, progress: Progress) -> None:
        """Train if it is time; the search waits."""
        if progress.search.proposed < self._due:
            return
        self._due += self._interval
        from trainer.learning.data import RunPart
        from trainer.loop.retrain import retrain

        began = time.perf_counter()
        try:
            result = retrain(self._store, [RunPart(self._run_id, self._after)], self._config, self._policies)
        except NothingToTrainError:
            self.nothing += 1
            return
        training = self._store.trainings()[-1]
        self._after = training.through[0]
        last = self._store.training_steps(training.id)[-1]
        self.seconds += time.perf_counter() - began
        self.figures.append(
            {
                "evaluations": progress.search.proposed, "groups": result.groups_used, "steps": result.steps,
                "tokens": result.tokens, "kl": round(last.kl, 4), "entropy": round(last.entropy, 4),
            }
        )  # fmt: skip


@contextmanager
def opened(problem: Problem, config: Config, checked: int) -> Iterator[FormulaJudge]:
    """Give a judge for a search."""
    with open_sandbox(problem, config) as sandbox:
        yield FormulaJudge(problem, Evaluator(problem, sandbox), checked)


def search_once(
    problem: Problem, arm: Arm, seed: int, options: argparse.Namespace, known: dict[str, Evaluation]
) -> dict[str, Any]:
    """Run one search and return its row."""
    folder = options.out / "runs" / f"{problem.id.split('/')[-1]}-{arm.name}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    overrides = [
        f"search.evaluations={options.evaluations}", "search.rollouts=8", "search.in_flight=1",
        "sandbox.workers=1",
        f"run.seed={seed}", f"store.url=sqlite:///{folder}/store.db", *arm.settings,
    ]  # fmt: skip
    if options.model and "proposer.name=local" in arm.settings:
        overrides.append(f"proposer.model={options.model}")
    config = Config.load(None, overrides)
    run = Run(
        id=f"{arm.name}-{seed}", problem_id=problem.id, problem_version=problem.version, seed=seed,
        evaluations=options.evaluations, config_json=config.to_json(), status=RunStatus.RUNNING,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip
    began, cpu = time.perf_counter(), time.process_time()
    with Store.open(config.store.url) as store, opened(problem, config, options.check) as judge:
        store.add_problem(problem)
        store.add_run(run)
        search = build_search(problem, config, run)
        trainer = None
        if arm.objective:
            trainer = Trainer(
                store, run.id, arm.objective, seed, options.interval, options.train_set, folder / "policies"
            )
        curve: list[float] = []

        def told(progress: Progress) -> None:
            best = progress.search.best
            while best is not None and len(curve) < progress.search.proposed // STEP:
                curve.append(round(best.evaluation.mean_reward, 6))
            if trainer is not None and progress.search.proposed < options.evaluations:
                trainer(progress)

        proposer: Proposer = (
            MutationProposer(problem, search.programs)
            if config.proposer.name == "scripted"
            else open_proposer(problem, config, store)
        )
        driver = Driver(
            search=search, config=config, proposer=proposer, judge=judge, journal=store, known=known,
            on_tell=told,
        )  # fmt: skip
        status = asyncio.run(_driven(driver, proposer))
        store.set_run_status(run.id, status)
        counts = _counts(store, run.id)
        figures = answer_figures(store, run.id)
        known.update(store.known_evaluations(problem.version))
        trainings = [] if trainer is None else trainer.figures
    best = search.best
    assert best is not None
    return {
        "problem": problem.id.split("/")[-1], "arm": arm.name, "seed": seed,
        "evaluations": options.evaluations, "interval": options.interval, "train_set": options.train_set,
        "step": STEP, "curve": curve, "best": FORMULAS.from_source(best.program.source, problem.entry),
        "source": best.program.source, "rewards": best.evaluation.rewards,
        "mean_reward": best.evaluation.mean_reward,
        **counts, **figures, "executed": driver.executed, "trainings": trainings,
        "training_seconds": 0.0 if trainer is None else round(trainer.seconds, 1),
        "seconds": round(time.perf_counter() - began, 1), "cpu_seconds": round(time.process_time() - cpu, 1),
        "test": tested(problem, best.program),
    }  # fmt: skip


async def _driven(driver: Driver, proposer: Proposer) -> RunStatus:
    try:
        return await driver.run()
    finally:
        await proposer.aclose()


def _counts(store: Store, run_id: str) -> dict[str, int]:
    """Return how many answers were new, known already and not readable, and how many of all had no fault."""
    summary = store.run_summary(run_id)
    statuses = (ParseStatus.PARSED, ParseStatus.DUPLICATE, ParseStatus.UNPARSED)
    found = {str(status): summary.by_parse_status.get(status, 0) for status in statuses}
    return {**found, "ok": summary.by_status.get(Status.OK, 0), "tokens": summary.tokens}


def answer_figures(store: Store, run_id: str) -> dict[str, Any]:
    """Return the mean reward of the answers in each quarter of a search, and how many reward vectors it saw.

    An answer that is not readable, or a second time in its chain, counts as zeros.
    """
    answers = [rows for group in store.groups(run_id) for chain in group.rewards_G_M_D for rows in chain]
    quarters = np.array_split([float(np.mean(rewards)) for rewards in answers], 4)
    return {
        "quarters": [round(float(part.mean()), 4) for part in quarters],
        "behaviours": len({rewards for rewards in answers if max(rewards) > 0.0}),
    }


def tested(problem: Problem, program: Program) -> dict[str, float]:
    """Return the excess, in percent, of a program by group on instances of the test parts, in the sandbox."""
    assert problem.folder is not None
    scorer = runpy.run_path(str(Path(problem.folder) / "score.py"))
    with open_sandbox(problem, Config()) as sandbox:
        result = sandbox.run(program.source, problem.entry, scorer["cases"](), problem.limits)
    assert result.status is Status.OK, result.detail
    parts = [scorer["figures"](list(result.outputs), part) for part in TEST_PARTS]
    return {name: round(100 * sum(part[name] for part in parts) / len(parts), 4) for name in parts[0]}


def run(options: argparse.Namespace) -> None:
    """Make the searches that have no row yet."""
    options.out.mkdir(parents=True, exist_ok=True)
    rows_file = options.out / "rows.jsonl"
    problem = load_problem(SUITE / options.problem)
    known: dict[str, Evaluation] = {}
    for seed in options.seeds:
        for name in options.arms:
            done = {(row["problem"], row["arm"], row["seed"]) for row in read_rows(options.out)}
            if (options.problem, name, seed) in done:
                continue
            row = search_once(problem, ARMS[name], seed, options, known)
            with rows_file.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(
                f"{name} {seed}: {row['mean_reward']:.4f} {row['best']}  ({row['seconds']} s, "
                f"{row['parsed']} new, {row['duplicate']} duplicates, {row['unparsed']} unread)",
                flush=True,
            )


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the finished rows."""
    file = folder / "rows.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


# ---------------------------------------------------------------- the report


def means(values: Sequence[float]) -> Interval:
    """Return the mean over seeds with its 95 % bootstrap interval."""
    return bootstrap_interval(values, None, np.random.default_rng(0))


def area(row: dict[str, Any]) -> float:
    """Return the mean over the evaluations of the best mean reward so far."""
    return float(np.mean(row["curve"]))


def final(row: dict[str, Any]) -> float:
    """Return the best mean reward at the end."""
    return float(row["mean_reward"])


def reference_rules(problem: Problem) -> dict[str, dict[str, float]]:
    """Return the excess of the starting programs on the test instances, in percent, by group."""
    names = {"seed": "best fit", "seed_first_fit": "first fit"}
    return {
        label: tested(problem, Program((SUITE / problem.id.split("/")[-1] / f"{name}.py").read_text()))
        for name, label in names.items()
    }


def compared(
    rows: Sequence[dict[str, Any]], name: str, base: str, measure: Callable[[dict[str, Any]], float]
) -> str:
    """Return the mean difference of two arms over their common seeds, with interval, p and verdict."""
    first, second = ({row["seed"]: measure(row) for row in rows if row["arm"] == arm} for arm in (name, base))
    seeds = sorted(set(first) & set(second))
    if len(seeds) < 2:
        return "too few seeds"
    differences = [first[seed] - second[seed] for seed in seeds]
    found, p = means(differences), sign_flip_p(differences, np.random.default_rng(0))
    verdict = "no difference shown"
    if p < 0.05 and found.is_clear:
        verdict = "better" if found.mean > 0 else "worse"
    return (
        f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}], p = {p:.3f}, {len(seeds)} seeds: {verdict}"
    )


def tables(problem: Problem, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the report of one problem as lines of Markdown."""
    name = problem.id.split("/")[-1]
    group, funsearch, published_best_fit = PUBLISHED[name]
    present = [arm for arm in ARMS.values() if any(row["arm"] == arm.name for row in rows)]
    lines = [
        f"## {name}", "", f"![best mean reward against evaluations]({name}.png)", "",
        "| arm | seeds | best mean reward at the end | mean over the search | new / known / unreadable, % "
        "| mean reward of an answer, first and last quarter | different reward vectors | CPU seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for arm in present:
        own = [row for row in rows if row["arm"] == arm.name]
        ends, areas = means([final(row) for row in own]), means([area(row) for row in own])
        total = sum(row["evaluations"] for row in own) / 100
        shares = [sum(row[key] for row in own) / total for key in ("parsed", "duplicate", "unparsed")]
        first, last = (np.mean([row["quarters"][index] for row in own]) for index in (0, -1))
        lines.append(
            f"| {arm.label} | {len(own)} | {ends.mean:.4f} [{ends.low:.4f}, {ends.high:.4f}] "
            f"| {areas.mean:.4f} [{areas.low:.4f}, {areas.high:.4f}] "
            f"| {shares[0]:.0f} / {shares[1]:.0f} / {shares[2]:.0f} | {first:.3f}, {last:.3f} "
            f"| {np.mean([row['behaviours'] for row in own]):.0f} "
            f"| {np.mean([row['cpu_seconds'] for row in own]):.0f} |"
        )
    lines += ["", "| difference | of the best at the end | of the mean over the search |", "|---|---|---|"]
    bases = [arm for arm in present if not arm.objective]
    pairs = [(arm, base) for arm in present if arm.objective for base in bases]
    named = {arm.name: arm for arm in present}
    others = (("islands", "iid"), ("iid", "random"), ("mutation", "islands"))
    pairs += [(named[a], named[b]) for a, b in others
              if a in named and b in named]  # fmt: skip
    for arm, base in pairs:
        lines.append(
            f"| {arm.label} − {base.label} | {compared(rows, arm.name, base.name, final)} "
            f"| {compared(rows, arm.name, base.name, area)} |"
        )
    lines += [
        "", f"Excess in percent on test instances ({len(TEST_PARTS)} times as many as are rewarded):", "",
        f"| rule | {group} | mean of the groups |", "|---|---|---|",
    ]  # fmt: skip
    for label, found in reference_rules(problem).items():
        lines.append(f"| {label} | {found[group]:.2f} | {np.mean(list(found.values())):.2f} |")
    for arm in present:
        own = [row for row in rows if row["arm"] == arm.name]
        on_group, overall = (
            means([row["test"][group] for row in own]),
            means([float(np.mean(list(row["test"].values()))) for row in own]),
        )
        lines.append(
            f"| {arm.label}: best of each search "
            f"| {on_group.mean:.2f} [{on_group.low:.2f}, {on_group.high:.2f}] "
            f"| {overall.mean:.2f} [{overall.low:.2f}, {overall.high:.2f}] |"
        )
        best = max(own, key=final)
        lines.append(
            f"| … and of all its searches, by reward: `{best['best']}` | {best['test'][group]:.2f} "
            f"| {np.mean(list(best['test'].values())):.2f} |"
        )
    lines.append(f"| published, on the published instances: best fit | {published_best_fit:.2f} | |")
    lines.append(f"| published, on the published instances: FunSearch | {funsearch:.2f} | |")
    return [*lines, ""]


def write_picture(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write best mean reward against evaluations: each retrained arm with bands beside what it is to beat."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from evovpo.reports.pictures import COLOURS, write_png

    colours = dict(zip(ARMS, COLOURS, strict=True))
    figure: Any = Figure(figsize=(11.0, 4.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    shared: Any = None
    for position, (banded, plain) in enumerate(PANELS, start=1):
        axes = figure.add_subplot(1, len(PANELS), position, sharey=shared)
        shared = shared or axes
        for name in (*banded, *plain):
            curves = [row["curve"] for row in rows if row["arm"] == name]
            if not curves:
                continue
            points = [means([curve[index] for curve in curves]) for index in range(min(map(len, curves)))]
            evaluations = [STEP * (index + 1) for index in range(len(points))]
            dashes = "-" if name in banded else ":"
            label = f"{ARMS[name].label} ({len(curves)} seeds)"
            axes.plot(evaluations, [p.mean for p in points], dashes, color=colours[name], label=label)
            if name in banded:
                lows, highs = [p.low for p in points], [p.high for p in points]
                axes.fill_between(evaluations, lows, highs, color=colours[name], alpha=0.15, linewidth=0)
        axes.set_xlabel("evaluations (proposed programs)")
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=8.5, loc="upper left")
        axes.margins(y=0.35)
    shared.set_ylabel("best mean reward so far, 95 % bands over seeds")
    write_png(figure, path)


def report(options: argparse.Namespace) -> None:
    """Write the rows, tables and pictures."""
    rows = read_rows(options.out)
    options.folder.mkdir(parents=True, exist_ok=True)
    exported = options.folder / "rows.jsonl"
    exported.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines: list[str] = []
    for name in PUBLISHED:
        of_problem = [row for row in rows if row["problem"] == name]
        if of_problem:
            lines += tables(load_problem(SUITE / name), of_problem)
            write_picture(options.folder / f"{name}.png", of_problem)
    (options.folder / "tables.md").write_text("\n".join(lines))
    print("\n".join(lines))


def numbers(text: str) -> list[int]:
    """Return the numbers in `0-4` or `0,2,5`."""
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="make the searches that have no row yet")
    runs.add_argument("out", type=Path, help="folder of rows, stores and policy versions")
    runs.add_argument("--problem", choices=sorted(PUBLISHED), default="bin-packing-or3")
    runs.add_argument(
        "--arms", type=lambda text: text.split(","), default=list(ARMS), help="names with commas"
    )
    runs.add_argument("--seeds", type=numbers, default=numbers("0-4"), help="such as 0-4 or 0,3")
    runs.add_argument("--evaluations", type=int, default=960, help="budget of one search; a multiple of 240")
    runs.add_argument("--interval", type=int, default=120, help="evaluations between two trainings")
    runs.add_argument("--train-set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    runs.add_argument("--model", help="model folder; the built-in model unless given")
    runs.add_argument(
        "--check", type=int, default=0, metavar="N", help="programs to judge in the sandbox too"
    )
    runs.set_defaults(command=run)
    reports = commands.add_parser("report", help="write tables, pictures and a copy of the rows")
    reports.add_argument("out", type=Path, help="folder with rows.jsonl")
    reports.add_argument("folder", type=Path, help="where to write")
    reports.set_defaults(command=report)
    options = parser.parse_args()
    options.command(options)


if __name__ == "__main__":
    main()
