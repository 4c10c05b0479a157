"""Converts a table (CSV, Excel, JSON Lines) to a task: compute one column from other columns."""

import builtins
import contextlib
import csv
import io
import json
import keyword
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, time
from importlib import import_module
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, TextIO

from evovpo.errors import ProblemError, nearest_hint
from evovpo.files import write_errors, written_whole
from evovpo.problem.importers.problem_writer import MOST_COMPONENTS, check_empty, write_problem
from evovpo.problem.importers.tasks import Case, ImportedTask, parsed, read_lines
from evovpo.types import Problem, content_id

TABLES = (".csv", ".tsv", ".xlsx", ".jsonl")
_SOURCE = "table.json"
_MOST_HELD_OUT = 200
_FEW_EMPTY, _REPEATS = 2, 3
_MOST_CELLS, _MOST_BYTES = 1_000_000, 512 << 20
"""Maximum cells of a sheet (used rows times used columns), and maximum bytes of the unpacked Excel file."""


def read_table(path: Path) -> list[dict[str, Any]]:
    """Return each row of a table as {column: cell}. Raises `ProblemError` if there are no valid rows."""
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
            cells = first.iter_rows(values_only=True)
            csv.writer(sheet).writerows(map(_without_midnight, line) for line in cells)
        return _csv_rows(path, sheet.getvalue() if kind == ".xlsx" else None)
    except OSError as error:
        raise ProblemError(f"{path}: expected a table, but it cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ProblemError(str(error) if str(path) in str(error) else f"{path}: {error}") from error


def _without_midnight(cell: Any) -> Any:
    is_date = isinstance(cell, datetime) and cell.time() == time.min
    return cell.date() if is_date else cell


def _csv_rows(path: Path, text: str | None) -> list[dict[str, Any]]:
    if text is None:
        data = path.read_bytes()
        if b"\0" in data:
            raise ValueError(f"{path}: expected CSV in UTF-8, found another kind of file; save it as that")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            note = f"note: {path}: line {line} is no UTF-8: read as Latin-1, written as UTF-8"
            print(note, file=sys.stderr)
            text = data.decode("cp1252", "replace")
    mark = _separator("".join(text.splitlines()[:1]))
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    rows, uneven, line = [], [], 1
    try:
        columns = list(reader.fieldnames or ())
        if not columns or len(set(columns)) < len(columns):
            found = columns or "an empty file"
            raise ValueError(
                f"{path}: line 1: expected column names, all different, found {found}; add "
                "them, or delete the lines above them"
            )
        for row in reader:
            line = reader.line_num
            if any(row.pop(None, ())) or None in row.values():
                uneven.append(line)
            row = {name: cell if (cell or "").strip() else "" for name, cell in row.items()}
            if any(row.values()):
                rows.append(row)
    except csv.Error as error:
        found = f"in the row after line {line}: {error}"
        raise ValueError(f"{path}: {found}; close all quotes, and double those in quoted cells") from None
    if uneven:
        raise ValueError(
            f"{path}: expected rows of {len(columns)} cells, as in line 1, found others on {len(uneven)}"
            f" lines {uneven[:5]}; correct them; cells that hold {mark!r} or a line end need double quotes"
        )
    if not rows:
        raise ValueError(f"{path}: expected rows below the column names, found none; add some")
    return rows


def _separator(head: str) -> str:
    return max(",;\t|", key=lambda mark: len(next(csv.reader([head], delimiter=mark), ())))


def _openpyxl(path: Path) -> ModuleType:
    try:
        return import_module("openpyxl")
    except ImportError:
        fix = "pip install 'evovpo[xlsx]', or use CSV"
        raise ProblemError(f"{path}: expected openpyxl for it, found none; {fix}") from None


def write_rows(
    file: TextIO,
    out: Path,
    table: Path,
    rows: Sequence[Mapping[str, Any]],
    changed: Mapping[str, Collection[int]],
) -> None:
    """Write `rows`, which are the rows of `table` with new values, to `file`.

    `changed` is {column: numbers of changed rows, from 1}. The format follows from the suffix of `out` or, if
    this is no table format, from the suffix of `table`. If `table` has the same format, a CSV file keeps its
    separator, and an Excel file keeps its unchanged cells. No new value becomes a formula. Raises
    `ProblemError` for an Excel file if the package openpyxl is not installed.
    """
    before, kind = (path.suffix.lower() for path in (table, out if is_table(out) else table))
    if kind == ".jsonl":
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    elif kind != ".xlsx":
        data = table.read_bytes() if before == kind else b"\t" * (kind == ".tsv")
        head = data.partition(b"\n")[0].decode("latin-1")
        is_latin = "\ufffd" in data.decode(errors="replace")
        file.write("\ufeff" * (head.startswith("ï»¿") or is_latin))  # for Excel
        end = "\r\n" if head.endswith("\r") else "\n"
        writer = csv.writer(file, delimiter=_separator(head.rstrip("\r")), lineterminator=end)
        writer.writerow(rows[0])
        for number, row in enumerate(rows, start=1):
            new = {name for name, numbers in changed.items() if number in numbers}
            cells = (_not_a_formula(cell) if name in new else cell for name, cell in row.items())
            writer.writerow(cell if isinstance(cell, str | None) else json.dumps(cell) for cell in cells)
    else:
        book = _openpyxl(out).load_workbook(table) if before == kind else _openpyxl(out).Workbook()
        sheet, columns = book.worksheets[0], list(rows[0])
        lines = enumerate(sheet.iter_rows(2, values_only=True), start=2)
        filled = [line for line, row in lines if set(row) - {"", None}] or range(2, len(rows) + 2)
        for name in changed if before == kind else columns:
            values, place = (name, *(row[name] for row in rows)), columns.index(name) + 1
            old = [cell for (cell,) in sheet.iter_rows(2, None, place, place) if cell.value is not None]
            kinds = {type(cell.value) for cell in old if cell.data_type != "f"}
            has_numbers, has_dates = bool(kinds) and kinds <= {int, float}, kinds == {datetime}
            for number, (line, value) in enumerate(zip((1, *filled), values, strict=True)):
                if before == kind and number not in (0, *changed[name]):
                    continue
                is_cell = isinstance(value, str | int | float | None)
                text = value if is_cell else json.dumps(value)
                cell = sheet.cell(line, place)
                if before == kind and cell.data_type == "f":
                    continue
                cell.value = text
                if isinstance(text, str):
                    cell.data_type = "s"  # never a formula
                if number and has_numbers and isinstance(cell_value(text), int | float):
                    cell.value = cell_value(text)
                with contextlib.suppress(TypeError, ValueError):
                    if has_dates:
                        cell.value = datetime.fromisoformat(text)
                        cell.number_format = old[0].number_format
        book.save(file.buffer)


def _not_a_formula(value: Any) -> Any:
    """Return a value for a CSV cell. A formula gets an apostrophe, so that no spreadsheet computes it."""
    is_formula = isinstance(value, str) and re.match(r"[=@\t\r]|[+-](?![\d\s.,()/%eE-]*$)", value)
    return f"'{value}" if is_formula else value


def parameter_names(columns: Iterable[str]) -> dict[str, str]:
    """Return {parameter name: column}. No parameter name is a keyword or the name of a builtin."""
    names: dict[str, str] = {}
    for number, column in enumerate(columns, start=1):
        name = re.sub(r"\W+", "_", column.lower()).strip("_")
        if not name.isidentifier():
            name = f"column_{number}"
        while name in names or keyword.iskeyword(name) or hasattr(builtins, name) or name in ("re", "w"):
            name += "_"
        names[name] = column
    return names


def cell_value(cell: Any) -> Any:
    """Return None for an empty cell, the parsed value of a JSON cell, and the text of other cells."""
    try:
        return None if cell == "" else json.loads(cell)
    except (TypeError, ValueError):
        return cell


def arguments_of(rows: Sequence[Mapping[str, Any]], are_text: Mapping[str, bool]) -> list[list[Any]]:
    """Return the arguments in each row. `are_text` is {parameter: True if its cells are text, not JSON}."""
    columns = parameter_names(rows[0])
    if missing := [name for name in are_text if name not in columns]:
        found = ", ".join(rows[0])
        raise ValueError(f"expected a column for {missing[0]}, found {found}; give the right one that name")
    kinds = {columns[name]: is_text for name, is_text in are_text.items()}
    return [
        [
            ("" if row[name] is None else row[name]) if is_text else cell_value(row[name])
            for name, is_text in kinds.items()
        ]
        for row in rows
    ]


def is_table(name: str | Path) -> bool:
    return Path(name).suffix.lower() in TABLES


def table_task(path: Path, output: str | None, inputs: Collection[str] = ()) -> tuple[ImportedTask, str]:
    """Return the task to compute column `output` (default: the last), and a summary of the rows used.

    Programs get the columns `inputs`, by default all other columns, except those that are empty in the same
    rows as `output`. Distinct rows are shuffled with seed 0.
    Then, the first row of each pattern (`form_of`) is moved to the front. The first rows are for training,
    the next rows are held out. Raises `ProblemError` if the table is invalid or a column is missing.
    """
    read = read_table(path)
    rows = [row for row in read if not is_sum(row)] or read
    wanted = list(rows[0])[-1] if output is None else output
    known = [row for row in rows if row.get(wanted) not in ("", None)]
    if not known or len(rows[0]) < 2:
        hint = (
            "fill some 20 cells of it, or name another with --output"
            if wanted in rows[0]
            else nearest_hint(wanted, rows[0])
        )
        raise ProblemError(
            f"{path}: expected a column {wanted!r} with cells, and one beside it, found none; {hint}"
        )
    if strange := [name for name in inputs if name not in rows[0] or name == wanted]:
        hint = nearest_hint(strange[0], rows[0].keys() - {wanted})
        raise ProblemError(f"{path}: expected columns beside {wanted!r}, found {strange[0]!r}; {hint}")
    columns, is_typed = parameter_names(rows[0]), path.suffix.lower() == ".jsonl"
    has_text = {
        name: any(isinstance(row[column] if is_typed else cell_value(row[column]), str) for row in known)
        for name, column in columns.items()
    }
    entry = next(name for name, column in columns.items() if column == wanted)
    empty = {column: [row[column] in ("", None) for row in rows] for column in rows[0]}
    same = [column for column in rows[0] if column != wanted and empty[column] == empty[wanted]]
    also = same if sum(empty[wanted]) > _FEW_EMPTY and not inputs else []
    others = [name for name in columns if name != entry]
    used = {*inputs} or {*rows[0]} - {*also}
    parameters = [name for name in others if columns[name] in used] or others
    # Read CSV cells as JSON only if the output and an input have no text, and some output is in no input.
    is_copied = all(any(str(row[wanted]) in str(row[columns[n]]) for n in parameters) for row in known)
    has_values = is_typed or not (has_text[entry] or is_copied or all(has_text[n] for n in parameters))
    arguments = arguments_of(known, {name: has_text[name] or not has_values for name in parameters})
    outputs = arguments_of(known, {entry: has_text[entry] or not has_values})
    found: dict[str, dict[str, Case]] = {}
    for values, [expected] in zip(arguments, outputs, strict=True):
        found.setdefault(repr(values), {})[repr(expected)] = Case(tuple(values), expected)
    cases = [next(iter(alike.values())) for alike in found.values() if len(alike) == 1]
    if not cases:
        raise ProblemError(f"{path}: expected one output for the same inputs, found several; add a column")
    Random(0).shuffle(cases)
    seen: Counter[str] = Counter()

    def place_in_shape(case: Case) -> int:
        exact = form_of(case[:2])
        form = re.sub("A[Aa]", "a", exact)  # in any case
        seen.update({form, exact})
        return min(seen[form], 2) if seen[exact] == 1 else seen[form]

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
        + f" (nor {', '.join(map(repr, also))}, so no input)" * bool(also)
        + f", {len(read) - len(rows)} of totals left out" * (len(rows) < len(read))
        + f", {unclear} left out whose inputs come with several {wanted!r}" * bool(unclear)
        + "; few show little: fill 20 cells or more, of all forms that the others have" * (len(cases) < 20)
    )
    return ImportedTask(path.stem, statement, entry, tuple(parameters), seed, cases[:count], unseen), said


