"""Problem folders: what loads, what is refused and how it is named, skeletons, suites, checks."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evovpo.errors import ProblemError
from evovpo.judging.check import check_problem
from evovpo.problem import suites
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import bundled_problems, bundled_root, load_suite, new_problem, resolve_problem
from evovpo.types import Feature, Limits

ABOUT = '[problem]\nstatement = "Add."\ninputs = ["a", "b"]\n'
SEED = "def solve(a, b):\n    return a\n"
ROWS = [{"inputs": [1, 2], "output": 3}, {"inputs": [4, 5], "output": 9}]
SCORE = "def cases():\n    return [[1, 2]]\n\ndef score(outputs):\n    return {'right': 1.0}\n"
SCORED = ABOUT + '[[objectives]]\nname = "right"\n'


def write(folder: Path, **files: str | bytes | None) -> Path:
    """Write files named by their stem (`problem`, `seed`, `examples`, `score`, ...); none removes one."""
    folder.mkdir(exist_ok=True)
    for stem, content in files.items():
        path = folder / (stem + {"problem": ".toml", "examples": ".json"}.get(stem, ".py"))
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def by_example(folder: Path, **files: str | bytes | None) -> Path:
    defaults = {"problem": ABOUT, "seed": SEED, "examples": json.dumps({"train": ROWS, "heldout": []})}
    return write(folder, **{**defaults, **files})


def scored(folder: Path, **files: str | bytes | None) -> Path:
    return write(folder, **{"problem": SCORED, "seed": SEED, "score": SCORE, **files})


def rows(train: Sequence[Any], heldout: Sequence[Any] = ()) -> str:
    return json.dumps({"train": list(train), "heldout": list(heldout)})


def refusal(folder: Path) -> str:
    with pytest.raises(ProblemError) as caught:
        load_problem(folder)
    return str(caught.value)


def test_a_folder_with_examples_becomes_a_problem_with_one_objective_a_row(tmp_path: Path) -> None:
    loaded = load_problem(by_example(tmp_path / "sum"))
    assert loaded.id == "sum"
    assert loaded.is_by_example
    assert [objective.name for objective in loaded.objectives] == ["row-1", "row-2"]
    assert loaded.train[1].inputs == (4, 5)
    assert loaded.train[1].output == 9
    assert (loaded.entry, loaded.parameters) == ("solve", ("a", "b"))
    assert (loaded.limits.wall_seconds, loaded.limits.cpu_seconds) == (2.0, 2)


def test_a_folder_with_a_scorer_has_the_objectives_of_its_file(tmp_path: Path) -> None:
    loaded = load_problem(scored(tmp_path / "sum"))
    assert [objective.name for objective in loaded.objectives] == ["right"]
    assert loaded.scorer_path == str(tmp_path / "sum" / "score.py")
    assert loaded.limits == Limits()


def test_loading_runs_neither_seed_nor_scorer(tmp_path: Path) -> None:
    load_problem(scored(tmp_path / "sum", seed="1 / 0\n" + SEED, score="1 / 0\n" + SCORE))


def test_seeds_come_in_name_order_with_seed_py_first(tmp_path: Path) -> None:
    folder = by_example(tmp_path / "p", seed_b=SEED + "# b\n", seed_a=SEED + "# a\n", other="not Python")
    assert [seed.source[len(SEED) :] for seed in load_problem(folder).seeds] == ["", "# a\n", "# b\n"]


def test_limits_and_features_are_read(tmp_path: Path) -> None:
    about = ABOUT + (
        "[limits]\nwall_seconds = 1\nmemory_mb = 64\n"
        '[[features]]\nname = "length"\nedges = [10, 20]\n[[features]]\nname = "reward:row-2"\nbins = 4\n'
    )
    loaded = load_problem(by_example(tmp_path / "p", problem=about))
    assert loaded.limits == Limits(wall_seconds=1.0, cpu_seconds=2, memory_mb=64)
    assert loaded.features == (Feature("length", (10.0, 20.0), 3), Feature("reward:row-2", (), 4))


@pytest.mark.parametrize(
    "source",
    [
        "def solve(a, b): return a",
        "def solve(*all): return all",
        "def solve(a, b=1, c=2): return a",
        "def solve(a, b, *, c=2): return a",
        "x = '\\d'\ndef solve(a, b, /): return a",
        "\ufeffdef solve(a, b): return a",
    ],
)
def test_a_seed_that_can_be_called_with_the_inputs_is_taken(tmp_path: Path, source: str) -> None:
    assert len(load_problem(by_example(tmp_path / "p", seed=source)).seeds) == 1


@pytest.mark.parametrize(
    ("files", "fragments"),
    [
        ({"problem": None}, ["problem.toml", "found none", "evovpo new"]),
        ({"problem": "[problem"}, ["problem.toml", "TOML", "']'"]),
        ({"problem": b"\xff\xfe"}, ["problem.toml", "UTF-8"]),
        ({"problem": "x = 1"}, ["problem.toml: x", "[problem]", "found none"]),
        ({"problem": "problem = 3"}, ["problem.toml: problem", "section", "found 3"]),
        ({"problem": '[problem]\ninputs = ["a", "b"]'}, ["[problem] statement", "found nothing"]),
        ({"problem": ABOUT.replace('"Add."', '" "')}, ["[problem] statement", "found ' '"]),
        ({"problem": ABOUT.replace("inputs", "input")}, ["[problem] input:", "'inputs'"]),
        ({"problem": ABOUT.replace('"b"', '"a"')}, ["[problem] inputs", "different", "['a', 'a']"]),
        ({"problem": ABOUT.replace('["a", "b"]', "2")}, ["[problem] inputs", "found 2"]),
        ({"problem": ABOUT + 'entry = "a b"'}, ["[problem] entry", "'a b'"]),
        ({"problem": ABOUT + "[limits]\nwall_second = 1"}, ["[limits] wall_second", "'wall_seconds'"]),
        ({"problem": ABOUT + "[limits]\nwall_seconds = nan"}, ["[limits] wall_seconds", "found nan"]),
        ({"problem": ABOUT + "[limits]\nwall_seconds = true"}, ["[limits] wall_seconds", "found True"]),
        ({"problem": ABOUT + "[limits]\ncpu_seconds = 0.5"}, ["[limits] cpu_seconds", "whole", "0.5"]),
        ({"problem": ABOUT + "[limits]\nmemory_mb = -1"}, ["[limits] memory_mb", "found -1"]),
        ({"problem": SCORED}, ["[[objectives]]", "expected none", "remove"]),
        ({"problem": ABOUT + '[[features]]\nname = "lenght"'}, ["[[features]] 1 name", "'length'"]),
        ({"problem": ABOUT + '[[features]]\nname = "length"\nedges = [2, 1]'}, ["edges", "[2, 1]"]),
        ({"problem": ABOUT + '[[features]]\nname = "length"\nbins = 1'}, ["bins", "found 1"]),
        ({"problem": ABOUT + '[[features]]\nname = "length"\nbins = 3\nedges = [1]'}, ["bins", "both"]),
        ({"seed": None}, ["seed.py", "found none"]),
        ({"seed": "def solve(a, b:\n"}, ["seed.py: line 1", "syntax error"]),
        ({"seed": "a\0b"}, ["seed.py", "null bytes"]),
        ({"seed": "def resolve(a, b): pass"}, ["seed.py: solve", "define solve(a, b)"]),
        ({"seed": "def solve(a): pass"}, ["seed.py: solve", "2 arguments (a, b)", "found solve(a)"]),
        ({"seed": "def solve(a, b, *, c): pass"}, ["seed.py: solve", "found solve(a, b, *, c)"]),
        ({"seed": "async def solve(a, b): pass"}, ["seed.py: solve", "async"]),
        ({"seed_b": "def solve(a): pass"}, ["seed_b.py: solve"]),
        ({"examples": None}, ["either examples.json or score.py", "neither"]),
        ({"score": SCORE}, ["either examples.json or score.py", "both"]),
        ({"examples": "{"}, ["examples.json", "JSON", "line 1"]),
        ({"examples": "[" * 100_000}, ["examples.json", "JSON"]),
        ({"examples": "[]"}, ["examples.json", "found []"]),
        ({"examples": "{}"}, ["examples.json: train", "at least one row"]),
        ({"examples": '{"train": [], "test": []}'}, ["examples.json: test", "known key"]),
        ({"examples": rows([*ROWS, 5])}, ["examples.json: train[2]", "found 5"]),
        ({"examples": rows([{"inputs": [1, 2]}])}, ["train[0]", '"output"']),
        ({"examples": rows([{**ROWS[0], "out": 1}])}, ["train[0].out", "'output'"]),
        ({"examples": rows([{"inputs": 1, "output": 1}])}, ["train[0].inputs", "a list", "found 1"]),
        (
            {"examples": rows([ROWS[0], {"inputs": [1], "output": 1}])},
            ["train[1].inputs", "2 inputs (a, b)", "1: [1]"],
        ),
        ({"examples": '{"train": [{"inputs": [1, NaN], "output": 1}]}'}, ["NaN", "not a JSON value"]),
        ({"examples": '{"train": [{"inputs": [1, 1e999], "output": 1}]}'}, ["train[0]", "finite"]),
        ({"examples": rows([{"inputs": [1, "\ud800"], "output": 1}])}, ["train[0]", "surrogate"]),
        (
            {"examples": rows([{"inputs": [1, eval("[" * 60 + "]" * 60)], "output": 1}])},
            ["train[0]", "nested"],
        ),
        ({"examples": '{"train": [{"inputs": [1, 2], "output": 1, "output": 2}]}'}, ["repeated", "'output'"]),
        (
            {"examples": rows([ROWS[0], {"inputs": [1, 2], "output": 4}])},
            ["train[1]", "the output 3 of train[0]", "found 4"],
        ),
        (
            {"examples": rows(ROWS, [{"inputs": [4, 5], "output": True}])},
            ["heldout[0]", "train[1]", "found True"],
        ),
    ],
)
def test_a_bad_folder_is_refused_naming_file_key_expected_and_found(
    tmp_path: Path, files: dict[str, str | bytes | None], fragments: list[str]
) -> None:
    message = refusal(by_example(tmp_path / "p", **files))
    for fragment in fragments:
        assert fragment in message


@pytest.mark.parametrize(
    ("files", "fragments"),
    [
        ({"problem": ABOUT}, ["[[objectives]]", "at least one"]),
        ({"problem": ABOUT + "objectives = 3"}, ["objectives", "known key"]),
        ({"problem": "objectives = 3\n" + ABOUT}, ["objectives", "found 3"]),
        ({"problem": ABOUT + "[[objectives]]\nname = 3"}, ["[[objectives]] 1 name", "found 3"]),
        ({"problem": SCORED + '[[objectives]]\nname = "right"'}, ["[[objectives]] 2 name", "'right' again"]),
        ({"problem": SCORED + 'descripton = "x"'}, ["[[objectives]] 1 descripton", "'description'"]),
        ({"score": "def cases(): pass"}, ["score.py: score", "define score(outputs)"]),
        ({"score": "def score(outputs): pass"}, ["score.py: cases", "define cases()"]),
        ({"score": SCORE.replace("cases()", "cases(n)")}, ["score.py: cases", "found cases(n)"]),
        ({"score": "def"}, ["score.py: line 1", "syntax error"]),
    ],
)
def test_a_bad_scorer_folder_is_refused(
    tmp_path: Path, files: dict[str, str | bytes | None], fragments: list[str]
) -> None:
    message = refusal(scored(tmp_path / "p", **files))
    for fragment in fragments:
        assert fragment in message


def test_all_faults_of_a_folder_come_in_one_error(tmp_path: Path) -> None:
    bad = rows([{"inputs": [1], "output": 1}, {"inputs": [1, 2, 3], "output": 1}])
    message = refusal(
        by_example(tmp_path / "p", seed="def solve(", examples=bad, problem=ABOUT + "extra = 1")
    )
    assert message.startswith("4 things are wrong")
    for fragment in ("seed.py", "train[0]", "train[1]", "[problem] extra"):
        assert fragment in message


def test_a_long_list_of_faults_is_cut_and_counted(tmp_path: Path) -> None:
    message = refusal(by_example(tmp_path / "p", examples=rows([{"inputs": [1], "output": 1}] * 50)))
    assert message.startswith("50 things are wrong")
    assert "and 30 more" in message


def test_equal_numbers_of_another_type_are_other_inputs_but_the_same_output(tmp_path: Path) -> None:
    other_input = rows([{"inputs": [1, 2], "output": "1"}, {"inputs": [1.0, 2], "output": "1.0"}])
    same_output = rows([{"inputs": [1, 2], "output": 3}, {"inputs": [1, 2], "output": 3.0}])
    assert len(load_problem(by_example(tmp_path / "p", examples=other_input)).train) == 2
    assert len(load_problem(by_example(tmp_path / "p", examples=same_output)).train) == 2


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    assert "expected a problem folder" in refusal(tmp_path / "p")
    (tmp_path / "p").touch()
    assert "expected a problem folder" in refusal(tmp_path / "p")


def test_the_version_is_that_of_stored_runs_wherever_the_folder_lies(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert load_problem(by_example(tmp_path / name)).version == "6b387f339227f41e"
    assert load_problem(by_example(tmp_path / "a", examples=rows(ROWS, ROWS))).version != "6b387f339227f41e"
    assert load_problem(scored(tmp_path / "c")).version == load_problem(scored(tmp_path / "d")).version


@pytest.mark.parametrize(
    "files",
    [
        {"problem": SCORED.replace("Add", "Sum")},
        {"problem": SCORED + "[limits]\nmemory_mb = 100"},
        {"seed": SEED + "# more\n"},
        {"seed_b": SEED},
        {"score": SCORE + "# more\n"},
        {"data/table": "1"},
    ],
)
def test_the_version_changes_with_what_can_change_a_judgement(
    tmp_path: Path, files: dict[str, str | bytes | None]
) -> None:
    folder = scored(tmp_path / "p")
    (folder / "data").mkdir()
    before = load_problem(folder).version
    assert load_problem(write(folder, **files)).version != before


def test_notes_caches_and_comments_do_not_change_the_version(tmp_path: Path) -> None:
    folder = scored(tmp_path / "p")
    before = load_problem(folder).version
    (folder / "README.md").write_text("notes")
    (folder / "evovpo.db").write_text("a store")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "score.pyc").write_bytes(b"1")
    assert load_problem(write(folder, problem="# a comment\n" + SCORED)).version == before


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "checkout" / "evovpo"
    package.mkdir(parents=True)
    monkeypatch.setattr(suites, "__file__", str(package / "problem" / "suites.py"))
    suite = package.parent / "problems" / "words"
    suite.mkdir(parents=True)
    by_example(suite / "first-word")
    by_example(suite / "last-word")
    (suite / "suite.toml").write_text(
        '[suite]\nname = "words"\n[[problems]]\npath = "last-word"\ndifficulty = 0.25\n'
        '[[problems]]\npath = "first-word"\n'
    )
    return suite


def test_a_suite_says_which_problems_are_related_and_which_are_for_measuring(bundled: Path) -> None:
    file = bundled / "suite.toml"
    file.write_text(file.read_text() + 'family = "words"\nheldout = true\n')
    assert [(one.family, one.is_held_out) for one in load_suite(file)] == [("", False), ("words", True)]


def test_a_bundled_problem_is_found_by_name_and_has_it_as_id(bundled: Path) -> None:
    assert bundled_problems() == ("words/first-word", "words/last-word")
    assert resolve_problem("words/last-word") == bundled / "last-word"
    assert load_problem(bundled / "last-word").id == "words/last-word"


def test_problems_inside_the_package_win_over_those_beside_it(bundled: Path) -> None:
    inside = bundled.parents[1] / "evovpo" / "_problems"
    shutil.copytree(bundled.parent, inside)
    assert resolve_problem("words/last-word") == inside / "words" / "last-word"
    assert load_problem(inside / "words" / "last-word").id == "words/last-word"


def test_a_path_is_found_as_a_folder_or_by_its_file(tmp_path: Path) -> None:
    folder = by_example(tmp_path / "p")
    assert resolve_problem(folder) == folder
    assert resolve_problem(str(folder / "problem.toml")) == folder


@pytest.mark.usefixtures("bundled")
def test_an_unknown_name_is_refused_with_the_nearest_known_one_and_a_suite_is_no_problem() -> None:
    for name in ("words/lastword", "last-word", "elsewhere/last-word"):
        with pytest.raises(ProblemError, match="did you mean 'words/last-word'"):
            resolve_problem(name)
    with pytest.raises(ProblemError, match="a suite of several"):
        resolve_problem("words")
    with pytest.raises(ProblemError, match="did you mean 'words'"):
        load_suite("word")


def test_a_suite_is_read_in_order_by_file_folder_or_name(bundled: Path) -> None:
    expected = [(bundled / "last-word", 0.25, "", False), (bundled / "first-word", None, "", False)]
    assert load_suite(bundled / "suite.toml") == expected
    assert load_suite(bundled) == expected
    assert load_suite("words") == expected


@pytest.mark.parametrize(
    ("old", "new", "fragment"),
    [
        ('"last-word"', '"lost-word"', "[[problems]] 1 path"),
        ('"last-word"', '"first-word"', "'first-word' again"),
        ("0.25", "1.5", "found 1.5"),
        ("0.25", "true", "found True"),
        ("difficulty", "dificulty", "'difficulty'"),
        ("difficulty = 0.25", "family = 3", "family, heldout: expected a text, and true or false, found 3"),
        ("difficulty = 0.25", 'heldout = "no"', "found nothing and 'no'"),
        ('name = "words"', "", "[suite] name"),
        ("[[problems]]", "[problems]", "TOML"),
    ],
)
def test_a_bad_suite_is_refused(bundled: Path, old: str, new: str, fragment: str) -> None:
    file = bundled / "suite.toml"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(ProblemError) as caught:
        load_suite(file)
    assert fragment in str(caught.value)
    assert "suite.toml" in str(caught.value)


def test_every_bundled_problem_loads() -> None:
    for name in bundled_problems():
        assert load_problem(bundled_root() / name).id == name


def test_a_new_problem_cannot_be_made_inside_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProblemError, match="cannot be written"):
        new_problem(tmp_path / "file" / "p")


def test_a_check_counts_training_and_heldout_rows_of_every_seed(tmp_path: Path) -> None:
    heldout = [
        {"inputs": [10, 20], "output": 10},
        {"inputs": [7, 9], "output": 7},
        {"inputs": [0, 9], "output": 9},
    ]
    train = [{"inputs": [n, n + 1], "output": n if n else n + 1} for n in range(4)]
    folder = by_example(
        tmp_path / "p", seed_b="def solve(a, b):\n    return a or b\n", examples=rows(train, heldout)
    )
    report = check_problem(folder)
    counts = [(seed.name, seed.evaluation.passed, seed.heldout_passed) for seed in report.seeds]
    assert counts == [("seed.py", 3, 2), ("seed_b.py", 4, 3)]
    assert report.seeds[0].evaluation.rewards == (0.0, 1.0, 1.0, 1.0)
    assert report.warnings == ("seed_b.py: already has the full reward; there is nothing to search for",)


@pytest.mark.parametrize(
    ("files", "warning"),
    [
        ({"examples": rows(ROWS[:1] * 4, ROWS[1:])}, "train[3] repeats train[0]; remove one"),
        ({"examples": rows(ROWS, ROWS[:1])}, "heldout[0] repeats train[0]; a held-out row must be"),
        ({"examples": rows(ROWS[:1], ROWS[1:] * 2)}, "heldout[1] repeats heldout[0]; remove one"),
        ({"examples": rows(ROWS)}, "no held-out rows"),
        ({"examples": rows(ROWS)}, "2 training rows"),
        ({"examples": rows(ROWS[:1])}, "one objective only"),
        ({"examples": rows([{"inputs": [n, 1], "output": 0} for n in range(17)])}, "17 objectives"),
        ({"seed_b": SEED}, "seed_b.py: the same program as seed.py"),
        ({"seed": "def solve(a, b):\n    return a.x\n"}, "seed.py: fails (row-1: AttributeError"),
    ],
)
def test_a_check_warns_of_what_is_doubtful(
    tmp_path: Path, files: dict[str, str | bytes | None], warning: str
) -> None:
    report = check_problem(by_example(tmp_path / "p", **files))
    assert any(warning in text for text in report.warnings), report.warnings
