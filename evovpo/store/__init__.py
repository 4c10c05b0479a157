"""The append-only SQL store: what happened in every run; see `docs/store.md`.

Rows are read back exactly, but log-probabilities are rounded to 32-bit floats. Only snapshots and
summaries, which can be computed from the other rows, are ever replaced.
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

    One process writes a run; any number of others may read meanwhile. Threads may share a store in a
    file. A method that raises StoreError has stored nothing.
    """

    @reading
    def query(self, connection: Connection, /, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return the rows of an SQL query as dictionaries; `:name` in it is a parameter."""
        return [dict(row) for row in connection.execute(text(sql), parameters).mappings()]
