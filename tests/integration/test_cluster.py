"""Whole runs as tasks of a Ray cluster of three nodes: the same rows as without, whoever is killed."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from crashing_loop import make_loop
from shell import Shell
from test_batch import small
from toy_runs import told

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'evovpo[ray]'")

from ray.cluster_utils import Cluster  # noqa: E402

from evovpo.config import Config, SandboxConfig  # noqa: E402
from evovpo.errors import ConfigError  # noqa: E402
from evovpo.experiments.cluster import on_cluster  # noqa: E402
from evovpo.experiments.pool import Message, TaskProgress  # noqa: E402
from evovpo.judging.executors import open_executor  # noqa: E402
from evovpo.judging.ray import options  # noqa: E402
from evovpo.problem.folder import load_problem  # noqa: E402
from evovpo.problem.suites import resolve_problem  # noqa: E402
from evovpo.reports.batch_progress import BatchProgress  # noqa: E402
from evovpo.store import Store  # noqa: E402
from evovpo.types import Status  # noqa: E402
from trainer.loop.turns import Turns  # noqa: E402

STUDY = """
name = "small"
primary = "best@1"
problems = ["strings/date-to-iso"]
evaluations = 36
seeds = 2
ks = [1]
references = ["start"]
[[strategies]]
name = "iid"
answers_per_ask = 12
search.strategy = "iid"
[[arms]]
name = "start"
model = "start"
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
    ),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 100 << 20}
    found = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        found.add_node(num_cpus=1, object_store_memory=100 << 20)
    os.environ["RAY_ADDRESS"] = found.address
    yield found
    del os.environ["RAY_ADDRESS"]
    ray.shutdown()
    found.shutdown()


def rows(path: Path) -> dict[str, Any]:
    with Store.open(str(path), create=False) as store:
        return {row.run: (row.status, row.heldout, told(store, row.run)) for row in store.runs()}


def test_a_batch_on_three_nodes_of_which_one_is_killed_has_the_rows_of_one_here(
    cluster: Any, evovpo: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = small(tmp_path, 40)
    here = evovpo("batch", batch, "--store", "here.db", "--jobs", "1", "--json")
    take, killed = BatchProgress.take, []

    def kill_one(progress: BatchProgress, message: Message) -> None:
        if isinstance(message, TaskProgress) and message.value.proposed and not killed:
            killed.append(message.name)
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
            cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
        take(progress, message)

    monkeypatch.setattr(BatchProgress, "take", kill_one)
    there = evovpo("batch", batch, "--store", "there.db", "--executor", "ray", "--json")
    assert killed
    assert (there.code, there.json) == (0, here.json)
    assert rows(tmp_path / "there.db") == rows(tmp_path / "here.db")


def test_a_batch_that_is_stopped_stores_where_it_is(
    cluster: Any, evovpo: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = small(tmp_path, 100_000)  # so many that it is never done

    def stop(progress: BatchProgress, message: Message) -> None:
        if isinstance(message, TaskProgress):
            raise KeyboardInterrupt

    monkeypatch.setattr(BatchProgress, "take", stop)
    stopped = evovpo("batch", batch, "--executor", "ray", "--store", "runs.db")
    assert (stopped.code, "continues from here" in stopped.err) == (130, True)
    stored = rows(tmp_path / "runs.db").values()
    assert {status for status, _, _ in stored} == {"interrupted"}
    assert any(history for _, _, history in stored)


def test_the_searches_of_a_loop_on_three_nodes_have_the_rows_of_one_here(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, executor in (("here.db", "local"), ("there.db", "ray")):
        with Store.open(name) as store, on_cluster(executor, name):
            turns = Turns(make_loop(store), store, tmp_path / "policies", jobs=1 + (executor == "ray"))
            turns.begin()
            turns.search_round(1)
    assert rows(tmp_path / "there.db") == rows(tmp_path / "here.db")
    assert len(rows(tmp_path / "there.db")) == 2


def test_a_study_on_three_nodes_has_the_rows_of_one_here(cluster: Any, evovpo: Shell, tmp_path: Path) -> None:
    done = []
    for name, executor in (("here", "local"), ("there", "ray")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.toml").write_text(STUDY)
        ended = evovpo("study", Path(name, "study.toml"), "--executor", executor)
        assert ended.code == 0, ended.err
        done.append(rows(tmp_path / name / "work" / "study.db"))
    assert done[0] == done[1]
    assert len(done[0]) == 2


def test_a_task_waits_for_a_machine_that_has_what_it_takes(cluster: Any) -> None:
    problem = load_problem(resolve_problem("strings/user-name"))
    takes = SandboxConfig(executor="ray", workers=1, resources="num_cpus=0.5,licence=1")
    with open_executor(problem, Config(sandbox=takes)) as judge, ThreadPoolExecutor(1) as thread:
        judging = thread.submit(judge.evaluate, problem.seeds[0])
        with pytest.raises(TimeoutError):
            judging.result(timeout=2)
        node = cluster.add_node(num_cpus=1, resources={"licence": 1}, object_store_memory=100 << 20)
        assert judging.result().status is Status.OK
    cluster.remove_node(node)


def test_what_a_task_takes_is_said_as_ray_wants_it() -> None:
    assert options(SandboxConfig()) == {"resources": {}}
    found = options(SandboxConfig(resources="num_cpus=2, num_gpus=0.5,memory=4e9,licence=1"))
    assert found == {"num_cpus": 2, "num_gpus": 0.5, "memory": 4_000_000_000, "resources": {"licence": 1}}
    assert isinstance(found["memory"], int)
    for wrong in ("num_cpus", "num_cpus=-1", "=2", "memory=inf"):
        with pytest.raises(ConfigError, match=r"num_cpus=2,num_gpus=0\.5"):
            SandboxConfig(resources=wrong)


def test_what_is_wrong_with_a_cluster_is_said_before_anything_runs(
    cluster: Any, evovpo: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = small(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    for command in (("batch", batch), ("study", "study.toml"), ("loop", "strings/user-name")):
        wrong = evovpo(*command, "--executor", "dask")
        assert (wrong.code, "ray://HOST:PORT" in wrong.err) == (2, True)
    with monkeypatch.context() as patch:
        patch.setattr("ray.nodes", lambda: [{"NodeManagerHostname": "elsewhere"}])
        file = evovpo("batch", batch, "--executor", "ray")
    assert (file.code, "as elsewhere; give a database server" in file.err) == (2, True)
    away = evovpo("batch", batch, "--executor", "ray://127.0.0.1:1")
    assert (away.code, "cannot be used" in away.err, "correct --executor" in away.err) == (3, True, True)
    with Store.open("evovpo.db") as store:
        assert store.runs() == []
