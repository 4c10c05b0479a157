"""PSB2, the second program synthesis benchmark suite: folders with an edge and a random file of rows each.

The format is that of zenodo.org/record/5084812 (arXiv 2106.06086), which github.com/thelmuth/psb2-python
reads: `NAME/NAME-edge.json` and `NAME/NAME-random.json`, one JSON object a line with the keys input1, ... and
output1, ...; or `.csv` with a line of names, whose cells have no types: a column is numbers, truth values or
lists only if all of its cells are. As is usual with it, a problem has all edge rows, and random rows up to
200, for training, and other random rows for reports: 200 of them here, in place of 2,000. The files hold no
statements.
"""

import csv
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from evovpo.errors import ProblemError
from evovpo.problem.importers.tasks import (
    Case,
    ImportedTask,
    OutputComparison,
    UnusableTaskError,
    as_json,
    parsed,
    read_lines,
)

TRAIN_ROWS, HELDOUT_ROWS = 200, 200
FLOAT_TOLERANCE = 1e-3
"""For outputs that are fractions; ours, the benchmark grades such outputs by their distance."""
_ENDINGS = (".json", ".json.gz", ".csv", ".csv.gz")
_Row = dict[str, Any]


def read_problems(path: Path, limit: int | None = None) -> "list[Psb2Problem]":
    """Return the problems below a folder, sorted by name, or the one whose folder or file is given.

    Raises `ProblemError` where there is none.
    """
    edges = _edge_files(path)
    if not edges:
        raise ProblemError(
            f"{path}: expected NAME-edge.json (or .csv) beside NAME-random.json, in this folder or one below;"
            " found none"
        )
    return [Psb2Problem(f"PSB2/{stem}", stem, edges[stem]) for stem in sorted(edges)[:limit]]


def _edge_files(path: Path) -> dict[str, Path]:
    """Return edge files by name; of several endings the first of `_ENDINGS` counts."""
    files = [*sorted(path.glob("*-edge.*")), *sorted(path.glob("*/*-edge.*"))]
    if path.is_file():
        files = [path.with_name(path.name.replace("-random.", "-edge."))]
    found: dict[str, Path] = {}
    for ending in reversed(_ENDINGS):
        end = f"-edge{ending}"
        found |= {file.name.removesuffix(end): file for file in files if file.name.endswith(end)}
    return found


class Psb2Problem(NamedTuple):
    name: str
    stem: str
    """Of its files."""
    edge: Path

    def task(self) -> ImportedTask:
        """Return what its two files say; raises `ProblemError` for files that are not of this format."""
        files = self.edge, self.edge.with_name(self.edge.name.replace("-edge.", "-random."))
        for file in files:
            if not file.is_file():
                raise ProblemError(
                    f"{file}: expected this file, found none; a problem needs its edge and random rows"
                )
        rng = Random(f"psb2:{self.stem}")
        edge_rows, random_rows = (_read(file, TRAIN_ROWS + HELDOUT_ROWS, rng) for file in files)
        rows = [*edge_rows, *random_rows]
        inputs, outputs = (
            [field for field in rows[0] if field.startswith(part)] for part in ("input", "output")
        )
        if not inputs or not outputs:
            raise ProblemError(
                f"{self.edge}: expected columns input1 and output1, found {', '.join(rows[0])}"
            )
        try:
            tests = [_test(row, inputs, outputs) for row in (_typed(rows) if _is_csv(self.edge) else rows)]
        except (KeyError, UnusableTaskError) as error:
            raise UnusableTaskError(f"a row cannot be used: {error}") from error
        if any(_has_fraction(test.expected) for test in tests):
            tests = [
                test._replace(comparison=OutputComparison.CLOSE, tolerance=FLOAT_TOLERANCE) for test in tests
            ]
        count = max(TRAIN_ROWS, len(edge_rows))
        entry = self.stem.replace("-", "_")
        head = f"{entry}({', '.join(inputs)})"
        what = outputs[0] if len(outputs) == 1 else f"the list [{', '.join(outputs)}]"
        statement = (
            f"The problem '{self.stem}' of the program synthesis benchmark PSB2: the function {head} returns "
            f"{what}. The examples show what is wanted.\n"
        )
        seed = f"def {head}:\n    return None\n"
        train, heldout = tests[:count], tests[count : count + HELDOUT_ROWS]
        return ImportedTask(self.name, statement, entry, tuple(inputs), seed, train, heldout)


def _is_csv(path: Path) -> bool:
    return ".csv" in path.name


def _read(path: Path, count: int, rng: Random) -> list[_Row]:
    """Return at most `count` rows, a random choice where a file has more: the files hold a million each."""
    lines = filter(str.strip, read_lines(path))
    names = next(csv.reader([next(lines, "")]), []) if _is_csv(path) else None
    rows = [_row(line, names, path) for line in sampled(lines, count, rng)]
    if not rows:
        raise ProblemError(f"{path}: expected at least one row, found none; is the file whole?")
    return rows


def sampled(lines: Iterable[str], count: int, rng: Random) -> list[str]:
    """Return `count` of any number of lines, each choice as likely, keeping no more than these in memory."""
    chosen: list[str] = []
    for number, line in enumerate(lines):
        if number < count:
            chosen.append(line)
            continue
        place = rng.randrange(number + 1)
        if place < count:
            chosen[place] = line
    return chosen


def _row(line: str, names: Sequence[str] | None, path: Path) -> _Row:
    if names is not None:
        cells = next(csv.reader([line]))
        if len(cells) != len(names):
            raise ProblemError(f"{path}: expected {len(names)} cells a line, found {line!r:.80}")
        return dict(zip(names, cells, strict=True))
    row = parsed(line, f"{path}")
    if not isinstance(row, dict):
        raise ProblemError(f"{path}: expected a JSON object a line, found {line!r:.80}")
    return row


def _typed(rows: list[_Row]) -> list[_Row]:
    """Return rows of cells with values where all cells of a column are of one type, else their texts."""
    typed = [dict(row) for row in rows]
    for name in {name for row in rows for name in row}:
        values = [_value(row[name]) for row in rows if name in row]
        kinds = {float if type(value) in (int, float) else type(value) for value in values}
        if len(kinds) == 1 and kinds <= {float, bool, list}:
            for row in typed:
                row[name] = _value(row[name])
    return typed


def _value(text: str) -> object:
    """Return what a cell says: JSON, a list with blanks between its items, or the text itself."""
    inner = re.fullmatch(r"\[([^\],]*)\]", text)
    for source in (text, f"[{', '.join(inner[1].split())}]" if inner else text):
        try:
            return json.loads(source)
        except ValueError:
            continue
    return text


def _test(row: _Row, inputs: Sequence[str], outputs: Sequence[str]) -> Case:
    found = [as_json(row[field]) for field in outputs]
    expected = found[0] if len(found) == 1 else found
    return Case(tuple(as_json(row[field]) for field in inputs), expected)


def _has_fraction(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, list) and any(map(_has_fraction, value)))
