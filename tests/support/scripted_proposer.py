"""A proposer that replies with given texts."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from evovpo.errors import PolicyError
from evovpo.proposers import check_ticket, text_rollout
from evovpo.types import Prompt, Rollout, Sampling


class ScriptedProposer:
    """A proposer that replies with the texts of a script.

    The script is a function `(prompt, index) -> text` or a sequence of texts. From a sequence, each new
    prompt gets the next `prompt.rollouts` texts; `propose` raises `PolicyError` if too few are left. With
    `logprob`, every character is a token with this log-probability and its code point as id.
    """

    def __init__(
        self,
        script: Iterable[str] | Callable[[Prompt, int], str],
        *,
        policy_version: int = 0,
        logprob: float | None = None,
    ) -> None:
        self.policy_version = policy_version
        self._reply = script if callable(script) else _queue(script)
        self._logprob = logprob

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        check_ticket(prompt, indices)
        return [self._rollout(prompt, index, sampling) for index in indices]

    async def aclose(self) -> None:
        """Do nothing: there are no resources to release."""

    def _rollout(self, prompt: Prompt, index: int, sampling: Sampling) -> Rollout:
        text = self._reply(prompt, index)
        plain = replace(text_rollout(prompt, index, text, sampling), policy_version=self.policy_version)
        if self._logprob is None:
            return plain
        asked = tuple(ord(character) for message in prompt.messages for character in message.content)
        ids, logprobs = tuple(map(ord, text)), (self._logprob,) * len(text)
        return replace(plain, token_ids=ids, logprobs=logprobs, prompt_token_ids=asked)


def _queue(script: Iterable[str]) -> Callable[[Prompt, int], str]:
    left = iter(script)
    dealt: dict[str, list[str]] = {}

    def reply(prompt: Prompt, index: int) -> str:
        if prompt.id not in dealt:
            texts = list(itertools.islice(left, prompt.rollouts))
            if len(texts) < prompt.rollouts:
                raise PolicyError(
                    f"the script has {len(texts)} texts left and prompt {prompt.id} (number "
                    f"{prompt.sequence}) asks for {prompt.rollouts}; give the scripted proposer more texts"
                )
            dealt[prompt.id] = texts
        return dealt[prompt.id][index]

    return reply
