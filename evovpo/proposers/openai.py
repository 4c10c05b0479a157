"""A proposer that samples from an OpenAI-compatible server, vLLM above all, with its completions endpoint.

The client is the official `openai` package: `pip install 'evovpo[server]'`. The prompt goes as text and the
server turns it into tokens; the ids and log-probabilities that come back are stored as they are, never made
from text again. A policy version that is an adapter is requested under its own name (`served_name`).

Reply i of a prompt is choice i of one request for all G replies with the prompt's seed: reproducible on
vLLM, up to the last bits of its arithmetic, and elsewhere as far as the server honours `seed`.

Not covered: chat endpoints and templates, and servers whose sampling cannot be set to the plain softmax.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evovpo.errors import ConfigError, PolicyError, ServerError
from evovpo.proposers import check_ticket, rollout_id
from evovpo.proposers.server import (
    PLAIN_SOFTMAX,
    TOLERANCE,
    VLLMServer,
    is_adapter,
    load_and_compare,
    read_warm_up,
    served_name,
)
from evovpo.types import PolicyVersion, Prompt, Rollout, Sampling

try:
    import openai
    from openai.types import Completion, CompletionChoice
except ImportError as error:
    raise PolicyError(
        f"the openai proposer needs the openai client ({error}); run: pip install 'evovpo[server]'"
    ) from error

_log = logging.getLogger(__name__)

_LONGEST_WAIT_SECONDS = 60.0
_TOP = 5
"""Likeliest tokens compared to see whether log-probabilities follow the temperature."""


class _Reply(NamedTuple):
    """One choice of a server's answer, checked."""

    text: str
    finish_reason: str
    token_ids: tuple[int, ...] | None
    logprobs: tuple[float, ...] | None
    prompt_token_ids: tuple[int, ...] | None


