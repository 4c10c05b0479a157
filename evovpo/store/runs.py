"""Methods that store and read problems, programs, runs, run statuses, and requests to model servers."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, bindparam, case, func, select

from evovpo.errors import StoreError
from evovpo.store.codecs import record_of, row_of
from evovpo.store.database import Database, append, reading, writing
from evovpo.store.schema import calls, objectives, problems, programs, run_events, runs
from evovpo.types import Call, CallOutcome, Problem, Program, Run, RunPart, RunStatus

_SOURCES = select(programs.c.id, programs.c.source).where(programs.c.id.in_(bindparam("ids", expanding=True)))
_OF_PROBLEM = (runs.c.problem_id == problems.c.id) & (runs.c.problem_version == problems.c.version)
_HAS_FAILED = (calls.c.outcome != CallOutcome.OK) & ~(
    (calls.c.outcome == CallOutcome.RETRIED) & calls.c.reason.in_(("http 400", "http 413", "http 422"))
)
"""A request that the server refused and that was then sent in another form has not failed."""


class CallTotals(NamedTuple):
    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    faults: dict[str, int]


class Runs(Database):
    @writing
    def add_problem(self, connection: Connection, problem: Problem) -> bool:
        """Store a problem and its starting programs. Return False if this version is already stored."""
        if _problem(connection, problem.id, problem.version) is not None:
            return False
        append(connection, problems, [row_of(problems, problem, body=problem)])
        of_problem = {"problem_id": problem.id, "problem_version": problem.version}
        named = [
            row_of(objectives, objective, objective=index, **of_problem)
            for index, objective in enumerate(problem.objectives)
        ]
        append(connection, objectives, named)
        append_programs(connection, problem.seeds)
        return True

    @reading
    def problem(self, connection: Connection, problem_id: str, version: str) -> Problem:
        found = _problem(connection, problem_id, version)
        if found is None:
            raise StoreError(f"{self.name} holds no problem {problem_id} of version {version}")
        return found

    @reading
    def program(self, connection: Connection, program_id: str) -> Program:
        source = connection.scalar(select(programs.c.source).where(programs.c.id == program_id))
        if source is None:
            raise StoreError(f"{self.name} holds no program {program_id}")
        return Program(source, program_id)

    @writing
    def add_run(self, connection: Connection, run: Run) -> None:
        """Store a run with its first status. The problem of the run must already be stored."""
        if connection.scalar(select(runs.c.id).where(runs.c.id == run.id)) is not None:
            raise StoreError(f"run {run.id} is stored already; resume it, or choose another id")
        if _problem(connection, run.problem_id, run.problem_version) is None:
            raise StoreError(f"run {run.id}: add problem {run.problem_id} {run.problem_version} first")
        append(connection, runs, [row_of(runs, run)])
        self._set_status(connection, run.id, run.status)

    @reading
    def parts(self, connection: Connection, run_id: str) -> list[RunPart]:
        """Return the parts of a run in order: one for the start, and one for each change of settings."""
        require_run(connection, run_id)
        begun = connection.scalar(select(runs.c.config_json).where(runs.c.id == run_id)) or ""
        where = (run_events.c.run_id == run_id) & run_events.c.config_json.is_not(None)
        later = connection.execute(select(run_events).where(where).order_by(run_events.c.number))
        return [RunPart(0, 0, begun), *(record_of(RunPart, run_events, row) for row in later)]

    def _set_status(
        self,
        connection: Connection,
        run_id: str,
        status: RunStatus,
        heldout: tuple[int, int] | None = None,
        part: RunPart | None = None,
    ) -> None:
        """Append a status to a run, optionally with a held-out result (passed, total) and new settings."""
        require_run(connection, run_id)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        passed, total = heldout or (None, None)
        event: dict[str, Any] = {"run_id": run_id, "status": status, "at": now}
        event |= {"heldout_passed": passed, "heldout_total": total}
        append(connection, run_events, [event if part is None else row_of(run_events, part, **event)])

    set_run_status = writing(_set_status)

    @reading
    def run(self, connection: Connection, run_id: str) -> Run:
        """Return a run with its latest status. `run_id` is the id of the run or a unique prefix of the id."""
        row = connection.execute(with_status().where(runs.c.id == run_id)).first()
        if row is not None:
            return run_of(row)
        # Filtered again because LIKE ignores case in SQLite.
        found = connection.execute(with_status().where(runs.c.id.startswith(run_id, autoescape=True)))
        rows = [candidate for candidate in found if candidate.id.startswith(run_id)]
        if not rows:
            raise StoreError(
                f"{self.name} holds no run whose id or problem is or begins with {run_id!r}; `evovpo runs` "
                "lists them"
            )
        if len(rows) > 1:
            several = ", ".join(sorted(candidate.id for candidate in rows)[:5])
            raise StoreError(f"several runs begin with {run_id!r} ({several}); give more of the id")
        return run_of(rows[0])

    @reading
    def runs_in_full(self, connection: Connection) -> list[Run]:
        return [run_of(row) for row in connection.execute(with_status().order_by(runs.c.id))]

    @reading
    def newest_run(self, connection: Connection, problem: str = "") -> str | None:
        """Return the id of the newest run on a problem whose id begins with `problem`, or None.

        The problem with exactly this id has priority, then the table of this name (`NAME-` and 8 characters).
        """
        name = runs.c.problem_id
        begins = name.startswith(problem, autoescape=True)
        exact = name == problem, 0
        of_table = begins & name.like(f"%-{8 * '_'}") & (func.length(name) == len(problem) + 9), 1
        of_run = select(run_events.c.run_id).join(runs).group_by(run_events.c.run_id, name)
        of_problem = of_run.where(begins)
        order = (case(exact, of_table, else_=2), func.min(run_events.c.number).desc())
        return connection.scalar(of_problem.order_by(*order).limit(1))

    @reading
    def has_run(self, connection: Connection, run_id: str) -> bool:
        return connection.scalar(select(runs.c.id).where(runs.c.id == run_id)) is not None

    @reading
    def problem_versions(self, connection: Connection, problem_id: str) -> list[Problem]:
        """Return the versions of a problem that have runs, ordered by their oldest run."""
        bodies = (
            select(problems.c.body)
            .join(runs, _OF_PROBLEM)
            .join(run_events, run_events.c.run_id == runs.c.id)
            .where(problems.c.id == problem_id)
            .group_by(problems.c.id, problems.c.version)
            .order_by(func.min(run_events.c.number))
        )
        return list(connection.scalars(bodies))

    @writing
    def add_call(self, connection: Connection, call: Call) -> None:
        """Store a request to a model server, with the current time. Run and prompt must be stored already."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        append(connection, calls, [row_of(calls, call, at=now)])

    @reading
    def calls(self, connection: Connection, run_id: str) -> list[Call]:
        """Return the requests of a run in the order they ended; an empty list for an unknown run."""
        found = connection.execute(select(calls).where(calls.c.run_id == run_id).order_by(calls.c.number))
        return [record_of(Call, calls, row) for row in found]

    def _call_totals(self, connection: Connection, *run_ids: str) -> CallTotals:
        of_runs = calls.c.run_id.in_(run_ids)
        both = [func.coalesce(func.sum(one), 0) for one in (calls.c.prompt_tokens, calls.c.completion_tokens)]
        sums = select(func.count(), *both, func.sum(calls.c.cost)).where(of_runs)
        sent, asked, answered, cost = connection.execute(sums).one()
        failed = select(calls.c.reason, func.count()).where(of_runs, _HAS_FAILED)
        faults = {row[0]: row[1] for row in connection.execute(failed.group_by(calls.c.reason))}
        return CallTotals(sent, sum(faults.values()), int(asked), int(answered), cost, faults)

    call_totals = reading(_call_totals)


