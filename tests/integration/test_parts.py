"""Runs that go on under other settings, and runs that begin with the best programs of another."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import shell
from openevolve_problems import write_project
from scripted_proposer import ScriptedProposer
from sqlite_files import sql
from toy_runs import HARD, PROBLEM, SWAP, Shuffled, population, random_expressions, source, toy_script

from evovpo.config import Config, SandboxConfig, SearchConfig
from evovpo.errors import ConfigError, ProblemError, ReplayError, StoreError
from evovpo.runs.driver import Progress
from evovpo.runs.replay import rebuild, verify
from evovpo.runs.request import RunRequest, with_origin
from evovpo.runs.start_resume import resume, start
from evovpo.runs.stored import Outcome
from evovpo.search.search import SearchState
from evovpo.store import Store
from evovpo.types import Problem, Prompt, PromptKind, RunStatus

pytestmark = pytest.mark.slow

Script = Callable[[Prompt, int], str]


def config(**changes: object) -> Config:
    plain = SearchConfig(evaluations=48, rollouts=2, answers=2, islands=2, migration_interval=3, in_flight=1)
    return Config(search=plain.changed(**changes), sandbox=SandboxConfig(workers=1))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


def run(
    database: Path, settings: Config, problem: Problem = HARD, write: Script | None = None, name: str = "one"
) -> Outcome:
    with Store.open(str(database)) as store:
        request = RunRequest(problem, settings, run_id=name)
        return start(request, store, Shuffled(write or toy_script()))


def go_on(database: Path, *changes: str, write: Script | None = None) -> tuple[Outcome, list[SearchState]]:
    live: list[SearchState] = []

    def keep(progress: Progress) -> None:
        live[:] = [progress.search]

    with Store.open(str(database)) as store:
        outcome = resume(
            "one", store, Shuffled(write or toy_script()), on_tell=keep, changes=Config.read_changes(changes)
        )
        return outcome, live


def asked(database: Path) -> list[Prompt]:
    with Store.open(str(database)) as store:
        return [event for event in store.history("one") if isinstance(event, Prompt)]


@pytest.mark.parametrize("in_flight", [1, 4])
def test_a_finished_run_goes_on_as_a_new_part_and_replays(database: Path, in_flight: int) -> None:
    before = run(database, config(in_flight=in_flight))
    first = len(asked(database))
    outcome, live = go_on(
        database,
        *("search.evaluations=96", "search.rollouts=3", "search.joins=false"),
        *("search.migration_interval=2", "search.attempts=3"),
    )
    assert (before.evaluations, outcome.evaluations) == (48, 96)
    with Store.open(str(database)) as store:
        stored = store.run("one")
        assert (stored.status, stored.evaluations) == (RunStatus.EXHAUSTED, 96)
        replayed, _ = verify("one", store)
        assert rebuild("one", store).config.search.rollouts == 3
        assert [part.asks_before for part in store.parts("one")] == [0, first]
    assert population(replayed) == population(live[0])
    models = [prompt for prompt in asked(database) if prompt.kind is not PromptKind.SEED]
    assert {prompt.rollouts for prompt in models if prompt.sequence < first and prompt.has_model} == {2}
    later = [prompt for prompt in models if prompt.sequence >= first]
    assert later[0].rollouts == 3
    assert all(prompt.has_model for prompt in later)

    again, _ = go_on(database)
    assert again.evaluations == 96
    third, _ = go_on(database, "search.evaluations=100")
    assert third.evaluations == 100
    with Store.open(str(database)) as store:
        assert len(store.parts("one")) == 3
        verify("one", store)


def test_a_run_that_was_cut_off_goes_on_with_other_settings_and_its_open_tickets(database: Path) -> None:
    script = toy_script()

    def cut_off(prompt: Prompt, index: int) -> str:
        if prompt.sequence >= 6:
            raise KeyboardInterrupt
        return script(prompt, index)

    with pytest.raises(KeyboardInterrupt):
        run(database, config(in_flight=4), write=cut_off)
    tickets = asked(database)
    with Store.open(str(database)) as store:
        assert len(rebuild("one", store).search.tickets.open) > 1
    outcome, live = go_on(database, "search.evaluations=72", "search.rollouts=4")
    assert outcome.evaluations == 72
    assert asked(database)[: len(tickets)] == tickets
    with Store.open(str(database)) as store:
        assert store.parts("one")[1].asks_before == len(tickets)
        assert population(verify("one", store)[0]) == population(live[0])


def test_replies_are_read_in_the_format_that_their_prompt_asked_for(database: Path) -> None:
    script = toy_script()
    written = f"```python\n{source('x0.upper()')}```"

    def write(prompt: Prompt, index: int) -> str:
        if "⟦" in prompt.messages[-1].content:
            return script(prompt, index)
        return written

    def cut_off(prompt: Prompt, index: int) -> str:
        if prompt.sequence >= 4:
            raise KeyboardInterrupt
        return script(prompt, index)

    with pytest.raises(KeyboardInterrupt):
        run(database, config(in_flight=3, answers=1), write=cut_off)
    outcome, _ = go_on(database, "prompt.style=rewrite", write=write)
    assert outcome.evaluations == 48
    with Store.open(str(database)) as store:
        search, _ = verify("one", store)
        unread = store.query("SELECT count(*) AS n FROM candidates WHERE parse_status = 'unparsed'")[0]["n"]
    styles = ["⟦" in prompt.messages[-1].content for prompt in asked(database) if prompt.has_model]
    assert styles == sorted(styles, reverse=True)
    assert 1 < sum(styles) < len(styles)
    assert any(shown.program.source == source("x0.upper()") for shown in search.standing.programs.values())
    assert unread <= 8


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE run_events SET config = NULL",
        "UPDATE run_events SET asks_before = asks_before + 1",
        "UPDATE run_events SET tells_before = 10000",
        """UPDATE run_events SET config = replace(config, '"rollouts": 3', '"rollouts": 2')""",
    ],
)
def test_a_part_that_was_changed_is_found_out(database: Path, statement: str) -> None:
    run(database, config())
    go_on(database, "search.evaluations=60", "search.rollouts=3")
    sql(database, statement)
    with Store.open(str(database)) as store, pytest.raises(ReplayError):
        verify("one", store)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["search.islands=3"], r"search.islands is 2 for all of run one, found 3; .*--from one"),
        (["search.strategy=iid"], "search.strategy is 'islands'"),
        (["run.seed=1"], "run.seed is 0"),
        (["evaluator.timeout_seconds=1"], "evaluator.timeout_seconds is 300.0"),
        (["search.evaluations=48"], "has proposed 48 programs already"),
        (["search.rollouts=3"], "has proposed 48 programs already"),
        (["search.rolouts=3"], "unknown key search.rolouts"),
        (["proposer.name=openai", "search.evaluations=60"], "proposer.model is empty"),
    ],
)
def test_what_cannot_be_changed_is_refused_and_nothing_is_stored(
    database: Path, changes: list[str], said: str
) -> None:
    run(database, config())
    with Store.open(str(database)) as store:
        proposer = None if said.startswith("proposer") else ScriptedProposer(toy_script())
        with pytest.raises(ConfigError, match=said):
            resume("one", store, proposer, changes=Config.read_changes(changes))
        assert len(store.parts("one")) == 1
        assert store.run("one").status is RunStatus.EXHAUSTED


def test_a_solved_run_goes_on_only_if_it_is_told_not_to_stop(database: Path) -> None:
    expressions = [f"{SWAP} if ', ' in x0 else x0.upper()", *random_expressions(1, 200)]

    def write(prompt: Prompt, index: int) -> str:
        return expressions[(prompt.sequence - 1) * 2 + index] + "⟦end⟧"

    settings = config(joins=False, answers=1)
    solved = run(database, settings, PROBLEM, write)
    assert solved.solved
    stays, _ = go_on(database, "search.evaluations=60", write=write)
    assert stays.evaluations == solved.evaluations
    goes, _ = go_on(database, "search.evaluations=20", "search.stop_when_solved=false", write=write)
    assert (goes.evaluations, goes.solved) == (20, True)
    with Store.open(str(database)) as store:
        assert (store.run("one").status, len(store.parts("one"))) == (RunStatus.SOLVED, 2)
        verify("one", store)


def test_patience_begins_anew_and_a_reached_target_must_be_raised(database: Path) -> None:
    def write(prompt: Prompt, index: int) -> str:
        return "x0⟦end⟧"

    settings = config(patience=8, answers=1, joins=False)
    assert "no better program in 8" in run(database, settings, write=write).stopped
    outcome, _ = go_on(database, "search.evaluations=60", write=write)
    assert (outcome.evaluations, outcome.stopped) == (16, "no better program in 8 evaluations")
    ended, _ = go_on(database, "search.patience=0", "search.target=0.0", write=write)
    assert (ended.evaluations, ended.stopped) == (16, "the target of 0.0 is reached")
    last, _ = go_on(database, "search.patience=0", "search.target=1.0", write=write)
    assert last.evaluations == 60
    with Store.open(str(database)) as store:
        assert len(store.parts("one")) == 3
        verify("one", store)


def test_a_run_begins_with_the_best_programs_of_another_and_replays(database: Path) -> None:
    run(database, config(in_flight=1))
    with Store.open(str(database)) as store:
        best = store.vectors(["one"])
        request, note = with_origin(RunRequest(PROBLEM, config().changed(run={"origin": ["one"]})), store)
    first, *ids = request.config.run.origin
    assert first == "one"
    assert best[0][0] in ids
    assert len({dict(best)[program_id] for program_id in ids}) == len(ids)
    assert note == f"starts from {len(ids)} of the {len(ids)} best programs of run one"
    assert {item.problem_version for item in request.judged} == {PROBLEM.version}
    outcome = run(database, config().changed(run={"origin": ["one"]}), PROBLEM, name="two")
    assert outcome.evaluations == 48 or outcome.solved
    with Store.open(str(database)) as store:
        first = next(iter(store.history("two")))
        assert isinstance(first, Prompt)
        assert [program.id for program in first.proposals] == [PROBLEM.seeds[0].id, *ids]
        verify("two", store)
        assert store.problem(PROBLEM.id, PROBLEM.version).seeds == PROBLEM.seeds


def test_programs_that_do_not_fit_are_counted_and_named_and_none_that_fits_is_an_error(
    database: Path,
) -> None:
    run(database, config())
    other = dataclasses.replace(PROBLEM, id="others", version="others-1", entry="answer", seeds=())
    with Store.open(str(database)) as store:
        request = RunRequest(other, config().changed(run={"origin": ["one"]}))
        with pytest.raises(ProblemError, match=r"none of the \d best programs of run one .*\(error: "):
            with_origin(request, store)
        short = config(evaluations=2, joins=False)
        start(RunRequest(HARD, short, run_id="zero"), store, ScriptedProposer(lambda *_: "'-'⟦end⟧"))
        with pytest.raises(ProblemError, match="no program of run zero has a reward"):
            with_origin(RunRequest(other, config().changed(run={"origin": "zero"})), store)
        with pytest.raises(StoreError, match="no run whose id"):
            with_origin(RunRequest(other, config().changed(run={"origin": "two"})), store)
        assert [row.run for row in store.runs()] == ["zero", "one"]


def test_the_commands_go_on_with_a_run_and_begin_with_a_checkpoint(
    tmp_path: Path, command: shell.Shell
) -> None:
    common = ("--store", tmp_path / "runs.db", "--json")
    problem = "strings/phone-with-hyphens"
    first = command("evolve", problem, "--proposer", "random", "-n", "24", *common)
    assert first.json["evaluations"] == 24
    refused = command("resume", "latest", "-n", "20", *common)
    assert (refused.code, "give more" in refused.err) == (2, True)
    more = command("resume", "latest", "-n", "40", "--set", "search.rollouts=4", *common)
    assert (more.code, more.json["run"], more.json["evaluations"]) == (0, first.json["run"], 40)
    shown = command("show", "latest", "--no-png", *common[:2]).out
    assert "went on under other settings after ask" in shown
    assert ": search.evaluations 24 -> 40, search.rollouts None -> 4\n" in shown
    (row,) = command("runs", *common).json
    assert (row["evaluations"], row["status"]) == (40, "exhausted")
    assert command("replay", "latest", "--verify", *common).json["identical"]

    code = "def solve(phone):\n    return phone[:3]\n"
    theirs = {"id": "a", "code": code, "language": "python", "metrics": {"combined_score": 0.5}}
    worse = {"id": "b", "code": "x =", "metrics": {"combined_score": 0.25}}
    checkpoint = write_project(
        tmp_path / "out" / "checkpoints" / "checkpoint_1",
        {
            "programs/a.json": json.dumps(theirs),
            "programs/b.json": json.dumps(theirs | worse),
        },
    ).parents[1]
    second = command("evolve", problem, "--proposer", "random", "-n", "8", "--from", checkpoint, *common)
    assert second.code == 0, second.err
    assert "starts from 1 of the 2 best programs" in second.err
    assert "(error: " in second.err
    assert command("replay", "latest", "--verify", *common).json["identical"]
