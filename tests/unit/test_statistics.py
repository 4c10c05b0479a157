"""Intervals and sign-flip tests against hand-worked cases, formulas and simulated coverage."""

import itertools

import numpy as np
import pytest

from evovpo.analysis.statistics import Interval, bootstrap_interval, sign_flip_p
from evovpo.errors import EvovpoError


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_constant_difference_has_no_spread() -> None:
    rng = generator(1)
    task_levels = rng.random(20)
    found = bootstrap_interval([task_levels + 0.25], [task_levels], generator())
    assert found == pytest.approx(Interval(0.25, 0.25, 0.25, 20))


def test_resamples_of_two_and_three_tasks_by_hand() -> None:
    # n - 1 of n: one of {0, 1} is 0 or 1; two of {0, 0, 1} have mean 0 (4/9), .5 (4/9) or 1 (1/9).
    assert bootstrap_interval([0.0, 1.0], None, generator()) == Interval(0.5, 0.0, 1.0, 2)
    found = bootstrap_interval([0.0, 0.0, 1.0], None, generator(), level=0.7)
    assert found == pytest.approx(Interval(1 / 3, 0.0, 0.5, 3))


def test_the_interval_over_tasks_is_that_of_the_normal_approximation() -> None:
    values = generator(5).normal(0.3, 1.0, 150)
    error = values.std(ddof=1) / np.sqrt(len(values))
    found = bootstrap_interval(values, None, generator(), draws=40_000)
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - 1.96 * error, abs=0.05 * error)
    assert found.high == pytest.approx(values.mean() + 1.96 * error, abs=0.05 * error)


def test_two_levels_match_a_slow_version_that_draws_indices() -> None:
    rng = generator(2)
    arm, reference = rng.random((3, 8)), rng.random((2, 8))
    slow = []
    for _ in range(20_000):
        tasks = rng.integers(0, 8, 7)
        seeds, others = rng.integers(0, 3, 2), rng.integers(0, 2, 1)
        slow.append(arm[np.ix_(seeds, tasks)].mean() - reference[np.ix_(others, tasks)].mean())
    found = bootstrap_interval(arm, reference, generator(), draws=20_000)
    assert found.low == pytest.approx(np.quantile(slow, 0.025), abs=0.01)
    assert found.high == pytest.approx(np.quantile(slow, 0.975), abs=0.01)
    assert found.mean == pytest.approx(arm.mean() - reference.mean())


def test_swapping_the_arms_turns_the_interval_around() -> None:
    rng = generator(4)
    arm, reference = rng.random((1, 30)), rng.random((1, 30))
    there = bootstrap_interval(arm, reference, generator())
    back = bootstrap_interval(reference, arm, generator())
    assert (there.mean, there.low, there.high) == pytest.approx((-back.mean, -back.high, -back.low))
    assert there.is_below_zero == (back.low > 0)


def test_one_seed_adds_no_spread_and_three_that_differ_do() -> None:
    rng = generator(6)
    one = rng.random(30)
    assert bootstrap_interval([one], None, generator()) == bootstrap_interval(one, None, generator())
    three = rng.random((1, 30)) + np.array([[0.0], [0.3], [0.6]])
    both = bootstrap_interval(three, None, generator())
    tasks = bootstrap_interval(three.mean(axis=0), None, generator())
    assert both.high - both.low > 2 * (tasks.high - tasks.low)


def simulated_coverage(over_seeds: bool, seed_spread: float, experiments: int = 150) -> float:
    """Return how often the interval holds the true difference of two arms of three seeds on 30 tasks."""
    rng = generator(7)
    hits = 0
    for _ in range(experiments):
        tasks = rng.normal(0, 1, 30)
        arm, reference = (
            tasks + rng.normal(0, seed_spread, (3, 1)) + rng.normal(0, 0.3, (3, 30)) for _ in range(2)
        )
        pair = (arm, reference) if over_seeds else (arm.mean(axis=0), reference.mean(axis=0))
        found = bootstrap_interval(pair[0] + 0.2, pair[1], rng, draws=400)
        hits += found.low <= 0.2 <= found.high
    return hits / experiments


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    # 150 experiments: .95 has a standard error of .018.
    assert 0.89 <= simulated_coverage(over_seeds=False, seed_spread=0.0) <= 0.99
    assert 0.90 <= simulated_coverage(over_seeds=True, seed_spread=0.1) <= 1.0


def test_sign_flips_by_hand() -> None:
    # Of 8 patterns of +-1 +-2 +-3 two are as far as 6. Of 16 patterns of four ones ten sum to at least 2.
    assert sign_flip_p([1.0, 2.0, 3.0], generator()) == 2 / 8
    assert sign_flip_p([1.0, 1.0, 1.0, -1.0], generator()) == 10 / 16
    assert sign_flip_p([0.0, 0.0], generator()) == 1.0


def test_ties_that_differ_in_their_last_bits_count() -> None:
    # .1 + .2 is not .3: (+, +, -, +) sums to 6e-17 more than .01 and (-, -, +, +) to as much less.
    assert sign_flip_p([0.1, 0.2, -0.3, 0.01], generator()) == 1.0


def test_many_tasks_sample_the_patterns() -> None:
    differences = generator(8).normal(0.2, 1.0, 16)
    patterns = np.array(list(itertools.product((-1.0, 1.0), repeat=16)))
    exact = (np.abs(patterns @ differences) >= abs(differences.sum()) - 1e-12).mean()
    assert sign_flip_p(differences, generator(), draws=20_000) == pytest.approx(exact, abs=0.02)
    assert sign_flip_p(np.ones(40), generator(), draws=999) == 1 / 1000


def test_arms_on_different_tasks_are_an_error() -> None:
    with pytest.raises(EvovpoError, match="one arm has 3 tasks and the other 2"):
        bootstrap_interval([[1.0, 2.0, 3.0]], [[1.0, 2.0]], generator())


@pytest.mark.parametrize(
    ("values", "message"),
    [([], "at least 1 by 1"), ([[[1.0]]], "seeds by tasks"), ([1.0, float("nan")], "1 of 2 values are not")],
)
def test_values_that_say_nothing_are_an_error(values: list[float], message: str) -> None:
    with pytest.raises(EvovpoError, match=message):
        bootstrap_interval(values, None, generator())
