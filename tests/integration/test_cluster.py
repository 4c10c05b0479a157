"""Whole runs as tasks of a Ray cluster of three nodes: the same rows as without, whoever is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shell import Shell
from test_batch import small, told

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'evovpo[ray]'")

from ray.cluster_utils import Cluster  # noqa: E402

from evovpo.experiments.pool import Message, Told  # noqa: E402
from evovpo.reports.batch_progress import BatchProgress  # noqa: E402
from evovpo.store import Store  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
    ),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that does no work, and two nodes of one core each."""
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


@pytest.fixture
def evovpo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """The command line, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Shell(capsys)


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
        if isinstance(message, Told) and message.value.proposed and not killed:
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
        if isinstance(message, Told):
            raise KeyboardInterrupt

    monkeypatch.setattr(BatchProgress, "take", stop)
    stopped = evovpo("batch", batch, "--executor", "ray", "--store", "runs.db")
    assert (stopped.code, "goes on from here" in stopped.err) == (130, True)
    stored = rows(tmp_path / "runs.db").values()
    assert {status for status, _, _ in stored} == {"interrupted"}
    assert any(history for _, _, history in stored)


def test_what_is_wrong_with_a_cluster_is_said_before_anything_runs(
    cluster: Any, evovpo: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = small(tmp_path)
    wrong = evovpo("batch", batch, "--executor", "dask")
    assert (wrong.code, "ray://HOST:PORT" in wrong.err) == (2, True)
    with monkeypatch.context() as patch:
        patch.setattr("ray.nodes", lambda: [{"NodeManagerHostname": "elsewhere"}])
        file = evovpo("batch", batch, "--executor", "ray")
    assert (file.code, "as elsewhere; give a database server" in file.err) == (2, True)
    away = evovpo("batch", batch, "--executor", "ray://127.0.0.1:1")
    assert (away.code, "cannot be used" in away.err, "correct --executor" in away.err) == (3, True, True)
    with Store.open("evovpo.db") as store:
        assert store.runs() == []
