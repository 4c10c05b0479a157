"""The closed loop: what is planned, that a kill anywhere changes nothing, and the command."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from crashing_loop import ROUNDS, make_loop
from postgres import postgres_server
from safetensors.torch import load_file
from shell import Shell

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.config import Config, ProposerConfig, SearchConfig
from evovpo.errors import ConfigError
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import load_suite, problem_id
from evovpo.proposers.policy_folders import POLICY_FILE
from evovpo.store import Store
from evovpo.types import PolicyEventKind
from trainer.config import ProbeConfig, TrainConfig, UpdateConfig
from trainer.loop import worth
from trainer.loop.loop import plan_loop
from trainer.loop.probe import probe
from trainer.loop.turns import LoopWatch, Turns
from trainer.loop.worth import compare

HERE = Path(__file__).parents[1] / "support"
SERVED = Config(proposer=ProposerConfig(policy="served"))
PROBLEMS = [load_problem(entry.path) for entry in load_suite("strings")[:8]]


def crashing(folder: Path, ticks: list[int]) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, HERE / "crashing_loop.py", folder, ",".join(map(str, ticks))],
        capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["ends"] == [-9] * len(ticks), done.stderr[-3000:]
    return found


def moved(folder: Path, number: int) -> torch.Tensor:
    version, start = (
        load_file(path / "model.safetensors")
        for path in (folder / "policies" / f"v{number:04d}", BUILT_IN_MODEL)
    )
    return torch.cat([(version[key] - value).flatten() for key, value in start.items()])


@pytest.mark.slow
def test_a_loop_in_turns_killed_anywhere_comes_to_what_it_would_have(tmp_path: Path) -> None:
    whole = crashing(tmp_path / "whole", [])["state"]
    assert len(whole["trainings"]) == len(set(whole["weights"])) - 1 == ROUNDS
    # In the first process, in both rounds' searches and trainings, and around publishing and serving.
    cut = crashing(tmp_path / "cut", [7, 150, 330, 60, 25, 30, 12, 250, 60, 40])["state"]
    # Replies that are sampled again in a batch of another shape have log-probabilities with other last bits.
    assert whole.pop("weights")[0] == cut.pop("weights")[0]
    assert cut == whole
    for number in range(1, ROUNDS + 1):
        wanted, found = moved(tmp_path / "whole", number), moved(tmp_path / "cut", number)
        assert float((found - wanted).norm()) < 0.05 * float(wanted.norm())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "loop.db"))


@pytest.mark.slow
def test_searches_beside_each_other_share_a_database_server(tmp_path: Path) -> None:
    with postgres_server() as address:
        url, here = address.format("postgres"), []
        with Store.open(url) as store:
            watch = LoopWatch(told=here.append)
            turns = Turns(make_loop(store), store, tmp_path / "policies", watch, jobs=2, url=url)
            turns.take(1, trains=False)
            assert {row.run for row in store.runs() if row.evaluations} == {*turns.loop.run_ids(1)}
    assert here == []  # no run told this process: others searched


@pytest.mark.slow
def test_a_search_uses_what_was_trained_before_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = make_loop(store)
    turns = Turns(loop, store, tmp_path / "policies")
    turns.take(1, trains=False)
    assert [version.number for version in store.policy_versions()] == [0]
    turns.train_round(1)
    turns.take(2, trains=False)
    rows = store.query(
        "select distinct p.run_id, r.policy_version from rollouts r join prompts p on p.id = r.prompt_id"
    )
    assert {(row["run_id"], row["policy_version"]) for row in rows} == {
        (run, number) for number, ids in enumerate((loop.run_ids(1), loop.run_ids(2))) for run in ids
    }
    result, comparison = compare(turns, 1)
    assert result.weights_changed
    assert (result.policy_versions, result.served) == (1, 1)
    assert comparison[0].policy_version == 0
    assert isinstance(result.after, dict)
    assert set(result.after) > {"best_at_k", "pass_at_k", "solved_heldout"}
    # Stopped and started again, it measures only what is missing.
    kept = sorted(turns.policies.glob("measured-*/*/*.json"))
    assert len(kept) == 2 * len(loop.held_out)
    kept[0].write_text("torn")
    calls: list[int] = []
    monkeypatch.setattr(worth, "probe", lambda *args, **named: calls.append(1) or probe(*args, **named))
    assert compare(turns, 1)[0]._replace(break_even=[]) == result._replace(break_even=[])
    assert len(calls) == 1


@pytest.mark.slow
def test_a_training_that_diverges_leaves_the_loop_with_the_version_it_had(
    store: Store, tmp_path: Path
) -> None:
    loop = make_loop(store)
    wild = dataclasses.replace(
        loop, train=loop.train.changed(update={"learning_rate": 1e30, "groups_per_step": 1})
    )
    said: list[str] = []
    turns = Turns(wild, store, tmp_path / "policies", LoopWatch(not_trained=said.append))
    turns.take(1, trains=False)
    turns.train_round(1)
    assert len(said) == 1
    assert "lower the learning rate" in said[0]
    served = store.served()
    assert served is not None
    assert served.number == 0
    turns.train_round(1)
    assert len(said) == 1
    assert [event.kind for event in store.policy_events()].count(PolicyEventKind.FAILED) == 1


def test_a_suite_is_cut_into_searched_and_held_out_problems() -> None:
    loop = plan_loop(PROBLEMS, SERVED, TrainConfig(probe=ProbeConfig(problems=3)), limit=2)
    assert len(loop.searched) == 2
    assert len(loop.held_out) == 3
    assert not {p.id for p in loop.searched} & {p.id for p in loop.held_out}
    many = plan_loop(PROBLEMS, SERVED, TrainConfig(probe=ProbeConfig(problems=99)))
    assert (len(many.searched), len(many.held_out)) == (4, 4)
    alone = plan_loop(PROBLEMS[:1], SERVED, TrainConfig(probe=ProbeConfig(problems=5)))
    assert (alone.searched, len(alone.held_out)) == (tuple(PROBLEMS[:1]), 5)
    assert all(problem.id.startswith("generated/") for problem in alone.held_out)


def test_every_search_of_a_problem_has_a_seed_of_its_own() -> None:
    once, thrice = (plan_loop(PROBLEMS, SERVED, TrainConfig(), limit=2, searches=count) for count in (1, 3))
    assert thrice.searched == 3 * once.searched
    assert [thrice.problem_of(run_id).id for run_id in thrice.run_ids(1)] == [p.id for p in 3 * once.searched]
    requests = [thrice.request(number, index) for number in (1, 2) for index in range(6)]
    for values in ([one.run_id for one in requests], [one.config.run.seed for one in requests]):
        assert len(set(values)) == 12
    assert len({len(run_id) for run_id in (*thrice.run_ids(1), *thrice.run_ids(11))}) == 1


def test_the_id_of_a_loop_follows_from_all_that_it_does_and_not_from_where() -> None:
    def loop_id(search: Config = SERVED, train: TrainConfig = TrainConfig(), **other: Any) -> str:  # noqa: B008
        return plan_loop(PROBLEMS, search, train, **other).id

    moved = SERVED.changed(store=SERVED.store.changed(url="sqlite:///elsewhere.db"))
    assert loop_id(moved) == loop_id()
    others = {
        loop_id(),
        loop_id(limit=1),
        loop_id(train=TrainConfig(update=UpdateConfig(kl=0.5))),
        loop_id(SERVED.changed(search=SearchConfig(answers=3))),
    }
    assert len(others) == 4


@pytest.mark.parametrize(
    ("search", "train", "message"),
    [
        (Config(), TrainConfig(), "proposer.policy is 'start'; a loop searches with what it trains"),
        (
            SERVED.changed(search=SearchConfig(rollouts=1)),
            TrainConfig(),
            "search.rollouts is 1; a group to train on needs 2 or more",
        ),
        (SERVED, TrainConfig(probe=ProbeConfig(problems=0)), "probe.problems is 0; a loop compares versions"),
    ],
)
def test_settings_that_do_not_fit_are_refused(search: Config, train: TrainConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_loop(PROBLEMS, search, train)


LOOP = (
    "loop", "strings", "--limit", "2", "-n", "48", "--jobs", "1", "--imitate", "0", "--png", "loop.png",
    "--train-set", "probe.problems=2", "--train-set", "probe.answers=4", "--train-set", "probe.evaluations=0",
    "--train-set", "update.groups_per_step=2",
)  # fmt: skip


@pytest.mark.slow
def test_the_command_prints_before_and_after_and_goes_on_where_it_was(evovpo: Shell, tmp_path: Path) -> None:
    done = evovpo(*LOOP, "--rounds", "2", "--json")
    assert done.code == 0, done.err
    result = done.json
    today = ["rounds", "policy_versions", "weights_changed", "before", "after", "served"]
    assert list(result) == [*today, "break_even", "verdict"]
    assert result["rounds"] == 2
    assert result["policy_versions"] >= 1
    assert result["weights_changed"] is True
    assert set(result["before"]["best_at_k"]) == set(result["after"]["pass_at_k"]) >= {"1", "96"}
    assert (tmp_path / "loop.png").read_bytes().startswith(b"\x89PNG")
    again = evovpo(*LOOP, "--rounds", "2")
    assert again.code == 0, again.err
    assert "round 1/2" not in again.err
    assert "difference [95 % interval]" in again.out
    assert f"version {result['served']} is served" in again.out


def family(folder: Path, count: int = 4) -> Path:
    for entry in load_suite("strings")[:count]:
        shutil.copytree(entry.path, folder / "family" / entry.path.name)
    return folder / "family"


def test_searches_of_a_loop_that_imitates_do_not_see_validation_rows() -> None:
    train = TrainConfig.load(None, {"imitate.share": 1, "probe.problems": 2})
    for split in plan_loop(PROBLEMS, SERVED, train).searched:
        whole = next(problem for problem in PROBLEMS if problem.id == split.id)
        hidden = len(whole.train) // 4 if len(whole.train) >= 8 else 0
        assert len(split.validation) == hidden
        assert {*split.train, *split.validation} == {*whole.train}
        assert len(split.objectives) == len(split.train)
        assert split.heldout == whole.heldout
        assert (split.version == whole.version) == (hidden == 0)


def test_the_bundled_families_are_measured_by_siblings_and_by_what_is_marked() -> None:
    entries = load_suite("strings-family")
    loop = plan_loop([load_problem(one.path) for one in entries], SERVED, TrainConfig(), entries=entries)
    families = {problem_id(one.path): one.family for one in entries}
    marked = {problem_id(one.path) for one in entries if one.is_held_out}
    searched = {families[problem.id] for problem in loop.searched}
    siblings = [families[one.id] for one in loop.held_out if one.id not in marked]
    assert len(set(siblings)) == len(siblings) > 12
    assert set(siblings) < searched
    assert len(loop.held_out) - len(siblings) == min(len(marked), 24)
    assert not {families[one] for one in marked} & searched
    measured = {problem.id for problem in (*loop.held_out, *loop.guarded)}
    assert not measured & {problem.id for problem in loop.searched}


def test_problems_of_different_languages_are_one_clear_error(evovpo: Shell, tmp_path: Path) -> None:
    mixed = family(tmp_path, 2)
    shutil.copytree(load_suite("lists")[0].path, mixed / "of-lists")
    done = evovpo("loop", mixed)
    assert done.code != 0
    assert "the built-in one does not write for all of these problems" in done.err


def test_policies_of_another_store_are_refused_before_any_search(evovpo: Shell, tmp_path: Path) -> None:
    first = tmp_path / "policies" / "v0001"
    first.mkdir(parents=True)
    (first / POLICY_FILE).write_text('{"store": "/elsewhere/runs.db"}')
    url = f"sqlite:///{tmp_path}/own.db"
    refused = evovpo("loop", "strings", "--limit", "1", "--evaluations", "4", "--store", url)
    assert refused.code == 2
    assert "v0001 is of another store (/elsewhere/runs.db); give --policies another folder" in refused.err
    with Store.open(url) as store:
        assert store.runs() == []


@pytest.mark.slow
def test_a_loop_over_a_family_says_whether_it_won(evovpo: Shell, tmp_path: Path) -> None:
    done = evovpo(
        "loop", family(tmp_path), "--searches", "2", "-n", "40", "--jobs", "2",
        "--train-set", "probe.problems=2", "--train-set", "probe.answers=4",
        "--train-set", "probe.evaluations=0", "--train-set", "imitate.passes=1", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    for name in ("before", "after"):
        assert 0 <= done.json[name]["solved_heldout"] <= done.json[name]["problems"] == 2
        assert "1" in done.json[name]["best_at_k"]
        by_answers = list(done.json[name]["solved_by_answers"].values())
        assert by_answers == sorted(by_answers)
    assert done.json["before"]["answers"] == 96
    pays = done.json["break_even"]
    assert [one["unit"] for one in pays] == ["cpu_seconds", "tokens"]
    assert all(one["problems"] is None or one["problems"] > 0 for one in pays)
    assert done.json["verdict"].startswith(("The loop won", "The loop did not clearly win", "Nothing was"))
    assert "rounds: 1, problems: 2, searches of each in a round: 2, evaluations: 40, held out: 2," in done.err
