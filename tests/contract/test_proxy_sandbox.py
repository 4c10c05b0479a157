"""The candidate behind calls: the score is the evaluator's own, whatever the candidate tries."""

import dataclasses
import json
import os
import socket
import struct
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from openevolve_problems import LOAD

from evovpo.errors import ConfigError, SandboxError
from evovpo.sandbox import Level, ProxySandbox, WholeJob, WholeResult, WholeSandbox
from evovpo.sandbox.evaluators import stub_of
from evovpo.sandbox.forkserver import calls
from evovpo.types import Limits, Status

pytestmark = pytest.mark.slow

QUICK = Limits(wall_seconds=60.0, cpu_seconds=20, memory_mb=400, processes=4, threads=4)
ENDLESS = dataclasses.replace(QUICK, cpu_seconds=1)
"""For what never ends: its CPU limit ends it, so a busy machine changes nothing."""

SECRET = (
    LOAD
    + """
import random

HIDDEN = [3, 1, 4, 1, 5]

def evaluate(program_path):
    program = _load(program_path)
    cases = [random.Random(i).sample(range(100), 6) for i in range(5)] + [HIDDEN]
    right = 0
    for case in cases:
        answer = program.solve(list(case))
        distance = sum(abs(a - b) for a, b in zip(answer, sorted(case))) + abs(len(answer) - len(case))
        right += distance == 0
    return {"combined_score": right / len(cases)}
"""
)
"""An evaluator that wants lists sorted; it trusts `abs`, `sorted`, equality and its own globals."""

HONEST = "def solve(values):\n    return sorted(values)\n"
HACKS = {
    "walks frames": """
        import sys
        def solve(values):
            frame = sys._getframe()
            while frame:
                if "right" in frame.f_locals or "HIDDEN" in frame.f_globals:
                    frame.f_globals["sorted"] = list
                    return values
                frame = frame.f_back
            return []
        """,
    "searches the heap": """
        import gc
        gc.unfreeze()
        def solve(values):
            for found in gc.get_objects():

                if isinstance(found, dict) and "HIDDEN" in found:
                    found["HIDDEN"] = []
                    found["sorted"] = lambda case: values
                    return values
            return []
        """,
    "patches builtins": """
        import builtins
        builtins.abs = lambda value: 0
        builtins.sorted = lambda values: []
        builtins.sum = lambda values: 0
        def solve(values): return []
        """,
    "rewrites the evaluator": """
        import sys
        def solve(values):
            for module in list(sys.modules.values()):
                if hasattr(module, "HIDDEN"): module.evaluate = lambda path: {"combined_score": 1.0}
            for name in ("__main__", "evovpo_evaluator"):
                if name in sys.modules: sys.modules[name].HIDDEN = []
            return []
        """,
    "returns an object equal to everything": """
        class Equal(list):
            __eq__ = lambda self, other: True
            __len__ = lambda self: 6
            __iter__ = lambda self: iter([self] * 6)
            __sub__ = __rsub__ = __abs__ = lambda self, other=0: 0
        def solve(values): return Equal()
        """,
    "returns NaN": "def solve(values):\n    return [float('nan')] * len(values)\n",
}


@pytest.fixture(scope="module")
def sandbox(level: Level, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxySandbox]:
    folder = tmp_path_factory.mktemp("evaluator")
    (folder / "evaluator.py").write_text(SECRET)
    (folder / "free.py").write_text(FREE)
    with ProxySandbox(folder, level=level, workers=1, retries=0) as opened:
        yield opened


FREE = (
    LOAD
    + """
import numpy as np

def evaluate(program_path):
    program = _load(program_path)
    try:
        return {"found": program.f(np.arange(3.0), key=[1, "a", None])}
    except AttributeError as error:
        return {"missing": str(error)}
"""
)


def run(
    sandbox: WholeSandbox, code: str, limits: Limits = QUICK, evaluator: str = "evaluator.py"
) -> WholeResult:
    return sandbox.run(WholeJob({"program.py": textwrap.dedent(code)}, "program.py", evaluator), limits)


