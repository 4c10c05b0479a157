"""Methods that store prompts and evaluated replies (tells)."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import URL, Connection, Table, bindparam, func, select

from evovpo.errors import StoreError
from evovpo.store.codecs import evaluation_digest, reward_values, row_of
from evovpo.store.database import Database, append, writing
from evovpo.store.row_records import prompts_where
from evovpo.store.runs import append_programs, require_run
from evovpo.store.schema import (
    candidate_parents,
    candidates,
    evaluations,
    objectives,
    programs,
    prompt_parents,
    prompts,
    rewards,
    rollouts,
    runs,
    tells,
)
from evovpo.types import JudgedCandidate, Parent, Prompt, Status, Tell, content_id

Row = dict[str, Any]

# Built once, because building one of these statements takes as long as running it.
_ASKED = select(prompts.c.id).where(prompts.c.id == bindparam("id"))
_LAST = select(func.max(tells.c.position)).where(tells.c.run_id == bindparam("run_id")).scalar_subquery()
_TOLD = (
    select(prompts.c.id, prompts.c.run_id, tells.c.rollout_index, _LAST.label("last"))
    .outerjoin(tells, tells.c.prompt_id == prompts.c.id)
    .where(prompts.c.id.in_(bindparam("ids", expanding=True)))
)
_OF_VERSION = (evaluations.c.problem_version == bindparam("version")) & (evaluations.c.private_to == "")
_KNOWN = (
    select(programs.c.id, programs.c.source, evaluations.c.digest)
    .outerjoin(evaluations, (evaluations.c.program_id == programs.c.id) & _OF_VERSION)
    .where(programs.c.id.in_(bindparam("ids", expanding=True)))
)


class Tells(Database):
    def __init__(self, url: URL) -> None:
        super().__init__(url)
        self._targets: dict[str, tuple[str, list[str]]] = {}

    @writing
    def add_prompt(self, connection: Connection, prompt: Prompt) -> bool:
        """Store a prompt, before it is sent to a model. Return False if the prompt is already stored."""
        self._target(connection, prompt.run_id)
        if connection.scalar(_ASKED, {"id": prompt.id}) is not None:
            if prompts_where(connection, prompts.c.id == prompt.id) != [prompt]:
                raise StoreError(
                    f"prompt {prompt.id} is stored with other content; expected the ask as it was first "
                    "made: derive prompt ids from the run and the sequence number"
                )
            return False
        append(connection, prompts, [row_of(prompts, prompt)])
        append_programs(connection, prompt.proposals)
        append(connection, prompt_parents, _parent_rows("prompt_id", prompt.id, prompt.parents))
        return True

    def add_tell(self, run_id: str, tell: Tell, order: int) -> bool:
        """Store one evaluated reply as `add_tells` does. Return False if the reply is already stored."""
        return self.add_tells(run_id, [tell], order)[0]

    @writing
    def add_tells(self, connection: Connection, run_id: str, told: Sequence[Tell], order: int) -> list[bool]:
        """Store consecutive evaluated replies in one transaction. Return for each reply whether it is new.

        `order` is the position of the first new reply in the run, counted from 0. Replies that are already
        stored are skipped. Raises StoreError for a prompt of another run, a wrong `order`, or an evaluation
        that does not fit its candidate and run.
        """
        problem_version, objective_names = self._target(connection, run_id)
        replies = [(tell.prompt_id, 0 if tell.rollout is None else tell.rollout.index) for tell in told]
        expected, before = _before(connection, run_id, replies)
        is_new = [reply not in before for reply in replies]
        new = [tell for tell, fresh in zip(told, is_new, strict=True) if fresh]
        if not new:
            return is_new
        if order != expected:
            raise StoreError(
                f"tell {order} of run {run_id} came where {expected} was expected; tells are numbered from 0 "
                "in the order in which they are applied, and one process writes a run"
            )
        for position, tell in enumerate(new, order):
            slots = [judged.candidate.slot for judged in tell.judged]
            if slots != sorted(set(slots)):
                raise StoreError(
                    f"tell {position} of run {run_id} has slots {slots}; expected each once, ascending"
                )
            for judged in tell.judged:
                _check(judged, problem_version, len(objective_names))

        answers = [judged for tell in new for judged in tell.judged]
        proposed = [judged.candidate.program for judged in answers if judged.candidate.program is not None]
        which = {"ids": list({program.id for program in proposed}), "version": problem_version}
        known = connection.execute(_KNOWN, which).all() if proposed else []
        sources = append_programs(connection, proposed, {row.id: row.source for row in known})
        digests = {row.id: row.digest for row in known if row.digest is not None}
        evaluation_ids = _append_evaluations(connection, answers, problem_version, objective_names, digests)
        rows: dict[Table, list[Row]] = {rollouts: [], tells: [], candidates: [], candidate_parents: []}
        for position, tell in enumerate(new, order):
            rollout, place = tell.rollout, {"run_id": run_id, "position": position}
            if rollout is not None:
                tokens = None if rollout.token_ids is None else len(rollout.token_ids)
                # Always False: no proposer masks tokens any more.
                sampling = row_of(rollouts, rollout.sampling, grammar_masked=False)
                rows[rollouts].append(row_of(rollouts, rollout, tokens=tokens, **sampling))
            rows[tells].append(
                {
                    **place,
                    "prompt_id": tell.prompt_id,
                    "rollout_index": 0 if rollout is None else rollout.index,
                    "rollout_id": None if rollout is None else rollout.id,
                    "executed": sum(judged.executed for judged in tell.judged),
                }
            )
            for judged in tell.judged:
                candidate = judged.candidate
                evaluation_id = evaluation_ids.get(candidate.id)
                rows[candidates].append(_candidate_row(judged, sources, evaluation_id=evaluation_id, **place))
                rows[candidate_parents] += _parent_rows("candidate_id", candidate.id, candidate.parents)
        for table, of_table in rows.items():
            append(connection, table, of_table)
        return is_new

    def _target(self, connection: Connection, run_id: str) -> tuple[str, list[str]]:
        if run_id not in self._targets:
            self._targets[run_id] = read_target(connection, run_id)
        return self._targets[run_id]


def read_target(connection: Connection, run_id: str) -> tuple[str, list[str]]:
    """Return the problem version of a run, and the names of the problem's objectives."""
    require_run(connection, run_id)
    of_run = (objectives.c.problem_id == runs.c.problem_id) & (
        objectives.c.problem_version == runs.c.problem_version
    )
    rows = connection.execute(
        select(runs.c.problem_version, objectives.c.name)
        .join(objectives, of_run)
        .where(runs.c.id == run_id)
        .order_by(objectives.c.objective)
    ).all()
    return rows[0].problem_version, [row.name for row in rows]


