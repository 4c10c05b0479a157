"""Turns a table (CSV, Excel, JSON Lines) into a task: one column is the output, the others are inputs."""

import csv
import inspect
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, TextIO

from evovpo.errors import ProblemError, nearest_hint
from evovpo.files import write_errors, written_whole
from evovpo.problem.importers import table_script
from evovpo.problem.importers.problem_writer import MOST_COMPONENTS, check_empty, write_problem
from evovpo.problem.importers.table_script import (
    table_arguments,
    table_cell,
    table_mark,
    table_names,
    table_read,
    table_value,
    table_write,
)
from evovpo.problem.importers.tasks import Case, ImportedTask, parsed, read_lines
from evovpo.types import Problem, Program, content_id

TABLES = (".csv", ".tsv", ".xlsx", ".jsonl")
_MOST_HELD_OUT = 200
_MOST_CELLS, _MOST_BYTES = 1_000_000, 512 << 20
"""Of a sheet, from its corner to its farthest cell, and of all that its file holds."""


def read_table(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table, at least one, all with the same columns; raises `ProblemError`."""
    kind, sheet = path.suffix.lower(), io.StringIO()
    if kind == ".jsonl":
        lines = enumerate(read_lines(path), start=1)
        rows = [parsed(line, f"{path}: line {number}") for number, line in lines if line.strip()]
        if not rows or not all(isinstance(row, dict) for row in rows):
            raise ProblemError(
                f"{path}: expected a JSON object on each line, found others or none; correct it"
            )
        columns = dict.fromkeys(column for row in rows for column in row)
        return [{column: row.get(column) for column in columns} for row in rows]
    try:
        if kind == ".xlsx":
            openpyxl = _openpyxl(path)
            with zipfile.ZipFile(path) as parts:
                size = sum(part.file_size for part in parts.infolist())
            if size > _MOST_BYTES:
                raise ProblemError(f"{path}: expected at most {_MOST_BYTES >> 20} MiB unpacked, found {size}")
            first = openpyxl.load_workbook(path, data_only=True).worksheets[0]
            if first.max_row * first.max_column > _MOST_CELLS:
                found = f"{first.max_row} rows of {first.max_column} columns"
                raise ProblemError(
                    f"{path}: expected at most {_MOST_CELLS} cells, found {found}; delete cells far outside"
                )
            csv.writer(sheet).writerows(first.iter_rows(values_only=True))
        return table_read(str(path), sheet.getvalue() if kind == ".xlsx" else None)[0]
    except OSError as error:
        raise ProblemError(f"{path}: expected a table, but it cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ProblemError(str(error) if str(path) in str(error) else f"{path}: {error}") from error


def _openpyxl(path: Path) -> ModuleType:
    try:
        return import_module("openpyxl")
    except ImportError:
        fix = "pip install 'evovpo[xlsx]', or use CSV"
        raise ProblemError(f"{path}: expected openpyxl for it, found none; {fix}") from None


def write_rows(
    file: TextIO, out: Path, table: Path, rows: Sequence[Mapping[str, Any]], changed: Sequence[str]
) -> None:
    """Write the rows of `table`, of which columns are `changed`, in the form that `out` names, else its own.

    CSV keeps its separator, a sheet its other cells; nothing becomes a formula. Raises `ProblemError`.
    """
    before, kind = (path.suffix.lower() for path in (table, out if is_table(out) else table))
    if kind == ".jsonl":
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    elif kind != ".xlsx":
        head = "\t" * (kind == ".tsv")
        if before == kind:
            with table.open(encoding="latin-1") as source:
                head = source.readline()
        file.write("\ufeff" * head.startswith("ï»¿"))  # Excel's mark of UTF-8
        rows = [{**row, **{name: table_cell(row[name]) for name in changed}} for row in rows]
        table_write(file, rows, table_mark(head))
    else:
        book = _openpyxl(out).load_workbook(table) if before == kind else _openpyxl(out).Workbook()
        sheet, columns = book.worksheets[0], list(rows[0])
        cells = enumerate(sheet.iter_rows(2, values_only=True), start=2)
        filled = [line for line, row in cells if set(row) - {"", None}] or range(2, len(rows) + 2)
        for name in changed if before == kind else columns:
            for line, value in zip((1, *filled), (name, *(row[name] for row in rows)), strict=True):
                is_cell = isinstance(value, str | int | float | None)
                text = value if is_cell else json.dumps(value)
                cell = sheet.cell(line, columns.index(name) + 1, text)
                if isinstance(text, str):
                    cell.data_type = "s"  # never a formula
        book.save(file.buffer)


def is_table(name: str | Path) -> bool:
    """True for the name of a file that is a table."""
    return Path(name).suffix.lower() in TABLES


def table_task(path: Path, output: str | None, inputs: Collection[str] = ()) -> tuple[ImportedTask, str]:
    """Return the task of the column `output` (default: the last), and how the rows of the table were used.

    Programs get `inputs` (default: all other columns). Distinct rows are shuffled with seed 0; the first ones
    of each form are trained on, the next ones held out. Raises `ProblemError`.
    """
    rows = read_table(path)
    wanted = list(rows[0])[-1] if output is None else output
    known = [row for row in rows if row.get(wanted) not in ("", None)]
    if not known or len(rows[0]) < 2:
        hint = "fill some 20 cells of it" if wanted in rows[0] else nearest_hint(wanted, rows[0])
        raise ProblemError(
            f"{path}: expected a column {wanted!r} with cells, and one beside it, found none; {hint}"
        )
    if strange := [name for name in inputs if name not in rows[0] or name == wanted]:
        hint = nearest_hint(strange[0], rows[0].keys() - {wanted})
        raise ProblemError(f"{path}: expected columns beside {wanted!r}, found {strange[0]!r}; {hint}")
    columns, is_typed = table_names(rows[0]), path.suffix.lower() == ".jsonl"
    has_text = {
        name: any(isinstance(row[column] if is_typed else table_value(row[column]), str) for row in known)
        for name, column in columns.items()
    }
    entry = next(name for name, column in columns.items() if column == wanted)
    parameters = [name for name in columns if name != entry and (not inputs or columns[name] in inputs)]
    # A cell of CSV is a value only where what is wanted is one too, no copy of digits, and some input is one.
    is_copied = all(any(str(row[wanted]) in str(row[columns[n]]) for n in parameters) for row in known)
    has_values = is_typed or not (has_text[entry] or is_copied or all(has_text[n] for n in parameters))
    arguments = table_arguments(known, {name: has_text[name] or not has_values for name in parameters})
    outputs = table_arguments(known, {entry: has_text[entry] or not has_values})
    found: dict[str, dict[str, Case]] = {}
    for values, [expected] in zip(arguments, outputs, strict=True):
        found.setdefault(repr(values), {})[repr(expected)] = Case(tuple(values), expected)
    cases = [next(iter(alike.values())) for alike in found.values() if len(alike) == 1]
    if not cases:
        raise ProblemError(f"{path}: expected one output for the same inputs, found several; add a column")
    Random(0).shuffle(cases)
    seen: Counter[str] = Counter()

    def place_in_shape(case: Case) -> int:
        seen[form_of(case[:2])] += 1
        return seen[form_of(case[:2])]

    cases.sort(key=place_in_shape)
    count = min(MOST_COMPONENTS, len(cases) - len(cases) // 4)
    seed = f"def {entry}({', '.join(parameters)}):\n    return {parameters[0]}\n"
    statement = (
        f"Write the column {wanted!r} of a table from {', '.join(repr(columns[n]) for n in parameters)}."
    )
    unseen = cases[count : count + _MOST_HELD_OUT]
    unclear = len(found) - len(cases)
    said = (
        f"{path}: {wanted!r} from {', '.join(parameters)}: {count} to learn from and {len(unseen)} held out, "
        f"of {len(cases)} distinct rows; {len(rows) - len(known)} have no {wanted!r}"
        + f", {unclear} left out whose inputs come with several {wanted!r}" * bool(unclear)
        + "; few show little: fill 20 cells or more, of all forms that the others have" * (len(cases) < 20)
    )
    return ImportedTask(path.stem, statement, entry, tuple(parameters), seed, cases[:count], unseen), said


def form_of(values: Iterable[Any]) -> str:
    """Return what values look like: words as `a`, digits as `0`, all else as it is."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", repr(tuple(values))))