def is_sum(row: Mapping[str, Any]) -> bool:
    """Return whether a row holds totals: one cell says so, and another cell is empty."""
    words = r"\W*(grand|sub)?\W*(totals?|sums?)\W*"
    is_named = any(isinstance(cell, str) and re.fullmatch(words, cell, re.I) for cell in row.values())
    return is_named and any(cell in ("", None) for cell in row.values())


def form_of(values: Iterable[Any]) -> str:
    """Return the pattern of values. A word becomes `a`, `Aa` or `AA` according to its case, and a number `0`,
    in texts `0`, `00` or `000` by its digits."""

    def shape(word: re.Match[str]) -> str:
        first, others = word[0][:1], word[0][1:]
        return "a" if not first.isupper() else "AA" if others.isupper() else "Aa"

    def digits(value: Any) -> str:
        if isinstance(value, str):
            return re.sub(r"\d+", lambda run: "000"[: len(run[0])], value)
        return re.sub(r"\d+", "0", repr(value))

    return re.sub(r"[^\W\d_]+", shape, repr(tuple(map(digits, values))))


def new_forms(problem: Problem, rows: Sequence[Mapping[str, Any]], column: str) -> dict[str, list[int]]:
    """Return {inputs: numbers of rows, from 1} for empty cells of `column` with a new pattern of inputs.

    The key of an entry is the inputs of the first row with the pattern, as text.
    """
    arguments = arguments_of(rows, texts_of(problem))
    found: dict[str, list[int]] = {}
    for number, (row, values, inputs) in enumerate(
        zip(rows, arguments, unlike_examples(problem, arguments), strict=True), start=1
    ):
        is_empty = is_sum(row) or all(value in ("", None) for value in values)
        if inputs and row.get(column) in ("", None) and not is_empty:
            found.setdefault(inputs, []).append(number)
    return found


