"""Statistics of sampled answers: correlations of components, mean rewards, and the headroom for VPO."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from evovpo.analysis.grouping import Floats, Groups, component_names, correlations, group_rewards, grouped
from evovpo.analysis.statistics import expected_best
from evovpo.types import Group, Problem


class Sample(NamedTuple):
    """The rewards of completions. If the objectives are grouped, each component is the mean of a group."""

    names: tuple[str, ...]
    members: tuple[tuple[str, ...], ...]
    """For each component, the names of the objectives whose mean is this component."""
    pools: tuple[tuple[Floats, ...], ...]
    """The rewards `[m, D]` of each chain without a sandbox failure, for each of P prompts. The rewards are 0
    for an answer that is unreadable or repeats an earlier answer of the chain."""
    different_N_D: Floats
    answers: int
    """Number of answers requested per completion (the maximum over prompts)."""
    slots: int
    unreadable: int
    faulty: int
    """Number of chains left out because the sandbox failed."""


def take_sample(problem: Problem, groups: Iterable[Group]) -> Sample:
    """Return a sample of the chains of all prompts, except chains on which the sandbox failed."""
    prompts: list[list[JudgedChain]] = []
    faulty = answers = 0
    for group in groups:
        answers = max(answers, group.prompt.answers)
        faulty += group.valid_G.count(False)
        chains = zip(group.rewards_G_M_D, group.programs_G_M, group.valid_G, strict=True)
        prompts.append(
            [(grouped(problem, rows), programs) for rows, programs, is_valid in chains if is_valid]
        )
    own = problem.groups or tuple((index,) for index in range(len(problem.objectives)))
    members = tuple(tuple(problem.objectives[index].name for index in group) for group in own)
    return sample_of(component_names(problem), members, prompts, answers, faulty)


JudgedChain: TypeAlias = "tuple[Floats, Sequence[str | None]]"
"""Rewards `[m, D]` of a chain (0 for repeats), and for each answer its program id (None if unreadable)."""


def sample_of(
    names: tuple[str, ...],
    members: tuple[tuple[str, ...], ...],
    prompts: Sequence[Sequence[JudgedChain]],
    answers: int,
    faulty: int,
) -> Sample:
    """Return a sample of the chains of all prompts. `faulty` is the number of other chains, which failed."""
    different: dict[str, Floats] = {}
    slots = [key for chains in prompts for _, keys in chains for key in keys]
    for rewards, keys in (chain for chains in prompts for chain in chains):
        for key, vector in zip(keys, rewards, strict=True):
            if key is not None:
                # Repeats within a chain have zero rewards, so take the maximum.
                different[key] = np.maximum(vector, different.get(key, 0.0))
    return Sample(
        names=names,
        members=members,
        pools=tuple(tuple(rewards for rewards, _ in chains) for chains in prompts if chains),
        different_N_D=np.array(list(different.values())).reshape(len(different), len(names)),
        answers=answers,
        slots=len(slots),
        unreadable=slots.count(None),
        faulty=faulty,
    )


SET_SIZE = 3
"""m, number of answers in a set, as in all reported results of VPO."""
_WEIGHTINGS = 1024
_SETS = 2000
_EPSILON = 1e-6
"""Below this standard deviation, the scores of a prompt's chains count as equal, as in the trainer."""


class Headroom(NamedTuple):
    """VPO's reward of a set of answers (E_w max w·r), minus the highest mean reward of a single answer."""

    single: float
    """Mean over chains. If chains have one answer, mean over random sets of `SET_SIZE` answers per prompt."""
    prompts: float
    """Mean over prompts, where all answers to a prompt are one set."""
    best: float
    """Headroom of the sample's best `SET_SIZE` answers (`best_set`), which shows the potential of VPO."""


