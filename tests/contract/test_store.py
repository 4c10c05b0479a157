"""The store: the conformance suite, then files, faults, crashes, migrations and the documentation."""

import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config as AlembicConfig
from alembic.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine
from store_conformance import *  # noqa: F403
from store_conformance import (
    PROBLEM,
    RUN,
    SEED,
    START,
    TRAINING,
    append,
    judge,
    make_call,
    make_prompt,
    make_rollout,
    make_step,
    make_tell,
    scripted_history,
    seed_ticket,
    slot,
    trained,
)

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.errors import StoreError
from evovpo.store import SCHEMA_VERSION, Store, unpack_floats, unpack_ints, upgrade
from evovpo.store.codecs import FLOATS, INTS, escape_text, unescape_text
from evovpo.store.database import parse_url
from evovpo.store.schema import metadata
from evovpo.types import (
    CallOutcome,
    Parent,
    ParentRole,
    ParseStatus,
    PolicyEvent,
    PolicyEventKind,
    PolicyVersion,
    Prompt,
    RunStatus,
    Tell,
    content_id,
)

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs" / "store.md"


# Encodings


@given(st.text(st.characters(codec=None) | st.sampled_from("\x00\ud800\udfff\ue0000aF")))
def test_escaping_loses_nothing_and_leaves_text_that_utf8_can_hold(text: str) -> None:
    escaped = escape_text(text)
    assert "\x00" not in escaped
    escaped.encode()
    assert unescape_text(escaped) == text


def test_token_blobs_have_the_documented_layout() -> None:
    assert INTS.dump([1, -2]) == b"\x01\0\0\0\xfe\xff\xff\xff"
    assert FLOATS.dump([-0.5]) == b"\0\0\0\xbf"
    assert unpack_ints(INTS.dump(range(5))) == (0, 1, 2, 3, 4)
    assert unpack_floats(FLOATS.dump([-0.5, 0.25])) == (-0.5, 0.25)


# Opening