def _before(
    connection: Connection, run_id: str, replies: Sequence[tuple[str, int]]
) -> tuple[int, set[tuple[str, int]]]:
    ids = dict.fromkeys(prompt_id for prompt_id, _ in replies)
    asked = connection.execute(_TOLD, {"ids": list(ids), "run_id": run_id}).all()
    owners = {row.id: row.run_id for row in asked}
    for prompt_id in ids:
        owner = owners.get(prompt_id)
        if owner != run_id:
            raise StoreError(
                f"prompt {prompt_id} of run {run_id} is not stored"
                + (f" (it belongs to run {owner})" if owner else "")
                + "; store an ask before its tells"
            )
    told = {(row.id, row.rollout_index) for row in asked}
    last = asked[0].last if asked else None
    return (0 if last is None else last + 1), told


def _append_evaluations(
    connection: Connection,
    answers: Sequence[JudgedCandidate],
    version: str,
    names: Sequence[str],
    stored: Mapping[str, str],
) -> dict[str, str]:
    """Store new evaluations. Return the id of each candidate's evaluation, by candidate id.

    Candidates with the same program usually share one evaluation, whose digest is in `stored`. An evaluation
    with another digest, or with a sandbox failure, is stored for its candidate only. So a replay sees the
    same evaluations as the search.
    """
    judgements = [(judged.candidate.id, judged.evaluation) for judged in answers if judged.evaluation]
    shared = {judgement.program_id: content_id(version, judgement.program_id) for _, judgement in judgements}
    digests = {key: stored[program_id] for program_id, key in shared.items() if program_id in stored}
    ids: dict[str, str] = {}
    judged: list[Row] = []
    reward_rows: list[Row] = []
    for candidate_id, evaluation in judgements:
        evaluation_id, private_to = shared[evaluation.program_id], ""
        digest = evaluation_digest(evaluation)
        if evaluation.status is Status.SANDBOX_ERROR or digests.get(evaluation_id, digest) != digest:
            evaluation_id, private_to = content_id(version, evaluation.program_id, candidate_id), candidate_id
        ids[candidate_id] = evaluation_id
        if evaluation_id in digests:
            continue
        digests[evaluation_id] = digest
        judged.append(row_of(evaluations, evaluation, id=evaluation_id, private_to=private_to, digest=digest))
        reward_rows.extend(
            {"evaluation_id": evaluation_id, "objective": index, "name": names[index], "value": value}
            for index, value in enumerate(reward_values(evaluation))
        )
    append(connection, evaluations, sorted(judged, key=itemgetter("id")))  # against deadlocks
    append(connection, rewards, reward_rows)
    return ids


def _check(judged: JudgedCandidate, version: str, objectives: int) -> None:
    candidate, evaluation = judged.candidate, judged.evaluation
    if evaluation is None:
        return
    if candidate.program is None or candidate.program.id != evaluation.program_id:
        raise StoreError(f"candidate {candidate.id} came with the evaluation of {evaluation.program_id}")
    if evaluation.problem_version != version:
        raise StoreError(
            f"candidate {candidate.id} was judged on problem version {evaluation.problem_version}, its "
            f"run is on {version}; start a new run for a changed problem"
        )
    expected = 0 if evaluation.status is Status.SANDBOX_ERROR else objectives
    found = len(evaluation.rewards or ())
    if found != expected:
        raise StoreError(
            f"candidate {candidate.id} ({evaluation.status}) came with {found} reward components; expected "
            f"{expected}"
        )


def _candidate_row(judged: JudgedCandidate, sources: Mapping[str, str], **others: Any) -> Row:
    candidate, program = judged.candidate, judged.candidate.program
    start, end = candidate.token_span or (None, None)
    return row_of(
        candidates,
        candidate,
        program_id=program.id if program is not None else None,
        source=program.source if program is not None and program.source != sources[program.id] else None,
        token_start=start,
        token_end=end,
        executed=judged.executed,
        **others,
    )


def _parent_rows(owner: str, owner_id: str, parents: Sequence[Parent]) -> list[Row]:
    return [
        {owner: owner_id, "position": position, "program_id": parent.program_id, "role": parent.role}
        for position, parent in enumerate(parents)
    ]
