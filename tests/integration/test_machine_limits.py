"""Little of the machine, and processes whose parent is gone."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from openevolve_problems import PROGRAM, write_project
from running import LONG, is_gone, running, serving, wait_until
from store_conformance import write_run

from evovpo.cli.main import PARENT_VARIABLE
from evovpo.errors import StoreError
from evovpo.sandbox.forkserver import kernel, processes
from evovpo.store import Store
from evovpo.types import RunStatus

pytestmark = pytest.mark.slow

SEARCH = [
    *("evolve", "strings/phone-with-hyphens", "--proposer", "random"),
    *("--set", "search.stop_when_solved=false"),
]


@pytest.fixture(scope="module")
def store_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "runs.db"
    with Store.open(str(path)) as store:
        write_run(store)
    return path


def test_a_store_is_named_by_a_variable_too(store_file: Path) -> None:
    with running("runs", env={**os.environ, "EVOVPO_STORE": str(store_file)}) as process:
        assert "run-a" in process.communicate(timeout=LONG)[0]


def test_few_files_are_one_clear_error(tmp_path: Path) -> None:
    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with running(*SEARCH, cwd=tmp_path, preexec_fn=few_files) as process:
        said = process.communicate(timeout=LONG)[1]
    assert process.returncode == 2
    assert said.count("\n") == 1
    assert "may have 64 open files here; expected at least 128" in said


@pytest.mark.parametrize("most", [1, 3])
def test_few_processes_are_one_clear_error(most: int, tmp_path: Path) -> None:
    """As a user that nobody else is, who may still read this Python's folder; root has no such limit."""
    capability = kernel.reading_capability()
    if os.geteuid() or capability is None:
        pytest.skip("only root can become another user")
    tmp_path.chmod(0o777)
    code = (
        "import resource; from evovpo.sandbox.forkserver import kernel; from evovpo.cli import main;"
        f"kernel.become_user({2_000_100_000 + most}, {capability});"
        f"resource.setrlimit(resource.RLIMIT_NPROC, ({most}, {most})); main({[*SEARCH, '-n', '8']})"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=LONG, check=False
    )
    assert "Traceback" not in said.stderr
    assert said.stderr.count("error: ") == 1
    assert "processes" in said.stderr
    assert said.returncode in (3, 4)


def has_proposed(store: Path) -> bool:
    with suppress(StoreError), Store.open(str(store), create=False) as opened:
        run = opened.newest_run()
        return run is not None and opened.run_summary(run).proposed > 0
    return False


@pytest.mark.parametrize("ctrl_c", [signal.SIG_DFL, signal.SIG_IGN])  # ignored by jobs of a script
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_ends_as_ctrl_c_does(
    number: signal.Signals, ctrl_c: signal.Handlers, tmp_path: Path
) -> None:
    store, said = tmp_path / "run.db", tmp_path / "said"
    command = (*SEARCH, "-n", "1000000", "--store", store)

    def begin() -> None:
        signal.signal(signal.SIGINT, ctrl_c)

    with said.open("w") as file, running(*command, stderr=file, preexec_fn=begin) as process:
        wait_until(lambda: has_proposed(store))
        process.send_signal(number)
        assert process.wait(timeout=LONG) == 130
    assert "To continue:  evovpo resume" in said.read_text()
    with Store.open(str(store)) as opened:
        assert opened.run(str(opened.newest_run())).status is RunStatus.INTERRUPTED


def killed_with(process: subprocess.Popen[str], is_ready: Callable[[Sequence[int]], object]) -> None:
    below: list[int] = []

    def are_there() -> bool:
        below[:] = processes.descendants(process.pid)
        assert process.poll() is None
        return bool(is_ready(below))

    wait_until(are_there)
    process.kill()
    wait_until(lambda: all(is_gone(one) for one in below))


@pytest.mark.parametrize("hiding", ["", "1"])
def test_an_evaluator_ends_with_a_killed_command(hiding: str, tmp_path: Path) -> None:
    begun = tmp_path / "p" / "begun"
    evaluator = (
        f"import time\ndef evaluate(path):\n    open({str(begun)!r}, 'w').close()\n    time.sleep(100000)\n"
    )
    files = {"initial_program.py": PROGRAM, "evaluator.py": evaluator}
    folder = write_project(tmp_path / "p", files)
    options = ["--allow", f"write={folder}", "--set", "evaluator.timeout_seconds=100000"]
    environment = {**os.environ, "EVOVPO_WITHOUT_BWRAP": hiding}
    with running("check", folder, *options, env=environment) as process:
        killed_with(process, lambda _: begun.exists())


def test_the_page_beside_a_killed_run_ends_with_it(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    options = ["-n", "1000000", "--serve", "--store", tmp_path / "runs.db"]
    with running(*SEARCH, *options) as process:
        assert process.stderr is not None
        while "page: " not in process.stderr.readline():
            assert process.poll() is None
        threading.Thread(target=process.stderr.read, daemon=True).start()
        killed_with(process, len)


def test_a_command_ends_with_the_process_that_it_works_for(store_file: Path) -> None:
    pytest.importorskip("uvicorn")
    with subprocess.Popen(["sleep", "100000"]) as other:
        environment = {**os.environ, PARENT_VARIABLE: str(other.pid)}
        with serving(store_file, env=environment) as (process, _):
            other.kill()
            assert process.wait(timeout=LONG) == 1
