"""Judging programs: rewards by example and by scorer, whose fault a failure is, and what stays hidden."""

import dataclasses
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from evovpo.config import Config, StoreConfig
from evovpo.errors import ProblemError, SandboxError
from evovpo.judging.evaluator import Evaluator, load_scorer, open_sandbox
from evovpo.problem.examples import same_value
from evovpo.sandbox import Sandbox
from evovpo.types import Example, Json, Limits, Objective, Problem, Program, Status

SCORE = """
def cases():
    return [[1, 2], [3, 4]]

def score(outputs):
    return {"first": outputs[0], "second": outputs[1]}
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(preload=()) as opened:
        yield opened


def by_example(
    train: Sequence[tuple[list[Json], Json]], heldout: Sequence[tuple[list[Json], Json]] = ()
) -> Problem:
    return Problem(
        id="p",
        version="v1",
        statement="",
        entry="solve",
        parameters=("x",),
        objectives=tuple(Objective(f"row-{index + 1}") for index in range(len(train))),
        seeds=(),
        limits=Limits(wall_seconds=60.0, cpu_seconds=1),
        train=tuple(Example(tuple(inputs), output) for inputs, output in train),
        heldout=tuple(Example(tuple(inputs), output) for inputs, output in heldout),
    )


def scored(folder: Path, score: str = SCORE) -> Problem:
    path = folder / "score.py"
    path.write_text(score)
    problem = by_example([])
    return dataclasses.replace(
        problem,
        parameters=("a", "b"),
        objectives=(Objective("first"), Objective("second")),
        scorer_path=str(path),
        folder=str(folder),
    )


def answering(returned: str) -> str:
    """Return a scorer that says this of any outputs."""
    return SCORE.replace('{"first": outputs[0], "second": outputs[1]}', returned)


def body(text: str) -> Program:
    return Program(f"def solve(x):\n    {text}\n")


THREE = by_example([([1], 1), ([2], 4), ([3], 9)], heldout=[([4], 16), ([0], 0)])


# ---------------------------------------------------------------- by example


def test_each_row_is_one_component(sandbox: Sandbox) -> None:
    evaluation = Evaluator(THREE, sandbox).evaluate(body("return x * x if x < 3 else 0"))
    assert evaluation.status is Status.OK
    assert evaluation.rewards == (1.0, 1.0, 0.0)
    assert evaluation.outputs == (1, 4, 0)
    assert evaluation.feedback == ""
    assert evaluation.program_id == body("return x * x if x < 3 else 0").id
    assert evaluation.problem_version == "v1"
    assert evaluation.isolation
    assert evaluation.seconds > 0


def test_a_row_that_raises_leaves_the_others_their_reward(sandbox: Sandbox) -> None:
    evaluation = Evaluator(THREE, sandbox).evaluate(body("return [0, 1, 4][x]"))
    assert evaluation.status is Status.OK
    assert evaluation.rewards == (1.0, 1.0, 0.0)
    assert evaluation.outputs == (1, 4, None)
    assert evaluation.feedback.startswith("row-3: IndexError")


def test_a_row_that_raises_is_not_right_where_none_is_expected(sandbox: Sandbox) -> None:
    problem = by_example([([1], None), ([0], None)])
    evaluation = Evaluator(problem, sandbox).evaluate(body("return None if 1 / x else 0"))
    assert evaluation.rewards == (1.0, 0.0)


def test_a_program_that_raises_on_every_row_is_an_error(sandbox: Sandbox) -> None:
    evaluation = Evaluator(THREE, sandbox).evaluate(body("return x.missing"))
    assert evaluation.status is Status.ERROR
    assert evaluation.rewards == (0.0, 0.0, 0.0)
    assert evaluation.feedback.startswith("row-1: AttributeError")


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("def solve(x:\n", Status.ERROR),
        ("def other(x):\n    return x * x\n", Status.ERROR),
        ("def solve(x):\n    while x == 3: pass\n    return x * x\n", Status.TIMEOUT),
        ("import os\ndef solve(x):\n    if x == 3: os.kill(os.getpid(), 9)\n    return x * x\n", None),
    ],
)
def test_a_fault_of_the_candidate_is_the_zero_vector(
    sandbox: Sandbox, source: str, status: Status | None
) -> None:
    evaluation = Evaluator(THREE, sandbox).evaluate(Program(source))
    assert evaluation.status.is_candidate_fault
    assert status is None or evaluation.status is status
    assert evaluation.rewards == (0.0, 0.0, 0.0)
    assert evaluation.outputs is None
    assert str(evaluation.status) in evaluation.feedback


class Failing:
    """A sandbox in which every program ends so."""

    outputs, errors, wall_ms, isolation = (), (), 0.0, "landlock+seccomp"

    def __init__(self, status: Status, detail: str) -> None:
        self.status, self.detail = status, detail

    def run(self, *arguments: object, **options: object) -> "Failing":
        return self


def test_feedback_is_capped() -> None:
    sandbox = Failing(Status.ERROR, "x" * 10_000)
    assert len(Evaluator(THREE, sandbox).evaluate(body("pass")).feedback) == 2000


def test_a_fault_of_the_sandbox_gives_no_rewards_and_is_no_heldout_result() -> None:
    evaluator = Evaluator(THREE, Failing(Status.SANDBOX_ERROR, "no child"))
    evaluation = evaluator.evaluate(body("return 1"))
    assert (evaluation.status, evaluation.rewards) == (Status.SANDBOX_ERROR, None)
    assert evaluation.feedback == "no child"
    with pytest.raises(SandboxError, match="no child"):
        evaluator.evaluate_heldout(body("return 1"))


def test_long_outputs_are_judged_but_not_kept(sandbox: Sandbox) -> None:
    problem = by_example([(["a"], "a" * 300), (["b"], "b" * 150)])
    evaluation = Evaluator(problem, sandbox).evaluate(body("return x * (300 if x == 'a' else 150)"))
    assert evaluation.rewards == (1.0, 1.0)
    assert evaluation.outputs == (None, "b" * 150)


def test_an_output_nested_without_end_is_a_wrong_output(sandbox: Sandbox) -> None:
    source = "def solve(x):\n    value = []\n    for _ in range(900): value = [value]\n    return value\n"
    problem = by_example([([1], [[]])])
    assert Evaluator(problem, sandbox).evaluate(Program(source)).rewards == (0.0,)


def test_heldout_rows_are_judged_apart(sandbox: Sandbox) -> None:
    evaluator = Evaluator(THREE, sandbox)
    assert evaluator.evaluate_heldout(body("return 16")) == (True, False)
    assert evaluator.evaluate_heldout(body("return 16 // x * 4")) == (True, False)
    assert evaluator.evaluate_heldout(body("while True: pass")) == (False, False)
    assert Evaluator(by_example([([1], 1)]), sandbox).evaluate_heldout(body("return 1")) == ()


# ---------------------------------------------------------------- equality


@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (True, 1, False),
        ("1", 1, False),
        (None, 0, False),
        (None, None, True),
        ([1, [2.0]], [1.0, [2]], True),
        ([1], [1, 2], False),
        ([True], [1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, True),
        ({"a": True}, {"a": 1}, False),
        ([], {}, False),
        (2**53 + 1, float(2**53), False),
        (0.1 + 0.2, 0.3, True),
        (30, 29.999999999999996, True),
        (0.3, 0.300001, False),
        (10**400, 1.5, False),
    ],
)
def test_values_are_the_same_by_type_and_content(output: Json, expected: Json, same: bool) -> None:
    assert same_value(output, expected) is same
    assert same_value(expected, output) is same


# ---------------------------------------------------------------- scorers


PAIR = Program("def solve(a, b):\n    return a / b\n")


def test_a_scorer_turns_outputs_into_rewards(sandbox: Sandbox, tmp_path: Path) -> None:
    evaluation = Evaluator(scored(tmp_path), sandbox).evaluate(PAIR)
    assert evaluation.status is Status.OK
    assert (evaluation.rewards, evaluation.feedback) == ((0.5, 0.75), "")
    told = scored(tmp_path, answering('({"first": 0.25, "second": 1}, f"got {outputs[0]}")'))
    evaluation = Evaluator(told, sandbox).evaluate(PAIR)
    assert (evaluation.rewards, evaluation.feedback) == ((0.25, 1.0), "got 0.5")


def test_held_out_cases_of_a_scorer_are_judged_by_its_own_score_or_by_one_for_them(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    unseen = SCORE + "\ndef heldout_cases():\n    return [[4, 4], [1, 2]]\n"
    for number, (more, right) in enumerate(
        [
            ("", (True, False)),
            ("def heldout_score(outputs):\n    return {'first': 0.5, 'second': outputs[0]}\n", (False, True)),
        ]
    ):
        (folder := tmp_path / str(number)).mkdir()
        evaluator = Evaluator(scored(folder, unseen + more), sandbox)
        assert evaluator.evaluate(PAIR).rewards == (0.5, 0.75), "the others are judged as before"
        assert evaluator.evaluate_heldout(PAIR) == right
        assert evaluator.evaluate_heldout(Program("def solve(a, b):\n    return 1 / 0\n")) == (False, False)
    assert Evaluator(scored(tmp_path), sandbox).evaluate_heldout(PAIR) == ()


def test_a_scorer_may_take_each_case_on_its_own(sandbox: Sandbox, tmp_path: Path) -> None:
    alone = "per_case = True\n" + SCORE.replace('outputs[0], "', '0.5 * (outputs[0] is None), "')
    evaluator = Evaluator(scored(tmp_path, alone), sandbox)
    evaluation = evaluator.evaluate(Program("def solve(a, b):\n    return 0.25 / (a - 1)\n"))
    assert evaluation.status is Status.OK
    assert evaluation.rewards == (0.5, 0.125)
    assert "1 cases raise, the first: ZeroDivisionError" in evaluation.feedback
    dead = evaluator.evaluate(Program("def solve(a, b):\n    return a / 0\n"))
    assert (dead.status, dead.rewards) == (Status.ERROR, (0.0, 0.0))


def test_rewards_follow_the_order_of_the_objectives_not_of_the_scorer(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    swapped = (
        'def cases():\n    return [[1, 2]]\ndef score(outputs):\n    return {"second": 0.25, "first": True}\n'
    )
    assert Evaluator(scored(tmp_path, swapped), sandbox).evaluate(PAIR).rewards == (1.0, 0.25)


def test_a_failing_program_never_reaches_the_scorer(sandbox: Sandbox, tmp_path: Path) -> None:
    score = SCORE.replace("return {", "raise AssertionError\n    return {")
    evaluation = Evaluator(scored(tmp_path, score), sandbox).evaluate(
        Program("def solve(a, b):\n    return a / 0\n")
    )
    assert evaluation.status is Status.ERROR
    assert evaluation.rewards == (0.0, 0.0)
    assert "ZeroDivisionError" in evaluation.feedback


@pytest.mark.parametrize(
    ("returned", "fragments"),
    [
        ('{"first": float("nan"), "second": 0}', ["'first'", "nan", "[0, 1]"]),
        ('{"first": 1.7, "second": float("inf")}', ["'first'", "1.7", "'second'", "inf"]),
        ('{"first": "0.5", "second": 0}', ["'first'", "'0.5'"]),
        ('{"first": 10 ** 400, "second": 0}', ["'first'", "1000"]),
        ('{"first": 0.5}', ["'second'", "missing"]),
        ('{"first": 0, "second": 0, "secnd": 0}', ["'secnd'", "'second'", "[[objectives]]"]),
        ("[0, 1]", ["dictionary", "[0, 1]"]),
        ('({"first": 0, "second": 0}, 3)', ["a pair of rewards and a text, found 3 in place of the text"]),
        ("1 / 0", ["ZeroDivisionError", "line 6"]),
        ("exit(3)", ["SystemExit"]),
    ],
)
def test_a_scorer_outside_its_contract_stops_with_file_objective_and_value(
    sandbox: Sandbox, tmp_path: Path, returned: str, fragments: list[str]
) -> None:
    problem = scored(tmp_path, answering(returned))
    problem = dataclasses.replace(problem, seeds=(PAIR,))
    with pytest.raises(ProblemError) as caught:
        Evaluator(problem, sandbox).evaluate(PAIR)
    for fragment in [str(tmp_path / "score.py"), *fragments]:
        assert fragment in str(caught.value)


def test_outputs_that_a_scorer_cannot_read_earn_nothing_and_end_no_run(
    sandbox: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    problem = scored(tmp_path, answering("1 / 0"))
    found = Evaluator(problem, sandbox).evaluate(PAIR)
    assert (found.status, found.rewards) == (Status.OK, (0.0, 0.0))
    assert "ZeroDivisionError" in caplog.text
    assert "cannot read" in found.feedback


@pytest.mark.parametrize(
    ("depth", "status"), [(100, Status.OK), (101, Status.BAD_OUTPUT), (950, Status.BAD_OUTPUT)]
)
def test_outputs_nest_a_hundred_deep_at_most(
    sandbox: Sandbox, tmp_path: Path, depth: int, status: Status
) -> None:
    problem = scored(tmp_path, answering("dict(first=0, second=0)"))
    deep = "def solve(a, b):\n    for _ in range(%d):\n        a = [a]\n    return a\n"
    assert Evaluator(problem, sandbox).evaluate(Program(deep % depth)).status is status


@pytest.mark.parametrize(
    ("old", "new", "fragments"),
    [
        ("[[1, 2], [3, 4]]", "[]", ["cases()", "at least one"]),
        ("[[1, 2], [3, 4]]", "3", ["cases()", "found 3"]),
        ("[[1, 2], [3, 4]]", "[[1, 2], [3]]", ["cases()[1]", "2 arguments (a, b)", "[3]"]),
        ("[[1, 2], [3, 4]]", "[1, 2]", ["cases()[0]", "found 1"]),
        ("[[1, 2], [3, 4]]", "[[1, float('nan')]]", ["cases()", "JSON"]),
        ("[[1, 2], [3, 4]]", "1 / 0", ["cases() raised ZeroDivisionError"]),
        ("def cases", "def cages", ["'cases'", "define"]),
        ("def cases", "per_case = 1\ndef cases", ["per_case", "True or False", "found 1"]),
        ("def cases", "heldout_score = 1\ndef cases", ["'heldout_score'", "found 1"]),
        ("def cases", "def heldout_cases(): return [[1]]\ndef cases", ["heldout_cases()[0]", "found [1]"]),
        ("def cases", "import nothing_of_this_name\ndef cases", ["ModuleNotFoundError", "line 2"]),
    ],
)
def test_a_scorer_that_cannot_be_used_is_refused(
    sandbox: Sandbox, tmp_path: Path, old: str, new: str, fragments: list[str]
) -> None:
    problem = scored(tmp_path, SCORE.replace(old, new))
    with pytest.raises(ProblemError) as caught:
        Evaluator(problem, sandbox)
    for fragment in [str(tmp_path / "score.py"), *fragments]:
        assert fragment in str(caught.value)


def test_an_edited_scorer_is_read_anew_and_leaves_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert load_scorer(scored(tmp_path)).cases == ((1, 2), (3, 4))
    assert load_scorer(scored(tmp_path, SCORE.replace("[3, 4]", "[5, 6]"))).cases == ((1, 2), (5, 6))
    assert [path.name for path in tmp_path.iterdir()] == ["score.py"]


def test_what_a_scorer_does_to_its_own_cases_does_not_reach_the_next_candidate(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    score = """
ROWS = [[[1], [2]], [[3], [4]]]

