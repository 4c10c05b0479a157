"""Reads and writes CSV tables and runs a function on their rows, with Python's standard library only.

`evovpo show --out` appends this text to a program, which then runs without evovpo. All names defined here
start with `table_`, a prefix that no program uses.
"""

import builtins
import csv
import io
import json
import keyword
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def table_names(columns: Iterable[str]) -> dict[str, str]:
    """Return the columns by parameter name; no parameter name is a keyword or hides a builtin."""
    names: dict[str, str] = {}
    for number, column in enumerate(columns, start=1):
        name = re.sub(r"\W+", "_", column.lower()).strip("_")
        if not name.isidentifier():
            name = f"column_{number}"
        while name in names or keyword.iskeyword(name) or hasattr(builtins, name) or name in ("re", "w"):
            name += "_"
        names[name] = column
    return names


def table_mark(head: str) -> str:
    """Return the separator that splits the first line most: comma, semicolon, tab or bar."""
    return max(",;\t|", key=lambda mark: len(next(csv.reader([head], delimiter=mark), ())))


def table_read(path: str, text: str | None = None) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of a CSV file or text, as dictionaries, and its separator. Raises `ValueError`."""
    if text is None:
        with open(path, "rb") as file:
            data = file.read()
        if b"\0" in data:
            raise ValueError(f"{path}: expected CSV in UTF-8, found another kind of file; save it as that")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            print(f"note: {path}: line {line} is no UTF-8, so the file is read as Latin-1", file=sys.stderr)
            text = data.decode("cp1252", "replace")
    mark = table_mark("".join(text.splitlines()[:1]))
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    rows, uneven, line = [], [], 1
    try:
        columns = list(reader.fieldnames or ())
        if not columns or len(set(columns)) < len(columns):
            found = columns or "nothing"
            raise ValueError(f"{path}: line 1: expected another name for each column, found {found}; add it")
        for row in reader:
            line = reader.line_num
            if any(row.pop(None, ())) or None in row.values():
                uneven.append(line)
            if any(row.values()):
                rows.append(row)
    except csv.Error as error:
        found = f"in the row after line {line}: {error}"
        raise ValueError(f"{path}: {found}; close all quotes, and double those in quoted cells") from None
    if uneven or not rows:
        found = f"others on {len(uneven)} lines {uneven[:5]}" if uneven else "none"
        raise ValueError(
            f"{path}: expected rows of {len(columns)} cells, as in line 1, found {found}; correct them, "
            f"and put cells that hold {mark!r} or a line end into double quotes"
        )
    return rows, mark


def table_value(cell: Any) -> Any:
    """Return the value of a cell: None if empty, parsed if it is JSON, else the text itself."""
    try:
        return None if cell == "" else json.loads(cell)
    except (TypeError, ValueError):
        return cell


def table_arguments(rows: Sequence[Mapping[str, Any]], are_text: Mapping[str, bool]) -> list[list[Any]]:
    """Return the argument list of each row, parsed as JSON except for text parameters."""
    columns = table_names(rows[0])
    if missing := [name for name in are_text if name not in columns]:
        found = ", ".join(rows[0])
        raise ValueError(f"expected a column for {missing[0]}, found {found}; give the right one that name")
    kinds = {columns[name]: is_text for name, is_text in are_text.items()}
    return [
        [
            ("" if row[name] is None else row[name]) if is_text else table_value(row[name])
            for name, is_text in kinds.items()
        ]
        for row in rows
    ]


def table_write(file: Any, rows: Sequence[Mapping[str, Any]], mark: str) -> None:
    """Write rows as CSV: None as an empty cell, other non-text values as JSON."""
    writer = csv.writer(file, delimiter=mark, lineterminator="\n")
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow(cell if isinstance(cell, str | None) else json.dumps(cell) for cell in row.values())


def table_cell(value: Any) -> Any:
    """Return a value for a CSV cell, with an apostrophe before text that a spreadsheet reads as a formula."""
    is_formula = isinstance(value, str) and re.match(r"[=@\t\r]|[+-](?![\d\s.,()/%eE-]*$)", value)
    return f"'{value}" if is_formula else value


def table_main(function: Callable[..., Any], are_text: Mapping[str, bool], column: str) -> None:
    """Fill the empty cells of a column, which may be new, in the first CSV file; write to the second."""
    if len(sys.argv) not in (2, 3):
        sys.exit(f"usage: python {sys.argv[0]} DATA.csv [OUT.csv]")
    failed = 0
    try:
        rows, mark = table_read(sys.argv[1])
        column = table_names(rows[0]).get(column, column)
        for number, (row, values) in enumerate(
            zip(rows, table_arguments(rows, are_text), strict=True), start=1
        ):
            try:
                row[column] = row.get(column) or table_cell(function(*values))
            except Exception as error:
                row[column], failed = None, failed + 1
                print(f"row {number}: {type(error).__name__}: {error}", file=sys.stderr)
        with open(sys.argv[2] if sys.argv[2:] else 1, "w", encoding="utf-8", newline="") as file:
            table_write(file, rows, mark)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    sys.exit(1 if failed else 0)
