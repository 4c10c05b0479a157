"""From a table to a program, and from a program to a table: the commands as a user gives them."""

import csv
import dataclasses
import shlex
from pathlib import Path

import pytest
from name_tables import PLAIN, name_columns, write_names
from openevolve_problems import served
from shell import Shell

from evovpo.config import Config
from evovpo.runs.apply import run_rows
from evovpo.runs.request import open_request
from evovpo.types import Limits, Program

SWAP = '''import re


def display(first_name, surname):
    """Raises for a surname of one word less."""
    return f"{surname.split()[0]}, {first_name}"
'''
RIGHT = [
    ("Ada", "Berg"),
    ("Olga", "Lang"),
    ("Rosa", "Falk"),
    ("Hugo", "Ito"),
    ("Emil", "Sato"),
    ("Mina", "Abel"),
]
PEOPLE = "First name;Surname;Display\nJo;;Jo\nNils;Dahl;Dahl N.\n" + "".join(
    f"{first};{last};{last}, {first}\n" for first, last in RIGHT
)

MADE = [f"{last}, {first}" for first, last in RIGHT]


@pytest.fixture
def evovpo(command: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    return command


def table(path: Path, mark: str = ",") -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=mark))


@pytest.fixture
def swapped(evovpo: Shell) -> Shell:
    """A run whose best program fails on one row of `people.csv` and differs from another."""
    Path("people.csv").write_text(PEOPLE)
    with served([f"```python\n{SWAP}```"] * 8) as (address, _):
        answer = evovpo("evolve", "people.csv", "--base-url", address, "--model", "m", "-n", "8")
    assert answer.code == 0, answer.err
    return evovpo


@pytest.mark.slow
def test_from_a_table_of_names_to_one_with_a_column_more(evovpo: Shell) -> None:
    """The README's three commands, with the built-in model."""
    write_names(Path("names.csv"), forms=PLAIN)
    found = evovpo("evolve", "names.csv", "--output", "short", "--json")
    assert found.json["solved_train"]
    assert found.json["heldout_total"] == 200
    assert found.json["solved_heldout"]
    assert "16 to learn from and 200 held out" in found.err
    assert evovpo("show", "latest", "--out", "solve.py", "--no-png").code == 0
    assert found.json["program"] == Path("solve.py").read_text()
    applied = evovpo("apply", "latest", "names.csv", "--column", "made", "-o", "out.csv", "--json")
    assert {key: applied.json[key] for key in ("rows", "failed", "different")} == {
        "rows": 300, "failed": 0, "different": 0,
    }  # fmt: skip
    rows = table(Path("out.csv"))
    assert list(rows[0]) == ["name", "short", "made"]
    assert all(row["made"] == row["short"] for row in rows)
    again = evovpo("evolve", "names.csv", "--json", "-n", "1", "--proposer", "random")
    assert len(list(Path("evovpo-out").iterdir())) == 1
    assert again.json["train_total"] == 16


