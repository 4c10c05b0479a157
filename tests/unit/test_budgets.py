"""Budgets of tokens and money."""

import pytest

from evovpo.config import BudgetConfig
from evovpo.errors import BudgetError
from evovpo.proposers.limits import Budget, Spending


def test_a_budget_counts_what_earlier_processes_spent() -> None:
    budget = Budget(
        BudgetConfig(tokens=100), lambda run_id: Spending(tokens=60 if run_id == "resumed" else 0)
    )
    budget.add("resumed", 39, None)
    budget.check("resumed")
    budget.add("resumed", 1, None)
    with pytest.raises(BudgetError, match="used 100 of 100 tokens"):
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
    with pytest.raises(BudgetError, match=r"spent 0\.51 of 0\.5$"):
        budget.check("run")


def test_without_a_limit_nothing_is_asked_of_the_store() -> None:
    def before(run_id: str) -> Spending:
        raise AssertionError("asked")

    budget = Budget(BudgetConfig(), before)
    budget.check("run")
    budget.add("run", 1, 1.0)
    assert not budget.is_limited
