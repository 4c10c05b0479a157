"""The store on a PostgreSQL server that is shared, restarted, cut off, full or slow.

The conformance suite runs on the same kind of server in `test_store.py`.
"""

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from postgres import Server, running_server
from sqlalchemy import Engine, create_engine, event, text
from store_conformance import PROBLEM, RUN, append, make_call, make_prompt, row_count, scripted_history

from evovpo.errors import StoreError
from evovpo.store import Store
from evovpo.types import Message, Prompt, Tell

pytestmark = pytest.mark.slow

HISTORY = scripted_history("run-a", 5, 12)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as started:
        yield started


@pytest.fixture
def url(server: Server, request: pytest.FixtureRequest) -> str:
    """The address of a database of this test's own."""
    name = f"db{abs(hash(request.node.name))}"
    execute(server.address(), f"CREATE DATABASE {name}")
    return server.address(name)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """An open store with the problem and one run."""
    with Store.open(url) as opened:
        opened.add_problem(PROBLEM)
        opened.add_run(RUN)
        yield opened


def execute(url: str, statement: str) -> list[Any]:
    """Return the rows of a statement that runs on its own connection."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        found = connection.execute(text(statement))
        rows = [tuple(row) for row in found] if found.returns_rows else []
    engine.dispose()
    return rows


def cut_off_others(url: str) -> None:
    """End every other connection to the server, as its administrator may."""
    everybody = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    execute(url, f"SELECT pg_terminate_backend(pid) {everybody}")


def go_on(store: Store) -> None:
    """Append what is missing of the history, as a resumed run does, and expect all of it, once."""
    kept = list(store.history("run-a"))
    assert kept == HISTORY[: len(kept)]
    append(store, "run-a", HISTORY[len(kept) :], sum(isinstance(one, Tell) for one in kept))
    assert list(store.history("run-a")) == HISTORY


def test_a_store_that_another_process_makes_meanwhile_is_made_once(url: str) -> None:
    others: list[threading.Thread] = []

    def let_another_come_first(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if "CREATE TABLE problems" in statement and not others:
            others.append(threading.Thread(target=lambda: Store.open(url).close()))
            others[0].start()
            others[0].join(timeout=1)  # it ends at once, or waits for the tables of whoever began

    event.listen(Engine, "before_cursor_execute", let_another_come_first)
    try:
        with Store.open(url) as store:
            others[0].join()
            store.add_problem(PROBLEM)
            assert row_count(store, "problems") == 1
    finally:
        event.remove(Engine, "before_cursor_execute", let_another_come_first)


def test_a_write_waits_for_a_server_that_is_started_again(
    server: Server, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(store, "run-a", HISTORY[:9])
    server.stop()
    starts = [server.start]

    def sleep(seconds: float) -> None:
        for start in [starts.pop() for _ in starts[:]]:
            start()

    monkeypatch.setattr("evovpo.store.database.time.sleep", sleep)
    go_on_at = sum(isinstance(one, Tell) for one in HISTORY[:9])
    append(store, "run-a", HISTORY[9:], go_on_at)
    assert not starts
    assert list(store.history("run-a")) == HISTORY


def test_a_server_that_stays_away_is_a_store_error_and_the_run_goes_on_later(
    server: Server, store: Store
) -> None:
    append(store, "run-a", HISTORY[:9])
    server.stop()
    store._busy_seconds = 0.0
    try:
        with pytest.raises(StoreError, match=r"closed the connection.*all told is kept"):
            go_on(store)
        with pytest.raises(StoreError, match="check that the server runs"):
            Store.open(store.name, create=False)
    finally:
        server.start()
    go_on(store)


def test_a_connection_that_is_cut_within_a_transaction_loses_nothing(url: str, store: Store) -> None:
    cut: list[str] = []

    def after(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("INSERT INTO tells") and not cut:
            cut.append(statement)
            cut_off_others(url)

    event.listen(store._pool, "after_cursor_execute", after)
    append(store, "run-a", HISTORY)
    assert cut
    assert list(store.history("run-a")) == HISTORY


def test_a_connection_that_is_cut_while_it_commits_says_so_and_nothing_is_there_twice(
    url: str, store: Store
) -> None:
    prompt = next(one for one in HISTORY if isinstance(one, Prompt))
    store.add_prompt(prompt)
    call = replace(make_call(), prompt_id=prompt.id)
    store.add_call(call)
    event.listen(store._pool, "commit", lambda connection: cut_off_others(url), once=True)
    with pytest.raises(StoreError, match=r"whole or not at all: resume"):
        store.add_call(call)
    assert store.calls("run-a") == [call]
    go_on(store)


def test_a_full_disk_is_a_store_error_and_loses_nothing_that_was_told(server: Server, store: Store) -> None:
    append(store, "run-a", HISTORY[:9])
    long = random.Random(0).randbytes(100_000).hex()  # what cannot be compressed
    messages = (Message("user", long),)
    asks = [replace(make_prompt(number), messages=messages) for number in range(100, 120)]
    server.stop()
    server.start(file_bytes=1 << 20)
    told = []
    try:
        with pytest.raises(StoreError, match=r"could not extend file.*make room"):  # noqa: PT012
            for ask in asks:
                store.add_prompt(ask)
                told.append(ask)
    finally:
        server.stop()
        server.start()
    assert [one for one in store.history("run-a") if one not in told] == HISTORY[:9]
    assert [store.add_prompt(ask) for ask in asks] == [ask not in told for ask in asks]


def test_a_slow_server_is_waited_for_and_with_a_limit_it_is_a_store_error(url: str, store: Store) -> None:
    append(store, "run-a", HISTORY[:9])
    rest = HISTORY[9:]
    told = sum(isinstance(one, Tell) for one in HISTORY[:9])
    engine = create_engine(url)
    with engine.connect() as holder:
        holder.execute(text("LOCK TABLE prompts, tells IN EXCLUSIVE MODE"))
        with (
            Store.open(f"{url}&options=-c statement_timeout=50") as impatient,
            pytest.raises(StoreError, match="statement timeout; the server is slow"),
        ):
            append(impatient, "run-a", rest, told)
        writer = threading.Thread(target=append, args=(store, "run-a", rest, told))
        writer.start()
        while not execute(url, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            pass
        holder.rollback()
        writer.join()
    engine.dispose()
    assert list(store.history("run-a")) == HISTORY


def test_a_reader_sees_one_state_while_a_run_is_written(url: str, store: Store) -> None:
    append(store, "run-a", HISTORY[:9])

    def look(connection: Any) -> tuple[int, int]:
        count = text("SELECT count(*) FROM prompts")
        before = connection.scalar(count)
        with Store.open(url) as other:
            other.add_prompt(make_prompt(77))
        return before, connection.scalar(count)

    before, after = store.read(look)
    assert before == after
    assert row_count(store, "prompts") == before + 1


def test_what_is_wrong_with_an_address_or_a_database_is_said(server: Server, url: str) -> None:
    with pytest.raises(StoreError, match=r"names no driver; write postgresql\+psycopg://"):
        Store.open(url.replace("+psycopg", ""))
    with pytest.raises(StoreError, match=r"does not exist.*check that the server runs, its address and its"):
        Store.open(server.address("missing"))
    Store.open(url).close()
    execute(url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match=r"version 9999, .*store upgrade"):
        Store.open(url)
