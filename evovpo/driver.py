"""Runs one search: ask, propose, evaluate, store, tell.

The store comes first: an ask is stored before it is sent, a tell before it is applied, so that a
process killed anywhere loses only replies that nobody was told. Replies are judged one group at a
time, in the order in which they arrive, which is the order that replay follows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from evovpo.config import Config
from evovpo.errors import ReplayError, SandboxError, SearchError
from evovpo.prompts import Answer, PromptFormat
from evovpo.proposers import Proposer
from evovpo.search import Search
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


class Judge(Protocol):
    """What the driver needs of an evaluator."""

    def evaluate(self, program: Program) -> Evaluation:
        """Return the judgement of one program; called from several threads."""


class Journal(Protocol):
    """What the driver needs of a store."""

    def add_prompt(self, prompt: Prompt) -> bool:
        """Store an ask."""

    def add_tell(self, run_id: str, tell: Tell, order: int) -> bool:
        """Store a judged reply in one transaction."""


class Progress(NamedTuple):
    """Where a run stands after a tell."""

    search: Search
    executed: int
    """Programs that the sandbox ran since this process took the run up."""


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

    async def run(self) -> RunStatus:
        """Search until solved or the budget is used; return how it ended.

        Cancelling leaves open tickets in the store; a later run takes them up again. Raises
        `SandboxError` if none of the problem's starting programs can be judged.
        """
        sampling = Sampling(self.config.sampling.temperature, self.config.sampling.max_tokens)
        waiting: dict[asyncio.Task[list[Rollout]], tuple[Prompt, tuple[int, ...]]] = {}
        with ThreadPoolExecutor(self.workers, thread_name_prefix="evovpo-judge") as pool:
            # A group is told as a whole, also when its first reply solved the problem: one that a killed
            # process left half told comes first.
            for prompt, missing in self.search.open_tickets:
                if len(missing) < prompt.rollouts:
                    rollouts = await self.proposer.propose(prompt, missing, sampling)
                    await self._judge_rollouts(prompt, rollouts, pool)
            reopened = self.search.open_tickets
            try:
                while True:
                    while len(waiting) < self.config.search.in_flight and not self._is_finished():
                        ticket = reopened.pop(0) if reopened else self._next_ticket()
                        if ticket is None:
                            break
                        prompt, missing = ticket
                        if not prompt.has_model:
                            await self._judge_proposals(prompt, pool)
                        else:
                            task = asyncio.create_task(self.proposer.propose(prompt, missing, sampling))
                            waiting[task] = (prompt, missing)
                    if not waiting or self._is_finished():
                        break
                    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                    for task in sorted(done, key=lambda done_task: waiting[done_task][0].sequence):
                        prompt, _ = waiting.pop(task)
                        rollouts = task.result()
                        if not self._is_finished():
                            await self._judge_rollouts(prompt, rollouts, pool)
            finally:
                for task in waiting:
                    task.cancel()
                for task in waiting:
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await task
        return RunStatus.SOLVED if self.search.is_solved else RunStatus.EXHAUSTED

    def _is_finished(self) -> bool:
        return self.search.is_solved and self.config.search.stop_when_solved

    def _next_ticket(self) -> tuple[Prompt, tuple[int, ...]] | None:
        prompt = self.search.ask()
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
        tell = self._judge(prompt, None, slots, parents, await self._evaluate(slots, pool), set())
        if prompt.kind is PromptKind.SEED and all(
            judged.evaluation is not None and judged.evaluation.status is Status.SANDBOX_ERROR
            for judged in tell.judged
        ):
            detail = tell.judged[0].evaluation.feedback if tell.judged and tell.judged[0].evaluation else ""
            raise SandboxError(
                f"no starting program of '{self.problem.id}' could be run: the sandbox failed each time "
                f"({detail}); run `python -m evovpo.sandbox --selftest` to see what this machine refuses"
            )
        self._commit(tell)

    async def _judge_rollouts(
        self, prompt: Prompt, rollouts: Sequence[Rollout], pool: ThreadPoolExecutor
    ) -> None:
        """Judge a group: all its new programs in parallel, then one tell a rollout."""
        slots_of = [read_slots(self.prompt_format, self.search, prompt, rollout) for rollout in rollouts]
        parents = [prompt.parents] * prompt.answers
        found = await self._evaluate([slot for slots in slots_of for slot in slots], pool)
        counted: set[str] = set()
        for rollout, slots in zip(rollouts, slots_of, strict=True):
            self._commit(self._judge(prompt, rollout, slots, parents, found, counted))

    async def _evaluate(self, slots: Sequence[Answer], pool: ThreadPoolExecutor) -> dict[str, Evaluation]:
        """Return fresh judgements of the programs that no earlier tell or run has judged."""
        new: dict[str, Program] = {}
        for slot in slots:
            program = slot.program
            if program and self.search.evaluation(program.id) is None and program.id not in self.known:
                new.setdefault(program.id, program)
        loop = asyncio.get_running_loop()
        jobs = [loop.run_in_executor(pool, self.judge.evaluate, program) for program in new.values()]
        self.executed += len(jobs)
        return dict(zip(new, await asyncio.gather(*jobs), strict=True))

    def _judge(
        self,
        prompt: Prompt,
        rollout: Rollout | None,
        slots: Sequence[Answer],
        parents: Sequence[tuple[Parent, ...]],
        fresh: dict[str, Evaluation],
        counted: set[str],
    ) -> Tell:
        """Return the tell of one reply; a program is a duplicate from its second appearance on.

        `counted` are the fresh programs that an earlier reply of the group was charged for.
        """
        owner = prompt.id if rollout is None else rollout.id
        judged: list[Judged] = []
        in_reply: dict[str, Evaluation] = {}
        for number, slot in enumerate(slots):
            evaluation, status, executed = None, ParseStatus.UNPARSED, False
            if slot.program is not None:
                twin = in_reply.get(slot.program.id) or self.search.evaluation(slot.program.id)
                if twin is not None:
                    evaluation, status = twin, ParseStatus.DUPLICATE
                else:
                    status = ParseStatus.PARSED
                    evaluation = fresh.get(slot.program.id) or self.known[slot.program.id]
                    executed = slot.program.id in fresh and slot.program.id not in counted
                    counted.add(slot.program.id)
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
            )
            judged.append(Judged(candidate, evaluation, executed))
        return Tell(prompt.id, rollout, tuple(judged))

    def _commit(self, tell: Tell) -> None:
        self.journal.add_tell(self.search.run_id, tell, self.search.tells)
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
    return prompt_format.answers(search.problem, rollout, prompt.answers, parent)


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
                if made != stored:
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


_AsRead = tuple[str, Program | None, tuple[int, int] | None, ParseStatus]


def _as_read(candidate: Candidate) -> _AsRead:
    return candidate.text, candidate.program, candidate.token_span, candidate.parse_status


def _read_again(search: Search, prompt_format: PromptFormat, prompt: Prompt, tell: Tell) -> list[_AsRead]:
    """Return what the candidates of a reply must be, just before it is told."""
    found: list[_AsRead] = []
    in_reply: set[str] = set()
    for slot in read_slots(prompt_format, search, prompt, tell.rollout):
        status = ParseStatus.UNPARSED
        if slot.program is not None:
            is_known = slot.program.id in in_reply or search.evaluation(slot.program.id) is not None
            status = ParseStatus.DUPLICATE if is_known else ParseStatus.PARSED
            in_reply.add(slot.program.id)
        found.append((slot.text, slot.program, slot.token_span, status))
    return found


def _difference(stored: Prompt, made: Prompt | None) -> str:
    if made is None:
        return "the search has no budget left to ask"
    for name in Prompt.__slots__:
        old, new = getattr(stored, name), getattr(made, name)
        if old != new:
            return f"{name} was {old!r:.120}, is now {new!r:.120}"
    return "no field differs"
