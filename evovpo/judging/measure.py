"""Statistics of a policy's evaluated answers to one task. A chain is the m answers in one completion.

A completion with a sandbox failure is left out. All rewards of a failing, unreadable or missing answer are 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evovpo.analysis import statistics
from evovpo.analysis.statistics import Array
from evovpo.errors import SandboxError
from evovpo.judging.evaluator import Judge
from evovpo.search.population import non_dominated
from evovpo.types import Group, Problem, Program, Rewards


class JudgedAnswer(NamedTuple):
    key: str | None
    """Equal for equal answers; `None` if the answer is unreadable or missing."""
    rewards: Rewards | None
    """D components in [0, 1], zeros for an unreadable or failing answer; `None` if the sandbox failed."""
    span: tuple[int, int] | None = None
    """Half-open range of the answer's tokens in the completion; `None` if the answer is missing."""
    reason: str = ""

    @property
    def is_right(self) -> bool:
        return self.rewards is not None and min(self.rewards) >= 1.0


def without_repeats(chain: Sequence[JudgedAnswer]) -> list[JudgedAnswer]:
    """Return the answers of one completion. Repeats of an earlier answer get zero rewards, with a reason."""
    keys = [answer.key for answer in chain]
    firsts = [place if key is None else keys.index(key) for place, key in enumerate(keys)]
    return [
        answer
        if first == place or answer.rewards is None
        else answer._replace(rewards=(0.0,) * len(answer.rewards), reason=f"repeats answer {first + 1}")
        for place, (first, answer) in enumerate(zip(firsts, chain, strict=True))
    ]


def without_faults(chains: Sequence[Sequence[JudgedAnswer]]) -> list[int]:
    """Return the indices of completions without a sandbox failure. Raises `SandboxError` if all have one."""
    left = [place for place, chain in enumerate(chains) if all(one.rewards is not None for one in chain)]
    if not left:
        raise SandboxError(
            f"the sandbox failed on each of the {len(chains)} completions of a task; try again, or run"
            " `python -m evovpo.sandbox --selftest`"
        )
    return left


@dataclass(frozen=True, eq=False)
class Measure:
    """The evaluated answers of one policy to one task: C completions with m answers each.

    Each answer has D rewards. If there are fewer than k answers, a statistic for k uses all answers.
    """

    rewards_C_m_D: Array
    keys_C_m: tuple[tuple[str | None, ...], ...]
    faults: int = 0
    unseen_C_m: npt.NDArray[np.bool_] | None = None
    """True for an answer that is right on all training and held-out rows; `None` without held-out rows."""
    scalar: tuple[float, ...] = ()
    """Weights of the components in the scalar value of an answer; empty for equal weights."""

    @property
    def values_C_m(self) -> Array:
        """Weighted mean of the rewards of each answer, of shape (C, m). The weights are in `scalar`."""
        return np.asarray(np.average(self.rewards_C_m_D, axis=2, weights=self.scalar or None))

    @property
    def right_C_m(self) -> npt.NDArray[np.bool_]:
        return np.asarray((self.rewards_C_m_D >= 1.0).all(axis=2))

    def best_at_k(self, ks: Sequence[int]) -> Array:
        return statistics.best_at_k(self.values_C_m, self._within(ks))

    def pass_at_k(self, ks: Sequence[int]) -> Array:
        return statistics.pass_at_k(self.right_C_m, self._within(ks))

    def unseen_pass_at_k(self, ks: Sequence[int]) -> Array | None:
        return None if self.unseen_C_m is None else statistics.pass_at_k(self.unseen_C_m, self._within(ks))

    def solved_at_k(self, ks: Sequence[int]) -> Array:
        unseen = self.unseen_pass_at_k(ks)
        return self.pass_at_k(ks) if unseen is None else unseen

    def expected_at_k(self, ks: Sequence[int], weights_K_D: Array) -> Array:
        """Return, for each k, the best weighted reward of k answers, averaged over the K weightings."""
        return self._over(ks, self.rewards_C_m_D @ weights_K_D.T)

    def expected_best_at_k(self, ks: Sequence[int]) -> Array:
        """Return `expected_at_k` for 64 fixed random weightings, drawn from Dirichlet(1)."""
        weights = np.random.default_rng(0).dirichlet(np.ones(self.rewards_C_m_D.shape[2]), 64)
        return self.expected_at_k(ks, weights)

    def pair_at_k(self, ks: Sequence[int]) -> Array:
        """Return, for each k, the probability that k answers include a right answer or a complementary pair.

        In a complementary pair, each component is 1 in at least one of the two answers.
        """
        return statistics.pair_at_k(self.rewards_C_m_D, self._within(ks))

    def by_k(self, ks: Sequence[int]) -> dict[str, Array]:
        """Return four statistics as {name: one value for each k}. Stored data use these names."""
        return {
            "best_at_k": self.best_at_k(ks),
            "pass_at_k": self.pass_at_k(ks),
            "expected_at_k": self.expected_best_at_k(ks),
            "pair_at_k": self.pair_at_k(ks),
        }

    def union_at_k(self, ks: Sequence[int]) -> Array:
        """Return, for each k, the mean over all components of the best reward among k answers."""
        return self._over(ks, self.rewards_C_m_D)

    @property
    def diversity(self) -> float:
        return statistics.diversity(self.rewards_C_m_D.reshape(-1, self.rewards_C_m_D.shape[2]))

    @property
    def pareto_share(self) -> float:
        """Share of answers that no other answer dominates. An answer with only zeros counts as dominated."""
        vectors = self.rewards_C_m_D.reshape(-1, self.rewards_C_m_D.shape[2])
        return float(np.mean(non_dominated(vectors) & vectors.any(axis=1)))

    @property
    def hypervolume(self) -> float:
        """Hypervolume: share of [0, 1]^D dominated by at least one answer, estimated by sampling."""
        return statistics.hypervolume(self.rewards_C_m_D.reshape(-1, self.rewards_C_m_D.shape[2]))

    @property
    def distinct_share(self) -> float:
        return statistics.distinct_share([key for chain in self.keys_C_m for key in chain])

    def _over(self, ks: Sequence[int], scores_C_m_K: Array) -> Array:
        found: Array = np.mean(
            [statistics.best_at_k(scores, self._within(ks)) for scores in scores_C_m_K.transpose(2, 0, 1)], 0
        )
        return found

    def _within(self, ks: Sequence[int]) -> list[int]:
        return [min(k, self.values_C_m.size) for k in ks]


