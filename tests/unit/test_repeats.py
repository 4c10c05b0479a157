"""The same run for several seeds: what names them, what is run, what is printed."""

import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console
from shell import Shell

from evovpo.errors import ConfigError
from evovpo.experiments.toml_reader import parse_seeds
from evovpo.reports.run_report import repeats_json, repeats_table
from evovpo.runs.stored import Outcome

QUICK = ("strings/phone-with-hyphens", "--proposer", "random", "-n", "16", "--set", "sandbox.workers=1")


@pytest.fixture
def evovpo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """The command line, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Shell(capsys)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-4", (0, 1, 2, 3, 4)), ("7", (7,)), ("0,3,7-9", (0, 3, 7, 8, 9)), (" 2 - 3 , 1", (2, 3, 1))],
)
def test_seeds_are_read_in_their_order(text: str, expected: tuple[int, ...]) -> None:
    assert parse_seeds(text) == expected


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "1,,2", "1-2-3", "1.5"])
def test_what_names_no_seeds_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected seeds as 0-4"):
        parse_seeds(text)


def test_a_seed_named_twice_and_too_many_are_refused() -> None:
    with pytest.raises(ConfigError, match="names a seed twice"):
        parse_seeds("0-3,2")
    with pytest.raises(ConfigError, match="more than 10000"):
        parse_seeds("0-999999999999")


def test_a_run_for_each_seed_is_stored_and_all_are_summed_up(evovpo: Shell) -> None:
    answer = evovpo("evolve", *QUICK, "--seeds", "3,5", "--json")
    assert answer.code == 0
    assert [row["seed"] for row in answer.json["runs"]] == [3, 5]
    shown = [evovpo("show", row["run"], "--no-png", "--json").json for row in answer.json["runs"]]
    assert [(run["seed"], run["budget"]) for run in shown] == [(3, 16), (5, 16)]
    best = [row["best_mean_reward"] for row in answer.json["runs"]]
    assert answer.json["mean_of_best"] == pytest.approx(sum(best) / 2)
    assert answer.json["std_of_best"] == pytest.approx(abs(best[0] - best[1]) / 2**0.5)
    for name in ("solved", "solved_train", "solved_heldout"):
        assert answer.json[name] == sum(row[name] for row in answer.json["runs"])
    stored = evovpo("runs", "--json").json
    assert sorted(row["run"] for row in stored) == sorted(row["run"] for row in answer.json["runs"])

    alone = evovpo("evolve", *QUICK, "--seeds", "3").out
    assert f"{best[0]:.3f}" in alone
    assert "±" not in alone, "one run has no deviation"


def outcome(best: float, stopped: str = "") -> Outcome:
    return Outcome("0123456789ab", False, best, 2, 4, 0, 3, 50_000, 40_000, 0, 1.0, "", stopped)


def shown_at_80_columns(repeats: Mapping[int, Outcome]) -> str:
    file = io.StringIO()
    Console(file=file, width=80, highlight=False).print(repeats_table(repeats))
    return file.getvalue()


def test_the_deviation_is_that_of_a_sample_and_one_run_has_none() -> None:
    two = {0: outcome(0.25), 1: outcome(0.75)}
    assert repeats_json(two)["std_of_best"] == pytest.approx(0.125**0.5)  # (2 * 0.25**2) / (2 - 1)
    assert "0.500 ± 0.354" in shown_at_80_columns(two)
    one = {0: outcome(0.25)}
    assert repeats_json(one)["std_of_best"] is None
    json.dumps(repeats_json(one), allow_nan=False)


def test_eighty_columns_cut_no_id_no_heading_and_no_reason() -> None:
    text = shown_at_80_columns({9_999: outcome(0.5), 10_000: outcome(0.5)})
    for word in ("seed", "run", "solved", "best mean reward", "evaluations", "executed", "0 of 2"):
        assert word in text
    assert text.count("0123456789ab") == 2
    assert "…" not in text
    assert "ended early" not in text
    early = outcome(0.5, "no gain in 400 evaluations")
    text = shown_at_80_columns({9_999: early, 10_000: outcome(0.5)})
    assert text.count("0123456789ab") == 2
    assert "…" not in text
    assert text.count("seed 9999 ended early: no gain in 400 evaluations") == 1


def test_seed_and_seeds_together_are_refused_and_nothing_is_stored(evovpo: Shell, tmp_path: Path) -> None:
    answer = evovpo("evolve", *QUICK, "--seeds", "0-1", "--seed", "1")
    assert answer.code == 2
    assert "leave one out" in answer.err
    assert list(tmp_path.iterdir()) == []