def test_an_honest_program_has_the_whole_score(sandbox: ProxySandbox) -> None:
    result = run(sandbox, HONEST)
    assert (result.status, dict(result.metrics)) == (Status.OK, {"combined_score": 1.0}), result
    assert result.isolation == sandbox.level


@pytest.mark.parametrize("name", HACKS)
def test_no_hack_scores(name: str, sandbox: ProxySandbox) -> None:
    result = run(sandbox, HACKS[name])
    assert result.status is not Status.SANDBOX_ERROR
    assert dict(result.metrics).get("combined_score", 0.0) == 0.0, result


@pytest.mark.parametrize("name", ["walks frames", "patches builtins", "searches the heap"])
def test_the_same_hacks_score_where_both_share_a_process(name: str, tmp_path: Path) -> None:
    (tmp_path / "evaluator.py").write_text(SECRET)
    with WholeSandbox(tmp_path, workers=1, retries=0) as sandbox:
        result = run(sandbox, HACKS[name])
    assert dict(result.metrics)["combined_score"] > 0, result  # type: ignore[operator]


def test_arrays_and_nested_values_pass_both_ways(sandbox: ProxySandbox) -> None:
    code = """
    import numpy as np
    def f(array, key):
        return {"sum": array.sum(), "twice": (array * 2).astype(np.int64).tolist(), "key": key, "t": (1, 2)}
    """
    result = run(sandbox, code, evaluator="free.py")
    assert dict(result.metrics) == {
        "found": {"sum": 3.0, "twice": [0, 2, 4], "key": [1, "a", None], "t": [1, 2]}
    }
    array = run(sandbox, "def f(array, key): return array + 1", evaluator="free.py")
    assert dict(array.metrics) == {"found": [1.0, 2.0, 3.0]}


def test_what_is_no_function_is_named(sandbox: ProxySandbox) -> None:
    result = run(sandbox, "f = 3\ndef g(): return 1", evaluator="free.py")
    assert "offers only functions; 'f' is none" in str(dict(result.metrics)["missing"])


ENDINGS = {
    "def f(array, key): return {}['k']": (Status.ERROR, "CandidateError: KeyError: 'k' (line 1)"),
    "1 / 0\ndef f(array, key): pass": (Status.ERROR, "CandidateError: ZeroDivisionError: division by zero"),
    "def f(": (Status.ERROR, "SyntaxError"),
    "x = 1": (Status.ERROR, "ValueError: the program defines no function at its top level"),
    "import os\ndef f(array, key): os._exit(3)": (Status.CRASH, "the candidate: exit status 3"),
    "import os, time\ndef f(array, key):\n    os.close(5)\n    time.sleep(.5)\n    os._exit(3)": (
        Status.CRASH,
        "the candidate: exit status 3",
    ),
    "import sys\ndef f(array, key): sys.exit(0)": (Status.ERROR, "CandidateError: SystemExit: 0"),
    "def f(array, key):\n    while True: pass": (Status.TIMEOUT, "the candidate: CPU limit of 1 s"),
    "def f(array, key): return len(bytearray(10 << 30))": (Status.ERROR, "CandidateError: MemoryError"),
    "def f(array, key): return 'x' * (2 << 20)": (Status.ERROR, "answer of 2097163 bytes; at most 1048576"),
    "def f(array, key): return {1: 2}": (Status.ERROR, "the key 1 cannot pass"),
    "def f(array, key): return 10 ** 50": (Status.ERROR, "an integer of 51 digits"),
    "def f(array, key): return array / 0": (Status.ERROR, "not finite"),
    "import os\ndef f(array, key):\n    os.write(5, b'junk' * 99)\n    return 1": (
        Status.ERROR,
        "not acceptable",
    ),
}


@pytest.mark.parametrize("code", ENDINGS)
def test_every_way_to_end_has_its_status_and_the_next_evaluation_works(
    code: str, sandbox: ProxySandbox
) -> None:
    status, detail = ENDINGS[code]
    result = run(sandbox, code, ENDLESS if "while True" in code else QUICK, "free.py")
    assert result.status is status, result
    assert detail in result.detail
    assert run(sandbox, "def f(array, key): return 1", evaluator="free.py").metrics == (("found", 1),)


