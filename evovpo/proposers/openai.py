"""A proposer that samples from OpenAI-compatible servers, vLLM above all, with one model or several.

The client is the official `openai` package: `pip install 'evovpo[server]'`. The prompt goes as text or as
messages and the server turns it into tokens; the ids and log-probabilities that come back are stored as they
are, never made from text again. A policy version that is an adapter is requested under its own name
(`served_name`).

Reply i of a prompt is choice i of one request for all G replies with the prompt's seed: reproducible on
vLLM, up to the last bits of its arithmetic, and elsewhere as far as the server honours `seed`. Where a server
gives one choice a request, reply i is that of a request with a seed made from the prompt's and i.

`docs/servers.md` says which servers were tried and what each lacks. Not covered: streaming, and prompts of
anything but text.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from evovpo.config import BudgetConfig, ModelConfig
from evovpo.errors import ConfigError, PolicyError, ServerError
from evovpo.proposers import REFUSED, check_sampling, check_ticket, rollout_id
from evovpo.proposers.bandit import Bandit, pick_weighted
from evovpo.proposers.client import Answer, Client
from evovpo.proposers.endpoints import (
    CHAT,
    PLAIN_SOFTMAX,
    Form,
    Reply,
    choose_endpoint,
    first_place,
    with_system,
)
from evovpo.proposers.http import check_address, check_model
from evovpo.proposers.limits import Budget, Gate, Refusals, RefusedError, Spent, Ticket
from evovpo.proposers.policies import is_adapter, read_warm_up, served_name
from evovpo.proposers.server import TOLERANCE, VLLMServer, load_and_compare
from evovpo.types import Call, PolicyVersion, Prompt, Rollout, Sampling, content_id

_TOP = 5
"""Likeliest tokens compared to see whether log-probabilities follow the temperature."""
_CHARACTERS_PER_TOKEN = 4
"""Of a reply whose server gives no token ids, for the bandit."""


class OpenAIProposer:
    """Samples from a server; `model` is the name under which it offers its own weights.

    `models` in place of `model` are one model with settings of its own, or several: each ticket goes to one
    of them, chosen by weight or, with `ensemble="bandit"`, by what their replies were worth (`learned`).

    `version` is what to sample from (default: the server's own weights, as version 0), `follow` is called
    before every request for the version to use instead; both need a single model. An adapter that the server
    does not hold is loaded into it, and compared with what was published, before the request is sent again. A
    version that this proposer has left is unloaded when its last request has ended. Full weights have no name
    of their own: whoever publishes them loads them.

    A request is sent up to `attempts` times where the server is busy, failing or not answering within
    `timeout_seconds`, after waits of `wait_seconds` that double; `retried` counts the repetitions. At most
    `concurrency` requests are under way. `record` is called with every request that was sent, `spent_before`
    with a run's id for what earlier processes spent of its `budget`. `tolerance` is that of `PolicyServer`.
    """

    def __init__(
        self,
        base_url: str,
        model: str = "",
        *,
        models: Sequence[ModelConfig] = (),
        ensemble: str = "weights",
        endpoint: str = "auto",
        version: PolicyVersion | None = None,
        follow: Callable[[], PolicyVersion] | None = None,
        timeout_seconds: float = 120.0,
        attempts: int = 5,
        wait_seconds: float = 0.5,
        concurrency: int = 16,
        requests_per_minute: int = 0,
        tokens_per_minute: int = 0,
        budget: BudgetConfig = BudgetConfig(),  # noqa: B008  # frozen
        record: Callable[[Call], None] = lambda call: None,
        spent_before: Callable[[str], Spent] = lambda run_id: Spent(),
        tolerance: float = TOLERANCE,
    ) -> None:
        self._models = tuple(models) or (ModelConfig(name=model),)
        if len(self._models) > 1 and (version is not None or follow is not None):
            raise PolicyError(
                f"policy versions are of one model, and there are {len(self._models)}; set "
                "proposer.policy=start, or leave one of [[models]]"
            )
        self._urls = {one.name: one.base_url or base_url for one in self._models}
        for url in self._urls.values():
            check_address(url)
        first = self._models[0]
        self._version = version or PolicyVersion(0, None, first.name)
        self._follow = follow
        self._endpoint = endpoint
        self._timeout_seconds = timeout_seconds
        self._servers = {
            one.name: VLLMServer(
                self._urls[one.name],
                one.name,
                tolerance=tolerance,
                timeout_seconds=timeout_seconds,
                key_variable=one.key_variable,
            )
            for one in self._models
        }
        gate = Gate(
            concurrency,
            requests_per_minute,
            tokens_per_minute,
            Budget(Spent(budget.tokens, budget.money), spent_before),
        )
        self._clients = {
            one.name: Client(
                one,
                self._urls[one.name],
                gate,
                timeout_seconds=timeout_seconds,
                attempts=attempts,
                wait_seconds=wait_seconds,
                record=record,
                measure=partial(_measure, self._servers[one.name]),
            )
            for one in self._models
        }
        self._bandit = Bandit([one.name for one in self._models]) if ensemble == "bandit" else None
        self._chosen: dict[str, str] = {}
        """The model of each ticket, as far as a bandit has a say in it."""
        self._under_way: Counter[PolicyVersion] = Counter()
        self._left: set[PolicyVersion] = set()
        self._open: set[asyncio.Future[None]] = set()
        self._one_at_a_time = asyncio.Lock()
        self._temperatures = {(one.name, 1.0) for one in self._models}
        self._refusals = Refusals()
        self._is_closed = False

    @property
    def policy_version(self) -> int:
        """Number of the version that the last request was sampled from, or the next if there is none."""
        return self._version.number

    @property
    def retried(self) -> int:
        """Requests that were sent again because the server was busy, failing or silent."""
        return sum(client.retried for client in self._clients.values())

    async def check(self) -> None:
        """Ask each server whether it is there, takes the key and offers the model; nothing is sampled.

        Raises `ServerError` for one that cannot be reached, `ConfigError` for another address, a missing or
        refused key, and a model that is not among those it lists.
        """
        for one in self._models:
            await asyncio.to_thread(
                check_model, self._urls[one.name], one.name, one.key_variable, self._timeout_seconds
            )

    def learned(self, rollouts: Sequence[Rollout], gains: Sequence[float]) -> None:
        """Take note of what replies were worth; see `Learner.learned`."""
        if self._bandit is None:
            return
        for rollout, gain in zip(rollouts, gains, strict=True):
            name = rollout.model or self._models[0].name
            ids = rollout.token_ids
            tokens = len(rollout.text) // _CHARACTERS_PER_TOKEN if ids is None else len(ids)
            self._chosen[rollout.prompt_id] = name
            self._bandit.observe(name, gain, tokens)

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Return the sampled replies; see `Proposer.propose`.

        Where the server gives several choices a request, all replies of the ticket are sampled, also when
        only some are asked for, because that is what makes reply i the same. A prompt that the server will
        not answer, above all one that is too long for the model, comes back as empty replies whose finish
        reason is `refused: ...`, unless nothing was answered yet.

        Raises `ServerError` when the server keeps failing, answers outside the protocol, or refuses all;
        `PolicyError` for a version whose folder is gone and where no prompt fits the model's context;
        `BudgetError`, before anything is sent, when the run has used its tokens or its money.
        """
        check_ticket(prompt, indices)
        check_sampling(sampling, "openai")
        if self._is_closed:
            raise RuntimeError("this proposer is closed; make a new one")
        if not indices:
            return []
        version = self._version_to_use()
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.add(ended)
        self._under_way[version] += 1
        model = self._model_for(prompt, len(indices))
        sampling = Sampling(
            model.temperature or sampling.temperature, model.max_tokens or sampling.max_tokens
        )
        try:
            async with self._refusals.ticket():
                replies = await self._sample(model, version, prompt, indices, sampling)
        except BaseException:
            if self._bandit is not None:
                self._chosen.pop(prompt.id, None)
                self._bandit.give_up(model.name, len(indices))
            raise
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
                model=model.name if len(self._models) > 1 else "",
                **reply._asdict(),
            )
            for index, (reply, seconds) in zip(indices, replies, strict=True)
        ]

    async def aclose(self) -> None:
        """Wait for the requests on their way, then close the connections."""
        self._is_closed = True
        await asyncio.gather(*self._open)
        for client in self._clients.values():
            await client.aclose()

    def _model_for(self, prompt: Prompt, replies: int) -> ModelConfig:
        """Return the model of a ticket: the one that it went to before, or the chosen one."""
        if self._bandit is None:
            return self._models[pick_weighted([one.weight for one in self._models], prompt.seed)]
        name = self._chosen.get(prompt.id)
        if name not in self._clients:
            name = self._chosen[prompt.id] = self._bandit.choose(replies)
        return self._clients[name].model

    def _version_to_use(self) -> PolicyVersion:
        if self._follow is not None:
            version = self._follow()
            if version != self._version:
                served_name(version, self._models[0].name)  # raises if its folder is gone
                self._left.add(self._version)
                self._left.discard(version)
                self._version = version
        return self._version

    async def _unload_left(self) -> None:
        server = self._servers[self._models[0].name]
        for version in [left for left in self._left if not self._under_way[left]]:
            self._left.discard(version)
            with contextlib.suppress(ServerError, PolicyError):  # whoever publishes next tries again
                await asyncio.to_thread(server.unload, version)

    async def _sample(
        self,
        model: ModelConfig,
        version: PolicyVersion,
        prompt: Prompt,
        indices: Sequence[int],
        sampling: Sampling,
    ) -> list[tuple[Reply, float]]:
        """Return the wanted replies of a ticket, each with its share of the seconds, as `indices` say."""
        client = self._clients[model.name]
        form = Form(
            endpoint=choose_endpoint(self._endpoint, prompt.messages),
            messages=with_system(prompt.messages, model.system),
            n=prompt.rollouts,
            seed=prompt.seed,
            sampling=sampling,
        )
        load = partial(self._load, model, version) if is_adapter(version) else None
        ask: _Ask = partial(client.ask, served_name(version, model.name), ticket=Ticket(prompt), load=load)
        try:
            answer = await ask(form)
            if answer is not None:
                self._refusals.answered()
                await self._check_temperature(model, form, answer, ask)
                share = answer.seconds / len(answer.replies)
                return [(_usable(answer.replies[index], client), share) for index in indices]
        except RefusedError as refused:
            await self._refusals.accept(refused)
            return [(_refused(refused), 0.0)] * len(indices)
        return await self._sample_apart(client, form, ask, indices)

    async def _sample_apart(
        self, client: Client, form: Form, ask: _Ask, indices: Sequence[int]
    ) -> list[tuple[Reply, float]]:
        """Return the wanted replies, each from a request of its own."""

        async def one(index: int) -> tuple[Reply, float] | RefusedError:
            alone = replace(form, n=1, seed=_seed_of(form.seed, index))
            try:
                answer = await ask(alone)
                assert answer is not None, "a server gives one choice at least"
                await self._check_temperature(client.model, alone, answer, ask)
            except RefusedError as refused:
                return refused
            return _usable(answer.replies[0], client), answer.seconds

        tasks = [asyncio.create_task(one(index)) for index in indices]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        refusals = [reply for reply in found if isinstance(reply, RefusedError)]
        if len(refusals) == len(found):
            await self._refusals.accept(refusals[0])
        else:
            self._refusals.answered()
        return [(_refused(reply), 0.0) if isinstance(reply, RefusedError) else reply for reply in found]

    async def _load(self, model: ModelConfig, version: PolicyVersion) -> None:
        """Make the server offer an adapter, after comparing it with what was published."""
        server = self._servers[model.name]
        async with self._one_at_a_time:
            warm_up = read_warm_up(Path(version.path))
            if warm_up is None:
                await asyncio.to_thread(server.load, version)
            else:
                await asyncio.to_thread(load_and_compare, server, version, warm_up)

    async def _check_temperature(self, model: ModelConfig, form: Form, answer: Answer, ask: _Ask) -> None:
        """Raise `ConfigError` if log-probabilities are those of temperature 1 whatever is asked.

        A trainer would believe them. Asked once for every temperature but 1, where it makes no difference,
        and only of a server whose rows could be trained from.
        """
        temperature = form.sampling.temperature
        if (model.name, temperature) in self._temperatures or answer.replies[0].logprobs is None:
            return
        self._temperatures.add((model.name, temperature))
        cold, warm = [
            first_place(found.data, form.endpoint) if (found := await ask(_first_token(form, value))) else {}
            for value in (temperature, 1.0)
        ]
        shared = cold.keys() & warm.keys()
        if shared and all(abs(cold[token] - warm[token]) < 1e-3 for token in shared):
            self._temperatures.discard((model.name, temperature))
            raise ConfigError(
                f"the temperature is {temperature}, and {self._servers[model.name].address} gives "
                "log-probabilities of temperature 1, which training would take for those of the sampling; "
                "start vLLM with --logprobs-mode processed_logprobs, or set sampling.temperature=1"
            )


