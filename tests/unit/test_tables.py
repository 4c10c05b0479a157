"""Tables as problems: what is read of CSV, JSON Lines and Excel, how rows are split, and what is refused."""

import io
import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from name_tables import names, write_names

from evovpo.errors import ProblemError
from evovpo.problem.folder import load_problem
from evovpo.problem.importers.tables import (
    arguments_of,
    form_of,
    new_forms,
    parameter_names,
    read_table,
    table_task,
    write_rows,
    write_table,
)

WANTED = [{"name": "Berg, Ada", "short": "A. Berg"}, {"name": "Olga Lang", "short": "O. Lang"}]


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain.csv", 'name,short\n"Berg, Ada",A. Berg\nOlga Lang,O. Lang\n'),
        ("bom.csv", b"\xef\xbb\xbf" + b'name,short\n"Berg, Ada",A. Berg\nOlga Lang,O. Lang\n'),
        ("crlf.csv", 'name,short\r\n"Berg, Ada",A. Berg\r\n\r\nOlga Lang,O. Lang'),
        ("semicolon.csv", "name;short\nBerg, Ada;A. Berg\nOlga Lang;O. Lang\n"),
        ("tab.tsv", "name\tshort\nBerg, Ada\tA. Berg\n\t\nOlga Lang\tO. Lang\n"),
        ("bar.csv", '"name"|"short"\n"Berg, Ada"|A. Berg\nOlga Lang|O. Lang\n'),
        ("beyond.csv", 'name,short\n"Berg, Ada",A. Berg,\nOlga Lang,O. Lang,,\n'),
        (
            "lines.jsonl",
            '{"name": "Berg, Ada", "short": "A. Berg"}\n\n{"short": "O. Lang", "name": "Olga Lang"}\n',
        ),
    ],
)
def test_tables_as_programs_write_them_are_read(name: str, content: str | bytes, tmp_path: Path) -> None:
    assert read_table(written(tmp_path / name, content)) == WANTED


def test_cells_may_hold_quotes_and_line_ends(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'text,wanted\n"say ""hi""\ntwice",hi\n5" disk,disk\n')
    assert [row["text"] for row in read_table(path)] == ['say "hi"\ntwice', '5" disk']


def sheet(path: Path, *rows: tuple[object, ...]) -> Path:
    """Write a workbook with these rows, and a second sheet."""
    book = pytest.importorskip("openpyxl").Workbook()
    for cells in rows:
        book.active.append(cells)
    book.create_sheet("second").append(("other",))
    book.save(path)
    return path


def test_sheets_are_read_as_their_cells_are_written(tmp_path: Path) -> None:
    rows = (("name", "age"), ("Berg, Ada", 36), (None, None), ("Lang", None))
    assert read_table(sheet(tmp_path / "a.xlsx", *rows)) == [
        {"name": "Berg, Ada", "age": "36"},
        {"name": "Lang", "age": ""},
    ]


def test_dates_of_a_sheet_have_no_midnight_and_columns_of_numbers_stay_so(tmp_path: Path) -> None:
    day = datetime(2024, 1, 31)
    path = sheet(tmp_path / "a.xlsx", ("day", "1999"), (day, 2024), (day.replace(hour=9), None))
    rows = read_table(path)
    assert [row["day"] for row in rows] == ["2024-01-31", "2024-01-31 09:00:00"]
    rows[1]["1999"] = "2025"
    with (tmp_path / "b.xlsx").open("w") as file:
        write_rows(file, tmp_path / "b.xlsx", path, rows, {"1999": [2]})
    found = pytest.importorskip("openpyxl").load_workbook(tmp_path / "b.xlsx").worksheets[0]
    assert [cell.value for cell in found["B"]] == ["1999", 2024, 2025]


def test_a_filled_sheet_keeps_formulas_and_writes_dates_into_a_column_of_dates(tmp_path: Path) -> None:
    first, second = datetime(2024, 1, 31), datetime(2024, 2, 1)
    total = ("total", None, "=SUM(C2:C3)")
    path = sheet(tmp_path / "a.xlsx", ("text", "day", "n"), ("a", first, 7), ("b", None, None), total)
    rows = read_table(path)
    rows[1].update(day="2024-02-01", n="8")
    rows[2].update(day="later", n="9")
    with (tmp_path / "b.xlsx").open("w") as file:
        write_rows(file, tmp_path / "b.xlsx", path, rows, {"day": [2, 3], "n": [2, 3]})
    found = pytest.importorskip("openpyxl").load_workbook(tmp_path / "b.xlsx").worksheets[0]
    assert [cell.value for cell in found["B"]] == ["day", first, second, "later"]
    assert [cell.value for cell in found["C"]] == ["n", 7, 8, "=SUM(C2:C3)"]


