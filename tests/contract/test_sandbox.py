"""What a caller of the sandbox can rely on."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from running import is_gone, wait_until

from evovpo.errors import ConfigError, SandboxError
from evovpo.sandbox import Level, ProxySandbox, Sandbox, WholeJob, WholeSandbox
from evovpo.sandbox.forkserver.processes import descendants
from evovpo.sandbox.paths import python_executable, python_paths, reading_rules
from evovpo.sandbox.probe import IsolationSupport, choose_level, probe
from evovpo.sandbox.start import bwrap_refusal
from evovpo.sandbox.worker import ForkServer, WorkerSettings
from evovpo.types import Limits, Status

pytest_plugins = ["pytester"]

IDENTITY = "def f(x):\n    return x\n"
LEVELS = [pytest.param(level, marks=pytest.mark.isolation(level)) for level in Level]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1, preload=(), level=Level.LANDLOCK_SECCOMP) as opened:
        yield opened


def test_a_python_called_by_a_path_with_dots_is_isolated_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Path(sys.executable)
    refusal = bwrap_refusal()
    monkeypatch.setattr(sys, "executable", f"{plain.parent}/../{plain.parent.name}/{plain.name}")
    monkeypatch.setattr(sys, "prefix", f"{plain.parent}/..")
    assert python_executable() == str(plain.parent.resolve() / plain.name)
    assert str(plain.parent.parent.resolve()) in python_paths()
    assert [path for path in python_paths() if ".." in path] == []
    assert bwrap_refusal() == refusal


# --- outputs and errors


def test_there_is_one_output_per_case(sandbox: Sandbox) -> None:
    result = sandbox.run("def f(a, b):\n    return a + b\n", "f", [[1, 2], ["a", "b"], [[1], [2]]])
    assert (result.status, result.outputs) == (Status.OK, [3, "ab", [1, 2]])
    assert result.errors == [None, None, None]
    assert result.isolation == "landlock+seccomp"
    assert result.cpu_ms > 0
    assert result.wall_ms > 0


def test_an_exception_ends_the_run_and_names_its_line(sandbox: Sandbox) -> None:
    result = sandbox.run("def f(x):\n    return 6 // x\n", "f", [[3], [0], [2]])
    assert (result.status, result.outputs) == (Status.ERROR, [2, None, None])
    assert result.detail == "ZeroDivisionError: integer division or modulo by zero (line 2)"


def test_per_case_an_exception_spoils_only_its_own_case(sandbox: Sandbox) -> None:
    result = sandbox.run("def f(x):\n    return 6 // x\n", "f", [[3], [0], [2]], per_case=True)
    assert (result.status, result.outputs) == (Status.OK, [2, None, 3])
    assert result.errors == [None, "ZeroDivisionError: integer division or modulo by zero", None]


@pytest.mark.parametrize("value", ["float('nan')", "10 ** 50", "'\\ud800'", "{1}", "open"])
def test_an_output_that_is_no_plain_json_spoils_the_run_or_per_case_its_own_case(
    sandbox: Sandbox, value: str
) -> None:
    code = f"def f(x):\n    return {value} if x else 1\n"
    result = sandbox.run(code, "f", [[0], [1], [0]], per_case=True)
    assert (result.status, result.outputs) == (Status.OK, [1, None, 1])
    assert result.errors[1]
    result = sandbox.run(code, "f", [[0], [1]])
    assert (result.status, result.outputs) == (Status.BAD_OUTPUT, [None, None])


@pytest.mark.parametrize(
    ("code", "status", "detail"),
    [
        ("def f(x):\n    return bytearray(1 << 40)\n", Status.MEMORY, "MemoryError"),
        ("def f(x):\n    raise SystemExit\n", Status.ERROR, "SystemExit"),
        ("def f(x)\n", Status.ERROR, "SyntaxError"),
        ("raise ValueError('\\ud800')\n", Status.ERROR, "ValueError: ? (line 1)"),
        ("1 / 0\n", Status.ERROR, "ZeroDivisionError"),
        ("def g(x):\n    return x\n", Status.ERROR, "NameError: the program defines no 'f'"),
    ],
)
def test_per_case_does_not_forgive_what_is_no_fault_of_a_case(
    sandbox: Sandbox, code: str, status: Status, detail: str
) -> None:
    result = sandbox.run(code, "f", [[1]], per_case=True)
    assert result.status is status
    assert result.detail.startswith(detail)


def test_cases_before_a_timeout_keep_their_outputs(sandbox: Sandbox) -> None:
    code = "def f(x):\n    while x: pass\n    return 'ok'\n"
    result = sandbox.run(code, "f", [[0], [1], [0]], Limits(cpu_seconds=1, wall_seconds=60.0))
    assert (result.status, result.outputs) == (Status.TIMEOUT, ["ok", None, None])


def test_arguments_are_plain_json_whatever_sequences_the_caller_has(sandbox: Sandbox) -> None:
    result = sandbox.run("def f(x):\n    return type(x).__name__\n", "f", (((1, 2),),))  # type: ignore[arg-type]
    assert result.outputs == ["list"]


def test_what_a_program_prints_is_kept_up_to_the_limit(sandbox: Sandbox) -> None:
    code = "import sys\ndef f(x):\n    print('a' * 5)\n    sys.stderr.write('b' * 50)\n"
    assert sandbox.run(code, "f", [[1]], Limits(log_bytes=10)).log == "aaaaa\nbbbb"


@pytest.mark.parametrize(("size", "status"), [(1000, Status.OK), (1001, Status.OUTPUT_LIMIT)])
def test_results_may_fill_their_limit_exactly(sandbox: Sandbox, size: int, status: Status) -> None:
    padding = size - len('{"i": 0, "out": ""}\n{"done": true}\n')
    code = f"def f(x):\n    return 'x' * {padding}\n"
    assert sandbox.run(code, "f", [[1]], Limits(result_bytes=1000, log_bytes=100)).status is status


def test_limits_of_one_program_do_not_stay_for_the_next(sandbox: Sandbox) -> None:
    code = "def f(n):\n    return len(bytearray(n << 20))\n"
    statuses = [sandbox.run(code, "f", [[300]], Limits(memory_mb=mb)).status for mb in (100, 500, 100)]
    assert statuses == [Status.MEMORY, Status.OK, Status.MEMORY]


def test_numpy_is_there_its_values_come_back_as_json_and_every_program_has_the_same_randomness() -> None:
    arrays = "import numpy as np\ndef f(n):\n    return {'a': np.arange(n), 'm': np.float32(0.5)}\n"
    code = (
        "import random, numpy\ndef f(x):\n"
        "    return [random.random(), numpy.random.random(), list({'a', 'b', 'c', 'd'}), hash('a')]\n"
    )
    seen = []
    for _ in range(2):
        with Sandbox(workers=1) as sandbox:
            assert sandbox.run(arrays, "f", [[3]]).outputs == [{"a": [0, 1, 2], "m": 0.5}]
            seen += [sandbox.run(code, "f", [[1]]).outputs for _ in range(2)]
    assert seen[0] != [None]
    assert seen == [seen[0]] * 4


def test_threads_and_processes_are_refused_by_name() -> None:
    with Sandbox(workers=1, preload=()) as sandbox:
        with pytest.raises(ConfigError, match=r"limits\.threads is 2"):
            sandbox.run(IDENTITY, "f", [[1]], Limits(threads=2))
        with pytest.raises(ConfigError, match=r"limits\.processes is 1"):
            sandbox.run(IDENTITY, "f", [[1]], Limits(processes=1))


# --- reading


def test_modules_that_were_not_preloaded_can_be_imported(sandbox: Sandbox) -> None:
    result = sandbox.run("import colorsys\ndef f(x):\n    return colorsys.__name__\n", "f", [[1]])
    assert result.outputs == ["colorsys"]


def test_a_hidden_path_cannot_be_read_and_its_neighbours_can() -> None:
    library = Path(os.__file__).parent
    code = (
        "def f(path):\n    try:\n        return open(path).read(1) != ''\n"
        "    except OSError as error:\n        return type(error).__name__\n"
    )
    cases = [[str(library / "json" / "tool.py")], [str(library / "colorsys.py")], [str(library / "csv.py")]]
    hidden = [library / "json", library / "csv.py"]
    with Sandbox(workers=1, preload=(), hidden=hidden, level=Level.LANDLOCK_SECCOMP) as sandbox:
        result = sandbox.run(code, "f", cases)
    assert result.outputs == ["PermissionError", True, "PermissionError"]


def test_nothing_of_evovpo_is_in_a_childs_memory_or_readable(sandbox: Sandbox) -> None:
    import evovpo

    code = (
        "import sys\ndef f(path):\n    loaded = [name for name in sys.modules if name.startswith('evovpo')]\n"
        "    try:\n        return loaded + [open(path).read()]\n    except OSError:\n        return loaded\n"
    )
    assert sandbox.run(code, "f", [[evovpo.__file__]]).outputs == [[]]


def test_what_leads_to_a_hidden_folder_gives_names_only(tmp_path: Path) -> None:
    (tmp_path / "lib" / "answers").mkdir(parents=True)
    (tmp_path / "lib" / "code.py").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("lib")
    rules = reading_rules([str(tmp_path)], [str(tmp_path / "link" / "answers")])
    assert set(rules) == {
        (str(tmp_path), True),
        (str(tmp_path / "lib"), True),
        (str(tmp_path / "lib" / "code.py"), False),
        (str(tmp_path / "other"), False),
    }


# --- the pool


def test_fork_servers_start_when_needed() -> None:
    with Sandbox(workers=3, preload=()) as sandbox:
        assert _running(sandbox) == 0
        for _ in range(3):
            sandbox.run(IDENTITY, "f", [[1]])
        assert _running(sandbox) == 1


def test_threads_get_their_own_results() -> None:
    with Sandbox(workers=2, preload=()) as sandbox, ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda n: sandbox.run(IDENTITY, "f", [[n], [n + 1]]).outputs, range(60)))
    assert results == [[n, n + 1] for n in range(60)]


def test_programs_run_at_the_same_time() -> None:
    sleeper = "import time\ndef f(x):\n    time.sleep(600)\n"
    with Sandbox(workers=2, preload=(), level=Level.LANDLOCK_SECCOMP, retries=0) as sandbox:
        thread = threading.Thread(target=sandbox.run, args=(sleeper, "f", [[1]], Limits(wall_seconds=300.0)))
        thread.start()
        busy = _until_busy(sandbox)
        assert sandbox.run(IDENTITY, "f", [[1]]).outputs == [1]
        assert thread.is_alive()
        os.kill(busy, signal.SIGKILL)
        thread.join()


def test_a_program_ends_with_its_fork_server() -> None:
    sleeper = "import time\ndef f(x):\n    print(1)\n    time.sleep(600)\n"
    with Sandbox(workers=1, preload=(), level=Level.LANDLOCK_SECCOMP, retries=0) as sandbox:
        sandbox.run(IDENTITY, "f", [[1]])
        server = sandbox.workers[0].pid
        thread = threading.Thread(target=sandbox.run, args=(sleeper, "f", [[1]], Limits(wall_seconds=300.0)))
        thread.start()
        worker = sandbox.workers[0]
        assert isinstance(worker, ForkServer)
        log = worker._descriptors[2]
        wait_until(lambda: os.pread(log, 1, 0) == b"1", "the program did not start")
        (child,) = descendants(server)
        os.kill(server, signal.SIGKILL)
        thread.join()
    wait_until(lambda: is_gone(child), "the program outlived its fork-server")


def test_a_fork_server_is_replaced_after_its_share_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evovpo.sandbox.worker.RECYCLE_AFTER", 2)
    with Sandbox(workers=1, preload=()) as sandbox:
        pids = []
        for number in range(5):
            assert sandbox.run(IDENTITY, "f", [[number]]).outputs == [number]
            pids.append(sandbox.workers[0].pid)
    assert [pids[0] == pids[1], pids[1] == pids[2], pids[2] == pids[3]] == [True, False, True]


def test_a_fork_server_that_dies_is_counted_and_the_program_runs_again() -> None:
    with Sandbox(workers=1, preload=(), level=Level.LANDLOCK_SECCOMP) as sandbox:
        sandbox.run(IDENTITY, "f", [[1]])
        pid = sandbox.workers[0].pid
        os.kill(pid, signal.SIGKILL)
        result = sandbox.run(IDENTITY, "f", [[2]])
    assert (result.status, result.outputs, sandbox.failures) == (Status.OK, [2], 1)


def test_a_fault_of_the_sandbox_that_stays_becomes_a_result() -> None:
    impossible = Limits(open_files=1)  # the fork-server cannot even watch the child
    with Sandbox(workers=1, preload=()) as sandbox:
        result = sandbox.run(IDENTITY, "f", [[1], [2]], impossible)
        assert (result.status, result.outputs) == (Status.SANDBOX_ERROR, [None, None])
        assert (result.errors, sandbox.failures) == ([None, None], 3)
        assert sandbox.run(IDENTITY, "f", [[1]]).status is Status.OK


def test_closing_twice_is_fine_and_running_afterwards_is_not() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    sandbox = Sandbox(workers=2, preload=())
    sandbox.run(IDENTITY, "f", [[1]])
    sandbox.close()
    sandbox.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    with pytest.raises(SandboxError, match="closed"):
        sandbox.run(IDENTITY, "f", [[1]])


def test_closing_waits_for_the_program_that_runs() -> None:
    sandbox = Sandbox(workers=1, preload=())
    sandbox.run(IDENTITY, "f", [[1]])
    results = []
    code = "import time\ndef f(x):\n    time.sleep(0.5)\n    return x\n"
    thread = threading.Thread(target=lambda: results.append(sandbox.run(code, "f", [[7]])))
    thread.start()
    wait_until(lambda: sandbox._free.empty() or results, "the program did not start")
    sandbox.close()
    thread.join()
    assert results[0].outputs == [7]


@pytest.mark.parametrize("level", LEVELS)
def test_everything_ends_with_the_supervisor(level: Level) -> None:
    program = (
        "from evovpo.sandbox import Level, Sandbox\nfrom evovpo.types import Limits\n"
        f"level = Level({str(level)!r})\n"
        "s = Sandbox(workers=1, preload=(), level=level, minimum_level=level)\n"
        "s.run('def f(x): return x', 'f', [[1]])\n"
        "print(s.workers[0].pid, flush=True)\n"
        "s.run('import time\\ndef f(x): time.sleep(600)', 'f', [[1]], Limits(wall_seconds=300.0))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as supervisor:
        server = int(supervisor.stdout.readline())
        wait_until(lambda: len(descendants(server)) >= 1, "no child of the fork-server came up")
        family = [server, *descendants(server)]
        supervisor.kill()
    wait_until(lambda: all(map(is_gone, family)), f"still there: {family}")


# --- weaker levels


def test_without_isolation_limits_hold_and_the_result_says_so() -> None:
    with Sandbox(workers=1, preload=(), level=Level.NONE, minimum_level=Level.NONE) as sandbox:
        result = sandbox.run(IDENTITY, "f", [[1]])
        assert (result.status, result.outputs, result.isolation) == (Status.OK, [1], "none")
        reads = "def f(x):\n    return open('/proc/stat').read(3)\n"
        assert sandbox.run(reads, "f", [[1]]).outputs == ["cpu"]
        assert sandbox.run("def f(x):\n    return bytearray(1 << 40)\n", "f", [[1]]).status is Status.MEMORY


# --- what a machine offers


STRONG = IsolationSupport(7, True, "")
OFFERS = {
    Level.NONE: IsolationSupport(0, False, "not installed"),
    Level.SECCOMP: IsolationSupport(0, True, ""),
    Level.LANDLOCK_SECCOMP: IsolationSupport(7, True, "refused (setting up uid map: Permission denied)"),
    Level.BWRAP_LANDLOCK_SECCOMP: STRONG,
}


def test_bubblewrap_is_not_used_where_it_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVOVPO_WITHOUT_BWRAP", "1")
    assert bwrap_refusal() == "hidden by EVOVPO_WITHOUT_BWRAP"


@pytest.mark.parametrize("skipped", list(Level))
def test_a_test_of_a_level_fails_where_the_level_is_on_offer_and_it_is_skipped(
    skipped: Level, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest((Path(__file__).parents[1] / "conftest.py").read_text())
    pytester.makepyfile(
        "import pytest\n"
        "from evovpo.sandbox import Level\n"
        f"@pytest.mark.isolation(Level({str(skipped)!r}))\n"
        "def test_of_a_level():\n"
        "    pytest.skip('for no good reason')\n"
    )
    is_offered = skipped in probe().levels
    ended = pytester.runpytest_inprocess("-rs")
    ended.assert_outcomes(failed=int(is_offered), skipped=int(not is_offered))
    said = f"skipped, although this machine offers {skipped}: *for no good reason*"
    ended.stdout.fnmatch_lines([said if is_offered else f"*this machine does not offer {skipped}: *"])


@pytest.mark.parametrize("strongest", list(Level))
@pytest.mark.parametrize("minimum", list(Level))
def test_the_strongest_level_on_offer_is_taken_unless_it_is_below_the_minimum(
    strongest: Level, minimum: Level
) -> None:
    offer = OFFERS[strongest]
    if list(Level).index(strongest) >= list(Level).index(minimum):
        assert choose_level(offer, minimum) is strongest
    else:
        with pytest.raises(SandboxError, match=rf"level {re.escape(minimum)} or better .*minimum_level to "):
            choose_level(offer, minimum)


def test_the_refusal_says_what_is_missing_and_what_to_do() -> None:
    with pytest.raises(SandboxError, match=r"Landlock not available; seccomp not .* use Linux 5\.13"):
        choose_level(OFFERS[Level.NONE], Level.LANDLOCK_SECCOMP)
    with pytest.raises(SandboxError, match=r"uid map: Permission denied.* install bubblewrap"):
        choose_level(OFFERS[Level.LANDLOCK_SECCOMP], Level.BWRAP_LANDLOCK_SECCOMP)


def test_another_system_than_linux_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SandboxError, match=r"Linux only, this is darwin; use a Linux machine, a container"):
        probe.__wrapped__()


def test_a_level_that_is_named_is_taken_and_never_replaced_by_another() -> None:
    assert choose_level(STRONG, Level.SECCOMP, Level.LANDLOCK_SECCOMP) is Level.LANDLOCK_SECCOMP
    with pytest.raises(SandboxError, match=r"level none is below the minimum seccomp"):
        choose_level(STRONG, Level.SECCOMP, Level.NONE)


# --- starts that fail


def run_in_fork_server(level: Level, folder: Path) -> None:
    ForkServer(WorkerSettings(level)).run(IDENTITY, "f", [[1]], Limits(), False)


def run_whole(level: Level, folder: Path) -> None:
    with WholeSandbox(folder, level=level, minimum_level=level) as sandbox:
        sandbox.run(JOB)


def run_by_proxy(level: Level, folder: Path) -> None:
    with ProxySandbox(folder, level=level, minimum_level=level, workers=1) as sandbox:
        sandbox.run(JOB)


JOB = WholeJob({"program.py": IDENTITY}, "program.py", "evaluator.py")
WAYS = [run_in_fork_server, run_whole, run_by_proxy]


@pytest.mark.parametrize("level", [LEVELS[0], *LEVELS[-2:]])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("python", ["/nowhere/python", "", "is-not-a-program"])
def test_a_python_that_cannot_be_started_is_one_clear_error_and_leaves_nothing_open(
    python: str,
    way: Callable[[Level, Path], None],
    level: Level,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "evaluator.py").write_text("def evaluate(path):\n    return {}\n")
    if python == "is-not-a-program":
        python = str(tmp_path / python)
        Path(python).write_text("a text")
    probe()  # finds out what works with the Python that does
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    monkeypatch.setattr(sys, "executable", python)
    with pytest.raises(SandboxError) as refused:
        way(level, tmp_path)
    assert str(refused.value) == (
        f"programs are run by the Python at {python!r}: expected that it starts, "
        f"found no program at {python!r}; if that Python is gone, make its virtual environment again, "
        "or else free memory, processes and open files"
    )
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_system_that_starts_no_process_is_the_same_error(
    way: Callable[[Level, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evaluator.py").write_text("def evaluate(path):\n    return {}\n")
    (tmp_path / "python").write_bytes(b"\x7fELF, and then nothing")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(SandboxError, match=r"found \[Errno 8\] Exec format error.*virtual environment again"):
        way(Level.NONE, tmp_path)


def test_a_start_that_fails_later_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe()
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    server = ForkServer(WorkerSettings(Level.NONE, preload=("no_such_module",)))
    with pytest.raises(SandboxError, match="no_such_module"):
        server.run(IDENTITY, "f", [[1]], Limits(), False)
    (tmp_path / "python").write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(SandboxError, match="did not start: broken; run"):
        run_in_fork_server(Level.NONE, tmp_path)
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_module_that_starts_threads_is_not_preloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    (tmp_path / "threaded_module.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    server = ForkServer(WorkerSettings(Level.LANDLOCK_SECCOMP, preload=("threaded_module",)))
    with pytest.raises(SandboxError, match="started 1 threads"):
        server.run(IDENTITY, "f", [[1]], Limits(), False)


def _running(sandbox: Sandbox) -> int:
    return sum(worker.pid is not None for worker in sandbox.workers)


def _until_busy(sandbox: Sandbox) -> int:
    """Return the fork-server that runs a program, as soon as one does."""

    def busy() -> list[int]:
        return [worker.pid for worker in sandbox.workers if worker.pid and descendants(worker.pid)]

    wait_until(busy, "no program started")
    return busy()[0]
