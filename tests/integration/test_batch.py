"""Batches: what a file may say, what is found before anything is spent, and that no end of one loses rows."""

import contextlib
import dataclasses
import itertools
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from openevolve_problems import served
from rich.console import Console
from running import running, wait_until
from shell import Shell
from sqlite_files import sql
from toy_runs import told

from evovpo.config import ProposerConfig, SandboxConfig
from evovpo.errors import ConfigError, StoreError, UnreachableError
from evovpo.experiments import cell_runs
from evovpo.experiments.batch_file import Arm, cells, read_batch
from evovpo.experiments.batch_plan import plan
from evovpo.experiments.cell_runs import CellProgress, Work, sized
from evovpo.experiments.pool import (
    FailedTask,
    Message,
    TaskDone,
    TaskProgress,
    TaskStarted,
    kept_processes,
    run_all,
)
from evovpo.problem.suites import load_suite
from evovpo.reports.batch_progress import BatchProgress
from evovpo.reports.text import duration
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import only_searcher, start, start_or_resume
from evovpo.sandbox.forkserver.processes import descendants
from evovpo.store import Store
from evovpo.types import Prompt, RunStatus, Tell

SMALL = """
name = "small"
problems = ["strings/phone-with-hyphens", "strings/name-short-form"]
evaluations = {evaluations}
seeds = {seeds}
proposers = ["random"]
strategies = ["islands"]

[settings]
sandbox.workers = 1
"""


def small(folder: Path, evaluations: int = 24, seeds: str = "[0]") -> Path:
    """Write a batch of two problems that random programs do not solve."""
    path = folder / "small.toml"
    path.write_text(SMALL.format(evaluations=evaluations, seeds=seeds))
    return path


def plain_run(works: list[Work], folder: Path) -> dict[str, list[Prompt | Tell]]:
    with Store.open(f"sqlite:///{folder / 'plain.db'}") as store:
        for work in works:
            start(RunRequest(work.problem, work.config, run_id=work.cell.run_id), store)
        return {work.cell.run_id: told(store, work.cell.run_id) for work in works}


def test_the_cells_are_the_cross_product_and_their_ids_follow_from_their_names(tmp_path: Path) -> None:
    text = SMALL.format(evaluations="[20, 30]", seeds='"3-4"').replace('["islands"]', '["islands", "iid"]')
    (tmp_path / "one.toml").write_text(text)
    batch = read_batch(str(tmp_path / "one.toml"))
    found = list(cells(batch))
    assert len(found) == len({cell.run_id for cell in found}) == 2 * 2 * 2 * 2
    assert batch.arms == tuple(
        itertools.starmap(Arm, itertools.product(["random"], ["islands", "iid"], [20, 30]))
    )
    problems = ("strings/phone-with-hyphens", "strings/name-short-form")
    assert {(cell.problem_id, cell.seed) for cell in found} == {*itertools.product(problems, (3, 4))}

    def ids(changed: str) -> set[str]:
        (tmp_path / "other.toml").write_text(changed)
        return {cell.run_id for cell in cells(read_batch(str(tmp_path / "other.toml")))}

    # Another seed or problem more changes no id, and so loses no run; another name makes all runs new.
    assert ids(text) < ids(text.replace("3-4", "3-5"))
    assert not ids(text) & ids(text.replace('"small"', '"other"'))


def test_a_suite_is_a_batch_with_defaults_and_a_limit_takes_its_first_problems() -> None:
    batch = read_batch("strings", limit=3)
    assert (batch.name, batch.evaluations, batch.seeds) == ("strings", (1000,), (0,))
    assert [path.name for path in batch.problems] == [entry.path.name for entry in load_suite("strings")][:3]
    assert [arm.label for arm in batch.arms] == ["local, islands, 1000"]


