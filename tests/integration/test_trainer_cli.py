"""The trainer's commands as a user meets them: what they print, what they refuse, and their exit codes."""

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from logged_runs import write_run
from shell import Shell
from tiny_models import write_tiny_folder

from evovpo.store import Store
from trainer.config import TrainConfig
from trainer.loop import retrain

pytestmark = pytest.mark.slow

FIELDS = [
    "policy_version", "objective", "groups_used", "groups_skipped", "steps", "tokens", "seconds", "probe",
    "targets", "targets_by_source", "targets_left_out",
]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_folder(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def evovpo(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Path
) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    with Store.open() as store:
        write_run(store, model, "first-run", groups=4)
    capsys.readouterr()
    return Shell(capsys)


def test_retrain_prints_one_line_of_json_with_the_agreed_fields(evovpo: Shell, tmp_path: Path) -> None:
    answer = evovpo("retrain", "latest", "--objective", "multi-rlvr", "--json")
    assert answer.code == 0
    assert answer.out.count("\n") == 1
    assert list(answer.json) == FIELDS
    assert (answer.json["policy_version"], answer.json["objective"]) == (1, "multi-rlvr")
    assert answer.json["groups_used"] + answer.json["groups_skipped"] == 4
    assert (tmp_path / "policies" / "v0001" / "model.safetensors").is_file()


def test_retrain_shows_what_it_reads_and_what_came_of_it(evovpo: Shell, tmp_path: Path) -> None:
    options = ("--policies", "elsewhere", "--objective", "vpo", "--set", "update.groups_per_step=2")
    answer = evovpo("retrain", "first", *options)
    assert answer.code == 0
    assert re.search(r"first-run\s+4\s+4\b", answer.out)
    assert "set score" in answer.out
    assert "Policy version 1 is served." in answer.out
    assert "evovpo evolve PROBLEM --set proposer.policy=served" in answer.out
    assert "2 steps with vpo from policy version 0" in answer.err
    assert (tmp_path / "elsewhere" / "v0001").is_dir()
    again = evovpo("retrain", "first", "--policies", "elsewhere", "--json")
    assert again.json["policy_version"] == 2


def test_a_dry_run_shows_counts_by_reason_and_changes_nothing(
    evovpo: Shell, model: Path, tmp_path: Path
) -> None:
    with Store.open() as store:
        write_run(store, model, "alike", groups=3, judge=lambda tokens, rng: (1.0, 0.0, 1.0))
    answer = evovpo("retrain", "alike", "first-run", "--dry-run", "--objective", "vpo")
    assert answer.code == 0
    assert re.search(r"run\s+complete\s+used\s+no spread", answer.out)
    assert re.search(r"alike\s+3\s+0\s+3\s*\n", answer.out)
    assert re.search(r"first-run\s+4\s+4\s+0\s*\n", answer.out)
    assert re.search(r"all\s+7\s+4\s+3\s*\n", answer.out)
    assert re.search(r"Would make 1 step with vpo from policy version 0, on 4 groups", answer.out)
    found = evovpo("retrain", "alike", "first-run", "--dry-run", "--objective", "vpo", "--json").json
    assert list(found) == FIELDS
    assert (found["policy_version"], found["groups_used"], found["groups_skipped"]) == (None, 4, 3)
    assert evovpo("policies", "--json").json == []
    assert not (tmp_path / "policies").exists()


def test_versions_are_listed_and_rolled_back_with_one_command(evovpo: Shell) -> None:
    assert "evovpo retrain latest" in evovpo("policies").out
    evovpo("retrain", "latest", "--json")
    evovpo("retrain", "latest", "--json")
    rows = evovpo("policies", "--json").json
    assert [(row["number"], row["parent"], row["served"]) for row in rows] == [
        (0, None, False), (1, 0, False), (2, 1, True),
    ]  # fmt: skip
    assert [row["objective"] for row in rows] == [None, "vpo-at-k", "vpo-at-k"]
    assert rows[1]["runs"] == ["first-run"]
    assert evovpo("rollback").out == "Policy version 1 is served.\n"
    assert "Policy version 0 is served" in evovpo("rollback", "0").out
    table = evovpo("policies").out
    assert re.search(r"served\s+0\s+start model", table)
    nothing = evovpo("rollback")
    assert nothing.code == 2
    assert "no parent to go back to" in nothing.err
    assert "no policy version 9" in evovpo("rollback", "9").err


def test_settings_come_from_a_file_and_from_the_command_line(evovpo: Shell, tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text(evovpo("retrain", "--show-config").out)
    assert TrainConfig.load(tmp_path / "train.toml") == TrainConfig()
    options = ("--config", "train.toml", "--set", "update.passes=3", "--set", "update.groups_per_step=1")
    found = evovpo("retrain", "latest", *options, "--objective", "rosa", "--dry-run", "--json").json
    assert (found["steps"], found["objective"]) == (6, "rosa")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("retrain",), "name the runs to train on"),
        (("retrain", "nothing"), "'nothing'"),
        (("retrain", "latest", "--objective", "vpoo"), "did you mean 'vpo'"),
        (("retrain", "latest", "--objective", "grpo"), "4 several answers a rollout"),
        (("retrain", "latest", "--set", "update.rate=1"), "unknown key update.rate"),
        (("retrain", "latest", "--set", "objective.k=x"), "a whole number"),
        (("retrain", "latest", "--config", "none.toml"), "none.toml"),
        (("retrain", "latest", "--store", "other.db"), "there is no such store"),
        (("retrain", "latest", "--server", "http://127.0.0.1:1/v1"), "expected MODEL@URL"),
        (("retrain", "latest", "--policies", "runs.txt"), "cannot be used"),
        (("rollback",), "nothing to roll back"),
        (("policies", "--store", "other.db"), "there is no such store"),
    ],
)
def test_bad_input_is_one_message_on_standard_error_and_code_2(
    evovpo: Shell, tmp_path: Path, arguments: Sequence[str], words: str
) -> None:
    (tmp_path / "runs.txt").touch()
    answer = evovpo(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("error: ") == 1
    assert words in answer.err
    assert "Traceback" not in answer.err
    with Store.open() as store:
        assert store.policy_versions() == []


def test_ctrl_c_says_how_to_go_on_and_exits_with_130(evovpo: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(retrain, "publish_policy", interrupted)
        answer = evovpo("retrain", "latest", "--json")
    assert (answer.code, answer.out) == (130, "")
    assert "same command continues" in answer.err
    assert evovpo("retrain", "latest", "--json").json["policy_version"] == 1


def test_a_missing_extra_is_named(evovpo: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "peft" else found(name))
    answer = evovpo("retrain", "latest")
    assert answer.code == 2
    assert "training needs peft; run: pip install 'evovpo[train]'" in answer.err
