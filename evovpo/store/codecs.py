"""Converts records and other Python values to column values of the store, and back."""

import json
import re
import struct
from collections.abc import Callable
from dataclasses import asdict, astuple, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from sqlalchemy import Column, Dialect, LargeBinary, Row, String, Table, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

from evovpo.errors import StoreError
from evovpo.types import Evaluation, Message, Problem, Program, Trust, content_id

T = TypeVar("T")
_ESCAPE = "\ue000"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff\ue000]")
_ESCAPED = re.compile("\ue000([0-9a-f]{4})")
_kinds = cache(get_type_hints)
_UNREADABLE: tuple[type[Exception], ...] = (ArithmeticError, AttributeError, LookupError, RecursionError)
_UNREADABLE += (TypeError, ValueError, struct.error)


def unpack_ints(blob: bytes) -> tuple[int, ...]:
    """Return the integers in `blob`, such as token ids: 32-bit, signed, little-endian."""
    return struct.unpack(f"<{len(blob) // 4}i", blob)


def unpack_floats(blob: bytes) -> tuple[float, ...]:
    """Return the floats in `blob`, such as log-probabilities: 32-bit, little-endian."""
    return struct.unpack(f"<{len(blob) // 4}f", blob)


def escape_text(text: str) -> str:
    """Escape characters that a database may reject (NUL, lone surrogates) as U+E000 and 4 hex digits."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub(lambda match: f"{_ESCAPE}{ord(match[0]):04x}", text)


def unescape_text(text: str) -> str:
    if _ESCAPE not in text:
        return text
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def dump_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def evaluation_digest(evaluation: Evaluation) -> str:
    """Return a hash of the fields of an evaluation that influence a search."""
    parts = [
        str(evaluation.status),
        dump_json(reward_values(evaluation)),
        evaluation.feedback,
        dump_json(evaluation.outputs),
    ]
    # Evaluations without metrics keep the digest they had before metrics existed.
    if evaluation.metrics is not None or evaluation.trust is not Trust.HIGH:
        parts += [dump_json(evaluation.metrics), str(evaluation.trust)]
    return content_id(*parts)


def reward_values(evaluation: Evaluation) -> list[float]:
    # Adding zero turns -0.0, which SQLite cannot store, into 0.0.
    return [float(value) + 0.0 for value in evaluation.rewards or ()]


def _as(kind: Any, value: Any) -> Any:
    """Return a value decoded from JSON as an object of type `kind` (a record, tuple or enum)."""
    if isinstance(kind, UnionType):
        return None if value is None else _as(get_args(kind)[0], value)
    if get_origin(kind) is tuple:
        return tuple(_as(get_args(kind)[0], item) for item in value)
    if is_dataclass(kind):
        kinds = _kinds(kind)  # type: ignore[arg-type]
        known = {name: _as(kinds[name], item) for name, item in value.items() if name in kinds}
        return kind(**known)  # type: ignore[operator]
    return kind(value) if issubclass(kind, StrEnum) else value


class EncodedColumn(TypeDecorator[Any]):
    """A column type that applies `dump` before writing and `load` after reading. None is stored as NULL."""

    impl = Text
    cache_ok = True

    def __init__(
        self, column: TypeEngine[Any], dump: Callable[[Any], object], load: Callable[[Any], object]
    ) -> None:
        super().__init__()
        self.column = column
        self.dump = dump
        self.load = load

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(self.column)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else self.dump(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        try:
            return None if value is None else self.load(value)
        except _UNREADABLE as error:
            said = f"{type(error).__name__}: {error}"[:120]
            raise StoreError(
                f"a row of the store cannot be read ({said}); it is damaged, or somebody changed it"
            ) from error


def word(kind: Callable[[str], str]) -> EncodedColumn:
    return EncodedColumn(String(32), str, kind)


def _tuples(record: Callable[..., Any], dump: Callable[[Any], tuple[Any, ...]] = tuple) -> EncodedColumn:
    """Return the type of a column that stores several records as JSON lists. `dump` makes each list."""
    return EncodedColumn(
        Text(),
        lambda records: dump_json([dump(one) for one in records]),
        lambda text: tuple(record(*values) for values in json.loads(text)),
    )


TEXT = EncodedColumn(Text(), escape_text, unescape_text)
DATE = EncodedColumn(String(64), str, lambda text: str(datetime.fromisoformat(text) and text))
DIGITS = EncodedColumn(String(80), str, int)
"""An integer as decimal text, because a seed may exceed every portable integer column."""
INTS = EncodedColumn(LargeBinary(), lambda values: struct.pack(f"<{len(values)}i", *values), unpack_ints)
FLOATS = EncodedColumn(LargeBinary(), lambda values: struct.pack(f"<{len(values)}f", *values), unpack_floats)
VALUES = EncodedColumn(Text(), dump_json, lambda text: tuple(json.loads(text)))
PAIRS = _tuples(lambda *pair: pair)
MESSAGES = _tuples(Message, astuple)
PROBLEM = EncodedColumn(
    Text(), lambda one: dump_json(asdict(one)), lambda text: _as(Problem, json.loads(text))
)
"""A whole problem; fields that are missing in an older row get their defaults."""
PROGRAMS = _tuples(lambda key, source: Program(source, key), lambda program: (program.id, program.source))


def row_of(table: Table, record: Any, **others: Any) -> dict[str, Any]:
    """Return the row for a record: its fields that are columns of `table`, and the values in `others`."""
    return {name: getattr(record, name) for name in _shared(type(record), table)} | others  # type: ignore[arg-type]


def record_of(kind: Callable[..., T], table: Table, row: Row[Any], **others: Any) -> T:
    """Return a record of type `kind`, made from a row of `table`. `others` adds or replaces fields."""
    mapping = row._mapping
    return kind(**{name: mapping[column] for name, column in _shared(kind, table).items()} | others)


@cache
def _shared(kind: Any, table: Table) -> dict[str, Column[Any]]:
    return {field.name: table.c[field.name] for field in fields(kind) if field.name in table.c}
