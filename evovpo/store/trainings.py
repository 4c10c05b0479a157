"""Methods that store and read policy versions, policy events, trainings and training steps."""

import dataclasses
import math
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from evovpo.errors import StoreError
from evovpo.store.codecs import record_of, row_of
from evovpo.store.database import Database, append, reading, writing
from evovpo.store.runs import require_run
from evovpo.store.schema import policy_events, policy_versions, training_runs, training_steps, trainings
from evovpo.types import PolicyEvent, PolicyEventKind, PolicyVersion, Training, TrainingStep


class Trainings(Database):
    @writing
    def add_policy_version(self, connection: Connection, version: PolicyVersion) -> bool:
        """Store a policy version. Return False if this version is already stored."""
        known = _versions(connection)
        stored = known.get(version.number)
        if stored is not None and stored != version:
            raise StoreError(
                f"policy version {version.number} is taken by {stored.path}; take the next number, "
                f"{max(known) + 1}"
            )
        if stored is None:
            append(connection, policy_versions, [row_of(policy_versions, version)])
        return stored is None

    @reading
    def policy_versions(self, connection: Connection) -> list[PolicyVersion]:
        return list(_versions(connection).values())

    def _required(self, connection: Connection, number: int) -> PolicyVersion:
        found = _versions(connection)
        if number not in found:
            known = ", ".join(map(str, found)) or "none"
            raise StoreError(f"{self.name} holds no policy version {number}; it has {known}")
        return found[number]

    policy_version = reading(_required)

    def _append_event(self, connection: Connection, event: PolicyEvent) -> None:
        version = None if event.number is None else _versions(connection).get(event.number)
        if event.kind.is_serving or event.kind is PolicyEventKind.PUBLISHED:
            if event.number is None:
                raise StoreError(
                    f"a policy event of kind {event.kind} names no version; give the number of one"
                )
            self._required(connection, event.number)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        training_id = event.training_id or (version.config_hash if version is not None else "") or None
        append(connection, policy_events, [row_of(policy_events, event, at=now, training_id=training_id)])

    add_policy_event = writing(_append_event)

    @reading
    def policy_events(self, connection: Connection) -> list[PolicyEvent]:
        rows = connection.execute(select(policy_events).order_by(policy_events.c.place))
        return [record_of(PolicyEvent, policy_events, row) for row in rows]

    @writing
    def serve(
        self, connection: Connection, number: int, reason: str = "", *, is_roll_back: bool = False
    ) -> bool:
        """Let searches use a stored policy version from now on. Return False if it is already in use."""
        served = self._served(connection)
        if served is not None and served.number == number:
            return False
        kind = PolicyEventKind.ROLLED_BACK if is_roll_back else PolicyEventKind.SERVED
        self._append_event(connection, PolicyEvent(number, kind, reason))
        return True

    def _served(self, connection: Connection) -> PolicyVersion | None:
        kinds = [kind for kind in PolicyEventKind if kind.is_serving]
        events = select(policy_events.c.number).where(policy_events.c.kind.in_(kinds))
        number = connection.scalar(events.order_by(policy_events.c.place.desc()).limit(1))
        return None if number is None else _versions(connection)[number]

    served = reading(_served)

    @writing
    def add_training(self, connection: Connection, training: Training) -> bool:
        """Store a training that starts now. Return False if the training is already stored."""
        if not len(training.runs) == len(training.after) == len(training.through):
            raise StoreError(
                f"training {training.id} has {len(training.runs)} runs, {len(training.after)} beginnings and "
                f"{len(training.through)} ends; expected one of each for every run"
            )
        stored = _trainings(connection).get(training.id)
        if stored is not None:
            if dataclasses.replace(stored, created_at=training.created_at) != training:
                raise StoreError(
                    f"training {training.id} is stored with other content; derive ids from all that goes "
                    "into one"
                )
            return False
        self._required(connection, training.start_version)
        for run_id in training.runs:
            require_run(connection, run_id)
        append(connection, trainings, [row_of(trainings, training)])
        links = zip(training.runs, training.after, training.through, strict=True)
        columns = ("training_id", "position", "run_id", "after_prompt", "through_prompt")
        rows = [
            dict(zip(columns, (training.id, place, *link), strict=True)) for place, link in enumerate(links)
        ]
        append(connection, training_runs, rows)
        return True

    @reading
    def trainings(self, connection: Connection) -> list[Training]:
        return list(_trainings(connection).values())

    def ended_trainings(self) -> set[str]:
        """Return the ids of trainings that failed or whose version was served or refused."""
        ends = [event for event in self.policy_events() if event.kind is not PolicyEventKind.PUBLISHED]
        return {event.training_id for event in ends if event.training_id}

    @writing
    def add_training_step(self, connection: Connection, step: TrainingStep) -> bool:
        """Store the metrics of one training step. Return False if this step is already stored."""
        if connection.scalar(select(trainings.c.id).where(trainings.c.id == step.training_id)) is None:
            raise StoreError(f"{self.name} holds no training {step.training_id}; add it before its steps")
        for name, value in dataclasses.asdict(step).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise StoreError(
                    f"step {step.step} of training {step.training_id}: {name} is {value}; expected a finite "
                    "number"
                )
        key = (training_steps.c.training_id == step.training_id) & (training_steps.c.step == step.step)
        if connection.execute(select(training_steps.c.step).where(key)).first() is not None:
            return False
        append(connection, training_steps, [row_of(training_steps, step)])
        return True

    @reading
    def training_steps(self, connection: Connection, training_id: str) -> list[TrainingStep]:
        picked = select(training_steps).where(training_steps.c.training_id == training_id)
        rows = connection.execute(picked.order_by(training_steps.c.step))
        return [record_of(TrainingStep, training_steps, row) for row in rows]


def _versions(connection: Connection) -> dict[int, PolicyVersion]:
    rows = connection.execute(select(policy_versions).order_by(policy_versions.c.number))
    return {row.number: record_of(PolicyVersion, policy_versions, row) for row in rows}


def _trainings(connection: Connection) -> dict[str, Training]:
    links: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(select(training_runs).order_by(training_runs.c.position)):
        links[row.training_id].append(row)
    return {
        row.id: record_of(
            Training,
            trainings,
            row,
            runs=tuple(link.run_id for link in links[row.id]),
            after=tuple(link.after_prompt for link in links[row.id]),
            through=tuple(link.through_prompt for link in links[row.id]),
        )
        for row in connection.execute(select(trainings).order_by(trainings.c.created_at, trainings.c.id))
    }
