"""Judgements and tells for tests that judge programs by a function, without a driver or a sandbox."""

from collections.abc import Callable, Sequence
from typing import Any

from evovpo.runs.group import GroupJudge
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
    group = GroupJudge(search, judge)
    (tell,) = group.tells(prompt, [rollout], group.find_at_once(prompt, [rollout]))
    return tell
