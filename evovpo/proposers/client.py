"""Requests to one model behind one server: sent, repeated, put into the form that the server takes, recorded.

Every request that is sent becomes one `Call`, whatever becomes of it. The openai client's own repetitions are
off, so the number of requests is the one that is configured. Keys are read from the environment and taken out
of everything that a server says.
"""

import asyncio
import email.utils
import json
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from evovpo.config import ModelConfig
from evovpo.errors import ConfigError, EvovpoError, PolicyError, ServerError
from evovpo.proposers.endpoints import (
    CHAT,
    Form,
    Reply,
    Shape,
    UnusableError,
    Usage,
    correct,
    is_too_long,
    read_answer,
    read_lengths,
    read_usage,
    request_body,
)
from evovpo.proposers.http import refused_key
from evovpo.proposers.limits import Gate, RefusedError, Ticket
from evovpo.types import Call, CallOutcome, Prompt

try:
    import openai
except ImportError as error:
    raise PolicyError(
        f"the openai proposer needs the openai client ({error}); run: pip install 'evovpo[server]'"
    ) from error

_log = logging.getLogger(__name__)

_LONGEST_WAIT_SECONDS = 60.0
_LONGEST_ASKED_SECONDS = 600.0
"""Longest wait that a server's Retry-After is believed for."""
_AGAIN = (408, 409, 425, 429)
"""Refusals, beside those of 500 and above, that another try may not meet."""
_CHARACTERS_PER_TOKEN = 4
"""Of a prompt, to say before it is sent what it will take of the tokens of a minute."""


class _Sent(NamedTuple):
    """What became of one request."""

    data: object = None
    """The JSON of an answer, or none for a fault."""
    replies: tuple[Reply, ...] = ()
    """What an answer holds; empty for a fault."""
    usage: Usage = Usage(None, None)
    cost: float | None = None
    reason: str = ""
    """Of a fault, in a word or two."""
    detail: str = ""
    status: int | None = None
    """Of an answer that is a refusal."""
    code: str | None = None
    parameter: str | None = None
    wait_seconds: float = 0.0
    """How long the server asks to wait."""
    seconds: float = 0.0

    @property
    def is_passing(self) -> bool:
        """True for a fault that another try may not meet."""
        if self.code == "insufficient_quota":
            return False
        return self.status is None or self.status in _AGAIN or self.status >= 500


class Answer(NamedTuple):
    """What a server answered, checked."""

    replies: tuple[Reply, ...]
    data: object
    """The whole JSON."""
    seconds: float
    """From the first try to the answer, waits between tries included."""


