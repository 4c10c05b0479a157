"""The append-only store of runs: the one class that search, trainer and reports share.

What went in can be read back exactly; log-probabilities are rounded to 32-bit floats. Nothing is
updated or deleted. See `docs/store.md` for the schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection, func, insert, select, text

from evovpo.errors import StoreError
from evovpo.store.appending import append, append_programs, append_prompt, append_tells
from evovpo.store.calling import CallTotals, append_call, read_call_totals, read_calls
from evovpo.store.codecs import problem_from_json, problem_to_json
from evovpo.store.database import Database, connect
from evovpo.store.reading import (
    LineageStep,
    read_evaluations,
    read_groups,
    read_history,
    read_lineage,
)
from evovpo.store.summary import RunRow, RunSummary, read_runs, read_summary
from evovpo.store.tables import objectives, problems, programs, run_events, runs
from evovpo.store.training import (
    append_policy_event,
    append_policy_version,
    append_training,
    append_training_step,
    read_policy_events,
    read_policy_versions,
    read_served,
    read_training_steps,
    read_trainings,
    require_policy_version,
)
from evovpo.types import (
    Call,
    Evaluation,
    Group,
    PolicyEvent,
    PolicyEventKind,
    PolicyVersion,
    Problem,
    Program,
    Prompt,
    Run,
    RunStatus,
    Tell,
    Training,
    TrainingStep,
)


class _Target(NamedTuple):
    """What every tell of a run is checked against."""

    problem_version: str
    objective_names: tuple[str, ...]


class Store:
    """An open store. Use as a context manager, or call `close`.

    One process writes a run; any number of others may read meanwhile. Within a process, threads may
    share a store in a file. Every method raises StoreError if the database cannot be read or written;
    then nothing of that call is stored, and everything before it is.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._targets: dict[str, _Target] = {}

    @classmethod
    def open(cls, url: str | None = None, *, create: bool = True) -> Store:
        """Return the store at a path or SQLAlchemy URL (default `evovpo.db` in the current directory).

        A database that is not there is created unless `create` is false. Raises StoreError if it cannot
        be opened, holds something else, or has another schema version (see `upgrade`).
        """
        return cls(connect(url, create=create))

    @property
    def name(self) -> str:
        """The URL of the database without any password, as messages and stored configurations show it."""
        return self._database.name

    @property
    def file(self) -> Path | None:
        """The file that the database is in, or none where it is not a SQLite file."""
        return self._database.file

    def close(self) -> None:
        """Close the database; all that was told is in it already."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Problems and runs

    def add_problem(self, problem: Problem) -> bool:
        """Store the whole loaded problem and its seeds; return False if this version is stored already."""

        def write(connection: Connection) -> bool:
            if _problem_body(connection, problem.id, problem.version) is not None:
                return False
            row = {
                "id": problem.id,
                "version": problem.version,
                "statement": problem.statement,
                "entry": problem.entry,
                "body": problem_to_json(problem),
            }
            append(connection, problems, [row])
            append(
                connection,
                objectives,
                [
                    {
                        "problem_id": problem.id,
                        "problem_version": problem.version,
                        "objective": index,
                        "name": objective.name,
                        "description": objective.description,
                    }
                    for index, objective in enumerate(problem.objectives)
                ],
            )
            append_programs(connection, problem.seeds)
            return True

        return self._database.write(write)

    def problem(self, problem_id: str, version: str) -> Problem:
        """Return a problem as it was stored. Raises StoreError if it is not there."""
        body = self._database.read(lambda connection: _problem_body(connection, problem_id, version))
        if body is None:
            raise StoreError(f"{self._database.name} holds no problem {problem_id} of version {version}")
        return problem_from_json(body)

    def problem_versions(self, problem_id: str) -> list[Problem]:
        """Return the problems of this id that have runs, by the oldest run of each version."""
        found = (
            select(runs.c.problem_version)
            .join(run_events, run_events.c.run_id == runs.c.id)
            .where(runs.c.problem_id == problem_id)
            .group_by(runs.c.problem_version)
            .order_by(func.min(run_events.c.number))
        )
        versions = self._database.read(lambda connection: connection.scalars(found).all())
        return [self.problem(problem_id, version) for version in versions]

    def program(self, program_id: str) -> Program:
        """Return a program by its id. Raises StoreError if it is not stored."""
        found = select(programs.c.source).where(programs.c.id == program_id)
        source = self._database.read(lambda connection: connection.scalar(found))
        if source is None:
            raise StoreError(f"{self.name} holds no program {program_id}")
        return Program(source, program_id)

    def add_run(self, run: Run) -> None:
        """Store a run with its first status.

        Raises StoreError if its id is taken or its problem is not stored.
        """

        def write(connection: Connection) -> None:
            if connection.scalar(select(runs.c.id).where(runs.c.id == run.id)) is not None:
                raise StoreError(f"run {run.id} is stored already; resume it, or choose another id")
            if _problem_body(connection, run.problem_id, run.problem_version) is None:
                raise StoreError(f"run {run.id}: add problem {run.problem_id} {run.problem_version} first")
            row = {
                "id": run.id,
                "problem_id": run.problem_id,
                "problem_version": run.problem_version,
                "seed": run.seed,
                "evaluations": run.evaluations,
                "config": run.config_json,
                "created_at": run.created_at,
            }
            append(connection, runs, [row])
            _append_status(connection, run.id, run.status)

        self._database.write(write)

    def set_run_status(self, run_id: str, status: RunStatus) -> None:
        """Append a status of a run; the latest one holds."""

        def write(connection: Connection) -> None:
            _require_run(connection, run_id)
            _append_status(connection, run_id, status)

        self._database.write(write)

    def run(self, run_id: str) -> Run:
        """Return a run with its latest status, by id or by a prefix that only one id has.

        Raises StoreError if none or several match.
        """

        def query(connection: Connection) -> Run:
            row = connection.execute(select(runs).where(runs.c.id == run_id)).first()
            if row is None:
                # Filtered again, because SQLite compares without case here.
                found = connection.execute(select(runs).where(runs.c.id.startswith(run_id, autoescape=True)))
                rows = [candidate for candidate in found if candidate.id.startswith(run_id)]
                if not rows:
                    raise StoreError(
                        f"{self._database.name} holds no run whose id is or begins with {run_id!r}; "
                        "`evovpo runs` lists them"
                    )
                if len(rows) > 1:
                    several = ", ".join(sorted(candidate.id for candidate in rows)[:5])
                    raise StoreError(f"several runs begin with {run_id!r} ({several}); give more of the id")
                row = rows[0]
            status = connection.scalars(
                select(run_events.c.status)
                .where(run_events.c.run_id == row.id)
                .order_by(run_events.c.number.desc())
                .limit(1)
            ).one()
            return Run(
                id=row.id,
                problem_id=row.problem_id,
                problem_version=row.problem_version,
                seed=row.seed,
                evaluations=row.evaluations,
                config_json=row.config,
                status=RunStatus(status),
                created_at=row.created_at,
            )

        return self._database.read(query)

    def has_run(self, run_id: str) -> bool:
        """Return whether a run of this very id is stored."""
        found = select(runs.c.id).where(runs.c.id == run_id)
        return self._database.read(lambda connection: connection.scalar(found)) is not None

    def runs(self) -> list[RunRow]:
        """Return all runs, newest first."""
        return self._database.read(read_runs)

    # Asks and tells

    def add_prompt(self, prompt: Prompt) -> bool:
        """Store an ask, before it is sent; return False if this very ask is stored already.

        Raises StoreError if another ask has its id or sequence number.
        """

        def write(connection: Connection) -> bool:
            _require_run(connection, prompt.run_id)
            return append_prompt(connection, prompt)

        return self._database.write(write)

    def add_tell(self, run_id: str, tell: Tell, order: int) -> bool:
        """Store one judged reply in one transaction; return False if that reply was told before.

        As `add_tells` with one.
        """
        return self.add_tells(run_id, [tell], order)[0]

    def add_tells(self, run_id: str, tells: Sequence[Tell], order: int) -> list[bool]:
        """Store consecutive judged replies in one transaction; return for each whether it is new.

        `order` is the position, from 0, at which the first new one is applied in its run. The first
        judgement of a program on a problem version stays *the* evaluation; see `known_evaluation`. Raises
        StoreError for an unknown prompt, a tell out of order, and an evaluation that does not fit; then
        nothing of it is stored.
        """
        target = self._targets.get(run_id)
        if target is None:
            target = self._database.read(lambda connection: _target(connection, run_id))
            self._targets[run_id] = target
        return self._database.write(
            lambda connection: append_tells(
                connection,
                run_id=run_id,
                problem_version=target.problem_version,
                objective_names=target.objective_names,
                tells_in_order=tells,
                order=order,
            )
        )

    def add_call(self, call: Call) -> None:
        """Store one request to a model server, with the present time as its date.

        Raises StoreError if its run or its prompt is not stored.
        """
        self._database.write(lambda connection: append_call(connection, call))

    def calls(self, run_id: str) -> list[Call]:
        """Return the requests of a run in the order in which they ended; none for an unknown run."""
        return self._database.read(lambda connection: read_calls(connection, run_id))

    def call_totals(self, run_id: str) -> CallTotals:
        """Return the sums over the requests of a run; zeros for an unknown run."""
        return self._database.read(lambda connection: read_call_totals(connection, run_id))

    def known_evaluation(self, problem_version: str, program_id: str) -> Evaluation | None:
        """Return *the* evaluation of a program on a problem version by any run, or none.

        Never a `sandbox_error`: such a program may be run again.
        """
        found = self._database.read(
            lambda connection: read_evaluations(connection, problem_version, program_id)
        )
        return found.get(program_id)

    def known_evaluations(self, problem_version: str) -> dict[str, Evaluation]:
        """Return every program's evaluation on a problem version, by program id."""
        return self._database.read(lambda connection: read_evaluations(connection, problem_version))

    def history(self, run_id: str) -> Iterator[Prompt | Tell]:
        """Yield the asks and tells of a run in the order in which they were applied.

        That sequence rebuilds the state of the search. Raises StoreError for an unknown run.
        """
        self._database.read(lambda connection: _require_run(connection, run_id))
        return read_history(self._database, run_id)

    def groups(
        self, run_id: str, after: str | None = None, policies: Collection[int] | None = None
    ) -> Iterator[Group]:
        """Yield the groups of a run whose rollouts are all judged, in the order in which they were completed.

        `after` is the id of the last prompt that was used: only groups completed later come. With
        `policies`, only groups whose rollouts are all by one of these versions. Joins are no groups. In
        `rewards_G_M_D` every chain has at least as many rows as its prompt asked answers; a missing,
        unparsed, rejected, failed or (within its chain) repeated answer is a zero row. `valid_G` is
        False for a chain with a persisting sandbox fault.
        """
        target = self._database.read(lambda connection: _target(connection, run_id))
        return read_groups(self._database, run_id, len(target.objective_names), after, policies)

    # Policy versions

    def add_policy_version(self, version: PolicyVersion) -> bool:
        """Store a policy version that can be served; return False if this very version is stored already.

        Raises StoreError if its number is taken by another.
        """

        return self._database.write(lambda connection: append_policy_version(connection, version))

    def policy_versions(self) -> list[PolicyVersion]:
        """Return all policy versions, ascending by number."""
        return list(self._database.read(read_policy_versions).values())

    def policy_version(self, number: int) -> PolicyVersion:
        """Return one policy version. Raises StoreError if it is not there."""
        return self._database.read(lambda connection: require_policy_version(connection, number, self.name))

    def add_policy_event(self, event: PolicyEvent) -> None:
        """Store an event, with the present time as its date.

        Raises StoreError if it publishes or serves a version that is not stored.
        """
        self._database.write(lambda connection: append_policy_event(connection, event, self.name))

    def policy_events(self) -> list[PolicyEvent]:
        """Return all policy events, oldest first."""
        return self._database.read(read_policy_events)

    def serve(self, number: int, reason: str = "", *, is_roll_back: bool = False) -> bool:
        """Make a stored version the one that searches follow; return False if it is already.

        Raises StoreError if it is not stored.
        """
        kind = PolicyEventKind.ROLLED_BACK if is_roll_back else PolicyEventKind.SERVED

        def write(connection: Connection) -> bool:
            served = read_served(connection)
            if served is not None and served.number == number:
                return False
            append_policy_event(connection, PolicyEvent(number, kind, reason), self.name)
            return True

        return self._database.write(write)

    def served(self) -> PolicyVersion | None:
        """Return the version that searches follow, or none if none was ever served."""
        return self._database.read(read_served)

    # Trainings

    def add_training(self, training: Training) -> bool:
        """Store a training as it begins; return False if this very training is stored already.

        Raises StoreError if its id is taken by another, or its start version or a run is not stored.
        """
        return self._database.write(lambda connection: append_training(connection, training, self.name))

    def trainings(self) -> list[Training]:
        """Return all trainings, oldest first."""
        return self._database.read(read_trainings)

    def ended_trainings(self) -> set[str]:
        """Return the ids of the trainings that failed, or whose version was served or refused."""
        events = self.policy_events()
        return {event.training_id for event in events if event.training_id and event.kind.ends_training}

    def add_training_step(self, step: TrainingStep) -> bool:
        """Store the figures of one step; return False, changing nothing, if that step was told before.

        Raises StoreError for an unknown training and for figures that are not finite.
        """
        return self._database.write(lambda connection: append_training_step(connection, step, self.name))

    def training_steps(self, training_id: str) -> list[TrainingStep]:
        """Return the steps of a training in order; none if it has none."""
        return self._database.read(lambda connection: read_training_steps(connection, training_id))

    # Reports

    def run_summary(self, run_id: str) -> RunSummary:
        """Return what a run did so far: counts, cost, best program, and the curve over its tells."""

        def query(connection: Connection) -> RunSummary:
            _require_run(connection, run_id)
            return read_summary(connection, run_id)

        return self._database.read(query)

    def lineage(self, run_id: str, program_id: str) -> list[LineageStep]:
        """Return how a program came about: its candidate in the run, then its ancestors' back to the seeds.

        Nearest generation first; each step holds the programs that it was made from. Inspirations are
        in it but not followed. Empty for a seed. Raises StoreError for an unknown program.
        """
        return self._database.read(lambda connection: read_lineage(connection, run_id, program_id))

    def query(self, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return the rows of an SQL query as dictionaries; `:name` in it is a parameter. Changes nothing."""

        def query(connection: Connection) -> list[dict[str, Any]]:
            return [dict(row) for row in connection.execute(text(sql), parameters).mappings()]

        return self._database.read(query)


def _problem_body(connection: Connection, problem_id: str, version: str) -> str | None:
    found = select(problems.c.body).where(problems.c.id == problem_id, problems.c.version == version)
    return connection.scalar(found)


def _append_status(connection: Connection, run_id: str, status: RunStatus) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    connection.execute(insert(run_events), {"run_id": run_id, "status": str(status), "at": now})


def _require_run(connection: Connection, run_id: str) -> None:
    if not connection.scalar(select(func.count()).where(runs.c.id == run_id)):
        raise StoreError(f"run {run_id} is not stored; `evovpo runs` lists those that are")


def _target(connection: Connection, run_id: str) -> _Target:
    _require_run(connection, run_id)
    of_run = (objectives.c.problem_id == runs.c.problem_id) & (
        objectives.c.problem_version == runs.c.problem_version
    )
    rows = connection.execute(
        select(runs.c.problem_version, objectives.c.name)
        .join(objectives, of_run)
        .where(runs.c.id == run_id)
        .order_by(objectives.c.objective)
    ).all()
    return _Target(rows[0].problem_version, tuple(row.name for row in rows))
