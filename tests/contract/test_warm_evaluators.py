"""Evaluators that are imported once: what evaluations share, what they do not, and when each imports anew."""

import os
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from openevolve_problems import LOAD

from evovpo.sandbox import Level, WholeJob, WholeResult, WholeSandbox
from evovpo.types import Limits, Status

pytestmark = pytest.mark.slow

LIMITS = Limits(wall_seconds=60.0, cpu_seconds=20, memory_mb=1000, processes=8, open_files=128)


@contextmanager
def evaluating(folder: Path, evaluator: str, level: Level) -> Iterator[WholeSandbox]:
    (folder / "evaluator.py").write_text("import os\n" + LOAD + textwrap.dedent(evaluator))
    with WholeSandbox(folder, workers=1, level=level, retries=0) as sandbox:
        yield sandbox


def run(sandbox: WholeSandbox, code: str = "", limits: Limits = LIMITS) -> WholeResult:
    return sandbox.run(WholeJob({"program.py": textwrap.dedent(code)}, "program.py", "evaluator.py"), limits)


def metrics(sandbox: WholeSandbox, code: str = "") -> dict[str, object]:
    result = run(sandbox, code)
    assert result.status is Status.OK, result
    return dict(result.metrics)


def test_the_evaluator_is_imported_once_for_all_evaluations(level: Level, tmp_path: Path) -> None:
    evaluator = """
    import os
    import numpy
    IMPORTED_BY = os.getpid()
    def evaluate(path):
        return {"importer": IMPORTED_BY, "own": os.getpid() == IMPORTED_BY, "sum": numpy.ones(3).sum()}
    """
    with evaluating(tmp_path, evaluator, level) as sandbox:
        found = [run(sandbox) for _ in range(4)]
        assert sandbox.remarks == ()
    first, *others = (dict(result.metrics) for result in found)
    assert first["own"] is False
    assert first["sum"] == 3.0
    assert others == [first] * 3


