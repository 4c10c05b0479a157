"""Choosing between models, and the limits on requests: worked by hand, and against slow versions."""

import asyncio
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evovpo.config import BudgetConfig
from evovpo.errors import BudgetError
from evovpo.proposers.bandit import Bandit, pick_weighted
from evovpo.proposers.limits import Bucket, Budget, Spending

# Weights


def test_models_are_picked_in_proportion_to_their_weights() -> None:
    counts = Counter(pick_weighted([3.0, 1.0], seed) for seed in range(4000))
    assert counts[0] / 4000 == pytest.approx(0.75, abs=0.03)
    assert counts[0] + counts[1] == 4000


def test_the_same_seed_picks_the_same_model() -> None:
    assert [pick_weighted([1.0, 1.0], seed) for seed in range(50)] == [
        pick_weighted([5.0, 5.0], seed) for seed in range(50)
    ]


# The bandit


def test_models_that_were_never_asked_come_first_in_their_order() -> None:
    bandit = Bandit(["a", "b", "c"])
    assert [bandit.choose() for _ in range(3)] == ["a", "b", "c"]


def test_values_are_gain_by_token() -> None:
    bandit = Bandit(["a", "b"])
    bandit.observe("a", 0.5, 100)
    bandit.observe("a", 0.0, 300)
    bandit.observe("b", 0.1, 10)
    assert bandit.values == {"a": 0.5 / 400, "b": 0.01}


def test_the_choice_is_the_largest_bound() -> None:
    # a: value 0.01 of 0.01, bound 1 + sqrt(2 ln 12 / 8) = 1.788; b: 0.5 + sqrt(2 ln 12 / 4) = 1.615.
    bandit = Bandit(["b", "a"])
    for _ in range(8):
        bandit.observe("a", 0.1, 10)
    for _ in range(4):
        bandit.observe("b", 0.1, 20)
    assert 1 + math.sqrt(2 * math.log(12) / 8) > 0.5 + math.sqrt(2 * math.log(12) / 4)
    assert bandit.choose() == "a"
    # Eight more of a under way: 1 + sqrt(2 ln 20 / 16) = 1.612 against 0.5 + sqrt(2 ln 20 / 4) = 1.724.
    bandit.give_up("a", 1)
    bandit.choose(8)
    assert bandit.choose() == "b"


def test_a_model_of_the_same_worth_and_twice_the_tokens_is_asked_less() -> None:
    bandit, asked = Bandit(["dear", "cheap"]), Counter[str]()
    for _ in range(400):
        name = bandit.choose()
        asked[name] += 1
        bandit.observe(name, 0.01, 200 if name == "dear" else 100)
    assert asked["cheap"] > 1.5 * asked["dear"] > 0


def test_without_gains_all_models_are_asked_alike() -> None:
    bandit, asked = Bandit(["a", "b", "c"]), Counter[str]()
    for _ in range(90):
        name = bandit.choose()
        asked[name] += 1
        bandit.observe(name, 0.0, 50)
    assert set(asked.values()) == {30}


def test_replies_under_way_are_no_longer_so_once_told_or_given_up() -> None:
    told, given_up, fresh = Bandit(["a", "b"]), Bandit(["a", "b"]), Bandit(["a", "b"])
    for bandit in (told, given_up, fresh):
        bandit.observe("a", 0.2, 10)
        bandit.observe("b", 0.1, 10)
    given_up.give_up(given_up.choose(3), 3)
    name = told.choose(1)
    told.observe(name, 0.0, 1)
    fresh.observe(name, 0.0, 1)
    assert [told.choose() for _ in range(5)] == [fresh.choose() for _ in range(5)]
    assert given_up.values == {"a": 0.02, "b": 0.01}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 1), st.integers(1, 1000)), max_size=30))
def test_what_was_told_decides_and_not_what_was_asked_before(told: list[tuple[str, float, int]]) -> None:
    first, again = Bandit("ab"), Bandit("ab")
    for model, gain, tokens in told:
        first.choose()
        first.give_up("a", 1)
        first.give_up("b", 1)
        for bandit in (first, again):
            bandit.observe(model, gain, tokens)
    assert first.choose() == again.choose()