def new_forms(problem: Problem, rows: Sequence[Mapping[str, Any]], column: str) -> dict[str, list[int]]:
    """Return the rows, from 1, without `column` of each form that no example has, by inputs of the first."""
    first = dict.fromkeys((form_of(row.inputs) for row in (*problem.train, *problem.heldout)), "")
    found: dict[str, list[int]] = {}
    arguments = table_arguments(rows, texts_of(problem))
    for number, (row, values) in enumerate(zip(rows, arguments, strict=True), start=1):
        inputs = first.setdefault(form_of(values), ", ".join(map(repr, values)))
        if inputs and row.get(column) in ("", None):
            found.setdefault(inputs, []).append(number)
    return found


def write_table(
    path: Path, output: str | None, inputs: Collection[str] = (), folder: Path | None = None
) -> tuple[Path, str]:
    """Write the problem of a table, as `table_task` makes it; return its folder, and how the rows were used.

    Without `folder` it is one in `evovpo-out` for this table and task, used again if it is there. Raises
    `ProblemError`.
    """
    task, said = table_task(path, output, inputs)
    place = folder or Path("evovpo-out", f"{path.stem}-{content_id(repr(task))[:8]}")
    with write_errors(f"{place}:", kind=ProblemError):
        if folder is not None or not place.exists():
            check_empty(place)
            place.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(place) as partial:
                write_problem(partial, task)
    return place, said


def texts_of(problem: Problem) -> dict[str, bool]:
    """Return for each parameter whether it is a text in all examples, of which there are some."""
    return {
        name: bool(problem.train) and all(isinstance(row.inputs[place], str) for row in problem.train)
        for place, name in enumerate(problem.parameters)
    }


def script(problem: Problem, program: Program) -> str:
    """Return a program as a file that runs alone, on a CSV file; one that is no function as it is."""
    if not problem.entry or problem.evaluator is not None:
        return program.source
    main = f"table_main({problem.entry}, {texts_of(problem)!r}, {problem.entry!r})"
    return (
        f'{program.source}\n\n{inspect.getsource(table_script)}\n\nif __name__ == "__main__":\n    {main}\n'
    )
