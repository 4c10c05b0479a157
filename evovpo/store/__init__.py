"""The append-only SQL store of all runs; see `docs/store.md`.

Values are read back exactly, except log-probabilities, which are rounded to 32-bit floats.
"""

from typing import Any

from sqlalchemy import Connection, text

from evovpo.store.codecs import unescape_text, unpack_floats, unpack_ints
from evovpo.store.database import DEFAULT_URL, reading, upgrade
from evovpo.store.history import History
from evovpo.store.page_queries import Browsing, RunHead
from evovpo.store.runs import CallTotals
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
    "Store",
    "rises",
    "solved_at",
    "unescape_text",
    "unpack_floats",
    "unpack_ints",
    "upgrade",
]


class Store(Tells, History, Summaries, Browsing, Trainings):
    """An open store, returned by `Store.open`. Use it as a context manager, or call `close`.

    Only one process at a time may write to a run; any number of processes may read it. Threads may share a
    store, except a store in memory. A method that raises StoreError has stored nothing, unless the connection
    was lost during a commit.
    """

    @reading
    def query(self, connection: Connection, /, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return the rows of an SQL query as dictionaries. `:name` in the query stands for a parameter."""
        return [dict(row) for row in connection.execute(text(sql), parameters).mappings()]