def test_a_candidate_that_only_sleeps_is_ended_with_its_evaluator(sandbox: ProxySandbox) -> None:
    code = "import time\ndef f(array, key): time.sleep(600)"
    result = run(sandbox, code, Limits(wall_seconds=3.0), "free.py")
    assert (result.status, result.detail) == (Status.TIMEOUT, "wall-clock limit of 3 s")


def test_what_both_print_is_in_the_log(sandbox: ProxySandbox) -> None:
    result = run(sandbox, "def f(array, key): print('from the candidate')", evaluator="free.py")
    assert result.log == "from the candidate\n"


def test_the_candidate_cannot_read_the_evaluator(sandbox: ProxySandbox, tmp_path: Path) -> None:
    path = sandbox._folder / "evaluator.py"
    code = f"def f(array, key):\n    return open({str(path)!r}).read()\n"
    result = run(sandbox, code, evaluator="free.py")
    assert result.status is Status.ERROR
    assert "PermissionError" in result.detail or "FileNotFoundError" in result.detail


def test_programs_of_several_files_are_refused(sandbox: ProxySandbox) -> None:
    with pytest.raises(ConfigError, match=r"programs of one file, found 2; set .* mode to whole"):
        sandbox.run(WholeJob({"a.py": "", "b.py": ""}, "a.py", "evaluator.py"))


def test_a_fork_server_that_died_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "evaluator.py").write_text(SECRET)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with ProxySandbox(tmp_path, workers=1, level=Level.LANDLOCK_SECCOMP) as opened:
        assert run(opened, HONEST).status is Status.OK
        pid = opened.workers[0].pid
        os.kill(pid, 9)
        assert run(opened, HONEST).metrics == (("combined_score", 1.0),)
        assert opened.failures >= 1
    with pytest.raises(SandboxError, match="closed"):
        run(opened, HONEST)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


# ---------------------------------------------------------------- the stub and the wire


def test_the_stub_has_the_functions_and_nothing_else() -> None:
    text = stub_of("import os\nK = 1\nclass A: pass\ndef f(x): pass\nasync def g(): pass\ndef f(y): pass\n")
    assert text.count("def f(") == 1
    assert [name for name in ("os", "K =", "class", "def g") if name in text] == []


@pytest.mark.parametrize("dtype", ["f8", "<f4", ">i2", "?", "u1"])
def test_arrays_arrive_as_they_were(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    found = calls.unpack(json.loads(json.dumps(calls.pack(array))))
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    assert calls.pack(np.float32(0.5)) == 0.5
    assert type(calls.pack(np.float64(0.5))) is float


@pytest.mark.parametrize(
    "parts",
    [
        None,
        ["<f8", [1]],
        ["O", [1], "AAAAAAAAAAA="],
        ["<f8", [-1], "AAAAAAAAAAA="],
        ["<f8", [2], "AAAAAAAAAAA="],
        ["<f8", [1], "AAAAAAAA+H8="],
        ["<f8,<f8", [1], "AAAAAAAAAAAAAAAAAAAAAA=="],
        ["<f8", [True], "AAAAAAAAAAA="],
    ],
)
def test_arrays_are_read_strictly(parts: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # from numpy and binascii too
        calls.unpack({calls.ARRAY: parts})


FRAMES = [
    b"",
    b"\x01",
    struct.pack("<I", 1 << 31) + b"{}",
    struct.pack("<I", 2) + b"[]",
    struct.pack("<I", 3) + b"{x}",
    struct.pack("<I", 14) + b'{"out": 1e999}',
    struct.pack("<I", 12) + b'{"out": NaN}',
    struct.pack("<I", 2) + b"{}",
    struct.pack("<I", 60_000) + b"[" * 60_000,
]


@pytest.mark.parametrize("frame", FRAMES)
def test_answers_are_read_strictly(frame: bytes) -> None:
    ours, theirs = socket.socketpair()

    def answer() -> None:
        theirs.sendall(frame)
        theirs.shutdown(socket.SHUT_WR)

    with ours, theirs:
        client = calls.SocketModule(ours.fileno(), 100_000)
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(client.CandidateError):
            client.call("f", (), {})
        thread.join()
