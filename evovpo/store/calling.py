"""Rows of requests to model servers: every one that was sent, with its outcome, tokens and cost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from evovpo.store.appending import append
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


def append_call(connection: Connection, call: Call) -> None:
    """Append one request, with the present time as its date."""
    row = {
        "run_id": call.run_id,
        "prompt_id": call.prompt_id,
        "attempt": call.attempt,
        "model": call.model,
        "outcome": str(call.outcome),
        "reason": call.reason,
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
        "cost": call.cost,
        "seconds": call.seconds,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    append(connection, calls, [row])


def read_calls(connection: Connection, run_id: str) -> list[Call]:
    """Return the requests of a run in the order in which they ended."""
    query = select(calls).where(calls.c.run_id == run_id).order_by(calls.c.number)
    return [
        Call(
            run_id=row.run_id,
            prompt_id=row.prompt_id,
            attempt=row.attempt,
            model=row.model,
            outcome=CallOutcome(row.outcome),
            reason=row.reason,
            prompt_tokens=row.prompt_tokens,
            completion_tokens=row.completion_tokens,
            cost=row.cost,
            seconds=row.seconds,
        )
        for row in connection.execute(query)
    ]


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
