"""Importing tasks: small files of each public format, written by us, become problems that judge rightly."""

import base64
import gzip
import json
import pickle
import re
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from evovpo.cli import main
from evovpo.errors import ProblemError
from evovpo.judging.check import check_problem
from evovpo.judging.evaluator import Evaluator
from evovpo.problem.folder import load_problem
from evovpo.problem.importers import psb2, score
from evovpo.problem.importers.assertions import parse, read_tests, signature, value_of
from evovpo.problem.importers.formats import dealt, import_tasks, load_tasks, suite_text
from evovpo.problem.importers.tasks import (
    Case,
    ImportedTask,
    OutputComparison,
    SkippedTask,
    TaskFormat,
    UnusableTaskError,
    usable,
)
from evovpo.problem.suites import load_suite
from evovpo.sandbox import Sandbox
from evovpo.types import Problem, Program, Status

TRIPLE = {
    "task_id": "Tiny/0",
    "prompt": "import math\n\n\ndef helper(x):\n    return x\n\n\ndef triple(x: int, plus: int = 0) -> int:\n"
    '    """ Three times x, and plus.\n    >>> triple(2)\n    6\n    """\n',
    "entry_point": "triple",
    "canonical_solution": "    return 3 * x + plus\n",
    "test": "METADATA = {'author': 'us'}\n\n\ndef check(candidate):\n    assert candidate(2) == 6, 'two'\n"
    "    assert candidate(-1, plus=10 ** 2) == 97\n    assert True\n"
    "    for i in range(3):\n        assert candidate(i) == 3 * i\n",
}
HALF = {
    "task_id": "Tiny/1",
    "prompt": 'def half(v):\n    """Half of it."""\n',
    "entry_point": "half",
    "canonical_solution": "    return v / 2\n",
    "test": "def check(candidate):\n    assert abs(candidate(1.0) - 0.5) < 1e-6\n"
    "    assert candidate(3) == 1.5\n    assert candidate(8)[0] == 4\n",
}
ONLY_LOOPS = {
    "task_id": "Tiny/2",
    "prompt": 'def same(s):\n    """s"""\n',
    "entry_point": "same",
    "test": "def check(candidate):\n    import random\n    for _ in range(9):\n"
    "        s = str(random.random())\n        assert candidate(s) == s\n",
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1, preload=()) as started:
        yield started


def write_lines(path: Path, records: list[Any], *, compress: bool = False) -> Path:
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(data) if compress else data)
    return path


def only_task(loaded: list[ImportedTask | SkippedTask]) -> ImportedTask:
    (task,) = loaded
    assert isinstance(task, ImportedTask), task
    return task


def rewards(problem: Problem, source: str, sandbox: Sandbox) -> tuple[float, ...]:
    evaluation = Evaluator(problem, sandbox).evaluate(Program(source))
    assert evaluation.rewards is not None
    return evaluation.rewards


# ---------------------------------------------------------------- reading assertions


def read_body(body: str) -> tuple[list[Case], list[str]]:
    found = read_tests(parse(body).body, "f", signature("def f(x): pass", "f"))
    return found.tests, found.left_out


@pytest.mark.parametrize(
    ("assertion", "wanted"),
    [
        ("assert f(1) == 2", Case((1,), 2)),
        ("assert 2 == f(1)", Case((1,), 2)),
        ("assert f(x=(1, (2,))) == (3, None)", Case(([1, [2]],), [3, None])),
        ("assert f([1] * 3) is True", Case(([1, 1, 1],), True)),
        ("assert not f('a' + 'b')", Case(("ab",), False)),
        ("assert f(-2 ** 3)", Case((-8,), True)),
        ("assert abs(f(1) - 0.3) < 1e-3", Case((1,), 0.3, OutputComparison.CLOSE, 1e-3)),
        ("assert abs(0.3 - f(1)) <= 1e-3", Case((1,), 0.3, OutputComparison.CLOSE, 1e-3)),
        ("assert math.isclose(f(1), 50.0, rel_tol=0.01)", Case((1,), 50.0, OutputComparison.CLOSE, 0.5)),
        ("assert set(f(1)) == set((2, 3, 2))", Case((1,), [2, 3], OutputComparison.SET)),
        ("assert sorted(f(1)) == [2, 3]", Case((1,), [2, 3], OutputComparison.SORTED)),
        ("assert tuple(f(1)) == tuple([2, 3])", Case((1,), [2, 3])),
        ("n = 4\nassert f(n) == [n, n + 1]", Case((4,), [4, 5])),
    ],
)
def test_an_assertion_becomes_arguments_and_what_is_expected(assertion: str, wanted: Case) -> None:
    tests, left_out = read_body(assertion)
    assert (tests, left_out) == ([wanted], [])
    assert type(tests[0].expected) is type(wanted.expected)


