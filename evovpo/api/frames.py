"""Reads DataFrames (pandas or Polars) and NumPy values as plain JSON values."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from evovpo.errors import ProblemError
from evovpo.types import Json


def plain(value: Any, missing: Json = None) -> Json:
    """Return `value` as a JSON value, and `missing` for a missing value (None, NaN, NaT, NA).

    A date or time becomes text: '2024-01-31 10:30:00', at midnight '2024-01-31'. NumPy values become numbers
    and lists. Any other object becomes `str(value)`.
    """
    if isinstance(value, np.generic | np.ndarray):
        is_time = value.dtype.kind == "M"  # as a list, these would be numbers
        value = (value.astype("datetime64[us]") if is_time else value).tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    is_nan = isinstance(value, float) and math.isnan(value)
    if value is None or is_nan or type(value).__name__ in ("NAType", "NaTType"):
        return missing
    return value if isinstance(value, str | int | float) else str(value).removesuffix(" 00:00:00")


def is_frame(value: object) -> bool:
    return any(kind.__module__.partition(".")[0] in ("pandas", "polars") for kind in type(value).__mro__)


def frame_rows(frame: Any, what: str) -> list[dict[str, Json]]:
    """Return each row of a DataFrame as {column: plain value}. Column names become text.

    Midnights keep their time in a column with other times.
    `what` names the DataFrame in errors. Raises `ProblemError` for another object, for columns of the same
    name, and for infinite numbers.
    """
    names = [str(name) for name in frame.columns] if len(getattr(frame, "shape", ())) == 2 else []
    if not names or len(set(names)) < len(names):
        found = f"a {type(frame).__name__}" + f" of columns {', '.join(names)}" * bool(names)
        raise ProblemError(f"{what}: expected a DataFrame of different columns, found {found}; give one")
    rows = frame.itertuples(index=False, name=None) if hasattr(frame, "itertuples") else frame.rows()
    columns = [_column(cells) for cells in zip(*rows, strict=True)]
    found_rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    for number, row in enumerate(found_rows):
        for name, value in row.items():
            if isinstance(value, float) and math.isinf(value):
                where = f"{what}: column {name!r}, row {number} (from 0)"
                raise ProblemError(f"{where}: expected a finite number, found {value}; correct it")
    return found_rows


def _column(cells: Sequence[Any]) -> list[Any]:
    found: list[Any] = [plain(cell) for cell in cells]
    times = [place for place, cell in enumerate(cells) if isinstance(cell, datetime) and found[place]]
    if any(" " in found[place] for place in times):
        for place in times:
            found[place] = str(cells[place])
    return found
