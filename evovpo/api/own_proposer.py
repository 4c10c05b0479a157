"""A proposer that calls a user's function."""

import asyncio
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evovpo.errors import ConfigError, ProposerError
from evovpo.proposers import check_ticket, text_rollout
from evovpo.proposers.interruptible import in_thread
from evovpo.types import Prompt, Rollout, Sampling

Proposing = Callable[[list[dict[str, str]], int], "Sequence[str] | Awaitable[Sequence[str]]"]
"""A function (messages, n) -> n texts, sync or async. A message has `role` and `content`, as in chat APIs."""


def proposer_of(function: Any) -> "FunctionProposer | None":
    if function is not None and not callable(function):
        said = "give one, or base_url= and model= for a model behind a server"
        raise ConfigError(f"proposer: expected a function of (messages, n), found {function!r:.70}; {said}")
    return None if function is None else FunctionProposer(function)


@dataclass(frozen=True)
class FunctionProposer:
    """A proposer that calls a user's function. Its replies have no token ids, so training cannot use them."""

    function: Proposing
    policy_version: int = 0

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Return one rollout for each index.

        Raises `ConfigError` if the number of texts is wrong, and `ProposerError` if the function raises.
        """
        check_ticket(prompt, indices)
        messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
        try:
            texts = await in_thread(self.function, messages, len(indices))
            if inspect.isawaitable(texts):
                waiting = asyncio.run_coroutine_threadsafe(_awaited(texts), _shared_loop())
                texts, raised = await asyncio.wrap_future(waiting)
                if raised is not None:
                    raise raised
        except Exception as error:
            trace, before = error.__traceback__, ("asyncio", "concurrent", "evovpo")
            while trace and trace.tb_frame.f_globals["__name__"].startswith(before):
                trace = trace.tb_next
            hint = " (make async clients inside the function)" * ("event loop" in str(error))
            raise ProposerError(
                f"proposer: expected texts, but it raised {type(error).__name__}: {error!s:.200}; correct "
                f"it{hint}, then continue run {prompt.run_id} with evovpo.resume and the same store"
            ) from error.with_traceback(trace)
        return make_rollouts(prompt, indices, texts, sampling)

    async def aclose(self) -> None:
        """Do nothing: there are no resources to release."""


async def _awaited(texts: Awaitable[Sequence[str]]) -> tuple[Any, Exception | None]:
    try:
        return await texts, None
    except Exception as error:  # asyncio may replace it
        return None, error


@functools.cache
def _shared_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop for all runs: an async client, once used, belongs to its event loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def make_rollouts(prompt: Prompt, indices: Sequence[int], texts: Any, sampling: Sampling) -> list[Rollout]:
    """Return a rollout for each index and text. Raises `ConfigError` if a text is missing or invalid."""
    is_listed = isinstance(texts, list | tuple) and len(texts) == len(indices)
    if not (is_listed and all(isinstance(text, str) for text in texts)):
        raise ConfigError(
            f"replies to prompt {prompt.id}: expected a list of {len(indices)} texts, found {texts!r:.80}; "
            "return one text for each completion that is asked for"
        )
    return [text_rollout(prompt, index, text, sampling) for index, text in zip(indices, texts, strict=True)]
