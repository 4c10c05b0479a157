"""What every proposer must do, whatever writes its completions.

The tests run over the fixture `make_proposer`: a function that returns a new proposer of the same policy.
`tests/contract/test_proposers.py` imports everything here and names the backends.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import pytest

from evovpo.errors import SearchError
from evovpo.proposers import Proposer
from evovpo.types import Message, Prompt, PromptKind, Rollout, Sampling, content_id

MakeProposer: TypeAlias = Callable[[], Proposer]
SAMPLING = Sampling(temperature=1.0, max_tokens=24)

T = TypeVar("T")


def make_prompt(
    sequence: int = 0, *, text: str = "write f(x)\n", rollouts: int = 4, seed: int = 11
) -> Prompt:
    return Prompt(
        id=f"prompt{sequence}",
        run_id="run",
        sequence=sequence,
        tells_before=0,
        kind=PromptKind.ROOT,
        island=0,
        parents=(),
        messages=(Message("system", "a "), Message("user", text)),
        rollouts=rollouts,
        answers=1,
        seed=seed + sequence,
    )


def run_with(make_proposer: MakeProposer, use: Callable[[Proposer], Coroutine[Any, Any, T]]) -> T:
    """Return what `use` returns for a new proposer, which is closed afterwards."""

    async def main() -> T:
        proposer = make_proposer()
        try:
            return await use(proposer)
        finally:
            await proposer.aclose()

    return asyncio.run(main())


def replies(
    make_proposer: MakeProposer, prompt: Prompt, indices: Sequence[int], sampling: Sampling = SAMPLING
) -> list[Rollout]:
    return run_with(make_proposer, lambda proposer: proposer.propose(prompt, indices, sampling))


def content(rollout: Rollout) -> tuple[object, ...]:
    """Return what is reproducible of a rollout: not seconds, nor the last bits of log-probabilities."""
    return rollout.id, rollout.index, rollout.text, rollout.token_ids, rollout.finish_reason


def test_rollouts_carry_the_identity_of_their_ticket(make_proposer: MakeProposer) -> None:
    prompt = make_prompt()
    for index, rollout in enumerate(replies(make_proposer, prompt, range(4))):
        assert rollout.id == content_id(prompt.id, str(index))
        assert (rollout.prompt_id, rollout.index) == (prompt.id, index)
        assert rollout.sampling == SAMPLING


def test_rollouts_carry_the_served_policy_version(make_proposer: MakeProposer) -> None:
    async def use(proposer: Proposer) -> tuple[int, list[Rollout]]:
        return proposer.policy_version, await proposer.propose(make_prompt(), range(2), SAMPLING)

    version, rollouts = run_with(make_proposer, use)
    assert [rollout.policy_version for rollout in rollouts] == [version, version]


def test_rollouts_come_in_the_order_of_the_indices(make_proposer: MakeProposer) -> None:
    rollouts = replies(make_proposer, make_prompt(), [3, 0, 2])
    assert [rollout.index for rollout in rollouts] == [3, 0, 2]


def test_no_indices_give_no_rollouts(make_proposer: MakeProposer) -> None:
    assert replies(make_proposer, make_prompt(), []) == []


def test_a_subset_of_the_indices_gives_the_same_replies(make_proposer: MakeProposer) -> None:
    whole = replies(make_proposer, make_prompt(), range(4))
    part = replies(make_proposer, make_prompt(), [1, 3])
    assert [content(rollout) for rollout in part] == [content(whole[1]), content(whole[3])]


def test_asking_again_gives_the_same_replies(make_proposer: MakeProposer) -> None:
    async def use(proposer: Proposer) -> tuple[list[Rollout], list[Rollout]]:
        prompt = make_prompt()
        return (
            await proposer.propose(prompt, range(4), SAMPLING),
            await proposer.propose(prompt, range(4), SAMPLING),
        )

    first, second = run_with(make_proposer, use)
    assert [content(rollout) for rollout in first] == [content(rollout) for rollout in second]


def test_requests_at_the_same_time_get_the_replies_of_requests_in_turn(make_proposer: MakeProposer) -> None:
    prompts = [make_prompt(i, text="write f(x)\n" * (i + 1)) for i in range(5)]

    async def together(proposer: Proposer) -> list[list[Rollout]]:
        return await asyncio.gather(*(proposer.propose(prompt, range(4), SAMPLING) for prompt in prompts))

    async def in_turn(proposer: Proposer) -> list[list[Rollout]]:
        return [await proposer.propose(prompt, range(4), SAMPLING) for prompt in prompts]

    for one, other in zip(run_with(make_proposer, together), run_with(make_proposer, in_turn), strict=True):
        assert [content(rollout) for rollout in one] == [content(rollout) for rollout in other]


def test_replies_of_a_ticket_differ(make_proposer: MakeProposer) -> None:
    assert len({rollout.text for rollout in replies(make_proposer, make_prompt(), range(4))}) > 1


def test_logprobs_match_the_tokens_one_to_one(make_proposer: MakeProposer) -> None:
    for rollout in replies(make_proposer, make_prompt(), range(4)):
        if rollout.logprobs is not None:
            assert rollout.token_ids is not None
            assert len(rollout.logprobs) == len(rollout.token_ids)
            assert all(logprob <= 0 for logprob in rollout.logprobs)


def test_rollouts_with_tokens_have_the_tokens_of_the_prompt(make_proposer: MakeProposer) -> None:
    for rollout in replies(make_proposer, make_prompt(), range(4)):
        assert bool(rollout.prompt_token_ids) == (rollout.token_ids is not None)


@pytest.mark.parametrize("indices", [[4], [-1], [0, 0]])
def test_indices_outside_the_ticket_or_repeated_are_refused(
    make_proposer: MakeProposer, indices: list[int]
) -> None:
    with pytest.raises(SearchError, match="prompt0"):
        replies(make_proposer, make_prompt(), indices)


@pytest.mark.parametrize("kind", [PromptKind.JOIN, PromptKind.SEED])
def test_a_ticket_that_carries_its_programs_is_refused(make_proposer: MakeProposer, kind: PromptKind) -> None:
    with pytest.raises(SearchError, match=str(kind)):
        replies(make_proposer, replace(make_prompt(), kind=kind, messages=()), [0])


def test_closing_twice_is_allowed(make_proposer: MakeProposer) -> None:
    run_with(make_proposer, lambda proposer: proposer.aclose())
