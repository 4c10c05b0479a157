"""DataFrames as examples, as inputs and for the best program; results that can be asked again."""

import datetime
import html
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evovpo
from evovpo.api.frames import frame_rows, plain

pandas = pytest.importorskip("pandas")
UPPER = "def solve(x):\n    return x.upper()\n"
ADD = "def add(a, b):\n    return a + b\n"


def writes(*programs: str) -> Any:
    return lambda messages, n: [f"```python\n{programs[k % len(programs)]}```" for k in range(n)]


def evolve(tmp_path: Path, *given: Any, **changes: Any) -> evovpo.EvolveResult:
    usual: dict[str, Any] = {"evaluations": 4, "store": tmp_path / "x.db", "settings": {"sandbox.workers": 1}}
    return evovpo.evolve(*given, **usual | changes)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int64(3), 3),
        (np.float64(0.1), 0.1),
        (np.array([[1, 2]]), [[1, 2]]),
        (float("nan"), None),
        (pandas.NaT, None),
        (pandas.NA, None),
        (np.datetime64("NaT"), None),
        (pandas.Timestamp("2024-01-31"), "2024-01-31"),
        (np.datetime64("2024-01-31T10:30:00", "ns"), "2024-01-31 10:30:00"),
        (datetime.date(2024, 1, 31), "2024-01-31"),
        (pandas.Period("2024-01", "M"), "2024-01"),
        ((True, {"a": np.float32(0.5)}), [True, {"a": 0.5}]),
    ],
)
def test_values_of_numpy_and_pandas_become_plain(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    assert type(plain(value)) is type(expected)


def test_the_rows_of_a_frame_are_exact() -> None:
    frame = pandas.DataFrame(
        {"x": [0.12345678901234567], 5: [2**60], "day": [pandas.Timestamp("2024-01-31")]}
    )
    assert frame_rows(frame, "it") == [{"x": 0.12345678901234567, "5": 2**60, "day": "2024-01-31"}]


def test_a_column_of_times_keeps_its_midnights() -> None:
    times = pandas.to_datetime(["2024-01-31", None, "2024-01-31 10:30"], format="ISO8601")
    rows = frame_rows(pandas.DataFrame({"at": times}), "it")
    assert [row["at"] for row in rows] == ["2024-01-31 00:00:00", None, "2024-01-31 10:30:00"]


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pandas.Series([1, 2]), "it: expected a DataFrame of different columns, found a Series"),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), r"columns a, a"),
        (pandas.DataFrame({"a": [1.0, float("inf")]}), r"it: column 'a', row 1 \(from 0\): .* found inf"),
    ],
)
def test_frames_that_cannot_be_used_are_refused(frame: Any, said: str) -> None:
    with pytest.raises(evovpo.EvovpoError, match=said):
        frame_rows(frame, "it")


def test_heldout_columns_are_found_by_name_and_missing_inputs_are_as_in_tables(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"First name": ["ab", None], "n": [1, None], "out": ["AB1", "-"]})
    unseen = pandas.DataFrame({"out": ["CD2"], "n": [2], "other": [0], "First name": ["cd"]})
    program = "def solve(a, n):\n    return f'{a.upper()}{int(n)}' if n else a + '-'\n"
    run = evolve(tmp_path, frame, heldout=unseen, proposer=writes(program))
    assert (run.solved_train, run.solved_heldout) == (True, True)
    assert run.best(n=np.float64(2), first_name="ef") == "EF2"
    assert run.best(float("nan"), pandas.NA) == "-"
    assert run.best.apply(unseen) == ["CD2"]
    with pytest.raises(
        evovpo.EvovpoError, match=r"heldout: expected columns .*First name, n, out.*found n, out"
    ):
        evolve(tmp_path, frame, heldout=unseen[["n", "out"]], proposer=writes(program))
    with pytest.raises(evovpo.EvovpoError, match="examples: expected columns of arguments and"):
        evolve(tmp_path, examples=frame[["out"]], proposer=writes(program))


