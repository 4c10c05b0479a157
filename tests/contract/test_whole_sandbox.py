"""Evaluators that import their candidate: what they can do, how each crash ends, what stays untouched."""

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from openevolve_problems import LOAD
from running import wait_until

import evovpo
from evovpo.errors import ConfigError, SandboxError
from evovpo.sandbox import Level, WholeJob, WholeResult, WholeSandbox, evaluators, watched, worker
from evovpo.sandbox.forkserver import processes, strict_json
from evovpo.sandbox.probe import IsolationSupport
from evovpo.sandbox.result import ChildReport, judge_whole
from evovpo.types import Limits, Status

pytestmark = pytest.mark.slow

QUICK = Limits(wall_seconds=60.0, cpu_seconds=20, memory_mb=400, processes=8, threads=4)
ENDLESS = dataclasses.replace(QUICK, cpu_seconds=1)
"""For what never ends: its CPU limit ends it, so a busy machine changes nothing."""
SLEEP = f"98765.{os.getpid()}"
"""Seconds that the processes below sleep: no other test, here or beside this one, sleeps as long."""


CALLS_F = (
    LOAD
    + """
def evaluate(program_path):
    found = _load(program_path).f()
    return found if isinstance(found, dict) else {"combined_score": 1.0, "found": found}
"""
)
"""An evaluator whose metrics are what the candidate's `f()` says."""


@pytest.fixture(scope="module")
def sandbox(level: Level, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeSandbox]:
    folder = tmp_path_factory.mktemp("evaluator")
    (folder / "evaluator.py").write_text(CALLS_F)
    with WholeSandbox(folder, level=level, retries=0) as opened:
        yield opened


def run(sandbox: WholeSandbox, code: str, limits: Limits = QUICK) -> WholeResult:
    return sandbox.run(WholeJob({"program.py": textwrap.dedent(code)}, "program.py", "evaluator.py"), limits)


def evaluated(
    folder: Path,
    evaluator: str,
    program: str = "x = 2\n",
    functions: tuple[str, ...] = ("evaluate",),
    thresholds: tuple[float, ...] = (),
    limits: Limits = QUICK,
) -> WholeResult:
    """Return what an evaluator of this text says, in the strongest sandbox."""
    (folder / "evaluator.py").write_text(textwrap.dedent(evaluator))
    job = WholeJob({"program.py": program}, "program.py", "evaluator.py", functions, thresholds)
    with WholeSandbox(folder, workers=1) as sandbox:
        return sandbox.run(job, limits)


# ---------------------------------------------------------------- evaluators


def test_an_evaluator_gets_the_program_by_its_name_and_finds_what_lies_beside_it(
    level: Level, tmp_path: Path
) -> None:
    (tmp_path / "helper.py").write_text("FACTOR = 3\n")
    (tmp_path / "table.txt").write_text("7")
    (tmp_path / "evaluator.py").write_text(
        "import os, sys, helper\n"
        "def evaluate(program_path, config=None):\n"
        "    name = os.path.basename(program_path).removesuffix('.py')\n"
        "    sys.path.insert(0, os.path.dirname(program_path))\n"
        "    table = open(os.path.join(os.path.dirname(__file__), 'table.txt')).read()\n"
        "    return {'product': __import__(name).x * helper.FACTOR, 'table': table, 'name': name,\n"
        "            'here': sorted(os.listdir('.')), 'home': os.environ['HOME'] == os.getcwd()}\n"
    )
    job = WholeJob({"initial_program.py": "x = 2\n"}, "initial_program.py", "evaluator.py")
    with WholeSandbox(tmp_path, level=level) as sandbox:
        result = sandbox.run(job, QUICK)
    assert result.status is Status.OK, result
    assert dict(result.metrics) == {
        "product": 6, "table": "7", "name": "initial_program", "home": True,
        "here": ["evaluator.py", "helper.py", "initial_program.py", "table.txt"],
    }  # fmt: skip
    assert (result.isolation, result.detail, result.log) == (level, "", "")
    assert result.cpu_ms > 0


