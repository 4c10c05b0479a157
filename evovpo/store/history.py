"""Reads the history of a run from the store, page by page."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, and_, exists, func, select

from evovpo.analysis.scores import Scored
from evovpo.errors import StoreError
from evovpo.store.database import Database, reading
from evovpo.store.row_records import candidates_where, evaluations_of, prompts_where, tells_where
from evovpo.store.runs import require_run
from evovpo.store.schema import candidates, evaluations, programs, prompts, tells
from evovpo.store.tells import read_target
from evovpo.types import (
    Candidate,
    Evaluation,
    Group,
    ParentRole,
    ParseStatus,
    Prompt,
    PromptKind,
    Rewards,
    Status,
    Tell,
)

T = TypeVar("T")
_PAGE = 1000
_GROUPS_PAGE = 100
_IDS_PAGE = 500
_Placed = tuple[int, int, Prompt | Tell]


class History(Database):
    def history(self, run_id: str) -> Iterator[Prompt | Tell]:
        """Return the prompts and tells (evaluated replies) of a run in the order of the search.

        Raises StoreError if tells are missing.
        """
        self._require_all_tells(run_id)
        # The last tell is looked up before the last ask, so that every tell has its ask.
        replies = enumerate(self._pages(tells_where, tells.c.position, run_id))
        asks = self._pages(prompts_where, prompts.c.sequence, run_id)
        asked: Iterator[_Placed] = ((prompt.tells_before, 0, prompt) for prompt in asks)
        applied: Iterator[_Placed] = ((position, 1, tell) for position, tell in replies)
        return (event for _, _, event in heapq.merge(asked, applied, key=itemgetter(0, 1)))

    def groups(self, run_id: str, after: str | None = None) -> Iterator[Group]:
        """Return the complete groups of a run, in order of completion.

        A group has all rollouts (completions) of one prompt. If `after` is a prompt id, only groups completed
        after the group of this prompt are returned. An answer has zero rewards if it is missing, unparsed,
        rejected or failed, or repeats an earlier answer. `valid_G` is False for a rollout with a sandbox
        fault.
        """
        ids, objectives = self._complete_groups(run_id, after)
        pages = (ids[start : start + _GROUPS_PAGE] for start in range(0, len(ids), _GROUPS_PAGE))
        return (group for page in pages for group in self._read_groups(page, objectives))

    def known_evaluation(self, problem_version: str, program_id: str) -> Evaluation | None:
        """Return the evaluation of a program on a problem version in any run, or None."""
        return self.known_evaluations(problem_version, program_id).get(program_id)

    @reading
    def known_evaluations(
        self,
        connection: Connection,
        problem_version: str,
        program_id: str | None = None,
        but: Container[str] = (),
    ) -> dict[str, Evaluation]:
        """Return evaluations that any run may reuse, by program id. `but` has program ids to leave out."""
        where = and_(evaluations.c.problem_version == problem_version, evaluations.c.private_to == "")
        if program_id is not None:
            where = and_(where, evaluations.c.program_id == program_id)
        # An index alone answers this query, so it stays fast with a million rows.
        judged = connection.scalars(select(evaluations.c.program_id).where(where))
        ids = [one for one in judged if one not in but]
        found: dict[str, Evaluation] = {}
        for start in range(0, len(ids), _IDS_PAGE):
            page = evaluations.c.program_id.in_(ids[start : start + _IDS_PAGE])
            found |= evaluations_of(connection, select(evaluations.c.id).where(where, page))
        return {evaluation.program_id: evaluation for evaluation in found.values()}

    @reading
    def scores(self, connection: Connection, run_id: str) -> tuple[Scored, ...]:
        """Return the programs of a run with their raw metrics, in order of first proposal."""
        rows = connection.execute(
            select(prompts.c.kind, candidates.c.program_id, evaluations.c.status, evaluations.c.metrics)
            .join(prompts, prompts.c.id == candidates.c.prompt_id)
            .outerjoin(evaluations, evaluations.c.id == candidates.c.evaluation_id)
            .where(candidates.c.run_id == run_id)
            .order_by(candidates.c.position, candidates.c.slot)
        )
        found: dict[str, Scored] = {}
        proposed = 0
        for kind, program_id, status, metrics in rows:
            proposed += not PromptKind(kind).is_free
            if metrics is not None and program_id not in found:
                found[program_id] = Scored(proposed, program_id, Status(status), dict(metrics))
        return tuple(found.values())

    @reading
    def lineage(self, connection: Connection, run_id: str, program_id: str) -> list[Candidate]:
        """Return the candidates that first proposed a program and its ancestors, nearest first.

        Starting programs, and programs that were shown only for inspiration, are left out.
        """
        if connection.scalar(select(programs.c.id).where(programs.c.id == program_id)) is None:
            raise StoreError(f"no program {program_id} is stored; expected the full id of one")
        steps: list[Candidate] = []
        seen = {program_id}
        wanted = [program_id]
        while wanted:
            generation = _origins(connection, run_id, wanted)
            steps += generation
            wanted = []
            for parent in (parent for candidate in generation for parent in candidate.parents):
                if parent.role is not ParentRole.INSPIRATION and parent.program_id not in seen:
                    seen.add(parent.program_id)
                    wanted.append(parent.program_id)
        return steps

    def _pages(
        self, read: Callable[[Connection, ColumnElement[bool]], list[T]], number: Column[Any], run_id: str
    ) -> Iterator[T]:
        of_run = number.table.c.run_id == run_id
        last = self.read(lambda connection: connection.scalar(select(func.max(number)).where(of_run)))

        def page(start: int) -> list[T]:
            where = and_(of_run, number.between(start, start + _PAGE - 1))
            return self.read(lambda connection: read(connection, where))

        return chain.from_iterable(map(page, range(0, 0 if last is None else last + 1, _PAGE)))

    @reading
    def _require_all_tells(self, connection: Connection, run_id: str) -> None:
        require_run(connection, run_id)
        query = select(func.count(), func.coalesce(func.max(tells.c.position) + 1, 0)).where(
            tells.c.run_id == run_id
        )
        found, expected = connection.execute(query).one()
        if found != expected:
            raise StoreError(
                f"run {run_id} has {found} tells, numbered up to {expected - 1}: rows were deleted, and what "
                "came after them cannot be replayed; restore the database from a copy"
            )

    @reading
    def _complete_groups(
        self, connection: Connection, run_id: str, after: str | None
    ) -> tuple[list[str], int]:
        _, objectives = read_target(connection, run_id)
        # Joins and starting programs are left out, because they have no rollouts. So are the notes of earlier
        # versions, because they have no answers.
        told = connection.execute(
            select(tells.c.prompt_id, prompts.c.rollouts)
            .join(prompts, prompts.c.id == tells.c.prompt_id)
            .where(tells.c.run_id == run_id, tells.c.rollout_id.is_not(None))
            .where(prompts.c.answers > 0)
            .order_by(tells.c.position)
        )
        replies: Counter[str] = Counter()
        completed: list[str] = []
        for prompt_id, wanted in told:
            replies[prompt_id] += 1
            if replies[prompt_id] == wanted:
                completed.append(prompt_id)
        if after is not None:
            if after not in completed:
                raise StoreError(
                    f"prompt {after} is not a complete group of run {run_id}; expected the id of the last "
                    "prompt trained on, or none to begin at the start"
                )
            completed = completed[completed.index(after) + 1 :]
        return completed, len(objectives)

    @reading
    def _read_groups(self, connection: Connection, ids: list[str], objectives: int) -> list[Group]:
        asked = {prompt.id: prompt for prompt in prompts_where(connection, prompts.c.id.in_(ids))}
        told: dict[str, list[Tell]] = defaultdict(list)
        for tell in tells_where(connection, tells.c.prompt_id.in_(ids)):
            told[tell.prompt_id].append(tell)
        return [_group(asked[key], told[key], objectives) for key in ids]


def _group(prompt: Prompt, replies: Iterable[Tell], objectives: int) -> Group:
    chains = [_chain(tell, prompt.answers, (0.0,) * objectives) for tell in replies]
    chains.sort(key=lambda chain: chain[0].index)
    return Group(prompt, *zip(*chains, strict=True))


def _chain(tell: Tell, answers: int, zero: Rewards) -> tuple[Any, ...]:
    """Return the rollout, the rewards, the validity and the program ids of a reply."""
    length = max([answers, *(judged.candidate.slot + 1 for judged in tell.judged)])
    rewards_M_D = [zero] * length
    programs: list[str | None] = [None] * length
    is_valid = True
    for candidate, evaluation in ((judged.candidate, judged.evaluation) for judged in tell.judged):
        is_repeat = candidate.program is not None and candidate.program.id in programs
        programs[candidate.slot] = None if candidate.program is None else candidate.program.id
        if evaluation is None:
            continue
        is_valid &= evaluation.status is not Status.SANDBOX_ERROR
        if not is_repeat and candidate.parse_status is not ParseStatus.REJECTED:
            rewards_M_D[candidate.slot] = evaluation.rewards or zero
    return tell.rollout, tuple(rewards_M_D), is_valid, tuple(programs)


def _origins(connection: Connection, run_id: str, program_ids: Sequence[str]) -> list[Candidate]:
    first: dict[str, Candidate] = {}
    is_seed = exists().where(prompts.c.id == tells.c.prompt_id, prompts.c.kind == PromptKind.SEED)
    for start in range(0, len(program_ids), _IDS_PAGE):
        page = program_ids[start : start + _IDS_PAGE]
        told = select(candidates.c.position).where(
            candidates.c.run_id == run_id, candidates.c.program_id.in_(page)
        )
        where = and_(tells.c.run_id == run_id, tells.c.position.in_(told), ~is_seed)
        for _, candidate in candidates_where(connection, where):
            if candidate.program is not None and candidate.parse_status is ParseStatus.PARSED:
                first.setdefault(candidate.program.id, candidate)
    return [first[program_id] for program_id in program_ids if program_id in first]