def execute(path: Path, statement: str, *values: object) -> None:
    """Change a SQLite file behind the back of the store."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement, values)


def test_the_default_store_is_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Store.open().close()
    assert (tmp_path / "evovpo.db").exists()


def test_sqlite_writes_ahead_checks_references_and_waits_when_busy(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "runs.db")) as store:
        found = [store.query(f"PRAGMA {name}")[0] for name in ("journal_mode", "foreign_keys", "synchronous")]
        assert found == [{"journal_mode": "wal"}, {"foreign_keys": 1}, {"synchronous": 1}]
        assert store.query("PRAGMA busy_timeout") == [{"timeout": 60_000}]


def test_opening_an_existing_store_does_not_load_alembic(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    Store.open(path).close()
    code = (
        "import sys; from evovpo.store import Store; Store.open(sys.argv[1]); "
        "sys.exit(bool({'alembic', 'torch', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code, path], env=_environment()).returncode == 0


def test_a_store_names_the_file_that_it_is_in(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "runs.db")) as store:
        assert store.file == tmp_path / "runs.db"
    with Store.open("sqlite://") as store:
        assert store.file is None


def test_a_store_that_is_not_there_is_not_created_unasked(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with pytest.raises(StoreError, match="there is no such store"):
        Store.open(str(path), create=False)
    with pytest.raises(StoreError, match="there is no such store"):
        upgrade(str(path))
    assert not path.exists()


def test_an_empty_file_is_no_store_until_it_may_be_created(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.touch()
    with pytest.raises(StoreError, match="holds no store yet"):
        Store.open(str(path), create=False)
    Store.open(str(path)).close()


def test_a_file_that_is_no_database_is_a_store_error_and_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are notes, and no database at all.\n" * 50)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"notes\.txt: file is not a database; .*another path"):
        Store.open(str(path))
    assert path.read_bytes() == before


def test_a_database_of_something_else_is_a_store_error_and_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    execute(path, "CREATE TABLE birds (name TEXT)")
    before = path.read_bytes()
    for opening in (Store.open, upgrade):
        with pytest.raises(StoreError, match=r"something else: .*found birds"):
            opening(str(path))
    assert path.read_bytes() == before


def test_another_schema_version_is_a_store_error_that_names_both_and_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    Store.open(str(path)).close()
    execute(path, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match=f"version 9999, .*expects {SCHEMA_VERSION}; .*store upgrade"):
        Store.open(str(path))
    with pytest.raises(StoreError, match="install the newer evovpo"):
        upgrade(str(path))


def test_upgrading_a_store_of_this_version_changes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    with Store.open(path) as store:
        store.add_problem(PROBLEM)
    assert upgrade(path) == SCHEMA_VERSION
    with Store.open(path) as store:
        assert store.problem("phones", "v1") == PROBLEM


@pytest.mark.parametrize("place", ["missing/runs.db", "file/runs.db", "."])
def test_a_place_where_no_file_can_be_is_a_store_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="folder must exist and be writable"):
        Store.open(str(tmp_path / place))


@pytest.mark.parametrize(
    "url",
    [
        "nonsense+driver://user:sesame@host/name",
        "://sesame",
        "oracle+notthere://user:sesame@host/name?password=sesame",
    ],
)
def test_a_url_that_cannot_be_used_is_a_store_error_without_its_password(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        Store.open(url)
    assert "sesame" not in str(caught.value)


def test_a_password_is_not_shown_even_where_the_driver_repeats_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="could not convert") as caught:
        Store.open(f"sqlite:///{tmp_path / 'runs.db'}?timeout=sesame&password=sesame")
    assert "password=sesame" not in str(caught.value)
    assert "'sesame'" not in str(caught.value)


# Faults


def fill(store: Store, history: Sequence[Prompt | Tell] = ()) -> None:
    store.add_problem(PROBLEM)
    store.add_run(RUN)
    append(store, "run-a", history)


def test_a_locked_store_is_a_store_error_and_works_again_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Store.open(f"sqlite:///{path}?timeout=0.01") as store:
        store.add_problem(PROBLEM)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="database is locked; another process is writing"):
            store.add_run(RUN)
        assert store.problem("phones", "v1") == PROBLEM
        other.execute("ROLLBACK")
        store.add_run(RUN)
        assert store.run("run-a") == RUN
        other.close()


def test_opening_waits_while_another_process_makes_the_store(tmp_path: Path) -> None:
    # SQLite itself does not wait here: it refuses to change the journal of a file that is being written.
    other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.2, lambda: other.execute("ROLLBACK"))
    release.start()
    with Store.open(str(tmp_path / "runs.db")) as store:
        assert store.runs() == []
    release.join()
    other.close()


def test_a_full_disk_is_a_store_error_and_loses_nothing_that_was_told(tmp_path: Path) -> None:
    history = scripted_history("run-a", 5, 200)
    with Store.open(str(tmp_path / "runs.db")) as store:
        fill(store)
        pages = store.query("PRAGMA page_count")[0]["page_count"]
        store.query(f"PRAGMA max_page_count = {pages + 20}")
        with pytest.raises(StoreError, match="disk is full: make room"):
            append(store, "run-a", history)
        kept = list(store.history("run-a"))
        assert kept == history[: len(kept)]
        assert 0 < len(kept) < len(history)
        store.query("PRAGMA max_page_count = 1000000")
        told = sum(isinstance(item, Tell) for item in kept)
        append(store, "run-a", history[len(kept) :], tells_before=told)
        assert list(store.history("run-a")) == history


def test_two_runs_written_at_the_same_time_share_their_evaluations(store_url: str) -> None:
    if store_url == "sqlite://":
        pytest.skip("a store in memory has one thread")
    with Store.open(store_url) as store:
        store.add_problem(PROBLEM)
        faults: list[BaseException] = []

        def write(run: str) -> None:
            try:
                with Store.open(store_url) as mine:
                    mine.add_run(replace(RUN, id=run))
                    append(mine, run, scripted_history(run, 5, 60))
            except BaseException as fault:
                faults.append(fault)

        threads = [threading.Thread(target=write, args=(run,)) for run in ("run-a", "run-b", "run-c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
        for run in ("run-a", "run-b", "run-c"):
            assert list(store.history(run)) == scripted_history(run, 5, 60)
        known = store.query("SELECT count(*) AS n FROM evaluations WHERE private_to = ''")
        assert known == [{"n": len(store.known_evaluations("v1"))}]


def test_a_store_that_two_processes_create_at_once_is_created_once(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    code = "import sys; from evovpo.store import Store; sys.stdin.read(); Store.open(sys.argv[1]).close()"
    children = [
        subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, env=_environment())
        for _ in range(2)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.close()
    assert [child.wait() for child in children] == [0, 0]
    Store.open(path, create=False).close()


WRITER = """
import sys
from store_conformance import PROBLEM, RUN, append, scripted_history
from evovpo.store import Store
from evovpo.types import Prompt
from dataclasses import replace

