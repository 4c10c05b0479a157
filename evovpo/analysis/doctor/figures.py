"""How the components of a sample relate, what its answers earn, and whether its chains differ."""

from dataclasses import dataclass

import numpy as np

from evovpo.analysis.doctor.sample import Sample
from evovpo.analysis.doctor.sets import Scores, score_sets, weightings
from evovpo.analysis.estimators import expected_best
from evovpo.analysis.grouping import Floats, Groups, correlations

_EPSILON = 1e-6
"""Standard deviation of a group's set scores below which it teaches nothing, as in the trainer."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is measured. Shares and rewards lie in [0, 1]."""

    rank: float
    """Effective rank, 1 to the number of components that vary (0 without any): `effective_rank`."""
    correlation: float | None
    """Mean Pearson correlation of two components, over those that vary; `None` if fewer than two do."""
    mean_rewards: tuple[float, ...]
    """Of each component over the different answers; for rewards of 0 and 1 the pass rate."""
    dead: tuple[int, ...]
    """Components above 0 in no answer."""
    saturated: tuple[int, ...]
    """Components below 1 in no answer."""
    copies: Groups
    """Components that vary, and are identical in every answer."""
    scores: Scores
    """With the components as they are and alpha 1."""
    rewarded: float
    """Share of the answers with any reward, unreadable ones included."""
    right: float
    """Share of the answers with every component at 1."""
    rewarded_chains: float
    spread: float
    """Share of the prompts whose chains differ in their set score."""
    flat_at_zero: float
    """Share of the prompts all of whose chains score 0."""
    unreadable: float
    repeated: float


def effective_rank(answers_N_D: Floats) -> float:  # noqa: N803
    """Return in how many different ways N answers differ, a real number from 1 to D.

    The participation ratio of the eigenvalues of the correlation matrix, (Σ λ)² / Σ λ² (Gao et al. 2017, "A
    theory of multineuronal dimensionality, dynamics and measurement"): D for uncorrelated components, 1
    for copies of one, n for n equal groups of copies. Of the correlation and not the covariance matrix, so
    that it says how the components relate and not how often today's answers pass each. Components that do
    not vary are left out; 0 if none does.
    """
    correlation_D_D = correlations(answers_N_D)  # noqa: N806
    varying = np.flatnonzero(~np.isnan(np.diagonal(correlation_D_D)))
    squares = float((correlation_D_D[np.ix_(varying, varying)] ** 2).sum())
    return len(varying) ** 2 / squares if len(varying) else 0.0


def measure(sample: Sample) -> Figures:
    """Return the figures of a sample, which holds at least one program."""
    answers_N_D = sample.different_N_D  # noqa: N806
    correlation_D_D = correlations(answers_N_D)  # noqa: N806
    pairs = correlation_D_D[np.triu_indices(len(sample.names), 1)]
    pairs = pairs[~np.isnan(pairs)]
    slots_S_D = np.concatenate([chain for pool in sample.pools for chain in pool])  # noqa: N806
    weights = weightings(len(sample.names))
    chain_scores = [np.array([expected_best(chain, weights) for chain in pool]) for pool in sample.pools]
    copies: dict[bytes, list[int]] = {}
    for index in np.flatnonzero(np.ptp(answers_N_D, axis=0) > 0):
        copies.setdefault(answers_N_D[:, index].tobytes(), []).append(int(index))
    return Figures(
        rank=effective_rank(answers_N_D),
        correlation=float(pairs.mean()) if pairs.size else None,
        mean_rewards=tuple(map(float, answers_N_D.mean(axis=0))),
        dead=tuple(map(int, np.flatnonzero((answers_N_D == 0).all(axis=0)))),
        saturated=tuple(map(int, np.flatnonzero((answers_N_D == 1).all(axis=0)))),
        copies=tuple(tuple(group) for group in copies.values() if len(group) > 1),
        scores=score_sets(sample, tuple((index,) for index in range(len(sample.names))), 1.0),
        rewarded=float((slots_S_D > 0).any(axis=1).mean()),
        right=float((slots_S_D == 1).all(axis=1).mean()),
        rewarded_chains=float(np.mean(np.concatenate(chain_scores) > 0)),
        spread=float(np.mean([scores.std() >= _EPSILON for scores in chain_scores])),
        flat_at_zero=float(np.mean([scores.max() == 0 for scores in chain_scores])),
        unreadable=sample.unreadable / sample.slots,
        repeated=sample.repeated / sample.slots,
    )