def test_evaluation_results_with_artifacts_are_understood_without_loading_all_of_openevolve(
    tmp_path: Path,
) -> None:
    pytest.importorskip("openevolve.evaluation_result")
    result = evaluated(
        tmp_path,
        """
        import sys
        from openevolve.evaluation_result import EvaluationResult
        def evaluate(path):
            light = "openevolve.controller" not in sys.modules
            artifacts = {"stderr": "warned", "raw": b"a\\xff", "long": "x" * 9000}
            return EvaluationResult(metrics={"combined_score": 0.5, "light": light}, artifacts=artifacts)
        """,
    )
    assert result.status is Status.OK, result
    assert dict(result.metrics) == {"combined_score": 0.5, "light": True}
    artifacts = dict(result.artifacts)
    assert (artifacts["stderr"], artifacts["raw"]) == ("warned", "a\ufffd")
    assert len(artifacts["long"]) == strict_json.TEXT_LIMIT


def test_the_whole_package_is_there_for_whoever_asks_for_a_name_of_it(tmp_path: Path) -> None:
    pytest.importorskip("openevolve")
    result = evaluated(
        tmp_path,
        """
        def evaluate(path):
            import openevolve
            from openevolve import evaluation_result
            return {"name": openevolve.Config.__name__, "module": evaluation_result.__name__}
        """,
        limits=Limits(wall_seconds=60.0, cpu_seconds=30, memory_mb=1000, threads=8, processes=8),
    )
    assert dict(result.metrics) == {"name": "Config", "module": "openevolve.evaluation_result"}, result


CASCADE = """
    def evaluate_stage1(path): return {"combined_score": 0.6, "a": 1}
    def evaluate_stage2(path): return {"combined_score": 0.2, "b": True}
    def evaluate_stage3(path): return {"c": "end"}
    """
STAGES = ("evaluate_stage1", "evaluate_stage2", "evaluate_stage3")


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [
        ((0.7, 0.0), {"combined_score": 0.6, "a": 1}),
        ((0.6, 0.3), {"combined_score": 0.2, "a": 1, "b": True}),
        ((0.6, 0.2), {"combined_score": 0.2, "a": 1, "b": True, "c": "end"}),
    ],
)
def test_a_cascade_stops_at_the_stage_that_misses_its_threshold(
    tmp_path: Path, thresholds: tuple[float, ...], expected: Mapping[str, object]
) -> None:
    result = evaluated(tmp_path, CASCADE, functions=STAGES, thresholds=thresholds)
    assert dict(result.metrics) == expected


def test_a_stage_that_is_missing_or_raises_leaves_what_was_measured_before(tmp_path: Path) -> None:
    for text, status in (
        ("def evaluate_stage1(path): return {'combined_score': 0.9}", Status.OK),
        (CASCADE.replace('{"combined_score": 0.2, "b": True}', "1 / 0"), Status.ERROR),
    ):
        result = evaluated(tmp_path, text, functions=STAGES, thresholds=(0.5, 0.5))
        assert (result.status, len(result.metrics)) == (status, 1 + (status is Status.ERROR))


def test_an_evaluator_can_be_loaded_alone(tmp_path: Path) -> None:
    assert evaluated(tmp_path, "x = 1", functions=()).status is Status.OK
    broken = evaluated(tmp_path, "import nowhere", functions=())
    assert broken.status is Status.ERROR
    assert broken.detail.startswith("ModuleNotFoundError: No module named 'nowhere'\n  File \"evaluator.py\"")
    missing = evaluated(tmp_path, "x = 1")
    assert missing.detail.startswith("AttributeError: the evaluator defines no function 'evaluate'")


def test_threads_and_processes_are_there_up_to_the_limit(sandbox: WholeSandbox) -> None:
    code = """
    import subprocess, sys, threading
    from concurrent.futures import ThreadPoolExecutor
    def f():
        with ThreadPoolExecutor(2) as pool:
            squares = list(pool.map(lambda n: n * n, range(4)))
        text = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout
        with open("kept.txt", "w") as file: file.write(text)
        return {"squares": squares, "text": open("kept.txt").read()}
    """
    result = run(sandbox, code)
    assert dict(result.metrics) == {"squares": [0, 1, 4, 9], "text": "42\n"}, result


@pytest.mark.isolation(Level.BWRAP_LANDLOCK_SECCOMP)
def test_multiprocessing_works_in_namespaces(tmp_path: Path) -> None:
    result = evaluated(
        tmp_path,
        """
        from concurrent.futures import ProcessPoolExecutor
        def evaluate(path):
            with ProcessPoolExecutor(2) as pool:
                return {"sizes": list(pool.map(len, ["a", "bc"]))}
        """,
        limits=Limits(wall_seconds=60.0, processes=8, threads=8),
    )
    assert dict(result.metrics) == {"sizes": [1, 2]}, result


# ---------------------------------------------------------------- metrics


