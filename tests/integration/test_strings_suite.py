"""The bundled string problems have the shape that the search relies on: plain files, enough rows, no leaks.

Reads the folders with the standard library alone, so that a defect in the data is told apart from
a defect in the loader.
"""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

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


each_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def test_the_suite_has_at_least_48_tasks() -> None:
    assert len(FOLDERS) >= 48


@each_folder
def test_name_is_lower_case_words_joined_by_hyphens(folder: Path) -> None:
    assert all(word.isascii() and word.isalnum() and word == word.lower() for word in folder.name.split("-"))


@each_folder
def test_statement_is_a_sentence(folder: Path) -> None:
    statement = read_settings(folder)["statement"]
    assert isinstance(statement, str)
    assert statement == statement.strip()
    assert statement.endswith(".")
    assert len(statement.split()) >= 5


@each_folder
def test_seed_defines_the_entry_with_the_declared_parameters(folder: Path) -> None:
    settings = read_settings(folder)
    (function,) = ast.parse((folder / "seed.py").read_text("utf-8")).body
    assert isinstance(function, ast.FunctionDef)
    assert function.name == settings["entry"] == "solve"
    assert [argument.arg for argument in function.args.args] == settings["inputs"]
    assert 1 <= len(settings["inputs"]) <= 3


@each_folder
def test_rows_are_strings_with_one_input_per_parameter(folder: Path) -> None:
    width = len(read_settings(folder)["inputs"])
    examples = read_examples(folder)
    assert set(examples) == {"train", "heldout"}
    for row in examples["train"] + examples["heldout"]:
        assert set(row) == {"inputs", "output"}
        assert len(row["inputs"]) == width
        assert all(isinstance(text, str) for text in [*row["inputs"], row["output"]])


@each_folder
def test_there_are_4_to_16_training_and_at_least_8_heldout_rows(folder: Path) -> None:
    assert 4 <= len(read_rows(folder, "train")) <= 16
    assert len(read_rows(folder, "heldout")) >= 8


@each_folder
def test_no_inputs_occur_twice(folder: Path) -> None:
    """Covers repeated rows, contradictory rows and held-out rows that training already shows."""
    inputs = [arguments for part in ("train", "heldout") for arguments, _ in read_rows(folder, part)]
    assert sorted(set(inputs)) == sorted(inputs)


@each_folder
def test_no_argument_alone_is_the_answer(folder: Path) -> None:
    rows = read_rows(folder, "train")
    for position in range(len(rows[0][0])):
        assert any(arguments[position] != output for arguments, output in rows)


@each_folder
def test_training_answers_differ_from_each_other(folder: Path) -> None:
    assert len({output for _, output in read_rows(folder, "train")}) >= 2


def test_the_suite_lists_every_task_once_with_a_measured_difficulty() -> None:
    suite = tomllib.loads((SUITE / "suite.toml").read_text())
    listed = [entry["path"] for entry in suite["problems"]]
    assert sorted(listed) == sorted(folder.name for folder in FOLDERS)
    assert all(0.0 <= entry["difficulty"] <= 1.0 for entry in suite["problems"])
    assert len({entry["difficulty"] for entry in suite["problems"]}) > 1
