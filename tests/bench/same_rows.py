"""Do two stores hold the same rows? `python tests/bench/same_rows.py A.db B.db`, for files or URLs.

Compares every row of every table, in any order, by all columns but those that differ from one machine or
schedule to the next: times; which of two cells of a problem ran a program that both proposed (`executed`);
in a run's settings where programs ran (`sandbox.executor`, `sandbox.workers`) and the name of the store;
where a problem's folder lies; and of a run's events all but the last, since a run that was cut off has more
of them. Ends with 1 if a row is in one store only, and shows the first such row of each table.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any

from sqlalchemy import Connection, Table, select

from evovpo.store import Store
from evovpo.store.schema import metadata, problems, run_events, runs

_CHANGING = {"seconds", "at", "created_at", "executed"}
_COUNTED = {"run_events", "calls", "policy_events"}
"""Tables whose `number` is the order in which processes wrote."""
_PLACES = ("sandbox.executor", "sandbox.workers", "store.url")
"""Settings that say where a run was made."""


def compared(table: Table) -> list[str]:
    """Return the names of the columns of a table that are compared."""
    left_out = _CHANGING | ({"number"} if table.name in _COUNTED else set())
    return [column.name for column in table.columns if column.name not in left_out]


def rows(connection: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    """Yield what is compared of each row of a table."""
    names = compared(table)
    last: dict[str, tuple[Any, ...]] = {}
    for row in connection.execute(select(table).order_by(*table.primary_key.columns)).mappings():
        values = {name: row[name] for name in names}
        if table is runs:
            values["config"] = _without(values["config"], _PLACES)
        if table is problems:
            values["body"] = replace(values["body"], folder=None)
        found = tuple(values.values())
        if table is run_events:
            last[row["run_id"]] = found
        else:
            yield found
    yield from last.values()


def _without(text: str, left_out: Collection[str]) -> str:
    """Return a JSON object without some keys, a key of an object in it named `object.key`."""
    found = json.loads(text)
    for name in left_out:
        *outer, key = name.split(".")
        (found.get(outer[0], {}) if outer else found).pop(key, None)
    return json.dumps(found, sort_keys=True)


def _digest(row: tuple[Any, ...]) -> bytes:
    return blake2b(repr(row).encode(), digest_size=16).digest()


def _digests(connection: Connection, table: Table) -> Counter[bytes]:
    """Return how often each row of a table is there."""
    return Counter(map(_digest, rows(connection, table)))


def _example(connection: Connection, table: Table, wanted: Counter[bytes]) -> str:
    """Return the first row of a table whose digest is wanted, as text."""
    found = next(row for row in rows(connection, table) if _digest(row) in wanted)
    named = zip(compared(table), found, strict=True)
    return ", ".join(f"{name} = {value!r:.60}" for name, value in named)


def main() -> None:
    """Command line: print a line for each table that holds rows, and what is in one store only."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stores", nargs=2, metavar="STORE")
    stores = parser.parse_args().stores
    are_same = True
    databases = [Store.open(store, create=False) for store in stores]
    for table in metadata.sorted_tables:
        counts = [database.read(partial(_digests, table=table)) for database in databases]
        if not any(counts):
            continue
        alone = [counts[0] - counts[1], counts[1] - counts[0]]
        numbers = [count.total() for count in (*counts, *alone)]
        print("{:17} {:7} and {:7} rows, in one only {}, {}".format(table.name, *numbers))
        for store, database, missing in zip(stores, databases, alone, strict=True):
            if missing:
                are_same = False
                print(f"  only in {store}: {database.read(partial(_example, table=table, wanted=missing))}")
    print("the same rows" if are_same else "different rows")
    sys.exit(0 if are_same else 1)


if __name__ == "__main__":
    main()