def test_a_model_that_is_no_longer_configured_is_left_out() -> None:
    bandit = Bandit(["a"])
    bandit.observe("gone", 1.0, 1)
    assert bandit.values == {"a": 0.0}


# Rates


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def times(per_minute: int, amounts: list[float]) -> list[float]:
    """Return when each amount is let through a bucket that is asked at once for all."""
    clock, found = Clock(), list[float]()

    async def use() -> None:
        bucket = Bucket(per_minute, now=lambda: clock.now, sleep=clock.sleep)
        for amount in amounts:
            await bucket.take(amount)
            found.append(round(clock.now, 6))

    asyncio.run(use())
    return found


def test_requests_are_spread_over_the_minute() -> None:
    assert times(60, [1, 1, 1, 1]) == [0, 1, 2, 3]
    assert times(3, [1, 1, 1]) == [0, 20, 40]


def test_a_burst_is_what_a_second_brings() -> None:
    assert times(180, [1, 1, 1, 1]) == pytest.approx([0, 0, 0, 1 / 3], abs=1e-6)


def test_a_large_amount_goes_through_and_is_waited_off_by_the_next() -> None:
    assert times(60, [10, 1]) == [0, 10]


def test_no_limit_lets_everything_through() -> None:
    assert times(0, [1e9, 1e9]) == [0, 0]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 600))
def test_no_minute_has_more_than_the_limit_a_burst_and_what_is_larger(
    amounts: list[int], per_minute: int
) -> None:
    found = times(per_minute, [float(amount) for amount in amounts])
    assert found == sorted(found)
    for first, start in enumerate(found):
        within = [
            amount for at, amount in zip(found[first:], amounts[first:], strict=True) if at < start + 60
        ]
        assert sum(within) <= per_minute + max(per_minute / 60, 1) + within[-1] + 1e-3


def test_what_was_not_used_is_given_back() -> None:
    clock = Clock()

    async def use() -> float:
        bucket = Bucket(60, now=lambda: clock.now, sleep=clock.sleep)
        await bucket.take(10)
        bucket.give_back(8)
        await bucket.take(1)
        return clock.now

    assert asyncio.run(use()) == 2


# Budgets


def test_a_budget_counts_what_earlier_processes_spent() -> None:
    budget = Budget(
        BudgetConfig(tokens=100), lambda run_id: Spending(tokens=60 if run_id == "resumed" else 0)
    )
    budget.add("resumed", 39, None)
    budget.check("resumed")
    budget.add("resumed", 1, None)
    with pytest.raises(
        BudgetError, match=r"used 100 of 100 tokens.*evovpo resume resumed --set budget\.tokens=200"
    ):
        budget.check("resumed")
    budget.check("another")


def test_what_others_store_for_the_run_counts_at_once() -> None:
    stored = {"run": Spending()}
    budget = Budget(BudgetConfig(tokens=100), lambda run_id: stored[run_id])
    budget.add("run", 40, None)
    stored["run"] = Spending(tokens=40)  # the same request, stored
    budget.check("run")
    stored["run"] = Spending(tokens=100)  # and one of a model that judges
    with pytest.raises(BudgetError, match="used 100 of 100 tokens"):
        budget.check("run")


def test_a_budget_of_money_ends_with_the_money() -> None:
    budget = Budget(BudgetConfig(money=0.5))
    budget.add("run", 1_000_000, 0.49)
    budget.check("run")
    budget.add("run", 1, 0.02)
    with pytest.raises(BudgetError, match=r"spent 0\.51 of 0\.5; .*budget\.money"):
        budget.check("run")


def test_without_a_limit_nothing_is_asked_of_the_store() -> None:
    def before(run_id: str) -> Spending:
        raise AssertionError("asked")

    budget = Budget(BudgetConfig(), before)
    budget.check("run")
    budget.add("run", 1, 1.0)
    assert not budget.is_limited
