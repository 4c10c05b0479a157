"""Parses and evaluates the replies to one prompt. A `Tell` passes an evaluated reply to the search."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from evovpo.errors import SandboxError
from evovpo.prompts.request import Answer
from evovpo.proposers import REFUSED
from evovpo.search.search import SearchState
from evovpo.types import (
    Candidate,
    Evaluation,
    JudgedCandidate,
    ParseStatus,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    Status,
    Tell,
    content_id,
)


class Found(NamedTuple):
    slots_of: list[list[Answer]]
    fresh: dict[str, Evaluation]
    ran: set[str]
    """Ids of the programs run for this group. Programs already running for another group are left out."""


@dataclass
class GroupJudge:
    """Evaluates the replies to the prompts of one search. Each program is evaluated only once."""

    search: SearchState
    judge: Callable[[Program], Evaluation]
    known: Mapping[str, Evaluation] = field(default_factory=dict)
    pool: ThreadPoolExecutor | None = None
    """Threads in which `find` evaluates programs, one program per thread."""
    executed: int = 0
    _running: dict[str, asyncio.Future[Evaluation]] = field(default_factory=dict)

    async def find(self, prompt: Prompt, rollouts: Sequence[Rollout | None]) -> Found:
        """Parse the replies to a prompt and evaluate all new programs in parallel.

        Some prompts contain ready programs and are not sent to a model; their `rollouts` are `[None]`. Raises
        `SandboxError` if none of the problem's starting programs can be evaluated.
        """
        slots_of, new = self.read(prompt, rollouts)
        fresh, ran = await self._evaluate(new)
        judged = [fresh.get(program.id) for program in prompt.proposals]
        failed = [one.feedback for one in judged if one and one.status is Status.SANDBOX_ERROR]
        if prompt.kind is PromptKind.SEED and judged and len(failed) == len(judged):
            raise SandboxError(
                f"no starting program of '{self.search.standing.problem.id}' could be run: the sandbox "
                f"failed each time ({next(iter(failed), '')}); run `python -m evovpo.sandbox --selftest` to "
                "see what this machine refuses"
            )
        return Found(slots_of, fresh, ran)

    def find_at_once(self, prompt: Prompt, rollouts: Sequence[Rollout | None]) -> Found:
        """Parse the replies to a prompt and evaluate the new programs one by one in this thread."""
        slots_of, new = self.read(prompt, rollouts)
        return Found(slots_of, {key: self.judge(new[key]) for key in new}, set(new))

    def read(
        self, prompt: Prompt, rollouts: Sequence[Rollout | None]
    ) -> tuple[list[list[Answer]], dict[str, Program]]:
        """Return the answers in each reply (there may be several), and the programs to evaluate, by id."""
        slots_of = [read_slots(self.search, prompt, rollout) for rollout in rollouts]
        programs = (slot.program for slots in slots_of for slot in slots if slot.program is not None)
        new = (one for one in programs if self.search.evaluation(one.id) is None)
        return slots_of, {one.id: one for one in new if one.id not in self.known}

    def tells(self, prompt: Prompt, rollouts: Sequence[Rollout | None], found: Found) -> list[Tell]:
        """Return a `Tell`, the record of one evaluated reply, for each reply to a prompt."""
        before: dict[str, Evaluation] = {}
        tells: list[Tell] = []
        for rollout, slots in zip(rollouts, found.slots_of, strict=True):
            tells.append(self._tell(prompt, rollout, slots, found, before))
            new = (one for one in tells[-1].judged if one.candidate.parse_status is ParseStatus.PARSED)
            before |= {one.evaluation.program_id: one.evaluation for one in new if one.evaluation}
        return tells

    def _tell(
        self,
        prompt: Prompt,
        rollout: Rollout | None,
        slots: Sequence[Answer],
        found: Found,
        before: Mapping[str, Evaluation],
    ) -> Tell:
        known = {key: evaluation for key, evaluation in before.items() if evaluation.rewards}
        owner = prompt.id if rollout is None else rollout.id
        parents = [prompt.parents] * len(slots)
        if joins := self.search.tickets[prompt.id].joins:
            parents = [join.parents for join in joins]
        judged: list[JudgedCandidate] = []
        in_reply: dict[str, Evaluation] = {}
        for number, slot in enumerate(slots):
            evaluation, status, executed = None, ParseStatus.UNPARSED, False
            if slot.program is not None:
                key = slot.program.id
                twin = in_reply.get(key) or known.get(key) or self.search.evaluation(key)
                if twin is not None:
                    evaluation, status = twin, ParseStatus.DUPLICATE
                else:
                    status = ParseStatus.PARSED
                    evaluation = found.fresh.get(key) or self.known[key]
                    executed = key in found.ran and key not in before
                    in_reply[key] = evaluation
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
                reason=slot.reason,
            )
            judged.append(JudgedCandidate(candidate, evaluation, executed))
        return Tell(prompt.id, rollout, tuple(judged))

    async def _evaluate(self, new: Mapping[str, Program]) -> tuple[dict[str, Evaluation], set[str]]:
        loop = asyncio.get_running_loop()
        own = [program_id for program_id in new if program_id not in self._running]
        for program_id in own:
            self._running[program_id] = loop.run_in_executor(self.pool, self.judge, new[program_id])
        self.executed += len(own)
        try:
            found = await asyncio.gather(*(self._running[program_id] for program_id in new))
        finally:
            for program_id in own:
                del self._running[program_id]
        return dict(zip(new, found, strict=True)), set(own)


def read_slots(search: SearchState, prompt: Prompt, rollout: Rollout | None) -> list[Answer]:
    """Return the answers in `rollout`, or the programs in the prompt itself if there is no rollout."""
    if rollout is None:
        return [Answer(program.source, program, None) for program in prompt.proposals]
    shown = search.standing.programs.get(prompt.parent_id or "")
    parent = None if shown is None else shown.program
    answers = search.format_of(prompt).answers(search.standing.problem, rollout, prompt.answers, parent)
    if not rollout.finish_reason.startswith(REFUSED):
        return answers
    return [answer._replace(reason=rollout.finish_reason) for answer in answers]
