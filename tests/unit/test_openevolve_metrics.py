"""What evaluators return, as reward vectors: which numbers count, and between which bounds."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openevolve.utils.metrics_utils import get_fitness_score

from evovpo.analysis.scores import combined_score, failure, number
from evovpo.api.interrupts import in_python
from evovpo.errors import ProblemError
from evovpo.problem.openevolve.metrics import (
    MetricDeclaration,
    describe,
    learn,
    read_metrics,
    read_rewards,
    reward,
    section_line,
    suggest_bounds,
    suggests_lower,
)
from evovpo.sandbox.openings import what_is_missing
from evovpo.types import EvaluatorFolder, EvaluatorMode, Json, Metric

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
    (metric,) = learn({"m": value}, {}, ())
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


def test_without_declarations_one_number_is_searched_for() -> None:
    scored: dict[str, Json] = {"speed": 2, "combined_score": 0.5, "error": 0.0, "ok": True, "why": "x"}
    assert learn(scored, {}, ()) == (Metric("combined_score", 0.5, 1.0, is_soft=True),)
    assert learn({"combined_score": 0.0, "ok": True}, {}, ()) == (
        Metric("combined_score", 0.0, 1.0, is_soft=True),
    )
    assert learn({"tiny": 1e-9}, {}, ()) == (Metric("tiny", 1e-9, 1e-9 + 1e-3, is_soft=True),)
    assert learn({"a": 1.0, "size": 9.0}, {}, ("size",)) == (Metric("a", 1.0, 2.0, is_soft=True),)
    assert learn({"a": 1.0, "b": 3.0}, {}, ()) == (Metric("mean of 2 metrics", 2.0, 4.0, is_soft=True),)
    assert learn({"why": "x", "nan": "nan"}, {}, ()) == ()


def test_declared_metrics_alone_are_objectives() -> None:
    scored: dict[str, Json] = {"speed": 2.0, "time": 3.0, "noise": 1.0, "c1": 1.5, "combined_score": 0.5}
    declared = {
        "later": MetricDeclaration(low=-1.0, high=1.0),
        "speed": MetricDeclaration(low=0.0, high=10.0),
        "time": MetricDeclaration(lower_is_better=True),
        "noise": MetricDeclaration(ignore=True),
        "combined_score": MetricDeclaration(low=0.0, high=1.0),
    }
    assert learn(scored, declared, ()) == (
        Metric("speed", 0.0, 10.0),
        Metric("time", 3.0, 6.0, lower_is_better=True, is_soft=True),
        Metric("combined_score", 0.0, 1.0),
        Metric("later", -1.0, 1.0),
    )
    assert learn(scored, {"noise": MetricDeclaration(ignore=True)}, ()) == (
        Metric("combined_score", 0.5, 1.0, is_soft=True),
    )


FOLDER = EvaluatorFolder("evaluator.py", EvaluatorMode.WHOLE, ())


def test_a_metric_that_is_no_number_is_zero_and_named() -> None:
    wanted = (Metric("a", 0.0, 1.0), Metric("b", 0.0, 1.0, lower_is_better=True), Metric("c", 0.0, 1.0))
    rewards, faults = read_rewards(replace(FOLDER, metrics=wanted), {"a": 0.25, "b": "inf", "other": 3})
    assert rewards == (0.25, 0.0, 0.0)
    assert faults == (
        'metric b: expected a finite number, found "inf"; its reward is 0',
        "metric c: expected a finite number, found nothing; its reward is 0",
    )
    alone = replace(FOLDER, metrics=(Metric("combined_score", 0.0, 1.0, is_soft=True),), left_out=("size",))
    assert read_rewards(alone, {"a": 0.5, "b": 1.5, "size": 9.0}) == ((0.75,), ())
    assert read_rewards(alone, {"combined_score": "nan", "a": 1.0}) == (
        (0.0,),
        (
            'metric combined_score: expected a finite number, found "nan"; the program ranks below all that '
            "have one",
        ),
    )


def test_declared_bounds_are_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(
        '[metrics.speed]\nlow = 0\nhigh = 2.5\n[metrics."run time"]\nlower_is_better = true\n'
        "[metrics.x]\nignore = true\n"
    )
    assert read_metrics(path)[0] == {
        "speed": MetricDeclaration(low=0.0, high=2.5),
        "run time": MetricDeclaration(lower_is_better=True),
        "x": MetricDeclaration(ignore=True),
    }
    path.write_text("[metrics.x]\nlower_is_better = false\n")
    assert read_metrics(path)[0]["x"].lower_is_better is False


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
        read_metrics(path)[0]
    assert str(path) in str(caught.value)


def test_suggested_bounds_are_robust_leave_room_and_can_be_declared(tmp_path: Path) -> None:
    judged: list[dict[str, Json]] = [
        {"speed": float(value), "run time": 100.0 - value, "same": 1.0, "note": "x", "combined_score": value}
        for value in range(100)
    ]
    judged += [{"speed": -1e9, "run time": 1e9, "same": 1.0}, {"speed": "nan", "error": 0.0}]
    path = tmp_path / "metrics.toml"
    text = suggest_bounds(replace(FOLDER, left_out=()), judged)
    path.write_text(text)
    declared = read_metrics(path)[0]
    assert declared.keys() == {"speed", "run time", "combined_score"}
    speed, duration = declared["speed"], declared["run time"]
    # 101 values, of which the worst is absurd: the 5th percentile is the sixth worst.
    assert (speed.low, speed.high) == (4.0, 99.0 + 95 / 4)
    # No duration was below 0, so none is wished for.
    assert (duration.low, duration.high) == (0.0, 96.0)
    assert (duration.lower_is_better, speed.lower_is_better) == (True, False)
    assert '# "same": 101 equal values; no bounds can be derived' in text
    assert text.count("# guessed from the name") == 3


def test_bounds_of_declared_metrics_keep_their_direction(tmp_path: Path) -> None:
    judged: list[dict[str, Json]] = [{"run time": value, "combined_score": value} for value in (1.0, 2.0)]
    path = tmp_path / "metrics.toml"
    path.write_text(suggest_bounds(replace(FOLDER, metrics=(Metric("run time", 0, 1),)), judged))
    bounds = MetricDeclaration(low=1.0, high=2.25, lower_is_better=False)
    assert read_metrics(path)[0] == {"run time": bounds, "combined_score": bounds}
    assert path.read_text().count("guessed") == 1


@pytest.mark.parametrize(
    ("values", "name", "low", "high"),
    [
        ((0.0, 4.0), "right_error", 0.0, 4.0),
        ((8.0, 12.0), "right_error", 7.0, 12.0),
        ((-1.0, 3.0), "right_error", -2.0, 3.0),
        ((-4.0, 0.0), "speed", -4.0, 0.0),
        ((-4.0, -1.0), "speed", -4.0, -0.25),
        ((-4.0, 4.0), "speed", -4.0, 6.0),
    ],
)
def test_suggested_bounds_leave_room_but_do_not_cross_zero_where_no_value_does(
    tmp_path: Path, values: tuple[float, float], name: str, low: float, high: float
) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(suggest_bounds(replace(FOLDER, left_out=()), [{name: value} for value in values]))
    # The direction is guessed from the name, so that nothing is asked.
    assert read_metrics(path)[0] == {
        name: MetricDeclaration(low=low, high=high, lower_is_better=name == "right_error")
    }


@pytest.mark.parametrize(
    ("names", "is_cost"),
    [
        ("right_error eval_time maxError RMSE wallTimeSeconds memory_mb loss p99-latency", True),
        ("error_score lifetimes_seen speed timeliness negative_loss cost_efficiency 42", False),
    ],
)
def test_names_of_costs_are_known_by_their_words(names: str, is_cost: bool) -> None:
    assert {suggests_lower(name) for name in names.split()} == {is_cost}


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
    assert read_metrics(path)[0] == {name: MetricDeclaration(ignore=True)}


SCALARS = st.one_of(
    st.floats(-1e6, 1e6),
    st.integers(-9, 9),
    st.booleans(),
    st.none(),
    st.text("ab.5", max_size=3),
    st.just(math.nan),
)
NAMES = st.sampled_from(["combined_score", "accuracy", "eval_time", "complexity", "error", "radius"])


@given(st.dictionaries(NAMES, SCALARS), st.lists(NAMES.filter(lambda name: name != "combined_score")))
def test_the_number_that_ranks_is_openevolves_own(metrics: dict[str, Json], dimensions: list[str]) -> None:
    stored = {name: "nan" if value != value else value for name, value in metrics.items()}
    found = combined_score(stored, dimensions)
    if found is None:  # OpenEvolve takes 0 for nothing, and for the mark of a failure alone
        theirs = get_fitness_score(metrics, dimensions)
        assert math.isnan(theirs) or not {name for name in metrics if number(metrics[name]) is not None} - {
            "error"
        }
    else:
        assert found == get_fitness_score(metrics, dimensions)


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"error": 0.0}, True),
        ({"error": "ImportError", "combined_score": 0.0}, True),
        ({"error": "ImportError", "combined_score": -1e9, "runs": 0}, True),
        ({"why": "broken"}, True),
        ({"combined_score": "nan"}, True),
        ({"combined_score": 0.0}, False),
        ({"combined_score": -2.0, "error": ""}, False),
        ({"combined_score": 0.5, "error": "one of ten cases"}, False),
        ({"error": 0.0, "accuracy": 0.0}, False),
    ],
)
def test_metrics_that_only_say_that_something_failed(metrics: dict[str, Json], expected: bool) -> None:
    assert bool(failure(metrics)) is expected


@pytest.mark.parametrize(
    ("feedback", "expected"),
    [
        ("error: [Errno 2] No such file or directory: 'cargo'", True),
        ("printed:\nrequest failed: <urlopen error [Errno -3] Temporary failure in name resolution>", True),
        ("stderr: sh: 1: Rscript: not found", True),
        ("max error 0.3\nerror: 0.25\nall cases ran", False),
        ("", False),
    ],
)
def test_a_zero_with_a_fault_beside_it_is_a_failure(feedback: str, expected: bool) -> None:
    assert bool(failure({"combined_score": 0.0}, feedback)) is expected
    assert not failure({"combined_score": 0.1}, feedback)


def test_what_an_evaluator_lacks_is_named_with_what_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "turbo-tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent))
    text = "FileNotFoundError: [Errno 2] No such file or directory: 'turbo-tool'"
    assert what_is_missing(text).endswith(f"open it with --allow path={tool.parent}")
    assert what_is_missing(text, [f"path={tool.parent}"]) == ""
    assert "no program absent-tool on the PATH" in what_is_missing("sh: 1: absent-tool: not found")
    assert what_is_missing(f"PermissionError: [Errno 13] Permission denied: '{tool}'").endswith(
        f"read={tool}"
    )
    assert what_is_missing("<urlopen error: failure in name resolution>").endswith("--allow network")
    assert what_is_missing("<urlopen error [Errno 1] Operation not permitted>").endswith("--allow network")
    monkeypatch.setenv("SOME_KEY", "1")
    assert what_is_missing("KeyError: 'SOME_KEY'").endswith("open it with --allow env=SOME_KEY")
    assert what_is_missing("KeyError: 'SOME_KEY'", ["env=SOME_KEY"]) == ""
    assert what_is_missing("KeyError: 'ABSENT_KEY'") == what_is_missing("ValueError: no") == ""


def test_a_hidden_file_at_home_is_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    text = "FileNotFoundError: [Errno 2] No such file or directory: '.judgerc'"
    assert what_is_missing(text).startswith("there is no file .judgerc in the folder of the evaluator")
    (tmp_path / ".judgerc").write_text("")
    assert what_is_missing(text).endswith(f"open it with --allow env=HOME --allow read={tmp_path}/.judgerc")


def test_an_open_network_that_fails_is_not_called_closed() -> None:
    text = "urllib.error.URLError: <urlopen error [Errno -2] Name or service not known>"
    assert what_is_missing(text) == "the network is closed in the sandbox: open it with --allow network"
    assert what_is_missing(text, ["network"]).startswith("the network is open")
    assert what_is_missing("all is well", ["network"]) == ""


def test_options_in_messages_become_arguments_in_python() -> None:
    said = (
        "open it with --allow path=$(rustc --print sysroot)/bin --allow read=/etc/gitconfig; or --set a.b=c"
    )
    assert in_python(said) == (
        "open it with settings={'evaluator.allow': ['path=$(rustc --print sysroot)/bin', "
        "'read=/etc/gitconfig']}; or settings={'a.b': 'c'}"
    )
    assert (
        in_python("--set a.b=0.5, --allow network")
        == "settings={'a.b': 0.5}, settings={'evaluator.allow': ['network']}"
    )