@pytest.mark.parametrize(
    ("assertion", "reason"),
    [
        ("assert f(open('x')) == 1", "computes its values"),
        ("assert f(1) == g(1)", "computes its values"),
        ("assert f(1) != 2", "something else than =="),
        ("assert f(1) == 2 == 3", "no single comparison"),
        ("assert len(f(1)) == 2", "something else than what the function returns"),
        ("assert f({1: 2}) == 2", "keys that are no texts"),
        ("assert f({1, 2}) == 2", "type set"),
        ("assert f(1) == 10 ** 50", "40 digits"),
        ("assert f('a' * 10 ** 9) == 1", "items"),
        ("assert f(9 ** 9 ** 9) == 1", "too many digits"),
        ("assert f('%999999999d' % 1) == 1", "formatted"),
        ("assert f() == 1", "fewer arguments"),
        ("assert f(1, 2) == 1", "more arguments"),
        ("assert f(1 / 0) == 1", "division by zero"),
        ("for i in [1]:\n    assert f(i) == i", "loop"),
        ("n = g()\nassert f(n) == 1", "computes its values"),
    ],
)
def test_what_cannot_be_read_is_left_out_with_its_reason(assertion: str, reason: str) -> None:
    tests, (left_out,) = read_body(assertion)
    assert tests == []
    assert reason in left_out


def test_reading_a_test_executes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "made"
    _, left_out = read_body(f"assert f(__import__('pathlib').Path({str(path)!r}).touch()) == 1")
    assert len(left_out) == 1
    assert not path.exists()
    with pytest.raises(UnusableTaskError):
        value_of(parse("().__class__").body[0].value, {})  # type: ignore[attr-defined]


def test_contradicting_tests_make_a_task_unusable_and_repeated_ones_count_once() -> None:
    def task(*tests: Case) -> ImportedTask:
        return ImportedTask("t", "s", "f", ("x",), "", tests)

    same = usable(task(Case((1,), 2), Case((1,), 2), Case((2,), 3)))
    assert (len(same.tests), same.left_out) == (2, ["repeats another test"])
    for unusable in (task(Case((1,), 2), Case((1,), 3)), task(Case((1,), None))):
        with pytest.raises(UnusableTaskError):
            usable(unusable)


# ---------------------------------------------------------------- formats


def test_humaneval_tasks_become_problems_that_their_solutions_solve(tmp_path: Path, sandbox: Sandbox) -> None:
    file = write_lines(tmp_path / "tasks.jsonl.gz", [TRIPLE, HALF, ONLY_LOOPS], compress=True)
    written = import_tasks(TaskFormat.HUMANEVAL, file, tmp_path / "out")
    assert [task.name for task in written.skipped] == ["Tiny/2"]
    assert [entry.path.name for entry in load_suite(tmp_path / "out")] == ["tiny-0", "tiny-1"]
    problem = load_problem(tmp_path / "out" / "tiny-0")
    assert [(row.inputs, row.output) for row in problem.train] == [((2, 0), 6), ((-1, 100), 97)]
    assert ">>> triple(2)" in problem.statement
    assert rewards(problem, TRIPLE["prompt"] + TRIPLE["canonical_solution"], sandbox) == (1.0, 1.0)
    assert rewards(problem, problem.seeds[0].source, sandbox) == (0.0, 0.0)
    half = load_problem(tmp_path / "out" / "tiny-1")
    assert rewards(half, HALF["prompt"] + HALF["canonical_solution"], sandbox) == (1.0, 1.0)
    assert rewards(half, HALF["prompt"] + "    return v / 2 + 1e-7\n", sandbox) == (1.0, 0.0)
    assert rewards(half, half.seeds[0].source, sandbox) == (0.0, 0.0)
    assert written.left_out["the test is computed in a loop or a branch"] == 1


