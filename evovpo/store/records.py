"""Rows to records: prompts, tells, candidates and evaluations that a condition picks."""

from collections import defaultdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, select

from evovpo.errors import StoreError
from evovpo.store.codecs import evaluation_digest
from evovpo.store.tables import (
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
    Judged,
    Message,
    Parent,
    ParentRole,
    ParseStatus,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    Sampling,
    Status,
    Tell,
    Trust,
)

_SOURCE = func.coalesce(candidates.c.source, programs.c.source).label("program_source")


def prompts_where(
    connection: Connection, where: ColumnElement[bool], limit: int | None = None
) -> list[Prompt]:
    """Return the prompts that `where` (over prompts) picks, in sequence."""
    picked = select(prompts).where(where).order_by(prompts.c.sequence).limit(limit)
    rows = connection.execute(picked).all()
    parents: dict[str, list[Parent]] = defaultdict(list)
    if rows:
        owners = select(prompts.c.id).where(where).order_by(prompts.c.sequence).limit(limit).subquery()
        query = select(prompt_parents).join(owners, owners.c.id == prompt_parents.c.prompt_id)
        for row in connection.execute(query.order_by(prompt_parents.c.prompt_id, prompt_parents.c.position)):
            parents[row.prompt_id].append(Parent(row.program_id, ParentRole(row.role)))
    return [
        Prompt(
            id=row.id,
            run_id=row.run_id,
            sequence=row.sequence,
            tells_before=row.tells_before,
            kind=PromptKind(row.kind),
            island=row.island,
            parents=tuple(parents.get(row.id, ())),
            messages=tuple(Message(role, content) for role, content in row.messages),
            rollouts=row.rollouts,
            answers=row.answers,
            seed=row.seed,
            proposals=tuple(Program(source, key) for key, source in row.proposals),
        )
        for row in rows
    ]


def tells_where(connection: Connection, where: ColumnElement[bool]) -> list[Tell]:
    """Return the tells that `where` (over tells) picks, in the order in which they were applied."""
    told_prompt_id = tells.c.prompt_id.label("told_prompt_id")
    picked = select(tells.c.run_id, tells.c.position, told_prompt_id, rollouts).outerjoin(
        rollouts, rollouts.c.id == tells.c.rollout_id
    )
    rows = connection.execute(picked.where(where).order_by(tells.c.run_id, tells.c.position)).all()
    is_of_tell = and_(candidates.c.run_id == tells.c.run_id, candidates.c.position == tells.c.position)
    judgements = select(candidates.c.evaluation_id).join(tells, is_of_tell).where(where)
    known = evaluations_of(
        connection,
        select(evaluations).where(evaluations.c.id.in_(judgements)),
        select(rewards).where(rewards.c.evaluation_id.in_(judgements)),
    )
    judged: dict[tuple[str, int], list[Judged]] = defaultdict(list)
    for row, candidate in candidates_where(connection, where):
        evaluation = None if row.evaluation_id is None else known[row.evaluation_id]
        judged[row.run_id, row.position].append(Judged(candidate, evaluation, bool(row.executed)))
    return [
        Tell(row.told_prompt_id, _rollout(row), tuple(judged.get((row.run_id, row.position), ())))
        for row in rows
    ]


def candidates_where(connection: Connection, where: ColumnElement[bool]) -> list[tuple[Row[Any], Candidate]]:
    """Return the candidates of the tells that `where` picks, each with its row, in order."""
    is_of_tell = and_(candidates.c.run_id == tells.c.run_id, candidates.c.position == tells.c.position)
    query = (
        select(candidates, _SOURCE)
        .join(tells, is_of_tell)
        .outerjoin(programs, programs.c.id == candidates.c.program_id)
        .where(where)
        .order_by(candidates.c.run_id, candidates.c.position, candidates.c.slot)
    )
    rows = connection.execute(query).all()
    links = (
        select(candidate_parents)
        .join(candidates, candidates.c.id == candidate_parents.c.candidate_id)
        .join(tells, is_of_tell)
        .where(where)
        .order_by(candidate_parents.c.candidate_id, candidate_parents.c.position)
    )
    parents: dict[str, list[Parent]] = defaultdict(list)
    for row in connection.execute(links):
        parents[row.candidate_id].append(Parent(row.program_id, ParentRole(row.role)))
    return [(row, _candidate(row, tuple(parents.get(row.id, ())))) for row in rows]


def evaluations_of(
    connection: Connection, judgements: Select[Any], components: Select[Any]
) -> dict[str, Evaluation]:
    """Return evaluations by id, from a query over evaluations and one over their rewards.

    Raises StoreError for one that does not have the digest it was stored with.
    """
    values: dict[str, list[float]] = defaultdict(list)
    ordered = components.order_by(rewards.c.evaluation_id, rewards.c.objective)
    for key, value in connection.execute(ordered.with_only_columns(rewards.c.evaluation_id, rewards.c.value)):
        values[key].append(value)
    found: dict[str, Evaluation] = {}
    for row in connection.execute(judgements):
        try:
            found[row.id] = Evaluation(
                program_id=row.program_id,
                problem_version=row.problem_version,
                status=Status(row.status),
                rewards=tuple(values[row.id]) if row.id in values else None,
                feedback=row.feedback,
                seconds=row.seconds,
                isolation=row.isolation,
                outputs=None if row.outputs is None else tuple(row.outputs),
                metrics=None if row.metrics is None else tuple((name, value) for name, value in row.metrics),
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


def _candidate(row: Row[Any], parents: tuple[Parent, ...]) -> Candidate:
    return Candidate(
        id=row.id,
        prompt_id=row.prompt_id,
        rollout_id=row.rollout_id,
        slot=row.slot,
        parse_status=ParseStatus(row.parse_status),
        program=None if row.program_id is None else Program(row.program_source, row.program_id),
        token_span=None if row.token_start is None else (row.token_start, row.token_end),
        parents=parents,
        text=row.text,
        reason=row.reason,
    )


def _rollout(row: Row[Any]) -> Rollout | None:
    if row.id is None:
        return None
    return Rollout(
        id=row.id,
        prompt_id=row.prompt_id,
        index=row.rollout_index,
        policy_version=row.policy_version,
        text=row.text,
        token_ids=row.token_ids,
        logprobs=row.logprobs,
        prompt_token_ids=row.prompt_token_ids,
        sampling=Sampling(row.temperature, row.max_tokens, bool(row.grammar_masked)),
        finish_reason=row.finish_reason,
        seconds=row.seconds,
        model=row.model,
    )