def test_metrics_of_every_kind_become_json(sandbox: WholeSandbox) -> None:
    code = """
    import numpy as np
    class Odd:
        def __repr__(self): return "odd"
    def f():
        return {"f": np.float32(0.5), "i": np.int64(7), "b": np.bool_(True), "a": np.arange(3.0), "t": True,
                "nan": float("nan"), "inf": np.inf, "low": -np.inf, "s": "text", "n": None, "zero": -0.0,
                "d": {"x": (1, [np.float64("nan")])}, "o": Odd(), "big": 10 ** 50, 3: 4}
    """
    result = run(sandbox, code)
    assert result.status is Status.OK, result
    assert dict(result.metrics) == {
        "f": 0.5, "i": 7, "b": True, "a": [0.0, 1.0, 2.0], "t": True, "nan": "nan", "inf": "inf",
        "low": "-inf", "s": "text", "n": None, "zero": 0.0, "d": {"x": [1, ["nan"]]}, "o": "odd",
        "big": str(10**50), "3": 4,
    }  # fmt: skip
    assert type(dict(result.metrics)["b"]) is bool
    assert [name for name, _ in result.metrics][:2] == ["f", "i"]


@pytest.mark.parametrize("returned", ["None", "0.5", "[1]", "'text'"])
def test_what_is_no_metrics_is_an_error(tmp_path: Path, returned: str) -> None:
    result = evaluated(tmp_path, f"def evaluate(path): return {returned}")
    assert result.status is Status.ERROR
    assert "expected a dictionary of metrics or an object with `metrics`" in result.detail


def test_long_texts_and_deep_values_are_cut() -> None:
    deep: list[object] = []
    for _ in range(100):
        deep = [deep]
    assert len(str(strict_json.plain(deep))) < 400
    assert len(strict_json.plain("é" * 9999)) == strict_json.TEXT_LIMIT
    many = strict_json.capped((f"a{n}", "x" * 3000) for n in range(50))
    assert sum(len(name) + len(text) for name, text in many) <= strict_json.ARTIFACTS_LIMIT
    assert len(many) == 6


def test_a_cascade_compares_the_combined_score_or_the_mean() -> None:
    assert strict_json.score_of({"combined_score": 0.5, "a": 9}) == 0.5
    assert strict_json.score_of({"a": 1, "b": 2.0, "c": True, "d": "nan"}) == 1.5
    assert strict_json.score_of({"combined_score": "nan"}) == 0.0


# ---------------------------------------------------------------- endings


ENDINGS = {
    "raises": ("def f(): return {}['k']", Status.ERROR, "KeyError: 'k'"),
    "does not load": ("def f(", Status.ERROR, "SyntaxError"),
    "exits": ("import os\ndef f(): os._exit(3)", Status.CRASH, "exit status 3"),
    "infinite loop": ("def f():\n    while True: pass", Status.TIMEOUT, "CPU limit of 1 s"),
    "kills itself": ("import os\ndef f(): os.kill(os.getpid(), 9)", Status.CRASH, "SIGKILL"),
    "kills its parent": ("import os\ndef f(): os.kill(os.getppid(), 9)", Status.FORBIDDEN, "PermissionError"),
    "10 GB": ("def f(): return len(bytearray(10 << 30))", Status.MEMORY, "MemoryError"),
    "ptrace": (
        "import ctypes\ndef f(): return ctypes.CDLL(None).ptrace(0x4206, 1, 0, 0)",
        Status.FORBIDDEN,
        "a system call",
    ),
    "large result": ("def f(): return {str(n): 'x' * 3000 for n in range(900)}", Status.OUTPUT_LIMIT, ""),
    "hangs in a thread": (
        "import threading, time\ndef f():\n    threading.Thread(target=time.sleep, args=(999,)).start()",
        Status.OK,
        "",
    ),
}
"""Endings and what is said of them; the table of attacks has more."""


@pytest.mark.parametrize("name", ENDINGS)
def test_every_way_to_end_has_its_status_and_the_next_evaluation_works(
    name: str, sandbox: WholeSandbox
) -> None:
    code, status, detail = ENDINGS[name]
    result = run(sandbox, code, ENDLESS if name == "infinite loop" else QUICK)
    assert result.status is status, result
    assert detail in result.detail
    assert dict(run(sandbox, "def f(): return 'next'").metrics)["found"] == "next"