def test_settings_of_the_strategy_win_over_the_proposer_and_both_over_those_of_all(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(
        """
name = "b"
problems = ["strings/file-kind"]
[settings]
search = {rollouts = 2, answers = 2, islands = 2}
[[proposers]]
name = "mine"
proposer.name = "random"
search.answers = 3
search.islands = 3
[[strategies]]
name = "alone"
search.islands = 1
"""
    )
    _, (work,) = plan(str(tmp_path / "b.toml"), str(tmp_path / "none.db"))
    search = work.config.search
    assert (search.rollouts, search.answers, search.islands, search.in_flight) == (2, 3, 1, 1)
    assert work.config.proposer.name == "random"
    assert work.status is None
    assert not (tmp_path / "none.db").exists()


def test_a_batch_that_names_no_strategies_has_that_of_its_settings(tmp_path: Path) -> None:
    text = 'name = "b"\nproblems = ["strings/file-kind"]\nproposers = ["random"]\n[settings]\n'
    (tmp_path / "b.toml").write_text(text + 'search.strategy = "iid"\n')
    _, (work,) = plan(str(tmp_path / "b.toml"), str(tmp_path / "none.db"))
    assert (work.config.search.strategy, work.cell.arm.strategy) == ("iid", "iid")


def test_everything_that_is_wrong_is_listed_at_once_and_nothing_is_written(evovpo: Shell) -> None:
    Path("bad.toml").write_text(
        """
name = "bad"
problems = ["strings/file-kind", "strings/file-kinds", "nowhere"]
evaluations = [10, 10]
seeds = "5-1"
strategy = "islands"
strategies = ["island"]
[settings]
search.island = 3
run.seed = 1
[[proposers]]
name = "trained"
proposer.model = "models/none"
[[proposers]]
name = "trained"
proposer.temperature = 2
"""
    )
    sql("other.db", "CREATE TABLE recipes (name TEXT)")
    answer = evovpo("batch", "bad.toml", "--store", "sqlite:///other.db")
    assert (answer.code, answer.out) == (2, "")
    for part in (
        "strings/file-kinds: expected a problem folder or the name of a bundled problem",
        "nowhere: expected a problem folder",
        "names a number twice",
        "expected seeds as 0-4",
        "unknown key 'strategy'; did you mean",
        "'island' is none; did you mean 'islands'?",
        "unknown key search.island;",
        "run.seed: a batch has it as seeds",
        "'trained' is there twice",
        "unknown key proposer.temperature",
        "a database of something else",
    ):
        assert part in answer.err
    assert sorted(path.name for path in Path().iterdir()) == ["bad.toml", "other.db"]


def test_settings_alone_can_name_the_proposer(tmp_path: Path) -> None:
    path = tmp_path / "served.toml"
    path.write_text(
        'name = "served"\nproblems = ["strings/file-kind"]\n[settings]\nproposer.name = "openai"\n'
        'proposer.base_url = "http://localhost:8000/v1"\nproposer.model = "m"\n'
    )
    (proposer,) = read_batch(str(path)).proposers
    assert proposer.name == "openai"
    assert proposer.settings == {"proposer": {"name": "openai"}}


def test_a_proposer_without_its_model_and_problems_that_do_not_fit_are_found_before_anything_is_spent(
    evovpo: Shell,
) -> None:
    Path("b.toml").write_text(
        """
name = "b"
problems = ["strings/file-kind", "heuristics/job-shop"]
[[proposers]]
name = "gone"
proposer.model = "models/none"
[[proposers]]
name = "later"
proposer.policy = "3"
[[proposers]]
name = "server"
proposer = {name = "openai", model = "m", base_url = "http://127.0.0.1:9/v1", attempts = 1}
"""
    )
    answer = evovpo("batch", "b.toml", "--store", "new.db")
    assert (answer.code, answer.out) == (2, "")
    assert f"{Path('models/none').resolve()}: expected a model folder" in answer.err
    assert "proposer.policy is 3" in answer.err
    assert "http://127.0.0.1:9/v1" in answer.err
    assert "heuristics/job-shop with proposer gone" in answer.err
    assert not Path("new.db").exists()


def test_a_cell_waits_for_a_server_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, errors = f"sqlite:///{tmp_path / 'runs.db'}", [UnreachableError("m is away")] * 3
    Store.open(url).close()
    work = plan(str(small(tmp_path)), url)[1][0]

    def begin(*given: Any, **named: Any) -> Any:
        if errors:
            raise errors.pop()
        return start_or_resume(*given, **named)

    monkeypatch.setattr(cell_runs, "start_or_resume", begin)
    monkeypatch.setattr(cell_runs, "_PAUSE_SECONDS", 0.0)
    impatient = work.config.changed(proposer={"patience_seconds": 0.0})
    with pytest.raises(UnreachableError):
        dataclasses.replace(work, config=impatient).run(print)
    seen: list[CellProgress] = []
    assert work.run(seen.append).proposed == 24
    assert [one.waits for one in seen[:3]] == ["waiting: m is away"] * 2 + [""]


def test_a_batch_goes_on_at_another_address_with_a_larger_budget(evovpo: Shell) -> None:
    with served(["```python\ndef solve(phone):\n    return phone\n```"]) as (address, _):
        text = f"""
name = "b"
problems = ["strings/phone-with-hyphens"]
evaluations = 8
[settings]
proposer = {{model = "m", base_url = "{address}"}}
budget.tokens = 1
"""
        Path("b.toml").write_text(text)
        first = evovpo("batch", "b.toml", "--store", "b.db")
        assert "1 of 1 runs stopped early: `evovpo show " in first.out
        [run] = evovpo("runs", "--store", "b.db", "--json").json
        assert (run["status"], run["evaluations"] < 8) == ("stopped", True)
        text = text.replace("127.0.0.1", "localhost").replace("tokens = 1", "tokens = 1000000")
        Path("b.toml").write_text(text)
        again = evovpo("batch", "b.toml", "--store", "b.db")
        assert again.code == 0, again.err + again.out
        [run] = evovpo("runs", "--store", "b.db", "--json").json
        assert (run["status"], run["evaluations"]) == ("exhausted", 8)


def test_a_stored_cell_with_other_settings_is_refused_and_named(tmp_path: Path) -> None:
    path, url = small(tmp_path), f"sqlite:///{tmp_path / 'runs.db'}"
    _, works = plan(str(path), url)
    with Store.open(url) as store:
        start(RunRequest(works[0].problem, works[0].config, run_id=works[0].cell.run_id), store)
    assert [work.is_finished for work in plan(str(path), url)[1]] == [True, False]
    path.write_text(path.read_text().replace("sandbox.workers = 1", "sandbox.workers = 2"))
    plan(str(path), url)  # how many programs run at a time changes no result
    path.write_text(path.read_text() + "search.rollouts = 4\n")
    with pytest.raises(ConfigError) as caught:
        plan(str(path), url)
    assert f"run {works[0].cell.run_id}" in str(caught.value)
    assert "search.rollouts = None, here it is 4" in str(caught.value)


def test_a_store_in_memory_or_of_another_version_is_refused(tmp_path: Path) -> None:
    path = str(small(tmp_path))
    with pytest.raises(ConfigError, match="several processes"):
        plan(path, "sqlite://")
    url = f"sqlite:///{tmp_path / 'old.db'}"
    Store.open(url).close()
    sql(tmp_path / "old.db", "UPDATE alembic_version SET version_num = '0001'")
    with pytest.raises(ConfigError, match="has schema version 0001"):
        plan(path, url)


@pytest.mark.slow
def test_a_batch_in_two_processes_stores_what_plain_runs_do_and_again_does_nothing(
    evovpo: Shell, tmp_path: Path
) -> None:
    path = small(tmp_path)
    answer = evovpo("batch", path, "--jobs", "2", "--json", "--store", "runs.db")
    assert answer.code == 0
    (arm,) = answer.json["arms"]
    assert (arm["cells"], arm["finished"], answer.json["failed"]) == (2, 2, [])
    _, works = plan(str(path), "runs.db")
    expected = plain_run(works, tmp_path)
    with Store.open("runs.db", create=False) as store:
        assert {run: told(store, run) for run in expected} == expected
        before = store.query("SELECT count(*) AS n FROM run_events")
    again = evovpo("batch", path, "--store", "runs.db", "--json")
    assert (again.code, again.json) == (0, answer.json)
    with Store.open("runs.db", create=False) as store:
        assert store.query("SELECT count(*) AS n FROM run_events") == before


def wait_for_candidates(database: Path, count: int) -> None:

    def are_there() -> bool:
        with contextlib.suppress(sqlite3.OperationalError):
            return database.exists() and sql(database, "SELECT count(*) FROM candidates") >= [(count,)]
        return False

    wait_until(are_there)


@pytest.mark.slow
def test_kill_of_the_whole_tree_at_any_time_loses_nothing(evovpo: Shell, tmp_path: Path) -> None:
    path = small(tmp_path, evaluations=96)
    for attempt in range(20):
        database = tmp_path / f"runs{attempt}.db"
        with running("batch", path, "--store", database, "--jobs", "2") as process:
            wait_for_candidates(database, 10)
            for pid in [process.pid, *descendants(process.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with Store.open(str(database), create=False) as store:
            if RunStatus.RUNNING in {row.status for row in store.runs()}:
                break
    else:
        raise AssertionError("every time both runs had ended before the kill")
    assert evovpo("batch", path, "--store", database).code == 0
    expected = plain_run(plan(str(path), str(database))[1], tmp_path)
    with Store.open(str(database), create=False) as store:
        assert {run: told(store, run) for run in expected} == expected


@pytest.mark.slow
def test_processes_end_with_the_command_and_a_second_batch_waits_its_turn(
    evovpo: Shell, tmp_path: Path
) -> None:
    path, database = small(tmp_path, evaluations=500_000), tmp_path / "runs.db"
    with running("batch", path, "--store", database) as process:
        wait_for_candidates(database, 10)
        second = evovpo("batch", path, "--store", database)
        assert second.code == 2
        assert "another batch works on" in second.err
        below = descendants(process.pid)
        assert below
        process.kill()
        process.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))


@pytest.mark.slow
def test_ctrl_c_stores_where_the_runs_are_and_says_how_to_go_on(tmp_path: Path) -> None:
    path, database = small(tmp_path, evaluations=500_000), tmp_path / "runs.db"
    with running("batch", path, "--store", database, "--jobs", "2") as process:
        wait_for_candidates(database, 10)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 130
    assert "Stopped: 0 of 2 runs ended" in said
    assert "Traceback" not in said
    with Store.open(str(database), create=False) as store:
        assert {row.status for row in store.runs()} == {RunStatus.INTERRUPTED}


@pytest.mark.slow
def test_a_full_disk_stops_the_batch_which_goes_on_with_room(evovpo: Shell, tmp_path: Path) -> None:
    path, database = small(tmp_path, evaluations=32), tmp_path / "runs.db"
    Store.open(str(database)).close()
    room = database.stat().st_size + 40 * 1024

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    with running("batch", path, "--store", database, "--jobs", "1", preexec_fn=little_room) as process:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 4
    assert "The store failed, and the batch stopped" in said
    assert "make room" in said
    assert "Traceback" not in said
    assert evovpo("batch", path, "--store", database, "--jobs", "1").code == 0
    expected = plain_run(plan(str(path), str(database))[1], tmp_path)
    with Store.open(str(database), create=False) as store:
        assert {run: told(store, run) for run in expected} == expected


@pytest.mark.slow
def test_what_cannot_be_said_because_the_disk_is_full_does_not_change_the_exit_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evovpo", "batch", str(small(tmp_path)), "--store", "runs.db"]
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(command, stderr=full, cwd=tmp_path, check=False).returncode == 4


@pytest.mark.slow
def test_a_failed_cell_is_named_and_the_others_go_on(evovpo: Shell, tmp_path: Path) -> None:
    path = small(tmp_path)
    _, works = plan(str(path), "runs.db")
    with Store.open("runs.db") as store:
        start(RunRequest(works[0].problem, works[0].config, run_id=works[0].cell.run_id), store)
        store.set_run_status(works[0].cell.run_id, RunStatus.RUNNING)
    sql("runs.db", "UPDATE prompts SET seed = '1' WHERE sequence = 2")
    answer = evovpo("batch", path, "--store", "runs.db", "--jobs", "1", "--json")
    assert answer.code == 1
    (failed,) = answer.json["failed"]
    assert failed["run"] == works[0].cell.run_id
    assert "comes out differently than stored" in failed["error"]
    assert failed["look"] == f"evovpo show {works[0].cell.run_id} --store sqlite:///runs.db"
    assert failed["look"] in answer.err
    assert answer.json["arms"][0]["finished"] == 1


@pytest.mark.slow
def test_a_cell_that_another_process_searches_fails_by_itself(evovpo: Shell, tmp_path: Path) -> None:
    path, database = small(tmp_path), tmp_path / "runs.db"
    held, other = (work.cell.run_id for work in plan(str(path), str(database))[1])
    with only_searcher(str(database), held):
        answer = evovpo("batch", path, "--store", database, "--jobs", "1", "--json")
    assert answer.code == 1
    (failed,) = answer.json["failed"]
    assert failed["run"] == held
    assert f"is being searched by process {os.getpid()}" in failed["error"]
    with Store.open(str(database), create=False) as store:
        assert [(row.run, row.status) for row in store.runs()] == [(other, RunStatus.EXHAUSTED)]
    assert evovpo("batch", path, "--store", database, "--jobs", "1").code == 0


@pytest.mark.slow
def test_a_cell_whose_process_is_killed_is_taken_up_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    Store.open(url).close()
    _, works = plan(str(small(tmp_path, evaluations=64)), url)
    before = set(descendants(os.getpid()))
    messages: list[Message] = []
    killed: list[int] = []

    def take(message: Message) -> None:
        messages.append(message)
        if isinstance(message, TaskProgress) and not killed:
            for pid in set(descendants(os.getpid())) - before:
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    killed.append(pid)
                    os.kill(pid, signal.SIGKILL)

    assert run_all(sized(works[:1], 1), 1, take) == []
    assert killed
    kinds = [type(message) for message in messages if not isinstance(message, TaskProgress)]
    assert kinds == [TaskStarted, TaskStarted, TaskDone]
    expected = plain_run(works[:1], tmp_path)
    with Store.open(url, create=False) as store:
        assert told(store, works[0].cell.run_id) == expected[works[0].cell.run_id]


@pytest.mark.slow
def test_a_run_that_cannot_begin_fails_by_itself_and_a_store_that_is_gone_ends_all(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    _, works = plan(str(small(tmp_path, evaluations=8)), url)
    with pytest.raises(StoreError, match="no such store"):
        run_all(works, 1, lambda message: None)
    Store.open(url).close()
    without = dataclasses.replace(
        works[0], config=works[0].config.changed(proposer=ProposerConfig(name="scripted"))
    )
    failed = run_all([without, works[1]], 1, lambda message: None)
    assert [one.name for one in failed] == [works[0].cell.run_id]
    assert "expected local, openai or random" in failed[0].reason
    with Store.open(url) as store:
        assert [row.run for row in store.runs()] == [works[1].cell.run_id]


@dataclasses.dataclass(frozen=True)
class Whoami:
    name: str = "whoami"

    def run(self, tell: Callable[[object], None]) -> int:
        return os.getpid()


@pytest.mark.slow
def test_processes_are_kept_from_call_to_call_within_a_block_alone() -> None:
    found: list[int] = []

    def take(message: Message) -> None:
        found.extend([message.value] if isinstance(message, TaskDone) else [])

    with kept_processes():
        assert run_all([Whoami()], 1, take) == []
        with kept_processes():
            assert run_all([Whoami()], 1, take) == []
        os.kill(found[0], signal.SIGKILL)
        assert run_all([Whoami()], 1, take) == []
        assert Path(f"/proc/{found[2]}").exists()
    assert not Path(f"/proc/{found[2]}").exists()
    assert found[0] == found[1] != found[2]


def test_an_executor_that_is_none_is_refused(evovpo: Shell, tmp_path: Path) -> None:
    answer = evovpo("batch", small(tmp_path), "--store", "new.db", "--executor", "slurm")
    assert answer.code == 2
    assert "expected local, ray or ray://HOST:PORT, found 'slurm'" in answer.err
    assert not Path("new.db").exists()


def test_cores_are_shared_out_where_nobody_chose(tmp_path: Path) -> None:
    _, works = plan(str(small(tmp_path)), str(tmp_path / "none.db"))
    assert [work.config.sandbox.workers for work in sized(works, 1)] == [1, 1]
    unset = [dataclasses.replace(w, config=w.config.changed(sandbox=SandboxConfig())) for w in works]
    cores = os.cpu_count() or 1
    assert [work.config.sandbox.workers for work in sized(unset, 1)] == [cores, cores]
    assert [work.config.sandbox.workers for work in sized(unset, 4 * cores)] == [1, 1]


def test_progress_counts_what_is_stored_and_what_is_told(tmp_path: Path) -> None:
    _, works = plan(str(small(tmp_path, evaluations=100)), str(tmp_path / "none.db"))
    one, two = (work.cell.run_id for work in works)
    for is_terminal in (False, True):
        output = StringIO()
        with BatchProgress(
            Console(file=output, force_terminal=is_terminal, width=100), works, {}
        ) as progress:
            progress.take(TaskStarted(one))
            progress.take(TaskProgress(one, CellProgress(40)))
            progress.take(TaskDone(one, CellProgress(60, True)))
            progress.take(TaskStarted(two))
            progress.take(FailedTask(two, "no \x1b[31mroom"))
            status = progress.status()
        assert status.startswith("1 of 2 runs ended, 1 solved, 1 failed, 60 of 160 evaluations")
        assert "\x1b[31mroom" not in output.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (59.7, "1 min 0 s"), (3725, "1 h 2 min"), (200_000, "2 d 7 h")]
)
def test_spans_of_time_are_said_in_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