def test_a_form_tells_words_by_their_case() -> None:
    names = ("Ada Berg", "ADA B.", "ada berg 12", "de la Cruz", "Élan vital")
    assert [form_of([name])[2:-3] for name in names] == ["Aa Aa", "AA Aa.", "a a 00", "a a Aa", "Aa a"]
    assert form_of(["A1-12-123-1234", 12.5]) == "('Aa0-00-000-000', '0.0')"


def test_without_openpyxl_a_sheet_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(ProblemError, match=r"pip install 'evovpo\[xlsx\]'"):
        read_table(written(tmp_path / "a.xlsx", b"PK"))


def test_a_latin_1_file_is_read_with_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = read_table(written(tmp_path / "a.csv", "a,b\n1,2\nJosé,3\n".encode("latin-1")))
    assert rows[1] == {"a": "José", "b": "3"}
    assert "line 3 is no UTF-8: read as Latin-1, written as UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.csv", "a,b\n1,2\n3\n4,5,6\n", r"a\.csv: expected rows of 2 cells.* on 2 lines \[3, 4\]"),
        ("a.csv", "", r"a\.csv: line 1: expected column names, all different, found an empty file"),
        ("a.csv", "a,b\n1,2\n".encode("utf-16"), r"a\.csv: expected CSV in UTF-8, found another kind"),
        ("a.csv", "a,b\n", r"a\.csv: expected rows below the column names, found none"),
        (
            "a.csv",
            "a,b,a\n1,2,3\n",
            r"a\.csv: line 1: expected column names, all different, found \['a', '",
        ),
        ("a.csv", 'a,b\n1,2\n3,"4\n5,6\n', r"a\.csv: in the row after line 2: .*close all quotes"),
        ("a.csv", 'a,b\n1,2\n"3"x,4\n', r"a\.csv: in the row after line 2: "),
        ("a.jsonl", '{"a": 1}\n{"a":\n', r"a\.jsonl: line 2: expected JSON"),
        ("a.jsonl", "[1]\n", r"a\.jsonl: expected a JSON object on each line"),
        ("a.jsonl", "", r"a\.jsonl: expected a JSON object on each line"),
        ("a.xlsx", b"no zip", r"a\.xlsx|not a zip"),
    ],
)
def test_what_is_no_table_is_refused_in_one_sentence(
    name: str, content: str | bytes, complaint: str, tmp_path: Path
) -> None:
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
    with pytest.raises(ProblemError, match=complaint):
        read_table(written(tmp_path / name, content))


@pytest.mark.parametrize(
    ("name", "content", "out", "expected"),
    [
        ("a.csv", "n;m\n1;x\n", "b.csv", "n;m\n1;y\n"),
        ("a.csv", "\ufeffn;m\n1;x\n", "b.csv", "\ufeffn;m\n1;y\n"),
        ("a.csv", "n|m\n1|x\n", "b.txt", "n|m\n1|y\n"),
        ("a.csv", "n;m\n1;x\n", "b.tsv", "n\tm\n1\ty\n"),
        ("a.tsv", "n\tm\n1\tx\n", "b", "n\tm\n1\ty\n"),
        ("a.tsv", "n\tm\n1\tx\n", "b.csv", "n,m\n1,y\n"),
        ("a.jsonl", '{"n": 1.5, "m": "é"}\n', "b.out", '{"n": 1.5, "m": "y"}\n'),
        ("a.jsonl", '{"n": 1.5, "m": "é"}\n', "b.csv", "n,m\n1.5,y\n"),
        ("a.csv", "n;m\n1;x\n", "B.JSONL", '{"n": "1", "m": "y"}\n'),
    ],
)
def test_a_table_is_written_as_its_name_says_or_as_it_was(
    name: str, content: str, out: str, expected: str, tmp_path: Path
) -> None:
    table = written(tmp_path / name, content)
    rows = [row | {"m": "y"} for row in read_table(table)]
    with (tmp_path / out).open("w", encoding="utf-8", newline="") as file:
        write_rows(file, tmp_path / out, table, rows, {"m": [1]})
    assert (tmp_path / out).read_text(encoding="utf-8") == expected


