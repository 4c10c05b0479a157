"""Sends requests to one model on one server: adapts them to the server's API, retries and records them.

Every request is recorded as a `Call`. Keys are read from the environment and removed from all server output.
"""

import asyncio
import contextlib
import email.utils
import json
import logging
import math
import os
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from evovpo.config import ModelConfig, ProposerConfig
from evovpo.errors import ConfigError, EvovpoError, PolicyError, ServerError
from evovpo.proposers import endpoints, fetch
from evovpo.proposers.endpoints import CHAT, PLAIN_SOFTMAX, Form, ServerReply, Shape
from evovpo.proposers.limits import Gate, PendingPrompt, RefusedError
from evovpo.proposers.policy_server import VLLMServer
from evovpo.types import Call, CallOutcome, Sampling

try:
    import openai as openai
except ImportError as error:
    raise PolicyError(
        f"asking a server needs the openai client ({error}); run: pip install 'evovpo[server]'"
    ) from error

_log = logging.getLogger(__name__)

_LONGEST_WAIT_SECONDS = 60.0
_LONGEST_RETRY_AFTER_SECONDS = 600.0
_PASSING = ("timeout", "connection", "http")
_RETRY = (408, 409, 425, 429)
_REQUESTS_PER_CLIENT = 500
_TOP = 5


class _SentRequest(NamedTuple):
    call: Call
    """The record of the request. `outcome` is preliminary; `reason` is empty if there are replies."""
    data: object = None
    replies: tuple[ServerReply, ...] = ()
    detail: str = ""
    refusal: openai.APIStatusError | None = None
    seconds: float = 0.0
    """Time from the first attempt to the answer, including waits between attempts."""

    @property
    def status(self) -> int | None:
        return None if self.refusal is None else self.refusal.status_code

    @property
    def is_broke(self) -> bool:
        return self.refusal is not None and self.refusal.code == "insufficient_quota"


