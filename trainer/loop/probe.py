"""How good a policy version is on problems that it was not trained on, and whether another is clearly worse.

A probe samples answers to root prompts (training rows alone, no parent), with the row orders and random
numbers that follow from its seed and the problem, and judges them in the sandbox. Two versions probed with
one seed answer the same prompts with the same random numbers, so the noise of sampling partly cancels in
their difference. Problems with a scorer, and models behind a server, are not covered.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from evovpo.analysis.estimators import best_at_k_chains, distinct_share, diversity, pass_at_k_chains
from evovpo.analysis.statistics import Array, Interval, mean_interval, paired_interval
from evovpo.builtin.expression_prompts import AlignmentFormat
from evovpo.config import Config
from evovpo.errors import ConfigError, SandboxError
from evovpo.judging.evaluator import Evaluator, open_sandbox
from evovpo.prompts import Request, choose_rows
from evovpo.types import (
    Evaluation,
    Example,
    Json,
    Limits,
    Objective,
    PolicyVersion,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rewards,
    Sampling,
    Status,
    content_id,
)
from trainer.domains.strings.tasks import sample_task
from trainer.reports.figures import BeforeAfter, Curve, write_before_after

if TYPE_CHECKING:  # it loads torch, which tables and verdicts do without
    from evovpo.proposers.local import LocalPolicy

KS = (1, 2, 3, 6, 12, 24, 48, 96)
"""The numbers of answers that results are shown for."""
FEWEST_PROBLEMS = 6
"""On fewer problems no version is called clearly worse: of two equal versions the new one loses on each of 5
by chance once in 32, more often than the 2.5 % that one side of a 95 % interval stands for."""

_CHAINS_PER_PROMPT = 4
"""A prompt shows the rows in an order of its own; one for each chain would mean as many prefills."""
_BATCH_PROMPTS = 24


@dataclass(frozen=True, eq=False)
class ProblemProbe:
    """The judged answers of one version to one problem: C chains of m answers, D training rows."""

    problem_id: str
    problem_version: str
    rewards_C_m_D: Array  # noqa: N815
    """Zeros for an answer that is no program or fails."""
    programs_C_m: tuple[tuple[str | None, ...], ...]  # noqa: N815
    """Ids of the programs; none where no program could be read."""
    unseen_C_m: npt.NDArray[np.bool_] | None  # noqa: N815
    """Right on all training and all held-out rows; none for a problem without held-out rows."""

    @property
    def values_C_m(self) -> Array:  # noqa: N802
        """Mean reward of each answer."""
        return np.asarray(self.rewards_C_m_D.mean(axis=2))

    @property
    def right_C_m(self) -> npt.NDArray[np.bool_]:  # noqa: N802
        """True for an answer that is right on all training rows."""
        return np.asarray((self.rewards_C_m_D >= 1.0).all(axis=2))


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """What one version answered to P problems."""

    policy_version: int
    answers: int
    """m, answers asked for in each chain."""
    seed: int
    problems: tuple[ProblemProbe, ...]
    seconds: float

    @property
    def sampled(self) -> int:
        """N, answers sampled for each problem: the largest k."""
        return self.problems[0].values_C_m.size

    @property
    def ks(self) -> tuple[int, ...]:
        """The numbers of answers that results are shown for, as far as enough were sampled."""
        return tuple(k for k in KS if k <= self.sampled)

    def best(self, ks: Sequence[int]) -> Array:
        """Return the expected best mean reward of k answers, `[P, len(ks)]`."""
        return np.stack([best_at_k_chains(p.values_C_m, ks) for p in self.problems])

    def passed(self, ks: Sequence[int]) -> Array:
        """Return the probability that one of k answers is right on all training rows, `[P, len(ks)]`."""
        return np.stack([pass_at_k_chains(p.right_C_m, ks) for p in self.problems])

    def unseen_passed(self, ks: Sequence[int]) -> Array:
        """Return the same for training and held-out rows, over the problems that have held-out rows."""
        found = [pass_at_k_chains(p.unseen_C_m, ks) for p in self.problems if p.unseen_C_m is not None]
        return np.stack(found) if found else np.zeros((0, len(ks)))

    @property
    def best_at_k(self) -> dict[int, float]:
        """Mean over the problems, by k."""
        return dict(zip(self.ks, self.best(self.ks).mean(axis=0).tolist(), strict=True))

    @property
    def pass_at_k(self) -> dict[int, float]:
        """Mean over the problems, by k: training rows."""
        return dict(zip(self.ks, self.passed(self.ks).mean(axis=0).tolist(), strict=True))

    @property
    def unseen_pass_at_k(self) -> dict[int, float]:
        """Mean over the problems with held-out rows, by k; empty if there are none."""
        found = self.unseen_passed(self.ks)
        return dict(zip(self.ks, found.mean(axis=0).tolist(), strict=True)) if len(found) else {}

    @property
    def diversity(self) -> float:
        """Mean L1 distance between the reward vectors of two answers to a problem, mean over problems."""
        pools = [p.rewards_C_m_D.reshape(-1, p.rewards_C_m_D.shape[2]) for p in self.problems]
        return float(np.mean([diversity(pool) for pool in pools]))

    @property
    def distinct(self) -> float:
        """Different programs over answers, mean over problems."""
        return float(np.mean([distinct_share([*itertools.chain(*p.programs_C_m)]) for p in self.problems]))

    def summary(self) -> dict[str, Json]:
        """Return the figures as JSON, without the answers; keys of maps are texts there."""
        maps: dict[str, Json] = {
            name: {str(k): round(value, 6) for k, value in values.items()}
            for name, values in (
                ("best_at_k", self.best_at_k),
                ("pass_at_k", self.pass_at_k),
                ("unseen_pass_at_k", self.unseen_pass_at_k),
            )
        }
        return {
            "policy_version": self.policy_version,
            "problems": len(self.problems),
            "sampled": self.sampled,
            "answers": self.answers,
            "seed": self.seed,
            **maps,
            "diversity": round(self.diversity, 6),
            "distinct": round(self.distinct, 6),
        }


def probe(
    policy: PolicyVersion | Path | str,
    problems: Sequence[Problem],
    *,
    answers: int = 1,
    k_max: int = KS[-1],
    seed: int = 0,
    sampling: Sampling = Sampling(),  # noqa: B008  # frozen
    config: Config = Config(),  # noqa: B008  # frozen
    on_problem: Callable[[int, int], None] = lambda done, total: None,
) -> ProbeResult:
    """Sample `k_max` answers to each problem from a policy and judge them.

    The policy is a version or a model folder; answers come in chains of `answers` (as many whole chains as
    hold `k_max`). Different programs are run once. `config` says how the sandbox is built and which store
    to hide from it. `on_problem(done, total)` is called after each problem. The result follows from
    policy, problems and arguments, up to answers that time out.

    Raises `PolicyError` for a folder that cannot be loaded, `ProblemError` for a problem that the built-in
    format does not fit, `SandboxError` if a program cannot be judged, `ConfigError` for no problem or no
    answer.
    """
    from evovpo.proposers.local import load_local_policy

    if not problems:
        raise ConfigError("there is no problem to probe; give at least one (`generated_problems` makes some)")
    if answers < 1 or k_max < 1:
        raise ConfigError(
            f"a probe of {k_max} answers in chains of {answers} was asked for; both are at least 1"
        )
    started = time.monotonic()
    version = policy if isinstance(policy, PolicyVersion) else PolicyVersion(0, None, str(policy))
    loaded = load_local_policy(version)
    found = []
    for done, problem in enumerate(problems, start=1):
        prompts = root_prompts(problem, answers, -(-k_max // answers), seed)
        chains = _sample_chains(loaded, problem, prompts, sampling)
        found.append(judge_chains(problem, chains, config))
        on_problem(done, len(problems))
    return ProbeResult(version.number, answers, seed, tuple(found), time.monotonic() - started)


def root_prompts(problem: Problem, answers: int, chains: int, seed: int) -> list[Prompt]:
    """Return the prompts that C chains are sampled from: no parent, the training rows in random orders.

    As a search shows them: all rows, or a random choice where there are more than the format has room for.
    """
    prompt_format = AlignmentFormat(problem)
    prompts = []
    for number, first in enumerate(range(0, chains, _CHAINS_PER_PROMPT)):
        rng = np.random.default_rng([seed, int(content_id(problem.id), 16), number])
        rows = choose_rows(len(problem.train), prompt_format.max_rows, rng)
        prompts.append(
            Prompt(
                id=content_id("probe", str(seed), problem.id, str(number)),
                run_id="",
                sequence=number,
                tells_before=0,
                kind=PromptKind.ROOT,
                island=0,
                parents=(),
                messages=prompt_format.messages(problem, Request(answers, rows=rows)),
                rollouts=min(_CHAINS_PER_PROMPT, chains - first),
                answers=answers,
                seed=int(rng.integers(2**31)),
            )
        )
    return prompts


def _sample_chains(
    policy: LocalPolicy, problem: Problem, prompts: Sequence[Prompt], sampling: Sampling
) -> list[list[Program | None]]:
    """Return the programs of C chains `[C][m]`; what is no program is none."""
    from evovpo.proposers.sampler import sample

    prompt_format = AlignmentFormat(problem)
    found: list[list[Program | None]] = []
    for start in range(0, len(prompts), _BATCH_PROMPTS):
        batch = prompts[start : start + _BATCH_PROMPTS]
        requests = [policy.request(prompt, range(prompt.rollouts), sampling) for prompt in batch]
        completions = sample(policy.weights, requests, policy.end_ids)
        for prompt, request, replies in zip(batch, requests, completions, strict=True):
            for index, reply in enumerate(replies):
                rollout = policy.rollout(prompt, request, index, reply, sampling)
                slots = prompt_format.answers(problem, rollout, prompt.answers)
                found.append([slot.program for slot in slots])
    return found


def judge_chains(
    problem: Problem, chains: Sequence[Sequence[Program | None]], config: Config
) -> ProblemProbe:
    """Return the judged answers of C chains `[C][m]`.

    Every different program is run once on the training rows and, if right on all of them, on the held-out
    ones. Raises `SandboxError` if the sandbox keeps failing.
    """
    programs = {program.id: program for chain in chains for program in chain if program is not None}
    zeros = (0.0,) * len(problem.objectives)
    rewards: dict[str | None, Rewards] = {None: zeros}
    unseen: set[str] = set()
    with open_sandbox(problem, config) as sandbox:
        evaluator = Evaluator(problem, sandbox)
        for program in programs.values():
            evaluation = evaluator.evaluate(program)
            rewards[program.id] = checked_rewards(evaluation, problem)
            is_right = min(rewards[program.id]) >= 1.0
            if is_right and problem.heldout and all(evaluator.evaluate_heldout(program)):
                unseen.add(program.id)
    ids = tuple(tuple(None if program is None else program.id for program in chain) for chain in chains)
    return ProblemProbe(
        problem_id=problem.id,
        problem_version=problem.version,
        rewards_C_m_D=np.array([[rewards[key] for key in chain] for chain in ids], dtype=np.float64),
        programs_C_m=ids,
        unseen_C_m=np.array([[key in unseen for key in chain] for chain in ids]) if problem.heldout else None,
    )


def checked_rewards(evaluation: Evaluation, problem: Problem) -> Rewards:
    """Return the rewards of a judged program; raises `SandboxError` where the sandbox failed, not it."""
    if evaluation.status is Status.SANDBOX_ERROR or evaluation.rewards is None:
        raise SandboxError(
            f"a program for {problem.id} could not be judged, the sandbox failed each time "
            f"({evaluation.feedback}); probe again, or run `python -m evovpo.sandbox --selftest`"
        )
    return evaluation.rewards


# ---------------------------------------------------------------- comparing


class Verdict(NamedTuple):
    """Whether a new version is clearly worse than its parent, and the figures that say so."""

    is_worse: bool
    differences: dict[int, Interval]
    """best@k of the new version minus the parent's, by k, paired over problems."""
    reason: str

    def summary(self) -> dict[str, Json]:
        """Return the verdict as JSON."""
        return {
            "is_worse": self.is_worse,
            "reason": self.reason,
            "differences": {
                str(k): {"mean": i.mean, "low": i.low, "high": i.high, "problems": i.n}
                for k, i in self.differences.items()
            },
        }