class OpenAIProposer:
    """Samples from a server; `model` is the name under which it offers its own weights.

    `version` is what to sample from (default: the server's own weights, as version 0), `follow` is called
    before every request for the version to use instead. An adapter that the server does not hold is loaded
    into it, and compared with what was published, before the request is sent again. A version that this
    proposer has left is unloaded when its last request has ended. Full weights have no name of their own:
    whoever publishes them loads them.

    A request is sent up to `attempts` times where the server is busy, failing or not answering within
    `timeout_seconds`, after waits of `wait_seconds` that double; `retried` counts the repetitions.
    `tolerance` is that of `PolicyServer`.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        version: PolicyVersion | None = None,
        follow: Callable[[], PolicyVersion] | None = None,
        timeout_seconds: float = 120.0,
        attempts: int = 5,
        wait_seconds: float = 0.5,
        tolerance: float = TOLERANCE,
    ) -> None:
        self._model = model
        self._version = version or PolicyVersion(0, None, model)
        self._follow = follow
        self._attempts = attempts
        self._wait_seconds = wait_seconds
        self._server = VLLMServer(base_url, model, tolerance=tolerance, timeout_seconds=timeout_seconds)
        self._client = openai.AsyncOpenAI(
            base_url=base_url,
            api_key=os.environ.get("OPENAI_API_KEY") or "none",
            timeout=timeout_seconds,
            max_retries=0,
        )
        self.retried = 0
        self._under_way: Counter[PolicyVersion] = Counter()
        self._left: set[PolicyVersion] = set()
        self._open: set[asyncio.Future[None]] = set()
        self._one_at_a_time = asyncio.Lock()
        self._temperatures = {1.0}
        self._said: set[str] = set()
        self._is_closed = False

    @property
    def policy_version(self) -> int:
        """Number of the version that the last request was sampled from, or the next if there is none."""
        return self._version.number

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Return the sampled replies; see `Proposer.propose`.

        All replies of the ticket are sampled, also when only some are asked for, because that is what makes
        reply i the same. Raises `ServerError` when the server keeps failing or answers outside the protocol,
        `PolicyError` for a version whose folder is gone and a prompt that does not fit the model's context.
        """
        check_ticket(prompt, indices)
        _check_sampling(sampling)
        if self._is_closed:
            raise RuntimeError("this proposer is closed; make a new one")
        if not indices:
            return []
        version = self._version_to_use()
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.add(ended)
        self._under_way[version] += 1
        try:
            started = time.perf_counter()
            replies = await self._sample(version, prompt, sampling)
            seconds = (time.perf_counter() - started) / len(replies)
        finally:
            self._under_way[version] -= 1
            self._open.discard(ended)
            ended.set_result(None)
        await self._unload_left()
        return [
            Rollout(
                id=rollout_id(prompt.id, index),
                prompt_id=prompt.id,
                index=index,
                policy_version=version.number,
                sampling=sampling,
                seconds=seconds,
                **replies[index]._asdict(),
            )
            for index in indices
        ]

    async def aclose(self) -> None:
        """Wait for the requests on their way, then close the connections."""
        self._is_closed = True
        await asyncio.gather(*self._open)
        await self._client.close()

    def _version_to_use(self) -> PolicyVersion:
        if self._follow is not None:
            version = self._follow()
            if version != self._version:
                served_name(version, self._model)  # raises if its folder is gone
                self._left.add(self._version)
                self._left.discard(version)
                self._version = version
        return self._version

    async def _unload_left(self) -> None:
        for version in [left for left in self._left if not self._under_way[left]]:
            self._left.discard(version)
            with contextlib.suppress(ServerError, PolicyError):  # whoever publishes next tries again
                await asyncio.to_thread(self._server.unload, version)

    async def _sample(self, version: PolicyVersion, prompt: Prompt, sampling: Sampling) -> list[_Reply]:
        """Return the replies of a ticket (G), in order."""
        text = "".join(message.content for message in prompt.messages)
        settings: dict[str, Any] = {
            "prompt": text,
            "n": prompt.rollouts,
            "seed": prompt.seed,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "logprobs": 1,
        }
        try:
            await self._check_temperature(version, text, sampling.temperature)
            answer = await self._request(version, settings)
        except openai.BadRequestError as error:
            room = await self._room(version, text, sampling.max_tokens, error)
            answer = await self._request(version, settings | {"max_tokens": room})
        try:
            replies = [self._read(choice) for choice in sorted(answer.choices, key=lambda one: one.index)]
        except (AttributeError, TypeError) as error:
            raise ServerError(
                f"{self._server.address} answered outside the completions protocol ({error})"
            ) from error
        if len(replies) != prompt.rollouts:
            raise ServerError(
                f"{self._server.address} gave {len(replies)} choices where n={prompt.rollouts} were asked; "
                "serve the model with vLLM, or set search.rollouts=1"
            )
        return replies

    async def _request(self, version: PolicyVersion, settings: dict[str, Any]) -> Completion:
        """Return the answer to one request, loading the version's adapter if the server does not hold it.

        Raises `openai.BadRequestError` as it comes, for the caller to see to, and `ServerError`.
        """
        try:
            return await self._send(version, settings)
        except openai.NotFoundError as error:
            if not is_adapter(version):
                raise ServerError(
                    f"{self._server.address} does not serve {self._model!r} ({error.message}); set "
                    "proposer.model to a name that its /v1/models lists"
                ) from error
        async with self._one_at_a_time:
            await asyncio.to_thread(self._load, version)
        try:
            return await self._send(version, settings)
        except openai.NotFoundError as error:
            raise ServerError(
                f"{self._server.address} loaded policy version {version.number} and does not serve it "
                f"({error.message})"
            ) from error

    def _load(self, version: PolicyVersion) -> None:
        warm_up = read_warm_up(Path(version.path))
        if warm_up is None:
            self._server.load(version)
        else:
            load_and_compare(self._server, version, warm_up)

    async def _send(self, version: PolicyVersion, settings: dict[str, Any]) -> Completion:
        name = served_name(version, self._model)
        body: dict[str, Any] = PLAIN_SOFTMAX | {"return_token_ids": True} | settings
        prompt = body.pop("prompt")
        for attempt in range(1, self._attempts + 1):
            wait = self._wait_seconds * 2 ** (attempt - 1)
            try:
                answer: Any = await self._client.completions.create(
                    model=name, prompt=prompt, extra_body=body
                )
                if not isinstance(answer, Completion):
                    fault: object = f"it answered {str(answer)[:80]!r}"
                elif any(_is_aborted(choice) for choice in answer.choices or ()):
                    fault = "it aborted the request"
                else:
                    return answer
            except (openai.BadRequestError, openai.NotFoundError):
                raise
            except openai.APIStatusError as error:
                if error.status_code in (401, 403):
                    raise ConfigError(
                        f"{self._server.address} refused the key ({error.message}); set the environment "
                        "variable OPENAI_API_KEY"
                    ) from error
                if error.status_code not in (408, 409, 429) and error.status_code < 500:
                    raise ServerError(f"{self._server.address} refused a request: {error.message}") from error
                fault, wait = error, max(wait, _retry_after(error))
            except openai.OpenAIError as error:  # no connection, no answer in time, or one that is no JSON
                fault = error
            if attempt == self._attempts:
                raise ServerError(
                    f"{self._server.address} failed {attempt} times, at last: {fault}; see its log, then "
                    "resume the run"
                )
            self.retried += 1
            await asyncio.sleep(min(wait, _LONGEST_WAIT_SECONDS))
        raise AssertionError("unreachable")

    async def _room(
        self, version: PolicyVersion, text: str, wanted: int, error: openai.BadRequestError
    ) -> int:
        """Return the tokens, fewer than `wanted`, that the context has left; raises if it has more.

        Servers refuse what a model in process cuts at the end of its context.
        """
        try:
            length, context = await asyncio.to_thread(self._server.measure, version, text)
        except ServerError:  # not a vLLM
            length, context = 0, wanted
        if context <= length:
            raise PolicyError(
                f"the prompt has {length} tokens; the model reads from 1 to {context - 1}; shorten the "
                "prompt, or start the server with a larger --max-model-len"
            ) from error
        if context - length >= wanted:
            raise ServerError(f"{self._server.address} refused a request: {error.message}") from error
        return context - length

    async def _check_temperature(self, version: PolicyVersion, text: str, temperature: float) -> None:
        """Raise `ConfigError` if log-probabilities are those of temperature 1 whatever is asked.

        A trainer would believe them. Asked once for every temperature but 1, where it makes no difference.
        """
        if temperature in self._temperatures:
            return
        settings: dict[str, Any] = {"prompt": text, "max_tokens": 1, "logprobs": _TOP, "seed": 0}
        cold, warm = [
            _first_place(await self._request(version, settings | {"temperature": value}))
            for value in (temperature, 1.0)
        ]
        shared = cold.keys() & warm.keys()
        if shared and all(abs(cold[token] - warm[token]) < 1e-3 for token in shared):
            raise ConfigError(
                f"sampling.temperature is {temperature}, and {self._server.address} gives log-probabilities "
                "of temperature 1, which training would take for those of the sampling; start vLLM with "
                "--logprobs-mode processed_logprobs"
            )
        self._temperatures.add(temperature)

    def _read(self, choice: CompletionChoice) -> _Reply:
        extra = choice.model_extra or {}
        ids, prompt_ids = extra.get("token_ids"), extra.get("prompt_token_ids")
        logprobs = choice.logprobs.token_logprobs if choice.logprobs else None
        if ids is None or not prompt_ids:
            self._say_once("token ids", "return_token_ids")
            ids = prompt_ids = logprobs = None
        elif logprobs is None:
            self._say_once("log-probabilities", "logprobs")
        elif len(logprobs) != len(ids) or any(value is None for value in logprobs):
            raise ServerError(
                f"{self._server.address} gave {len(logprobs)} log-probabilities for {len(ids)} tokens; "
                "expected one for each"
            )
        return _Reply(
            text=choice.text or "",
            finish_reason=str(choice.finish_reason),
            token_ids=None if ids is None else tuple(ids),
            logprobs=None if logprobs is None else tuple(min(value, 0.0) for value in logprobs),
            prompt_token_ids=None if prompt_ids is None else tuple(prompt_ids),
        )

    def _say_once(self, what: str, field: str) -> None:
        if what not in self._said:
            self._said.add(what)
            _log.warning(
                "%s gives no %s (%s); the search goes on, but nothing can be trained from its rows",
                self._server.address,
                what,
                field,
            )


def _check_sampling(sampling: Sampling) -> None:
    if sampling.grammar_masked:
        raise ConfigError("grammar_masked is true; the openai proposer does not mask: set it to false")
    if not sampling.temperature > 0:
        raise ConfigError(
            f"temperature is {sampling.temperature}; it must be above 0: log-probabilities of greedy "
            "sampling mean nothing to a trainer; use a small one such as 0.01 for nearly greedy replies"
        )
    if sampling.max_tokens < 1:
        raise ConfigError(f"max_tokens is {sampling.max_tokens}; a reply needs at least 1")


def _is_aborted(choice: CompletionChoice) -> bool:
    """True for a reply that the server broke off, as vLLM does when it is paused."""
    return str(choice.finish_reason) == "abort"


def _retry_after(error: openai.APIStatusError) -> float:
    """Return the seconds that the server asks to wait, 0 if it does not say."""
    try:
        return float(error.response.headers.get("retry-after", "0"))
    except ValueError:  # a date
        return 0.0


def _first_place(answer: Completion) -> dict[str, float]:
    """Return the log-probabilities of the likeliest first tokens; empty where there are none."""
    found = answer.choices[0].logprobs if answer.choices else None
    return found.top_logprobs[0] if found and found.top_logprobs else {}
