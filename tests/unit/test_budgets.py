"""Choosing between models, and budgets."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evovpo.config import BudgetConfig, ModelConfig
from evovpo.errors import BudgetError
from evovpo.proposers.limits import Bucket, Budget, Spending
from evovpo.proposers.openai import pick_weighted

# Weights


def test_models_are_picked_in_proportion_to_their_weights() -> None:
    models = [ModelConfig(name="often", weight=3.0), ModelConfig(name="rarely")]
    counts = Counter(pick_weighted(models, seed).name for seed in range(4000))
    assert counts["often"] / 4000 == pytest.approx(0.75, abs=0.03)
    assert counts.total() == 4000
    assert pick_weighted(models, 7) == pick_weighted(models, 7)


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