def test_any_column_can_be_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pandas.DataFrame({"upper": ["AB", "CD"], "name": ["ab", "cd"]})
    evolve(tmp_path, examples=frame, proposer=writes(UPPER), progress=True)
    assert "note: the result is the column 'name'\n" in capsys.readouterr().err
    run = evolve(tmp_path, examples=frame, output="upper", proposer=writes(UPPER))
    assert run.solved_train
    assert run.best.apply(frame["name"]) == ["AB", "CD"]
    with pytest.warns(UserWarning, match="1 of 2 rows are like no example, the first: 'e-f'"):
        assert run.best.apply(["e-f", "gh"]) == ["E-F", "GH"]
    again = evolve(tmp_path, frame, output="upper", proposer=writes(UPPER.replace("solve", "upper")))
    assert (again.best.entry, again.advice) == ("upper", ())
    for examples in (frame, [(("ab",), "AB")]):
        with pytest.raises(
            evovpo.EvovpoError, match="output: expected a column of a DataFrame, found 'uper'"
        ):
            evolve(tmp_path, examples=examples, output="uper", proposer=writes(UPPER))


def test_an_unsolved_run_gives_advice_in_words_of_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = writes("def solve(x):\n    return x\n")
    run = evolve(tmp_path, examples=[(("ab",), "AB")], proposer=same, progress=True)
    assert "evovpo.resume(run, evaluations=" in " ".join(run.advice)
    assert "--" not in " ".join(run.advice)
    said = capsys.readouterr().err
    assert all(f"- {line}\n" in said for line in run.advice)
    assert f"<li>{html.escape(run.advice[-1])}</li>" in run._repr_html_()


def test_a_frame_alone_is_used_as_a_table_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pandas.DataFrame({"name": [f"n{chr(97 + k)}" for k in range(20)] + [None], "upper name": None})
    frame["upper name"] = frame["name"].str.upper()
    program = "def upper_name(name):\n    return name.upper()\n"
    run = evolve(tmp_path, frame, proposer=writes(program), progress=True)
    assert (len(run.best.rewards), run.best.entry, run.solved_heldout) == (15, "upper_name", True)
    said = capsys.readouterr().err
    assert "15 to learn from and 5 held out, of 20 distinct rows; 1 have no 'upper name'" in said
    assert f"run {run.id}: solved, right on 5 of 5 held-out rows; best mean reward 1" in said
    assert evovpo.read_run(run).problem.startswith("dataframe-")


def test_the_best_program_is_applied_to_rows(tmp_path: Path) -> None:
    run = evolve(tmp_path, examples=[(("ab",), "AB"), (("cd",), "CD")], proposer=writes(UPPER))
    unlike = pytest.warns(UserWarning, match="1 of 3 rows are like no example, the first: 3; check")
    with unlike, pytest.warns(UserWarning, match="solve failed on 1 of 3 rows, the first: AttributeError"):
        assert run.best.apply([("x",), (np.int64(3),), ("y",)]) == ["X", None, "Y"]
    assert run.best.apply(pandas.DataFrame({"other": [1], "X": ["z"]})) == ["Z"]
    assert run.best.apply(["x", {"x": "y"}]) == run.best.apply(np.array(["x", "y"])) == ["X", "Y"]
    for wrong, said in (
        ([("x", "y")], "solve: expected values for x, found"),
        (pandas.DataFrame({"y": ["z"]}), "rows: expected columns for x, found y; add them"),
        ("x", "rows: expected a list or DataFrame"),
    ):
        with pytest.raises(evovpo.EvovpoError, match=said):
            run.best.apply(wrong)
    stored = evovpo.read_run(run)
    assert stored.best == run.best
    assert stored.best("q") == "Q"
    for again in (run, stored):
        with pytest.warns(
            UserWarning, match="nothing was searched: the run is solved; to go on, give settings="
        ):
            assert evovpo.resume(again).best == run.best


@pytest.mark.parametrize("inputs", [np.array([[1, 2], [3, 4]]), pandas.DataFrame({"a": [1, 3], "b": [2, 4]})])
def test_inputs_of_a_scorer_may_be_an_array_or_a_frame(tmp_path: Path, inputs: Any) -> None:
    def score(outputs: list[Any]) -> dict[str, float]:
        return {"right": float(outputs == [3, 7])}

    seed = ADD.replace("+", "-")
    run = evolve(tmp_path, score=score, inputs=inputs, seed_program=seed, entry="add", proposer=writes(ADD))
    assert run.solved_train
    assert run.best.apply(inputs) == [3, 7]


def test_a_run_that_is_right_on_training_rows_only_is_said_to_be_memorised(tmp_path: Path) -> None:
    rows, unseen = [(("ab",), "AB")], [(("cd",), "CD"), (("ef",), "AB")]
    run = evolve(tmp_path, examples=rows, heldout=unseen, proposer=writes("def solve(x):\n    return 'AB'\n"))
    said = "memorised, right on 1 of 2 held-out rows"
    assert run.ending == said
    assert said in run._repr_html_()
    assert said in evovpo.read_run(run)._repr_html_()