def unlike_examples(problem: Problem, arguments: Iterable[Sequence[Any]]) -> list[str]:
    """Return for each row "" if its pattern is not new, else the inputs of the first row with the pattern.

    A pattern (`form_of`) is new if no example has it, or if a column that repeats a few values in the
    examples has another value.
    """
    examples = [row.inputs for row in (*problem.train, *problem.heldout)]
    columns = [list(map(repr, column)) for column in zip(*examples, strict=True)]
    few = [{*column} if len(column) >= _REPEATS * len({*column}) else None for column in columns]

    def pattern(values: Sequence[Any]) -> str:
        pairs = zip(map(repr, values), few, strict=True)
        return form_of(values) + "".join(value for value, known in pairs if known and value not in known)

    first = dict.fromkeys(map(pattern, examples), "")
    return [first.setdefault(pattern(values), ", ".join(map(repr, values))) for values in arguments]


def write_table(
    path: Path, output: str | None, inputs: Collection[str] = (), folder: Path | None = None
) -> tuple[Path, str]:
    """Write the task of `table_task` as a problem. Return the problem's folder and the summary of the rows.

    The default for `folder` is a folder in `evovpo-out`, which is reused if the task has not changed. Raises
    `ProblemError` if there is no valid task or `folder` is not empty.
    """
    task, said = table_task(path, output, inputs)
    place = folder or Path("evovpo-out", f"{path.stem}-{content_id(repr(task))[:8]}")
    with write_errors(f"{place}:", kind=ProblemError):
        if folder is not None or not place.exists():
            check_empty(place)
            place.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(place) as partial:
                write_problem(partial, task)
        (place / _SOURCE).write_text(json.dumps([str(path.absolute()), output]), encoding="utf-8")
    return place, said


def source_of(problem: Problem) -> tuple[Path, str, list[dict[str, Any]]] | None:
    """Return the table from which `write_table` made the problem, the output column and the rows.

    Returns None for other problems, and if the table cannot be read any more.
    """
    with contextlib.suppress(OSError, ValueError):
        path, column = json.loads(Path(str(problem.folder), _SOURCE).read_text(encoding="utf-8"))
        rows = read_table(Path(path))
        return Path(path), column or list(rows[0])[-1], rows
    return None


def texts_of(problem: Problem) -> dict[str, bool]:
    return {
        name: bool(problem.train) and all(isinstance(row.inputs[place], str) for row in problem.train)
        for place, name in enumerate(problem.parameters)
    }
