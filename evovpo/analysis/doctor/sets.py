"""How sets of answers score: what VPO pays for, beside the best mean and what the set covers together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evovpo.analysis.doctor.sample import Sample
from evovpo.analysis.estimators import expected_best
from evovpo.analysis.grouping import Floats, Groups, group_rewards

SET_SIZE = 3
"""m, answers in a set: the number that all reported results of VPO use."""
_WEIGHTINGS = 1024
_SETS = 2000


class SetScores(NamedTuple):
    """How sets of answers score, as means over the sets; each figure is at least the one before."""

    sets: int
    best_mean: float
    """Mean reward of the set's best answer by mean reward."""
    expected_best: float
    """E_w max w·r over random weightings: what VPO pays for."""
    union: float
    """Mean over components of the best reward in the set: what E_w max tends to as alpha goes to 0."""

    @property
    def headroom(self) -> float:
        """What VPO sees in a set beyond its best mean reward."""
        return self.expected_best - self.best_mean


class Scores(NamedTuple):
    """How the sets of answers in a sample score, with one grouping and one alpha."""

    chains: SetScores | None
    """Of the answers of one chain: what VPO rewards now; `None` where chains have a single answer."""
    random: SetScores
    """Of `SET_SIZE` random answers to one prompt."""
    prompts: SetScores
    """Of all answers to one prompt."""
    best: SetScores
    """Of the one set of `SET_SIZE` different answers that `best_set` finds: how far VPO could get."""

    @property
    def headroom(self) -> float:
        """What VPO sees now: the headroom of chains, or of random sets where chains have a single answer."""
        return (self.random if self.chains is None else self.chains).headroom


def weightings(components: int, alpha: float = 1.0) -> Floats:
    """Return about a thousand fixed weightings `[K, D]` from Dirichlet(alpha, ..., alpha).

    With each of them come its cyclic shifts. So every component has exactly the same total weight, and
    the mean over K of a maximum is never below the maximum of the means.
    """
    draws = np.random.default_rng(0).dirichlet(np.full(components, alpha), -(-_WEIGHTINGS // components))
    return np.concatenate([np.roll(draws, shift, axis=1) for shift in range(components)])


def set_scores(sets_S_m_D: Sequence[Floats], weights_K_D: Floats) -> SetScores:  # noqa: N803
    """Return the scores of S sets, each of one or more answers `[m, D]`."""
    scores = [
        (rewards.mean(axis=1).max(), expected_best(rewards, weights_K_D), rewards.max(axis=0).mean())
        for rewards in sets_S_m_D
    ]
    return SetScores(len(scores), *map(float, np.mean(scores, axis=0)))


def random_sets(pools: Sequence[Sequence[Floats]], size: int = SET_SIZE) -> list[Floats]:
    """Return about two thousand seeded sets of `size` answers to one prompt, as many of every prompt.

    Of a prompt with fewer answers, the set of them all.
    """
    rng = np.random.default_rng(0)
    each = -(-_SETS // len(pools))
    sets: list[Floats] = []
    for chains in pools:
        rewards = np.concatenate(chains)
        order = rng.random((each, len(rewards))).argsort(axis=1)[:, :size]
        sets += list(rewards[order])
    return sets


def best_set(answers_N_D: Floats, weights_K_D: Floats, size: int = SET_SIZE) -> Floats:  # noqa: N803
    """Return up to `size` different answers `[m, D]` that score high together, fewer where more add nothing.

    Chosen one by one, each to raise E_w max w·r most, beginning with the highest mean. That is at least
    63 % of the best there is, because the score of a set is submodular (Nemhauser, Wolsey and Fisher 1978).
    """
    rows = np.unique(answers_N_D, axis=0)
    scores_N_K = rows @ weights_K_D.T  # noqa: N806
    chosen: list[int] = []
    reached = np.zeros(len(weights_K_D))
    for _ in range(min(size, len(rows))):
        together_N = np.maximum(scores_N_K, reached).mean(axis=1)  # noqa: N806
        best = int(together_N.argmax())
        if chosen and together_N[best] <= reached.mean() + 1e-12:
            break
        chosen.append(best)
        reached = np.maximum(reached, scores_N_K[best])
    found: Floats = rows[chosen]
    return found


def score_sets(sample: Sample, groups: Groups, alpha: float) -> Scores:
    """Return how sets of answers score with a grouping of the sample's components."""
    weights = weightings(len(groups), alpha)
    pools = [[group_rewards(chain, groups) for chain in pool] for pool in sample.pools]
    best = best_set(group_rewards(sample.different_N_D, groups), weights)
    chains = [chain for pool in pools for chain in pool] if sample.answers > 1 else None
    return Scores(
        chains=None if chains is None else set_scores(chains, weights),
        random=set_scores(random_sets(pools), weights),
        prompts=set_scores([np.concatenate(pool) for pool in pools], weights),
        best=set_scores([best], weights),
    )
