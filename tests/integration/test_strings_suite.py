"""The bundled string problems have the shape that the search relies on: plain files, enough rows, no leaks.

Reads the folders with the standard library alone, so that a defect in the data is told apart from
a defect in the loader. Each test goes through all folders and names the one at fault.
"""

import ast
import json
import tomllib
from pathlib import Path
from typing import Any

SUITE = Path(__file__).resolve().parents[2] / "problems" / "strings"
FOLDERS = sorted(path for path in SUITE.iterdir() if path.is_dir())

Row = tuple[tuple[str, ...], str]


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the `[problem]` table of a folder."""
    table: dict[str, Any] = tomllib.loads((folder / "problem.toml").read_text("utf-8"))["problem"]
    return table


def read_examples(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the `train` and `heldout` rows of a folder as they are written."""
    examples: dict[str, list[dict[str, Any]]] = json.loads((folder / "examples.json").read_text("utf-8"))
    return examples


def read_rows(folder: Path, part: str) -> list[Row]:
    """Return one part of a folder's examples as (inputs, output) pairs."""
    return [(tuple(row["inputs"]), row["output"]) for row in read_examples(folder)[part]]


def test_the_suite_has_at_least_48_tasks() -> None:
    assert len(FOLDERS) >= 48


def test_seeds_define_the_entry_with_the_declared_parameters() -> None:
    for folder in FOLDERS:
        settings = read_settings(folder)
        (function,) = ast.parse((folder / "seed.py").read_text("utf-8")).body
        assert isinstance(function, ast.FunctionDef), folder.name
        assert function.name == settings["entry"] == "solve", folder.name
        assert [argument.arg for argument in function.args.args] == settings["inputs"], folder.name
        assert 1 <= len(settings["inputs"]) <= 3, folder.name


def test_rows_are_strings_with_one_input_per_parameter() -> None:
    for folder in FOLDERS:
        width = len(read_settings(folder)["inputs"])
        examples = read_examples(folder)
        assert set(examples) == {"train", "heldout"}, folder.name
        for row in examples["train"] + examples["heldout"]:
            assert set(row) == {"inputs", "output"}, folder.name
            assert len(row["inputs"]) == width, folder.name
            assert all(isinstance(text, str) for text in [*row["inputs"], row["output"]]), folder.name


def test_there_are_4_to_16_training_and_at_least_8_heldout_rows() -> None:
    for folder in FOLDERS:
        assert 4 <= len(read_rows(folder, "train")) <= 16, folder.name
        assert len(read_rows(folder, "heldout")) >= 8, folder.name


def test_no_inputs_occur_twice() -> None:
    """Covers repeated rows, contradictory rows and held-out rows that training already shows."""
    for folder in FOLDERS:
        inputs = [arguments for part in ("train", "heldout") for arguments, _ in read_rows(folder, part)]
        assert sorted(set(inputs)) == sorted(inputs), folder.name


def test_no_argument_alone_is_the_answer() -> None:
    for folder in FOLDERS:
        rows = read_rows(folder, "train")
        for position in range(len(rows[0][0])):
            assert any(arguments[position] != output for arguments, output in rows), folder.name


def test_training_answers_differ_from_each_other() -> None:
    for folder in FOLDERS:
        assert len({output for _, output in read_rows(folder, "train")}) >= 2, folder.name


def test_the_suite_lists_every_task_once_with_a_measured_difficulty() -> None:
    suite = tomllib.loads((SUITE / "suite.toml").read_text())
    listed = [entry["path"] for entry in suite["problems"]]
    assert sorted(listed) == sorted(folder.name for folder in FOLDERS)
    assert all(0.0 <= entry["difficulty"] <= 1.0 for entry in suite["problems"])
    assert len({entry["difficulty"] for entry in suite["problems"]}) > 1