def test_an_error_names_the_lines_that_led_to_it_but_not_where_they_lie(sandbox: WholeSandbox) -> None:
    result = run(sandbox, "def f():\n    return g(3)\n\ndef g(n):\n    return n / 0\n")
    assert result.detail == (
        "ZeroDivisionError: division by zero\n"
        '  File "evaluator.py", line 11, in evaluate\n'
        "    found = _load(program_path).f()\n"
        "            ^^^^^^^^^^^^^^^^^^^^^^^\n"
        '  File "program.py", line 2, in f\n'
        "    return g(3)\n"
        "           ^^^^\n"
        '  File "program.py", line 5, in g\n'
        "    return n / 0\n"
        "           ~~^~~"
    )


def test_output_is_kept_up_to_the_limit_and_a_flood_does_no_harm(sandbox: WholeSandbox) -> None:
    code = "import os\ndef f():\n    print('start')\n    for _ in range(100): os.write(1, b'x' * (1 << 20))\n"
    result = run(sandbox, code)
    assert (result.status, len(result.log)) == (Status.OK, 64 << 10)
    assert result.log.startswith("start\nxxx")
    endless = run(sandbox, "import os\ndef f():\n    while True: os.write(2, b'x' * (1 << 20))\n", ENDLESS)
    assert endless.status in (Status.OUTPUT_LIMIT, Status.TIMEOUT)
    assert len(endless.log) == 64 << 10


# ---------------------------------------------------------------- processes