def test_mbpp_in_both_variants(tmp_path: Path) -> None:
    record = {
        "task_id": 3,
        "text": "Write a function to add.",
        "code": "import os\r\ndef helper(a):\r\n  return a\r\ndef add(a, b):\r\n  return a + b",
        "test_list": ["assert add(1, 2) == 3", "assert add((1,), (2,)) == (1, 2)"],
        "test_setup_code": "",
        "challenge_test_list": ["assert add(5, 5) == 10"],
    }
    task = only_task(load_tasks(TaskFormat.MBPP, write_lines(tmp_path / "mbpp.jsonl", [record])))
    assert (task.name, task.entry, task.parameters) == ("MBPP/3", "add", ("a", "b"))
    assert task.tests == [Case((1, 2), 3), Case(([1], [2]), [1, 2])]
    assert task.heldout == [Case((5, 5), 10)]
    assert "a + b" not in task.statement + task.seed
    sanitized = {key: record[key] for key in ("task_id", "code", "test_list")} | {"prompt": record["text"]}
    path = tmp_path / "sanitized.json"
    path.write_text(json.dumps([sanitized], indent=1))
    assert only_task(load_tasks(TaskFormat.MBPP, path)).tests == task.tests


def lcb_record(
    kind: str, public: list[tuple[str, str]], private: object, **more: object
) -> dict[str, object]:
    cases = [{"input": given, "output": wanted, "testtype": kind} for given, wanted in public]
    return {
        "question_id": "7_A",
        "platform": "tiny",
        "question_content": "Add them.",
        "starter_code": "",
        "metadata": "{}",
        "public_test_cases": json.dumps(cases),
        "private_test_cases": private,
    } | more


def packed(value: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def test_livecodebench_tests_on_standard_input_compare_words(tmp_path: Path, sandbox: Sandbox) -> None:
    hidden = [{"input": f"{n} 1\n", "output": f"{n + 1}.0\n", "testtype": "stdin"} for n in range(40)]
    record = lcb_record("stdin", [("90 2\n", "92\nend\n")], packed(json.dumps(hidden)))
    file = write_lines(tmp_path / "lcb.jsonl", [record])
    import_tasks(TaskFormat.LIVECODEBENCH, file, tmp_path / "out")
    problem = load_problem(tmp_path / "out" / "tiny-7-a")
    assert len(problem.objectives) == 16
    source = "def solve(text):\n    a, b = map(int, text.split())\n    return f'{a + b}'"
    assert rewards(problem, source + " + ('\\nend' if a == 90 else '')\n", sandbox) == (1.0,) * 16
    # Case 0 is dealt to the first component, together with tests 16 and 32.
    assert rewards(problem, source, sandbox) == pytest.approx((2 / 3, *(1.0,) * 15))
    # One test raises: it is wrong, the others go on.
    raising = source.replace("    return", "    assert a != 0\n    return")
    assert rewards(problem, raising, sandbox)[1] == pytest.approx(2 / 3)
    assert (
        Evaluator(problem, sandbox).evaluate(Program("def solve(text):\n    1 / 0\n")).status is Status.ERROR
    )


def test_livecodebench_functions(tmp_path: Path) -> None:
    starter = "class Solution:\n    def addAll(self, xs: List[int], n: int) -> int:\n        "
    record = lcb_record(
        "functional", [("[1, 2]\n3", "6")], "[]", starter_code=starter, metadata='{"func_name": "addAll"}'
    )
    task = only_task(load_tasks(TaskFormat.LIVECODEBENCH, write_lines(tmp_path / "lcb.jsonl", [record])))
    assert (task.entry, task.parameters) == ("addAll", ("xs", "n"))
    assert task.tests == [Case(([1, 2], 3), 6)]


def test_private_tests_that_would_run_something_are_refused_and_run_nothing(tmp_path: Path) -> None:
    path = tmp_path / "made"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (path,))

    file = write_lines(tmp_path / "lcb.jsonl", [lcb_record("stdin", [("1", "1")], packed(Evil()))])
    with pytest.raises(ProblemError, match="nothing of it was run"):
        load_tasks(TaskFormat.LIVECODEBENCH, file)
    assert not path.exists()


@pytest.mark.parametrize("text", ["not base64!", base64.b64encode(b"not zlib").decode(), packed(3)])
def test_damaged_private_tests_are_bad_input(tmp_path: Path, text: str) -> None:
    file = write_lines(tmp_path / "lcb.jsonl", [lcb_record("stdin", [("1", "1")], text)])
    with pytest.raises(ProblemError, match="tiny/7_A: private_test_cases"):
        load_tasks(TaskFormat.LIVECODEBENCH, file)


