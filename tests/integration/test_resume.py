"""Runs killed with `kill -9` and taken up again end as if nothing had happened; stored runs replay."""

import contextlib
import dataclasses
import gc
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import crashing_run
import pytest
from scripted_proposer import ScriptedProposer
from sqlite_files import sql
from toy_runs import HARD, PROBLEM, SWAP, OneByOne, population, random_expressions, told, toy_script

from evovpo.config import Config, RunConfig, SandboxConfig, SearchConfig
from evovpo.errors import ProblemError, ReplayError, StoreError
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import new_problem
from evovpo.runs.driver import Progress
from evovpo.runs.replay import rebuild, verify
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import resume, start
from evovpo.search.search import SearchState
from evovpo.store import Store
from evovpo.types import Prompt, PromptKind, RunStatus, Tell

pytestmark = pytest.mark.slow

SCRIPT = Path(crashing_run.__file__)
ONE_WORKER = SandboxConfig(workers=1)


def crash(folder: Path, ticks: Sequence[int]) -> tuple[Path, dict[str, object]]:
    database = folder / "run.db"
    command = [
        sys.executable, str(SCRIPT), f"sqlite:///{database}", str(folder / "told"), ",".join(map(str, ticks)),
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    return database, json.loads(done.stdout)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    database, printed = crash(tmp_path_factory.mktemp("whole"), [])
    ticks = printed["ticks"]
    assert isinstance(ticks, int)
    return database, ticks


def rebuilt(database: Path, run: str = crashing_run.RUN) -> SearchState:
    with Store.open(str(database), create=False) as store:
        return verify(run, store)[0]


def what_happened(database: Path) -> list[Prompt | Tell]:
    with Store.open(str(database), create=False) as store:
        return told(store, crashing_run.RUN)


@pytest.mark.parametrize("seed", [1, 2])
def test_ten_kills_lose_nothing_that_was_told_and_change_nothing(
    tmp_path: Path, whole: tuple[Path, int], seed: int
) -> None:
    database, ticks = whole
    rng = Random(seed)
    moments = [rng.randint(1, ticks // 6) for _ in range(10)]
    crashed, printed = crash(tmp_path, moments)
    assert printed["ends"] == [-signal.SIGKILL] * 10
    assert population(rebuilt(crashed)) == population(rebuilt(database))
    best, expected = rebuilt(crashed).standing.best, rebuilt(database).standing.best
    assert best is not None
    assert expected is not None
    assert (best.program, best.evaluation.rewards) == (expected.program, expected.evaluation.rewards)
    assert what_happened(crashed) == what_happened(database)

    with Store.open(str(crashed), create=False) as store:
        told = [
            (row["prompt_id"], row["rollout_index"], row["position"])
            for row in store.query("SELECT prompt_id, rollout_index, position FROM tells ORDER BY position")
        ]
        acknowledged = [tuple(json.loads(line)) for line in (tmp_path / "told").read_text().splitlines()]
        assert set(acknowledged) <= set(told)
        assert len(acknowledged) == len(set(acknowledged))
        assert len(told) == len({(prompt, index) for prompt, index, _ in told})
        assert store.run_summary(crashing_run.RUN).proposed == crashing_run.CONFIG.search.evaluations
        assert store.run(crashing_run.RUN).status is RunStatus.EXHAUSTED


def test_a_kill_at_every_moment_of_one_group_changes_nothing(tmp_path: Path, whole: tuple[Path, int]) -> None:
    # Every process lives three ticks more than the one before: asks, judging, transactions and commits.
    database, _ = whole
    crashed, printed = crash(tmp_path, [60 + 3 * number for number in range(10)])
    assert printed["ends"] == [-signal.SIGKILL] * 10
    assert what_happened(crashed) == what_happened(database)


def config(**changes: object) -> Config:
    search = crashing_run.CONFIG.search.changed(**changes)  # type: ignore[arg-type]
    return Config(search=search, sandbox=ONE_WORKER)


def run_through(store: Store, settings: Config, proposer: ScriptedProposer) -> SearchState:
    live: list[SearchState] = []

    def keep(progress: Progress) -> None:
        live[:] = [progress.search]

    start(RunRequest(HARD, settings, run_id="live"), store, proposer, on_tell=keep)
    return live[0]


def test_a_solved_group_is_told_to_its_end_after_a_kill(tmp_path: Path) -> None:
    expressions = [f"{SWAP} if ', ' in x0 else x0.upper()", *random_expressions(1, 40)]

    def write(prompt: Prompt, index: int) -> str:
        place = 0 if (prompt.sequence, index) == (3, 1) else prompt.sequence * 4 + index + 1
        return expressions[place % len(expressions)] + "⟦sep⟧x0⟦end⟧"

    settings = Config(
        search=SearchConfig(evaluations=100, rollouts=4, answers=2, joins=False, in_flight=1),
        sandbox=ONE_WORKER,
    )

    class Killed(OneByOne):
        def add_tell(self, run_id: str, tell: Tell, order: int) -> bool:
            if order == 11:  # the tell after the solving one, in the group that ask 3 made
                raise KeyboardInterrupt
            return super().add_tell(run_id, tell, order)

    with Store.open(str(tmp_path / "whole.db")) as store:
        whole = start(RunRequest(PROBLEM, settings, run_id="one"), store, ScriptedProposer(write))
        told = [e for e in store.history("one") if isinstance(e, Tell)]
    assert whole.solved
    assert len(told) == 1 + 3 * 4 + 1  # the last one is of shorter variants of the solution
    with Killed.open(str(tmp_path / "killed.db")) as store:
        with pytest.raises(KeyboardInterrupt):
            start(RunRequest(PROBLEM, settings, run_id="one"), store, ScriptedProposer(write))
        assert store.run("one").status is RunStatus.INTERRUPTED
    with Store.open(str(tmp_path / "killed.db")) as store:
        search = rebuild("one", store)[0]
        assert search.standing.is_solved
        assert search.tickets.open != []
        outcome = resume("one", store, ScriptedProposer(write))
        assert [e.prompt_id for e in store.history("one") if isinstance(e, Tell)] == [
            t.prompt_id for t in told
        ]
        assert next(iter(store.groups("one", after=None))).rollouts
        assert len(list(store.groups("one"))) == 3
    assert outcome.solved
    assert outcome.evaluations == whole.evaluations


def test_an_interrupted_run_leaves_nothing_to_be_logged_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupt(prompt: Prompt, index: int) -> str:
        raise KeyboardInterrupt

    with Store.open(str(tmp_path / "run.db")) as store, pytest.raises(KeyboardInterrupt):
        start(RunRequest(HARD, crashing_run.CONFIG, run_id="one"), store, ScriptedProposer(interrupt))
    gc.collect()
    assert caplog.records == []


def test_a_scorer_that_changed_since_the_run_started_is_refused(tmp_path: Path) -> None:
    folder = new_problem(tmp_path / "roots", "score")
    problem = load_problem(folder)
    seed = problem.seeds[0].source
    settings = Config(
        search=SearchConfig(evaluations=4, rollouts=2, answers=1, in_flight=1),
        proposer=Config().proposer.changed(name="scripted"),
        sandbox=ONE_WORKER,
    )

    def interrupt(prompt: Prompt, index: int) -> str:
        raise KeyboardInterrupt

    with Store.open(str(tmp_path / "run.db")) as store:
        with pytest.raises(KeyboardInterrupt):
            start(RunRequest(problem, settings, run_id="one"), store, ScriptedProposer(interrupt))
        scorer = folder / "score.py"
        text = scorer.read_text()
        scorer.write_text(text + "\nCHANGED = True\n")
        with pytest.raises(ProblemError, match="changed since the run started"):
            resume("one", store, ScriptedProposer(lambda prompt, index: seed))
        scorer.write_text(text)
        assert resume("one", store, ScriptedProposer(lambda prompt, index: seed)).evaluations == 4


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    database = tmp_path_factory.mktemp("finished") / "run.db"
    with Store.open(str(database)) as store:
        run_through(store, config(), ScriptedProposer(toy_script()))
        assert verify("live", store)[0].standing.joined > 0
    return database


ONE = "SELECT id FROM candidates WHERE position = 6 AND slot = 1"
LAST = "(SELECT max(position) FROM tells)"
DROP_TELL = (
    "DELETE FROM candidate_parents WHERE candidate_id IN (SELECT id FROM candidates WHERE position = {0})",
    "DELETE FROM candidates WHERE position = {0}",
    "DELETE FROM tells WHERE position = {0}",
)
CHANGES: dict[str, list[str]] = {
    "a message": ["UPDATE prompts SET messages = replace(messages, 'm3', 'm2') WHERE sequence = 4"],
    "the message of the last ask": [
        "UPDATE prompts SET messages = replace(messages, 'ex', 'xe') WHERE sequence ="
        " (SELECT max(sequence) FROM prompts WHERE kind <> 'join')"
    ],
    "the seed of an ask": ["UPDATE prompts SET seed = '1' WHERE sequence = 5"],
    "the island of an ask": ["UPDATE prompts SET island = 1 - island WHERE sequence = 5"],
    "a parent": ["DELETE FROM prompt_parents WHERE role = 'parent'"],
    "an ask without its tells": ["DELETE FROM prompts WHERE sequence = 4"],
    "the proposals of a join": [
        "UPDATE prompts SET proposals = replace(proposals, 'else', 'else ') WHERE kind = 'join'"
    ],
    "a tell": ["DELETE FROM tells WHERE position = 9"],
    "a tell with its candidates": [*(statement.format(9) for statement in DROP_TELL)],
    "the last tell with its candidates": [*(statement.format(LAST) for statement in DROP_TELL)],
    "tells that follow renumbered": [
        *(statement.format(9) for statement in DROP_TELL),
        "UPDATE candidates SET position = position - 1 WHERE position > 9",
        "UPDATE tells SET position = position - 1 WHERE position > 9",
    ],
    "two tells in the other order": [
        *(f"UPDATE {table} SET position = -1 WHERE position = 7" for table in ("tells", "candidates")),
        *(f"UPDATE {table} SET position = 7 WHERE position = 20" for table in ("tells", "candidates")),
        *(f"UPDATE {table} SET position = 20 WHERE position = -1" for table in ("tells", "candidates")),
    ],
    "a candidate": [
        f"DELETE FROM candidate_parents WHERE candidate_id = ({ONE})",
        f"DELETE FROM candidates WHERE id = ({ONE})",
    ],
    "a reward": ["UPDATE rewards SET value = 1 - value WHERE objective = 7"],
    "the reward of the last program": [
        "UPDATE rewards SET value = 0.5 WHERE objective = 0 AND evaluation_id = (SELECT evaluation_id"
        " FROM candidates WHERE evaluation_id IS NOT NULL ORDER BY position DESC LIMIT 1)"
    ],
    "a reward out of range": ["UPDATE rewards SET value = 7 WHERE objective = 0"],
    "a missing reward": ["DELETE FROM rewards WHERE objective = 3"],
    "an output": ["UPDATE evaluations SET outputs = '[1]' WHERE outputs IS NOT NULL"],
    "a status": ["UPDATE evaluations SET status = 'timeout' WHERE status = 'error'"],
    "a completion": ["UPDATE rollouts SET text = replace(text, 'x0', 'x1') WHERE rollout_index = 0"],
    "a program": ["UPDATE programs SET source = replace(source, 'name.', 'name .')"],
    "what became of a slot": [
        "UPDATE candidates SET parse_status = 'duplicate' WHERE parse_status = 'parsed' AND position ="
        " (SELECT max(position) FROM candidates WHERE parse_status = 'parsed')"
    ],
    "the span of a candidate": ["UPDATE candidates SET token_start = 0, token_end = 1 WHERE position = 9"],
    "the budget": ["UPDATE runs SET evaluations = evaluations + 12"],
    "the seed of the run": ["UPDATE runs SET seed = '99'"],
    "how it ended": ["UPDATE run_events SET status = 'solved' WHERE status = 'exhausted'"],
}


@pytest.mark.parametrize("what", CHANGES)
def test_verifying_notices_a_change_of(what: str, finished: Path, tmp_path: Path) -> None:
    database = tmp_path / "run.db"
    shutil.copy(finished, database)
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        for statement in CHANGES[what]:
            connection.execute(statement)
        assert connection.total_changes > 0
    with Store.open(str(database), create=False) as store, pytest.raises((ReplayError, StoreError)):
        verify("live", store)


def test_verifying_leaves_the_store_as_it_was(finished: Path) -> None:
    def rows() -> list[list[object]]:
        names = sql(finished, "SELECT name FROM sqlite_master WHERE type = 'table'")
        return [sql(finished, f"SELECT * FROM {name}") for (name,) in names]

    before = rows()
    rebuilt(finished, "live")
    assert rows() == before


MARKS = ("Qzxheld", "Jvwunseen", "Kpyhidden")


@pytest.fixture
def without_and_with_marks(tmp_path: Path) -> list[Path]:
    marked = dataclasses.replace(
        HARD,
        heldout=tuple(
            dataclasses.replace(HARD.heldout[0], inputs=(f"{mark}, {mark}",), output=f"{mark} {mark}")
            for mark in MARKS
        ),
    )
    found = []
    for name, problem in (("plain", HARD), ("marked", marked)):
        found.append(tmp_path / f"{name}.db")
        with Store.open(str(found[-1])) as store:
            settings = config(evaluations=240).changed(run=RunConfig(seed=3))
            start(
                RunRequest(problem, settings, run_id=crashing_run.RUN), store, ScriptedProposer(toy_script())
            )
    return found


def test_held_out_rows_reach_no_prompt_candidate_or_decision(without_and_with_marks: list[Path]) -> None:
    plain, marked = without_and_with_marks
    assert what_happened(plain) == what_happened(marked)
    assert population(rebuilt(plain)) == population(rebuilt(marked))
    with Store.open(str(marked), create=False) as store:
        kinds = {event.kind for event in store.history(crashing_run.RUN) if isinstance(event, Prompt)}
        assert kinds == {PromptKind.SEED, PromptKind.ROOT, PromptKind.MUTATE, PromptKind.JOIN}
        tables = store.query("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'problems'")
        for table in tables:
            text = repr(store.query(f"SELECT * FROM {table['name']}"))
            assert not any(mark.lower() in text.lower() for mark in MARKS), table
        assert MARKS[0] in repr(store.query("SELECT body FROM problems"))