class Client:
    """Asks one model. `say` is called with texts for people, each once; `record` with every request."""

    def __init__(
        self,
        model: ModelConfig,
        base_url: str,
        gate: Gate,
        *,
        timeout_seconds: float,
        attempts: int,
        wait_seconds: float,
        record: Callable[[Call], None],
        measure: Callable[[str, Form], tuple[int, int] | None],
    ) -> None:
        self.model = model
        self.shape = Shape()
        self.retried = 0
        self._address = base_url.rstrip("/").removesuffix("/v1")
        self._gate = gate
        self._timeout_seconds = timeout_seconds
        self._attempts = attempts
        self._wait_seconds = wait_seconds
        self._record = record
        self._measure = measure
        self._key = os.environ.get(model.key_variable, "")
        self._said: set[str] = set()
        self._client = openai.AsyncOpenAI(
            base_url=base_url, api_key=self._key or "none", timeout=timeout_seconds, max_retries=0
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    def say_once(self, text: str, *values: object) -> None:
        """Warn, unless this was said before."""
        if text % values not in self._said:
            self._said.add(text % values)
            _log.warning("%s " + text, self._address, *values)

    async def ask(
        self,
        name: str,
        form: Form,
        ticket: Ticket,
        load: Callable[[], Awaitable[None]] | None = None,
    ) -> Answer | None:
        """Return the answer to a request, or none: the server gives one choice a request, ask for each alone.

        `name` is what the server calls the model, `load` makes it offer that name if it does not. A request
        that is put otherwise because the server refused a field is sent again and counts as no failure.

        Raises `RefusedError`; `ServerError` when the server fails `attempts` times or lacks the model;
        `ConfigError` for a refused key; `BudgetError` before the first request of a ticket.
        """
        async with self._gate.slot(ticket):
            started, count, failed, is_loaded = None, 0, 0, False
            while form.n == 1 or self.shape.has_n:
                shape = self.shape
                body = request_body(form, self.model, shape)
                expected = _expected_tokens(form)
                await self._gate.wait_for_minute(expected)
                started = started or time.perf_counter()
                count += 1
                sent = await self._send(name, form, body, ticket, count)
                self._gate.settle(ticket, expected, sent.usage, sent.cost)
                if sent.replies:
                    self._note(ticket, name, count, CallOutcome.OK, sent)
                    self._check_usage(sent.usage)
                    self._say_what_is_missing(sent.replies[0])
                    return Answer(sent.replies, sent.data, time.perf_counter() - started)
                if sent.reason == "wrong n":
                    found: Form | EvovpoError = self._without_n(
                        form, self.shape, "gives fewer choices than n"
                    )
                elif sent.status == 404 and load is not None and not is_loaded:
                    found, is_loaded = form, True
                    try:
                        await load()
                    except EvovpoError as error:
                        found = error
                elif sent.is_passing or sent.code == "insufficient_quota":
                    failed += 1
                    found = form
                    if failed == self._attempts or not sent.is_passing:
                        found = ServerError(
                            f"{self._address} failed {failed} times, at last: {sent.reason}: {sent.detail}; "
                            "see its log, then resume the run"
                        )
                else:
                    found = await self._correct(name, form, body, shape, sent, is_loaded)
                if isinstance(found, EvovpoError):
                    self._note(ticket, name, count, CallOutcome.FAILED, sent)
                    raise found
                self._note(ticket, name, count, CallOutcome.RETRIED, sent)
                form = found
                if sent.is_passing and sent.reason != "wrong n":
                    self.retried += 1
                    await asyncio.sleep(self._wait(ticket.prompt, form, failed, sent))
        return None

    async def _send(self, name: str, form: Form, body: dict[str, Any], ticket: Ticket, attempt: int) -> _Sent:
        """Send one request and read what comes back; a cancelled one is recorded here."""
        started = time.perf_counter()
        try:
            sent = await self._post(name, form.endpoint, body)
        except asyncio.CancelledError:
            ended = _Sent(reason="cancelled", seconds=time.perf_counter() - started)
            self._note(ticket, name, attempt, CallOutcome.FAILED, ended)
            raise
        usage = read_usage(sent.data)
        cost = self.model.cost(usage.prompt_tokens, usage.completion_tokens)
        sent = sent._replace(seconds=time.perf_counter() - started, usage=usage, cost=cost)
        if sent.reason:
            return sent
        try:
            return sent._replace(replies=tuple(read_answer(sent.data, form)))
        except UnusableError as error:
            return sent._replace(reason=error.reason, detail=self._without_key(str(error)))

    async def _post(self, name: str, endpoint: str, body: dict[str, Any]) -> _Sent:
        body = dict(body)
        try:
            async with asyncio.timeout(self._timeout_seconds):  # the client's own counts from byte to byte
                if endpoint == CHAT:
                    chat = self._client.chat.completions.with_raw_response
                    messages = body.pop("messages")
                    text = (await chat.create(model=name, messages=messages, extra_body=body)).text
                else:
                    plain = self._client.completions.with_raw_response
                    prompt = body.pop("prompt")
                    text = (await plain.create(model=name, prompt=prompt, extra_body=body)).text
            return _Sent(json.loads(text))
        except (TimeoutError, openai.APITimeoutError):
            return _Sent(reason="timeout", detail=f"timed out after {self._timeout_seconds:g} seconds")
        except openai.APIStatusError as error:
            return _Sent(
                reason=f"http {error.status_code}",
                detail=self._without_key(_message(error))[:500],
                status=error.status_code,
                code=error.code,
                parameter=error.param,
                wait_seconds=_retry_after(error),
            )
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            return _Sent(reason="connection", detail=self._without_key(f"{error.message} ({cause})"))
        except ValueError as error:
            return _Sent(reason="truncated json", detail=f"it answered with what is no JSON ({error})")

    async def _correct(
        self, name: str, form: Form, body: dict[str, Any], shape: Shape, sent: _Sent, is_loaded: bool
    ) -> Form | EvovpoError:
        """Return the request to send instead of a refused one, put as `shape` says, or what to raise."""
        if sent.status in (401, 403):
            return ConfigError(refused_key(self._address, self.model.key_variable, sent.detail))
        if sent.status == 404 and is_loaded:
            return ServerError(f"{self._address} loaded {name!r} and does not serve it ({sent.detail})")
        if sent.status == 404:
            other = (
                "" if form.endpoint == CHAT else ", or takes chats only (then --set proposer.endpoint=chat)"
            )
            return ServerError(
                f"{self._address} does not serve {name!r} ({sent.detail}): it lists no such model in "
                f"/v1/models (then set proposer.model){other}"
            )
        if sent.status not in (400, 413, 422):
            return ServerError(f"{self._address} refused a request: {sent.detail}")
        if is_too_long(sent.detail, sent.code):
            lengths = read_lengths(sent.detail) or await asyncio.to_thread(self._measure, name, form)
            if lengths is not None and 0 < lengths[1] - lengths[0] < form.sampling.max_tokens:
                return replace(form, sampling=replace(form.sampling, max_tokens=lengths[1] - lengths[0]))
            told = f"the prompt does not fit into the model's context ({sent.detail})"
            if lengths is not None and lengths[0] >= lengths[1]:
                told = f"the prompt has {lengths[0]} tokens; the model reads from 1 to {lengths[1] - 1}"
            advice = "shorten the prompt, or start the server with a larger context (--max-model-len)"
            return RefusedError(f"context too long: {told}", PolicyError(f"{told}; {advice}"))
        if self.shape != shape:  # another request found out meanwhile
            return form
        found = correct(shape, body, sent.detail, sent.parameter)
        if found is None:
            error = ServerError(f"{self._address} refused a request: {sent.detail}")
            return RefusedError(f"{sent.reason}: {sent.detail[:200]}", error)
        if not found.has_n:
            return self._without_n(form, found, "refuses n")
        self.shape = found
        if dropped := found.left_out - shape.left_out:
            self.say_once("does not take %s: sent without", ", ".join(sorted(dropped)))
            if not found.is_plain:
                self._say_untrainable("takes a plain request only")
        return form

    def _without_n(self, form: Form, shape: Shape, why: str) -> Form:
        self.shape = replace(shape, has_n=False)
        self.say_once(why + "; each reply is asked for in a request of its own")
        return form

    def _check_usage(self, usage: Usage) -> None:
        if None in usage and self._gate.budget.is_limited:
            raise ServerError(
                f"{self._address} does not say how many tokens a request took, so that no budget can be "
                "kept; set budget.tokens and budget.money to 0, or use another server"
            )

    def _say_what_is_missing(self, reply: Reply) -> None:
        if not self.shape.is_plain:
            return  # said already
        if reply.token_ids is None:
            self._say_untrainable("gives no token ids (return_token_ids)")
        elif reply.logprobs is None:
            self._say_untrainable("gives no log-probabilities (logprobs)")

    def _say_untrainable(self, why: str) -> None:
        self.say_once(why + "; the search goes on, but nothing can be trained from its rows")

    def _wait(self, prompt: Prompt, form: Form, failed: int, sent: _Sent) -> float:
        """Return the seconds before the next try: doubling, spread by a draw, at least what is asked for."""
        draw = random.Random(f"wait {prompt.seed} {form.seed} {failed}").uniform(0.5, 1.5)
        doubled = min(self._wait_seconds * 2.0 ** (failed - 1), _LONGEST_WAIT_SECONDS) * draw
        return max(doubled, min(sent.wait_seconds, _LONGEST_ASKED_SECONDS))

    def _note(self, ticket: Ticket, name: str, attempt: int, outcome: CallOutcome, sent: _Sent) -> None:
        self._record(
            Call(
                run_id=ticket.prompt.run_id,
                prompt_id=ticket.prompt.id,
                attempt=attempt,
                model=name,
                outcome=outcome,
                reason=sent.reason,
                prompt_tokens=sent.usage.prompt_tokens,
                completion_tokens=sent.usage.completion_tokens,
                cost=sent.cost,
                seconds=sent.seconds,
            )
        )

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def _expected_tokens(form: Form) -> int:
    """Return what a request may take of the tokens of a minute."""
    prompt = sum(len(message.content) for message in form.messages) // _CHARACTERS_PER_TOKEN
    return prompt + form.n * form.sampling.max_tokens


def _message(error: openai.APIStatusError) -> str:
    """Return what a refusal says, without what is around it, if it is in the usual place."""
    found = error.body.get("message") if isinstance(error.body, dict) else None
    return found if isinstance(found, str) and found else error.message


def _retry_after(error: openai.APIStatusError) -> float:
    """Return the seconds that the server asks to wait, 0 if it does not say."""
    text = error.response.headers.get("retry-after", "0")
    try:
        return max(float(text), 0.0)
    except ValueError:
        pass
    try:
        until = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max((until.astimezone(UTC) - datetime.now(UTC)).total_seconds(), 0.0)