def test_psb2_takes_all_edge_rows_and_holds_random_rows_out(tmp_path: Path, sandbox: Sandbox) -> None:
    folder = tmp_path / "data" / "double-it"
    folder.mkdir(parents=True)
    write_lines(folder / "double-it-edge.json", [{"input1": n, "output1": 2 * n} for n in range(5)])
    write_lines(folder / "double-it-random.json", [{"input1": n, "output1": 2 * n} for n in range(5, 500)])
    import_tasks(TaskFormat.PSB2, tmp_path / "data", tmp_path / "out")
    problem = load_problem(tmp_path / "out" / "psb2-double-it")
    assert (len(problem.train), len(problem.heldout), len(problem.groups)) == (200, 200, 16)
    assert [row.inputs for row in problem.train[:5]] == [(n,) for n in range(5)]
    assert rewards(problem, "def double_it(input1):\n    return input1 * 2\n", sandbox) == (1.0,) * 200
    again = only_task(load_tasks(TaskFormat.PSB2, folder))
    assert [test.arguments for test in again.tests] == [row.inputs for row in problem.train]


def write_psb2(folder: Path, name: str, columns: str, edge: str, random: str) -> Path:
    (folder / f"{name}-edge.csv").write_text(f"{columns}\n{edge}\n")
    (folder / f"{name}-random.csv").write_text(f"{columns}\n{random}\n")
    return folder / f"{name}-edge.csv"


def test_psb2_from_csv_takes_a_column_as_values_only_if_all_cells_are(tmp_path: Path) -> None:
    file = write_psb2(
        tmp_path, "cut", "input1,input2,output1,output2", '"a, b",[1 2],1,true', "7,[],Fizz,false"
    )
    task = only_task(load_tasks(TaskFormat.PSB2, file))
    assert task.tests == [Case(("a, b", [1, 2]), ["1", True]), Case(("7", []), ["Fizz", False])]
    assert "the list [output1, output2]" in task.statement


def test_psb2_grades_fractions_with_a_tolerance(tmp_path: Path, sandbox: Sandbox) -> None:
    file = write_psb2(tmp_path, "half", "input1,output1", "1,0.5", "4,2\n5,2.5")
    written = import_tasks(TaskFormat.PSB2, file, tmp_path / "out")
    problem = load_problem(tmp_path / "out" / "psb2-half")
    assert rewards(problem, "def half(a):\n    return a / 2 + 5e-4\n", sandbox) == (1.0, 1.0, 1.0)
    assert rewards(problem, "def half(a):\n    return a / 2 + 5e-3 * (a == 1)\n", sandbox) == (0.0, 1.0, 1.0)
    assert written.tests == 3


def test_sampling_lines_keeps_each_line_as_often() -> None:
    counts = Counter(
        line for seed in range(2000) for line in psb2.sampled(map(str, range(5)), 2, Random(seed))
    )
    assert sum(counts.values()) == 4000
    assert all(abs(count - 800) < 100 for count in counts.values())  # four standard deviations are 88
    assert psb2.sampled(["a", "b"], 5, Random(0)) == ["a", "b"]


