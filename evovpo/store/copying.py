"""Copies all rows of a store to another store, which may be in another kind of database."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, Table, insert, select

from evovpo.errors import StoreError
from evovpo.store.codecs import EncodedColumn
from evovpo.store.database import Database
from evovpo.store.schema import calls, metadata, policy_events, run_events

_PAGE = 500
_OWNERS = {run_events.name: "run_id", calls.name: "run_id", policy_events.name: ""}
"""Tables with an autoincrement key, each with its owner column ("" if rows have no owner). Two stores may
number a row differently, so a row is identified by its position among the rows of its owner."""
_SAME = {"problems": ("id", "version"), "evaluations": ("id", "digest")}
"""Columns that decide whether two rows are equal, in tables where other columns may differ: the body of a
problem contains its folder path, and an evaluation contains its duration."""


class CopyResult(NamedTuple):
    """The result of copying a store with `rows` rows, of which `copied` were new in the target."""

    rows: int
    copied: int
    verified: bool


class _Page(NamedTuple):
    """Rows of one table. Keys of `rows` are values of the columns `keys`, or positions if `keys` is empty."""

    table: sa.TableClause
    keys: list[str]
    query: sa.Select[Any]
    rows: dict[tuple[Any, ...], Any]


def copy_store(source: Database, target: Database, on_table: Callable[[str, int], None]) -> CopyResult:
    """Copy all rows of `source` to `target`, then verify every row.

    Rows that are already in `target` stay. So an interrupted copy can be continued, and stores can be merged.
    `on_table` is called with the name of each table and the number of its new rows. Raises StoreError if
    `target` has a different row with the same key.
    """
    if source.name == target.name:
        raise StoreError(f"{source.name} cannot be copied to itself; give another store")

    def copy(connection: Connection) -> CopyResult:
        rows = copied = 0
        # Every table comes after the tables it references; the status of runs comes last.
        tables = sorted(metadata.sorted_tables, key=lambda table: table is run_events)
        for table in tables:
            before = copied
            for page in _pages(connection, table):
                rows += len(page.rows)
                copied += target.write(partial(_add, page=page))
            on_table(table.name, copied - before)
        pages = (page for table in tables for page in _pages(connection, table))
        return CopyResult(rows, copied, not any(target.read(partial(_missing, page=page)) for page in pages))

    return source.read(copy)


def _pages(connection: Connection, table: Table) -> Iterator[_Page]:
    is_numbered, keys = table.name in _OWNERS, [column.name for column in table.primary_key]
    columns = [
        sa.column(one.name, one.type.column if isinstance(one.type, EncodedColumn) else one.type)
        for one in table.columns
        if not (is_numbered and one.primary_key)
    ]
    plain = sa.table(table.name, *columns)
    query = select(plain)
    if not is_numbered:
        for part in connection.execute(query, execution_options={"yield_per": _PAGE}).mappings().partitions():
            rows = _by_key(part, keys)
            its_key = sa.tuple_(*(plain.c[name] for name in keys))
            yield _Page(plain, keys, query.where(its_key.in_(list(rows))), rows)
        return
    number: sa.ColumnClause[int] = sa.column(keys[0])
    whose: list[sa.ColumnElement[bool]] = [sa.true()]
    if _OWNERS[table.name]:
        owner = plain.c[_OWNERS[table.name]]
        by_age = select(owner).group_by(owner).order_by(sa.func.min(number))
        whose = [owner == one for one in connection.scalars(by_age).all()]
    for where in whose:
        in_order = query.where(where).order_by(number)
        yield _Page(plain, [], in_order, _by_key(connection.execute(in_order).mappings(), []))


def _by_key(rows: Iterable[Any], keys: list[str]) -> dict[tuple[Any, ...], Any]:
    return {tuple(row[key] for key in keys) or (place,): row for place, row in enumerate(rows)}


def _missing(connection: Connection, page: _Page) -> list[Any]:
    known = _by_key(connection.execute(page.query).mappings(), page.keys)
    for key in page.rows.keys() & known.keys():
        same = _SAME.get(page.table.name, page.rows[key])
        if any(page.rows[key][column] != known[key][column] for column in same):
            raise StoreError(
                f"the store to copy to holds another row {key} in {page.table.name}: it went on differently "
                "from what is to be copied; copy to an empty store"
            )
    return [dict(row) for key, row in page.rows.items() if key not in known]


def _add(connection: Connection, page: _Page) -> int:
    rows = _missing(connection, page)
    if rows:
        connection.execute(insert(page.table), rows)
    return len(rows)