def clearly_worse(
    new: ProbeResult, parent: ProbeResult, *, budget: int, margin: float = 0.01, seed: int = 0
) -> Verdict:
    """Return whether `new` has clearly forgotten something that `parent` could: the guard before serving.

    Compared are best@1 and best@k at the search's budget (or the most that were sampled, if fewer), paired
    over the problems. The new version is clearly worse if for one of them the 95 % bootstrap interval of
    the difference lies below 0 and its mean below -`margin`: a loss must be both certain and worth
    mentioning. By chance it refuses a version that is no worse too: of samples of the built-in model compared
    with other samples of it, 2.5 to 3 % on 12 problems or more, 5 to 9 % on 6 to 8. On fewer than
    `FEWEST_PROBLEMS` problems none is. Raises `ConfigError` for probes of different problems.
    """
    _check_same_problems(new, parent)
    ks = sorted({1, min(budget, new.sampled, parent.sampled)})
    differences = differences_by_k(new.best(ks), parent.best(ks), ks, seed)
    shown = ", ".join(f"best@{k} {signed(interval)}" for k, interval in differences.items())
    problems = len(new.problems)
    if problems < FEWEST_PROBLEMS:
        return Verdict(
            False, differences, f"too few problems to tell ({problems} of {FEWEST_PROBLEMS}): {shown}"
        )
    worse = [k for k, i in differences.items() if i.is_below_zero and i.mean < -margin]
    if not worse:
        return Verdict(False, differences, f"not clearly worse on {problems} problems: {shown}")
    where = " and ".join(f"best@{k}" for k in worse)
    return Verdict(True, differences, f"clearly worse at {where} on {problems} problems: {shown}")


