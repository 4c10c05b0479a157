"""The sampling loop against the model's own logits, and what a reply may and may not depend on."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import CONFIGS, END_ID, VOCABULARY, tiny_model

from evovpo.errors import PolicyError
from evovpo.proposers.sampler import (
    Completion,
    SampleRequest,
    Weights,
    check_supported,
    draw,
    sample,
    uniforms,
)

NEVER: tuple[int, ...] = ()
"""No end token: replies run to their limit."""


@pytest.fixture(scope="module", params=sorted(CONFIGS))
def model(request: pytest.FixtureRequest) -> Any:
    return tiny_model(request.param)


def mixed_requests(count: int, seed: int = 0) -> list[SampleRequest]:
    """Requests with prompts, limits and temperatures of all sizes."""
    rng = random.Random(seed)
    return [
        SampleRequest(
            prompt_ids=tuple(rng.randrange(3, len(VOCABULARY)) for _ in range(rng.randint(1, 40))),
            seed=rng.randrange(-5, 2**70),
            indices=tuple(rng.sample(range(9), rng.randint(1, 4))),
            temperature=rng.choice([0.5, 1.0, 1.0, 1.7]),
            max_tokens=rng.randint(1, 30),
        )
        for _ in range(count)
    ]


def logits_at_reply(model: Any, request: SampleRequest, completion: Completion) -> torch.Tensor:
    """Return the scaled logits (T, V) that the model's own forward gives at each token of the reply."""
    ids = torch.tensor([request.prompt_ids + completion.token_ids])
    with torch.no_grad():
        logits = model(ids).logits[0, len(request.prompt_ids) - 1 : -1]
    return torch.div(logits, request.temperature)


def assert_same_reply(one: Completion, other: Completion) -> None:
    assert one.token_ids == other.token_ids
    assert one.is_stopped == other.is_stopped
    assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_logprobs_are_those_of_the_models_own_forward(model: Any) -> None:
    requests = mixed_requests(8)
    for request, completions in zip(requests, sample(Weights(model), requests, [END_ID]), strict=True):
        for completion in completions:
            expected = torch.log_softmax(logits_at_reply(model, request, completion), -1)
            expected = expected[torch.arange(len(completion.token_ids)), list(completion.token_ids)]
            assert completion.logprobs == pytest.approx(expected.tolist(), abs=1e-4)


def test_tokens_are_the_ones_that_the_uniform_numbers_choose_from_the_models_logits(model: Any) -> None:
    requests = mixed_requests(8)
    for request, completions in zip(requests, sample(Weights(model), requests, [END_ID]), strict=True):
        for index, completion in zip(request.indices, completions, strict=True):
            logits = logits_at_reply(model, request, completion).double()
            numbers = uniforms(request.seed, index, len(completion.token_ids))
            for token, row, number in zip(completion.token_ids, logits, numbers, strict=True):
                cumulative = np.cumsum(torch.softmax(row, -1).numpy())
                assert token == int((cumulative <= number).sum())


def test_a_reply_is_the_same_alone_and_in_a_batch(model: Any) -> None:
    weights = Weights(model)
    requests = mixed_requests(12)
    for request, completions in zip(requests, sample(weights, requests, [END_ID, 7]), strict=True):
        for index, completion in zip(request.indices, completions, strict=True):
            alone = request._replace(indices=(index,))
            assert_same_reply(sample(weights, [alone], [END_ID, 7])[0][0], completion)


def test_a_reply_ends_with_its_first_end_token() -> None:
    weights = Weights(tiny_model())
    free = SampleRequest((5, 6, 7), 1, tuple(range(8)), 1.0, 40)
    for whole, ended in zip(
        sample(weights, [free], NEVER)[0], sample(weights, [free], [9, 12])[0], strict=True
    ):
        ends = [t for t, token in enumerate(whole.token_ids) if token in (9, 12)]
        assert ended.is_stopped == bool(ends)
        assert ended.token_ids == whole.token_ids[: ends[0] + 1 if ends else 40]
        assert len(ended.logprobs) == len(ended.token_ids)


def test_draw_inverts_the_cumulative_distribution() -> None:
    probabilities = torch.tensor([0.5, 0.25, 0.0, 0.25])
    numbers = torch.tensor([0.0, 0.49, 0.5, 0.74, 0.75, 1 - 2**-24])
    tokens, logprobs = draw(probabilities.log().expand(6, 4), numbers)
    assert tokens.tolist() == [0, 0, 1, 1, 3, 3]
    assert logprobs.exp().tolist() == pytest.approx([0.5, 0.5, 0.25, 0.25, 0.25, 0.25])


def test_draw_never_takes_an_impossible_token_at_the_end() -> None:
    logits = torch.tensor([[0.3, -0.2, 0.7, -torch.inf, -torch.inf]]).expand(64, 5)
    tokens, logprobs = draw(logits, torch.full((64,), 1 - 2**-24))
    assert set(tokens.tolist()) == {2}
    assert bool(torch.isfinite(logprobs).all())


def test_uniform_numbers_do_not_depend_on_how_many_are_asked() -> None:
    assert uniforms(3, 1, 50)[:7].tolist() == uniforms(3, 1, 7).tolist()


def test_uniform_numbers_differ_between_seeds_and_between_indices() -> None:
    firsts = {float(uniforms(seed, index, 1)[0]) for seed in range(20) for index in range(20)}
    assert len(firsts) == 400


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("GPT2LMHeadModel", {}, "not from GPT2LMHeadModel"),
        ("LlamaForCausalLM", {"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ("LlamaForCausalLM", {"mlp_bias": True}, "mlp_bias"),
        ("LlamaForCausalLM", {"attention_bias": True}, "attention_bias"),
        ("Qwen2ForCausalLM", {"use_sliding_window": True}, "use_sliding_window"),
        ("LlamaForCausalLM", {"rope_parameters": {"rope_type": "dynamic"}}, "rope_type='dynamic'"),
    ],
)
def test_a_model_that_the_loop_does_not_compute_is_refused(
    name: str, options: dict[str, Any], complaint: str
) -> None:
    config = SimpleNamespace(**{"hidden_act": "silu", "rope_parameters": None, **options})
    with pytest.raises(PolicyError, match=complaint):
        check_supported(name, config)
