"""Builds requests to the chat and completions endpoints of a server, and parses the answers."""

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from evovpo.config import ModelConfig
from evovpo.errors import ServerError
from evovpo.types import Message, Sampling

CHAT = "chat"
COMPLETIONS = "completions"
PLAIN_SOFTMAX: dict[str, float] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Sampling fields of every request: vLLM would take missing ones from generation_config.json."""

_OF_VLLM = frozenset({"return_token_ids", "top_k", "min_p", "repetition_penalty"})
_LOGPROBS = frozenset({"logprobs", "top_logprobs"})
_DROPPABLE = _OF_VLLM | _LOGPROBS | PLAIN_SOFTMAX.keys() - {"temperature"} | {"seed"}
_FOR_TRAINING = _DROPPABLE - {"seed"}
_NO_N = re.compile(
    r"['\"`]n['\"`]|\bn\s*(?:=|>|must|should|is not|is only)|\bbest_of\b|multiple (?:choices|completions)"
    r"|(?:only|just) one (?:choice|completion)"
)
_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size)|(?:prompt|input|request)\b.{0,40}\btoo (?:long|large)"
    r"|too many tokens",
    re.I,
)
_LIMIT = re.compile(
    r"max(?:_completion)?_tokens.{0,80}?(?:at most|less than or equal to|<=|\d >|\[\d+,)\s*(\d+)", re.I | re.S
)
_CONTEXT = re.compile(r"(?:context (?:length|window|size)|maximum)\D{0,60}?(\d+)", re.I)
_PROMPT = re.compile(
    r"(\d+) (?:tokens )?(?:in the messages|in (?:your|the) prompt|input tokens|prompt tokens)", re.I
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The request fields that a server accepts, as learned from the server's refusals."""

    left_out: frozenset[str] = frozenset()
    has_n: bool = True
    """True if the server can return several choices for one request (parameter `n`)."""
    limit_name: str = "max_tokens"
    most_tokens: int = sys.maxsize
    context: tuple[int, float] = (0, 0.0)
    """Tokens of the model's context, and tokens per character of prompts; zeros if unknown."""

    @property
    def is_plain(self) -> bool:
        return not self.left_out & _FOR_TRAINING


@dataclass(frozen=True, slots=True)
class Form:
    """The content of a request for `n` replies to one prompt."""

    endpoint: str
    messages: tuple[Message, ...]
    n: int
    seed: int
    sampling: Sampling
    top: int = 0
    """Number of most likely tokens to return at each position, besides the sampled token."""


class ServerReply(NamedTuple):
    """One reply in a server's answer. All fields are also fields of `Rollout`."""

    text: str
    finish_reason: str
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None


class UnusableReplyError(ServerError):
    """Error for a server's answer that cannot be used; `reason` names the cause in a few words."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def request_body(form: Form, model: ModelConfig, shape: Shape) -> dict[str, Any]:
    """Return the fields of a request, except the model name."""
    most = min(form.sampling.max_tokens, shape.most_tokens)
    context, density = shape.context
    room = context - int(1.1 * density * sum(len(one.content) for one in form.messages))
    if room > context // 8:  # the refusal of a longer prompt gives the exact room
        most = min(most, room)
    body: dict[str, Any] = {
        **PLAIN_SOFTMAX,
        "return_token_ids": True,
        "seed": form.seed,
        "temperature": form.sampling.temperature,
        shape.limit_name: most,
    }
    if form.endpoint == CHAT:
        body["messages"] = [{"role": one.role, "content": one.content} for one in form.messages]
        body |= {"logprobs": True, "top_logprobs": form.top}
    else:
        body |= {"prompt": "".join(one.content for one in form.messages), "logprobs": max(form.top, 1)}
    if form.n > 1:
        body["n"] = form.n
    return {name: value for name, value in body.items() if name not in shape.left_out} | model.extra


def correct(shape: Shape, body: Mapping[str, Any], message: str, parameter: str | None) -> Shape | None:
    """Return `shape` corrected after a server refused `body`, or None if `message` gives no known cause."""
    names = set(re.findall(r"\w+", f"{message} {parameter or ''}"))
    other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[shape.limit_name]
    is_refused = re.search(r"support|instead|unrecognized|unknown", message)
    if is_refused and {other, shape.limit_name} <= names:
        return replace(shape, limit_name=other)
    limit = _LIMIT.search(message)
    if limit and 0 < int(limit[1]) < body.get(shape.limit_name, 0):
        return replace(shape, most_tokens=int(limit[1]))
    dropped = names & _DROPPABLE & body.keys()
    for family in (_OF_VLLM, _LOGPROBS):
        if dropped & family:
            dropped |= family & body.keys()
    if dropped:
        return replace(shape, left_out=shape.left_out | dropped)
    if "n" in body and (parameter == "n" or _NO_N.search(message)):
        return replace(shape, has_n=False)
    unknown = re.search(
        r"unrecognized|unknown|unexpected|extra (?:fields|inputs)|not permitted", message, re.I
    )
    is_of_vllm = unknown and _OF_VLLM & body.keys()
    return replace(shape, left_out=shape.left_out | _OF_VLLM) if is_of_vllm else None


def is_too_long(message: str, code: str | None) -> bool:
    """True if a request was refused because prompt and reply exceed the model's context."""
    return code == "context_length_exceeded" or bool(_TOO_LONG.search(message))