def marked() -> list[int]:
    """Return the processes that the tests below leave behind: they sleep for a time of their own."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes() == f"sleep\0{SLEEP}\0".encode():
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.parametrize(
    ("ending", "status"), [("return 0", Status.OK), ("os.kill(os.getpid(), 9)", Status.CRASH)]
)
def test_children_do_not_outlive_the_evaluation(ending: str, status: Status, sandbox: WholeSandbox) -> None:
    code = f"""
    import os, subprocess
    def f():
        subprocess.Popen(["sleep", "{SLEEP}"])
        subprocess.Popen(["sleep", "{SLEEP}"], start_new_session=True)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "{SLEEP}"])
            os._exit(0)
        os.wait()
        {ending}
    """
    result = run(sandbox, code)
    assert result.status is status, result
    assert marked() == []


def test_no_process_at_all_without_leave(sandbox: WholeSandbox) -> None:
    code = """
    import os, threading, time
    def f():
        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
        time.sleep(5)
    """
    result = run(sandbox, code, Limits(wall_seconds=30.0))
    assert result.status in (Status.FORBIDDEN, Status.ERROR), result


def test_everything_ends_with_the_supervisor(level: Level, tmp_path: Path) -> None:
    (tmp_path / "evaluator.py").write_text(
        "import os, subprocess\ndef evaluate(path):\n"
        f"    subprocess.Popen(['sleep', '{SLEEP}'], start_new_session=True).wait()\n"
    )
    program = (
        "from evovpo.sandbox import Level, WholeJob, WholeSandbox\nfrom evovpo.types import Limits\n"
        f"s = WholeSandbox({str(tmp_path)!r}, level=Level({str(level)!r}))\n"
        "job = WholeJob({'p.py': ''}, 'p.py', 'evaluator.py')\n"
        f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}\n"
        "s.run(job, Limits(wall_seconds=300.0, processes=4))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as supervisor:
        wait_until(lambda: len(marked()) == 1, "the evaluation did not start")
        supervisor.kill()
    wait_until(lambda: marked() == [], "a process outlived the supervisor")
    wait_until(lambda: not list(tmp_path.glob("evovpo-*")), "the private folder is still there")


def test_a_watcher_that_hangs_is_ended_with_all_it_started(
    sandbox: WholeSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "ANSWER_SECONDS", 0.2 - 300.0)  # so it may take 0.2 s
    monkeypatch.setattr(worker, "END_SECONDS", 0.1)
    send = socket.send_fds

    def send_and_stop_the_watcher(*arguments: Any) -> int:
        sent = send(*arguments)
        wait_until(lambda: len(marked()) == 1, "the evaluation did not start")
        (sleeper,) = marked()
        for process in _ancestors(sleeper):
            if b"__main__.py\0watcher\0" in Path(f"/proc/{process}/cmdline").read_bytes():
                os.kill(process, signal.SIGSTOP)
        return sent

    monkeypatch.setattr(socket, "send_fds", send_and_stop_the_watcher)
    code = f"import subprocess\ndef f(): subprocess.run(['sleep', '{SLEEP}'])"
    result = run(sandbox, code, Limits(wall_seconds=300.0, processes=4))
    assert (result.status, "does not answer" in result.detail) == (Status.SANDBOX_ERROR, True)
    wait_until(lambda: marked() == [], "a process outlived its watcher")


# ---------------------------------------------------------------- the machine


def test_nothing_of_the_project_or_the_package_changes_and_what_is_hidden_is_not_read(
    level: Level, tmp_path: Path
) -> None:
    file, hidden = tmp_path / "evaluator.py", tmp_path / "answers.db"
    file.write_text(CALLS_F)
    hidden.write_text("ANSWERS")
    (tmp_path / "open.txt").write_text("open")
    before = {path: path.stat() for path in (file, tmp_path)}
    refused = {
        "hidden": f"open({str(hidden)!r})",
        "evovpo": f"open({evovpo.__file__!r})",
        "memory": "open(f'/proc/{os.getppid()}/mem', 'rb')",
        "write": f"open({str(file)!r}, 'a')",
        "create": f"open({str(tmp_path / 'new')!r}, 'w')",
        "remove": f"os.unlink({str(file)!r})",
        "rename": f"os.rename({str(file)!r}, 'mine')",
        "link": f"os.link({str(file)!r}, 'linked')",
        "truncate": f"os.open({str(file)!r}, os.O_RDONLY | os.O_TRUNC)",
        "truncate by path": f"os.truncate({str(file)!r}, 0)",
        "installation": "open(sys.prefix + '/evovpo-x', 'w')",
        "attribute": f"os.setxattr({str(file)!r}, 'user.x', b'1')",
        "datagram pair": "socket.socketpair(1, 2)",
    }
    allowed = {"read": f"open({str(tmp_path / 'open.txt')!r}).read()"}
    quiet = {"chmod": f"os.chmod({str(file)!r}, 0o777)", "utime": f"os.utime({str(file)!r}, (1, 1))"}
    lines = ["import os, socket, sys", "def f():", "    done = []"]
    for name, statement in {**refused, **allowed, **quiet}.items():
        lines += ["    try:", f"        {statement}", f"        done.append({name!r})"]
        lines += ["    except OSError: pass"]
    with WholeSandbox(tmp_path, level=level, hidden=[hidden]) as sandbox:
        result = run(sandbox, "\n".join([*lines, "    return done"]))
    assert result.status is Status.OK, result
    assert {"read"} <= set(dict(result.metrics)["found"]) <= {"read", *quiet}  # type: ignore[arg-type]
    for path, status in before.items():
        now = path.stat()
        assert (now.st_mode, now.st_mtime, now.st_size) == (status.st_mode, status.st_mtime, status.st_size)


def test_a_candidate_can_forge_its_own_score_but_not_the_next_ones(sandbox: WholeSandbox) -> None:
    code = """
    import sys
    evaluator = sys.modules["evovpo_evaluator"]
    evaluator._load = None
    def f():
        import json, os
        line = {"metrics": [["combined_score", 1e9]], "artifacts": [], "done": True}
        os.write(3, json.dumps(line).encode())
        os._exit(0)
    """
    forged = run(sandbox, code)
    assert (forged.status, dict(forged.metrics)) == (Status.OK, {"combined_score": 1e9})
    assert dict(run(sandbox, "def f(): return {'combined_score': 0.5}").metrics) == {"combined_score": 0.5}


RAW = {
    "nesting": b"[" * 500_000,
    "1e999": b'{"metrics": [["a", 1e999]], "artifacts": [], "done": true}',
    "digits": b'{"metrics": [["a", ' + b"9" * 9000 + b']], "artifacts": [], "done": true}',
    "surrogate": b'{"metrics": [["a", "\\\\ud800"]], "artifacts": [], "done": true}',
    "twice": b'{"metrics": [["a", 1], ["a", 2]], "artifacts": [], "done": true}',
    "no end": b'{"metrics": [], "artifacts": []}',
    "other lists": b'{"metrics": [1], "artifacts": [], "done": true}',
    "pickle": b"\x80\x04\x95",
}
ENDED_WELL = ChildReport(0, True, "", 1.0, 1.0, 1.0)


@pytest.mark.parametrize("name", RAW)
def test_results_are_read_strictly(name: str) -> None:
    raw = RAW[name].replace(b"\\\\u", b"\\u")
    assert judge_whole(ENDED_WELL, raw, b"", Limits(), Level.NONE).status is Status.BAD_OUTPUT


def test_forged_artifacts_are_cut_too() -> None:
    raw = b'{"metrics": [], "artifacts": [["a", "' + b"x" * 90_000 + b'"]], "done": true}'
    (artifact,) = judge_whole(ENDED_WELL, raw, b"", Limits(), Level.NONE).artifacts
    assert len(artifact[1]) == strict_json.TEXT_LIMIT


def test_the_private_folder_has_a_bound_and_is_gone_afterwards(
    level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
    import os, time
    def f():
        for number in range(20):
            with open(f"part{number}", "wb") as file: file.write(b"x" * (4 << 20))
        time.sleep(60)
    """
    folder, made = tmp_path / "evaluator", tmp_path / "made"
    folder.mkdir()
    made.mkdir()
    (folder / "evaluator.py").write_text(CALLS_F)
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    with WholeSandbox(folder, workers=1, level=level, retries=0) as sandbox:
        result = run(sandbox, code, Limits(wall_seconds=30.0, disk_mb=16))
        assert result.status is Status.OUTPUT_LIMIT, result
        locked = (
            "import os\ndef f():\n    os.mkdir('a', 0); os.mkdir('b'); os.chmod('b', 0); return os.getcwd()"
        )
        assert run(sandbox, locked).status is Status.OK
        assert [path for folder in made.iterdir() for path in folder.iterdir()] == []
    assert list(made.iterdir()) == []


