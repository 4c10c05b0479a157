"""Runs one search: makes prompts, sends them to the proposer, judges the programs, and stores the results.

A prompt is stored before it is sent. A judged reply is stored before it is passed to the search. A killed
process therefore loses only replies that are not yet stored.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evovpo.analysis.scores import failure
from evovpo.config import Config
from evovpo.errors import BudgetError
from evovpo.judging.evaluator import Judge
from evovpo.proposers import PatientProposer, Proposer
from evovpo.runs.group import Found, GroupJudge
from evovpo.sandbox.openings import what_is_missing
from evovpo.search.search import SearchState
from evovpo.store import Store
from evovpo.types import Evaluation, ParseStatus, Prompt, Rollout, RunStatus, Sampling, Status, Tell

_QUIET_SECONDS = 10.0
_ASKS_AT_ONCE = 64
_SAME_FAULTS = 8
_MOST_UNREAD = 100
_PATIENCE_SECONDS = 0.05


class Progress(NamedTuple):
    """The progress of a run, reported after each judged reply and occasionally while the run waits."""

    search: SearchState
    executed: int
    waits: str = ""
    is_failing: bool = False


class _Arrival(NamedTuple):
    prompt: Prompt
    rollouts: list[Rollout]
    judging: asyncio.Task[Found]
    at: float

    def patience(self) -> float:
        """Return how many seconds to wait for these replies to be judged before the next prompt is sent."""
        return max(0.0, self.at + _PATIENCE_SECONDS - time.monotonic())


@dataclass
class Driver:
    """Runs one search in this process. `run` may be called only once.

    `known` are evaluations from earlier runs on this problem version, by program id.
    """

    search: SearchState
    config: Config
    proposer: Proposer
    judge: Judge
    journal: Store
    known: dict[str, Evaluation] = field(default_factory=dict)
    on_tell: Callable[[Progress], None] = lambda progress: None
    workers: int = 1
    stop_reason: str = ""
    _waiting: dict[asyncio.Task[list[Rollout]], Prompt] = field(default_factory=dict)
    _replied: list[asyncio.Task[list[Rollout]]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _told_at: float = field(default_factory=time.monotonic)
    _faults: list[str] = field(default_factory=list)
    _unread: int = 0
    _arrived: deque[_Arrival] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="evovpo-judge")
        self._groups = GroupJudge(self.search, self.judge.evaluate, self.known, self._pool)

    @property
    def executed(self) -> int:
        return self._groups.executed

    async def run(self) -> RunStatus:
        """Search until the run is solved, stopped or out of budget; return its final status.

        If the proposer raises `BudgetError`, no more prompts are sent, and the run ends after all replies are
        judged. If the call is cancelled, unanswered prompts stay in the store for a later process. Raises
        `SandboxError` if no starting program can be run.
        """
        temperature, most_tokens = self.config.sampling.temperature, self.config.sampling.max_tokens
        sampling = Sampling(temperature, most_tokens or self.search.standing.prompt_format.reply_tokens)
        with self._pool:
            await self._finish_half_told(sampling)
            reopened = self.search.tickets.open
            try:
                while True:
                    await self._ask(sampling, reopened)
                    if not (self._waiting or self._arrived) or self.search.standing.is_over:
                        break
                    await self._wait()
                    self._take_replies()
                    while (
                        self._arrived and self._arrived[0].judging.done() and not self.search.standing.is_over
                    ):
                        group = self._arrived.popleft()
                        found = group.judging.result()
                        self._commit(self._groups.tells(group.prompt, group.rollouts, found))
            finally:
                judging = [group.judging for group in self._arrived]
                under_way: list[asyncio.Task[Any]] = [*self._waiting, *judging]
                for task in under_way:
                    task.cancel()
                # Retrieve their exceptions, because asyncio logs unretrieved ones later.
                await asyncio.gather(*under_way, return_exceptions=True)
            while (asked := self.search.shorten()) is not None:
                self.journal.add_prompt(asked)
                await self._judge_and_tell(asked, [None])
        if self.search.standing.is_solved:
            return RunStatus.SOLVED
        self.stop_reason = self.stop_reason or self.search.standing.stop_reason
        return RunStatus.STOPPED if self.stop_reason else RunStatus.EXHAUSTED

    async def _finish_half_told(self, sampling: Sampling) -> None:
        """Request the missing replies to prompts for which a killed process stored only some replies."""
        for prompt, missing in self.search.tickets.open:
            if len(missing) < prompt.rollouts:
                try:
                    rollouts = await self.proposer.propose(prompt, missing, sampling)
                except BudgetError as error:
                    self.stop_reason = str(error)
                    return
                await self._judge_and_tell(prompt, rollouts)

    async def _ask(self, sampling: Sampling, reopened: list[tuple[Prompt, tuple[int, ...]]]) -> None:
        while self._may_ask():
            if reopened:
                prompt, missing = reopened.pop(0)
            else:
                asked = self.search.ask() if self.search.is_ready else None
                if asked is None:
                    return
                self.journal.add_prompt(asked)
                prompt, missing = asked, tuple(range(asked.rollouts))
            if prompt.has_model:
                task = asyncio.create_task(self.proposer.propose(prompt, missing, sampling))
                task.add_done_callback(self._note_reply)
                self._waiting[task] = prompt
                if len(self._waiting) % _ASKS_AT_ONCE == 0:
                    await asyncio.sleep(0)
                    if self._replied:
                        return
            else:
                await self._judge_and_tell(prompt, [None])

    def _may_ask(self) -> bool:
        """Return whether another prompt may be sent now. Replies that wait are judged first."""
        most, arrived = self.config.search.in_flight, self._arrived
        if self.search.standing.is_over or self.stop_reason or (arrived and arrived[0].patience()):
            return False
        return len(self._waiting) < most and len(arrived) < most

    async def _wait(self) -> None:
        patience = self._arrived[0].patience() if self._arrived else 0.0
        try:
            async with asyncio.timeout(patience or _QUIET_SECONDS):
                await self._news.wait()
        except TimeoutError:
            if not patience:
                trouble = self.proposer.trouble if isinstance(self.proposer, PatientProposer) else ""
                self.on_tell(Progress(self.search, self.executed, self._waits(trouble), bool(trouble)))
        self._news.clear()

    def _note_reply(self, task: asyncio.Task[list[Rollout]]) -> None:
        self._replied.append(task)
        self._news.set()

    def _waits(self, trouble: str) -> str:
        asked = len(self._waiting)
        whose = "" if trouble else f" of {self.config.proposer.base_url or 'the model'}"
        replies = f"replies{whose} to {asked} prompt{'s' * (asked > 1)}" * bool(asked)
        judging = "programs to be judged" * bool(self._arrived)
        seconds = time.monotonic() - self._told_at
        waits = f"waiting for {' and '.join(filter(None, (replies, judging)))}, {seconds:.0f} s so far"
        return f"{waits}: {trouble}" if trouble else waits

    def _take_replies(self) -> None:
        done, self._replied = self._replied, []
        for task in sorted(done, key=lambda done_task: self._waiting[done_task].sequence):
            prompt = self._waiting.pop(task)
            try:
                rollouts = task.result()
            except BudgetError as error:
                self.stop_reason = str(error)
                continue
            judging = asyncio.create_task(self._groups.find(prompt, rollouts))
            judging.add_done_callback(lambda ended: self._news.set())
            self._arrived.append(_Arrival(prompt, rollouts, judging, time.monotonic()))

    async def _judge_and_tell(self, prompt: Prompt, rollouts: Sequence[Rollout | None]) -> None:
        self._commit(self._groups.tells(prompt, rollouts, await self._groups.find(prompt, rollouts)))

    def _note_unread(self, tell: Tell) -> None:
        if self.config.proposer.name != "openai":
            return
        for judged in tell.judged:
            is_unread = judged.candidate.parse_status is ParseStatus.UNPARSED
            self._unread = self._unread + 1 if is_unread else 0
        if self._unread >= _MOST_UNREAD:
            self.stop_reason = f"{self._unread} answers in a row held no program"

    def _note_faults(self, tell: Tell) -> None:
        if self.search.standing.problem.evaluator is None:
            return
        for evaluation in (one.evaluation for one in tell.judged):
            if evaluation is None or evaluation.status is not Status.OK:
                continue
            fault = failure(dict(evaluation.metrics or ()), evaluation.feedback)
            lacks = what_is_missing(evaluation.feedback, self.config.evaluator.allow)
            best = self.search.standing.best
            has_worked = best is not None and not failure(
                dict(best.evaluation.metrics or ()), best.evaluation.feedback
            )
            if not fault or (has_worked and not lacks) or self._faults[-1:] not in ([], [fault]):
                self._faults.clear()
            if fault and (lacks or not has_worked):
                self._faults.append(fault)
            if len(self._faults) >= _SAME_FAULTS:
                self.stop_reason = f"{_SAME_FAULTS} programs in a row failed alike ({fault[:200]})" + (
                    f"; {lacks}" * bool(lacks)
                )

    def _commit(self, tells: Sequence[Tell]) -> None:
        self._told_at = time.monotonic()
        self.journal.add_tells(self.search.run_id, tells, self.search.standing.tells)
        for tell in tells:
            self.search.tell(tell)
            self._note_unread(tell)
            self._note_faults(tell)
            self.on_tell(Progress(self.search, self.executed))
