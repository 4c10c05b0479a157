"""Queries for the live web page. Each query returns a limited number of rows."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, String, case, cast, func, select, type_coerce

from evovpo.store.database import Database, reading
from evovpo.store.row_records import prompts_where, tells_where, vectors_of
from evovpo.store.runs import run_of, with_status
from evovpo.store.schema import (
    calls,
    candidate_parents,
    candidates,
    programs,
    prompts,
    rollouts,
    run_events,
    runs,
    tells,
)
from evovpo.store.summary import FREE, heldout_of
from evovpo.types import MEMORISED, Prompt, Rewards, Run, RunStatus, Tell

_ASKS_BACK = 200
_SLOTS = 1 << 16
_ORDER = cast(candidates.c.position, BigInteger) * _SLOTS + candidates.c.slot


class RunHead(NamedTuple):
    run: Run
    changed_at: str
    heldout: tuple[int, int] | None
    cost: float | None
    server_tokens: int | None
    """Prompt and completion tokens reported by servers; None without a server."""


class Browsing(Database):
    @reading
    def run_heads(
        self, connection: Connection, offset: int, limit: int, problem: str = "", status: str = ""
    ) -> list[RunHead]:
        """Return up to `limit` runs, newest first, after skipping `offset` runs.

        `problem` is a part of the problem id; `status` is the status of the run. An empty text matches every
        run. A run that is solved only on training rows has the status `memorised` and not `solved`.
        """
        first, other = run_events.alias(), run_events.alias()
        of_run = other.c.run_id == first.c.run_id
        picked = select(first.c.run_id).where(
            ~select(other.c.number).where(of_run, other.c.number < first.c.number).exists()
        )
        if problem:
            picked = picked.join(runs, runs.c.id == first.c.run_id)
            picked = picked.where(runs.c.problem_id.icontains(problem, autoescape=True))
        if status:
            is_wrong = (other.c.status == RunStatus.SOLVED) & (other.c.heldout_passed < other.c.heldout_total)
            word = case((is_wrong, MEMORISED), else_=type_coerce(other.c.status, String))
            latest = select(word).where(of_run).order_by(other.c.number.desc()).limit(1)
            picked = picked.where(latest.scalar_subquery() == status)
        ids = list(connection.scalars(picked.order_by(first.c.number.desc()).offset(offset).limit(limit)))
        heads = {head.run.id: head for head in _heads(connection, runs.c.id.in_(ids))}
        return [heads[run_id] for run_id in ids]

    @reading
    def run_head(self, connection: Connection, run_id: str) -> RunHead | None:
        return next(iter(_heads(connection, runs.c.id == run_id)), None)

    @reading
    def last_tell(self, connection: Connection, run_id: str) -> int:
        """Return the position of the last tell (evaluated reply) of a run, or -1 if there is none."""
        last = connection.scalar(select(func.max(tells.c.position)).where(tells.c.run_id == run_id))
        return -1 if last is None else last

    @reading
    def answers(
        self,
        connection: Connection,
        run_id: str,
        offset: int,
        limit: int,
        parse_status: str | None,
        characters: int,
    ) -> list[dict[str, Any]]:
        """Return up to `limit` answers of a run in order. Programs that cost no budget are left out.

        In the result, `position` is the index of the reply, `text` is cut to the length given by the argument
        `characters`, and `characters` is the length before the cut.
        """
        wanted = (candidates.c.run_id == run_id) & prompts.c.kind.not_in(FREE)
        if parse_status is not None:
            wanted &= candidates.c.parse_status == parse_status
        rows = connection.execute(
            select(
                *(candidates.c.position, candidates.c.slot, prompts.c.kind, prompts.c.island),
                *(rollouts.c.policy_version, rollouts.c.finish_reason),
                *(candidates.c.parse_status, candidates.c.reason),
                *(candidates.c.program_id, _begun(candidates.c.text, characters).label("text")),
                func.length(candidates.c.text).label("characters"),
            )
            .join(prompts, prompts.c.id == candidates.c.prompt_id)
            .outerjoin(rollouts, rollouts.c.id == candidates.c.rollout_id)
            .where(wanted)
            .order_by(candidates.c.position, candidates.c.slot)
            .offset(offset)
            .limit(limit)
        )
        return [dict(row) for row in rows.mappings()]

    @reading
    def children(self, connection: Connection, run_id: str, program_id: str, limit: int) -> list[str]:
        """Return the ids of the first `limit` programs that a run made from the program `program_id`."""
        made = (
            select(candidates.c.program_id, func.min(_ORDER).label("first"))
            .join(candidate_parents, candidate_parents.c.candidate_id == candidates.c.id)
            .where(candidates.c.run_id == run_id, candidate_parents.c.program_id == program_id)
            .where(candidates.c.program_id.is_not(None), candidates.c.program_id != program_id)
            .group_by(candidates.c.program_id)
        )
        return list(connection.scalars(made.order_by("first").limit(limit)))

    @reading
    def open_asks(self, connection: Connection, run_id: str) -> list[dict[str, Any]]:
        """Return the latest prompts of a run that still wait for replies."""
        last = connection.scalar(select(func.max(prompts.c.sequence)).where(prompts.c.run_id == run_id))
        told = select(func.count()).where(tells.c.prompt_id == prompts.c.id).correlate(prompts)
        replies, wanted = told.scalar_subquery().label("replies"), prompts.c.rollouts.label("wanted")
        rows = connection.execute(
            select(prompts.c.sequence, prompts.c.kind, prompts.c.island, replies, wanted)
            .where(prompts.c.run_id == run_id, prompts.c.sequence > (last or 0) - _ASKS_BACK)
            .order_by(prompts.c.sequence)
        )
        return [dict(row) for row in rows.mappings() if row.replies < row.wanted]

    @reading
    def reward_vectors(self, connection: Connection, evaluation_ids: Collection[str]) -> dict[str, Rewards]:
        return vectors_of(connection, evaluation_ids)

    @reading
    def beginnings(
        self, connection: Connection, program_ids: Collection[str], characters: int
    ) -> dict[str, str]:
        """Return the first `characters` characters of at most 1000 programs, by program id."""
        begun = select(programs.c.id, _begun(programs.c.source, characters))
        return {row[0]: row[1] for row in connection.execute(begun.where(programs.c.id.in_(program_ids)))}

    @reading
    def runs_with(self, connection: Connection, program_id: str, limit: int) -> Sequence[str]:
        found = select(candidates.c.run_id).where(candidates.c.program_id == program_id).distinct()
        return connection.scalars(found.order_by(candidates.c.run_id).limit(limit)).all()

    @reading
    def first_tell(
        self, connection: Connection, run_id: str, program_id: str
    ) -> tuple[Prompt, Tell, int] | None:
        """Return the prompt and tell that first proposed a program, and the position of the tell, or None."""
        place = select(func.min(candidates.c.position)).where(
            candidates.c.program_id == program_id, candidates.c.run_id == run_id
        )
        position = connection.scalar(place)
        if position is None:
            return None
        (tell,) = tells_where(connection, (tells.c.run_id == run_id) & (tells.c.position == position))
        (prompt,) = prompts_where(connection, prompts.c.id == tell.prompt_id)
        return prompt, tell, position


def _begun(column: ColumnElement[str], characters: int) -> ColumnElement[str]:
    return func.substr(column, 1, characters, type_=column.type)


def _heads(connection: Connection, where: ColumnElement[bool]) -> list[RunHead]:
    cost, tokens = (
        select(func.sum(column)).where(calls.c.run_id == runs.c.id).scalar_subquery()
        for column in (calls.c.cost, calls.c.completion_tokens + func.coalesce(calls.c.prompt_tokens, 0))
    )
    more = run_events.c.at.label("changed_at"), cost.label("cost"), tokens.label("tokens")
    rows: Any = connection.execute(with_status().add_columns(*more).where(where))
    return [RunHead(run_of(row), row.changed_at, heldout_of(row), row.cost, row.tokens) for row in rows]
