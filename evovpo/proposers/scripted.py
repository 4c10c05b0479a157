"""A proposer that replies from given texts: for tests, demonstrations and golden runs."""

from collections.abc import Callable, Iterable, Sequence

from evovpo.errors import PolicyError
from evovpo.proposers import check_ticket, rollout_id
from evovpo.types import Prompt, Rollout, Sampling


class ScriptedProposer:
    """Replies with the texts of a script.

    A function `(prompt, index) -> text` makes a proposer without memory. Texts make a queue: the first
    request for a ticket takes `prompt.rollouts` of them, reply i is the i-th of these, and asking again
    gives the same replies; `PolicyError` is raised when the queue cannot fill a ticket.

    Rollouts have no tokens, unless `logprob` is given: then every character is a token (its id is its code
    point) of that log-probability.
    """

    def __init__(
        self,
        script: Iterable[str] | Callable[[Prompt, int], str],
        *,
        policy_version: int = 0,
        logprob: float | None = None,
    ) -> None:
        self._reply = script if callable(script) else _Queue(script)
        self._policy_version = policy_version
        self._logprob = logprob

    @property
    def policy_version(self) -> int:
        """The number given at construction."""
        return self._policy_version

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Return the scripted replies; see `Proposer.propose`."""
        check_ticket(prompt, indices)
        return [self._rollout(prompt, index, sampling) for index in indices]

    async def aclose(self) -> None:
        """Do nothing: nothing is held."""

    def _rollout(self, prompt: Prompt, index: int, sampling: Sampling) -> Rollout:
        text = self._reply(prompt, index)
        prompt_text = "".join(message.content for message in prompt.messages)
        has_tokens = self._logprob is not None
        return Rollout(
            id=rollout_id(prompt.id, index),
            prompt_id=prompt.id,
            index=index,
            policy_version=self._policy_version,
            text=text,
            token_ids=tuple(map(ord, text)) if has_tokens else None,
            logprobs=None if self._logprob is None else (self._logprob,) * len(text),
            prompt_token_ids=tuple(map(ord, prompt_text)) if has_tokens else None,
            sampling=sampling,
            finish_reason="stop",
            seconds=0.0,
        )


class _Queue:
    """Deals texts to tickets in the order in which the tickets are first seen."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = iter(texts)
        self._dealt: dict[str, list[str]] = {}

    def __call__(self, prompt: Prompt, index: int) -> str:
        if prompt.id not in self._dealt:
            texts = [text for _, text in zip(range(prompt.rollouts), self._texts, strict=False)]
            if len(texts) < prompt.rollouts:
                raise PolicyError(
                    f"the script has {len(texts)} texts left and prompt {prompt.id} (number "
                    f"{prompt.sequence}) asks for {prompt.rollouts}; give the scripted proposer more texts"
                )
            self._dealt[prompt.id] = texts
        return self._dealt[prompt.id][index]