def read_lengths(message: str) -> tuple[int, int] | None:
    """Return the lengths (in tokens) of prompt and context named in a refusal, or None without lengths."""
    prompt, context = _PROMPT.search(message), _CONTEXT.search(message)
    return (int(prompt[1]), int(context[1])) if prompt and context else None


def read_usage(data: object) -> tuple[int | None, int | None]:
    """Return the numbers of prompt and completion tokens in a server's answer; None for a missing number."""
    found = data.get("usage") if isinstance(data, Mapping) else None
    counts = found if isinstance(found, Mapping) else {}
    prompt, completion = (
        count if type(count) is int and count >= 0 else None
        for count in map(counts.get, ("prompt_tokens", "completion_tokens"))
    )
    return prompt, completion


def read_answer(data: object, form: Form) -> tuple[ServerReply, ...]:
    """Return the `form.n` replies in a server's answer, in order.

    Raises `UnusableReplyError` with a reason: `empty choices`, `wrong n` (fewer choices than requested),
    `aborted` (the server aborted the request, as a paused vLLM does), or `no completion` (unknown format).
    """
    try:
        choices = sorted(_choices(data), key=lambda one: int(one.get("index", 0)))
        if not choices:
            raise UnusableReplyError("empty choices", "it answered without a choice")
        if len(choices) < form.n:
            raise UnusableReplyError("wrong n", f"it gave {len(choices)} choices where n={form.n} were asked")
        if any(choice.get("finish_reason") == "abort" for choice in choices):
            raise UnusableReplyError("aborted", "it aborted the request")
        top = data if isinstance(data, Mapping) else {}
        return tuple(_read_choice(choice, top, form.endpoint) for choice in choices[: form.n])
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        raise UnusableReplyError(
            "no completion",
            f"it answered outside the {form.endpoint} protocol ({type(error).__name__}: {error})",
        ) from error


def first_place(data: object, endpoint: str) -> dict[str, float]:
    """Return {token: log-probability} of the likeliest first tokens of a reply; empty if there are none."""
    try:
        found: Any = _choices(data)[0]["logprobs"]
        if endpoint == CHAT:
            return {one["token"]: float(one["logprob"]) for one in found["content"][0]["top_logprobs"]}
        return {token: float(value) for token, value in found["top_logprobs"][0].items()}
    except (AttributeError, TypeError, ValueError, KeyError, IndexError):
        return {}


def _choices(data: object) -> list[Mapping[str, Any]]:
    choices = data.get("choices") if isinstance(data, Mapping) else None
    if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
        raise TypeError(f"expected an object with choices, found {str(data)[:80]!r}")
    return choices


def _read_choice(choice: Mapping[str, Any], answer: Mapping[str, Any], endpoint: str) -> ServerReply:
    ids = choice.get("token_ids")
    if endpoint == CHAT:
        message = choice["message"]
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        text = message.get("content") or f"<think>{reasoning}</think>" * bool(reasoning)
        prompt_ids = answer.get("prompt_token_ids")
        places = (choice.get("logprobs") or {}).get("content")
        logprobs = None if places is None else [place["logprob"] for place in places]
    else:
        text = choice["text"]
        prompt_ids = choice.get("prompt_token_ids")
        logprobs = (choice.get("logprobs") or {}).get("token_logprobs")
    if ids is None or not prompt_ids:
        ids = prompt_ids = logprobs = None
    elif logprobs is not None and (
        len(logprobs) != len(ids) or any(value is None or math.isnan(value) for value in logprobs)
    ):
        raise ValueError(f"{len(logprobs)} log-probabilities for {len(ids)} tokens; expected one for each")
    return ServerReply(
        str(text or ""),
        str(choice.get("finish_reason")),
        None if ids is None else tuple(map(int, ids)),
        None if logprobs is None else tuple(min(float(value), 0.0) for value in logprobs),
        None if prompt_ids is None else tuple(map(int, prompt_ids)),
    )
