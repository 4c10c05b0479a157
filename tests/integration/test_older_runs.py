"""A run that an earlier version's search began: it opens, shows, and goes on as a new part."""

import gzip
import logging
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from scripted_proposer import ScriptedProposer
from shell import Shell
from sqlite_files import sql
from toy_runs import HARD, source

from evovpo.config import GONE_STRATEGIES, Config
from evovpo.runs.replay import rebuild, verify
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import resume, start
from evovpo.store import Store
from evovpo.store.database import upgrade
from evovpo.types import ParseStatus, Program, Prompt, PromptKind, Tell

GOLDEN = Path(__file__).parents[1] / "golden"
OLDER = GOLDEN / "store_0007.sql.gz"
"""Written by the version before the search learned how to ask: 40 of 60 evaluations, then paused."""
NOTED = GOLDEN / "store_0008.sql.gz"
"""Written by the last version with notes: 9 of 16 evaluations, then the server failed at the third notes."""
NOVEL = GOLDEN / "store_0008_novelty.sql.gz"
"""Written by the last version with `search.novelty`, at 0.5: 6 of 10 evaluations, 4 of them rejected."""


def upgraded(golden: Path, file: Path, *changes: str) -> str:
    with sqlite3.connect(file) as connection:
        connection.executescript(gzip.decompress(golden.read_bytes()).decode())
        for change in changes:
            connection.execute(change)
    address = f"sqlite:///{file}"
    upgrade(address)
    return address


@pytest.fixture
def url(tmp_path: Path) -> str:
    return upgraded(OLDER, tmp_path / "older.db")


