"""Runs that take over each other's programs: what comes, what does not, and that replays hold."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from toy_runs import HARD, evaluation, hashed_rewards, source

from evovpo.config import Config
from evovpo.errors import ConfigError
from evovpo.proposers.scripted import ScriptedProposer
from evovpo.runs import driver as driving
from evovpo.runs.archipelago import Archipelago
from evovpo.runs.driver import Driver
from evovpo.runs.replay import build_search, rebuild, verify
from evovpo.runs.snapshots import snapshot_of
from evovpo.runs.stored import lineage
from evovpo.store import Store
from evovpo.types import Evaluation, Program, Prompt, PromptKind, Run, RunStatus, Tell

SETTINGS = Config.load(
    None, {"run.archipelago": "a", "search.evaluations": 48, "search.joins": False}
).changed(search={"in_flight": 1, "rollouts": 4, "answers": 1, "islands": 2})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(driving, "_LOOK_SECONDS", 0.0)
    with Store.open(str(tmp_path / "runs.db")) as opened:
        opened.add_problem(HARD)
        yield opened


class Judge:
    """Judges by a function of the source, and keeps which sources it was asked about."""

    def __init__(self, perfect: str = "") -> None:
        self.asked: list[str] = []
        self._perfect = perfect

    def evaluate(self, program: Program) -> Evaluation:
        """Return the judgement."""
        self.asked.append(program.source)
        is_perfect = program.source == self._perfect
        found = evaluation(program.source, (1.0,) * 8 if is_perfect else hashed_rewards(program.source, 8))
        return replace(found, problem_version=HARD.version)

    def evaluate_heldout(self, program: Program) -> tuple[bool, ...]:
        """Return nothing: no run of these asks."""
        return ()


def search(store: Store, run_id: str, settings: Config = SETTINGS, perfect: str = "") -> tuple[Driver, Judge]:
    """Search a new run to its end, with programs that no other run writes unless they are `perfect`."""
    budget = settings.search.evaluations
    run = Run(run_id, HARD.id, HARD.version, 0, budget, settings.to_json(), RunStatus.RUNNING, "2026-01-02")
    store.add_run(run)
    found = build_search(HARD, settings, run)
    judge = Judge(perfect and source(perfect))

    def write(prompt: Prompt, index: int) -> str:
        last = perfect and prompt.sequence == 6 and index == 3
        return f"{perfect if last else repr(run_id + str(prompt.sequence * 4 + index))}⟦end⟧"

    others = Archipelago(store, found, settings.run.archipelago)
    driver = Driver(found, settings, ScriptedProposer(write), judge, store, arrivals=others.arrivals)
    store.set_run_status(run_id, asyncio.run(driver.run()), None)
    return driver, judge


def arrivals(store: Store, run_id: str) -> list[tuple[Prompt, Tell]]:
    """Return the tickets with programs of other runs, each with its reply."""
    history = list(store.history(run_id))
    tells = {event.prompt_id: event for event in history if isinstance(event, Tell)}
    asked = [event for event in history if isinstance(event, Prompt) and event.kind is PromptKind.SEED]
    return [(prompt, tells[prompt.id]) for prompt in asked[1:]]


def test_the_best_programs_of_the_run_before_come_judged_and_outside_the_budget(store: Store) -> None:
    first, _ = search(store, "first")
    second, judge = search(store, "second")
    ((prompt, tell),) = arrivals(store, "second")  # nothing was new after the first look
    assert 1 <= len(prompt.proposals) <= 8
    judged = {program.id for program in prompt.proposals}
    assert judged <= {one.program_id for one in first.search.population.elites.values()}
    assert not judged & {Program(text).id for text in judge.asked}
    assert [one.evaluation for one in tell.judged] == [
        first.search.evaluation(p.id) for p in prompt.proposals
    ]
    assert not any(one.executed for one in tell.judged)
    assert (second.search.proposed, store.run_summary("second").proposed) == (48, 48)
    homes = [
        island.index
        for island in second.search.population.islands
        if {m.program_id for m in island.members} & judged
    ]
    assert prompt.island in homes
    assert {one.program.id for one in lineage(store, "second", HARD, prompt.proposals[0])} == {
        prompt.proposals[0].id
    }
    assert lineage(store, "second", HARD, prompt.proposals[0])[0].origin == "other run"


def test_a_replay_needs_no_other_run_and_a_snapshot_may_lie_between(store: Store) -> None:
    search(store, "first")
    second, _ = search(store, "second")
    assert arrivals(store, "second")
    found, _ = verify("second", store)
    assert found.population.elites == second.search.population.elites
    store.keep_snapshot(snapshot_of(second.search))
    assert rebuild("second", store, from_snapshot=True).search.population.elites == found.population.elites


def test_a_ticket_that_nobody_was_told_of_is_told_when_the_run_goes_on(store: Store) -> None:
    search(store, "first")
    half = SETTINGS.changed(search={"evaluations": 24})
    driver, _ = search(store, "second", half)
    programs = [Program(source("'late'")), Program(source("'later'"))]
    store.add_prompt(driver.search.welcome(programs))
    again = rebuild("second", store).search
    assert [prompt.proposals for prompt, _ in again.tickets.open] == [tuple(programs)]
    judge = Judge()
    known = {one.id: judge.evaluate(one) for one in programs}
    later = Driver(again, half, ScriptedProposer(lambda prompt, index: "x0⟦end⟧"), Judge(), store, known)
    assert asyncio.run(later.run()) is RunStatus.EXHAUSTED
    assert not again.tickets.open
    assert all(again.evaluation(program.id) for program in programs)
    verify("second", store)


def test_a_solution_ends_the_others_wherever_they_stand_in_the_ring(store: Store) -> None:
    search(store, "a", perfect="'right'")
    assert store.run("a").status is RunStatus.SOLVED
    search(store, "b", SETTINGS.changed(run={"archipelago": "b"}))  # stands between, and knows nothing of it
    for run_id in ("c", "d"):
        found, judge = search(store, run_id)
        assert store.run(run_id).status is RunStatus.SOLVED
        assert found.search.proposed < 48
        assert source("'right'") not in judge.asked


@pytest.mark.parametrize("name", ["", "b"])
def test_runs_by_themselves_and_of_another_name_take_nothing(store: Store, name: str) -> None:
    search(store, "first")
    search(store, "second", SETTINGS.changed(run={"archipelago": name}))
    assert not arrivals(store, "second")


def test_a_program_that_an_elite_replaces_does_not_come(store: Store) -> None:
    search(store, "first")
    second, _ = search(store, "second")
    others = Archipelago(store, second.search, "a")
    for program, judged in others.arrivals():
        assert judged.rewards is not None
        assert second.search.evaluation(program.id) is None
        for elite in second.search.population.elites.values():
            assert any(mine > theirs for mine, theirs in zip(judged.rewards, elite.rewards, strict=True)) or (
                judged.rewards == elite.rewards and len(program.source) < len(elite.source)
            )
    assert others.arrivals() == []


def test_only_islands_take_programs_over() -> None:
    with pytest.raises(ConfigError, match="only islands take over"):
        Config.load(None, {"run.archipelago": "a", "search.strategy": "iid"})
