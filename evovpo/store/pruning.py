"""Removes whole runs from a store. No other code deletes rows."""

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, select

from evovpo.store import schema
from evovpo.store.database import Database
from evovpo.store.runs import with_status
from evovpo.types import RunStatus

_IDS_PAGE = 500
_Rows: TypeAlias = tuple[sa.Table, sa.ColumnElement[bool]]


class PruneResult(NamedTuple):
    """The removed runs, and the number of removed rows by table. A trial only counts these rows."""

    runs: list[str]
    kept: dict[str, str]
    tables: dict[str, int]


def prune(database: Database, run_ids: Collection[str], *, is_trial: bool) -> PruneResult:
    """Remove runs and all rows that no other run uses. If `is_trial` is true, only count these rows."""

    def work(connection: Connection) -> PruneResult:
        status = with_status().subquery()
        running = connection.scalars(select(status.c.id).where(status.c.status == RunStatus.RUNNING))
        why = "it says running: if no process works on it, `evovpo resume` it, and stop that"
        trained = connection.scalars(select(schema.training_runs.c.run_id))
        kept = dict.fromkeys(running, why) | dict.fromkeys(trained, "a policy was trained on it")
        gone = [run for run in run_ids if run not in kept]
        counts: Counter[str] = Counter()
        with contextlib.nullcontext() if is_trial else _references_indexed(connection):
            for table, where in _doomed(connection, gone):
                count = select(sa.func.count()).select_from(table).where(where)
                counts[table.name] += connection.scalar(count) or 0
                if not is_trial:
                    connection.execute(sa.delete(table).where(where))
        return PruneResult(gone, {run: kept[run] for run in run_ids if run in kept}, counts)

    return database.read(work) if is_trial else database.write(work)


def _doomed(connection: Connection, run_ids: Collection[str]) -> list[_Rows]:
    """Return the rows to delete, as tables with conditions, in an order that keeps foreign keys valid."""
    prompts, candidates = schema.prompts, schema.candidates
    of_run: dict[str, Any] = {
        "run_id": run_ids,
        "prompt_id": select(prompts.c.id).where(prompts.c.run_id.in_(run_ids)),
        "candidate_id": select(candidates.c.id).where(candidates.c.run_id.in_(run_ids)),
    }
    found: list[_Rows] = []
    for table in reversed(schema.metadata.sorted_tables):
        owner = next((name for name in of_run if name in table.c), None)
        if owner is not None:
            found.append((table, table.c[owner].in_(of_run[owner])))

    def only_there(column: sa.Column[Any], *others: sa.Select[Any]) -> list[list[str]]:
        ids = select(column).where(column.is_not(None))
        there, elsewhere = candidates.c.run_id.in_(run_ids), candidates.c.run_id.not_in(run_ids)
        only = list(connection.scalars(ids.where(there).except_(ids.where(elsewhere), *others)))
        return [only[start : start + _IDS_PAGE] for start in range(0, len(only), _IDS_PAGE)]

    shown = [
        select(table.c.program_id).where(table.c[owner].not_in(of_run[owner]))
        for table, owner in ((schema.prompt_parents, "prompt_id"), (schema.candidate_parents, "candidate_id"))
    ]
    judged, proposed = only_there(candidates.c.evaluation_id), only_there(candidates.c.program_id, *shown)
    found += [(schema.runs, schema.runs.c.id.in_(run_ids))]
    found += [(schema.rewards, schema.rewards.c.evaluation_id.in_(ids)) for ids in judged]
    found += [(schema.evaluations, schema.evaluations.c.id.in_(ids)) for ids in judged]
    found += [(schema.programs, schema.programs.c.id.in_(ids)) for ids in proposed]
    return found


@contextlib.contextmanager
def _references_indexed(connection: Connection) -> Iterator[None]:
    """Index all foreign keys inside a `with` block, because deletions would otherwise scan whole tables."""
    made = []
    for table in schema.metadata.sorted_tables:
        unique = [one for one in table.constraints if isinstance(one, sa.UniqueConstraint)]
        known: list[Any] = [table.primary_key, *unique, *table.indexes]
        leading = {next(iter(one.columns)) for one in known}
        for column in [one for one in table.c if one.foreign_keys and one not in leading]:
            made.append(f"prune_{table.name}_{column.name}")
            connection.execute(sa.text(f"CREATE INDEX {made[-1]} ON {table.name} ({column.name})"))
    yield
    for name in made:
        connection.execute(sa.text(f"DROP INDEX {name}"))
