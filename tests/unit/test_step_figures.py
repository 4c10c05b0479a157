"""Figures of a group, worked by hand."""

import numpy as np
import pytest

from trainer.learning.step_data import GroupFigures, group_figures, mean_figures


def test_figures_of_a_group_by_hand() -> None:
    chains = [[[1.0, 1.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]]
    keys = [["a", None], ["b", "c"]]
    # Both corners and the middle of the simplex: best of the second chain is max(w1, w2).
    weights = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    found = group_figures([np.array(chain) for chain in chains], keys, weights)
    assert found.set_score == pytest.approx((1.0 + (1 + 1 + 0.5) / 3) / 2)
    assert found.pool_score == 1.0
    assert found.mean_reward == 0.5
    assert found.pass_rate == 0.25
    # Distances between (1,1), (0,0), (1,0), (0,1): 2, 1, 1, 1, 1, 2.
    assert found.diversity == pytest.approx(8 / 6)
    assert found.distinct == 3


def test_the_means_of_a_step_are_those_of_its_groups() -> None:
    first, second = GroupFigures(1, 1, 0.5, 0, 2, 3), GroupFigures(0, 0.5, 0.5, 1, 0, 4)
    assert mean_figures([first, second]) == GroupFigures(0.5, 0.75, 0.5, 0.5, 1, 3.5)
