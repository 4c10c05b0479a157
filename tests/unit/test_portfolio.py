"""Portfolios: the greedy choice against enumeration, shares, and how far programs reach together."""

import itertools
import math

import numpy as np
import pytest

from evovpo.analysis.doctor.sample_figures import weightings
from evovpo.analysis.portfolio import choose_portfolio, coverage, coverage_curve
from evovpo.analysis.statistics import expected_best

UNIFORM = np.stack([(np.arange(1000) + 0.5) / 1000, 1 - (np.arange(1000) + 0.5) / 1000], axis=1)
"""Weightings of two components, evenly spread."""


def test_two_specialists_beat_the_generalist_worked_out_by_hand() -> None:
    # The generalist is worth .6 alone, a specialist .5; both specialists E max(w, 1 - w) = .75.
    found = choose_portfolio(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]]), UNIFORM, 3)
    assert found.chosen[0] == 2
    # Then each specialist adds E max(w - .6, 0) = .4² / 2, and the generalist keeps the middle.
    assert found.expected_best == pytest.approx((0.6, 0.68, 0.76), abs=1e-3)
    assert found.shares == pytest.approx((0.2, 0.4, 0.4), abs=1e-3)


def test_the_greedy_choice_reaches_its_bound_and_adds_less_and_less() -> None:
    rng = np.random.default_rng(5)
    for components, programs in [(2, 9), (3, 9), (5, 8), (8, 8)] * 3:
        rewards = rng.random((programs, components)) ** 3
        weights = weightings(components)
        for size in (1, 2, 3, 4):
            found = choose_portfolio(rewards, weights, size)
            best = max(
                expected_best(rewards[list(chosen)], weights)
                for chosen in itertools.combinations(range(programs), size)
            )
            reached = expected_best(rewards[list(found.chosen)], weights)
            assert reached == pytest.approx(found.expected_best[-1])
            assert (1 - 1 / math.e) * best <= reached <= best + 1e-12
        gains = np.diff((0.0, *found.expected_best))
        assert (np.diff(gains) <= 1e-12).all()
        assert sum(found.shares) == pytest.approx(1)


def test_a_program_that_adds_nothing_is_left_out_and_the_order_of_others_does_not_matter() -> None:
    rewards = np.array([[0.9, 0.9], [1.0, 0.0], [0.9, 0.9], [0.5, 0.5], [0.0, 1.0]])
    found = choose_portfolio(rewards, UNIFORM, 5)
    assert found.chosen[0] == 0
    assert sorted(found.chosen) == [0, 1, 4]
    turned = choose_portfolio(rewards[::-1], UNIFORM, 5)
    assert turned.expected_best == pytest.approx(found.expected_best)
    assert choose_portfolio(rewards[:0], UNIFORM, 3) == ((), (), ())


def test_the_curve_rises_to_what_all_programs_reach_and_the_hypervolume_is_that_of_the_boxes() -> None:
    vectors = [(0, (0.5, 0.5)), (3, (0.2, 0.2)), (8, (1.0, 0.25)), (8, (0.25, 1.0)), (9, (0.5, 0.5))]
    curve = coverage_curve(vectors, UNIFORM)
    assert [point.evaluations for point in curve] == [0, 8]
    # Boxes: .25 alone; then .25 + two strips of .5 x .25 and .25 x .5.
    assert [point.hypervolume for point in curve] == pytest.approx([0.25, 0.5], abs=4 * 0.0036)
    rewards = np.array([vector for _, vector in vectors])
    assert curve[0].expected_best == pytest.approx(0.5)
    assert curve[-1].expected_best == pytest.approx(expected_best(rewards, UNIFORM))
    assert coverage(rewards[::-1], UNIFORM)[1:] == pytest.approx(curve[-1][1:])


def test_the_hypervolume_agrees_with_inclusion_and_exclusion_in_three_components() -> None:
    rng = np.random.default_rng(2)
    rewards = rng.random((6, 3))
    exact = sum(
        (-1) ** (size + 1) * math.prod(rewards[list(chosen)].min(axis=0))
        for size in range(1, 7)
        for chosen in itertools.combinations(range(6), size)
    )
    found = coverage_curve([(1, tuple(row)) for row in rewards], weightings(3))
    assert found[-1].hypervolume == pytest.approx(exact, abs=4 * 0.0036)
