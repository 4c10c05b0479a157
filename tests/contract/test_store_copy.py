"""Stores that are copied, brought together and pruned, on every kind of database."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from shell import Shell
from store_conformance import (
    PROBLEM,
    RUN,
    START,
    TRAINING,
    append,
    empty_postgres,
    make_call,
    make_prompt,
    make_step,
    postgres_url,
    row_count,
    scripted_history,
)

from evovpo.errors import StoreError
from evovpo.store import Store
from evovpo.store.copying import CopyResult, copy_store
from evovpo.store.pruning import prune
from evovpo.store.schema import metadata
from evovpo.types import PolicyEvent, PolicyEventKind, Prompt, RunStatus

__all__ = ["empty_postgres", "postgres_url"]

pytestmark = pytest.mark.slow


def add_run(store: Store, run: str, seed: int = 5) -> None:
    """Add a run that ended, with asks, tells, calls and all the rest."""
    store.add_problem(PROBLEM)
    store.add_run(replace(RUN, id=run))
    history = scripted_history(run, seed, 12)
    append(store, run, history)
    asked = next(one for one in history if isinstance(one, Prompt))
    for attempt in (1, 1, 2):  # two of them are equal
        store.add_call(replace(make_call(attempt), run_id=run, prompt_id=asked.id))
    store.set_run_status(run, RunStatus.EXHAUSTED, (1, 2))


def train_on(store: Store, run: str) -> None:
    store.add_policy_version(START)
    store.add_training(replace(TRAINING, runs=(run,), through=(f"{run}-p0",)))
    store.add_training_step(make_step(0))
    store.add_policy_event(PolicyEvent(0, PolicyEventKind.SERVED))


def everything(store: Store) -> dict[str, list[Any]]:
    """Return all records that a store gives back."""
    runs = [row.run for row in store.runs()]
    return {
        "runs": list(store.runs()),
        "problems": [store.problem("phones", "v1")],
        "histories": [list(store.history(run)) for run in runs],
        "calls": [store.calls(run) for run in runs],
        "known": sorted(store.known_evaluations("v1").items()),
        "policies": [store.policy_versions(), store.policy_events(), store.training_steps("training-a")],
    }


def count_rows(store: Store) -> int:
    return sum(row_count(store, table) for table in metadata.tables)


def ignore(name: str, new: int) -> None:
    """Show nothing."""


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Store]:
    """A store with two runs, of which one was trained on."""
    with Store.open(str(tmp_path / "source.db")) as store:
        add_run(store, "run-b")
        add_run(store, "run-a")
        train_on(store, "run-b")
        yield store


def test_there_and_back_through_postgresql_all_comes_back_equal(
    source: Store, empty_postgres: str, tmp_path: Path
) -> None:
    rows = count_rows(source)
    with Store.open(empty_postgres) as between, Store.open(str(tmp_path / "back.db")) as back:
        assert copy_store(source, between, ignore) == CopyResult(rows, rows, True)
        assert everything(between) == everything(source)
        assert copy_store(between, back, ignore) == CopyResult(rows, rows, True)
        assert everything(back) == everything(source)
        assert copy_store(source, back, ignore) == CopyResult(rows, 0, True)
        # A run goes on after a copy: numbers that the server gives do not collide with copied ones.
        between.set_run_status("run-a", RunStatus.INTERRUPTED)
        assert between.run("run-a").status is RunStatus.INTERRUPTED
        assert copy_store(between, back, ignore) == CopyResult(rows + 1, 1, True)


def test_a_copy_that_was_cut_short_lists_no_run_and_goes_on(
    source: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evovpo.store.copying._PAGE", 7)
    rows = count_rows(source)
    with Store.open(str(tmp_path / "target.db")) as target:
        write, left = target.write, [20]

        def write_some(append: Any) -> Any:
            left[0] -= 1
            if not left[0]:
                raise StoreError("the disk is full")
            return write(append)

        monkeypatch.setattr(target, "write", write_some)
        with pytest.raises(StoreError, match="disk is full"):
            copy_store(source, target, ignore)
        assert target.runs() == []
        before = count_rows(target)
        assert 0 < before < rows
        assert copy_store(source, target, ignore) == CopyResult(rows, rows - before, True)
        assert everything(target) == everything(source)


def test_runs_of_two_stores_come_together_by_age(source: Store, tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "target.db")) as target:
        add_run(target, "run-0", seed=5)  # judges the same programs
        target.add_problem(replace(PROBLEM, folder="/elsewhere"))
        copy_store(source, target, ignore)
        assert [row.run for row in target.runs()] == ["run-a", "run-b", "run-0"]
        for run in ("run-0", "run-a", "run-b"):
            assert list(target.history(run)) == scripted_history(run, 5, 12)
            assert len(target.calls(run)) == 3


def test_a_run_that_went_on_differently_is_refused(source: Store, tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "target.db")) as target:
        copy_store(source, target, ignore)
        source.add_prompt(make_prompt(77))
        target.add_prompt(replace(make_prompt(77), rollouts=1))
        with pytest.raises(StoreError, match=r"another row \('run-a-p77',\) in prompts.*to an empty store"):
            copy_store(source, target, ignore)
        with pytest.raises(StoreError, match="to itself"):
            copy_store(source, source, ignore)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_pruning_takes_a_run_with_what_only_it_has(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sqlite = str(tmp_path / "runs.db")
    url = sqlite if kind == "sqlite" else request.getfixturevalue("empty_postgres")
    with Store.open(url) as store, Store.open(str(tmp_path / "never.db")) as never:
        add_run(store, "run-a")
        train_on(store, "run-a")
        copy_store(store, never, ignore)
        add_run(store, "run-b")  # the same programs, so that none of them goes
        found = prune(store, ["run-a", "run-b"], is_trial=False)
        assert (found.runs, found.kept) == (["run-b"], {"run-a": "a policy was trained on it"})
        assert everything(store) == everything(never)
        add_run(store, "run-b", seed=6)
        before = {table: row_count(store, table) for table in metadata.tables}
        would = prune(store, ["run-b"], is_trial=True)
        assert {table: row_count(store, table) for table in metadata.tables} == before
        assert prune(store, ["run-b"], is_trial=False) == would
        assert would.tables["programs"] > 0 < would.tables["rewards"]
        store.compact()
        assert everything(store) == everything(never)
        assert all(row_count(store, table) == row_count(never, table) for table in metadata.tables)


@pytest.mark.parametrize("names", [["run-a", "run-b"], []])
def test_prune_first_says_what_would_go(
    names: list[str],
    source: Store,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    evovpo, url = Shell(capsys), tmp_path / "source.db"
    source.add_run(replace(RUN, id="run-c"))
    given = names or ["--all"]
    trial = evovpo("store", "prune", *given, "--store", url)
    assert trial.code == 0
    assert "stays: run-b: a policy was trained on it" in trial.out
    assert "nothing is changed" in trial.out
    assert len(source.runs()) == 3
    found = evovpo("store", "prune", *given, "--store", url, "--yes", "--json").json
    assert (found["runs"], found["removed"]) == (["run-a"], True)
    assert found["rows"] == sum(found["tables"].values()) > 0
    assert set(found["kept"]) == ({"run-b"} if names else {"run-b", "run-c"})
    assert {row.run for row in source.runs()} == {"run-b", "run-c"}
    wrong = evovpo("store", "prune", "--store", url)
    assert (wrong.code, "or --all" in wrong.err) == (2, True)


def test_a_stored_run_replays_identically_after_there_and_back(
    tmp_path: Path, empty_postgres: str, capsys: pytest.CaptureFixture[str]
) -> None:
    evovpo = Shell(capsys)
    settings = ("--set", "proposer.name=random", "--set", "search.evaluations=12")
    first, back = tmp_path / "first.db", tmp_path / "back.db"
    evovpo("evolve", "strings/phone-with-hyphens", *settings, "--store", first, "--json")
    for source, target in ((first, empty_postgres), (empty_postgres, back)):
        found = evovpo("store", "copy", source, target, "--json").json
        assert found["verified"] is True
        assert found["rows"] == found["copied"] > 0
    replays = [evovpo("replay", "latest", "--verify", "--store", url, "--json") for url in (first, back)]
    answers = [{**replay.json, "seconds": 0.0} for replay in replays]
    assert answers[0] == answers[1]
    assert answers[0]["identical"] is True
    missing = evovpo("store", "copy", tmp_path / "none.db", back)
    assert (missing.code, "no such store" in missing.err) == (2, True)
