"""Rows of requests to model servers: every one that was sent, with its outcome, tokens and cost."""

from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from evovpo.store.codecs import record_of, row_of
from evovpo.store.database import Database, append, reading, writing
from evovpo.store.tables import calls
from evovpo.types import Call, CallOutcome


class CallTotals(NamedTuple):
    """Sums over requests to model servers."""

    calls: int
    failed: int
    """Of these, requests that brought nothing: sent again or given up."""
    prompt_tokens: int
    """As far as the servers say."""
    completion_tokens: int
    cost: float | None
    """None where no model has a price."""


class Calls(Database):
    """Requests of runs to model servers."""

    @writing
    def add_call(self, connection: Connection, call: Call) -> None:
        """Store one request to a model server, with the present time as its date.

        Raises StoreError if its run or its prompt is not stored.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        append(connection, calls, [row_of(calls, call, at=now)])

    @reading
    def calls(self, connection: Connection, run_id: str) -> list[Call]:
        """Return the requests of a run in the order in which they ended; none for an unknown run."""
        found = connection.execute(select(calls).where(calls.c.run_id == run_id).order_by(calls.c.number))
        return [record_of(Call, calls, row) for row in found]

    @reading
    def call_totals(self, connection: Connection, run_id: str) -> CallTotals:
        """Return the sums over the requests of a run; zeros for an unknown run."""
        return read_call_totals(connection, run_id)


def read_call_totals(connection: Connection, run_id: str) -> CallTotals:
    """Return the sums over the requests of a run."""
    sent, good, prompt_tokens, completion_tokens, cost = connection.execute(
        select(
            func.count(),
            func.count().filter(calls.c.outcome == CallOutcome.OK),
            func.coalesce(func.sum(calls.c.prompt_tokens), 0),
            func.coalesce(func.sum(calls.c.completion_tokens), 0),
            func.sum(calls.c.cost),
        ).where(calls.c.run_id == run_id)
    ).one()
    return CallTotals(sent, sent - good, int(prompt_tokens), int(completion_tokens), cost)
