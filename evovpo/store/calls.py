"""Rows of requests to model servers: every one that was sent, with its outcome, tokens and cost."""

import dataclasses
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from evovpo.store.database import Connected, append, reading, writing
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


class Calls(Connected):
    """Requests of runs to model servers."""

    @writing
    def add_call(self, connection: Connection, call: Call) -> None:
        """Store one request to a model server, with the present time as its date.

        Raises StoreError if its run or its prompt is not stored.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        row = dataclasses.asdict(call) | {"outcome": str(call.outcome), "at": now}
        append(connection, calls, [row])

    @reading
    def calls(self, connection: Connection, run_id: str) -> list[Call]:
        """Return the requests of a run in the order in which they ended; none for an unknown run."""
        wanted = [calls.c[field.name] for field in dataclasses.fields(Call)]
        found = connection.execute(select(*wanted).where(calls.c.run_id == run_id).order_by(calls.c.number))
        return [Call(**{**row, "outcome": CallOutcome(row["outcome"])}) for row in found.mappings()]

    @reading
    def call_totals(self, connection: Connection, run_id: str) -> CallTotals:
        """Return the sums over the requests of a run; zeros for an unknown run."""
        return read_call_totals(connection, run_id)


def read_call_totals(connection: Connection, run_id: str) -> CallTotals:
    """Return the sums over the requests of a run."""
    sent, good, prompt_tokens, completion_tokens, cost = connection.execute(
        select(
            func.count(),
            func.count().filter(calls.c.outcome == str(CallOutcome.OK)),
            func.coalesce(func.sum(calls.c.prompt_tokens), 0),
            func.coalesce(func.sum(calls.c.completion_tokens), 0),
            func.sum(calls.c.cost),
        ).where(calls.c.run_id == run_id)
    ).one()
    return CallTotals(sent, sent - good, int(prompt_tokens), int(completion_tokens), cost)
