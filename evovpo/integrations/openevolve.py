"""A model client for OpenEvolve's `llm.init_client` hook: our logging, groups and chains in its runs.

Set on each model of its configuration, before its run starts:

    for model in config.llm.models:
        model.init_client = functools.partial(client, store_url="sqlite:///evovpo.db", rollouts=8)

Every call asks the OpenAI-compatible server for `rollouts` completions of `answers` answers each, hands
OpenEvolve the first answer that holds code, and stores all of them with prompt, token ids and
log-probabilities. `evovpo import-openevolve` joins them to what OpenEvolve's checkpoint says they were worth.
`docs/openevolve.md` says what is joined and what is lost.
"""

import asyncio
import dataclasses
import re
import threading
import uuid
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

from openevolve.llm.base import LLMInterface

from evovpo.config import Config, ModelConfig, ProposerConfig
from evovpo.prompts.replies import blocks, delimiter, split_answers
from evovpo.proposers.openai import OpenAIProposer
from evovpo.store import Store
from evovpo.types import (
    Call,
    Candidate,
    Judged,
    Message,
    Objective,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    Run,
    RunStatus,
    Sampling,
    Tell,
    content_id,
)

T = TypeVar("T")

CALLS = Problem(
    id="openevolve-calls",
    version="1",
    statement="Model calls of OpenEvolve, before they are joined to its checkpoint.",
    entry="",
    parameters=(),
    objectives=(Objective("combined_score"),),
    seeds=(Program(""),),
)
"""What the runs are of in which calls are logged; their answers are judged elsewhere."""
HANDED = "handed to OpenEvolve"
"""Why a candidate of such a run has no program: this one was given to OpenEvolve."""
_KEPT = "kept: OpenEvolve was handed another answer"
_EDIT = re.compile(r"^<{7} SEARCH\s*$", re.MULTILINE)


