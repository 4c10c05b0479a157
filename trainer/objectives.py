"""Training objectives: pure functions from the reward vectors of one group to its advantages.

A group is G rollouts of one prompt, each with m answers of D rewards. The rewards of a group are an array of
shape (G, m, D), or a list of G arrays (m_g, D) if rollouts have different numbers of answers. A missing
answer counts as zeros, which never raise a maximum.

The normalisation deliberately departs from the papers, so that objectives differ only in their scores. Every
objective divides by the population's standard deviation plus 1e-6, while veRL's GRPO uses the sample's. If
the deviation is below 1e-6, all advantages are zero. Rewards are not normalised beforehand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from evovpo.errors import ConfigError, nearest_hint
from trainer.config import ObjectiveConfig

Floats: TypeAlias = npt.NDArray[np.float64]
Rewards: TypeAlias = "npt.ArrayLike | Sequence[npt.ArrayLike]"
"""The rewards of a group: an array `[G, M, D]`, or G arrays `[m_g, D]`; CPU tensors are accepted too."""

EPSILON = 1e-6
"""Added to the standard deviation before division. With a smaller deviation, all advantages are zero."""
LISTED_SETS = 1 << 14
"""If a group has at most this number of sets of k rollouts, `join_at_k` uses all of them."""
DRAWN_SETS = 1 << 12
"""Approximate number of sets that `join_at_k` draws if a group has more than `LISTED_SETS`."""


def draw_weights(components: int, settings: ObjectiveConfig, rng: np.random.Generator) -> Floats:
    """Return random weightings, of shape (K, D), from a symmetric Dirichlet distribution.

    K is `settings.draws`, D is `components`, and the concentration is `settings.alpha`.
    """
    return rng.dirichlet(np.full(components, settings.alpha), settings.draws)


def set_scores(rewards: Rewards, weights_K_D: npt.ArrayLike) -> Floats:
    """Return G scores, one per rollout: the best weighted reward of its answers, averaged over weightings.

    This estimates R(S) = E_w max_{y in S} w·r(y) of VPO (arXiv 2605.22817). A set without answers scores 0.
    """
    scores: Floats = _best_G_K(_padded(rewards), np.asarray(weights_K_D, dtype=np.float64)).mean(axis=1)
    return scores


def max_at_k(scores_G: npt.ArrayLike, k: int) -> Floats:
    """Return transformed scores whose mean is an unbiased estimate of the expected maximum of k scores.

    For scores s_i in ascending order, i = 1…n, T_i = [C(i−1, k−1) s_i + Σ_{j>i} C(j−2, k−2) s_j] / C(n, k)
    (arXiv 2510.23393). The result is T_i n / k, so that its mean is the estimate. The transform works along
    the first axis. Tied scores get equal values. Raises `ConfigError` unless 1 ≤ k ≤ n.
    """
    scores = np.asarray(scores_G, dtype=np.float64)
    n = len(scores)
    if not 1 <= k <= n:
        raise ConfigError(f"max@k over {n} scores: expected k from 1 to {n}, found {k}; change it")
    if k == 1:
        return scores.copy()
    order = np.argsort(scores, axis=0, kind="stable")
    ascending = np.take_along_axis(scores, order, axis=0)
    shape = (n, *[1] * (scores.ndim - 1))
    own = np.array([comb(i - 1, k - 1) for i in range(1, n + 1)], dtype=np.float64).reshape(shape)
    above = np.array([comb(j - 2, k - 2) if j > 1 else 0 for j in range(1, n + 1)], dtype=np.float64)
    better = above.reshape(shape) * ascending
    # Σ over j > i, summed from the end.
    suffix = np.cumsum(better[::-1], axis=0)[::-1] - better
    transformed = np.empty_like(scores)
    np.put_along_axis(transformed, order, (own * ascending + suffix) * (n / (k * comb(n, k))), axis=0)
    return transformed


def join_at_k(rewards: Rewards, k: int, rng: np.random.Generator) -> Floats:
    """Return, for each of G rollouts, the mean value of the sets of k rollouts that contain this rollout.

    A join of two answers has, for each component, the higher of their rewards. Its value is the mean over
    components. The value of a set is that of the best join of two of its answers. The mean of the result is
    an unbiased estimate of the mean value of a set. If there are more than `LISTED_SETS` sets, about
    `DRAWN_SETS` are drawn from `rng`. Equal rollouts get equal values. Raises `ConfigError` unless 1 ≤ k ≤ G.
    """
    padded = _padded(rewards)
    n, answers, components = padded.shape
    if not 1 <= k <= n:
        raise ConfigError(f"join@k over {n} rollouts: expected k from 1 to {n}, found {k}; change it")
    distinct, kinds = np.unique(padded.reshape(n, -1), axis=0, return_inverse=True)
    kinds = kinds.ravel()
    ordered = np.sort(kinds)  # makes the draws below independent of the order of the rollouts
    pool = distinct[ordered].reshape(-1, components)
    joins = np.maximum(pool[:, None], pool).mean(axis=2).reshape(n, answers, n, answers).max(axis=(1, 3))
    if comb(n, k) <= LISTED_SETS:
        sets = _all_sets(n, k)
    else:
        # Permutations cut into sets; the last set is completed from the beginning.
        blocks = -(-n // k)
        orders = rng.random((-(-DRAWN_SETS // blocks), n)).argsort(axis=1)
        sets = orders[:, np.arange(blocks * k) % n].reshape(-1, k)
    values = joins[sets[:, :, None], sets[:, None, :]].max(axis=(1, 2))
    members = ordered[sets].ravel()
    mean_values = np.bincount(members, np.repeat(values, k)) / np.bincount(members)
    return np.asarray(mean_values[kinds], dtype=np.float64)


@lru_cache(maxsize=16)
def _all_sets(n: int, k: int) -> npt.NDArray[np.int64]:
    return np.array(list(combinations(range(n), k)))


@dataclass(frozen=True, slots=True)
class TrainingObjective:
    """A named training objective: its function, and what it needs from rollouts."""

    name: str
    answers: Literal["one", "many"]
    """Number of answers that a rollout may have. With `one`, several answers raise an error."""
    settings: frozenset[str]
    """Names of the settings that the objective reads."""
    function: Callable[[Floats, np.random.Generator, ObjectiveConfig], Floats]
    """Maps the rewards `[n, M, D]` of the n valid rollouts to their advantages `[n]`."""
    usual_answers: int = 1
    least_answers: int = 1
    """Minimum number of answers per rollout; with fewer answers, the objective equals GRPO."""

    def least_rollouts(self, settings: ObjectiveConfig, answers: int) -> int:
        """Return the minimum number of rollouts per prompt, if each rollout has `answers` answers."""
        if "k" in self.settings and settings.k:
            return settings.k + 1 if self.answers == "one" else max(2, -(-settings.k // answers))
        return 2


def advantages(
    name: str,
    rewards: Rewards,
    *,
    rng: np.random.Generator,
    valid: npt.ArrayLike | None = None,
    **settings: Any,
) -> Floats:
    """Return the advantages of one group, one per rollout.

    `valid` has a boolean for each rollout. A rollout with False, for example after a sandbox fault, is
    ignored and has the advantage zero. With fewer than two valid rollouts, all advantages are zero.
    `settings` are those of `ObjectiveConfig`; an objective ignores settings that it does not read.

    Raises `ConfigError` for an unknown objective or setting, too few or too many answers, or a k that is too
    large for the group. Raises `ValueError` if the group is empty, a reward is not finite, or rollouts have
    different numbers of components.
    """
    return batch_advantages(name, [rewards], rng=rng, valid=[valid], **settings)[0]


def batch_advantages(
    name: str,
    groups: Sequence[Rewards],
    *,
    rng: np.random.Generator,
    valid: Sequence[npt.ArrayLike | None] | None = None,
    **settings: Any,
) -> list[Floats]:
    """Return the advantages of each group of a training step, in order. See `advantages` for the errors."""
    objective = find_objective(name)
    chosen = ObjectiveConfig(**settings)
    batch = [_padded(rewards) for rewards in groups]
    used = [
        _checked_valid(padded, None if valid is None else valid[index]) for index, padded in enumerate(batch)
    ]
    found: list[Floats] = []
    for padded, is_valid in zip(batch, used, strict=True):
        if objective.answers == "one" and padded.shape[1] > 1:
            raise ConfigError(
                f"objective {name} scores one answer a rollout, and the group holds {padded.shape[1]}; "
                "sample with search.answers=1, or choose an objective of sets: "
                + ", ".join(other.name for other in OBJECTIVES.values() if other.answers == "many")
            )
        if padded.shape[1] < objective.least_answers:
            raise ConfigError(f"objective {name} {ONE_ANSWER_ADVICE}")
        _check_budget(objective, chosen, *padded.shape[:2])
        result = np.zeros(len(padded))
        if is_valid.sum() > 1:
            result[is_valid] = objective.function(padded[is_valid], rng, chosen)
        found.append(result)
    return found


def find_objective(name: str) -> TrainingObjective:
    """Return an objective by name. For an unknown name, raises `ConfigError` with the nearest known name."""
    if name not in OBJECTIVES:
        raise ConfigError(f"unknown objective {name!r}; {nearest_hint(name, OBJECTIVES)}")
    return OBJECTIVES[name]


def _grpo(rewards: Floats, rng: np.random.Generator, settings: ObjectiveConfig) -> Floats:
    return _z_scores(_scalars(rewards, settings)[:, 0])


def _max_at_k(rewards: Floats, rng: np.random.Generator, settings: ObjectiveConfig) -> Floats:
    """Return the z-scores of the max@k transform (arXiv 2510.23393) of the scalar rewards."""
    scores = _scalars(rewards, settings)[:, 0]
    n = len(scores)
    k = settings.k or max(2, n // 2)
    return _z_scores(max_at_k(scores, max(1, min(k, n - 1))))


def _multi_rlvr(rewards: Floats, rng: np.random.Generator, settings: ObjectiveConfig) -> Floats:
    """Return the z-scores of the scalar reward of each rollout's best answer, as in VPO's paper.

    This is multi-answer RLVR (arXiv 2603.24844). VPO's released code sums over distinct answers instead.
    """
    return _z_scores(_scalars(rewards, settings).max(axis=1))


def _random_weight(rewards: Floats, rng: np.random.Generator, settings: ObjectiveConfig) -> Floats:
    """Return the z-scores of rewards under one random weighting, a baseline of arXiv 2605.22817."""
    weights = draw_weights(rewards.shape[2], settings.model_copy(update={"draws": 1}), rng)
    return _z_scores(rewards[:, 0] @ weights[0])


def _vpo(rewards: Floats, rng: np.random.Generator, settings: ObjectiveConfig) -> Floats:
    """Return the advantages of VPO (arXiv 2605.22817), which scores the answers of a rollout as a set."""
    return _of_sets(rewards, draw_weights(rewards.shape[2], settings, rng), 1)


def _vpo_at_k(rewards: Floats, rng: np.random.Generator, settings: ObjectiveConfig) -> Floats:
    """Return the z-scores of max@k of VPO's score; a set has k answers, joined from several rollouts."""
    return _of_sets(rewards, draw_weights(rewards.shape[2], settings, rng), _set_rollouts(rewards, settings))


