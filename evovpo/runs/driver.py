"""Runs one search: ask, propose, evaluate, store, tell.

The store comes first: an ask is stored before it is sent, a tell before it is applied, so that a
process killed anywhere loses only replies that nobody was told. Groups are told in the order in which
they arrive, which is the order that replay follows; those that arrived together, or while others are judged,
are judged at the same time. An answer that is not novel is refused before it costs an evaluation.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from evovpo.config import Config
from evovpo.errors import BudgetError, ReplayError, SandboxError, SearchError
from evovpo.prompts import Answer, PromptFormat
from evovpo.proposers import REFUSED, Learner, Proposer
from evovpo.search.novelty import BY_MEANING, Vector, meaning_fault
from evovpo.search.search import Search
from evovpo.types import (
    Candidate,
    Evaluation,
    Judged,
    Parent,
    ParentRole,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    RunStatus,
    Sampling,
    Status,
    Tell,
    content_id,
)

_PATIENCE_SECONDS = 0.05
"""How long the next ask waits for the judgement of what arrived; only with several asks in flight."""


class Judge(Protocol):
    """What the driver needs of an evaluator."""

    def evaluate(self, program: Program) -> Evaluation:
        """Return the judgement of one program; called from several threads."""


class Journal(Protocol):
    """What the driver needs of a store."""

    def add_prompt(self, prompt: Prompt) -> bool:
        """Store an ask."""

    def add_tells(self, run_id: str, tells: Sequence[Tell], order: int) -> object:
        """Store consecutive judged replies in one transaction."""


class Embedder(Protocol):
    """What the driver needs of a server that turns programs into vectors."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text."""


class Progress(NamedTuple):
    """Where a run stands after a tell."""

    search: Search
    executed: int
    """Programs that the sandbox ran since this process took the run up."""


class _Found(NamedTuple):
    """What is known of the answers of a group before it is told."""

    slots_of: list[list[Answer]]
    """Of each rollout."""
    refused: dict[str, str]
    """New programs that are not evaluated, with why."""
    fresh: dict[str, Evaluation]
    """Judgements of new programs."""
    ran: set[str]
    """Those of them that were run for this group, rather than for another one at the same time."""
    judged: dict[str, Evaluation]
    """Programs that replies of the group have brought into the search so far."""


class _Arrived(NamedTuple):
    """A group that is being judged."""

    prompt: Prompt
    rollouts: list[Rollout]
    judging: asyncio.Task[_Found]
    at: float
    """When it arrived, by the monotonic clock."""

    def patience(self) -> float:
        """Return for how many seconds more the next ask should wait for this group."""
        return max(0.0, self.at + _PATIENCE_SECONDS - time.monotonic())


