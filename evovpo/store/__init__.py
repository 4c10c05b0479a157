"""The append-only SQL store: what happened in every run, for search, trainer, reports and anyone with SQL."""

from evovpo.store.calls import CallTotals
from evovpo.store.codecs import unescape_text, unpack_floats, unpack_ints
from evovpo.store.database import DEFAULT_URL, upgrade
from evovpo.store.store import Store
from evovpo.store.summary import CurvePoint, RunRow, RunSummary, solved_at
from evovpo.store.tables import SCHEMA_VERSION

__all__ = [
    "DEFAULT_URL",
    "SCHEMA_VERSION",
    "CallTotals",
    "CurvePoint",
    "RunRow",
    "RunSummary",
    "Store",
    "solved_at",
    "unescape_text",
    "unpack_floats",
    "unpack_ints",
    "upgrade",
]