def _rosa(rewards: Floats, rng: np.random.Generator, settings: ObjectiveConfig) -> Floats:
    """Return the advantages of ROSA (GX-Chen et al. 2026) with the reward w·r, averaged over weightings w.

    These are z-scores of E_w [max_j w·r_j − max_{j≠i} w·r_j] or, equally, of max@k with k = G − 1.
    """
    best = _best_G_K(rewards, draw_weights(rewards.shape[2], settings, rng))
    second, first = np.partition(best, -2, axis=0)[-2:]
    return _z_scores(np.where(best == first, first - second, 0.0).mean(axis=1))


def _join_at_k(rewards: Floats, rng: np.random.Generator, settings: ObjectiveConfig) -> Floats:
    """Return the z-scores of `join_at_k`, this project's own objective."""
    return _z_scores(join_at_k(rewards, min(_set_rollouts(rewards, settings), len(rewards) - 1), rng))


_DRAWS = frozenset({"draws", "alpha"})
OBJECTIVES: Mapping[str, TrainingObjective] = {
    objective.name: objective
    for objective in (
        TrainingObjective("grpo", "one", frozenset({"scalar"}), _grpo),
        TrainingObjective("max-at-k", "one", frozenset({"k", "scalar"}), _max_at_k),
        TrainingObjective("random-weight", "one", frozenset({"alpha"}), _random_weight),
        TrainingObjective("multi-rlvr", "many", frozenset({"scalar"}), _multi_rlvr, 3),
        TrainingObjective("vpo", "many", _DRAWS, _vpo, 3, 2),
        TrainingObjective("vpo-at-k", "many", _DRAWS | {"k"}, _vpo_at_k),
        TrainingObjective("rosa", "many", _DRAWS, _rosa),
        TrainingObjective("join-at-k", "many", frozenset({"k"}), _join_at_k),
    )
}
ONE_ANSWER_ADVICE = (
    "pays for the answers of one rollout together, and with one answer a rollout it is grpo under another "
    "name; train with vpo-at-k, or sample several: search.answers=3"
)


