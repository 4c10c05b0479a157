"""Reads the prompts, tells (evaluated replies), candidates and evaluations that match a condition."""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, and_, func, select

from evovpo.errors import StoreError
from evovpo.store.codecs import evaluation_digest, record_of
from evovpo.store.schema import (
    candidate_parents,
    candidates,
    evaluations,
    programs,
    prompt_parents,
    prompts,
    rewards,
    rollouts,
    tells,
)
from evovpo.types import (
    Candidate,
    Evaluation,
    JudgedCandidate,
    Parent,
    Program,
    Prompt,
    Rewards,
    Rollout,
    Sampling,
    Status,
    Tell,
    Trust,
)

_SOURCE = func.coalesce(candidates.c.source, programs.c.source).label("program_source")
_OF_TELL = and_(candidates.c.run_id == tells.c.run_id, candidates.c.position == tells.c.position)


def prompts_where(connection: Connection, where: ColumnElement[bool]) -> list[Prompt]:
    """Return the prompts that match `where`, a condition on `prompts`, ordered by sequence number."""
    rows = connection.execute(select(prompts).where(where).order_by(prompts.c.sequence)).all()
    if not rows:
        return []
    parents = _parents(connection, prompt_parents.c.prompt_id, select(prompts.c.id).where(where))
    return [record_of(Prompt, prompts, row, parents=tuple(parents[row.id])) for row in rows]


def tells_where(connection: Connection, where: ColumnElement[bool]) -> list[Tell]:
    """Return the tells (evaluated replies) that match `where`, a condition on `tells`, in order."""
    told_prompt_id = tells.c.prompt_id.label("told_prompt_id")
    picked = select(tells.c.run_id, tells.c.position, told_prompt_id, rollouts).outerjoin(
        rollouts, rollouts.c.id == tells.c.rollout_id
    )
    rows = connection.execute(picked.where(where).order_by(tells.c.run_id, tells.c.position)).all()
    known = evaluations_of(connection, select(candidates.c.evaluation_id).join(tells, _OF_TELL).where(where))
    judged: dict[tuple[str, int], list[JudgedCandidate]] = defaultdict(list)
    for row, candidate in candidates_where(connection, where):
        evaluation = None if row.evaluation_id is None else known[row.evaluation_id]
        judged[row.run_id, row.position].append(JudgedCandidate(candidate, evaluation, row.executed))
    return [Tell(row.told_prompt_id, _rollout(row), tuple(judged[row.run_id, row.position])) for row in rows]


def candidates_where(connection: Connection, where: ColumnElement[bool]) -> list[tuple[Row[Any], Candidate]]:
    """Return the row and the record of each candidate of the tells that match `where`, in order."""
    query = (
        select(candidates, _SOURCE)
        .join(tells, _OF_TELL)
        .outerjoin(programs, programs.c.id == candidates.c.program_id)
        .where(where)
        .order_by(candidates.c.run_id, candidates.c.position, candidates.c.slot)
    )
    rows = connection.execute(query).all()
    picked = select(candidates.c.id).join(tells, _OF_TELL).where(where)
    parents = _parents(connection, candidate_parents.c.candidate_id, picked)
    return [
        (
            row,
            record_of(
                Candidate,
                candidates,
                row,
                program=None if row.program_id is None else Program(row.program_source, row.program_id),
                token_span=None if row.token_start is None else (row.token_start, row.token_end),
                parents=tuple(parents[row.id]),
            ),
        )
        for row in rows
    ]


def evaluations_of(connection: Connection, ids: Select[Any]) -> dict[str, Evaluation]:
    """Return the evaluations whose ids the query `ids` selects, by id.

    Raises StoreError if an evaluation does not match its stored digest.
    """
    vectors = vectors_of(connection, ids)
    found: dict[str, Evaluation] = {}
    for row in connection.execute(select(evaluations).where(evaluations.c.id.in_(ids))):
        try:
            found[row.id] = record_of(
                Evaluation,
                evaluations,
                row,
                status=Status(row.status),
                rewards=vectors.get(row.id),
                trust=Trust(row.trust),
            )
            is_intact = evaluation_digest(found[row.id]) == row.digest
        except ValueError:
            is_intact = False
        if not is_intact:
            raise StoreError(
                f"the judgement {row.id} of program {row.program_id} is not what was stored (its digest "
                "differs): rows were changed; restore the database from a copy"
            )
    return found


def vectors_of(connection: Connection, ids: Select[Any] | Collection[str]) -> dict[str, Rewards]:
    """Return the rewards of evaluations with the given ids. Leave out evaluations without rewards."""
    components = select(rewards.c.evaluation_id, rewards.c.value).where(rewards.c.evaluation_id.in_(ids))
    values: dict[str, list[float]] = defaultdict(list)
    for key, value in connection.execute(components.order_by(*rewards.primary_key)):
        values[key].append(value)
    return {key: tuple(vector) for key, vector in values.items()}


def _parents(connection: Connection, owner: Column[Any], owners: Select[Any]) -> dict[str, list[Parent]]:
    found: dict[str, list[Parent]] = defaultdict(list)
    columns = owner.table.c
    query = select(owner, columns.program_id, columns.role).where(owner.in_(owners))
    for key, program_id, role in connection.execute(query.order_by(owner, columns.position)):
        found[key].append(Parent(program_id, role))
    return found


def _rollout(row: Row[Any]) -> Rollout | None:
    sampling = record_of(Sampling, rollouts, row)
    return None if row.id is None else record_of(Rollout, rollouts, row, sampling=sampling)