def test_the_same_program_gives_the_same_result_again(sandbox: WholeSandbox) -> None:
    code = "def f(): return [list({'a', 'b', 'c', 'd'}), hash('a')]"
    first, second = run(sandbox, code), run(sandbox, code)
    assert first.status is Status.OK
    assert first.metrics == second.metrics


# ---------------------------------------------------------------- levels and jobs


def test_only_strong_levels_or_none_at_all_run_evaluators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluators, "probe", lambda: IsolationSupport(0, True, "not installed"))
    with pytest.raises(SandboxError, match=r"Landlock not available.*minimum_level to none"):
        WholeSandbox(tmp_path, minimum_level=Level.SECCOMP)
    with pytest.raises(SandboxError, match="need isolation level landlock"):
        WholeSandbox(tmp_path)
    assert evaluators.whole_level(Level.NONE, None) is Level.NONE


def test_without_isolation_limits_still_hold(tmp_path: Path) -> None:
    (tmp_path / "evaluator.py").write_text(CALLS_F)
    with WholeSandbox(tmp_path, level=Level.NONE, minimum_level=Level.NONE) as sandbox:
        good = run(sandbox, "def f(): return 1")
        assert (good.status, good.isolation) == (Status.OK, "none")
        assert run(sandbox, "def f(): return len(bytearray(10 << 30))").status is Status.MEMORY
        daemon = f"import subprocess\ndef f(): subprocess.Popen(['sleep', '{SLEEP}'], start_new_session=True)"
        assert run(sandbox, daemon).status is Status.OK
    assert marked() == []


def test_a_folder_that_programs_must_not_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="is hidden from programs; move it"):
        WholeSandbox(tmp_path, hidden=[tmp_path.parent])


@pytest.mark.parametrize("name", ["../x.py", "/x.py", "a/../../x", "a//b", "."])
def test_files_outside_the_private_folder_are_refused(sandbox: WholeSandbox, name: str) -> None:
    with pytest.raises(ConfigError, match="expected a path inside its folder"):
        sandbox.run(WholeJob({name: ""}, "", "evaluator.py"))


def test_an_entry_or_an_evaluator_that_is_not_there_is_named(sandbox: WholeSandbox) -> None:
    with pytest.raises(ConfigError, match=r"entry 'p\.py' is not among"):
        sandbox.run(WholeJob({}, "p.py", "evaluator.py"))
    with pytest.raises(ConfigError, match="expected an evaluator, found no file"):
        sandbox.run(WholeJob({}, "", "other.py"))


def test_descendants_are_found_and_ended() -> None:
    command = f"import subprocess, sys; subprocess.run(['sleep', '{SLEEP}'])"
    with subprocess.Popen([sys.executable, "-c", command]) as parent:
        wait_until(lambda: len(processes.descendants(parent.pid)) == 1, "no child came up")
        tasks, _ = processes.usage(processes.descendants(parent.pid))
        assert tasks == 1
        assert processes.end_all(parent.pid)
    assert marked() == []


def _ancestors(process: int) -> Iterator[int]:
    while process > 1:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        process = int(fields[1])
        yield process