@dataclass
class Driver:
    """One process's work on one run; `run` may be called once.

    `known` are judgements of earlier runs on this problem version: programs in it are not run again.
    """

    search: Search
    problem: Problem
    config: Config
    prompt_format: PromptFormat
    proposer: Proposer
    judge: Judge
    journal: Journal
    known: dict[str, Evaluation] = field(default_factory=dict)
    on_tell: Callable[[Progress], None] = lambda progress: None
    workers: int = 1
    executed: int = 0
    embedder: Embedder | None = None
    """Judges novelty by meaning, if there is one."""
    stop_reason: str = ""
    """Why the run ended before its evaluations were used, for people; empty if it did not."""
    pause_at: int | None = None
    """Evaluations from which on nothing more is asked; none for the whole budget."""
    _vectors: dict[str, Vector] = field(default_factory=dict)
    _running: dict[str, asyncio.Future[Evaluation]] = field(default_factory=dict)

    async def run(self) -> RunStatus:
        """Search until solved, stopped or the budget is used; return how it ended.

        A proposer whose own budget is used up (`BudgetError`) ends the run: what is under way is told,
        nothing more is asked. At `pause_at` the run is left as interrupted, with nothing under way.
        Cancelling leaves open tickets in the store; a later run takes them up again.
        Raises `SandboxError` if none of the problem's starting programs can be judged.
        """
        sampling = Sampling(
            self.config.sampling.temperature,
            self.config.sampling.max_tokens or self.prompt_format.reply_tokens,
        )
        waiting: dict[asyncio.Task[list[Rollout]], Prompt] = {}
        arrived: deque[_Arrived] = deque()
        with ThreadPoolExecutor(self.workers, thread_name_prefix="evovpo-judge") as pool:
            # A group is told as a whole, also when its first reply solved the problem: one that a killed
            # process left half told comes first.
            for prompt, missing in self.search.open_tickets:
                if len(missing) < prompt.rollouts:
                    try:
                        rollouts = await self.proposer.propose(prompt, missing, sampling)
                    except BudgetError as error:
                        self.stop_reason = str(error)
                        break
                    self._tell(prompt, rollouts, await self._find(prompt, rollouts, pool))
            reopened = self.search.open_tickets
            try:
                while True:
                    while self._may_ask(len(waiting), arrived):
                        ticket = reopened.pop(0) if reopened else self._next_ticket()
                        if ticket is None:
                            break
                        prompt, missing = ticket
                        if not prompt.has_model:
                            await self._judge_proposals(prompt, pool)
                        else:
                            task = asyncio.create_task(self.proposer.propose(prompt, missing, sampling))
                            waiting[task] = prompt
                    if not (waiting or arrived) or self._is_finished():
                        break
                    first = [arrived[0].judging] if arrived else []
                    patience = arrived[0].patience() if arrived else 0.0
                    await asyncio.wait(
                        [*waiting, *first], timeout=patience or None, return_when=asyncio.FIRST_COMPLETED
                    )
                    done = [task for task in waiting if task.done()]
                    for task in sorted(done, key=lambda done_task: waiting[done_task].sequence):
                        prompt = waiting.pop(task)
                        try:
                            rollouts = task.result()
                        except BudgetError as error:
                            self.stop_reason = str(error)
                            continue
                        judging = asyncio.create_task(self._find(prompt, rollouts, pool))
                        arrived.append(_Arrived(prompt, rollouts, judging, time.monotonic()))
                    while arrived and arrived[0].judging.done() and not self._is_finished():
                        group = arrived.popleft()
                        self._tell(group.prompt, group.rollouts, group.judging.result())
            finally:
                under_way: list[asyncio.Task[Any]] = [*waiting, *(group.judging for group in arrived)]
                for cancelled in under_way:
                    cancelled.cancel()
                for cancelled in under_way:
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await cancelled
        if self._is_paused and not (self._is_finished() or self.stop_reason):
            return RunStatus.INTERRUPTED
        if self.search.is_solved:
            return RunStatus.SOLVED
        self.stop_reason = self.stop_reason or self.search.stop_reason
        return RunStatus.STOPPED if self.stop_reason else RunStatus.EXHAUSTED

    def _may_ask(self, waiting: int, arrived: Sequence[_Arrived]) -> bool:
        """Return whether to ask once more, with so many requests open and these groups being judged.

        Normally all that arrived is told first, so that the next prompts know it. Where judging is slow,
        requests go on meanwhile, and as many groups may wait for their judgement as requests may be open.
        """
        most = self.config.search.in_flight
        if self._is_finished() or self._is_paused or self.stop_reason or (arrived and arrived[0].patience()):
            return False
        return waiting < most and len(arrived) < most

    def _is_finished(self) -> bool:
        is_solved = self.search.is_solved and self.config.search.stop_when_solved
        return is_solved or bool(self.search.stop_reason)

    @property
    def _is_paused(self) -> bool:
        """True if the rest of the budget is for later."""
        if self.pause_at is None:
            return False
        return self.pause_at <= self.search.proposed < self.config.search.evaluations

    def _next_ticket(self) -> tuple[Prompt, tuple[int, ...]] | None:
        prompt = self.search.ask() if self.search.is_ready else None
        if prompt is None:
            return None
        self.journal.add_prompt(prompt)
        return prompt, tuple(range(prompt.rollouts))

    async def _judge_proposals(self, prompt: Prompt, pool: ThreadPoolExecutor) -> None:
        """Judge the programs that a seed or join ticket carries."""
        parents: Sequence[tuple[Parent, ...]] = [()] * len(prompt.proposals)
        if prompt.kind is PromptKind.JOIN:
            parents = self.search.join_parents(prompt.id)
        slots = read_slots(self.prompt_format, self.search, prompt, None)
        fresh, ran = await self._evaluate(slots, {}, pool)
        tell = self._judge(prompt, None, slots, parents, _Found([], {}, fresh, ran, {}))
        if prompt.kind is PromptKind.SEED and all(
            judged.evaluation is not None and judged.evaluation.status is Status.SANDBOX_ERROR
            for judged in tell.judged
        ):
            detail = tell.judged[0].evaluation.feedback if tell.judged and tell.judged[0].evaluation else ""
            raise SandboxError(
                f"no starting program of '{self.problem.id}' could be run: the sandbox failed each time "
                f"({detail}); run `python -m evovpo.sandbox --selftest` to see what this machine refuses"
            )
        self._commit([tell])

    async def _find(self, prompt: Prompt, rollouts: Sequence[Rollout], pool: ThreadPoolExecutor) -> _Found:
        """Read the answers of a group and judge all its new programs in parallel."""
        slots_of = [read_slots(self.prompt_format, self.search, prompt, rollout) for rollout in rollouts]
        written = [slot for slots in slots_of for slot in slots]
        refused = await self._refuse(prompt, written)
        fresh, ran = await self._evaluate(written, refused, pool)
        return _Found(slots_of, refused, fresh, ran, {})

    def _tell(self, prompt: Prompt, rollouts: Sequence[Rollout], found: _Found) -> None:
        """Store and apply a judged group, one tell a rollout."""
        parents = [prompt.parents] * prompt.answers
        self._commit(
            [
                self._judge(prompt, rollout, slots, parents, found)
                for rollout, slots in zip(rollouts, found.slots_of, strict=True)
            ]
        )
        if isinstance(self.proposer, Learner):
            self.proposer.learned(rollouts, self.search.gains[-len(rollouts) :])

    async def _refuse(self, prompt: Prompt, slots: Sequence[Answer]) -> dict[str, str]:
        """Return which new programs are not novel enough to be evaluated, by program id, each with why."""
        refused: dict[str, str] = {}
        novel: dict[str, Program] = {}
        for slot in slots:
            if slot.program is None or self.search.evaluation(slot.program.id) is not None:
                continue
            reason = self.search.novelty_fault(prompt.id, slot.program)
            if reason:
                refused[slot.program.id] = reason
            else:
                novel.setdefault(slot.program.id, slot.program)
        if self.embedder is None or not novel:
            return refused
        neighbours = self.search.neighbours(prompt.id)
        sources = {member.program_id: member.source for member in neighbours}
        sources |= {program.id: program.source for program in novel.values()}
        missing = [program_id for program_id in sources if program_id not in self._vectors]
        vectors = await self.embedder.embed([sources[program_id] for program_id in missing])
        self._vectors.update(zip(missing, vectors, strict=True))
        others = [(member.program_id, self._vectors[member.program_id]) for member in neighbours]
        for program_id in novel:
            most = self.config.search.novelty_cosine
            reason = meaning_fault(self._vectors[program_id], others, most)
            if reason:
                refused[program_id] = reason
        return refused

    async def _evaluate(
        self, slots: Sequence[Answer], refused: Mapping[str, str], pool: ThreadPoolExecutor
    ) -> tuple[dict[str, Evaluation], set[str]]:
        """Return judgements of the programs that no earlier tell or run has judged, and which of them ran.

        A program that is being run for another group is waited for, not run twice.
        """
        new: dict[str, Program] = {}
        for slot in slots:
            program = slot.program
            if (
                program
                and self.search.evaluation(program.id) is None
                and program.id not in self.known
                and program.id not in refused
            ):
                new.setdefault(program.id, program)
        loop = asyncio.get_running_loop()
        own = [program_id for program_id in new if program_id not in self._running]
        for program_id in own:
            self._running[program_id] = loop.run_in_executor(pool, self.judge.evaluate, new[program_id])
        self.executed += len(own)
        try:
            found = await asyncio.gather(*(self._running[program_id] for program_id in new))
        finally:
            for program_id in own:
                del self._running[program_id]
        return dict(zip(new, found, strict=True)), set(own)

    def _judge(
        self,
        prompt: Prompt,
        rollout: Rollout | None,
        slots: Sequence[Answer],
        parents: Sequence[tuple[Parent, ...]],
        found: _Found,
    ) -> Tell:
        """Return the tell of one reply; a program is a duplicate from its second appearance on.

        A program that ran is charged to the first reply that has it: it leaves `found.ran`. What the reply
        brings into the search is added to `found.judged`.
        """
        owner = prompt.id if rollout is None else rollout.id
        judged: list[Judged] = []
        in_reply: dict[str, Evaluation] = {}
        for number, slot in enumerate(slots):
            evaluation, status, executed, reason = None, ParseStatus.UNPARSED, False, slot.reason
            if slot.program is not None:
                twin = (
                    in_reply.get(slot.program.id)
                    or found.judged.get(slot.program.id)
                    or self.search.evaluation(slot.program.id)
                )
                if twin is not None:
                    evaluation, status = twin, ParseStatus.DUPLICATE
                elif slot.program.id in found.refused:
                    status, reason = ParseStatus.REJECTED, found.refused[slot.program.id]
                else:
                    status = ParseStatus.PARSED
                    evaluation = found.fresh.get(slot.program.id) or self.known[slot.program.id]
                    executed = slot.program.id in found.ran
                    found.ran.discard(slot.program.id)
                    in_reply[slot.program.id] = evaluation
            candidate = Candidate(
                id=content_id(owner, str(number)),
                prompt_id=prompt.id,
                rollout_id=None if rollout is None else rollout.id,
                slot=number,
                parse_status=status,
                program=slot.program,
                token_span=slot.token_span,
                parents=parents[number],
                text=slot.text,
                reason=reason,
            )
            judged.append(Judged(candidate, evaluation, executed))
        found.judged.update((key, value) for key, value in in_reply.items() if value.rewards)
        return Tell(prompt.id, rollout, tuple(judged))

    def _commit(self, tells: Sequence[Tell]) -> None:
        """Store consecutive tells in one transaction, then apply them."""
        self.journal.add_tells(self.search.run_id, tells, self.search.tells)
        for tell in tells:
            self.search.tell(tell)
            self.on_tell(Progress(self.search, self.executed))


