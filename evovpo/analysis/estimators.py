"""What a sample of answers says about a policy: best@k, pass@k, diversity; exact, pure, numpy only.

best@k is the expected best mean reward among k answers, pass@k the probability that one of k passes
everything. Both are computed as the exact expectation over what could have been drawn, without
replacement, from the N answers at hand: no random permutation, so two policies compared on the same tasks
differ by their answers alone. Sums over thousands of answers are safe: nothing divides large binomials.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evovpo.errors import ConfigError

Array = npt.NDArray[np.float64]


def best_at_k(values_C_m: npt.ArrayLike, ks: Sequence[int]) -> Array:  # noqa: N803
    """Return for each k the expected maximum of k answers that come in chains of m.

    The protocol of the paper (arXiv 2605.22817): draw ceil(k/m) of the C chains without replacement, join
    them and keep the first k answers; that is floor(k/m) whole chains and the first k mod m answers of one
    more. Exact for every k. `values_C_m` holds one row a chain, its answers in the order written; a missing
    answer is a zero. N independent answers are chains of one, and may be given as `[N]`: the mean of the
    maximum over all their subsets of size k, which is unbiased. Raises `ConfigError` unless 1 <= k <= C·m.
    """
    values = np.asarray(values_C_m, dtype=np.float64)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or not values.size:
        raise ConfigError(
            f"values have shape {values.shape}; expected chains by answers, at least 1 by 1: "
            "judge some answers first"
        )
    chains, length = values.shape
    # P(max <= t) as a sum over the last, cut chain: either it lies below t as a whole, then all q + 1 chains
    # are drawn from those that do; or only its first answers do, and the q whole ones come from the rest.
    thresholds = np.unique(values)
    below_whole = _count_below(values.max(axis=1), thresholds)
    found = []
    for k in ks:
        if not 1 <= k <= values.size:
            raise ConfigError(
                f"k is {k}; of {values.size} answers 1 to {values.size} can be drawn: sample more answers"
                " or leave this k out"
            )
        whole, rest = divmod(k, length)
        if rest == 0:
            share = _all_below(chains, whole)[below_whole]
        else:
            below_cut = _count_below(values[:, :rest].max(axis=1), thresholds)
            share = _all_below(chains, whole + 1)[below_whole]
            others = _all_below(chains - 1, whole)[np.minimum(below_whole, chains - 1)]
            share = share + (below_cut - below_whole) / chains * others
        found.append(thresholds[-1] - np.dot(np.diff(thresholds), share[:-1]))
    return np.array(found)


def pass_at_k(right_C_m: npt.ArrayLike, ks: Sequence[int]) -> Array:  # noqa: N803
    """Return for each k the probability that k answers in chains of m hold a right one.

    Chains are drawn as in `best_at_k`; raises as it does. With c right ones of N independent answers it is
    the unbiased estimator 1 - C(N - c, k) / C(N, k) (Chen et al. 2021, arXiv 2107.03374, equation 1).
    """
    return best_at_k(np.asarray(right_C_m, dtype=bool), ks)


def expected_best(rewards_m_D: Array, weights_K_D: Array) -> float:  # noqa: N803
    """Return E_w max w·r of a set of m answers, the mean over K weightings: what VPO pays for."""
    return float((rewards_m_D @ weights_K_D.T).max(axis=0).mean())


def diversity(vectors_N_D: npt.ArrayLike) -> float:  # noqa: N803
    """Return the mean L1 distance between the reward vectors of two different answers, in [0, D].

    The diversity of the paper (arXiv 2605.22817). It rewards a mix of good and failed answers too: read it
    beside best@k. 0.0 for fewer than two answers. Takes O(D N log N): in a sorted column of N the value of
    rank i (from 0) is the larger of a pair i times and the smaller N - 1 - i times.
    """
    vectors = np.asarray(vectors_N_D, dtype=np.float64)
    count = len(vectors)
    if count < 2:
        return 0.0
    signs = 2.0 * np.arange(count) - (count - 1)
    total = float((signs @ np.sort(vectors, axis=0)).sum())
    return total / (count * (count - 1) / 2)


def distinct_share(keys: Sequence[str | None]) -> float:
    """Return the number of different answers over the number of answers; None is an unreadable answer.

    Unreadable answers count below the line only. 0.0 for no answers.
    """
    return len(set(keys) - {None}) / len(keys) if keys else 0.0


def _count_below(values_N: Array, thresholds: Array) -> npt.NDArray[np.int64]:  # noqa: N803
    """Return for each threshold how many values do not exceed it."""
    return np.searchsorted(np.sort(values_N), thresholds, side="right")


def _all_below(population: int, drawn: int) -> Array:
    """Return, for n from 0 to N, the probability C(n, q) / C(N, q) that q of N drawn lie among n given.

    By the ratio of neighbours from the top, p(n - 1) = p(n) (n - q) / n: products of numbers in [0, 1].
    """
    n = np.arange(population, 0, -1)
    steps = np.maximum(n - drawn, 0) / n
    return np.concatenate([[1.0], np.cumprod(steps)])[::-1]