@pytest.mark.parametrize(
    ("edge", "message"),
    [("1,2,3", "expected 2 cells"), ("", "at least one row")],
)
def test_damaged_psb2_files_are_bad_input(tmp_path: Path, edge: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        load_tasks(TaskFormat.PSB2, write_psb2(tmp_path, "cut", "input1,output1", edge, "1,2"))
    (tmp_path / "cut-random.csv").unlink()
    with pytest.raises(ProblemError, match=r"cut-random\.csv: expected this file"):
        load_tasks(TaskFormat.PSB2, tmp_path / "cut-edge.csv")


# ---------------------------------------------------------------- writing


def test_tests_are_dealt_evenly_and_each_once() -> None:
    assert dealt(3) == [[0], [1], [2]]
    hands = dealt(35)
    assert len(hands) == 16
    assert sorted(index for hand in hands for index in hand) == list(range(35))
    assert {len(hand) for hand in hands} == {2, 3}


def test_many_equality_tests_are_partly_held_out_and_grouped(tmp_path: Path) -> None:
    tests = [f"assert f({n}) == {n}" for n in range(40)]
    record = {"task_id": "a b", "text": "s", "code": "def f(x):\n    return x\n", "test_list": tests}
    file = write_lines(tmp_path / "mbpp.jsonl", [record, record])
    import_tasks(TaskFormat.MBPP, file, tmp_path / "out")
    problem = load_problem(tmp_path / "out" / "mbpp-a-b")
    assert [row.output for row in problem.heldout] == list(range(3, 40, 4))
    assert len(problem.train) == 30
    assert len(problem.groups) == 16
    assert [entry.path.name for entry in load_suite(tmp_path / "out")] == ["mbpp-a-b", "mbpp-a-b-2"]


def test_a_suite_may_be_described_in_any_characters() -> None:
    text = suite_text("tiny", 'Say "hi" \\ \x7f', ["a-b"])
    suite = {"name": "tiny", "description": 'Say "hi" \\ \x7f'}
    assert tomllib.loads(text) == {"suite": suite, "problems": [{"path": "a-b"}]}


@pytest.mark.parametrize(
    ("row", "output", "is_right"),
    [
        ({"expected": [0.5, "a"], "comparison": "close", "tolerance": 0.1}, [0.55, "a"], True),
        ({"expected": [0.5, "a"], "comparison": "close", "tolerance": 0.1}, [0.65, "a"], False),
        ({"expected": 1, "comparison": "close", "tolerance": 1}, True, False),
        ({"expected": {"a": [1]}, "comparison": "close", "tolerance": 0}, {"a": [1.0]}, True),
        ({"expected": [1, 2], "comparison": "set"}, [2, 1, 1.0], True),
        ({"expected": [1, 2], "comparison": "set"}, [2], False),
        ({"expected": [1, 2], "comparison": "set"}, None, False),
        ({"expected": [1, 2], "comparison": "sorted"}, [2, 1], True),
        ({"expected": [1, 2], "comparison": "sorted"}, [2, 1, 1], False),
        ({"expected": [1], "comparison": "set"}, [True], False),
        ({"expected": "1 a\n2\n", "comparison": "lines"}, "1.0  a \n2", True),
        ({"expected": "1 a\n2\n", "comparison": "lines"}, "1 a 2", False),
        ({"expected": "nan", "comparison": "lines"}, "inf", False),
        ({"expected": "a", "comparison": "lines"}, 3, False),
    ],
)
def test_comparisons(row: dict[str, Any], output: Any, is_right: bool) -> None:
    assert score.is_right(row, output) is is_right


def test_imported_problems_pass_the_check(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "tasks.jsonl", [TRIPLE])
    import_tasks(TaskFormat.HUMANEVAL, file, tmp_path / "out")
    (seed,) = check_problem(tmp_path / "out" / "tiny-0").seeds
    assert seed.evaluation.status is Status.OK
    assert seed.evaluation.passed == 0


# ---------------------------------------------------------------- bad input and the command


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected at least one task"),
        (b"{", "line 1: expected JSON"),
        (b"3\n", "record 1: expected an object"),
        (b'{"task_id": 1}\n', "expected the fields task_id, prompt, entry_point, test"),
        (b"\x1f\x8bbroken", "expected"),
        (b"\xff\xfe", "expected UTF-8"),
    ],
)
def test_a_file_of_another_kind_is_one_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(ProblemError, match=re.escape(message)):
        load_tasks(TaskFormat.HUMANEVAL, file)


def test_nothing_is_written_over_or_for_nothing(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "tasks.jsonl", [ONLY_LOOPS])
    with pytest.raises(ProblemError, match="new or empty folder"):
        import_tasks(TaskFormat.HUMANEVAL, file, tmp_path)
    with pytest.raises(ProblemError, match="none of 1 tasks"):
        import_tasks(TaskFormat.HUMANEVAL, file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_counts_what_it_took_and_what_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_lines(tmp_path / "tasks.jsonl", [TRIPLE, ONLY_LOOPS, HALF])
    with pytest.raises(SystemExit) as ended:
        main(["import-tasks", "humaneval", str(file), "--out", str(tmp_path / "o"), "--limit", "2", "--json"])
    assert ended.value.code == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (answer["problems"], answer["tests"], answer["heldout"]) == (1, 2, 0)
    assert list(answer["skipped"]) == ["Tiny/2"]
    with pytest.raises(SystemExit) as again:
        main(["import-tasks", "mbpp", str(file), "--out", str(tmp_path / "p")])
    assert again.value.code == 2
    assert "expected the fields task_id, code, test_list" in capsys.readouterr().err
