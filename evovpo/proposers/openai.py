"""A proposer that samples from one or several models on OpenAI-compatible servers, mainly vLLM.

The server tokenizes prompts. The returned token ids and log-probabilities are stored unchanged.

One request, with the prompt's seed, asks for all replies to a prompt. vLLM reproduces the replies up to
rounding; other servers may ignore the seed. If a server gives only one choice per request, there is a request
for each reply, with a seed derived from the prompt's seed and the reply's index. See `docs/servers.md`.
"""

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from evovpo.config import BudgetConfig, ModelConfig, ProposerConfig
from evovpo.errors import ConfigError, PolicyError, ServerError
from evovpo.proposers import REFUSED, check_sampling, check_ticket, text_rollout
from evovpo.proposers.endpoints import CHAT, COMPLETIONS, Form, ServerReply
from evovpo.proposers.fetch import check_model
from evovpo.proposers.interruptible import in_thread
from evovpo.proposers.limits import Budget, Gate, PendingPrompt, Refusals, RefusedError, Spending
from evovpo.proposers.policy_folders import is_adapter, read_warm_up, served_name
from evovpo.proposers.policy_server import load_and_compare
from evovpo.proposers.prices import with_price
from evovpo.proposers.retrying_client import Client
from evovpo.types import Call, Message, PolicyVersion, Prompt, Rollout, Sampling, content_id

_log = logging.getLogger(__name__)


