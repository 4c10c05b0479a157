"""After how many problems a training pays, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evovpo.experiments.break_even import ArmCosts, compare, cost_per_solved, until_solved

TRAINED = ArmCosts(300.0, np.array([[10.0, 10.0]]), np.array([[1.0, 1.0]]))
UNTRAINED = ArmCosts(0.0, np.array([[20.0, 20.0]]), np.array([[1.0, 0.0]]))


def test_a_training_pays_when_what_it_saves_has_added_up_to_its_cost() -> None:
    # Untrained a solved problem costs 20 / .5 = 40, trained 10: each problem saves 30, and 300 / 30 = 10.
    found = compare("vpo", "start", "islands", "tokens", TRAINED, UNTRAINED)
    assert found.problems == pytest.approx(10)
    # A draw of the first problem alone saves 20 - 10, of the second, unsolved without training, everything.
    assert (found.low, found.high) == pytest.approx((0, 30))
    assert str(found) == "10 [0, 30]"


def test_cost_per_solved_problem_holds_the_training() -> None:
    # After 10 problems (300 + 10 * 10) / 10 and 10 * 20 / 5: level, as the break-even says.
    (trained,), (untrained,) = (cost_per_solved(one, (10,)) for one in (TRAINED, UNTRAINED))
    assert trained.mean == untrained.mean == pytest.approx(40)
    assert math.isinf(untrained.high)
    assert [one.mean for one in cost_per_solved(TRAINED, (1, 100))] == pytest.approx([310, 13])


def test_a_training_that_saves_nothing_never_pays() -> None:
    dearer = ArmCosts(300.0, np.array([[45.0, 45.0]]), np.array([[1.0, 1.0]]))
    found = compare("grpo", "start", "islands", "cpu_seconds", dearer, UNTRAINED)
    assert found.problems is None
    assert found.high is None
    unsolved = ArmCosts(300.0, np.array([[5.0, 5.0]]), np.array([[0.0, 0.0]]))
    for other in (UNTRAINED, unsolved._replace(training=0.0)):
        found = compare("grpo", "start", "islands", "cpu_seconds", unsolved, other)
        assert (found.problems, found.low, found.high) == (None, None, None)


def test_what_comes_after_a_solution_costs_nothing() -> None:
    assert until_solved(600.0, 600, 200) == pytest.approx(200)
    assert until_solved(600.0, 600, None) == 600
    assert until_solved(50.0, 10, 12) == 50
