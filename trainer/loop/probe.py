"""How good a policy version is on problems that it was not trained on.

A probe samples answers to root prompts (training rows alone, no parent), with the row orders and random
numbers that follow from its seed and the problem, and judges them in the sandbox. Two versions probed with
one seed answer the same prompts with the same random numbers, so the noise of sampling partly cancels in
their difference. Problems with a scorer, and models behind a server, are not covered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evovpo.analysis.statistics import Array
from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.config import Config
from evovpo.errors import ConfigError
from evovpo.judging.evaluator import open_evaluator
from evovpo.judging.measure import Measure, measure_programs
from evovpo.prompts import Request, choose_rows
from evovpo.types import Json, PolicyVersion, Problem, Program, Prompt, PromptKind, Sampling, content_id

if TYPE_CHECKING:  # it loads torch, which tables and verdicts do without
    from evovpo.proposers.local import LocalPolicy

KS = (1, 2, 3, 6, 12, 24, 48, 96)
"""The numbers of answers that results are shown for."""

_CHAINS_PER_PROMPT = 4
"""A prompt shows the rows in an order of its own; one for each chain would mean as many prefills."""
_BATCH_PROMPTS = 24


class ProblemProbe(NamedTuple):
    """What one version answered to one problem."""

    problem_id: str
    problem_version: str
    measure: Measure


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
    def measures(self) -> list[Measure]:
        """The P measures."""
        return [problem.measure for problem in self.problems]

    @property
    def sampled(self) -> int:
        """N, answers sampled for each problem: the largest k."""
        chains, length = self.measures[0].values_C_m.shape
        return int((chains + self.measures[0].faults) * length)

    @property
    def ks(self) -> tuple[int, ...]:
        """The numbers of answers that results are shown for, as far as enough were sampled."""
        return tuple(k for k in KS if k <= self.sampled)

    def best(self, ks: Sequence[int]) -> Array:
        """Return the expected best mean reward of k answers, `[P, len(ks)]`."""
        return np.stack([found.best_at_k(ks) for found in self.measures])

    def passed(self, ks: Sequence[int]) -> Array:
        """Return the probability that one of k answers is right on all training rows, `[P, len(ks)]`."""
        return np.stack([found.pass_at_k(ks) for found in self.measures])

    @property
    def best_at_k(self) -> dict[int, float]:
        """Mean over the problems, by k."""
        return self._means(self.best(self.ks))

    @property
    def pass_at_k(self) -> dict[int, float]:
        """Mean over the problems, by k: training rows."""
        return self._means(self.passed(self.ks))

    @property
    def unseen_pass_at_k(self) -> dict[int, float]:
        """Mean over the problems with held-out rows, by k: those rows too; empty if there are none."""
        found = [found.unseen_pass_at_k(self.ks) for found in self.measures if found.unseen_C_m is not None]
        return self._means(found) if found else {}

    @property
    def union_at_k(self) -> dict[int, float]:
        """Mean over the problems, by k: what a search that joins programs can use."""
        return self._means([found.union_at_k(self.ks) for found in self.measures])

    @property
    def diversity(self) -> float:
        """Mean L1 distance between the reward vectors of two answers to a problem, mean over problems."""
        return float(np.mean([found.diversity for found in self.measures]))

    @property
    def distinct(self) -> float:
        """Different programs over answers, mean over problems."""
        return float(np.mean([found.distinct_share for found in self.measures]))

    @property
    def faults(self) -> int:
        """Completions left out because the sandbox failed on them, over all problems."""
        return sum(found.faults for found in self.measures)

    def summary(self) -> dict[str, Json]:
        """Return the figures as JSON, without the answers; keys of maps are texts there."""
        maps: dict[str, Json] = {
            name: {str(k): round(value, 6) for k, value in getattr(self, name).items()}
            for name in ("best_at_k", "pass_at_k", "unseen_pass_at_k", "union_at_k")
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
            "faulty_completions": self.faults,
        }

    def _means(self, values_P_k: Array | Sequence[Array | None]) -> dict[int, float]:  # noqa: N803
        return dict(zip(self.ks, np.mean(np.asarray(values_P_k), axis=0).tolist(), strict=True))


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
    format does not fit, `SandboxError` if no completion for a problem can be judged, `ConfigError` for no
    problem or no answer.
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
        with open_evaluator(problem, config) as judge:
            measured = measure_programs(problem, chains, judge)
        found.append(ProblemProbe(problem.id, problem.version, measured))
        on_problem(done, len(problems))
    return ProbeResult(version.number, answers, seed, tuple(found), time.monotonic() - started)


def root_prompts(problem: Problem, answers: int, chains: int, seed: int) -> list[Prompt]:
    """Return the prompts that C chains are sampled from: no parent, the training rows in random orders.

    As a search shows them: all rows, or a random choice where there are more than the format has room for.
    """
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
    """Return the programs of C chains `[C][m]`; what is no program is `None`."""
    from evovpo.proposers.sampler import sample

    prompt_format = ExpressionFormat(problem)
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
