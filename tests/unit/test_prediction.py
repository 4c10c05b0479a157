"""What the doctor predicts of training: against enumeration, by cases with a known answer, and invariants."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from evovpo.analysis.doctor.prediction import OBJECTIVES, Gain, Prediction, _Prompt, predict
from evovpo.analysis.grouping import Floats
from trainer.objectives import OBJECTIVES as TRAINED

NOTHING, LEFT, RIGHT, BOTH = (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)


def pool(*answers: tuple[float, ...]) -> list[Floats]:
    """Return a prompt with single answers."""
    return [np.array([answer]) for answer in answers]


def best_join(answers: Floats) -> float:
    return max(float(np.maximum(one, other).mean()) for one in answers for other in answers)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_credit_and_figures_equal_an_enumeration_of_all_draws(name: str) -> None:
    rewards = np.random.default_rng(3).integers(0, 3, (4, 2)) / 2
    prompt, k = _Prompt(rewards, 3), 3
    n = len(prompt.rewards)
    p = np.array([0.1, 0.2, 0.3, 0.4])[:n] / sum([0.1, 0.2, 0.3, 0.4][:n])
    uniform = np.full((1, 2), 0.5)
    of = {
        "grpo": (uniform, 1), "max-at-k": (uniform, k), "vpo-at-k": (prompt.weights, k),
        "union-at-k": (np.eye(2), k), "rosa": (prompt.weights, len(rewards)), "join-at-k": (None, k),
    }  # fmt: skip
    weights, size = of[name]

    def worth(places: tuple[int, ...]) -> float:
        answers = prompt.rewards[list(places)]
        return best_join(answers) if weights is None else float((answers @ weights.T).max(axis=0).mean())

    slow = [
        sum(
            float(np.prod(p[list(others)])) * worth((own, *others))
            for others in itertools.product(range(n), repeat=size - 1)
        )
        for own in range(n)
    ]
    noise = 0.06 if name == "join-at-k" else 1e-9
    assert OBJECTIVES[name](prompt)(p) == pytest.approx(slow, abs=noise)


def test_figures_of_a_policy_by_hand() -> None:
    # Two answers, each with probability 1/2: both within two draws half of the time.
    found = _Prompt(np.array([LEFT, RIGHT]), 2).figures(np.array([0.5, 0.5]))
    assert found.pair == pytest.approx(0.5, abs=0.08)
    # E max(w, 1 - w) is 3/4 for a uniform w, and one answer alone is worth 1/2.
    assert found.expected_best == pytest.approx((0.75 + 0.5) / 2, abs=0.04)


def test_every_objective_of_single_answers_that_is_predicted_can_be_trained() -> None:
    assert set(OBJECTIVES) <= set(TRAINED)


def test_answers_that_conflict_ask_for_sets_and_the_rarer_kind_is_kept() -> None:
    rng = np.random.default_rng(0)
    kinds = np.array([NOTHING, LEFT, RIGHT])
    found = predict([pool(*map(tuple, kinds[rng.choice(3, 24, p=[0.8, 0.15, 0.05])])) for _ in range(12)])
    assert found.objective == "vpo-at-k"
    assert found.gains["vpo-at-k"].pair > found.gains["grpo"].pair + 0.05
    assert found.gains["vpo-at-k"].expected_best > found.gains["grpo"].expected_best + 0.01


def test_conflict_between_completions_counts_as_that_within_them() -> None:
    single = predict([pool(NOTHING, NOTHING, LEFT, RIGHT)])
    chains = predict([[np.array([NOTHING, LEFT]), np.array([NOTHING, RIGHT])]])
    assert single == chains


def test_components_that_agree_ask_for_the_plain_mean() -> None:
    found = predict([pool(NOTHING, NOTHING, NOTHING, (0.4, 0.4), BOTH)] * 3)
    assert found.objective == "grpo"
    assert found.gains["vpo-at-k"] == found.gains["max-at-k"]


@pytest.mark.parametrize("answers", [(NOTHING,) * 4, (LEFT,) * 4, (BOTH,) * 30 + (LEFT,)])
def test_prompts_that_are_hopeless_alike_or_solved_leave_nothing_to_learn(
    answers: tuple[tuple[float, ...], ...],
) -> None:
    found = predict([pool(*answers)] * 3)
    assert found.objective is None
    assert all(max(gain) < 0.01 for gain in found.gains.values())


def test_the_order_of_answers_changes_nothing_and_prompts_may_differ_in_their_components() -> None:
    first, second = pool(NOTHING, LEFT, RIGHT, RIGHT), pool((0.0, 0.0, 1.0), (0.2, 0.1, 0.0))
    assert predict([first, second]) == predict([first[::-1], second[::-1]])
    assert predict([first, second]).prompts == 2


def test_a_gain_in_pairs_decides_between_equal_gains_in_the_expected_best() -> None:
    gains = {"grpo": Gain(0.1, 0.0), "max-at-k": Gain(0.1, 0.2), "vpo-at-k": Gain(0.05, 0.9)}
    assert Prediction(1, Gain(0, 0), gains).objective == "max-at-k"
    assert Prediction(1, Gain(0, 0), dict.fromkeys(gains, Gain(0.009, -0.1))).objective is None