def test_line_ends_are_kept_and_what_was_latin_1_is_marked_as_utf_8(tmp_path: Path) -> None:
    table = written(tmp_path / "a.csv", "n;m\r\nMüller;x\r\n".encode("latin-1"))
    with (tmp_path / "b.csv").open("w", encoding="utf-8", newline="") as file:
        write_rows(file, tmp_path / "b.csv", table, read_table(table), {})
    assert (tmp_path / "b.csv").read_bytes() == "\ufeffn;m\r\nMüller;x\r\n".encode()


def test_a_sheet_keeps_what_is_not_filled(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    sheet(tmp_path / "a.xlsx", ("n", "short"), (36, None), (None, None), ("=1+1", "kept"))
    rows = [{"n": "36", "short": "s", "list": [1]}, {"n": "", "short": "kept", "list": None}]
    for column, out, expected in (
        ("short", "b.xlsx", [("n", "short"), (36, "s"), (None, None), ("=1+1", "kept")]),
        ("list", "b", [("n", "short", "list"), (36, None, "[1]"), (None,) * 3, ("=1+1", "kept", None)]),
    ):
        with (tmp_path / out).open("w") as file:
            write_rows(file, tmp_path / out, tmp_path / "a.xlsx", rows, {column: [1, 2]})
        found = openpyxl.load_workbook(io.BytesIO((tmp_path / out).read_bytes()))
        assert list(found.worksheets[0].values) == expected
        assert found.sheetnames[1:] == ["second"]
    with (tmp_path / "c.xlsx").open("w") as file:
        write_rows(file, tmp_path / "c.xlsx", written(tmp_path / "c.csv", "n\n1\n"), rows[:1], {"list": [1]})
    assert read_table(tmp_path / "c.xlsx") == [{"n": "36", "short": "s", "list": "[1]"}]


def test_rows_of_a_form_that_no_example_has_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["Ada Berg", "Dr. Ada Berg", "Ada Berg", "Jo Ann Berg", "Emil", "Bo Ek Lund", "Berg-Falk 12"]
    path = written(tmp_path / "a.csv", "name,short\n" + "".join(f"{name},\n" for name in names[1:]))
    folder, _ = write_table(written(tmp_path / "b.csv", "name,short\nEva Haas,E.\nProf. Al Roe,A.\n"), None)
    rows = read_table(path)
    assert new_forms(load_problem(folder), rows, "short") == {
        "'Jo Ann Berg'": [3, 5], "'Emil'": [4], "'Berg-Falk 12'": [6],
    }  # fmt: skip
    rows[3]["short"] = "filled"
    assert "'Emil'" not in new_forms(load_problem(folder), rows, "short")
    assert "'Emil'" in new_forms(load_problem(folder), rows, "another")
    titles = "title,last,to\n" + "".join(f"{t},{n}le,x\n" for n in "ABCD" for t in ("Mr", "Ms"))
    folder, _ = write_table(written(tmp_path / "t.csv", titles + "Dr,Able,\nMr,Eble,\nDr,Fable,\n"), None)
    assert new_forms(load_problem(folder), read_table(tmp_path / "t.csv"), "to") == {"'Dr', 'Able'": [9, 11]}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in ("none.csv", "none.jsonl"):
        with pytest.raises(ProblemError, match=rf"{name}"):
            read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "output", "complaint"),
    [
        ("name,short\na,b\n", "shirt", r"a column 'shirt' with cells, .* did you mean 'short'\?"),
        ("name\na\n", None, "and one beside it, found none"),
        ("name,short\na,\nb,\n", None, "fill some 20 cells of it"),
        ("name,short\na,b\na,c\n", None, "found several"),
    ],
)
def test_a_table_without_what_a_problem_needs_is_refused(
    content: str, output: str | None, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(ProblemError, match=complaint):
        table_task(written(tmp_path / "a.csv", content), output)


def test_columns_become_parameters_with_names_of_their_own() -> None:
    columns = ["First Name", "first-name", "class", "id", "2nd", "", "Größe", "re", "name"]
    names = ["first_name", "first_name_", "class_", "id_", "column_5", "column_6", "größe", "re_", "name"]
    assert parameter_names(columns) == dict(zip(names, columns, strict=True))


def test_rows_of_every_shape_are_trained_on_and_others_held_out(tmp_path: Path) -> None:
    task, said = table_task(write_names(tmp_path / "names.csv"), None)
    assert (len(task.tests), len(task.heldout), task.entry, task.parameters) == (16, 200, "short", ("name",))
    texts = [str(case.arguments[0]) for case in task.tests]
    marks = Counter("," if "," in text else "." if "." in text else "none" for text in texts)
    assert (len(marks), min(marks.values()) >= 5) == (3, True)
    pairs = {(case.arguments[0], case.expected) for case in (*task.tests, *task.heldout)}
    assert len(pairs) == 216
    assert pairs <= set(names())
    assert (
        "'short' from name: 16 to learn from and 200 held out, of 300 distinct rows; 0 have no 'short'"
        in said
    )
    assert table_task(tmp_path / "names.csv", None) == (task, said)


def test_few_rows_keep_a_quarter_unseen_and_what_is_unclear_is_left_out(tmp_path: Path) -> None:
    rows = "a,1x\nb,2x\nc,3x\nd,4x\na,1x\ne,5x\ne,6x\nf,\n"
    task, said = table_task(written(tmp_path / "a.csv", "in,out\n" + rows), None)
    assert sorted(case.arguments[0] for case in (*task.tests, *task.heldout)) == ["a", "b", "c", "d"]
    assert (len(task.tests), len(task.heldout)) == (3, 1)
    assert "3 to learn from and 1 held out, of 4 distinct rows; 1 have no 'out'" in said
    assert ", 1 left out whose inputs come with several 'out'" in said
    assert said.endswith("; few show little: fill 20 cells or more, of all forms that the others have")


def test_a_row_of_totals_is_no_example(tmp_path: Path) -> None:
    lines = ["item,net,gross", *(f"Item {n},{n},{2 * n}" for n in range(1, 9)), "Grand total:,,72", "Sum,3,6"]
    task, said = table_task(written(tmp_path / "a.csv", "\n".join(lines)), None)
    assert {case.arguments for case in (*task.tests, *task.heldout)} == {
        *((f"Item {n}", n) for n in range(1, 9)), ("Sum", 3)
    }  # fmt: skip
    assert "of 9 distinct rows; 0 have no 'gross', 1 of totals left out" in said


def test_another_column_to_fill_is_no_input_and_a_blank_cell_is_empty(tmp_path: Path) -> None:
    lines = ["a,b,c", *(f"x{n},X{n},{n}y" for n in range(8)), "x8, ,", "x9,,", "x10,  ,", "x11,,"]
    task, said = table_task(written(tmp_path / "a.csv", "\n".join(lines)), "b")
    assert (task.parameters, len(task.tests) + len(task.heldout)) == (("a",), 8)
    assert "4 have no 'b' (nor 'c', so no input)" in said
    assert table_task(tmp_path / "a.csv", "b", ["a", "c"])[0].parameters == ("a", "c")
    few = written(tmp_path / "few.csv", "\n".join(lines[:-2]))
    assert table_task(few, "b")[0].parameters == ("a", "c")


def test_the_columns_that_programs_get_can_be_chosen(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "A a,b,c,d,e,out\nA,B,C,D,E,x\nA,B,C,D,F,x\nG,B,C,D,F,y\n")
    task, _ = table_task(path, None, ("d", "A a"))
    assert (task.parameters, task.entry) == (("a_a", "d"), "out")
    assert sorted(case.arguments for case in (*task.tests, *task.heldout)) == [("A", "D"), ("G", "D")]
    for name in ("Aa", "out"):
        with pytest.raises(ProblemError, match=rf"a\.csv: expected columns beside 'out', found '{name}'"):
            table_task(path, None, ("b", name))


@pytest.mark.parametrize(
    ("name", "content", "arguments", "expected"),
    [
        ("a.csv", "q,price,total\n2,1.5,3.0\n2,1.5,3.0\n", (2, 1.5), 3.0),
        ("a.csv", "q,price,total\n2,,3.0\n", (2, None), 3.0),
        ("a.csv", "year,label\n1999,in 1999\n", ("1999",), "in 1999"),
        ("a.csv", "phone,area\n5551234,555\n", ("5551234",), "555"),
        ("a.csv", "zip,ok\n00501,501\n", ("00501",), "501"),
        ("a.csv", "parts,n,size\n\"[1, 2]\",,2\n\"[3]\",,1\n", ([1, 2], None), 2),
        ("a.jsonl", '{"a": "5", "b": 0, "c": "5-0"}\n', ("5", 0), "5-0"),
        ("a.jsonl", '{"a": "5", "b": "x"}\n{"a": null, "b": "y"}\n', ("5",), "x"),
    ],
)  # fmt: skip
def test_cells_are_text_unless_the_result_is_none_or_they_are_lists(
    name: str, content: str, arguments: tuple[Any, ...], expected: Any, tmp_path: Path
) -> None:
    task, _ = table_task(written(tmp_path / name, content), None)
    cases = [(case.arguments, case.expected) for case in (*task.tests, *task.heldout)]
    assert json.dumps([arguments, expected]) in map(json.dumps, cases)


def test_the_same_table_gives_the_same_folder_and_never_touches_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = write_names(Path("names.csv"), 20)
    folder, _ = write_table(table, None)
    assert folder.parent == Path("evovpo-out")
    version = load_problem(folder).version
    (folder / "note.txt").write_text("mine")
    table.write_bytes(table.read_bytes().replace(b"\r\n", b"\n"))
    assert write_table(table, "short")[0] == folder
    assert (folder / "note.txt").exists()
    assert load_problem(folder).version == version
    assert write_table(write_names(table, 21), "short")[0] != folder
    with pytest.raises(ProblemError, match="expected a new or empty folder"):
        write_table(table, None, folder=folder)


def test_a_column_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="expected a column for last_name, found First Name; "):
        arguments_of([{"First Name": "Ada"}], {"first_name": True, "last_name": True})