def weightings(components: int) -> Floats:
    """Return about 1,000 fixed weight vectors, shape (K, D): Dirichlet(1) draws and their cyclic shifts."""
    draws = np.random.default_rng(0).dirichlet(np.ones(components), -(-_WEIGHTINGS // components))
    return np.concatenate([np.roll(draws, shift, axis=1) for shift in range(components)])


def mean_headroom(sets_S_m_D: Sequence[Floats], weights_K_D: Floats) -> float:
    """Return the mean headroom of S sets of answers. `Headroom` defines the headroom of a set."""
    return float(
        np.mean([expected_best(rewards, weights_K_D) - rewards.mean(axis=1).max() for rewards in sets_S_m_D])
    )


def random_sets(pools: Sequence[Sequence[Floats]]) -> list[Floats]:
    """Return about 2,000 random sets of at most `SET_SIZE` answers, equally many for each prompt."""
    rng = np.random.default_rng(0)
    each = -(-_SETS // len(pools))
    sets: list[Floats] = []
    for chains in pools:
        rewards = np.concatenate(chains)
        order = rng.random((each, len(rewards))).argsort(axis=1)[:, :SET_SIZE]
        sets += list(rewards[order])
    return sets


def best_set(answers_N_D: Floats, weights_K_D: Floats) -> Floats:
    """Return the rewards, of shape (m, D), of at most `SET_SIZE` answers chosen to maximise E_w max w·r.

    The greedy choice reaches at least 1 - 1/e of the optimal value (Nemhauser, Wolsey and Fisher 1978).
    """
    scores_N_K = answers_N_D @ weights_K_D.T
    chosen: list[int] = []
    reached_K = np.zeros(len(weights_K_D))
    for _ in range(min(SET_SIZE, len(answers_N_D))):
        best = int(np.maximum(scores_N_K, reached_K).mean(axis=1).argmax())
        chosen.append(best)
        reached_K = np.maximum(reached_K, scores_N_K[best])
    found: Floats = answers_N_D[chosen]
    return found


def headroom(sample: Sample, groups: Groups) -> Headroom:
    """Return the headroom of a sample after averaging the components in each of `groups`."""
    weights = weightings(len(groups))
    pools = [[group_rewards(chain, groups) for chain in pool] for pool in sample.pools]
    singles = [chain for pool in pools for chain in pool] if sample.answers > 1 else random_sets(pools)
    return Headroom(
        single=mean_headroom(singles, weights),
        prompts=mean_headroom([np.concatenate(pool) for pool in pools], weights),
        best=mean_headroom([best_set(group_rewards(sample.different_N_D, groups), weights)], weights),
    )


@dataclass(frozen=True, slots=True)
class Figures:
    """Statistics of a sample. Shares and rewards lie in [0, 1]."""

    rank: float
    """`effective_rank`: from 1 to the number of varying components; 0 if no component varies."""
    correlation: float | None
    """Mean Pearson correlation over pairs of varying components; None if there is no pair."""
    mean_rewards: tuple[float, ...]
    """Mean of each component over different answers; for rewards of 0 or 1, the pass rate."""
    dead: tuple[int, ...]
    saturated: tuple[int, ...]
    headroom: Headroom
    rewarded: float
    """Share of all answers, unreadable ones included, that have any reward."""
    right: float
    spread: float
    """Share of prompts whose chains have different scores (E_w max w·r)."""
    flat_at_zero: float
    """Share of prompts whose chains all have the score 0."""
    unreadable: float


def effective_rank(answers_N_D: Floats) -> float:
    """Return the effective number of dimensions of N answers, from 1 to D; 0 if no component varies.

    This is the participation ratio (Σ λ)² / Σ λ² (Gao et al. 2017), where λ are the eigenvalues of the
    correlation matrix of the varying components.
    """
    correlation_D_D = correlations(answers_N_D)
    varying = np.flatnonzero(~np.isnan(np.diagonal(correlation_D_D)))
    squares = float((correlation_D_D[np.ix_(varying, varying)] ** 2).sum())
    return len(varying) ** 2 / squares if len(varying) else 0.0


def measure(sample: Sample) -> Figures:
    """Return the statistics of a sample, which must contain at least one program."""
    answers_N_D = sample.different_N_D
    correlation_D_D = correlations(answers_N_D)
    pairs = correlation_D_D[np.triu_indices(len(sample.names), 1)]
    pairs = pairs[~np.isnan(pairs)]
    slots_S_D = np.concatenate([chain for pool in sample.pools for chain in pool])
    weights = weightings(len(sample.names))
    chain_scores = [np.array([expected_best(chain, weights) for chain in pool]) for pool in sample.pools]
    return Figures(
        rank=effective_rank(answers_N_D),
        correlation=float(pairs.mean()) if pairs.size else None,
        mean_rewards=tuple(map(float, answers_N_D.mean(axis=0))),
        dead=tuple(map(int, np.flatnonzero((answers_N_D == 0).all(axis=0)))),
        saturated=tuple(map(int, np.flatnonzero((answers_N_D == 1).all(axis=0)))),
        headroom=headroom(sample, tuple((index,) for index in range(len(sample.names)))),
        rewarded=float((slots_S_D > 0).any(axis=1).mean()),
        right=float((slots_S_D == 1).all(axis=1).mean()),
        spread=float(np.mean([scores.std() >= _EPSILON for scores in chain_scores])),
        flat_at_zero=float(np.mean([scores.max() == 0 for scores in chain_scores])),
        unreadable=sample.unreadable / sample.slots,
    )
