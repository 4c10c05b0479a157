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
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from openevolve_problems import PROGRAM, write_project
from store_conformance import PROBLEM, RUN, append, scripted_history

from evovpo.cli.main import PARENT_VARIABLE
from evovpo.errors import StoreError
from evovpo.page.page_store import Source
from evovpo.sandbox.forkserver import kernel, processes
from evovpo.store import Store
from evovpo.types import RunStatus

pytestmark = pytest.mark.slow

LONG = 300
"""Seconds, far more than anything here takes: what does not come at all fails the test."""
SEARCH = [
    "evolve",
    "strings/phone-with-hyphens",
    "--proposer",
    "random",
    "--set",
    "search.stop_when_solved=false",
]


@contextmanager
def running(*arguments: str | Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A command in its own process, which ends with the block."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, **options}
    with subprocess.Popen([sys.executable, "-m", "evovpo", *arguments], text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def url_of(process: subprocess.Popen[str]) -> tuple[str, int, str]:
    """Return address, port and token that a serving process prints."""
    assert process.stdout is not None
    url, _, token = process.stdout.readline().strip().removeprefix("page: ").partition("?token=")
    return url, int(url.rsplit(":", 1)[1].strip("/")), token


def asked(url: str, token: str = "") -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=LONG) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def wait_until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture(scope="module")
def store_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "runs.db"
    with Store.open(str(path)) as store:
        store.add_problem(PROBLEM)
        store.add_run(RUN)
        append(store, "run-a", scripted_history("run-a", 3, 60))
    return path


def test_a_page_with_few_files_answers_beside_400_half_open_connections(store_file: Path) -> None:
    pytest.importorskip("uvicorn")

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    serve = ["serve", "--store", store_file, "--port", "0", "--no-browser"]
    with running(*serve, preexec_fn=few_files) as process, ExitStack() as opened:
        url, port, token = url_of(process)
        for _ in range(400):
            client = opened.enter_context(socket.create_connection(("127.0.0.1", port), LONG))
            with suppress(OSError):
                client.sendall(b"GET / HTTP/1.1\r\nHost: ")
            assert process.poll() is None
        assert asked(f"{url}healthz", token) == 200
        assert asked(f"{url}api/runs/run-a", token) == 200


@pytest.fixture
def impatient(store_file: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int]:
    """A page that waits for half a second; its server ends with this process, as threads get no signals."""
    server = pytest.importorskip("evovpo.page.page_server")
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.5)
    ready: queue.Queue[str] = queue.Queue()
    app = server.application(Source(str(store_file)))
    threading.Thread(target=server.serve, args=(app, "127.0.0.1", 0, None, ready.put), daemon=True).start()
    url = ready.get(timeout=LONG)
    return url, int(url.rsplit(":", 1)[1].strip("/"))


REQUEST = b"GET /views.js HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "before",
    [b"", REQUEST + b"\r\n", REQUEST + b"Content-Length: 1000000\r\n\r\n"],
    ids=["first request", "second request", "body"],
)
def test_a_client_that_sends_its_headers_slowly_is_cut_off(before: bytes, impatient: tuple[str, int]) -> None:
    with socket.create_connection(("127.0.0.1", impatient[1]), LONG) as client:
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
    assert asked(f"{impatient[0]}healthz") == 200


def test_a_client_that_reads_nothing_is_cut_off(impatient: tuple[str, int]) -> None:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", impatient[1]))
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


def test_an_unknown_program_is_not_found_and_closes_no_store(impatient: tuple[str, int]) -> None:
    assert asked(f"{impatient[0]}api/runs/run-a/lineage?program=nope") == 404


def test_a_store_is_named_by_a_variable_too(store_file: Path) -> None:
    with running("runs", env={**os.environ, "EVOVPO_STORE": str(store_file)}) as process:
        assert "run-a" in process.communicate(timeout=LONG)[0]


def test_few_files_are_one_clear_error(tmp_path: Path) -> None:
    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with running(*SEARCH, stderr=subprocess.PIPE, cwd=tmp_path, preexec_fn=few_files) as process:
        said = process.communicate(timeout=LONG)[1]
    assert process.returncode == 2
    assert said.count("\n") == 1
    assert "may have 64 open files here; expected at least 128" in said


@pytest.mark.parametrize("most", [1, 6, 8])
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


def is_gone(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def killed_with(process: subprocess.Popen[str], is_ready: Callable[[Sequence[int]], object]) -> None:
    """Kill a process once all below it are there, and wait until none of them is."""
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


def test_searches_of_a_killed_batch_end_with_it(tmp_path: Path) -> None:
    file, store = tmp_path / "batch.toml", tmp_path / "runs.db"
    file.write_text(
        'name = "killed"\nproblems = ["strings/phone-with-hyphens"]\nevaluations = 1000000\nseeds = [0, 1]\n'
        'proposers = ["random"]\n[settings]\nsearch.stop_when_solved = false\n'
    )
    with running("batch", file, "--jobs", "2", "--store", store) as process:
        killed_with(process, lambda below: len(below) > 3 and has_proposed(store))


def test_the_page_beside_a_killed_run_ends_with_it(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    options = ["-n", "1000000", "--serve", "--store", tmp_path / "runs.db"]
    with running(*SEARCH, *options, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while "page: " not in process.stderr.readline():
            assert process.poll() is None
        threading.Thread(target=process.stderr.read, daemon=True).start()
        killed_with(process, len)


def test_a_command_ends_with_the_process_that_it_works_for(store_file: Path) -> None:
    pytest.importorskip("uvicorn")
    with subprocess.Popen(["sleep", "100000"]) as other:
        environment = {**os.environ, PARENT_VARIABLE: str(other.pid)}
        serve = ["serve", "--store", store_file, "--port", "0", "--no-browser"]
        with running(*serve, env=environment) as process:
            url_of(process)
            other.kill()
            assert process.wait(timeout=LONG) == 1