def test_nothing_of_an_evaluation_reaches_the_next(level: Level, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("7")
    evaluator = """
    import random, sys
    SEEN, COUNT = [], [0]
    def shared():
        try: return os.listdir("/dev/shm")
        except PermissionError: return []
    def evaluate(path):
        _load(path).f(sys.modules[__name__])
        return {"seen": SEEN, "count": COUNT[0], "here": sorted(os.listdir(".")),
                "data": open("data.txt").read(), "shared": shared(), "marked": "X" in os.environ}
    """
    spoils = """
    import builtins, mmap, os, sys
    def f(evaluator):
        evaluator.SEEN.append(1)
        evaluator.COUNT[0] += 1
        evaluator.LEFT = builtins.LEFT = 5
        os.environ["X"] = "1"
        with open("data.txt", "r+b") as file, mmap.mmap(file.fileno(), 1) as mapped:
            mapped[0] = 56
        open("left", "w").close()
        os.mkdir("deep", 0o300)
        os.mkdir("deep/er", 0)
        os.symlink("$outside", "deep/link")
        try: open("/dev/shm/left", "w").close()
        except OSError: pass
    """
    looks = """
    def f(evaluator):
        assert not hasattr(evaluator, "LEFT") and "LEFT" not in dir(__builtins__)
    """
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    spoils = spoils.replace("$outside", str(outside))
    with evaluating(tmp_path, evaluator, level) as sandbox:
        before = metrics(sandbox, looks)
        spoilt = metrics(sandbox, spoils)
        after = metrics(sandbox, looks)
    assert (spoilt["seen"], spoilt["data"], spoilt["marked"]) == ([1], "8", True)
    assert after == before
    assert (tmp_path / "data.txt").read_text() == "7"
    assert outside.stat().st_mode & 0o777 == 0o755


def test_a_candidate_cannot_reach_the_process_that_forks_the_next(level: Level, tmp_path: Path) -> None:
    code = """
    import os, signal
    def f(evaluator):
        done = []
        for process in {os.getppid(), -os.getppid()}:
            for number in (signal.SIGKILL, signal.SIGSTOP, 0):
                try: os.kill(process, number)
                except OSError: continue
                done.append(number)
        for name in ("mem", "maps", "environ", "root"):
            try: os.open(f"/proc/{os.getppid()}/{name}", os.O_RDWR if name == "mem" else os.O_RDONLY)
            except OSError: continue
            done.append(name)
        evaluator.DONE = done
    """
    evaluator = """
    import sys
    def evaluate(path):
        _load(path).f(sys.modules[__name__])
        return {"done": DONE}
    """
    with evaluating(tmp_path, evaluator, level) as sandbox:
        assert metrics(sandbox, code) == {"done": []}
        assert metrics(sandbox, code) == {"done": []}


@pytest.mark.parametrize(
    ("at_import", "reason"),
    [
        ("import threading, time; threading.Timer(99, print).start()", "threads"),
        ("import subprocess; CHILD = subprocess.Popen(['sleep', '99'])", "processes"),
        ("import os; LINES = open(__file__)", "files or devices open"),
        ("import mmap; SHARED = mmap.mmap(-1, 4096)", "memory that processes share"),
        ("open('made', 'w').close()", "wrote files"),
        ("import os; os.mkdir('made'); os.rmdir('made'); os.chdir('data')", "went to a folder"),
        ("import os\nif not os.path.exists('program.py'): raise OSError", "raised OSError"),
    ],
)  # fmt: skip
def test_what_forking_does_not_carry_over_is_imported_anew_each_time_and_said(
    level: Level, at_import: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("")
    evaluator = (
        f"{at_import}\nimport os\nOWN = os.getpid()\ndef evaluate(path): return {{'own': OWN == os.getpid()}}"
    )
    with evaluating(tmp_path, evaluator, level) as sandbox:
        assert [metrics(sandbox), metrics(sandbox)] == [{"own": True}] * 2
        (remark,) = sandbox.remarks
    assert "imported anew for every evaluation" in remark
    assert reason in remark


def test_an_import_that_hangs_ends_as_the_evaluation_that_it_is(tmp_path: Path) -> None:
    (tmp_path / "evaluator.py").write_text("import time\ntime.sleep(600)\n")
    with WholeSandbox(tmp_path, workers=1, retries=0) as sandbox:
        result = run(sandbox, limits=Limits(wall_seconds=1.0))
    assert (result.status, result.detail) == (Status.TIMEOUT, "wall-clock limit of 1 s")


def test_generators_are_seeded_as_importing_left_them(level: Level, tmp_path: Path) -> None:
    draws = "def evaluate(path): return {'r': random.random(), 'n': numpy.random.random()}"
    with evaluating(tmp_path, f"import random, numpy\n{draws}", level) as sandbox:
        assert len({str(metrics(sandbox)) for _ in range(3)}) == 3
    seeded = f"import random, numpy\nrandom.seed(3); numpy.random.seed(3)\n{draws}"
    with evaluating(tmp_path, seeded, level) as sandbox:
        found = [metrics(sandbox) for _ in range(3)]
    plain: dict[str, object] = {}
    exec(seeded, plain)
    assert found == [plain["evaluate"]("")] * 3  # type: ignore[operator]


def test_a_copy_that_a_candidate_forks_has_no_word_in_the_result(level: Level, tmp_path: Path) -> None:
    with evaluating(tmp_path, "def evaluate(path): return {'x': _load(path).f()}", level) as sandbox:
        assert metrics(sandbox, "import os\ndef f():\n    return 1 if os.fork() else 2") == {"x": 1}


@pytest.mark.parametrize(("files", "size"), [(201, 1), (1, 9 << 20)])
def test_a_large_project_is_linked_and_that_is_said(files: int, size: int, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(files):
        (tmp_path / "data" / f"{number}.txt").write_text("x" * size)
    evaluator = """
    def evaluate(path):
        try: writes = bool(open("data/0.txt", "a"))
        except OSError: writes = False
        return {"size": len(open("data/0.txt").read()), "writes": writes, "files": len(os.listdir("data"))}
    """
    with evaluating(tmp_path, evaluator, Level.LANDLOCK_SECCOMP) as sandbox:
        assert metrics(sandbox) == {"size": size, "writes": False, "files": files}
        assert "links to its files" in sandbox.remarks[0]
    assert os.listdir(tmp_path / "data")  # noqa: PTH208
