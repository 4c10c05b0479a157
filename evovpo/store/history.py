"""What happened in a run, read back: its asks and tells in order, its groups, and known judgements.

Reads in pages, a handful of statements each, so that memory stays bounded and no statement is
issued per row. Rows never change, so pages read in separate transactions fit together.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Integer, Select, and_, func, select

from evovpo.errors import StoreError
from evovpo.problem.openevolve.scores import Scored
from evovpo.store.database import Connected, reading
from evovpo.store.records import evaluations_of, prompts_where, tells_where
from evovpo.store.runs import require_run
from evovpo.store.tables import candidates, evaluations, prompts, rewards, rollouts, tells
from evovpo.store.tells import read_target
from evovpo.types import (
    Evaluation,
    Group,
    ParseStatus,
    Prompt,
    PromptKind,
    Rewards,
    Rollout,
    Status,
    Tell,
)

_PAGE = 1000
"""Asks or tells loaded at once; a tell of 3 answers and 8 objectives is about 50 rows."""
_GROUPS_PAGE = 100


class _Chain(NamedTuple):
    """One rollout of a group with its M answers."""

    rollout: Rollout
    rewards: tuple[Rewards, ...]
    is_valid: bool
    program_ids: tuple[str | None, ...]
    spans: tuple[tuple[int, int] | None, ...]


class History(Connected):
    """Asks, tells and groups of runs, and judgements of all runs."""

    def history(self, run_id: str) -> Iterator[Prompt | Tell]:
        """Return the asks and tells of a run, to be read in the order in which they were applied.

        That sequence rebuilds the state of the search. Raises StoreError for an unknown run, and for one of
        which tells are missing between others.
        """
        self._require_all_tells(run_id)
        return self._in_order(run_id)

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
        ids, objectives = self._complete_groups(run_id, after, policies)
        pages = (ids[start : start + _GROUPS_PAGE] for start in range(0, len(ids), _GROUPS_PAGE))
        return (group for page in pages for group in self._read_groups(page, objectives))

    @reading
    def known_evaluation(
        self, connection: Connection, problem_version: str, program_id: str
    ) -> Evaluation | None:
        """Return *the* evaluation of a program on a problem version by any run, or None.

        Never a `sandbox_error`: such a program may be run again.
        """
        of_program = evaluations.c.program_id == program_id
        return _known(connection, problem_version, of_program).get(program_id)

    @reading
    def known_evaluations(self, connection: Connection, problem_version: str) -> dict[str, Evaluation]:
        """Return every program's evaluation on a problem version, by program id."""
        return _known(connection, problem_version)

    @reading
    def scores(self, connection: Connection, run_id: str) -> tuple[Scored, ...]:
        """Return the judged candidates of a run that have raw metrics, in order, repeated ones left out."""
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
            proposed += kind != str(PromptKind.SEED)
            if metrics is not None and program_id not in found:
                found[program_id] = Scored(proposed, program_id, Status(status), dict(metrics))
        return tuple(found.values())

    def _in_order(self, run_id: str) -> Iterator[Prompt | Tell]:
        asks = self._prompts(run_id)
        prompt = next(asks, None)
        for position, tell in enumerate(self._tells(run_id)):
            while prompt is not None and prompt.tells_before <= position:
                yield prompt
                prompt = next(asks, None)
            yield tell
        while prompt is not None:
            yield prompt
            prompt = next(asks, None)

    def _prompts(self, run_id: str) -> Iterator[Prompt]:
        after = -1
        while True:
            page = self._page_of_prompts(run_id, after)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].sequence

    def _tells(self, run_id: str) -> Iterator[Tell]:
        start = 0
        while True:
            page = self._page_of_tells(run_id, start)
            yield from page
            if len(page) < _PAGE:
                return
            start += _PAGE

    @reading
    def _page_of_prompts(self, connection: Connection, run_id: str, after: int) -> list[Prompt]:
        where = and_(prompts.c.run_id == run_id, prompts.c.sequence > after)
        return prompts_where(connection, where, _PAGE)

    @reading
    def _page_of_tells(self, connection: Connection, run_id: str, start: int) -> list[Tell]:
        where = and_(tells.c.run_id == run_id, tells.c.position.between(start, start + _PAGE - 1))
        return tells_where(connection, where)

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
        self, connection: Connection, run_id: str, after: str | None, policies: Collection[int] | None
    ) -> tuple[list[str], int]:
        """Return the prompts of the wanted groups, and the number of objectives."""
        target = read_target(connection, run_id)
        completed = connection.execute(_complete(run_id, policies)).all()
        if after is not None:
            order = [row.prompt_id for row in completed]
            if after not in order:
                raise StoreError(
                    f"prompt {after} is not a complete group of run {run_id}; expected the id of the last "
                    "prompt trained on, or none to begin at the start"
                )
            completed = completed[order.index(after) + 1 :]
        return [row.prompt_id for row in completed if row.in_policies], len(target.objective_names)

    @reading
    def _read_groups(self, connection: Connection, ids: list[str], objectives: int) -> list[Group]:
        asked = {prompt.id: prompt for prompt in prompts_where(connection, prompts.c.id.in_(ids))}
        told: dict[str, list[Tell]] = defaultdict(list)
        for tell in tells_where(connection, tells.c.prompt_id.in_(ids)):
            told[tell.prompt_id].append(tell)
        return [make_group(asked[key], told[key], objectives) for key in ids]


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


def _known(
    connection: Connection, problem_version: str, which: ColumnElement[bool] | None = None
) -> dict[str, Evaluation]:
    """Return *the* evaluation of each program, or of those that `which` picks, by program id."""
    where = and_(evaluations.c.problem_version == problem_version, evaluations.c.private_to == "")
    if which is not None:
        where = and_(where, which)
    found = evaluations_of(
        connection,
        select(evaluations).where(where),
        select(rewards).join(evaluations, rewards.c.evaluation_id == evaluations.c.id).where(where),
    )
    return {evaluation.program_id: evaluation for evaluation in found.values()}


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
