"""ToolRL (arXiv 2504.13958): calls of the tools that a system message describes.

The rewards are those of VPO (arXiv 2605.22817) in its release `ryanboldi/vpo`. *format* is 1 if the answer
has a `<think>` part and makes tool calls exactly when the gold answer does, else 0. *tool-name* is the F1 of
the multisets of tool names. For *arg-key* and *arg-value*, each gold call is paired with the most similar
call, by name first and then by shared keys. *arg-key* is the mean F1 of the keys of a pair. *arg-value* is
the mean agreement of the values of the gold keys. An unpaired call counts as 0.

There are three differences from that release. An answer is unreadable if it has neither `<tool_call>` nor
`<response>`, or if a call is not a JSON object with name and parameters. A boolean value agrees only with the
same boolean, not with 1 or 0. A `<think>` part that the chat template wrote before the answer does not count.

The columns read from `rlla_4k` (Parquet or JSON) are `prompt` (chat messages) and
`reward_model.ground_truth`.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from evovpo.errors import AnswerError, ProblemError
from evovpo.judging.measure import JudgedAnswer
from evovpo.types import Rewards
from trainer.domains.domain import Domain, Row
from trainer.domains.text.answers import asked, by_vector, multiset_f1, normalised, tagged, text_domain
from trainer.domains.text.rows import read_rows

MAX_TOKENS = (1024, 2048)
COMPONENTS = ("format", "tool-name", "arg-key", "arg-value")
_FORM = "as the system message says: <think>, then <tool_call> or <response>"


class ToolCall(NamedTuple):
    name: str
    parameters: Mapping[str, Any]


class _Gold(BaseModel):
    ground_truth: str


class _Task(BaseModel):
    prompt: list[dict[str, str]]
    reward_model: _Gold


def open_file(data: Path, answers: int) -> Domain:
    """Return the domain of a ToolRL file. Raises `ProblemError` if a gold answer is unreadable."""
    prompts = []
    for number, row in enumerate(read_rows(data, _Task), 1):
        gold = row.reward_model.ground_truth
        try:
            read_reply(gold)
        except AnswerError as error:
            where = f"{data}: row {number}: reward_model.ground_truth"
            raise ProblemError(f"{where}: expected a readable answer, but {error}") from error
        if answers > 1:
            row.prompt[-1]["content"] += "\n\n" + asked(_FORM, answers)
        prompts.append({"prompt": row.prompt, "gold": gold})
    return text_domain("toolrl", COMPONENTS, answers, prompts, _read, MAX_TOKENS, has_reasoning=True)


def _read(text: str, row: Row) -> JudgedAnswer:
    (has_think, calls), (_, gold) = read_reply(text), read_reply(row["gold"])
    return by_vector((float(has_think and bool(calls) == bool(gold)), *call_rewards(calls, gold)))


def read_reply(text: str) -> tuple[bool, list[ToolCall]]:
    """Return whether a reply has `<think>`, and its calls. Raises `AnswerError` for an unreadable reply."""
    parts = {tag: tagged(text, tag) for tag in ("think", "tool_call", "response") if f"<{tag}>" in text}
    if not parts.keys() & {"tool_call", "response"}:
        raise AnswerError("it has neither <tool_call> nor <response>")
    return "think" in parts, _calls(parts.get("tool_call", ""))


def _calls(text: str) -> list[ToolCall]:
    decoder, values, rest = json.JSONDecoder(), [], text
    try:
        while rest := rest.lstrip(" \t\r\n,"):
            value, end = decoder.raw_decode(rest)
            values += value if isinstance(value, list) else [value]
            rest = rest[end:]
    except (ValueError, RecursionError) as error:
        raise AnswerError("its <tool_call> is no JSON") from error
    found = []
    for value in values:
        parameters = value.get("parameters", value.get("arguments", {})) if isinstance(value, dict) else None
        if not isinstance(parameters, dict) or not isinstance(value.get("name"), str):
            raise AnswerError("its <tool_call> holds something that is no object with name and parameters")
        found.append(ToolCall(value["name"], parameters))
    return found


def call_rewards(found: Sequence[ToolCall], gold: Sequence[ToolCall]) -> Rewards:
    """Return *tool-name*, *arg-key* and *arg-value* for an answer's calls, compared with the gold calls."""
    if not found and not gold:
        return (1.0, 1.0, 1.0)
    names = multiset_f1(*([normalised(one.name, False) for one in calls] for calls in (found, gold)))
    pairs = _beside(found, gold)
    both = [(ours.parameters, theirs.parameters) for ours, theirs in pairs if ours and theirs]
    keys = sum(multiset_f1(ours, theirs) for ours, theirs in both)
    values = sum(_values(ours, theirs) for ours, theirs in both)
    return (names, keys / len(pairs), values / len(pairs))


def _beside(
    found: Sequence[ToolCall], gold: Sequence[ToolCall]
) -> list[tuple[ToolCall | None, ToolCall | None]]:
    """Pair each gold call with the most similar remaining call. An unpaired call gets the partner None."""
    left = list(found)
    best = [left.pop(left.index(max(left, key=partial(_likeness, one)))) for one in gold[: len(found)]]
    return list(zip_longest([*best, *left], gold))


def _likeness(wanted: ToolCall, call: ToolCall) -> tuple[bool, int]:
    is_named = normalised(call.name, False) == normalised(wanted.name, False)
    return is_named, len(call.parameters.keys() & wanted.parameters.keys())


def _values(found: Mapping[str, Any], gold: Mapping[str, Any]) -> float:
    shared = [agreement(found[key], value) for key, value in gold.items() if key in found]
    return sum(shared) / len(gold) if gold else 1.0


def agreement(found: Any, gold: Any) -> float:
    """Return how well a value agrees with the gold value, from 0 to 1.

    The agreement is the F1 of words for texts, of elements for lists, and of keys for dictionaries. For other
    values, it is 1 if they are equal, else 0.
    """
    if isinstance(found, bool) or isinstance(gold, bool):
        return float(found is gold)
    if isinstance(gold, int | float):
        try:
            return float(found == gold or abs(float(found) - gold) < 1e-9)
        except (TypeError, ValueError, OverflowError):
            return 0.0
    if isinstance(gold, list):
        elements = found if isinstance(found, list) else [found]
        return multiset_f1(*([normalised(one, False) for one in side] for side in (elements, gold)))
    if isinstance(gold, dict):
        return multiset_f1(found, gold) if isinstance(found, dict) else 0.0
    if isinstance(gold, str) and isinstance(found, str):
        return multiset_f1(normalised(found, False).split(), normalised(gold, False).split())
    return float(normalised(found, False) == normalised(gold, False))