class _Ask(Protocol):
    """Sends one request of a ticket: `Client.ask` with the rest filled in."""

    def __call__(self, form: Form) -> Awaitable[Answer | None]: ...


def _measure(server: VLLMServer, name: str, form: Form) -> tuple[int, int] | None:
    """Return the tokens of a prompt and of the model's context, or none of a server that does not say."""
    chat = form.messages if form.endpoint == CHAT else None
    try:
        return server.measure(name, chat or "".join(message.content for message in form.messages))
    except ServerError:
        return None


def _first_token(form: Form, temperature: float) -> Form:
    return replace(form, n=1, seed=0, top=_TOP, sampling=Sampling(temperature, 1))


def _seed_of(seed: int, index: int) -> int:
    """Return the seed of reply `index` where each has a request of its own; 31 bits, as any server takes."""
    return int(content_id(str(seed), str(index)), 16) >> 33


def _usable(reply: Reply, client: Client) -> Reply:
    """Return the reply without log-probabilities that are not those of the plain softmax."""
    model = client.model
    is_plain = model.top_p == 1.0 and not model.extra_fields.keys() & PLAIN_SOFTMAX.keys()
    if not is_plain:
        client.say_once(
            "samples %s with top_p or other settings that leave tokens out; the search goes on, but nothing "
            "can be trained from its rows",
            model.name,
        )
    return reply if is_plain and client.shape.is_plain else reply._replace(logprobs=None)


def _refused(refused: RefusedError) -> Reply:
    return Reply("", f"{REFUSED}{refused.reason}", None, None, None)