def test_a_search_takes_a_frame_as_examples() -> None:
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": [2, 4, None]})
    for given in ({"problem": frame}, {"examples": frame}):
        with pytest.warns(UserWarning, match="examples: 1 of 3 rows are left out: no 'b'") as warned:
            search = evovpo.Search(**given)
        assert [row.output for row in search.problem.train] == [2, 4]
        assert warned[0].filename == __file__


def test_a_scorer_that_raises_late_is_said_once_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def score(outputs: list[Any]) -> dict[str, float]:
        return {"near": 1 / outputs[0]}

    left = iter([f"def f(x):\n    return '{k}'\n" for k in range(3)] + ["def f(x):\n    return 2\n"])

    def propose(messages: list[dict[str, str]], n: int) -> list[str]:
        return [f"```python\n{next(left)}```" for _ in range(n)]

    arguments = {"inputs": [[1]], "seed_program": "def f(x):\n    return 4\n", "entry": "f", "evaluations": 4}
    said = r"score raised on 3 of 5 programs, the first: TypeError: unsupported .*; they got zeros"
    with pytest.warns(UserWarning, match=said):
        run = evolve(tmp_path, score=score, proposer=propose, **arguments)
    assert run.best.rewards == {"near": 0.5}
    assert len([record for record in caplog.records if "raised TypeError" in record.message]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"base_url": "http://127.0.0.1:9/v1"}, "proposer.model is empty; expected the name"),
        (
            {"proposer": "gpt-4"},
            r"proposer: expected a function .*'gpt-4'; give one, or base_url= and model=",
        ),
        ({"settings": ["search.islands"]}, "settings: expected names and values, found"),
        ({"problem": [("a", "b")], "examples": None}, r"problem: expected a name, found .*examples="),
        ({"problem": pandas.DataFrame({"a": []}), "examples": None}, "problem: .* found one without rows"),
        ({"evaluator": "no.py", "examples": None}, "evaluator: expected a file, found none at no.py"),
        (
            {"evaluator": __file__, "initial_program": "no.py", "examples": None},
            "initial_program: expected a file, found none at no.py",
        ),
        ({"examples": [(("a",), "b"), (("a",), "c")]}, r"^examples\[1\]: expected the output .b. of"),
        (
            {"examples": pandas.DataFrame({"id": [7], "out": ["x"]})},
            r"has id_ = 7, which is no text \(leave it out, .*: base_url= and model=, or proposer=$",
        ),
        ({"seed_program": "x = 1\n"}, "^seed_program: solve: expected a function of this name"),
    ],
)
def test_arguments_that_cannot_be_used_store_no_run(tmp_path: Path, arguments: Any, said: str) -> None:
    usual = {"examples": [(("ab",), "AB")]}
    with pytest.raises(evovpo.EvovpoError, match=said) as failed:
        evolve(tmp_path, **usual | arguments)
    assert len(failed.traceback) <= 4
    assert not (tmp_path / "x.db").exists() or evovpo.list_runs(tmp_path / "x.db") == []


def test_nested_settings_are_merged_with_the_arguments(tmp_path: Path) -> None:
    settings = {"search": {"islands": 2}, "sandbox.workers": 1}
    rows = [(("ab",), "AB")]
    run = evolve(
        tmp_path, examples=rows, evaluations=3, settings=settings, proposer=writes("def solve(x): 1\n")
    )
    assert (run.evaluations, '"islands": 2' in evovpo.read_run(run).run.config_json) == (3, True)


def test_runs_are_read_with_a_short_error(tmp_path: Path) -> None:
    for call, said in (
        (lambda: evovpo.read_run("x", tmp_path / "none.db"), "there is no such store"),
        (lambda: evovpo.read_run("m.db"), r"found 'm\.db'; give a store as store="),
        (
            lambda: evovpo.read_run(5, tmp_path / "none.db"),
            "run: expected an id or a result of evolve, found 5",
        ),
        (lambda: evovpo.list_runs(7), "store: expected a file or a lasting database, found 7"),
        (lambda: evovpo.list_runs(":memory:"), "store: expected a file or a lasting database"),
        (lambda: evovpo.Search("nowhere"), "nowhere"),
    ):
        with pytest.raises(evovpo.EvovpoError, match=said) as failed:
            call()
        assert len(failed.traceback) <= 4
