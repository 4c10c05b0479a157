"""best@k, pass@k and diversity against hand-worked values, enumeration and invariants."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evovpo.analysis.statistics import (
    best_at_k,
    distinct_share,
    diversity,
    pass_at_k,
)
from evovpo.errors import EvovpoError

levels = st.sampled_from([0.0, 0.25, 0.5, 1.0])


def slow_best_at_k(values: Sequence[float], k: int) -> float:
    return float(np.mean([max(subset) for subset in itertools.combinations(values, k)]))


def slow_chains(chains: Sequence[Sequence[float]], k: int) -> float:
    """Return the mean, over all orders of the chains, of the best of the first k answers."""
    orders = itertools.permutations(range(len(chains)))
    return float(np.mean([max([v for c in order for v in chains[c]][:k]) for order in orders]))


def test_best_of_k_of_four_values_by_hand() -> None:
    # Two of {0, 1, 2, 4}: maxima 1, 2, 4, 2, 4, 4; three of them: 2, 4, 4, 4.
    assert best_at_k([4.0, 0.0, 2.0, 1.0], [1, 2, 3, 4]) == pytest.approx([7 / 4, 17 / 6, 14 / 4, 4.0])


def test_pass_at_k_by_hand() -> None:
    # One right of three: 1/3, 2/3, 1. None right: 0. Two right of four, k = 2: 1 - C(2,2)/C(4,2) = 5/6.
    assert pass_at_k([True, False, False], [1, 2, 3]) == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert list(pass_at_k([0, 0, 0], [1, 3])) == [0.0, 0.0]
    assert pass_at_k([1, 0, 0, 1], [2]) == pytest.approx([5 / 6])


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 200), st.data())
def test_pass_at_k_is_equation_1_of_the_codex_paper(n: int, data: st.DataObject) -> None:
    right, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    expected = 1.0 - math.comb(n - right, k) / math.comb(n, k)
    assert pass_at_k([True] * right + [False] * (n - right), [k])[0] == pytest.approx(expected, abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(st.lists(levels, min_size=1, max_size=8))
def test_best_at_k_is_the_mean_over_all_subsets(values: list[float]) -> None:
    ks = range(1, len(values) + 1)
    assert best_at_k(values, ks) == pytest.approx([slow_best_at_k(values, k) for k in ks], abs=1e-12)


def test_best_at_k_of_a_thousand_values_is_exact() -> None:
    # Of 0 .. N-1 the expected maximum of k is k (N + 1) / (k + 1) - 1.
    ks = [1, 2, 10, 500, 999, 1000]
    expected = [k * 1001 / (k + 1) - 1 for k in ks]
    assert best_at_k(np.arange(1000.0)[::-1], ks) == pytest.approx(expected, rel=1e-12)
    rare = np.zeros(1000)
    rare[7] = 1.0
    assert pass_at_k(rare, ks) == pytest.approx([k / 1000 for k in ks], rel=1e-12)


def test_a_chain_is_drawn_whole_and_cut_at_k() -> None:
    # k = 1: first answers 0 and .5; k = 2: one chain; k = 3: a chain and the first answer of the other.
    chains = [[0.0, 1.0], [0.5, 0.0]]
    assert best_at_k(chains, [1, 2, 3, 4]) == pytest.approx([0.25, 0.75, 0.75, 1.0])
    assert pass_at_k([[0, 1], [0, 0]], [1, 2, 3, 4]) == pytest.approx([0.0, 0.5, 0.5, 1.0])


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_chains_are_the_mean_over_all_their_orders(count: int, length: int, data: st.DataObject) -> None:
    row = st.lists(levels, min_size=length, max_size=length)
    chains = data.draw(st.lists(row, min_size=count, max_size=count))
    ks = range(1, count * length + 1)
    expected = [slow_chains(chains, k) for k in ks]
    assert best_at_k(chains, ks) == pytest.approx(expected, abs=1e-12)
    right = np.array(chains) == 1.0
    assert pass_at_k(right, ks) == pytest.approx(
        [slow_chains(right.astype(float).tolist(), k) for k in ks], abs=1e-12
    )


@pytest.mark.parametrize("k", [0, -1, 4])
def test_a_k_that_cannot_be_drawn_is_an_error(k: int) -> None:
    with pytest.raises(EvovpoError, match=rf"k is {k}; of 3 answers 1 to 3 can be drawn"):
        best_at_k([0.0, 0.5, 1.0], [1, k])


@pytest.mark.parametrize("values", [[], [[]], [[[0.0], [1.0]]]])
def test_values_of_another_shape_are_an_error(values: list[Any]) -> None:
    with pytest.raises(EvovpoError, match="expected chains by answers"):
        best_at_k(values, [1])


def test_diversity_by_hand() -> None:
    # Pairs: |0-1| + |0-1| = 2, |0-1| + 0 = 1, 0 + 1 = 1.
    assert diversity([[0, 0], [1, 1], [1, 0]]) == pytest.approx(4 / 3)
    assert diversity([[0.3, 0.4]] * 5) == 0.0
    assert diversity([[1.0, 0.0]]) == 0.0


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(levels, levels, levels), min_size=2, max_size=12))
def test_diversity_is_the_mean_over_all_pairs(vectors: list[tuple[float, ...]]) -> None:
    pairs = itertools.combinations(vectors, 2)
    expected = np.mean([sum(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in pairs])
    assert diversity(vectors) == pytest.approx(expected, abs=1e-12)


def test_distinct_share_by_hand() -> None:
    assert distinct_share(["a", "b", "a", None]) == pytest.approx(2 / 4)
    assert [distinct_share(keys) for keys in ([], [None])] == [0.0, 0.0]