def _of_sets(rewards: Floats, weights: Floats, rollouts: int) -> Floats:
    """Return the z-scores of max@k of the rollouts' best weighted rewards, averaged over weightings.

    k is `rollouts`, but at most G − 1: with k = G, all transformed scores would be equal.
    """
    k = max(1, min(rollouts, len(rewards) - 1))
    if k == 1 == rewards.shape[1]:  # linear in w: the mean over weightings is exact
        weights = np.full((1, rewards.shape[2]), 1 / rewards.shape[2])
    return _z_scores(max_at_k(_best_G_K(rewards, weights), k).mean(axis=1))


def _set_rollouts(rewards: Floats, settings: ObjectiveConfig) -> int:
    """Return how many rollouts together have k answers (default k: half of all answers, at most 8)."""
    rollouts, answers = rewards.shape[:2]
    return int(np.ceil((settings.k or min(rollouts * answers // 2, 8)) / answers))


def _best_G_K(rewards: Floats, weights: Floats) -> Floats:
    return np.asarray(np.max(rewards @ weights.T, axis=1), dtype=np.float64)


def _scalars(rewards: Floats, settings: ObjectiveConfig) -> Floats:
    weights = settings.scalar or None
    if weights and (len(weights) != rewards.shape[2] or not sum(weights)):
        raise ConfigError(
            f"objective.scalar has the weights {list(weights)}; expected {rewards.shape[2]}, one a component "
            "and not all zero"
        )
    return np.asarray(np.average(rewards, axis=2, weights=weights), dtype=np.float64)


def _z_scores(scores: Floats) -> Floats:
    spread = scores.std()
    if spread < EPSILON:
        return np.zeros_like(scores)
    return np.asarray((scores - scores.mean()) / (spread + EPSILON), dtype=np.float64)


def _padded(rewards: Rewards) -> Floats:
    chains = [np.asarray(chain, dtype=np.float64) for chain in rewards]  # type: ignore[union-attr]
    sizes = {chain.shape[1] for chain in chains if chain.ndim == 2 and len(chain)}
    if not chains or len(sizes) > 1 or any(chain.ndim != 2 and chain.size for chain in chains):
        shapes = sorted({chain.shape for chain in chains})
        raise ValueError(
            f"expected the rewards of a group as [G, M, D], or G arrays [m, D] of one D; found {shapes}"
        )
    components = next(iter(sizes), 1)
    padded = np.zeros((len(chains), max(1, *(len(chain) for chain in chains)), components))
    for row, chain in zip(padded, chains, strict=True):
        if chain.size:
            row[: len(chain)] = chain
    if not np.isfinite(padded).all():
        raise ValueError("expected finite rewards, found nan or infinity; judge these answers again")
    return padded


def _checked_valid(padded: Floats, given: npt.ArrayLike | None) -> npt.NDArray[np.bool_]:
    is_valid = np.ones(len(padded), dtype=bool) if given is None else np.asarray(given, dtype=bool)
    if is_valid.shape != (len(padded),):
        raise ValueError(
            f"expected {len(padded)} booleans in valid, one a rollout; found shape {is_valid.shape}"
        )
    return is_valid


def _check_budget(
    objective: TrainingObjective, settings: ObjectiveConfig, rollouts: int, answers: int
) -> None:
    needed = objective.least_rollouts(settings, answers)
    if 1 < rollouts < needed:
        raise ConfigError(
            f"objective {objective.name} with k = {settings.k} needs at least {needed} rollouts a prompt, "
            f"found {rollouts}; lower k or sample more rollouts"
        )
