"""Weightings that find their components: hand-worked conflicts, and what holds for any rewards."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evovpo.analysis.weighting import LEAST, concentrations, conflicts, find_weighting
from trainer.config import ObjectiveConfig
from trainer.objectives import batch_advantages, draw_weights, max_at_k

EITHER = np.array([[1.0, 0.0], [0.0, 1.0]] * 8)
"""Sixteen answers, each paid in one of two components."""
POOLS = st.lists(
    arrays(np.float64, (12, 4), elements=st.floats(0, 1, allow_subnormal=False)), min_size=1, max_size=3
)


def test_conflict_is_one_less_the_share_of_answers_that_are_paid_in_both() -> None:
    # Expected 16 * .5 * .5 = 4 if independent, observed 0; with one answer of doubt 4 / 5.
    assert conflicts([EITHER]).tolist() == [[0.0, 0.8], [0.8, 0.0]]
    # Half as many answers to a second prompt that is never paid add nothing.
    assert conflicts([EITHER, np.zeros((8, 2))]).tolist() == [[0.0, 0.8], [0.8, 0.0]]
    # A success in fifty: of 100 answers 100 * .02 * .02 = .04 expected, none observed: nearly no evidence.
    rare = np.zeros((100, 2))
    rare[[0, 1], 0] = rare[[2, 3], 1] = 1.0
    assert conflicts([rare])[0, 1] == pytest.approx(0.04 / 1.04)
    independent = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]] * 9)
    assert not conflicts([independent]).any()
    assert not conflicts([np.ones((9, 2)), np.zeros((9, 2))]).any()  # a prompt that is easy is no agreement


def test_what_conflicts_gets_more_and_nothing_is_left_out() -> None:
    # Groups a and b conflict by .8, c is dead, d is paid everywhere. Moved is .75 * .8 = .6 of the weight.
    pool = np.hstack([EITHER, np.zeros((16, 1)), np.ones((16, 1))])
    a, b, dead, saturated = concentrations([pool], 1.0)
    assert (a, b) == pytest.approx((4 * (0.1 + 0.3),) * 2)
    assert (dead, saturated) == pytest.approx((0.4, 0.4))


def test_copies_are_one_component_and_even_without_a_conflict() -> None:
    pool = np.repeat(EITHER, [3, 1], axis=1)
    assert find_weighting([pool], 1.0, adapts=False) == (((0, 1, 2), (3,)), (1.0, 1.0))
    groups, found = find_weighting([pool], 2.0, adapts=True)
    assert groups == ((0, 1, 2), (3,))
    assert found == pytest.approx((2.0, 2.0))
    assert find_weighting([np.ones((9, 3))], 0.5, adapts=True).concentrations == (0.5,) * 3


@settings(max_examples=60, deadline=None)
@given(POOLS, st.permutations(range(4)))
def test_concentrations_are_bounded_sum_up_and_do_not_depend_on_order(
    pools: list[np.ndarray], order: list[int]
) -> None:
    found = np.array(concentrations(pools, 2.0))
    assert found.sum() == pytest.approx(8.0)
    assert (found >= LEAST * 2.0 - 1e-9).all()
    assert concentrations([pool[:, order] for pool in pools], 2.0) == pytest.approx(found[order])
    assert concentrations([pool[::-1] for pool in pools], 2.0) == pytest.approx(found)


def test_grouped_advantages_are_those_of_the_groups() -> None:
    rng = np.random.default_rng(0)
    either = rng.permutation(EITHER) * rng.random((16, 1))
    copies = np.repeat(either, [3, 1], axis=1)[:, None]
    advantages = [
        batch_advantages("vpo-at-k", [rewards], rng=np.random.default_rng(1), k=4, weights=weights)[0]
        for rewards, weights in ((either[:, None], "uniform"), (copies, "grouped"), (copies, "uniform"))
    ]
    assert advantages[1] == pytest.approx(advantages[0])
    assert np.abs(advantages[2] - advantages[0]).max() > 0.05


def test_adaptive_advantages_follow_from_weightings_with_the_found_concentrations() -> None:
    rng = np.random.default_rng(0)
    groups = [np.hstack([rng.permutation(EITHER), rng.random((16, 1))])[:, None] for _ in range(3)]
    found = batch_advantages("vpo-at-k", groups, rng=np.random.default_rng(1), k=4, weights="adaptive")
    alphas = concentrations([group[:, 0] for group in groups], 1.0)
    assert min(alphas[:2]) > 1.3 > 0.5 > alphas[2]
    draw = np.random.default_rng(1)
    for group, values in zip(groups, found, strict=True):
        scores = max_at_k(group[:, 0] @ draw.dirichlet(alphas, 100).T, 4).mean(axis=1)
        assert values == pytest.approx((scores - scores.mean()) / (scores.std() + 1e-6))


def test_prompts_of_other_components_are_weighed_apart_and_faults_not_at_all() -> None:
    three = np.hstack([EITHER, np.zeros((16, 1))])[:, None]
    mixed = batch_advantages(
        "union-at-k", [EITHER[:, None], three], rng=np.random.default_rng(1), weights="adaptive",
        valid=[[True] * 8 + [False] * 8, None],
    )  # fmt: skip
    alone = batch_advantages("union-at-k", [three], rng=np.random.default_rng(1), weights="adaptive")
    assert mixed[1] == pytest.approx(alone[0])
    assert not mixed[0][8:].any()


def test_uniform_weightings_are_drawn_as_ever() -> None:
    drawn = draw_weights(3, ObjectiveConfig(draws=5, alpha=0.7), np.random.default_rng(4))
    assert drawn.tolist() == np.random.default_rng(4).dirichlet([0.7] * 3, 5).tolist()


def test_groups_without_a_valid_rollout_and_objectives_without_weightings_are_as_they_were() -> None:
    groups = [EITHER[:, None], EITHER[:, None]]
    valid = [np.zeros(len(EITHER), dtype=bool), np.ones(len(EITHER), dtype=bool)]
    lone = [np.zeros((4, 1, 3))]
    for weights in ("grouped", "adaptive"):
        rng = np.random.default_rng(1)
        none = batch_advantages(
            "vpo-at-k", lone, rng=rng, k=2, weights=weights, valid=[np.zeros(4, dtype=bool)]
        )
        assert not none[0].any()
        found, plain = (
            batch_advantages("grpo", groups, rng=np.random.default_rng(1), valid=valid, weights=one)
            for one in (weights, "uniform")
        )
        for one, other in zip(found, plain, strict=True):
            np.testing.assert_array_equal(one, other)
