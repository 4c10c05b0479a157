"""Proposers write completions; the `Proposer` protocol is shared by local models and servers.

`scripted` replies from given texts, `local` samples from a model folder, `openai` asks a server. Importing
this package loads no torch; importing `evovpo.proposers.local` does.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from evovpo.errors import ConfigError, SearchError
from evovpo.types import Prompt, Rollout, Sampling, content_id

REFUSED = "refused: "
"""Begins the finish reason of an empty reply where a server would not take the prompt; why follows."""


class Proposer(Protocol):
    """Samples completions for tickets. Every implementation passes
    `tests/support/proposer_conformance.py`."""

    @property
    def policy_version(self) -> int:
        """Number of the policy version that the next request is sampled from."""

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Return the replies of `prompt` with the given numbers, in the order of `indices`.

        `indices` are distinct and in `range(prompt.rollouts)`: normally all of them, after a crash those that
        are missing. Each rollout carries the policy version that wrote it, the id `rollout_id(prompt.id,
        index)`, and its token ids and log-probabilities under `sampling` where the backend gives them. Calls
        may run at the same time. A proposer that samples makes reply i a function of the policy, the prompt's
        text and seed, i and `sampling`; one whose server cannot promise that says so.

        Raises `SearchError` for indices outside the ticket and for a join ticket, which has no prompt;
        `ConfigError` for sampling settings that the backend does not have.
        """

    async def aclose(self) -> None:
        """Let running requests end, then release what the proposer holds; closing twice is allowed."""


@runtime_checkable
class CheckedProposer(Protocol):
    """A proposer whose server or files can be checked before the run."""

    async def check(self) -> None:
        """Return if requests can be sent; raises `ServerError` or `ConfigError`, and spends nothing."""


@runtime_checkable
class PatientProposer(Protocol):
    """A proposer that waits for failing servers."""

    @property
    def trouble(self) -> str:
        """What is wrong with them, for people; empty if nothing is."""


def rollout_id(prompt_id: str, index: int) -> str:
    """Return the id of reply number `index` to a prompt: the same whenever and by whom it is sampled."""
    return content_id(prompt_id, str(index))


def text_rollout(prompt: Prompt, index: int, text: str, sampling: Sampling) -> Rollout:
    """Return a reply of which nothing but the text is known: nothing can be trained from it."""
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
    """Raise `SearchError` unless `indices` are distinct reply numbers of a ticket that a model answers."""
    known = range(prompt.rollouts)
    if not prompt.has_model or not set(indices) <= set(known) or len(set(indices)) < len(indices):
        raise SearchError(
            f"prompt {prompt.id} is a {prompt.kind} ticket with replies 0 to {prompt.rollouts - 1}, not "
            f"{list(indices)}; ask a model for distinct ones, and for none where proposals are given"
        )


def check_sampling(sampling: Sampling) -> None:
    """Raise `ConfigError` for sampling that no proposer does, or log-probabilities of which mean nothing."""
    if not sampling.temperature > 0:
        raise ConfigError(
            f"temperature is {sampling.temperature}; it must be above 0: log-probabilities of greedy "
            "sampling mean nothing to a trainer; use a small one such as 0.01 for nearly greedy replies"
        )
    if sampling.max_tokens < 1:
        raise ConfigError(f"max_tokens is {sampling.max_tokens}; a reply needs at least 1")
