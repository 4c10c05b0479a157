"""Little of the machine, clients that keep a page waiting, and processes whose parent is gone."""

from __future__ import annotations

import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from openevolve_problems import PROGRAM, write_project
from running import LONG, Served, is_gone, running, serving, wait_until
from store_conformance import write_run

from evovpo.cli.main import PARENT_VARIABLE
from evovpo.errors import StoreError
from evovpo.page.page_store import Source
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


def test_a_page_with_few_files_answers_beside_400_half_open_connections(store_file: Path) -> None:
    pytest.importorskip("uvicorn")

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    with serving(store_file, preexec_fn=few_files) as (process, page), ExitStack() as opened:
        for _ in range(400):
            client = opened.enter_context(socket.create_connection(("127.0.0.1", page.port), LONG))
            with suppress(OSError):
                client.sendall(b"GET / HTTP/1.1\r\nHost: ")
            assert process.poll() is None
        assert page.ask("healthz")[0] == page.ask("api/runs/run-a")[0] == 200


@pytest.fixture
def impatient(store_file: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """A page that waits for half a second; its server ends with this process, as threads get no signals."""
    server = pytest.importorskip("evovpo.page.page_server")
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.5)
    ready: queue.Queue[str] = queue.Queue()
    app = server.application(Source(str(store_file)))
    threading.Thread(target=server.serve, args=(app, "127.0.0.1", 0, None, ready.put), daemon=True).start()
    return Served(ready.get(timeout=LONG))


REQUEST = b"GET /views.js HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "before",
    [b"", REQUEST + b"\r\n", REQUEST + b"Content-Length: 1000000\r\n\r\n"],
    ids=["first request", "second request", "body"],
)
def test_a_client_that_sends_its_headers_slowly_is_cut_off(before: bytes, impatient: Served) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port), LONG) as client:
        client.sendall(before)
        client.setblocking(False)
        end = time.monotonic() + LONG
        with suppress(ConnectionError):
            while time.monotonic() < end:
                time.sleep(0.02)
                client.send(b"a")
                with suppress(BlockingIOError):
                    if not client.recv(1 << 20):
                        break
        assert time.monotonic() < end
    assert impatient.ask("healthz")[0] == 200


def test_a_client_that_reads_nothing_is_cut_off(impatient: Served) -> None:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", impatient.port))
        client.setblocking(False)

        def is_cut() -> bool:
            try:
                client.send(REQUEST + b"\r\n")
            except BlockingIOError:
                return False
            except ConnectionError:
                return True
            return False

        wait_until(is_cut)


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
