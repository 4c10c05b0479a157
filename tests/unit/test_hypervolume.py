"""The share of the cube below the reward vectors: by hand, and against inclusion and exclusion."""

import itertools
import math

import numpy as np
import pytest

from evovpo.analysis.statistics import hypervolume


def test_the_hypervolume_is_that_of_the_boxes() -> None:
    one = [(0.5, 0.5), (0.2, 0.2)]
    assert hypervolume(np.array(one)) == pytest.approx(0.25, abs=4 * 0.0036)
    # .25, and two strips of .5 x .25 and .25 x .5.
    more = [*one, (1.0, 0.25), (0.25, 1.0), (0.5, 0.5)]
    assert hypervolume(np.array(more)) == pytest.approx(0.5, abs=4 * 0.0036)


def test_the_hypervolume_agrees_with_inclusion_and_exclusion_in_three_components() -> None:
    rng = np.random.default_rng(2)
    rewards = rng.random((6, 3))
    exact = sum(
        (-1) ** (size + 1) * math.prod(rewards[list(chosen)].min(axis=0))
        for size in range(1, 7)
        for chosen in itertools.combinations(range(6), size)
    )
    assert hypervolume(rewards) == pytest.approx(exact, abs=4 * 0.0036)
