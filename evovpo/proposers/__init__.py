"""Proposers, which sample completions: `local` from a model folder, `openai` from a model server."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from evovpo.errors import ConfigError, SearchError
from evovpo.types import Prompt, Rollout, Sampling, content_id

REFUSED = "refused: "
"""Prefix of the finish reason of a reply that is empty because the server refused the prompt."""


class Proposer(Protocol):
    """An object that samples completions. Every class passes `tests/support/proposer_conformance.py`."""

    @property
    def policy_version(self) -> int:
        """Number of the policy version in use."""

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Return the replies to `prompt` that have the given indices, in the order of `indices`.

        `indices` are distinct and in `range(prompt.rollouts)`; a resumed run asks only for missing replies.
        A rollout has the id `rollout_id(prompt.id, index)` and, if the backend returns them, token ids and
        log-probabilities under `sampling`. Calls may run concurrently. If the backend allows it, reply i
        depends only on the policy, the prompt's text and seed, i, and `sampling`.

        Raises `SearchError` if an index is out of range, or if `prompt.has_model` is false: such a prompt
        already contains its programs. Raises `ConfigError` if the backend does not support `sampling`.
        """

    async def aclose(self) -> None:
        """Wait for running requests, then release all resources; closing twice is allowed."""


@runtime_checkable
class CheckedProposer(Protocol):
    """A proposer whose server or files can be checked before the run."""

    async def check(self) -> None:
        """Raise `ServerError` or `ConfigError` if requests cannot be sent. The check samples nothing."""


@runtime_checkable
class PatientProposer(Protocol):
    """A proposer that retries requests to failing servers."""

    @property
    def trouble(self) -> str:
        """Description of the servers' current problem, or an empty string."""


def rollout_id(prompt_id: str, index: int) -> str:
    """Return the id of reply `index` to a prompt; it does not depend on the sampled text."""
    return content_id(prompt_id, str(index))


def text_rollout(prompt: Prompt, index: int, text: str, sampling: Sampling) -> Rollout:
    """Return `text` as a rollout. It has no token ids or log-probabilities, so it cannot be trained on."""
    return Rollout(
        id=rollout_id(prompt.id, index),
        prompt_id=prompt.id,
        index=index,
        policy_version=0,
        text=text,
        token_ids=None,
        logprobs=None,
        prompt_token_ids=None,
        sampling=sampling,
        finish_reason="stop",
        seconds=0.0,
    )


def check_ticket(prompt: Prompt, indices: Sequence[int]) -> None:
    """Raise `SearchError` if `prompt.has_model` is false, or if `indices` repeat or are out of range."""
    known = range(prompt.rollouts)
    if not prompt.has_model or not set(indices) <= set(known) or len(set(indices)) < len(indices):
        raise SearchError(
            f"prompt {prompt.id} is a {prompt.kind} ticket with replies 0 to {prompt.rollouts - 1}, not "
            f"{list(indices)}; ask a model for distinct ones, and for none where proposals are given"
        )


def check_sampling(sampling: Sampling) -> None:
    """Raise `ConfigError` for sampling settings that no proposer supports, such as temperature 0."""
    if not sampling.temperature > 0:
        raise ConfigError(
            f"temperature is {sampling.temperature}; it must be above 0: log-probabilities of greedy "
            "sampling mean nothing to a trainer; use a small one such as 0.01 for nearly greedy replies"
        )
    if sampling.max_tokens < 1:
        raise ConfigError(f"max_tokens is {sampling.max_tokens}; a reply needs at least 1")