path, run, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Store.open(path) as store:
    store.add_problem(PROBLEM)
    store.add_run(replace(RUN, id=run))
    order = 0
    for item in scripted_history(run, seed, 400):
        if isinstance(item, Prompt):
            store.add_prompt(item)
        else:
            store.add_tell(run, item, order)
            order += 1
        print("told", flush=True)
"""


def test_after_kill_9_the_store_holds_a_prefix_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    rng = random.Random(0)
    for attempt in range(4):
        run = f"run-{attempt}"
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, path, run, str(attempt)],
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        assert child.stdout is not None
        acknowledged = 0
        for _ in range(rng.randrange(1, 60)):
            acknowledged += child.stdout.readline() == "told\n"
        child.kill()
        acknowledged += child.stdout.read().count("told\n")
        child.wait()
        child.stdout.close()
        with Store.open(path, create=False) as store:
            stored = list(store.history(run))
            assert stored == scripted_history(run, attempt, 400)[: len(stored)]
            assert acknowledged <= len(stored) <= acknowledged + 1
            assert store.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]


# Migrations


def test_a_history_with_a_deleted_tell_is_a_store_error(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store.open(str(path)) as store:
        fill(store, scripted_history("run-a", 1, 12))
        execute(path, "DELETE FROM candidates WHERE position = 5")
        execute(path, "DELETE FROM tells WHERE position = 5")
        with pytest.raises(StoreError, match="11 tells, numbered up to 11: rows were deleted"):
            list(store.history("run-a"))


def test_a_changed_judgement_is_a_store_error(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store.open(str(path)) as store:
        prompt = make_prompt(0)
        fill(store, [prompt, make_tell(prompt, 0, [("return 1", judge("return 1"))])])
        for value in (0.75, 7.0):
            execute(path, "UPDATE rewards SET value = ? WHERE objective = 1", value)
            with pytest.raises(StoreError, match="digest"):
                list(store.history("run-a"))
            with pytest.raises(StoreError, match="digest"):
                store.known_evaluations("v1")


@pytest.mark.parametrize("version", [None, "0001"])
def test_new_and_upgraded_stores_have_the_tables_that_the_queries_expect(
    tmp_path: Path, version: str | None
) -> None:
    path = tmp_path / "runs.db"
    if version is None:
        Store.open(str(path)).close()
    else:
        database_of_version(path, version).close()
        upgrade(str(path))
    database = create_engine(f"sqlite:///{path}")
    with database.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == SCHEMA_VERSION
    database.dispose()


def database_of_version(path: Path, version: str) -> Store:
    """Return a new store of an older schema version, as the evovpo of that time left it.

    The first is kept as SQL, the later ones come by the migrations.
    """
    with closing(sqlite3.connect(path)) as first:
        first.executescript((DOCS.parent.parent / "tests" / "golden" / "store_0001.sql").read_text())
    engine = create_engine(f"sqlite:///{path}")
    config = AlembicConfig()
    config.set_main_option("script_location", str(DOCS.parent.parent / "evovpo" / "store" / "migrations"))
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)
    engine.dispose()
    return Store(parse_url(str(path)))


def without_what_came_later(history: list[Prompt | Tell]) -> list[Prompt | Tell]:
    """Return a history as a store before version 0003 could hold it: no reasons, one model."""
    return [
        event
        if isinstance(event, Prompt) or event.rollout is None
        else replace(
            event,
            rollout=replace(event.rollout, model=""),
            judged=tuple(replace(j, candidate=replace(j.candidate, reason="")) for j in event.judged),
        )
        for event in history
    ]


@pytest.mark.parametrize("version", ["0001", "0002", "0003", "0004", "0005"])
def test_a_store_of_an_older_version_is_upgraded_and_keeps_every_row(tmp_path: Path, version: str) -> None:
    path, new = tmp_path / "runs.db", tmp_path / "new.db"
    history = without_what_came_later(scripted_history("run-a", 3, 30))
    with Store.open(str(new)) as store:
        fill(store, history)
        store.add_policy_version(START)
    database_of_version(path, version).close()
    _copy_rows(new, path)
    before = _contents(path)
    assert ("calls" in before) is (version >= "0003")
    with pytest.raises(
        StoreError, match=f"version {version}, .*expects {SCHEMA_VERSION}; run `evovpo store upg"
    ):
        Store.open(str(path))
    assert upgrade(str(path)) == SCHEMA_VERSION
    after = _contents(path)
    for table, columns in before.items():
        for column, values in columns.items():
            assert table == "alembic_version" or after[table][column] == values, (table, column)
    with Store.open(str(path)) as store:
        assert list(store.history("run-a")) == history
        assert store.policy_versions() == [START]
        assert store.served() is None
        store.serve(0)
        assert store.served() == START
        assert store.calls("run-a") == []


def test_an_upgraded_store_knows_which_trainings_ended_and_where_the_packaged_models_lie(
    tmp_path: Path,
) -> None:
    path, new = tmp_path / "runs.db", tmp_path / "new.db"
    served, failed, open_one = (replace(TRAINING, id=name) for name in ("served", "failed", "open"))
    with Store.open(str(new)) as store:
        fill(store, scripted_history("run-a", 3, 30))
        store.add_policy_version(PolicyVersion(0, None, "/old/evovpo/models/strings"))
        for training in (served, failed, open_one):
            store.add_training(replace(training, through=(None,)))
        store.add_policy_version(PolicyVersion(1, 0, "/old/evovpo/models/strings/v1", config_hash="served"))
        store.serve(1)
        store.add_policy_event(PolicyEvent(2, PolicyEventKind.REFUSED, "differs"))
        store.add_policy_event(PolicyEvent(None, PolicyEventKind.FAILED, "training failed: the loss is nan"))
        assert store.ended_trainings() == {"served"}
    database_of_version(path, "0003").close()
    _copy_rows(new, path)
    upgrade(str(path))
    with Store.open(str(path)) as store:
        assert store.ended_trainings() == {"served", "failed"}
        start, trained = store.policy_versions()
        assert Path(start.path) == BUILT_IN_MODEL
        assert trained.path == "/old/evovpo/models/strings/v1"


def _copy_rows(source: Path, target: Path) -> None:
    """Copy what the older tables of `target` have columns for."""
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.execute("ATTACH ? AS source", (str(source),))
        tables = connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            if table in ("alembic_version", "sqlite_sequence"):
                continue
            names = [row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")]
            columns = ", ".join(names)
            connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM source.{table}")


def _contents(path: Path) -> dict[str, dict[str, list[object]]]:
    """Return the values of all columns of all tables of a SQLite file, in the order of the rows."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names}
    return {
        name: {column: [row[column] for row in found] for column in (found[0].keys() if found else ())}
        for name, found in rows.items()
    }