def append_programs(
    connection: Connection, wanted: Sequence[Program], stored: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Store the new programs in `wanted`. Return the sources of these and of the `stored` programs, by id."""
    if not wanted:
        return {}
    if stored is None:
        stored = {
            row.id: row.source for row in connection.execute(_SOURCES, {"ids": [one.id for one in wanted]})
        }
    new: dict[str, str] = {}
    for program in wanted:
        if program.id not in stored:
            new.setdefault(program.id, program.source)
    # The same order for all writers avoids deadlocks.
    append(connection, programs, [{"id": key, "source": new[key]} for key in sorted(new)])
    return {**stored, **new}


def require_run(connection: Connection, run_id: str) -> None:
    if not connection.scalar(select(func.count()).where(runs.c.id == run_id)):
        raise StoreError(f"run {run_id} is not stored; `evovpo runs` lists those that are")


def with_status() -> Select[Any]:
    """Return a query for runs with their status. The column `latest` has changed settings, or NULL."""
    event = run_events.alias()
    latest = select(func.max(event.c.number)).where(event.c.run_id == runs.c.id).correlate(runs)
    of_run = run_events.c.number == latest.scalar_subquery()
    parts = select(event.c.config_json).where(event.c.run_id == runs.c.id, event.c.config_json.is_not(None))
    part = parts.order_by(event.c.number.desc()).limit(1).correlate(runs).scalar_subquery().label("latest")
    ends = (run_events.c.status, run_events.c.heldout_passed, run_events.c.heldout_total)
    return select(runs, *ends, part).select_from(runs).join(run_events, of_run)


def run_of(row: Row[Any]) -> Run:
    """Return the run in a row of `with_status`. Raises StoreError if the id is not a valid file name."""
    if not row.id.isprintable() or "/" in row.id or row.id[:1] in ("", "."):
        raise StoreError(f"expected ids of runs without slash and control character, found {row.id!r:.80}")
    changed = {}
    if row.latest is not None:
        changed = {"config_json": row.latest, "evaluations": json.loads(row.latest)["search"]["evaluations"]}
    return record_of(Run, runs, row, status=row.status, **changed)


def _problem(connection: Connection, problem_id: str, version: str) -> Problem | None:
    found = select(problems.c.body).where(problems.c.id == problem_id, problems.c.version == version)
    return connection.scalar(found)