def differences_by_k(
    new_P_k: Array,  # noqa: N803
    parent_P_k: Array,  # noqa: N803
    ks: Sequence[int],
    seed: int = 0,
) -> dict[int, Interval]:
    """Return for each k the mean paired difference over problems with its 95 % interval."""
    return {
        k: paired_interval([new_P_k[:, i]], [parent_P_k[:, i]], np.random.default_rng(seed))
        for i, k in enumerate(ks)
    }


def signed(interval: Interval) -> str:
    """Return a difference in words: `+0.031 [-0.004, +0.066]`."""
    return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def _check_same_problems(first: ProbeResult, second: ProbeResult) -> None:
    ordered = [[(p.problem_id, p.problem_version) for p in result.problems] for result in (first, second)]
    if ordered[0] != ordered[1]:
        raise ConfigError(
            f"one probe holds {len(ordered[0])} problems and the other {len(ordered[1])}; expected the same "
            "ones in the same order: probe both versions with the same problems"
        )


def before_after_table(
    before: ProbeResult, after: ProbeResult, names: tuple[str, str] = ("start", "trained")
) -> Group:
    """Return best@k and pass@k of two versions by k, a table each, with the paired difference.

    A difference whose 95 % interval excludes zero is bold. Raises `ConfigError` for probes of other problems.
    """
    _check_same_problems(before, after)
    ks = [k for k in before.ks if k in after.ks]
    tables = []
    for figure, first, second in (
        ("best@k: best mean reward of k answers", before.best(ks), after.best(ks)),
        ("pass@k: one of k answers is right on all rows", before.passed(ks), after.passed(ks)),
    ):
        table = Table(title=figure, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD)
        for name in ("k", *names):
            table.add_column(name, justify="right")
        table.add_column("difference [95 % interval]", justify="right", no_wrap=True)
        found = differences_by_k(second, first, ks)
        for i, k in enumerate(ks):
            is_clear = found[k].is_above_zero or found[k].is_below_zero
            style = ("bold green" if found[k].mean > 0 else "bold red") if is_clear else ""
            cells = (f"{first[:, i].mean():.3f}", f"{second[:, i].mean():.3f}")
            table.add_row(str(k), *cells, Text(signed(found[k]), style))
        tables.append(table)
    return Group(
        "Before and after, on problems outside the training", *tables, _what_was_measured(before, after)
    )


