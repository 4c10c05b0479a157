"""The append-only SQL store: what happened in every run, for search, trainer, reports and anyone with SQL.

What went in can be read back exactly; log-probabilities are rounded to 32-bit floats. Nothing is
updated or deleted, but snapshots and summaries, which hold nothing that other rows do not. See
`docs/store.md` for the schema. Each subject has its methods in a file of its own: a method that is said to
take a `connection` is given it, in a transaction of its own.
"""

from typing import Any

from sqlalchemy import Connection, text

from evovpo.store.codecs import unescape_text, unpack_floats, unpack_ints
from evovpo.store.database import DEFAULT_URL, reading, upgrade
from evovpo.store.history import History
from evovpo.store.page_queries import Browsing, RunHead
from evovpo.store.runs import CallTotals, Snapshot
from evovpo.store.schema import SCHEMA_VERSION
from evovpo.store.summary import CurvePoint, RunRow, RunSummary, Summaries, rises, solved_at
from evovpo.store.tells import Tells
from evovpo.store.trainings import Trainings

__all__ = [
    "DEFAULT_URL",
    "SCHEMA_VERSION",
    "CallTotals",
    "CurvePoint",
    "RunHead",
    "RunRow",
    "RunSummary",
    "Snapshot",
    "Store",
    "rises",
    "solved_at",
    "unescape_text",
    "unpack_floats",
    "unpack_ints",
    "upgrade",
]


class Store(Tells, History, Summaries, Browsing, Trainings):
    """An open store, by `Store.open`. Use as a context manager, or call `close`.

    One process writes a run; any number of others may read meanwhile. Within a process, threads may
    share a store in a file. Every method raises StoreError if the database cannot be read or written;
    then nothing of that call is stored, and everything before it is.
    """

    @reading
    def query(self, connection: Connection, /, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return the rows of an SQL query as dictionaries; `:name` in it is a parameter. Changes nothing."""
        return [dict(row) for row in connection.execute(text(sql), parameters).mappings()]