def test_an_older_run_keeps_its_programs_and_goes_on_as_a_new_part(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Store.open(url) as store:
        found = rebuild("older", store)
        assert found.is_older
        assert found.search.standing.proposed == 40
        best = found.search.standing.best
        assert best is not None
        assert best.evaluation.mean_reward == store.run_summary("older").best_mean_reward == 0.5
        kept = {member.program_id for island in found.search.population.islands for member in island.members}
        assert best.program.id in kept
        with caplog.at_level(logging.WARNING):
            outcome = resume("older", store)
        assert "goes on from its best programs as a new part" in caplog.text
        assert outcome.evaluations == 60 or outcome.solved
        assert [part.asks_before for part in store.parts("older")] == [0, len(found.search.tickets)]


def test_what_came_after_an_older_search_replays_exactly(url: str) -> None:
    with Store.open(url) as store:
        resume("older", store)
        search, _ = verify("older", store)
        assert not rebuild("older", store).is_older
        begins = store.parts("older")[1].asks_before
        asks = [event for event in store.history("older") if isinstance(event, Prompt)]
        assert search.standing.proposed == 60 or search.standing.is_solved
        assert not any(ask.way for ask in asks[:begins])
        assert all(ask.way for ask in asks[begins:] if ask.has_model)


def test_stored_snapshots_and_summaries_are_dropped(tmp_path: Path) -> None:
    stored = (
        "INSERT INTO snapshots VALUES ('noted', 1, 1, 'code', x'00')",
        "INSERT INTO summaries VALUES ('noted', 1, x'00', x'00')",
    )
    url = upgraded(NOTED, tmp_path / "noted.db", *stored)
    tables = {name for (name,) in sql(tmp_path / "noted.db", "SELECT name FROM sqlite_master")}
    assert tables.isdisjoint({"snapshots", "summaries"})
    with Store.open(url) as store:
        assert store.run_summary("noted").proposed == rebuild("noted", store).search.standing.proposed == 9


@pytest.mark.parametrize("strategy", GONE_STRATEGIES)
def test_a_run_of_a_strategy_that_is_gone_goes_on_with_islands(url: str, strategy: str) -> None:
    with Store.open(url) as store:
        resume("older", store)
    changes = (
        f"UPDATE {table} SET config = json_set(config, '$.search.strategy', ?)"
        for table in ("runs", "run_events")
    )
    sql(url.removeprefix("sqlite:///"), *changes, values=(strategy,))
    with Store.open(url) as store:
        found = rebuild("older", store)
    assert found.is_older
    assert found.config.search.strategy == "islands"


def test_a_run_that_used_notes_goes_on_without_as_a_new_part(tmp_path: Path, evovpo: Shell) -> None:
    url = upgraded(NOTED, tmp_path / "noted.db")
    assert [row["run"] for row in evovpo("runs", "--store", url, "--json").json] == ["noted"]
    assert evovpo("show", "noted", "--store", url, "--json").json["evaluations"] == 9
    asked: list[PromptKind] = []

    def write(prompt: Prompt, index: int) -> str:
        asked.append(prompt.kind)
        return f"```python\ndef solve(name):\n    return name[:{prompt.sequence}]\n```"

    with Store.open(url) as store:
        found = rebuild("noted", store)
        assert (found.is_older, found.search.standing.proposed) == (True, 9)
        assert len(list(store.groups("noted"))) == 9
        outcome = resume("noted", store, ScriptedProposer(write))
        assert outcome.evaluations == 16
        assert asked == [PromptKind.NOTES, *[PromptKind.MUTATE] * 7]  # an open ticket is sent again
        verify("noted", store)
        assert not rebuild("noted", store).is_older


def test_a_run_that_rejected_answers_for_similarity_goes_on_without_as_a_new_part(
    tmp_path: Path, evovpo: Shell
) -> None:
    url = upgraded(NOVEL, tmp_path / "novel.db")
    assert [row["run"] for row in evovpo("runs", "--store", url, "--json").json] == ["novel"]
    shown = evovpo("show", "novel", "--store", url, "--json").json
    assert (shown["evaluations"], shown["executed"]) == (6, 2)
    assert evovpo("replay", "novel", "--verify", "--store", url).code == 0
    prompts: list[str] = []

    def write(prompt: Prompt, index: int) -> str:
        prompts.append(prompt.messages[-1].content)
        return "```python\ndef solve(name):\n    return name[1:]\n```"  # rejected before

    with Store.open(url) as store:
        groups = list(store.groups("novel"))
        assert len(groups) == 6
        assert sum(any(group.rewards_G_M_D[0][0]) for group in groups) == 1
        assert rebuild("novel", store).is_older
        outcome = resume("novel", store, ScriptedProposer(write))
        assert outcome.evaluations == 10
        told = [one for event in store.history("novel") if isinstance(event, Tell) for one in event.judged]
        later = [judged.candidate.parse_status for judged in told[-4:]]
        assert later == [ParseStatus.PARSED, *[ParseStatus.DUPLICATE] * 3]
        judged_at_last = told[-4].candidate
        assert judged_at_last.program == told[1].candidate.program
        assert judged_at_last.program is not None
        (step, *_) = store.lineage("novel", judged_at_last.program.id)
        assert step == judged_at_last  # not the rejected one
        verify("novel", store)
        assert not rebuild("novel", store).is_older
    assert "came to nothing: not novel" in prompts[1]


def test_programs_that_an_earlier_version_took_from_another_run_are_replayed(tmp_path: Path) -> None:
    settings = Config().changed(search={"evaluations": 8, "rollouts": 2}, proposer={"name": "random"})
    with Store.open(str(tmp_path / "runs.db")) as store:
        start(RunRequest(HARD, settings, run_id="one"), store)
        search = rebuild("one", store).search
        came = (Program(source("'late'")), Program(source("'later'")))
        rng = np.random.default_rng(0)
        asked = search.tickets.issue(PromptKind.SEED, rng, search.standing.tells, answers=0, proposals=came)
        store.add_prompt(asked)
        again = rebuild("one", store).search
        assert again.tickets.open == [(asked, (0,))]
        assert again.standing.proposed == search.standing.proposed