def write_before_after_png(
    path: Path,
    before: ProbeResult,
    after: ProbeResult,
    names: tuple[str, str] = ("start model", "trained"),
    title: str = "Before and after training, on problems outside the training",
) -> None:
    """Write best@k and pass@k of two versions against k, with 95 % bands over the problems.

    Marks of the second are filled where the paired difference, which is what tells two versions apart, has a
    95 % interval that excludes zero.
    Raises `ConfigError` for probes of different problems and for a file that cannot be written.
    """
    _check_same_problems(before, after)
    ks = tuple(k for k in before.ks if k in after.ks)
    panels = []
    for panel, first, second in (
        ("best@k: best mean reward of k answers", before.best(ks), after.best(ks)),
        ("pass@k: one of k answers is right on all rows", before.passed(ks), after.passed(ks)),
    ):
        differences = differences_by_k(second, first, ks).values()
        panels.append(
            BeforeAfter(
                panel,
                _curve(names[0], ks, first),
                _curve(names[1], ks, second),
                tuple(interval.is_above_zero or interval.is_below_zero for interval in differences),
            )
        )
    write_before_after(
        path,
        panels,
        title=title,
        note=f"{_what_was_measured(before, after)} Bands: 95 % bootstrap over problems. Filled circles: "
        "the 95 % interval of the paired difference excludes zero.",
    )


