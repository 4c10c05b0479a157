"""Judgements and tells for tests that judge programs by a function, without a driver or a sandbox."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from evovpo.runs.group import Found, GroupJudge, read_slots
from evovpo.search.search import SearchState
from evovpo.types import Evaluation, Program, Prompt, Rollout, Status, Tell


def evaluation(
    program_id: str, version: str, rewards: Sequence[float] | None, status: Status = Status.OK, **more: Any
) -> Evaluation:
    """Return a judgement; without rewards it is a sandbox fault."""
    fields = {"feedback": "", "seconds": 0.0, "isolation": "none"} | more
    if rewards is None:
        return Evaluation(program_id, version, Status.SANDBOX_ERROR, None, **fields)
    return Evaluation(program_id, version, status, tuple(map(float, rewards)), **fields)


def judged(
    search: SearchState, prompt: Prompt, rollout: Rollout | None, judge: Callable[[Program], Evaluation]
) -> Tell:
    """Return the tell of one reply as the driver makes it; `judge` gets each new program once."""
    slots = read_slots(search, prompt, rollout)
    new = {slot.program.id: slot.program for slot in slots if slot.program}
    new = {key: program for key, program in new.items() if search.evaluation(key) is None}
    asked = new.items() if prompt.has_model else ()
    refused = {key: fault for key, one in asked if (fault := search.novelty_fault(prompt.id, one))}
    fresh = {key: judge(program) for key, program in new.items() if key not in refused}
    group = GroupJudge(search, judge, ThreadPoolExecutor(1), {})
    (tell,) = group.tells(prompt, [rollout], Found([slots], refused, fresh, set(fresh)))
    return tell
