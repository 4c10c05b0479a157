"""Rows about the trainer: policy versions and what happened to them, trainings and their steps.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from evovpo.errors import StoreError
from evovpo.store.appending import append
from evovpo.store.tables import policy_events, policy_versions, runs, training_runs, training_steps, trainings
from evovpo.types import PolicyEvent, PolicyEventKind, PolicyVersion, Training, TrainingStep


def append_policy_version(connection: Connection, version: PolicyVersion) -> bool:
    """Append a version; return False if this very one is stored. Raises StoreError if its number is taken."""
    known = read_policy_versions(connection)
    stored = known.get(version.number)
    if stored is not None and stored != version:
        raise StoreError(
            f"policy version {version.number} is taken by {stored.path}; take the next number, "
            f"{max(known) + 1}"
        )
    if stored is None:
        row = {
            "number": version.number,
            "parent": version.parent,
            "path": version.path,
            "trained_through": version.trained_through,
            "config_hash": version.config_hash,
            "metrics": [list(pair) for pair in version.metrics],
        }
        append(connection, policy_versions, [row])
    return stored is None


def read_policy_versions(connection: Connection) -> dict[int, PolicyVersion]:
    """Return all versions by number, ascending."""
    rows = connection.execute(select(policy_versions).order_by(policy_versions.c.number))
    return {row.number: _policy_version(row) for row in rows}


def require_policy_version(connection: Connection, number: int, database: str) -> PolicyVersion:
    """Return a version; raises StoreError, naming the database and what it has, if it is not there."""
    found = read_policy_versions(connection)
    if number not in found:
        known = ", ".join(map(str, found)) or "none"
        raise StoreError(f"{database} holds no policy version {number}; it has {known}")
    return found[number]


def append_policy_event(connection: Connection, event: PolicyEvent, database: str) -> None:
    """Append an event, dated now and with the training that made its version.

    Raises StoreError if it serves or publishes a version that has no row.
    """
    version = None if event.number is None else read_policy_versions(connection).get(event.number)
    if event.kind.is_serving or event.kind is PolicyEventKind.PUBLISHED:
        if event.number is None:
            raise StoreError(f"a policy event of kind {event.kind} names no version; give the number of one")
        require_policy_version(connection, event.number, database)
    row = {
        "policy_version": event.number,
        "kind": str(event.kind),
        "detail": event.detail,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "training_id": event.training_id or (version.config_hash if version is not None else "") or None,
    }
    connection.execute(insert(policy_events), row)


def read_policy_events(connection: Connection) -> list[PolicyEvent]:
    """Return all events, oldest first."""
    rows = connection.execute(select(policy_events).order_by(policy_events.c.number))
    return [
        PolicyEvent(row.policy_version, PolicyEventKind(row.kind), row.detail, row.at, row.training_id)
        for row in rows
    ]


def read_served(connection: Connection) -> PolicyVersion | None:
    """Return the version of the latest serving event, or none before the first."""
    kinds = [str(kind) for kind in PolicyEventKind if kind.is_serving]
    row = connection.execute(
        select(policy_versions)
        .join(policy_events, policy_events.c.policy_version == policy_versions.c.number)
        .where(policy_events.c.kind.in_(kinds))
        .order_by(policy_events.c.number.desc())
        .limit(1)
    ).first()
    return None if row is None else _policy_version(row)


def append_training(connection: Connection, training: Training, database: str) -> bool:
    """Append a training; return False if one with its id and the same content is stored.

    Raises StoreError for an id taken by another, or a start version or run that is not stored.
    """
    if not len(training.runs) == len(training.after) == len(training.through):
        raise StoreError(
            f"training {training.id} has {len(training.runs)} runs, {len(training.after)} beginnings and "
            f"{len(training.through)} ends; expected one of each for every run"
        )
    stored = read_trainings(connection, training.id)
    if stored:
        if dataclasses.replace(stored[0], created_at=training.created_at) != training:
            raise StoreError(
                f"training {training.id} is stored with other content; derive ids from all that goes into one"
            )
        return False
    require_policy_version(connection, training.start_version, database)
    known = set(connection.scalars(select(runs.c.id).where(runs.c.id.in_(training.runs))))
    for run_id in training.runs:
        if run_id not in known:
            raise StoreError(f"run {run_id} is not stored; `evovpo runs` lists those that are")
    row = {
        "id": training.id,
        "objective": training.objective,
        "config": training.config_json,
        "start_version": training.start_version,
        "seed": training.seed,
        "created_at": training.created_at,
    }
    append(connection, trainings, [row])
    append(
        connection,
        training_runs,
        [
            {
                "training_id": training.id,
                "position": position,
                "run_id": run_id,
                "after_prompt": after,
                "through_prompt": through,
            }
            for position, (run_id, after, through) in enumerate(
                zip(training.runs, training.after, training.through, strict=True)
            )
        ],
    )
    return True


def read_trainings(connection: Connection, training_id: str | None = None) -> list[Training]:
    """Return all trainings, or the one, in the order of their dates and then ids."""
    picked = select(trainings).order_by(trainings.c.created_at, trainings.c.id)
    links = select(training_runs).order_by(training_runs.c.training_id, training_runs.c.position)
    if training_id is not None:
        picked = picked.where(trainings.c.id == training_id)
        links = links.where(training_runs.c.training_id == training_id)
    read: dict[str, list[Row[Any]]] = {}
    for row in connection.execute(links):
        read.setdefault(row.training_id, []).append(row)
    return [
        Training(
            id=row.id,
            objective=row.objective,
            config_json=row.config,
            start_version=row.start_version,
            runs=tuple(link.run_id for link in read.get(row.id, ())),
            after=tuple(link.after_prompt for link in read.get(row.id, ())),
            through=tuple(link.through_prompt for link in read.get(row.id, ())),
            seed=row.seed,
            created_at=row.created_at,
        )
        for row in connection.execute(picked)
    ]


def append_training_step(connection: Connection, step: TrainingStep, database: str) -> bool:
    """Append the figures of a step; return False if that step was told before (the first telling stays).

    Raises StoreError for an unknown training and for a figure that is not finite.
    """
    if not read_trainings(connection, step.training_id):
        raise StoreError(f"{database} holds no training {step.training_id}; add it before its steps")
    row = dataclasses.asdict(step)
    for name, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise StoreError(
                f"step {step.step} of training {step.training_id}: {name} is {value}; expected a finite "
                "number"
            )
    key = (training_steps.c.training_id == step.training_id) & (training_steps.c.step == step.step)
    if connection.execute(select(training_steps.c.step).where(key)).first() is not None:
        return False
    append(connection, training_steps, [row])
    return True


def read_training_steps(connection: Connection, training_id: str) -> list[TrainingStep]:
    """Return the steps of a training in order; none for an unknown one."""
    picked = select(training_steps).where(training_steps.c.training_id == training_id)
    rows = connection.execute(picked.order_by(training_steps.c.step)).mappings()
    return [TrainingStep(**row) for row in rows]


def _policy_version(row: Row[Any]) -> PolicyVersion:
    return PolicyVersion(
        number=row.number,
        parent=row.parent,
        path=row.path,
        trained_through=row.trained_through,
        config_hash=row.config_hash,
        metrics=tuple((name, value) for name, value in row.metrics),
    )