def read_slots(
    prompt_format: PromptFormat, search: Search, prompt: Prompt, rollout: Rollout | None
) -> list[Answer]:
    """Return the slots of one reply: what the rollout wrote, or what a seed or join ticket carries."""
    if rollout is None:
        return [Answer(program.source, program, None) for program in prompt.proposals]
    parents = [parent.program_id for parent in prompt.parents if parent.role is ParentRole.PARENT]
    parent = search.program(parents[0]) if parents else None
    answers = prompt_format.answers(search.problem, rollout, prompt.answers, parent)
    if not rollout.finish_reason.startswith(REFUSED):
        return answers
    return [answer._replace(reason=rollout.finish_reason) for answer in answers]


_CAUSE = "the run was made by another version of evovpo, or its rows were changed"


def replay(
    search: Search, history: Sequence[Prompt | Tell], prompt_format: PromptFormat | None = None
) -> None:
    """Apply a stored history of asks and tells to a fresh search.

    Every ask is made again and must come out as it was stored. With `prompt_format` the answers are
    read from every completion again and must be the stored candidates. Raises `ReplayError` at the
    first difference and at a tell that does not fit: the run was made by other code, or its rows were
    changed.
    """
    asked: dict[str, Prompt] = {}
    for number, event in enumerate(history):
        if isinstance(event, Tell):
            if prompt_format is not None and event.prompt_id in asked:
                stored = [_as_read(judged.candidate) for judged in event.judged]
                made = _read_again(search, prompt_format, asked[event.prompt_id], event)
                if len(made) != len(stored) or not all(map(_agree, stored, made)):
                    raise ReplayError(
                        f"tell (event {number}) holds other candidates than its completion gives: "
                        f"{stored!r:.200}, expected {made!r:.200}; {_CAUSE}"
                    )
            try:
                search.tell(event)
            except SearchError as error:
                raise ReplayError(f"tell (event {number}) cannot be applied: {error}; {_CAUSE}") from error
            continue
        ask = search.ask()
        if ask != event:
            raise ReplayError(
                f"ask {event.sequence} (event {number}) comes out differently than stored: "
                f"{_difference(event, ask)}; {_CAUSE}"
            )
        asked[event.id] = event


