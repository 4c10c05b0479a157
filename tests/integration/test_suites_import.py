"""Importing tasks of LiveCodeBench: small files of ours in its format become problems that judge rightly."""

import base64
import gzip
import json
import pickle
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evovpo.cli import main
from evovpo.errors import ProblemError
from evovpo.judging.check import check_problem
from evovpo.judging.evaluator import Evaluator
from evovpo.problem.folder import load_problem
from evovpo.problem.importers.livecodebench import load_tasks
from evovpo.problem.importers.problem_writer import dealt, write_suite
from evovpo.problem.importers.score import same_words
from evovpo.problem.importers.tasks import Case, ImportedTask, SkippedTask, UnusableTaskError, usable
from evovpo.problem.suites import load_suite
from evovpo.sandbox import Sandbox
from evovpo.types import Problem, Program, Status


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
    return evaluation.rewards


def test_contradicting_tests_make_a_task_unusable_and_repeated_ones_count_once() -> None:
    def task(*tests: Case) -> ImportedTask:
        return ImportedTask("t", "s", "f", ("x",), "", tests)

    same = usable(task(Case((1,), 2), Case((1,), 2), Case((2,), 3)))
    assert (len(same.tests), same.left_out) == (2, ["repeats another test"])
    for unusable in (task(Case((1,), 2), Case((1,), 3)), task(Case((1,), None))):
        with pytest.raises(UnusableTaskError):
            usable(unusable)


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
    write_suite(load_tasks(file), "livecodebench", tmp_path / "out")
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
    task = only_task(load_tasks(write_lines(tmp_path / "lcb.jsonl", [record])))
    assert (task.entry, task.parameters) == ("addAll", ("xs", "n"))
    assert task.tests == [Case(([1, 2], 3), 6)]


def test_tests_that_cannot_be_used_are_left_out_with_their_reason(tmp_path: Path) -> None:
    cases = [("1", "1"), ("1\n2", "1"), ("1", "1" * 41), ("1", "1e999"), ("1", "NaN"), ("x", "1")]
    record = lcb_record("functional", cases, "[]", starter_code="def f(x):", metadata='{"func_name": "f"}')
    task = only_task(load_tasks(write_lines(tmp_path / "lcb.jsonl", [record])))
    assert task.tests == [Case((1,), 1)]
    assert task.left_out == [
        "it has another number of arguments than the function",
        "a whole number of more than 40 digits",
        *["its arguments or its result are no JSON"] * 3,
    ]


def test_private_tests_that_would_run_something_are_refused_and_run_nothing(tmp_path: Path) -> None:
    path = tmp_path / "made"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (path,))

    file = write_lines(tmp_path / "lcb.jsonl", [lcb_record("stdin", [("1", "1")], packed(Evil()))])
    with pytest.raises(ProblemError, match="nothing of it was run"):
        load_tasks(file)
    assert not path.exists()


@pytest.mark.parametrize("text", ["not base64!", base64.b64encode(b"not zlib").decode(), packed(3)])
def test_damaged_private_tests_are_bad_input(tmp_path: Path, text: str) -> None:
    file = write_lines(tmp_path / "lcb.jsonl", [lcb_record("stdin", [("1", "1")], text)])
    with pytest.raises(ProblemError, match="tiny/7_A: private_test_cases"):
        load_tasks(file)


def test_tests_are_dealt_evenly_and_each_once() -> None:
    assert dealt(3) == [[0], [1], [2]]
    hands = dealt(35)
    assert len(hands) == 16
    assert sorted(index for hand in hands for index in hand) == list(range(35))
    assert {len(hand) for hand in hands} == {2, 3}


def doubling(count: int, **more: object) -> dict[str, object]:
    cases = [(str(n), str(2 * n)) for n in range(count)]
    more = {"starter_code": "def f(x):", "metadata": '{"func_name": "f"}'} | more
    return lcb_record("functional", cases, "[]", **more)


LOOPS = lcb_record("other", [("1", "1")], "[]", question_id="8")


def test_many_tests_by_example_are_partly_held_out_and_grouped(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "lcb.jsonl.gz", [doubling(40), doubling(40)], compress=True)
    write_suite(load_tasks(file), "livecodebench", tmp_path / "out")
    assert [entry.path.name for entry in load_suite(tmp_path / "out")] == ["tiny-7-a", "tiny-7-a-2"]
    problem = load_problem(tmp_path / "out" / "tiny-7-a")
    assert [row.output for row in problem.heldout] == [2 * n for n in range(3, 40, 4)]
    assert (len(problem.train), len(problem.groups)) == (30, 16)
    (seed,) = check_problem(tmp_path / "out" / "tiny-7-a").seeds
    assert (seed.evaluation.status, seed.evaluation.passed) == (Status.OK, 0)


@pytest.mark.parametrize(
    ("output", "expected", "is_right"),
    [
        ("1.0  a \n2", "1 a\n2\n", True),
        ("1 a 2", "1 a\n2\n", False),
        ("inf", "nan", False),
        (3, "a", False),
    ],
)
def test_words_are_compared_line_by_line(output: Any, expected: str, is_right: bool) -> None:
    assert same_words(output, expected) is is_right


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected at least one task"),
        (b"{", "line 1: expected JSON"),
        (b"3\n", "record 1: expected an object"),
        (b'{"task_id": 1}\n', "expected the fields question_id, question_content, starter_code"),
        (b"\x1f\x8bbroken", "expected"),
        (b"\xff\xfe", "expected UTF-8"),
    ],
)
def test_a_file_of_another_kind_is_one_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(ProblemError, match=re.escape(message)):
        load_tasks(file)


def test_nothing_is_written_over_or_for_nothing(tmp_path: Path) -> None:
    loaded = load_tasks(write_lines(tmp_path / "tasks.json", [LOOPS]))
    with pytest.raises(ProblemError, match="new or empty folder"):
        write_suite(loaded, "livecodebench", tmp_path)
    with pytest.raises(ProblemError, match="none of 1 tasks"):
        write_suite(loaded, "livecodebench", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_counts_what_it_took_and_what_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_lines(tmp_path / "tasks.jsonl", [doubling(2), LOOPS, doubling(3)])
    given = ["import-tasks", "livecodebench", str(file), "--limit", "2"]
    with pytest.raises(SystemExit) as ended:
        main([*given, "--out", str(tmp_path / "o")])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "1 problems, 2 tests and 0 held-out ones" in said
    assert "  1 tasks skipped: " in said