def test_what_programs_return_becomes_no_formula(tmp_path: Path) -> None:
    hostile = [
        '=HYPERLINK("http://far")',
        "@SUM(1)",
        "+cmd|' /C calc'!A0",
        "-2+3",
        "\t=1",
        "+49 170 1234",
        "-5.2",
    ]
    rows = [{"n": "=own", "short": text} for text in hostile]
    (tmp_path / "a.csv").write_text("n,short\n" + "=own,\n" * len(hostile))
    with (tmp_path / "b.csv").open("w", newline="") as file:
        write_rows(file, tmp_path / "b.csv", tmp_path / "a.csv", rows, {"short": range(1, 8)})
    found = read_table(tmp_path / "b.csv")
    assert [row["short"] for row in found] == [*(f"'{text}" for text in hostile[:5]), *hostile[5:]]
    assert found[0]["n"] == "=own"
    with (tmp_path / "b.csv").open("w", newline="") as file:  # the first cell was filled by the user
        write_rows(file, tmp_path / "b.csv", tmp_path / "a.csv", rows, {"short": range(2, 8)})
    assert [row["short"] for row in read_table(tmp_path / "b.csv")][:2] == [hostile[0], f"'{hostile[1]}"]
    sheet(tmp_path / "a.xlsx", ("n", "short"), *(("=1+1", None) for _ in rows))
    with (tmp_path / "b.xlsx").open("w") as file:
        write_rows(file, tmp_path / "b.xlsx", tmp_path / "a.xlsx", rows, {"short": range(1, 8)})
    found = pytest.importorskip("openpyxl").load_workbook(tmp_path / "b.xlsx").worksheets[0]
    assert [found.cell(line, 2).data_type for line in range(2, 9)] == ["s"] * 7
    assert found.cell(2, 2).value == hostile[0]
    assert found.cell(2, 1).data_type == "f"  # the user's own


def test_a_sheet_with_a_cell_far_outside_or_much_inside_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.cell(1_048_576, 16_384, "far")
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(ProblemError, match="at most 1000000 cells, found 1048576 rows of 16384 columns"):
        read_table(tmp_path / "a.xlsx")
    monkeypatch.setattr("evovpo.problem.importers.tables._MOST_BYTES", 1 << 10)
    with pytest.raises(ProblemError, match="at most 0 MiB unpacked"):
        read_table(tmp_path / "a.xlsx")