class _AsRead(NamedTuple):
    """What reading a completion says about one slot."""

    text: str
    program: Program | None
    token_span: tuple[int, int] | None
    parse_status: ParseStatus
    reason: str


def _as_read(candidate: Candidate) -> _AsRead:
    return _AsRead(
        candidate.text, candidate.program, candidate.token_span, candidate.parse_status, candidate.reason
    )


def _agree(stored: _AsRead, made: _AsRead) -> bool:
    """True if a stored slot is what reading it again gives.

    What embeddings refused cannot be decided again, and is taken as stored. So is a slot without a reason:
    runs of versions that kept none have none.
    """
    is_refused = stored.parse_status is ParseStatus.REJECTED and stored.reason.startswith(BY_MEANING)
    if is_refused and made.parse_status is ParseStatus.PARSED:
        made = made._replace(parse_status=ParseStatus.REJECTED, reason=stored.reason)
    return stored == (made if stored.reason else made._replace(reason=""))


def _read_again(search: Search, prompt_format: PromptFormat, prompt: Prompt, tell: Tell) -> list[_AsRead]:
    """Return what the candidates of a reply must be, just before it is told."""
    found: list[_AsRead] = []
    in_reply: set[str] = set()
    for slot in read_slots(prompt_format, search, prompt, tell.rollout):
        status, reason = ParseStatus.UNPARSED, slot.reason
        if slot.program is not None:
            refusal = search.novelty_fault(prompt.id, slot.program) if prompt.has_model else ""
            if slot.program.id in in_reply or search.evaluation(slot.program.id) is not None:
                status = ParseStatus.DUPLICATE
            elif refusal:
                status, reason = ParseStatus.REJECTED, refusal
            else:
                status = ParseStatus.PARSED
                in_reply.add(slot.program.id)
        found.append(_AsRead(slot.text, slot.program, slot.token_span, status, reason))
    return found


def _difference(stored: Prompt, made: Prompt | None) -> str:
    if made is None:
        return "the search has no budget left to ask"
    for name in Prompt.__slots__:
        old, new = getattr(stored, name), getattr(made, name)
        if old != new:
            return f"{name} was {old!r:.120}, is now {new!r:.120}"
    return "no field differs"
