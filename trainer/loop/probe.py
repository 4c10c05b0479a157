"""Measures a policy version on problems that it was not trained on.

Prompts show only training rows and no parent program. The sampled answers are judged in the sandbox. Prompts
and random numbers depend only on the seed and the problem, so that sampling noise partly cancels in the
difference of two versions. Problems with a scorer, and models on a server, are not supported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from evovpo.analysis.statistics import Array
from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.config import Config
from evovpo.errors import ConfigError
from evovpo.judging.evaluator import open_evaluator
from evovpo.judging.measure import Measure, measure_programs
from evovpo.prompts.request import PromptRequest, choose_rows
from evovpo.types import (
    Example,
    Json,
    Limits,
    Objective,
    PolicyVersion,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Sampling,
    content_id,
)
from trainer.domains.strings.tasks import sample_task

if TYPE_CHECKING:  # it loads torch, which tables and verdicts do not need
    from evovpo.proposers.local import LocalPolicy

KS = (1, 2, 3, 6, 12, 24, 48, 96)
"""The values of k for which results have statistics such as best@k."""

_CHAINS_PER_PROMPT = 4
_BATCH_PROMPTS = 24
_TRAIN_ROWS, _HELDOUT_ROWS = 4, 2
"""Minimum training rows and number of held-out rows of a generated problem."""


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """The statistics of a policy version's answers to P problems."""

    policy_version: int
    answers: int
    """m, answers per completion."""
    seed: int
    problems: tuple[tuple[str, str], ...]
    """Id and version of each problem."""
    measures: tuple[Measure, ...]
    tokens: int = 0

    @property
    def sampled(self) -> int:
        chains, length = self.measures[0].values_C_m.shape
        return int((chains + self.measures[0].faults) * length)

    @property
    def ks(self) -> tuple[int, ...]:
        return tuple(k for k in KS if k <= self.sampled)

    @property
    def faults(self) -> int:
        """Number of completions, over all problems, that were left out because the sandbox failed on them."""
        return sum(found.faults for found in self.measures)

    def values(self, figure: str, ks: Sequence[int]) -> Array:
        """Return the statistic `figure` of the P problems that have it, of shape (P, len(ks))."""
        found = [getattr(measure, figure)(ks) for measure in self.measures]
        return np.array([values for values in found if values is not None])

    def means(self, figure: str) -> dict[int, float]:
        """Return for each k the mean of a statistic over the problems that have it; empty if none has it."""
        values_P_k = self.values(figure, self.ks)
        return dict(zip(self.ks, values_P_k.mean(axis=0).tolist(), strict=True)) if len(values_P_k) else {}

    def summary(self) -> dict[str, Json]:
        """Return the mean of each statistic over the problems as JSON; each k is a string key."""
        maps: dict[str, Json] = {
            name: {str(k): round(value, 6) for k, value in self.means(name).items()}
            for name in ("best_at_k", "pass_at_k", "unseen_pass_at_k", "union_at_k")
        }
        return {
            "problems": len(self.problems),
            "sampled": self.sampled,
            "answers": self.answers,
            "seed": self.seed,
            **maps,
            "diversity": round(float(np.mean([found.diversity for found in self.measures])), 6),
            "distinct": round(float(np.mean([found.distinct_share for found in self.measures])), 6),
            "faulty_completions": self.faults,
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
    """Sample at least `k_max` answers to each problem from a policy, and return the answers' statistics.

    `policy` is a policy version or a model folder. Each completion has `answers` answers. `config` has the
    sandbox settings and the URL of the store, which the sandbox hides from programs. `on_problem(done,
    total)` is called after each problem.

    Raises `PolicyError` if the folder cannot be loaded, `ProblemError` if a problem does not fit the built-in
    format, `SandboxError` if no completion for a problem can be judged, and `ConfigError` if `problems` is
    empty or a number of answers is below 1.
    """
    from evovpo.proposers.local import load_local_policy

    if not problems:
        raise ConfigError("there is no problem to probe; give at least one (`generated_problems` makes some)")
    if answers < 1 or k_max < 1:
        raise ConfigError(f"a probe of {k_max} answers in chains of {answers}: expected at least 1 of each")
    version = policy if isinstance(policy, PolicyVersion) else PolicyVersion(0, None, str(policy))
    loaded = load_local_policy(version)
    found, tokens = [], 0
    for done, problem in enumerate(problems, start=1):
        prompts = root_prompts(problem, answers, -(-k_max // answers), seed)
        chains, sampled = _sample_chains(loaded, problem, prompts, sampling)
        tokens += sampled
        with open_evaluator(problem, config) as judge:
            found.append(measure_programs(problem, chains, judge))
        on_problem(done, len(problems))
    names = tuple((problem.id, problem.version) for problem in problems)
    return ProbeResult(version.number, answers, seed, names, tuple(found), tokens)


def cpu_seconds() -> float:
    """Return the CPU time, in seconds, of this process and its ended child processes, such as sandboxes."""
    return sum(os.times()[:4])


def root_prompts(problem: Problem, answers: int, chains: int, seed: int) -> list[Prompt]:
    """Return prompts without a parent program for `chains` completions, each with `answers` answers."""
    prompt_format = ExpressionFormat(problem)
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
                messages=prompt_format.messages(problem, PromptRequest(answers, rows=rows)),
                rollouts=min(_CHAINS_PER_PROMPT, chains - first),
                answers=answers,
                seed=int(rng.integers(2**31)),
            )
        )
    return prompts


def _sample_chains(
    policy: LocalPolicy, problem: Problem, prompts: Sequence[Prompt], sampling: Sampling
) -> tuple[list[list[Program | None]], int]:
    from evovpo.proposers.sampler import sample

    prompt_format = ExpressionFormat(problem)
    found: list[list[Program | None]] = []
    tokens = 0
    for start in range(0, len(prompts), _BATCH_PROMPTS):
        batch = prompts[start : start + _BATCH_PROMPTS]
        requests = [policy.request(prompt, range(prompt.rollouts), sampling) for prompt in batch]
        completions = sample(policy.weights, requests, policy.end_ids)
        for prompt, request, replies in zip(batch, requests, completions, strict=True):
            for index, reply in enumerate(replies):
                rollout = policy.rollout(prompt, request, index, reply, sampling)
                slots = prompt_format.answers(problem, rollout, prompt.answers)
                found.append([slot.program for slot in slots])
                tokens += len(reply.token_ids)
    return found, tokens


def generated_problems(count: int, seed: int = 0) -> tuple[Problem, ...]:
    """Return `count` string problems from the generator of the pretraining tasks, with other seeds.

    Each has at least four training rows and two held-out rows. Problem i depends only on i and `seed`.
    """
    found = []
    for number in range(count):
        rng = Random(f"probe:{seed}:{number}")
        task = sample_task(rng)
        while len(task.rows) < _TRAIN_ROWS + _HELDOUT_ROWS:
            task = sample_task(rng)
        examples = tuple(Example(row, output) for row, output in zip(task.rows, task.outputs, strict=True))
        train, heldout = examples[:-_HELDOUT_ROWS], examples[-_HELDOUT_ROWS:]
        parameters = tuple(f"text{index + 1}" for index in range(len(task.rows[0])))
        found.append(
            Problem(
                id=f"generated/{seed}-{number}",
                version=content_id(repr(examples)),
                statement="",
                entry="solve",
                parameters=parameters,
                objectives=tuple(Objective(f"row-{row}") for row in range(1, len(train) + 1)),
                seeds=(Program(f"def solve({', '.join(parameters)}):\n    return {parameters[0]}\n"),),
                limits=Limits(cpu_seconds=2),  # no wall-clock limit, which a busy machine would exceed
                train=train,
                heldout=heldout,
            )
        )
    return tuple(found)