class LoggingClient(LLMInterface):  # type: ignore[misc]  # it has no types
    """Asks a server as OpenEvolve's own client does, and stores every call.

    The calls of one client are a run of their own in the store, because OpenEvolve has a client in each of
    its worker processes and a run has one writer.
    """

    def __init__(self, model_cfg: Any, store_url: str, rollouts: int, answers: int) -> None:
        self.model = str(model_cfg.name)
        """OpenEvolve reads this name for its log."""
        self.last_usage: dict[str, int] | None = None
        """OpenEvolve reads it after each call; tokens are counted in the store."""
        self._wanted = model_cfg
        self._seed = int(model_cfg.random_seed or 0)
        self._store_url = store_url
        self._rollouts = rollouts
        self._answers = answers
        self._run_id = uuid.uuid4().hex[:12]
        self._store: Store | None = None
        """Open from the first call on; a process that just ends loses nothing of it."""
        self._calls = 0
        self._told = 0
        self._sent: list[Call] = []
        """Requests of the call under way."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._proposer: OpenAIProposer | None = None

    async def generate(self, prompt: str, **kwargs: Any) -> str:
        """Return an answer to one message under the model's own system message."""
        messages = [{"role": "user", "content": prompt}]
        return await self.generate_with_context(self._wanted.system_message or "", messages, **kwargs)

    async def generate_with_context(
        self, system_message: str, messages: list[dict[str, str]], **kwargs: Any
    ) -> str:
        """Return the first answer that holds code, of all that were asked for.

        Raises `ServerError` when the server keeps failing, and `StoreError` if the call cannot be stored.
        """
        store = self._store = self._store or self._open_store()
        prompt = self._prompt(system_message, messages)
        store.add_prompt(prompt)
        self._calls += 1
        try:
            replies = await self._in_own_loop(self._propose(prompt))
        finally:
            for call in self._sent:
                store.add_call(call)
            self._sent.clear()
        texts = [slot_texts(reply.text, self._answers) for reply in replies]
        places = ((reply, slot, text) for reply, slots in enumerate(texts) for slot, text in enumerate(slots))
        chosen = next((place[:2] for place in places if _EDIT.search(place[2]) or blocks(place[2])), (0, 0))
        tells = [_tell(prompt, reply, texts[reply.index], chosen) for reply in replies]
        store.add_tells(self._run_id, tells, self._told)
        self._told += len(tells)
        return texts[chosen[0]][chosen[1]]

    async def aclose(self) -> None:
        """Close the connections; OpenEvolve, whose worker processes just end, never does."""
        if self._store is not None:
            self._store.close()
        if self._loop is None or self._thread is None or self._proposer is None:
            return
        await self._in_own_loop(self._proposer.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = self._proposer = None

    def _open_store(self) -> Store:
        """Return the store, with a run in it for the calls of this client."""
        store = Store.open(self._store_url, create=True)
        try:
            store.add_problem(CALLS)
            run = foreign_run(store, self._run_id, CALLS, datetime.now(UTC))
            store.add_run(dataclasses.replace(run, seed=self._seed, status=RunStatus.STOPPED))
        except BaseException:
            store.close()
            raise
        return store

    async def _in_own_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` gives in an event loop that outlives the call.

        OpenEvolve makes a loop for each call, and connections belong to a loop.
        """
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _propose(self, prompt: Prompt) -> list[Rollout]:
        if self._proposer is None:
            top_p = 1.0 if self._wanted.top_p is None else self._wanted.top_p
            settings = ProposerConfig(
                base_url=str(self._wanted.api_base),
                endpoint="chat",
                timeout_seconds=float(self._wanted.timeout or 60),
                attempts=int(self._wanted.retries or 0) + 1,
            )
            model = ModelConfig(name=self.model, top_p=top_p)
            self._proposer = OpenAIProposer(settings, models=(model,), record=self._sent.append)
        temperature = 1.0 if self._wanted.temperature is None else float(self._wanted.temperature)
        sampling = Sampling(temperature, int(self._wanted.max_tokens or 4096))
        return await self._proposer.propose(prompt, range(self._rollouts), sampling)

    def _prompt(self, system_message: str, messages: list[dict[str, str]]) -> Prompt:
        asked = [Message("system", system_message)] if system_message else []
        asked += [Message(message["role"], message["content"]) for message in messages]
        if self._answers > 1:
            asked[-1] = dataclasses.replace(
                asked[-1],
                content=f"{asked[-1].content}\n\nGive {self._answers} different answers, each complete in "
                f"itself. Write a line before each of them: `{delimiter(1)}` and `{delimiter(2)}`, and "
                "so on.",
            )
        return Prompt(
            id=content_id(self._run_id, str(self._calls)),
            run_id=self._run_id,
            sequence=self._calls,
            tells_before=self._told,
            kind=PromptKind.ROOT,
            messages=tuple(asked),
            rollouts=self._rollouts,
            answers=self._answers,
            seed=self._seed + self._calls,
        )


def client(
    model_cfg: Any, *, store_url: str = "sqlite:///evovpo.db", rollouts: int = 1, answers: int = 1
) -> LoggingClient:
    """Return a client for one model of OpenEvolve's configuration, as its `init_client` hook wants.

    Its address, name, temperature, top_p, token limit, timeout and retries are used; the key of the server is
    in `OPENAI_API_KEY`. A function of this module, so that it crosses OpenEvolve's process pool by name.
    """
    return LoggingClient(model_cfg, store_url, rollouts, answers)


def foreign_run(
    store: Store, run_id: str, problem: Problem, began: datetime, islands: int = 1, evaluations: int = 1
) -> Run:
    """Return the row of a run that was searched elsewhere."""
    config = Config().changed(
        search={"islands": islands, "evaluations": evaluations},
        proposer={"name": "imported"},
        store={"url": store.name},
    )
    return Run(
        id=run_id,
        problem_id=problem.id,
        problem_version=problem.version,
        seed=0,
        evaluations=evaluations,
        config_json=config.to_json(),
        status=RunStatus.RUNNING,
        created_at=began.isoformat(timespec="seconds"),
    )


def slot_texts(text: str, answers: int) -> list[str]:
    """Return the answers of a completion, as many as were asked for; one is the whole text."""
    found = [text] if answers == 1 else split_answers(text, answers)
    return found + [""] * (answers - len(found))


def _tell(prompt: Prompt, reply: Rollout, texts: list[str], chosen: tuple[int, int]) -> Tell:
    judged = [
        Judged(
            Candidate(
                id=content_id(reply.id, str(slot)),
                prompt_id=prompt.id,
                rollout_id=reply.id,
                slot=slot,
                parse_status=ParseStatus.UNPARSED,
                text=text,
                reason=HANDED if (reply.index, slot) == chosen else _KEPT,
            ),
            None,
            False,
        )
        for slot, text in enumerate(texts)
    ]
    return Tell(prompt.id, reply, tuple(judged))
