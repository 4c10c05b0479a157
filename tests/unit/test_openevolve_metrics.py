"""What evaluators return, as reward vectors: which numbers count, and between which bounds."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evovpo.errors import ProblemError
from evovpo.problem.openevolve.metrics import (
    Declared,
    describe,
    learn,
    number,
    read_declared,
    read_rewards,
    reward,
    section_line,
    suggest_bounds,
    suggests_lower,
)
from evovpo.types import Json, Metric

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def metrics_of(draw: st.DrawFn) -> Metric:
    low, high = sorted((draw(FINITE), draw(FINITE)))
    if not (low < high and math.isfinite(high - low)):
        low, high = 0.0, 1.0
    return Metric("m", low, high, draw(st.booleans()), draw(st.booleans()))


@given(metrics_of(), FINITE, FINITE)
def test_a_better_value_is_never_a_worse_reward_and_rewards_lie_in_the_unit_interval(
    metric: Metric, first: float, second: float
) -> None:
    rewards = [reward(metric, value) for value in sorted((first, second), reverse=metric.lower_is_better)]
    assert 0.0 <= rewards[0] <= rewards[1] <= 1.0
    if metric.is_soft:
        assert rewards[0] > 0.0
        assert rewards[1] < 1.0


@given(FINITE)
def test_learned_bounds_put_the_initial_program_in_the_middle(value: float) -> None:
    (metric,) = learn({"m": value}, {})
    assert metric.is_soft
    assert reward(metric, value) >= 0.5
    assert math.isfinite(metric.high - metric.low)
    if abs(value) < 1e300:
        assert reward(metric, value) == 0.5
        assert reward(metric, metric.high) == pytest.approx(0.75)


def test_rewards_worked_by_hand() -> None:
    assert reward(Metric("m", 10.0, 20.0), 15.0) == 0.5
    assert reward(Metric("m", 10.0, 20.0), 25.0) == 1.0
    assert reward(Metric("m", 10.0, 20.0, lower_is_better=True), 12.0) == pytest.approx(0.8)
    assert reward(Metric("m", 10.0, 20.0, is_soft=True), 20.0) == pytest.approx(0.75)
    assert reward(Metric("m", 10.0, 20.0, lower_is_better=True, is_soft=True), 20.0) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "value", [True, "1.0", None, [1.0], {"a": 1.0}, "nan", "inf", math.nan, math.inf, 10**400]
)
def test_only_finite_numbers_are_numbers(value: Json) -> None:
    assert number(value) is None


def test_the_initial_programs_numbers_become_objectives_but_not_the_mixture_of_them() -> None:
    scored: dict[str, Json] = {
        "speed": 2,
        "combined_score": 0.5,
        "error": 0.0,
        "ok": True,
        "why": "x",
        "n": {"a": 1},
    }
    assert learn(scored, {}) == (Metric("speed", 2.0, 4.0, is_soft=True),)
    assert learn({"combined_score": 0.0, "ok": True}, {}) == (
        Metric("combined_score", 0.0, 1.0, is_soft=True),
    )
    assert learn({"tiny": 1e-9}, {}) == (Metric("tiny", 1e-9, 1e-9 + 1e-3, is_soft=True),)
    assert learn({"why": "x", "nan": "nan"}, {}) == ()


def test_what_is_declared_wins_over_what_is_learned() -> None:
    scored: dict[str, Json] = {"speed": 2.0, "time": 3.0, "noise": 1.0, "combined_score": 0.5}
    declared = {
        "speed": Declared(low=0.0, high=10.0),
        "time": Declared(lower_is_better=True),
        "noise": Declared(ignore=True),
        "combined_score": Declared(low=0.0, high=1.0),
        "later": Declared(low=-1.0, high=1.0),
    }
    assert learn(scored, declared) == (
        Metric("speed", 0.0, 10.0),
        Metric("time", 3.0, 6.0, lower_is_better=True, is_soft=True),
        Metric("combined_score", 0.0, 1.0),
        Metric("later", -1.0, 1.0),
    )


def test_a_metric_that_is_no_number_is_zero_and_named() -> None:
    wanted = (Metric("a", 0.0, 1.0), Metric("b", 0.0, 1.0, lower_is_better=True), Metric("c", 0.0, 1.0))
    reading = read_rewards(wanted, {"a": 0.25, "b": "inf", "other": 3})
    assert reading.rewards == (0.25, 0.0, 0.0)
    assert reading.faults == (
        'metric b: expected a finite number, found "inf"; its reward is 0',
        "metric c: expected a finite number, found nothing; its reward is 0",
    )


def test_declared_bounds_are_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(
        '[metrics.speed]\nlow = 0\nhigh = 2.5\n[metrics."run time"]\nlower_is_better = true\n'
        "[metrics.x]\nignore = true\n"
    )
    assert read_declared(path) == {
        "speed": Declared(low=0.0, high=2.5),
        "run time": Declared(lower_is_better=True),
        "x": Declared(ignore=True),
    }
    path.write_text("[metrics.x]\nlower_is_better = false\n")
    assert read_declared(path)["x"].lower_is_better is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[metrics.a]\nlow = 1\n", "give both or neither"),
        ("[metrics.a]\nlow = 2\nhigh = 1\n", "low below high"),
        ("[metrics.a]\nlow = nan\nhigh = 1\n", "two finite numbers"),
        ("[metrics.a]\nlow = -1.7e308\nhigh = 1.7e308\n", "bring them closer"),
        ("[metrics.a]\nlower_is_beter = true\n", "did you mean 'lower_is_better'"),
        ("[metrics.a]\nignore = 1\n", "expected true or false"),
        ("[metric.a]\nignore = true\n", "did you mean 'metrics'"),
        ("[metrics]\na = 1\n", "expected a section"),
        ("metrics = 1\n", "expected sections"),
        ("metrics = \n", "expected TOML"),
    ],
)
def test_bad_declarations_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(text)
    with pytest.raises(ProblemError, match=message) as caught:
        read_declared(path)
    assert str(path) in str(caught.value)


def test_suggested_bounds_are_robust_leave_room_and_can_be_declared(tmp_path: Path) -> None:
    wanted = (
        Metric("speed", 0, 1, is_soft=True),
        Metric("run time", 0, 1, lower_is_better=True, is_soft=True),
        Metric("same", 0, 1),
    )
    judged: list[dict[str, Json]] = [
        {"speed": float(value), "run time": 100.0 - value, "same": 1.0, "note": "x"} for value in range(100)
    ]
    judged += [{"speed": -1e9, "run time": 1e9, "same": 1.0}, {"speed": "nan"}]
    path = tmp_path / "metrics.toml"
    path.write_text(suggest_bounds(wanted, judged))
    declared = read_declared(path)
    assert declared.keys() == {"speed", "run time"}
    speed, duration = declared["speed"], declared["run time"]
    # 101 values, of which the worst is absurd: the 5th percentile is the sixth worst.
    assert (speed.low, speed.high) == (4.0, 99.0 + 95 / 4)
    # No duration was below 0, so none is wished for.
    assert (duration.low, duration.high) == (0.0, 96.0)
    assert duration.lower_is_better
    assert not speed.lower_is_better


@pytest.mark.parametrize(
    ("values", "is_lower", "low", "high"),
    [
        ((0.0, 4.0), True, 0.0, 4.0),
        ((8.0, 12.0), True, 7.0, 12.0),
        ((-1.0, 3.0), True, -2.0, 3.0),
        ((-4.0, 0.0), False, -4.0, 0.0),
        ((-4.0, -1.0), False, -4.0, -0.25),
        ((-4.0, 4.0), False, -4.0, 6.0),
    ],
)
def test_suggested_bounds_leave_room_but_do_not_cross_zero_where_no_value_does(
    tmp_path: Path, values: tuple[float, float], is_lower: bool, low: float, high: float
) -> None:
    metric = Metric("right_error", 0, 1, lower_is_better=is_lower)
    text = suggest_bounds([metric], [{"right_error": value} for value in values])
    path = tmp_path / "metrics.toml"
    path.write_text(text)
    # The direction of a metric that reads like a cost is left open, so that the next check still asks.
    assert read_declared(path) == {
        "right_error": Declared(low=low, high=high, lower_is_better=True if is_lower else None)
    }
    assert ("The run took higher as better" in text) is not is_lower


def test_names_of_costs_are_known_by_their_words() -> None:
    costs = (
        "right_error",
        "eval_time",
        "maxError",
        "RMSE",
        "wallTimeSeconds",
        "memory_mb",
        "loss",
        "p99-latency",
    )
    merits = (
        "error_score",
        "lifetimes_seen",
        "speed",
        "timeliness",
        "negative_loss",
        "cost_efficiency",
        "",
        "42",
    )
    assert [name for name in costs if not suggests_lower(name)] == []
    assert [name for name in merits if suggests_lower(name)] == []


def test_a_description_says_which_way_the_measured_value_counts_and_agrees_with_the_rewards() -> None:
    soft = Metric("m", 11.06, 22.12, lower_is_better=True, is_soft=True)
    assert describe(soft) == (
        "the lower its measured value, the higher the reward; 11.06, the initial program's, gives 0.5"
    )
    assert (reward(soft, 11.06), reward(soft, 5.0) > 0.5) == (0.5, True)
    plain = Metric("m", 10.0, 20.0, lower_is_better=True)
    assert describe(plain) == "the lower its measured value, the higher the reward; 20 gives 0, 10 gives 1"
    assert (reward(plain, 20.0), reward(plain, 10.0)) == (0.0, 1.0)


@pytest.mark.parametrize("name", ["speed", "run time", 'the "x"', "größe", "a.b", "line\nbreak"])
def test_any_name_makes_a_section_that_reads_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(section_line(name) + "\nignore = true\n", encoding="utf-8")
    assert read_declared(path) == {name: Declared(ignore=True)}