# Documentation


def _queries() -> dict[str, str]:
    """Return the SQL blocks of the documentation by the heading above each."""
    sections = re.split(r"^### ", DOCS.read_text(), flags=re.MULTILINE)[1:]
    return {
        section.splitlines()[0]: block[1]
        for section in sections
        if (block := re.search(r"```sql\n(.*?)```", section, re.DOTALL))
    }


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with one solved and one open run, small enough to check by hand."""
    prompt = make_prompt(0, answers=2)
    seed = Parent(SEED.id, ParentRole.PARENT)
    good, half = judge("good", (1.0, 1.0, 1.0)), judge("half-and-more", (1.0, 0.5, 0.0))
    first, second = make_rollout(prompt, 0, policy=0), make_rollout(prompt, 1, policy=1)
    tells = [
        Tell(prompt.id, first, (slot(first, 0, "half-and-more", half, parents=[seed]), slot(first, 1, None))),
        Tell(
            prompt.id,
            second,
            (
                slot(second, 0, "half-and-more", half, parse_status=ParseStatus.DUPLICATE, parents=[seed]),
                slot(second, 1, "good", good, parents=[Parent(content_id("half-and-more"), ParentRole.PARENT),
                                                       Parent(SEED.id, ParentRole.INSPIRATION)]),
            ),
        ),
    ]  # fmt: skip
    append(store, "run-a", [prompt, *tells])
    store.set_run_status("run-a", RunStatus.SOLVED)
    store.add_run(replace(RUN, id="run-b"))
    other = make_prompt(0, run="run-b")
    halves = [(source, judge(source, (1.0, 0.5, 0.0))) for source in ("half", "longer half")]
    append(store, "run-b", [other, make_tell(other, 0, halves)])
    return store


def _answer(store: Store, heading: str, **parameters: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in store.query(_queries()[heading], **parameters)]


HALF = [(0, 1.0), (1, 0.5), (2, 0.0)]
OF_FILLED: dict[str, tuple[dict[str, str], list[tuple[object, ...]]]] = {
    "Best program of each run": ({}, [("run-a", 1.0, "good"), ("run-b", 0.5, "half")]),
    "Pass rate of each objective": (
        {"run": "run-a"},
        [(0, "row-0", 2, 1.0, 1.0), (1, "row-1", 2, 0.5, 0.75), (2, "row-2", 2, 0.5, 0.5)],
    ),
    "Reward vectors of a group": (
        {"prompt": "run-a-p0"},
        [
            *((0, 0, "parsed", "ok", *component) for component in HALF),
            (0, 1, "unparsed", None, None, None),
            *((1, 0, "duplicate", "ok", *component) for component in HALF),
            *((1, 1, "parsed", "ok", objective, 1.0) for objective in range(3)),
        ],
    ),
    "Duplicates by policy version": ({}, [(0, 4, 0.0, 0.25), (1, 2, 0.5, 0.0)]),
    "Tokens and seconds for each solved problem": ({}, [("phones", 1, 4, 6, 0.25, 0.5)]),
}
"""Heading of a documented query -> its parameters, and its answer for the store of `filled`."""


@pytest.mark.parametrize("heading", OF_FILLED)
def test_documented_query_gives_what_can_be_checked_by_hand(filled: Store, heading: str) -> None:
    parameters, expected = OF_FILLED[heading]
    assert _answer(filled, heading, **parameters) == expected


def test_documented_query_gives_the_requests_by_model_and_reason(store: Store) -> None:
    store.add_prompt(make_prompt(0))
    busy = make_call(1, CallOutcome.RETRIED, reason="http 429", prompt_tokens=None, completion_tokens=None)
    for call in (replace(busy, cost=None), make_call(2), make_call(1, seconds=0.5)):
        store.add_call(call)
    assert _answer(store, "Requests by model and reason", run="run-a") == [
        ("large", "ok", "", 2, 200, 40, 0.5, 1.0),
        ("large", "retried", "http 429", 1, None, None, None, 1.5),
    ]


def test_documented_query_gives_the_figures_of_a_training(store: Store) -> None:
    trained(store)
    first, second = make_step(0), make_step(1)
    for step in (second, first):
        store.add_training_step(step)
    rows = _answer(store, "Figures of a training", training="training-a")
    assert rows == [
        (s.step, s.set_score, s.pool_score, s.pass_rate, s.diversity, s.distinct_programs, s.entropy, s.kl,
         s.clip_share)
        for s in (first, second)
    ]  # fmt: skip


def test_documented_query_gives_what_became_of_each_policy_version(store: Store) -> None:
    trained(store).serve(0)
    store.add_policy_version(PolicyVersion(1, 0, "/policies/1", config_hash="training-a"))
    store.serve(1)
    store.add_policy_event(PolicyEvent(2, PolicyEventKind.REFUSED, "worse"))
    rows = _answer(store, "What became of each policy version")
    assert rows == [(0, None, None, "served"), (1, "vpo", 0, "served"), (2, None, None, "refused")]


def test_documented_query_does_not_count_starting_programs_as_candidates(filled: Store) -> None:
    prompt, tell = seed_ticket()
    prompt = replace(prompt, id="seeds", sequence=1, tells_before=2)
    (judged,) = tell.judged
    judged = replace(judged, candidate=replace(judged.candidate, prompt_id="seeds"))
    append(filled, "run-a", [prompt, Tell("seeds", None, (judged,))], tells_before=2)
    rows = _answer(filled, "Tokens and seconds for each solved problem")
    assert rows == [("phones", 1, 4, 6, 0.25, 0.75)]


def test_documented_query_gives_the_lineage_that_the_store_gives(filled: Store) -> None:
    good, half = content_id("good"), content_id("half-and-more")
    rows = _answer(filled, "Lineage of a program", run="run-a", program=good)
    assert rows == [
        (0, None, good, None, "good"),
        (1, "parent", half, good, "half-and-more"),
        (2, "parent", SEED.id, half, SEED.source),
    ]
    assert [step.text for step in filled.lineage("run-a", good)] == ["good", "half-and-more"]


def test_every_documented_query_is_tested() -> None:
    named = re.findall(r'_answer\(\w+, "([^"]+)"', Path(__file__).read_text())
    assert {*named, *OF_FILLED} == set(_queries())


def test_the_documented_schema_is_the_schema() -> None:
    block = re.search(r"```text\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert block is not None
    shown = {
        name: [(column.strip(" *>"), "*" in column, ">" in column) for column in columns.split(",")]
        for name, columns in re.findall(r"(\w+) \(([^)]*)\)", block[1])
    }
    expected = {
        table.name: [(c.name, c.primary_key, bool(c.foreign_keys)) for c in table.columns]
        for table in metadata.tables.values()
    }
    assert shown == expected


def _environment() -> dict[str, str]:
    root = Path(__file__).parents[2]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests" / "support")])}


def test_a_problem_of_an_older_version_opens_without_what_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with Store.open(f"sqlite:///{path}", create=True) as store:
        store.add_problem(PROBLEM)
    with closing(sqlite3.connect(path)) as database, database:
        (body,) = database.execute("SELECT body FROM problems").fetchone()
        database.execute("UPDATE problems SET body = ?", [json.dumps(json.loads(body) | {"partial": "edit"})])
    with Store.open(f"sqlite:///{path}") as store:
        assert store.problem(PROBLEM.id, PROBLEM.version) == PROBLEM
