"""The shares of the ways to ask: numbers worked by hand, bounds, and that what pays is asked for more."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evovpo.search.learned_shares import Shares

AT_FIRST = {"climb": 0.7, "explore": 0.2, "combine": 0.1}
replies = st.lists(
    st.tuples(st.sampled_from([*AT_FIRST, "", "other"]), st.sampled_from([0.0, 0.2, 1.0])), max_size=60
)


def learned(*told: tuple[str, float], times: int = 1) -> Shares:
    shares = Shares(AT_FIRST)
    for way, gain in told * times:
        shares.learn(way, gain)
    return shares


def test_before_anything_is_learned_shares_are_those_given_but_for_the_least() -> None:
    # Each way has 0.003; the other 0.991 are divided as given.
    expected = {name: 0.003 + 0.991 * share for name, share in AT_FIRST.items()}
    assert Shares(AT_FIRST).now == pytest.approx(expected)


def test_what_is_learned_fades_with_every_reply() -> None:
    # After explore's gain and a reply of climb without any: explore 0.99 gains of 0.99 replies.
    worth = {
        "climb": 0.7 * 0.3 / 16,
        "explore": 0.2 * (0.3 + 0.99) / 15.99,
        "combine": 0.1 * 0.02,
    }
    expected = {name: 0.003 + 0.991 * value / sum(worth.values()) for name, value in worth.items()}
    assert learned(("explore", 1.0), ("climb", 0.0)).now == pytest.approx(expected)


@given(replies)
def test_shares_sum_to_one_and_none_falls_below_the_least(told: list[tuple[str, float]]) -> None:
    now = learned(*told).now
    assert set(now) == set(AT_FIRST)
    assert sum(now.values()) == pytest.approx(1.0)
    assert min(now.values()) >= 0.003


def test_a_way_that_failed_is_tried_again_when_the_others_bring_nothing_more() -> None:
    shares = learned(("explore", 0.0), times=200)
    low = shares.now["explore"]
    assert low < 0.1
    for _ in range(300):
        shares.learn("climb", 0.0)
    assert shares.now["explore"] > 0.2


def test_what_is_no_way_teaches_nothing() -> None:
    assert learned(("", 1.0), ("fresh", 1.0)).now == Shares(AT_FIRST).now


def test_a_way_without_a_share_at_first_is_never_taken() -> None:
    shares = Shares(AT_FIRST | {"repair": 0.0})
    shares.learn("repair", 1.0)
    assert set(shares.now) == set(AT_FIRST)


def test_shares_that_do_not_learn_stay_exactly_as_they_were_given() -> None:
    shares = Shares({"climb": 3.0, "fresh": 1.0}, learns=False)
    for _ in range(50):
        shares.learn("fresh", 1.0)
    assert shares.now == {"climb": 0.75, "fresh": 0.25}
    assert Shares({"climb": 1.0}, learns=True).now == pytest.approx({"climb": 1.0})


def test_ways_are_drawn_by_their_shares() -> None:
    shares, rng = Shares(AT_FIRST, learns=False), np.random.default_rng(1)
    counts = Counter(shares.choose(rng) for _ in range(2000))
    for name, share in AT_FIRST.items():
        assert counts[name] / 2000 == pytest.approx(share, abs=0.04)