@dataclass(eq=False)
class Client:
    """Client of one model on one server. `record` is called with the `Call` of every request."""

    model: ModelConfig
    settings: ProposerConfig
    gate: Gate
    wait_seconds: float
    record: Callable[[Call], None]
    said: set[str]

    def __post_init__(self) -> None:
        self.base_url = self.model.base_url or self.settings.base_url or ""
        timeout, variable = self.settings.timeout_seconds, self.model.key_variable
        self.server = VLLMServer(self.base_url, self.model.name, self.settings.tolerance, timeout, variable)
        self.is_unlisted = False
        self._failing: dict[object, tuple[float, str]] = {}
        """For each request that is sent again: when, and the failure."""
        self._shape = Shape()
        self._key = os.environ.get(variable, "")
        self._temperatures = {1.0}
        # An openai client searches all its connections at every request, and has at most 1,000 connections.
        key, count = self._key or "none", math.ceil(self.settings.concurrency / _REQUESTS_PER_CLIENT)
        self._clients = deque(
            openai.AsyncOpenAI(base_url=self.base_url, api_key=key, timeout=timeout, max_retries=0)
            for _ in range(count)
        )

    @property
    def trouble(self) -> str:
        at, failure = min(self._failing.values(), default=(0.0, ""))
        left = at - time.monotonic()
        return failure and f"{failure}; next try " + (f"in {left:.0f} s" if left > 0 else "under way")

    async def aclose(self) -> None:
        await asyncio.gather(*(client.close() for client in self._clients))

    async def ask(self, form: Form, ticket: PendingPrompt) -> tuple[list[ServerReply], float] | None:
        """Return the replies, and the seconds since the first attempt divided by the number of replies.

        Returns None if several replies are requested but the server gives only one per request. Replies
        have no log-probabilities if top-p, penalties or similar settings may have changed the sampling.

        Raises `RefusedError` if the server refuses the prompt. Raises `ServerError` if the server keeps
        failing or lacks the model. Raises `ConfigError` if the server refuses the key, or gives
        log-probabilities that ignore the temperature. Raises `BudgetError` if no budget is left.
        """
        sent = await self._ask(form, ticket)
        if sent is None:
            return None
        share = sent.seconds / len(sent.replies)
        temperature = form.sampling.temperature
        if temperature not in self._temperatures and sent.replies[0].logprobs is not None:
            self._temperatures.add(temperature)
            with contextlib.suppress(RefusedError):  # the server has just answered a request
                await self._check_temperature(form, ticket)
        is_plain = not self.model.extra.keys() & PLAIN_SOFTMAX.keys()
        if not is_plain:
            self._say_once(
                f"samples {self.model.name} with top_p or other settings that leave tokens out; the search "
                "continues, but its rows cannot be trained on"
            )
        if is_plain and self._shape.is_plain:
            return list(sent.replies), share
        return [reply._replace(logprobs=None) for reply in sent.replies], share

    async def _check_temperature(self, form: Form, ticket: PendingPrompt) -> None:
        temperature = form.sampling.temperature
        places = []
        for value in (temperature, 1.0):
            first = replace(form, n=1, seed=0, top=_TOP, sampling=Sampling(value, 1))
            sent = await self._ask(first, ticket)
            places.append({} if sent is None else endpoints.first_place(sent.data, form.endpoint))
        cold, warm = places
        shared = cold.keys() & warm.keys()
        if shared and all(abs(cold[token] - warm[token]) < 1e-3 for token in shared):
            self._temperatures.discard(temperature)
            raise ConfigError(
                f"the temperature is {temperature}, and {self.server.address} gives log-probabilities of "
                "temperature 1, which training would take for those of the sampling; start vLLM with "
                "--logprobs-mode processed_logprobs, or set sampling.temperature=1"
            )

    async def _ask(self, form: Form, ticket: PendingPrompt) -> _SentRequest | None:
        async with self.gate.slot(ticket), contextlib.AsyncExitStack() as request:
            request.callback(self._failing.pop, request, None)
            started, count, failed, failing_since, is_loaded = None, 0, 0, 0.0, False
            while form.n == 1 or self._shape.has_n:
                shape, count = self._shape, count + 1
                body = endpoints.request_body(form, self.model, shape)
                started = started or time.perf_counter()
                sent = await self._send(form, body, ticket, count)
                tokens = (sent.call.prompt_tokens or 0) + (sent.call.completion_tokens or 0)
                self.gate.budget.add(sent.call.run_id, tokens, sent.call.cost)
                if sent.replies:
                    self.record(replace(sent.call, outcome=CallOutcome.OK))
                    self._check_answer(sent)
                    return sent._replace(seconds=time.perf_counter() - started)
                wait = None
                try:
                    if sent.call.reason == "wrong n":
                        self._give_up_n(self._shape, "gives fewer choices than n")
                    elif sent.status == 404 and ticket.load is not None and not is_loaded:
                        is_loaded = True
                        await ticket.load()
                    elif sent.is_broke or sent.status is None or sent.status in _RETRY or sent.status >= 500:
                        failed, failing_since = failed + 1, failing_since or time.monotonic()
                        draw_of = f"{ticket.prompt.seed} {form.seed} {failed}"
                        wait, failure = self._wait(draw_of, failed, failing_since, sent)
                        self._failing[request] = time.monotonic() + wait, failure
                    else:
                        form = self._corrected(ticket.name, form, body, shape, sent, is_loaded)
                except EvovpoError:
                    self.record(replace(sent.call, outcome=CallOutcome.FAILED))
                    raise
                self.record(sent.call)
                if wait is not None:
                    await asyncio.sleep(wait)
        return None

    async def _send(
        self, form: Form, body: dict[str, Any], ticket: PendingPrompt, attempt: int
    ) -> _SentRequest:
        started = time.perf_counter()
        self._clients.rotate()
        data, refusal, text = None, None, ""
        replies: tuple[ServerReply, ...] = ()

        def call(reason: str, outcome: CallOutcome = CallOutcome.RETRIED) -> Call:
            tokens, seconds = endpoints.read_usage(data), time.perf_counter() - started
            asked = (ticket.prompt.run_id, ticket.prompt.id, attempt, ticket.name)
            return Call(*asked, outcome, reason, *tokens, self.model.cost(*tokens), seconds)

        try:
            # The timeout of the openai client restarts with every byte received.
            async with asyncio.timeout(self.settings.timeout_seconds):
                path = "/chat/completions" if form.endpoint == CHAT else "/completions"
                text = await self._clients[0].post(path, cast_to=str, body={"model": ticket.name, **body})
            data = json.loads(text)
            replies = endpoints.read_answer(data, form)
            reason, detail = "", ""
        except asyncio.CancelledError:
            self.record(call("cancelled", CallOutcome.FAILED))
            raise
        except (TimeoutError, openai.APITimeoutError):
            reason, detail = "timeout", f"timed out after {self.settings.timeout_seconds:g} seconds"
        except openai.APIStatusError as error:
            reason, refusal = f"http {error.status_code}", error
            detail = fetch.reason(fetch.without_key(error.response.text, self._key))
        except openai.APIConnectionError as error:
            reason, detail = "connection", f"{error.message} ({error.__cause__ or error})"
        except endpoints.UnusableReplyError as error:
            reason, detail = error.reason, str(error)
        except (ValueError, RecursionError):
            reason = "truncated json" if text.lstrip().startswith("{") else "no json"
            start = " ".join(fetch.without_key(text, self._key).split())[:200]
            detail = f"its answer is no complete JSON: {start!r}"
        detail = fetch.without_key(detail, self._key)
        return _SentRequest(call(reason), data, replies, detail, refusal)

    def _corrected(
        self, name: str, form: Form, body: dict[str, Any], shape: Shape, sent: _SentRequest, is_loaded: bool
    ) -> Form:
        address, refusal = self.server.address, sent.refusal
        assert refusal is not None
        if sent.status in (401, 403):
            raise ConfigError(fetch.refused_key(address, self.model.key_variable, sent.detail))
        if sent.status == 404 and is_loaded:
            raise ServerError(f"{address} loaded {name!r} and does not serve it ({sent.detail})")
        if sent.status == 404:
            listed = ": it lists no such model in /v1/models" * self.is_unlisted
            other = "; if it takes chats only: --set proposer.endpoint=chat" * (form.endpoint != CHAT)
            raise ServerError(
                f"{address} does not serve {name!r} ({sent.detail}){listed}; check proposer.base_url, or "
                f"name another: resume --set proposer.model=X, or --config FILE with [[models]]{other}"
            )
        refused = ServerError(f"{address} refused a request ({sent.call.reason}): {sent.detail}")
        if sent.status not in (400, 413, 422):
            raise refused
        if endpoints.is_too_long(sent.detail, refusal.code):
            return self._shorter(form, sent.detail)
        if self._shape != shape:  # another request has corrected it meanwhile
            return form
        found = endpoints.correct(shape, body, sent.detail, refusal.param)
        if found in (None, shape):  # the same shape: `models.extra` sets what is refused
            raise RefusedError(f"{sent.call.reason}: {sent.detail[:200]}", refused)
        if not found.has_n:
            self._give_up_n(found, "refuses n")
            return form
        self._shape = found
        if dropped := found.left_out - shape.left_out:
            self._say_once(f"does not take {', '.join(sorted(dropped))}: sent without")
            if not found.is_plain:
                self._say_untrainable("answers without token ids")
        return form

    def _shorter(self, form: Form, detail: str) -> Form:
        told = f"the prompt does not fit into the model's context ({detail})"
        if lengths := endpoints.read_lengths(detail):
            prompt_tokens, context = lengths
            if 0 < context - prompt_tokens < form.sampling.max_tokens:
                density = prompt_tokens / max(1, sum(len(one.content) for one in form.messages))
                self._shape = replace(self._shape, context=(context, max(self._shape.context[1], density)))
                self._say_once(f"takes {context} tokens, prompt included: replies get what is left of them")
                return replace(form, sampling=replace(form.sampling, max_tokens=context - prompt_tokens))
            if prompt_tokens >= context:
                told = f"the prompt has {prompt_tokens} tokens; the model reads from 1 to {context - 1}"
        advice = "shorten the prompt, or start the server with a larger context (--max-model-len)"
        raise RefusedError(f"context too long: {told}", PolicyError(f"{told}; {advice}"))

    def _give_up_n(self, shape: Shape, why: str) -> None:
        self._shape = replace(shape, has_n=False)
        self._say_once(why + "; each reply is asked for in a request of its own")

    def _check_answer(self, sent: _SentRequest) -> None:
        if None in (sent.call.prompt_tokens, sent.call.completion_tokens) and self.gate.budget.is_limited:
            raise ServerError(
                f"{self.server.address} does not say how many tokens a request took, so that no budget can "
                "be kept; set budget.tokens and budget.money to 0, or use another server"
            )
        if not self._shape.is_plain:
            return  # warned already
        if sent.replies[0].token_ids is None:
            self._say_untrainable("gives no token ids (return_token_ids)")
        elif sent.replies[0].logprobs is None:
            self._say_untrainable("gives no log-probabilities (logprobs)")

    def _say_untrainable(self, why: str) -> None:
        self._say_once(why + "; the search continues, but its rows cannot be trained on")

    def _say_once(self, text: str) -> None:
        if (told := f"{self.server.address} {text}") not in self.said:
            self.said.add(told)
            _log.warning("%s", told)

    def _wait(self, draw_of: str, failed: int, since: float, sent: _SentRequest) -> tuple[float, str]:
        """Return how long to wait, and what failed. Raises `ServerError` after the last attempt."""
        patience = self.settings.patience_seconds
        left = since + patience - time.monotonic()
        told = f"{self.server.address} failed " + (f"{failed} times" if failed > 1 else "once")
        is_patient = left > 0 and sent.call.reason.startswith(_PASSING)
        if sent.is_broke or (failed >= self.settings.attempts and not is_patient):
            hint = "raise proposer.timeout_seconds" if sent.call.reason == "timeout" else "see its log"
            hint = "raise the limit" if sent.is_broke else hint
            raise ServerError(
                f"{told}, at last: {sent.call.reason}: {sent.detail}; {hint}, then resume the run"
            )
        draw = random.Random(f"wait {draw_of}").uniform(0.5, 1.5)
        doubled = min(self.wait_seconds * 2.0 ** min(failed - 1, 64), _LONGEST_WAIT_SECONDS) * draw
        asked = 0.0 if sent.refusal is None else _retry_after_seconds(sent.refusal)
        most = max(0.0, left) if patience else _LONGEST_WAIT_SECONDS
        wait = max(doubled, min(asked, most, _LONGEST_RETRY_AFTER_SECONDS))
        return wait, f"{told} ({sent.call.reason}: {sent.detail[:80]})"


def _retry_after_seconds(error: openai.APIStatusError) -> float:
    text = error.response.headers.get("retry-after", "0")
    with contextlib.suppress(ValueError):
        return max(float(text), 0.0)
    with contextlib.suppress(ValueError):
        until = email.utils.parsedate_to_datetime(text)
        return max((until.astimezone(UTC) - datetime.now(UTC)).total_seconds(), 0.0)
    return 0.0
