"""A run that an earlier version's search began: it opens, shows, and goes on as a new part."""

import gzip
import logging
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from sqlite_files import sql
from toy_runs import HARD, source

from evovpo.config import GONE_STRATEGIES, Config
from evovpo.runs.replay import rebuild, verify
from evovpo.runs.request import RunRequest
from evovpo.runs.run import resume, start
from evovpo.store import Store
from evovpo.store.database import upgrade
from evovpo.types import Program, Prompt, PromptKind

OLDER = Path(__file__).parents[1] / "golden" / "store_0007.sql.gz"
"""Written by the version before the search learned how to ask: 40 of 60 evaluations, then paused."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with the older run, upgraded."""
    with sqlite3.connect(tmp_path / "older.db") as connection:
        connection.executescript(gzip.decompress(OLDER.read_bytes()).decode())
    address = f"sqlite:///{tmp_path / 'older.db'}"
    upgrade(address)
    return address


def test_an_older_run_keeps_its_programs_and_goes_on_as_a_new_part(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Store.open(url) as store:
        found = rebuild("older", store)
        assert found.is_older
        assert found.search.proposed == 40
        best = found.search.best
        assert best is not None
        assert best.evaluation.mean_reward == store.run_summary("older").best_mean_reward == 0.5
        kept = {member.program_id for island in found.search.population.islands for member in island.members}
        assert best.program.id in kept
        with caplog.at_level(logging.WARNING):
            outcome = resume("older", store)
        assert "goes on from its best programs as a new part" in caplog.text
        assert outcome.evaluations == 60 or outcome.solved_train
        assert [part.asks_before for part in store.parts("older")] == [0, len(found.search.tickets)]


def test_what_came_after_an_older_search_replays_exactly(url: str) -> None:
    with Store.open(url) as store:
        resume("older", store)
        search, _ = verify("older", store)
        assert not rebuild("older", store).is_older
        begins = store.parts("older")[1].asks_before
        asks = [event for event in store.history("older") if isinstance(event, Prompt)]
        assert search.proposed == 60 or search.is_solved
        assert not any(ask.way for ask in asks[:begins])
        assert all(ask.way for ask in asks[begins:] if ask.has_model)


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


def test_programs_that_an_earlier_version_took_from_another_run_are_replayed(tmp_path: Path) -> None:
    settings = Config().changed(search={"evaluations": 8, "rollouts": 2}, proposer={"name": "random"})
    with Store.open(str(tmp_path / "runs.db")) as store:
        start(RunRequest(HARD, settings, run_id="one"), store)
        search = rebuild("one", store).search
        came = (Program(source("'late'")), Program(source("'later'")))
        rng = np.random.default_rng(0)
        asked = search.tickets.issue(PromptKind.SEED, rng, search.tells, answers=0, proposals=came)
        store.add_prompt(asked)
        again = rebuild("one", store).search
        assert again.tickets.open == [(asked, (0,))]
        assert again.proposed == search.proposed
