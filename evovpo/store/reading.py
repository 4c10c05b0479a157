"""Rebuilds records from rows: the history of a run, its groups, known evaluations, lineages.

Reads in pages, a handful of statements each, so that memory stays bounded and no statement is
issued per row. Rows never change, so pages read in separate transactions fit together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Integer, Row, Select, and_, func, select

from evovpo.errors import StoreError
from evovpo.store.codecs import evaluation_digest
from evovpo.store.database import Database
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
    Group,
    Judged,
    Message,
    Parent,
    ParentRole,
    ParseStatus,
    Program,
    Prompt,
    PromptKind,
    Rewards,
    Rollout,
    Sampling,
    Status,
    Tell,
    Trust,
)

_PAGE = 1000
"""Asks or tells loaded at once; a tell of 3 answers and 8 objectives is about 50 rows."""
_GROUPS_PAGE = 100
_IDS_PAGE = 500
"""Ids in one IN list: below the bound parameters that any database allows."""

_SOURCE = func.coalesce(candidates.c.source, programs.c.source).label("program_source")


class LineageStep(NamedTuple):
    """A candidate and the programs that it was made from, with the part each played."""

    candidate: Candidate
    parents: tuple[tuple[ParentRole, Program], ...]


class _Chain(NamedTuple):
    """One rollout of a group with its M answers."""

    rollout: Rollout
    rewards: tuple[Rewards, ...]
    is_valid: bool
    program_ids: tuple[str | None, ...]
    spans: tuple[tuple[int, int] | None, ...]


def read_history(database: Database, run_id: str) -> Iterator[Prompt | Tell]:
    """Yield the asks and tells of a run in the order in which they were applied.

    Raises StoreError if tells are missing between others.
    """
    database.read(partial(_require_all_tells, run_id=run_id))
    asks = _read_prompts(database, run_id)
    prompt = next(asks, None)
    for position, tell in enumerate(_read_tells(database, run_id)):
        while prompt is not None and prompt.tells_before <= position:
            yield prompt
            prompt = next(asks, None)
        yield tell
    while prompt is not None:
        yield prompt
        prompt = next(asks, None)


def read_groups(
    database: Database,
    run_id: str,
    objectives: int,
    after: str | None,
    policies: Collection[int] | None,
) -> Iterator[Group]:
    """Yield the complete groups of a run in the order in which they were completed."""
    completed = database.read(lambda connection: connection.execute(_complete(run_id, policies)).all())
    ids = [row.prompt_id for row in completed if row.in_policies]
    if after is not None:
        order = [row.prompt_id for row in completed]
        if after not in order:
            raise StoreError(
                f"prompt {after} is not a complete group of run {run_id}; expected the id of the last prompt "
                "trained on, or none to begin at the start"
            )
        rest = set(order[order.index(after) + 1 :])
        ids = [prompt_id for prompt_id in ids if prompt_id in rest]
    for start in range(0, len(ids), _GROUPS_PAGE):
        page = ids[start : start + _GROUPS_PAGE]

        def load(connection: Connection, page: list[str] = page) -> list[Group]:
            asked = {prompt.id: prompt for prompt in _prompts(connection, prompts.c.id.in_(page))}
            told: dict[str, list[Tell]] = defaultdict(list)
            for tell in _tells(connection, tells.c.prompt_id.in_(page)):
                told[tell.prompt_id].append(tell)
            return [make_group(asked[key], told[key], objectives) for key in page]

        yield from database.read(load)


def make_group(prompt: Prompt, replies: Iterable[Tell], objectives: int) -> Group:
    """Return the group of a prompt from the tells of all its rollouts.

    A row is zero where the slot is missing, holds no program, was rejected, failed, or repeats an
    earlier slot of the same chain. The twin of a program from another rollout keeps its vector.
    """
    zero: Rewards = (0.0,) * objectives
    chains: list[_Chain] = []
    for tell in replies:
        if tell.rollout is None:
            continue
        length = max([prompt.answers, *(judged.candidate.slot + 1 for judged in tell.judged)])
        rewards_M_D = [zero] * length  # noqa: N806
        program_ids: list[str | None] = [None] * length
        spans: list[tuple[int, int] | None] = [None] * length
        seen: set[str] = set()
        is_valid = True
        for judged in tell.judged:
            candidate, evaluation = judged.candidate, judged.evaluation
            is_repeat = candidate.program is not None and candidate.program.id in seen
            spans[candidate.slot] = candidate.token_span
            if candidate.program is not None:
                seen.add(candidate.program.id)
                program_ids[candidate.slot] = candidate.program.id
            if evaluation is None:
                continue
            if evaluation.status is Status.SANDBOX_ERROR:
                is_valid = False
            elif not is_repeat and candidate.parse_status is not ParseStatus.REJECTED:
                rewards_M_D[candidate.slot] = evaluation.rewards or zero
        chains.append(_Chain(tell.rollout, tuple(rewards_M_D), is_valid, tuple(program_ids), tuple(spans)))
    chains.sort(key=lambda chain: chain.rollout.index)
    return Group(
        prompt=prompt,
        rollouts=tuple(chain.rollout for chain in chains),
        rewards_G_M_D=tuple(chain.rewards for chain in chains),
        valid_G=tuple(chain.is_valid for chain in chains),
        programs_G_M=tuple(chain.program_ids for chain in chains),
        spans_G_M=tuple(chain.spans for chain in chains),
    )


def read_evaluations(
    connection: Connection, problem_version: str, program_id: str | None = None
) -> dict[str, Evaluation]:
    """Return *the* evaluation of each program (or of the one) on a problem version, by program id."""
    where = and_(evaluations.c.problem_version == problem_version, evaluations.c.private_to == "")
    if program_id is not None:
        where = and_(where, evaluations.c.program_id == program_id)
    found = _evaluations(
        connection,
        select(evaluations).where(where),
        select(rewards).join(evaluations, rewards.c.evaluation_id == evaluations.c.id).where(where),
    )
    return {evaluation.program_id: evaluation for evaluation in found.values()}


def read_lineage(connection: Connection, run_id: str, program_id: str) -> list[LineageStep]:
    """Return the candidate of the run that brought the program, then those that brought its ancestors.

    Inspirations are in the steps but not followed. Raises StoreError for an unknown program.
    """
    if connection.scalar(select(programs.c.id).where(programs.c.id == program_id)) is None:
        raise StoreError(f"no program {program_id} is stored; expected the full id of one")
    steps: list[tuple[Candidate, tuple[Parent, ...]]] = []
    seen = {program_id}
    wanted = [program_id]
    while wanted:
        generation = _origins(connection, run_id, wanted)
        wanted = []
        for candidate in generation:
            steps.append((candidate, candidate.parents))
            for parent in candidate.parents:
                if parent.role is not ParentRole.INSPIRATION and parent.program_id not in seen:
                    seen.add(parent.program_id)
                    wanted.append(parent.program_id)
    named = {parent.program_id for _, parents in steps for parent in parents}
    sources: dict[str, Program] = {}
    for page in _pages(sorted(named)):
        for row in connection.execute(select(programs).where(programs.c.id.in_(page))):
            sources[row.id] = Program(row.source, row.id)
    return [
        LineageStep(candidate, tuple((parent.role, sources[parent.program_id]) for parent in parents))
        for candidate, parents in steps
    ]


def _read_prompts(database: Database, run_id: str) -> Iterator[Prompt]:
    after = -1
    while True:
        where = and_(prompts.c.run_id == run_id, prompts.c.sequence > after)
        page = database.read(partial(_prompts, where=where, limit=_PAGE))
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].sequence


def _require_all_tells(connection: Connection, run_id: str) -> None:
    query = select(func.count(), func.coalesce(func.max(tells.c.position) + 1, 0)).where(
        tells.c.run_id == run_id
    )
    found, expected = connection.execute(query).one()
    if found != expected:
        raise StoreError(
            f"run {run_id} has {found} tells, numbered up to {expected - 1}: rows were deleted, and what "
            "came after them cannot be replayed; restore the database from a copy"
        )


def _read_tells(database: Database, run_id: str) -> Iterator[Tell]:
    start = 0
    while True:
        where = and_(tells.c.run_id == run_id, tells.c.position.between(start, start + _PAGE - 1))
        page = database.read(partial(_tells, where=where))
        yield from page
        if len(page) < _PAGE:
            return
        start += _PAGE


def _complete(run_id: str, policies: Collection[int] | None) -> Select[Any]:
    """Return the query for the prompts of a run whose rollouts are all told, first completed first.

    Joins and starting programs have no rollouts, so none is among them; notes have no answers to train on.
    """
    counted = func.count()
    in_policies: ColumnElement[Any] = counted == counted
    if policies is not None:
        in_policies = func.sum(rollouts.c.policy_version.in_(list(policies)).cast(Integer)) == counted
    return (
        select(tells.c.prompt_id, in_policies.label("in_policies"))
        .join(prompts, prompts.c.id == tells.c.prompt_id)
        .join(rollouts, rollouts.c.id == tells.c.rollout_id)
        .where(tells.c.run_id == run_id, prompts.c.kind != str(PromptKind.NOTES))
        .group_by(tells.c.prompt_id, prompts.c.rollouts)
        .having(counted >= prompts.c.rollouts)
        .order_by(func.max(tells.c.position))
    )


def _prompts(connection: Connection, where: ColumnElement[bool], limit: int | None = None) -> list[Prompt]:
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


def _tells(connection: Connection, where: ColumnElement[bool]) -> list[Tell]:
    """Return the tells that `where` (over tells) picks, in the order in which they were applied."""
    told_prompt_id = tells.c.prompt_id.label("told_prompt_id")
    picked = select(tells.c.run_id, tells.c.position, told_prompt_id, rollouts).outerjoin(
        rollouts, rollouts.c.id == tells.c.rollout_id
    )
    rows = connection.execute(picked.where(where).order_by(tells.c.run_id, tells.c.position)).all()
    is_of_tell = and_(candidates.c.run_id == tells.c.run_id, candidates.c.position == tells.c.position)
    judgements = select(candidates.c.evaluation_id).join(tells, is_of_tell).where(where)
    known = _evaluations(
        connection,
        select(evaluations).where(evaluations.c.id.in_(judgements)),
        select(rewards).where(rewards.c.evaluation_id.in_(judgements)),
    )
    judged: dict[tuple[str, int], list[Judged]] = defaultdict(list)
    for row, candidate in _candidates(connection, where):
        evaluation = None if row.evaluation_id is None else known[row.evaluation_id]
        judged[row.run_id, row.position].append(Judged(candidate, evaluation, bool(row.executed)))
    return [
        Tell(row.told_prompt_id, _rollout(row), tuple(judged.get((row.run_id, row.position), ())))
        for row in rows
    ]


def _candidates(connection: Connection, where: ColumnElement[bool]) -> list[tuple[Row[Any], Candidate]]:
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


def _origins(connection: Connection, run_id: str, program_ids: Sequence[str]) -> list[Candidate]:
    """Return for each program the candidate that was new to the run with it, in the order of the programs.

    A seed has none, also when it was proposed again: neither its ticket nor a duplicate is its origin.
    """
    first: dict[str, Candidate] = {}
    seeds = select(prompts.c.id).where(prompts.c.run_id == run_id, prompts.c.kind == str(PromptKind.SEED))
    for page in _pages(program_ids):
        told = select(candidates.c.position).where(
            candidates.c.run_id == run_id, candidates.c.program_id.in_(page)
        )
        where = and_(tells.c.run_id == run_id, tells.c.position.in_(told), tells.c.prompt_id.not_in(seeds))
        for _, candidate in _candidates(connection, where):
            if candidate.program is not None and candidate.parse_status is ParseStatus.PARSED:
                first.setdefault(candidate.program.id, candidate)
    return [first[program_id] for program_id in program_ids if program_id in first]


def _evaluations(
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


def _pages(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + _IDS_PAGE] for start in range(0, len(values), _IDS_PAGE))