def cases():
    return ROWS

def score(outputs):
    ROWS[0][0][0] = 0
    return {"first": outputs[0], "second": outputs[1]}
"""
    evaluator = Evaluator(scored(tmp_path, score), sandbox)
    program = Program("def solve(a, b):\n    return a[0] / b[0]\n")
    assert evaluator.evaluate(program).rewards == (0.5, 0.75)
    assert evaluator.evaluate(program).rewards == (0.5, 0.75)


# ---------------------------------------------------------------- isolation


@pytest.fixture
def readable_folder() -> Iterator[Path]:
    """A folder below the Python installation, which programs may read unless told otherwise."""
    try:
        made = tempfile.mkdtemp(dir=sys.prefix)
    except OSError:
        pytest.skip("the Python installation is not writable")
    yield Path(made)
    shutil.rmtree(made)


def test_a_candidate_can_read_neither_the_scorer_nor_the_store(
    sandbox: Sandbox, readable_folder: Path
) -> None:
    store = readable_folder / "runs.db"
    store.write_text("answers")
    config = Config(store=StoreConfig(url=f"sqlite:///{store}"))
    problem = scored(readable_folder)
    for judged, hidden in ((problem, readable_folder / "score.py"), (problem, store), (THREE, store)):
        parameters = ", ".join(judged.parameters)
        reader = Program(f"def solve({parameters}):\n    return 0 * len(open({str(hidden)!r}).read())\n")
        assert Evaluator(judged, sandbox).evaluate(reader).status is Status.OK
        with open_sandbox(judged, config) as closed:
            assert Evaluator(judged, closed).evaluate(reader).status.is_candidate_fault, hidden
