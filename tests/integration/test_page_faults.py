"""Faults of the store under an open page: a real server says what is wrong, and goes on once that is over.

Every test ends with the store as it was, so that the server that all share has to find back by itself.
"""

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the page needs the extra ui")

from postgres import postgres_server
from running import Served, serving
from sqlalchemy import create_engine, text
from sqlite_files import sql
from starlette.testclient import TestClient
from store_conformance import RUN, write_run

from evovpo.page.page_server import application
from evovpo.page.page_store import Source
from evovpo.store import Store


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page") / "runs.db"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run, whose readers wait for whoever writes: to be copied, never changed."""
    found = tmp_path_factory.mktemp("whole") / "runs.db"
    with Store.open(str(found)) as store:
        write_run(store)
    sql(found, "PRAGMA journal_mode=DELETE")
    return found


@pytest.fixture(scope="module")
def address(path: Path, whole: Path) -> Iterator[Served]:
    """A server that was there before its store."""
    with serving(f"sqlite:///{path}?timeout=0.2") as (_, found):
        assert "there is no such store" in fault(found)
        assert "there is no such store" in fault(found, what="runs")
        shutil.copy(whole, path)
        assert_well(found)
        yield found


def ask(address: Served, what: str = "runs/run-a") -> tuple[int, Any]:
    status, _, body = address.ask(f"api/{what}")
    return status, json.loads(body)


def fault(address: Served, status: int = 503, what: str = "runs/run-a") -> str:
    found, body = ask(address, what)
    assert found == status, body
    return str(body["error"])


def assert_well(address: Served) -> None:
    status, run = ask(address)
    assert status == 200, run
    assert (run["id"], run["read"]) == ("run-a", [60, 60])
    assert ask(address, "runs")[1]["runs"][0]["id"] == "run-a"


def test_a_store_that_disappears_is_missed_and_read_again_when_it_is_back(
    address: Served, path: Path, whole: Path
) -> None:
    assert_well(address)
    path.unlink()
    for what in ("runs/run-a", "runs", "policies"):
        assert "there is no such store" in fault(address, what=what)
    shutil.copy(whole, path)
    assert_well(address)


def test_a_store_that_was_replaced_is_read_anew(
    address: Served, path: Path, whole: Path, tmp_path: Path
) -> None:
    assert_well(address)
    Store.open(str(tmp_path / "other.db")).close()
    (tmp_path / "other.db").rename(path)
    assert ask(address, "runs")[1]["runs"] == []
    assert "no run run-a is stored" in fault(address, 404)
    shutil.copy(whole, tmp_path / "again.db").rename(path)
    assert_well(address)


@pytest.mark.parametrize("part", [0.0, 0.02, 0.4, 0.9])
def test_a_store_of_which_only_a_part_is_there_is_a_fault_until_all_is(
    address: Served, path: Path, whole: Path, part: float
) -> None:
    content = whole.read_bytes()
    assert_well(address)
    path.write_bytes(content[: int(len(content) * part)])  # as somebody copies it over the old one
    status, body = ask(address)
    if status == 200:  # what was cut off is not what this asks for
        status, body = ask(address, "runs/run-a/programs?sort=-order")
    assert status == 503
    assert str(path) in body["error"]
    path.write_bytes(content)
    assert_well(address)


def test_a_locked_store_is_said_to_be_locked_and_read_once_it_is_free(address: Served, path: Path) -> None:
    assert_well(address)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        assert "database is locked" in fault(address)
        holder.execute("ROLLBACK")
    assert_well(address)


def test_a_run_that_is_deleted_is_not_found_and_the_others_are(
    address: Served, path: Path, whole: Path
) -> None:
    with Store.open(str(path)) as store:
        store.add_run(replace(RUN, id="other"))
    assert ask(address)[0] == 200
    tables = ("run_events", "candidates", "tells", "prompts")
    parts = (f"DELETE FROM {table} WHERE run_id = 'run-a'" for table in tables)
    sql(path, "DELETE FROM runs WHERE id = 'run-a'", *parts)
    for what in ("", "/programs", "/lineage"):
        assert "no run run-a is stored" in fault(address, 404, f"runs/run-a{what}")
    assert [run["id"] for run in ask(address, "runs")[1]["runs"]] == ["other"]
    shutil.copy(whole, path)
    assert_well(address)


@pytest.mark.slow
def test_a_database_server_that_is_slow_locked_or_away_is_a_fault_until_it_answers() -> None:
    with postgres_server() as databases:
        url = databases.format("postgres")
        with Store.open(url) as store:
            write_run(store)
        engine = create_engine(url)
        with serving(f"{url}&options=-c statement_timeout=200") as (_, address):
            assert_well(address)
            with engine.connect() as holder:
                holder.execute(text("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE"))
                assert "statement timeout" in fault(address)
            assert_well(address)
            with engine.connect() as killer:
                killer.execute(
                    text(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                    )
                )
            answers = [ask(address) for _ in range(2)]
            assert answers[-1][0] == 200, answers
        engine.dispose()


def test_a_password_in_an_address_is_never_said() -> None:
    source = Source("postgresql+psycopg://me:hidden-one@127.0.0.1:1/none")
    client = TestClient(application(source), base_url="http://localhost")
    assert "127.0.0.1" in client.get("/api/runs").text
    assert "hidden-one" not in client.get("/api/runs").text