def _curve(name: str, ks: tuple[int, ...], values_P_k: Array) -> Curve:  # noqa: N803
    return Curve(name, ks, tuple(mean_interval(column, np.random.default_rng(0)) for column in values_P_k.T))


def _what_was_measured(before: ProbeResult, after: ProbeResult) -> str:
    sampled = min(before.sampled, after.sampled)
    lengths = " and ".join(map(str, dict.fromkeys((before.answers, after.answers))))
    chains = "" if lengths == "1" else f" in chains of {lengths}"
    return f"{len(before.problems)} problems, {sampled} answers each{chains}, root prompts."


# ---------------------------------------------------------------- problems to probe on


class Split(NamedTuple):
    """A suite cut in two."""

    searched: tuple[Problem, ...]
    """What search and training may use."""
    held_out: tuple[Problem, ...]
    """For probes only."""


def split_problems(problems: Sequence[Problem], held_out: int, seed: int = 0) -> Split:
    """Return the problems in their order, `held_out` of them set aside by a hash of the seed and their ids.

    The hash ranks the problems whatever their order, so a problem more in the suite moves at most one over.
    Raises `ConfigError` unless some are left on the searched side.
    """
    if not 0 <= held_out < len(problems):
        raise ConfigError(
            f"{held_out} of {len(problems)} problems were to be held out; expected 0 to {len(problems) - 1}:"
            " hold fewer out or use a larger suite"
        )
    ranked = sorted(problems, key=lambda problem: content_id("held out", str(seed), problem.id))
    chosen = {problem.id for problem in ranked[:held_out]}
    return Split(
        tuple(problem for problem in problems if problem.id not in chosen),
        tuple(problem for problem in problems if problem.id in chosen),
    )


def generated_problems(count: int, seed: int = 0) -> tuple[Problem, ...]:
    """Return `count` problems on strings made by the generator of the pretraining tasks.

    For probes around a single problem, which leaves nothing to hold out. Each has four or five training
    rows and two held-out ones. Problem i follows from the seed and i alone; pretraining draws from other
    seeds of the same endless supply.
    """
    return tuple(_generated_problem(seed, number) for number in range(count))


_TRAIN_ROWS = 4
_HELDOUT_ROWS = 2


def _generated_problem(seed: int, number: int) -> Problem:
    rng = Random(f"probe:{seed}:{number}")
    task = sample_task(rng)
    while len(task.rows) < _TRAIN_ROWS + _HELDOUT_ROWS:
        task = sample_task(rng)
    examples = tuple(Example(row, output) for row, output in zip(task.rows, task.outputs, strict=True))
    train, heldout = examples[:-_HELDOUT_ROWS], examples[-_HELDOUT_ROWS:]
    parameters = tuple(f"text{index + 1}" for index in range(len(task.rows[0])))
    return Problem(
        id=f"generated/{seed}-{number}",
        version=content_id(repr(examples)),
        statement="",
        entry="solve",
        parameters=parameters,
        objectives=tuple(Objective(f"row-{row}") for row in range(1, len(train) + 1)),
        seeds=(Program(f"def solve({', '.join(parameters)}):\n    return {parameters[0]}\n"),),
        limits=Limits(cpu_seconds=2),  # not the wall clock, which a busy machine makes short
        train=train,
        heldout=heldout,
    )
