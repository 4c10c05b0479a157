"""Set scores and advantages: values worked by hand, slow versions written anew, and what must not matter."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evovpo.errors import ConfigError
from trainer.config import ObjectiveConfig
from trainer.objectives import (
    OBJECTIVES,
    Floats,
    advantages,
    draw_weights,
    join_at_k,
    max_at_k,
    set_scores,
)

MANY = tuple(name for name, objective in OBJECTIVES.items() if objective.answers == "many")
ONE = tuple(name for name, objective in OBJECTIVES.items() if objective.answers == "one")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def group(seed: int, rollouts: int = 6, answers: int = 3, components: int = 4) -> Floats:
    return rng(seed).random((rollouts, answers, components))


def for_objective(name: str, rewards: Floats) -> Floats:
    """Return the first answers only for an objective of single answers."""
    return rewards[:, :1] if name in ONE else rewards


def test_with_one_component_a_set_scores_its_best_answer() -> None:
    rewards = [[[0.1], [0.7], [0.3]], [[0.2]], []]
    assert set_scores(rewards, draw_weights(1, ObjectiveConfig(draws=7), rng())).tolist() == pytest.approx(
        [0.7, 0.2, 0.0]
    )


def test_set_scores_equal_plain_loops() -> None:
    rewards, weights = group(1), draw_weights(4, ObjectiveConfig(draws=20), rng(2))
    slow = [
        sum(max(sum(w * r for w, r in zip(ws, row, strict=True)) for row in chain) for ws in weights) / 20
        for chain in rewards
    ]
    assert set_scores(rewards, weights) == pytest.approx(slow)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 5.0])
def test_weightings_have_the_moments_of_their_distribution(alpha: float) -> None:
    components = 5
    weights = draw_weights(components, ObjectiveConfig(draws=1 << 14, alpha=alpha), rng(4))
    variance = (components - 1) / (components**2 * (components * alpha + 1))
    assert weights.min() >= 0
    assert weights.sum(axis=1) == pytest.approx(np.ones(1 << 14))
    assert weights.mean(axis=0) == pytest.approx(np.full(components, 1 / components), abs=0.01)
    assert weights.var(axis=0) == pytest.approx(np.full(components, variance), rel=0.06)


def test_max_at_2_of_three_scores_by_hand() -> None:
    # Pairs of (1, 2, 4): maxima 2, 4, 4, mean 10/3. By the formula T = (6, 6, 8)/3, times n/k = 3/2.
    assert max_at_k([1.0, 4.0, 2.0], 2) == pytest.approx([3.0, 4.0, 3.0])
    assert max_at_k([1.0, 4.0, 2.0], 2).mean() == pytest.approx(10 / 3)


@given(
    scores=st.lists(st.floats(0, 1), min_size=2, max_size=7),
    data=st.data(),
)
def test_the_transform_shares_every_subset_s_maximum_among_its_members(
    scores: list[float], data: st.DataObject
) -> None:
    n = len(scores)
    k = data.draw(st.integers(1, n))
    # Each subset gives its maximum to each of its k members, 1/k of it; n such shares a member on average.
    slow = np.zeros(n)
    for subset in itertools.combinations(range(n), k):
        for member in subset:
            slow[member] += max(scores[i] for i in subset) / k
    slow *= n / math.comb(n, k)
    assert max_at_k(scores, k) == pytest.approx(slow, abs=1e-9)


@pytest.mark.parametrize("k", [0, 4])
def test_a_budget_outside_the_group_is_refused(k: int) -> None:
    with pytest.raises(ConfigError, match=f"expected k from 1 to 3, found {k}"):
        max_at_k([0.1, 0.2, 0.3], k)


def test_grpo_by_hand() -> None:
    # Means of the vectors: 0, 1/2, 1. Their standard deviation is sqrt(1/6).
    rewards = [[[0.0, 0.0]], [[1.0, 0.0]], [[1.0, 1.0]]]
    wanted = 0.5 / (math.sqrt(1 / 6) + 1e-6)
    assert advantages("grpo", rewards, rng=rng()) == pytest.approx([-wanted, 0.0, wanted])


def test_one_number_is_the_weighted_mean_where_weights_are_given() -> None:
    """Weights of 1 and 3 are as good as four components, the second repeated twice."""
    rewards = np.random.default_rng(0).random((6, 1, 2))
    repeated = rewards[:, :, [0, 1, 1, 1]]
    for name in ("grpo", "max-at-k", "multi-rlvr"):
        found = advantages(name, rewards, rng=rng(), scalar=(1.0, 3.0))
        assert found == pytest.approx(advantages(name, repeated, rng=rng()))


def slow_z(scores: list[float]) -> list[float]:
    mean = sum(scores) / len(scores)
    spread = math.sqrt(sum((s - mean) ** 2 for s in scores) / len(scores))
    return [0.0 if spread < 1e-6 else (s - mean) / (spread + 1e-6) for s in scores]


def slow_set_score(chain: Floats, weights: Floats) -> float:
    if len(chain) == 0:
        return 0.0
    return float(np.mean([max(float(w @ answer) for answer in chain) for w in weights]))


def slow_of_sets(rewards: Floats, chains: int, value: Callable[[Floats], float]) -> list[float]:
    """Return for each chain the mean value of the sets of so many chains that hold it."""
    n = len(rewards)
    worth = {
        places: value(np.concatenate([rewards[place] for place in places]))
        for places in itertools.combinations(range(n), chains)
    }
    return [float(np.mean([worth[s] for s in worth if place in s])) for place in range(n)]


def best_join(answers: Floats) -> float:
    return max(
        sum(max(x, y) for x, y in zip(one, other, strict=True)) / len(one)
        for one in answers
        for other in answers
    )


def slow_rosa(rewards: Floats, weights: Floats) -> list[float]:
    left_out = [np.delete(rewards, place, axis=0) for place in range(len(rewards))]
    whole = slow_set_score(rewards.reshape(-1, rewards.shape[2]), weights)
    return slow_z([whole - slow_set_score(rest.reshape(-1, rewards.shape[2]), weights) for rest in left_out])


SLOW: dict[str, Callable[[Floats, Floats], object]] = {
    "vpo": lambda rewards, weights: slow_z([slow_set_score(chain, weights) for chain in rewards]),
    "vpo-at-k": lambda rewards, weights: slow_z(
        slow_of_sets(rewards, 3, lambda answers: slow_set_score(answers, weights))
    ),
    "rosa": slow_rosa,
    "join-at-k": lambda rewards, weights: slow_z(slow_of_sets(rewards, 3, best_join)),
}
OF_SETS = ("vpo-at-k", "join-at-k", "rosa")
"""The objectives for sets of independent answers."""


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("seed", range(3))
def test_objectives_of_weightings_equal_slow_versions(name: str, seed: int) -> None:
    rewards = group(seed)
    weights = draw_weights(4, ObjectiveConfig(draws=12), rng(seed))
    found = advantages(name, rewards, rng=rng(seed), draws=12, k=8)
    assert found == pytest.approx(np.array(SLOW[name](rewards, weights)), abs=1e-9)
    if name in OF_SETS:  # k answers are eight ninths of three chains, or three single ones
        single = rewards[:, :1]
        found = advantages(name, single, rng=rng(seed), draws=12, k=3)
        assert found == pytest.approx(np.array(SLOW[name](single, weights)), abs=1e-9)


def test_best_joins_by_hand() -> None:
    # Joins: 0+1 and 1+2 are right everywhere, 0+2 and 0 alone are half right, 2 is worth .45.
    rewards = [[[1.0, 0.0]], [[0.0, 1.0]], [[0.9, 0.0]], [[0.0, 0.0]]]
    assert join_at_k(rewards, 1, rng()) == pytest.approx([0.5, 0.5, 0.45, 0.0])
    assert join_at_k(rewards, 2, rng()) == pytest.approx([2.0 / 3, 2.45 / 3, 1.9 / 3, 1.45 / 3], abs=0.01)


@pytest.mark.parametrize("name", OF_SETS)
@pytest.mark.parametrize("answers", [1, 2])
def test_expected_credit_is_the_gradient_of_what_a_set_is_worth(name: str, answers: int) -> None:
    # A policy over three kinds of chain; every group of 4 is enumerated with its probability. Credit less
    # the group's mean, before it is divided by the group's spread, times the gradient of log p, summed.
    kinds = rng(40).random((3, answers, 2)) * [1.0, 0.4]
    logits = np.array([0.3, -0.5, 0.1])
    weights = draw_weights(2, ObjectiveConfig(draws=9), rng(41))
    size = 3 if name == "rosa" else 2
    values = {
        "vpo-at-k": lambda answers: slow_set_score(answers, weights),
        "rosa": lambda answers: slow_set_score(answers, weights),
        "join-at-k": best_join,
    }

    def expected(logits: Floats) -> float:
        p = np.exp(logits) / np.exp(logits).sum()
        return sum(
            float(np.prod(p[list(s)])) * values[name](np.concatenate([kinds[one] for one in s]))
            for s in itertools.product(range(3), repeat=size)
        )

    true = np.array([(expected(logits + e) - expected(logits - e)) / 2e-5 for e in np.eye(3) * 1e-5])
    p = np.exp(logits) / np.exp(logits).sum()
    found = np.zeros(3)
    for drawn in itertools.product(range(3), repeat=4):
        rewards = kinds[list(drawn)]
        if name == "join-at-k":
            credit = join_at_k(rewards, 2, rng())
        else:
            best = (rewards @ weights.T).max(axis=1)
            credit = (best.max(axis=0) if name == "rosa" else max_at_k(best, 2)).mean(axis=-1) * np.ones(4)
            if name == "rosa":
                credit -= [np.delete(best, place, axis=0).max(axis=0).mean() for place in range(4)]
        # What the objective hands out is this credit, scaled.
        handed = advantages(name, rewards, rng=FixedWeights(weights), k=2 * answers, draws=9)
        assert handed == pytest.approx(np.array(slow_z(credit.tolist())), abs=1e-4)
        scores = np.eye(3)[list(drawn)] - p
        found += np.prod(p[list(drawn)]) * ((credit - credit.mean()) @ scores)
    cosine = found @ true / np.linalg.norm(found) / np.linalg.norm(true)
    assert cosine == pytest.approx(1.0, abs=1e-6)


class FixedWeights(np.random.Generator):
    """Draws the weightings that it was given."""

    def __init__(self, weights: Floats) -> None:
        super().__init__(np.random.PCG64(0))
        self.weights = weights

    def dirichlet(self, alpha: object, size: object = None) -> Floats:  # type: ignore[override]
        return self.weights


@pytest.mark.parametrize(("rollouts", "answers", "k"), [(8, 1, 4), (24, 1, 8), (3, 1, 1), (6, 3, 8)])
def test_without_a_budget_it_is_half_of_the_answers_and_at_most_8(
    rollouts: int, answers: int, k: int
) -> None:
    rewards = group(43, rollouts, answers)
    found = advantages("vpo-at-k", rewards, rng=rng())
    assert (found == advantages("vpo-at-k", rewards, rng=rng(), k=k)).all()


def test_vpo_at_k_is_the_default_and_its_whole_group_is_rosa_s() -> None:
    rewards = group(44, answers=1)
    assert (ObjectiveConfig().name, ObjectiveConfig().alpha) == ("vpo-at-k", 1.0)
    rosa = advantages("rosa", rewards, rng=rng())
    for k in (5, 6):  # all but one rollout, and all
        assert advantages("vpo-at-k", rewards, rng=rng(), k=k) == pytest.approx(rosa, abs=1e-3)


@pytest.mark.parametrize("name", ["vpo-at-k", "join-at-k"])
def test_sets_of_one_answer_are_grpo(name: str) -> None:
    rewards = group(45, answers=1)
    assert advantages(name, rewards, rng=rng(), k=1) == pytest.approx(advantages("grpo", rewards, rng=rng()))


@pytest.mark.parametrize("name", ["join-at-k", "multi-rlvr"])
def test_permuting_components_changes_nothing_where_all_count_alike(name: str) -> None:
    rewards = group(47)
    assert advantages(name, rewards[:, :, [2, 0, 3, 1]], rng=rng(), k=6) == pytest.approx(
        advantages(name, rewards, rng=rng(), k=6)
    )


@pytest.mark.parametrize("name", OF_SETS)
def test_large_groups_keep_order_and_scale(name: str) -> None:
    # 64 answers, sets of 32: one is better everywhere, all others alike but for a component of their own.
    rewards = np.full((64, 1, 8), 0.5)
    rewards[np.arange(64), 0, np.arange(64) % 8] += np.linspace(0, 1e-3, 64)
    rewards[9] = 0.9
    found = advantages(name, rewards, rng=rng(), k=32)
    assert np.isfinite(found).all()
    assert (found.argmax(), found.std()) == (9, pytest.approx(1.0, abs=0.05))
    assert found.mean() == pytest.approx(0.0, abs=1e-9)


def test_drawn_sets_come_near_to_all_sets_and_treat_equal_rollouts_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewards = (rng(48).random((12, 1, 5)) < 0.4).astype(float)
    rewards[7] = rewards[2]
    exact = join_at_k(rewards, 5, rng())
    monkeypatch.setattr("trainer.objectives.LISTED_SETS", 0)
    drawn = join_at_k(rewards, 5, rng())
    assert drawn == pytest.approx(exact, abs=0.02)
    assert drawn[7] == drawn[2]
    order = rng(1).permutation(12)
    assert join_at_k(rewards[order], 5, rng()) == pytest.approx(drawn[order])


def test_random_weight_uses_one_weighting_for_the_group() -> None:
    rewards = group(11, answers=1)
    weighting = draw_weights(4, ObjectiveConfig(draws=1), rng(3))[0]
    wanted = slow_z([float(weighting @ rollout[0]) for rollout in rewards])
    assert advantages("random-weight", rewards, rng=rng(3)) == pytest.approx(wanted)


def test_max_at_k_is_the_z_score_of_the_transform_and_its_budget_defaults_to_half_the_group() -> None:
    rewards = group(12, rollouts=8, answers=1)
    scores = rewards.mean(axis=2)[:, 0]
    for k, given_k in ((4, 0), (3, 3)):
        wanted = slow_z(max_at_k(scores, k).tolist())
        assert advantages("max-at-k", rewards, rng=rng(), k=given_k) == pytest.approx(wanted)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_permuting_rollouts_permutes_advantages(name: str) -> None:
    rewards = for_objective(name, group(13))
    order = rng(1).permutation(len(rewards))
    assert advantages(name, rewards[order], rng=rng()) == pytest.approx(
        advantages(name, rewards, rng=rng())[order]
    )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_scaling_all_rewards_changes_nothing_but_rounding(name: str) -> None:
    rewards = for_objective(name, group(14))
    assert advantages(name, 0.5 * rewards, rng=rng()) == pytest.approx(
        advantages(name, rewards, rng=rng()), abs=2e-3
    )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_advantages_of_a_group_sum_to_zero(name: str) -> None:
    found = advantages(name, for_objective(name, group(15)), rng=rng())
    assert found.sum(axis=0) == pytest.approx(np.zeros(found.shape[1:]), abs=1e-9)
    assert np.abs(found).max() > 0.1


@pytest.mark.parametrize("name", OBJECTIVES)
def test_equal_rollouts_teach_nothing(name: str) -> None:
    rewards = np.repeat(for_objective(name, group(16))[:1], 5, axis=0)
    assert not advantages(name, rewards, rng=rng()).any()


@pytest.mark.parametrize("name", MANY)
def test_a_missing_answer_equals_a_zero_row(name: str) -> None:
    rewards = group(18)
    rewards[2, 1:] = 0.0
    ragged = [*rewards[:2], rewards[2, :1], *rewards[3:]]
    assert (advantages(name, ragged, rng=rng()) == advantages(name, rewards, rng=rng())).all()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_invalid_rollouts_count_nowhere(name: str) -> None:
    rewards = for_objective(name, group(23, rollouts=7))
    valid = np.array([True, False, True, True, True, False, True])
    spoiled = rewards.copy()
    spoiled[~valid] = 1.0
    found = advantages(name, spoiled, rng=rng(), valid=valid)
    assert not found[~valid].any()
    assert found[valid] == pytest.approx(advantages(name, rewards[valid], rng=rng()))


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("valid", [[True, False, False], [False, False, False]])
def test_fewer_than_two_valid_rollouts_teach_nothing(name: str, valid: list[bool]) -> None:
    rewards = for_objective(name, group(24, rollouts=3))
    assert not advantages(name, rewards, rng=rng(), valid=valid, k=2).any()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_torch_tensors_give_what_arrays_give_and_arguments_stay_as_they_were(name: str) -> None:
    rewards = for_objective(name, group(25))
    before = rewards.copy()
    found = advantages(name, torch.from_numpy(rewards), rng=rng())
    assert (found == advantages(name, rewards, rng=rng())).all()
    assert (rewards == before).all()


REFUSED: list[tuple[str, Any, dict[str, Any], str]] = [
    ("vpo-at-n", group(27), {}, "unknown objective 'vpo-at-n'; did you mean"),
    *((name, group(27), {}, "scores one answer a rollout, and the group holds 3") for name in ONE),
    ("vpo", group(20, answers=1), {}, r"objective vpo .* grpo under another name; .* vpo-at-k"),
    ("vpo", group(28), {"draw": 3}, r"unknown key objective\.draw; did you mean 'draws'"),
    ("vpo", group(29), {"draws": 0}, r"objective\.draws: expected"),
    ("vpo", group(29), {"alpha": 0.0}, r"objective\.alpha: expected"),
    ("vpo", group(29), {"alpha": math.nan}, r"objective\.alpha: expected"),
    ("vpo", group(29), {"k": -1}, r"objective\.k: expected"),
    ("max-at-k", group(30, answers=1), {"k": 6}, "k = 6 needs at least 7 rollouts a prompt, found 6"),
    ("vpo-at-k", group(44, answers=1), {"k": 7}, "k = 7 needs at least 7 rollouts a prompt, found 6"),
    ("grpo", group(31, answers=1), {"scalar": (1.0,)}, r"the weights \[1.0\]; expected 4, one a component"),
    ("vpo", group(31), {"valid": [True]}, "expected 6 booleans in valid"),
    ("grpo", [], {}, "expected the rewards of a group"),
    ("grpo", [[0.1, 0.2]], {}, "expected the rewards of a group"),
    ("grpo", [[[0.1]], [[0.1, 0.2]]], {}, "expected the rewards of a group"),
    ("grpo", [[[math.nan]], [[0.0]]], {}, "expected finite rewards"),
    ("grpo", [[[math.inf]], [[0.0]]], {}, "expected finite rewards"),
]


@pytest.mark.parametrize(("name", "rewards", "options", "said"), REFUSED)
def test_what_an_objective_cannot_score_is_refused(
    name: str, rewards: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises((ConfigError, ValueError), match=said):
        advantages(name, rewards, rng=rng(), **options)