def measure(chains: Sequence[Sequence[JudgedAnswer]], unseen: frozenset[str] | None = None) -> Measure:
    """Return the `Measure` of completions, each given as a list of m evaluated answers.

    `unseen` contains the keys of answers that are right on all training and held-out rows. Raises
    `SandboxError` if every completion has a sandbox failure.
    """
    left = [chains[place] for place in without_faults(chains)]
    keys = tuple(tuple(answer.key for answer in chain) for chain in left)
    return Measure(
        rewards_C_m_D=np.array([[answer.rewards for answer in chain] for chain in left], dtype=np.float64),
        keys_C_m=keys,
        faults=len(chains) - len(left),
        unseen_C_m=None if unseen is None else np.array([[key in unseen for key in chain] for chain in keys]),
    )


def measure_programs(problem: Problem, chains: Sequence[Sequence[Program | None]], judge: Judge) -> Measure:
    """Evaluate the programs in completions and return their `Measure`; None is an answer without a program.

    A program that is right on the training rows is also run on the held-out rows. Raises `SandboxError` if
    every completion has a sandbox failure.
    """
    zeros = (0.0,) * len(problem.objectives)
    answers: dict[str | None, JudgedAnswer] = {None: JudgedAnswer(None, zeros)}
    unseen: set[str] = set()
    for program in {
        program.id: program for chain in chains for program in chain if program is not None
    }.values():
        answer = JudgedAnswer(program.id, judge.evaluate(program).rewards)
        if answer.is_right and problem.heldout:
            try:
                if all(judge.evaluate_heldout(program)):
                    unseen.add(program.id)
            except SandboxError:
                answer = JudgedAnswer(program.id, None)
        answers[program.id] = answer
    judged = [[answers[None if program is None else program.id] for program in chain] for chain in chains]
    return measure(judged, frozenset(unseen) if problem.heldout else None)


def measure_groups(groups: Iterable[Group]) -> Measure:
    """Return the `Measure` of the stored rollouts of a run, as if all answered one prompt."""
    chains = []
    for group in groups:
        for rewards, programs, is_valid in zip(
            group.rewards_G_M_D, group.programs_G_M, group.valid_G, strict=True
        ):
            # Use the rewards of a program's first occurrence: groups have zeros for repeats.
            first = dict(zip(programs[::-1], rewards[::-1], strict=True))
            chains.append([JudgedAnswer(key, first[key] if is_valid else None) for key in programs])
    return measure(chains)