@pytest.mark.slow
def test_columns_with_missing_cells_are_solved_too(evovpo: Shell) -> None:
    with Path("people.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("First name", "Last name", "Title", "Display"), *name_columns()])
    found = evovpo("evolve", "people.csv", "--json")
    assert found.json["solved_heldout"]


def test_a_table_of_numbers_says_first_what_does_work(evovpo: Shell) -> None:
    Path("sums.csv").write_text("a,b,total\n" + "".join(f"{n},{n + 1},{2 * n + 1}\n" for n in range(30)))
    refused = evovpo("evolve", "sums.csv")
    assert refused.code == 2
    error = next(line for line in refused.err.splitlines() if line.startswith("error: "))
    assert "training row 1 has the result 7, which is no text (make it text if it is a code)" in error
    assert error.endswith("give an instruction model behind a server: --base-url URL --model NAME")


def test_a_model_behind_a_server_gets_the_rows_in_words(evovpo: Shell) -> None:
    Path("people.csv").write_text(PEOPLE)
    with served([f"```python\n{SWAP}```"] * 8) as (address, bodies):
        answer = evovpo("evolve", "people.csv", "--base-url", address, "--model", "m", "-n", "8")
    assert "asks in style rewrite" in answer.err
    assert "Fill the table: " not in answer.out
    assert "Not right on all rows yet, so not to be used. Search on:  evovpo resume" in answer.out
    text = "".join(message["content"] for body in bodies for message in body["messages"])
    assert "Write the column 'Display' of a table from 'First name', 'Surname'." in text
    assert sum(f"display('{first}', '{last}') == '{last}, {first}'" in text for first, last in RIGHT) >= 4
    assert not set("⟦⟧") & set(text)
    assert evovpo("replay", "latest", "--verify").code == 0


def test_apply_lists_rows_that_fail_and_rows_that_said_something_else(swapped: Shell) -> None:
    filled = ("apply", "latest", "people.csv", "--column", "Display", "-o", "out.csv")
    refused = swapped(*filled)
    assert (refused.code, Path("out.csv").exists()) == (2, False)
    assert "right on 4 of 6 training rows, and would write wrong cells; search on (evovpo" in refused.err
    answer = swapped(*filled, "--anyway", "--json")
    assert answer.code == 1
    marks = [row["Display trusted"] for row in table(Path("out.csv"), ";")]
    assert (marks[0], set(marks[2:]), marks.count("no")) == ("no", {"yes"}, answer.json["doubtful"])
    assert {key: answer.json[key] for key in ("rows", "failed", "different")} == {
        "rows": 8, "failed": 1, "different": 1,
    }  # fmt: skip
    assert answer.json["failures"] == [{"row": 1, "error": "IndexError: list index out of range"}]
    assert answer.json["differences"] == [{"row": 2, "given": "Dahl N.", "found": "Dahl, Nils"}]
    assert [row["Display"] for row in table(Path("out.csv"), ";")] == ["Jo", "Dahl N.", *MADE]
    said = swapped(*filled, "--anyway").out
    assert " of people-" in said
    assert "failed: 1, filled cells that differ (kept): 1" in said
    assert "row 2, given 'Dahl N.', found 'Dahl, Nils'" in said
    nowhere = swapped("apply", "latest", "people.csv", "--column", "x", "-o", "no/out.csv", "--anyway")
    assert (nowhere.code, "no/out.csv: cannot be written (No such file" in nowhere.err) == (2, True)
    itself = swapped("apply", "latest", "people.csv", "--column", "x", "-o", "people.csv", "--anyway")
    assert (itself.code, "expected another file than the table itself" in itself.err) == (2, True)
    Path("sums.csv").write_text(PEOPLE + "Total;;\n")
    summed = swapped("apply", "latest", "sums.csv", "--column", "x", "-o", "x.csv", "--anyway", "--json")
    assert (summed.json["rows"], summed.json["failed"]) == (9, 1)
    assert [*table(Path("x.csv"), ";")[-1].values()] == ["Total", "", "", "", ""]
    renamed = PEOPLE.replace("Surname", "Name")
    Path("people.csv").write_text(renamed)
    wrong = swapped("apply", "latest", "people.csv", "--column", "x", "-o", "new.csv", "--anyway")
    assert wrong.code == 2
    assert "people.csv: expected a column for surname, found First name, Name, Display" in wrong.err
    assert not Path("new.csv").exists()


def test_apply_trusts_no_row_that_looks_like_mostly_wrong_ones(evovpo: Shell) -> None:
    Path("notes.csv").write_text(
        "a,b\n" + "".join(f"item {n},{'item' if n % 3 == 0 else n}\n" for n in range(24))
    )
    with served(["```python\ndef b(a):\n    return a.split()[0]\n```"] * 4) as (address, _):
        evovpo("evolve", "notes.csv", "--base-url", address, "--model", "m", "-n", "4")
    filled = evovpo("apply", "latest", "notes.csv", "--column", "b", "-o", "out.csv", "--anyway", "--json")
    assert filled.json["doubtful"] == 24
    assert {row["b trusted"] for row in table(Path("out.csv"), ",")} == {"no"}


def test_a_program_wrong_on_held_out_rows_is_not_applied(evovpo: Shell) -> None:
    rows = [f"item {n},ITEM {n}" for n in range(10, 30)]
    Path("learn.csv").write_text("\n".join(["a,b", *rows, ""]))
    train = {row.inputs[0]: row.output for row in open_request("learn.csv").problem.train}
    known = f"```python\ndef b(a):\n    return {train}.get(a)\n```"
    with served([known] * 4) as (address, _):
        ended = evovpo("evolve", "learn.csv", "--base-url", address, "--model", "m", "-n", "4")
    assert ended.code == 5
    assert "Fill the table: " not in ended.out
    assert "add more training examples alike" in ended.out
    command = "apply", "learn", "learn.csv", "--column", "b", "-o", "out.csv"
    refused = evovpo(*command)
    assert refused.code == 2
    assert "is right on 0 of 5 held-out rows" in refused.err
    assert not Path("out.csv").exists()
    for note in (False, True):
        filled = evovpo(*command, "--anyway")
        assert ("in place of the file that was there" in filled.out) is note
    assert [*table(Path("out.csv"))[0]] == ["a", "b", "b trusted"]
    assert {row["b trusted"] for row in table(Path("out.csv")) if row["a"] not in train} == {"no"}


def test_filled_cells_of_the_table_say_which_rows_to_trust(evovpo: Shell) -> None:
    known = [f"item {n},item" for n in range(10, 28)] + ["zz!,1", "yy!,2"]
    wrong = [f"item {n},other" for n in range(30, 60)]
    Path("learn.csv").write_text("\n".join(["a,b", *known, ""]))
    with served(["```python\ndef b(a):\n    return a.split()[0]\n```"] * 4) as (address, _):
        evovpo("evolve", "learn.csv", "--base-url", address, "--model", "m", "-n", "4")
    for rows, trusted in ((known, "yes"), (known + wrong, "no")):
        Path("all.csv").write_text("\n".join(["a,b", *rows, "item 77,", ""]))
        evovpo("apply", "learn", "all.csv", "--column", "b", "-o", "out.csv", "--anyway")
        assert table(Path("out.csv"), ",")[-1] == {"a": "item 77", "b": "item", "b trusted": trusted}
    gone = evovpo("apply", "learn", "nothere.csv", "--column", "b", "-o", "out.csv", "--anyway")
    assert (gone.code, "nothere.csv" in gone.err) == (2, True)


def test_the_end_of_a_run_names_forms_without_an_example_and_the_commands_to_paste(evovpo: Shell) -> None:
    unfilled = "Jan;de Wit;\nAnn Lee;Roe;\nEva;van Es;\nKai;Lux;\n"
    Path("my people.csv").write_text(
        PEOPLE.replace("Jo;;Jo\n", "").replace("Dahl N.", "Dahl, Nils") + unfilled
    )
    with served([f"```python\n{SWAP}```"] * 8) as (address, _):
        command = ("evolve", "my people.csv", "--base-url", address, "--model", "m", "-n", "8")
        said = evovpo(*command).out
        assert evovpo(*command, "--json").json["new_forms"] == {
            "'Jan', 'de Wit'": [8, 10], "'Ann Lee', 'Roe'": [9],
        }  # fmt: skip
    listed = "  row 8 and 1 more: 'Jan', 'de Wit'\n  row 9: 'Ann Lee', 'Roe'\n"
    assert f"\n3 rows without 'Display', like no example (2 forms); fill one of each:\n{listed}" in said
    (pasted,) = (
        line.split("evovpo ", 1)[1] for line in said.splitlines() if line.startswith("Fill the table")
    )
    assert "--anyway" not in said
    assert f"evovpo {pasted}\n" in evovpo("resume", pasted.split()[1]).out
    assert pasted.endswith(" 'my people.csv' --column Display -o 'my people-filled.csv'")
    applied = evovpo(*shlex.split(pasted))
    assert (applied.code, listed in applied.out) == (0, True)
    assert (
        Path("my people-filled.csv")
        .read_text()
        .endswith("Jan;de Wit;de, Jan\nAnn Lee;Roe;Roe, Ann Lee\nEva;van Es;van, Eva\nKai;Lux;Lux, Kai\n")
    )
    (pasted,) = (line.split("evovpo ", 1)[1] for line in said.splitlines() if line.startswith("As a program"))
    assert evovpo(*shlex.split(pasted), "--no-png").code == 0
    assert Path("solve.py").read_text() == SWAP
    Path("my people.csv").rename("other.csv")
    assert "Fill a table:       evovpo apply " in evovpo("resume", "latest").out


def test_a_written_program_is_the_function_alone(swapped: Shell) -> None:
    assert swapped("show", "--out", "solve.py", "--no-png").code == 0
    again = swapped("show", "--out", "solve.py", "--no-png")
    assert "written to solve.py in place of the file that was there" in again.err
    assert Path("solve.py").read_text() == SWAP
    Path("evovpo-out").rename("kept")
    Path("evovpo-out").write_text("a file where the folder would be")
    shown = swapped("show")
    assert (shown.code, "note: no picture: " in shown.err) == (0, True)


def test_a_table_becomes_a_folder_to_change(evovpo: Shell) -> None:
    write_names(Path("names.csv"), 12)
    made = evovpo("new", "mine", "--from", "names.csv", "--output", "short")
    assert made.code == 0
    assert "9 to learn from and 3 held out" in made.out
    assert evovpo("check", "mine").code == 0
    assert evovpo("new", "mine", "--from", "names.csv").code == 2
    unknown = evovpo("new", "other", "--from", "names.csv", "--output", "shirt")
    assert (unknown.code, "did you mean 'short'?" in unknown.err) == (2, True)
    assert evovpo("evolve", "mine", "--output", "short").code == 2
    assert evovpo("new", "other", "--output", "short").code == 2
    assert evovpo("new", "other", "--from", "names.csv", "--kind", "score").code == 2


def test_a_table_is_a_problem_wherever_one_is_named(evovpo: Shell) -> None:
    write_names(Path("names.csv"))
    checked = evovpo("check", "names.csv", "--output", "short")
    assert (checked.code, "names-" in checked.out) == (0, True)
    assert "16 to learn from and 200 held out" in checked.err
    assert "Next:  evovpo evolve names.csv --output short" in checked.out
    asked = evovpo(
        "check", "names.csv", "--prompts", "--set", "prompt.style=rewrite", "--set", "proposer.name=openai"
    )
    assert "Write the column 'short' of a table from 'name'." in asked.out
    diagnosed = evovpo("doctor", "names.csv", "--set", "proposer.name=random")
    assert (diagnosed.code, "names-" in diagnosed.out) == (0, True)
    assert len(list(Path("evovpo-out").iterdir())) == 1
    for more in ((), ("--prompts",)):
        refused = evovpo("check", "strings/base-name", "--columns", "name", *more)
        assert (refused.code, "--output and --columns are for tables" in refused.err) == (2, True)


def test_too_many_columns_for_the_built_in_model_can_be_left_out(evovpo: Shell) -> None:
    Path("wide.csv").write_text("a,b,c,d,e,out\n" + "".join(f"{n}x,y,z,u,v,{n}x!\n" for n in range(24)))
    wide = evovpo("evolve", "wide.csv")
    assert (wide.code, "5 inputs, of which 1 to 4 fit (choose with --columns A,B)" in wide.err) == (2, True)
    narrow = evovpo("evolve", "wide.csv", "--columns", "a, b", "--proposer", "random", "-n", "4", "--json")
    assert narrow.json["train_total"] == 16
    assert "def out(a, b):" in narrow.json["program"]


def test_a_batch_that_fails_is_halved_down_to_the_row_that_does_it() -> None:
    problem = open_request("strings/file-extension").problem
    patient = dataclasses.replace(problem, limits=Limits(wall_seconds=60.0))
    source = f"import os\ndef {problem.entry}(x):\n    if x == '7':\n        os._exit(3)\n    return x * 2\n"
    done: list[int] = []
    rows = [[str(number)] for number in range(9)] + [["a"]] * 600
    found = run_rows(patient, Program(source), Config(), rows, done.append)
    assert [value for value, _ in found[:9]] == ["00", "11", "22", "33", "44", "55", "66", None, "88"]
    assert "crash" in found[7][1]
    assert all(value == "aa" for value, _ in found[9:])
    assert (len(found), sum(done)) == (609, 609)
