"""How far programs reach together: by hand, and against inclusion and exclusion."""

import itertools
import math

import numpy as np
import pytest

from evovpo.analysis.coverage import coverage, coverage_curve
from evovpo.analysis.doctor.sample_figures import weightings
from evovpo.analysis.statistics import expected_best

UNIFORM = np.stack([(np.arange(1000) + 0.5) / 1000, 1 - (np.arange(1000) + 0.5) / 1000], axis=1)
"""Weightings of two components, evenly spread."""


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