class OpenAIProposer:
    """A proposer that samples from the server at `settings.base_url`, or from `models`.

    If there are several `models`, one is drawn for each prompt. `version` is the policy to sample from
    (default: version 0, the server's own weights). `follow`, if given, is called for every prompt and returns
    the version to use. `version` and `follow` can be used only with a single model. `record` is called for
    every request. `spent_before` returns the stored spending of a run. Warnings in `said` are not repeated.
    """

    def __init__(
        self,
        settings: ProposerConfig,
        *,
        models: Sequence[ModelConfig] = (),
        version: PolicyVersion | None = None,
        follow: Callable[[], PolicyVersion] | None = None,
        wait_seconds: float = 0.5,
        budget: BudgetConfig = BudgetConfig(),  # noqa: B008  # frozen
        record: Callable[[Call], None] = lambda call: None,
        spent_before: Callable[[str], Spending] = lambda run_id: Spending(),
        said: set[str] | None = None,
    ) -> None:
        named = tuple(models) or (ModelConfig(name=settings.model or ""),)
        self._models = tuple(with_price(one, one.base_url or settings.base_url or "") for one in named)
        if budget.money and not any(one.price for one in self._models):
            raise ConfigError(
                f"budget.money is {budget.money:g} and no model has a price; set models.price in a file: "
                "under [[models]] (of a batch [[settings.models]]), price = [A, B] of a million tokens of "
                "prompts and replies"
            )
        free = ", ".join(one.name for one in self._models if budget.money and not one.price)
        if free:
            _log.warning("no price is known for %s: it counts as free in budget.money", free)
        if len(self._models) > 1 and (version is not None or follow is not None):
            raise PolicyError(
                f"policy versions are of one model, and there are {len(self._models)}; set "
                "proposer.policy=start, or leave one of [[models]]"
            )
        gate = Gate(settings, Budget(budget, spent_before))
        said = set() if said is None else said
        self._clients = {
            one.name: Client(one, settings, gate, wait_seconds, record, said) for one in self._models
        }
        self._settings = settings
        self._version = version or PolicyVersion(0, None, self._models[0].name)
        self._follow = follow
        self._under_way: Counter[PolicyVersion] = Counter()
        self._left: set[PolicyVersion] = set()
        self._open: set[asyncio.Future[None]] = set()
        self._one_at_a_time = asyncio.Lock()
        self._refusals = Refusals()
        self._is_closed = False

    @property
    def policy_version(self) -> int:
        """Number of the version used for the latest prompt, or of the initial version before any prompt."""
        return self._version.number

    @property
    def trouble(self) -> str:
        return "; ".join(filter(None, (client.trouble for client in self._clients.values())))

    async def check(self) -> None:
        """Call `check_model` for each server; nothing is sampled. Raises the errors of `check_model`."""
        for client in self._clients.values():
            model, seconds = client.model, self._settings.timeout_seconds
            named = (client.base_url, model.name, model.key_variable, seconds)
            client.is_unlisted = not await in_thread(check_model, *named)

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Return the sampled replies; see `Proposer.propose`.

        If the server gives several choices per request, all replies to the prompt are sampled, even if only
        some are wanted. Thus, reply i does not depend on `indices`. If the server refuses a prompt, usually
        because the prompt is too long, the replies are empty, with the finish reason `refused: ...`.

        Raises `ServerError` if the server keeps failing, violates the protocol or refuses every prompt.
        Raises `PolicyError` if no prompt fits the model's context or a version's folder is gone. Raises
        `BudgetError` before anything is sent if the run has used up its tokens or money.
        """
        check_ticket(prompt, indices)
        check_sampling(sampling)
        if self._is_closed:
            raise RuntimeError("this proposer is closed; make a new one")
        if not indices:
            return []
        version = self._version_to_use()
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.add(ended)
        self._under_way[version] += 1
        weights = [model.weight for model in self._models]
        model = random.Random(f"model {prompt.seed}").choices(self._models, weights)[0]
        own = Sampling(model.temperature or sampling.temperature, model.max_tokens or sampling.max_tokens)
        try:
            replies = await self._sample(model, version, prompt, indices, own)
        finally:
            self._under_way[version] -= 1
            self._open.discard(ended)
            ended.set_result(None)
        await self._unload_left()
        return [
            replace(
                text_rollout(prompt, index, reply.text, own),
                policy_version=version.number,
                seconds=seconds,
                model=model.name if len(self._models) > 1 else "",
                **reply._asdict(),
            )
            for index, (reply, seconds) in zip(indices, replies, strict=True)
        ]

    async def aclose(self) -> None:
        self._is_closed = True
        await asyncio.gather(*self._open)
        for client in self._clients.values():
            await client.aclose()

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
        server = self._clients[self._models[0].name].server
        for version in [left for left in self._left if not self._under_way[left]]:
            self._left.discard(version)
            with contextlib.suppress(ServerError, PolicyError):  # the next publication tries again
                await asyncio.to_thread(server.unload, version)

    async def _sample(
        self,
        model: ModelConfig,
        version: PolicyVersion,
        prompt: Prompt,
        indices: Sequence[int],
        sampling: Sampling,
    ) -> list[tuple[ServerReply, float]]:
        messages = prompt.messages
        endpoint: str = self._settings.endpoint
        if endpoint == "auto":
            # Only formats for instruction models write a system message; the built-in models were trained on
            # plain text and have no chat template.
            endpoint = CHAT if any(message.role == "system" for message in messages) else COMPLETIONS
        if model.system:
            others = (message for message in messages if message.role != "system")
            messages = (Message("system", model.system), *others)
        form = Form(endpoint, messages, prompt.rollouts, prompt.seed, sampling)
        client = self._clients[model.name]
        load = partial(self._load, client, version) if is_adapter(version) else None
        ticket = PendingPrompt(prompt, served_name(version, model.name), load)
        try:
            if answer := await client.ask(form, ticket):
                self._refusals.answered()
                replies, seconds = answer
                return [(replies[index], seconds) for index in indices]
        except RefusedError as refused:
            self._refusals.accept(refused)
            return [_refused(refused)] * len(indices)
        return await self._sample_apart(client, form, ticket, indices)

    async def _sample_apart(
        self, client: Client, form: Form, ticket: PendingPrompt, indices: Sequence[int]
    ) -> list[tuple[ServerReply, float]]:
        refusals: list[RefusedError] = []

        async def one(index: int) -> tuple[ServerReply, float]:
            # A separate seed of 31 bits, which every server accepts.
            seed = int(content_id(str(form.seed), str(index)), 16) >> 33
            try:
                answer = await client.ask(replace(form, n=1, seed=seed), ticket)
            except RefusedError as refused:
                refusals.append(refused)
                return _refused(refused)
            assert answer is not None, "a server gives one choice at least"
            return answer[0][0], answer[1]

        tasks = [asyncio.create_task(one(index)) for index in indices]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if len(refusals) == len(found):
            self._refusals.accept(refusals[0])
        else:
            self._refusals.answered()
        return found

    async def _load(self, client: Client, version: PolicyVersion) -> None:
        async with self._one_at_a_time:
            warm_up = read_warm_up(Path(version.path))
            if warm_up is None:
                await asyncio.to_thread(client.server.load, version)
            else:
                await asyncio.to_thread(load_and_compare, client.server, version, warm_up)


def _refused(refused: RefusedError) -> tuple[ServerReply, float]:
    return ServerReply("", f"{REFUSED}{refused.reason}"), 0.0
