"""Updates on given rollouts, against a slow version: a plain forward pass each, formulas written anew."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny_model, with_adapter

import trainer.learning.packing
from evovpo.errors import DivergedError
from trainer.learning.packing import TrainingRow, collate, pack
from trainer.learning.policy_update import (
    Updater,
    UpdateSettings,
    completion_logits,
    token_logprobs,
)

Groups = list[list[TrainingRow]]


def rollouts(seed: int = 0, noise: float = 0.3, model: Any = None) -> Groups:
    """Return three groups of rollouts whose behaviour policy is near `model`, with advantages per token."""
    model = tiny_model() if model is None else model
    rng = np.random.default_rng(seed)
    groups = []
    for prompt_length, lengths in ((5, (4, 9, 1)), (11, (7, 3)), (2, (6, 6, 2, 5))):
        prompt = tuple(rng.integers(3, 40, prompt_length).tolist())
        rows = []
        for length in lengths:
            ids = tuple(rng.integers(2, 40, length).tolist())
            row = TrainingRow(prompt, ids, (0.0,) * length, rng.normal(size=length))
            exact = token_logprobs(model, [row])[0].numpy()
            behaviour = (exact + noise * rng.normal(size=length)).tolist()
            rows.append(row._replace(logprobs=tuple(behaviour)))
        groups.append(rows)
    return groups


def plain_distribution(model: Any, row: TrainingRow, temperature: float = 1.0) -> torch.Tensor:
    """Return the log-distribution (T, V) of every completion token by an ordinary forward pass."""
    ids = torch.tensor([row.prompt_ids + row.completion_ids])
    logits = model(ids, use_cache=False).logits[0, len(row.prompt_ids) - 1 : -1]
    return torch.log_softmax(logits / temperature, -1)


def slow_loss(model: Any, groups: Groups, settings: UpdateSettings, reference: Any) -> torch.Tensor:
    """Return the loss of a step, token by token."""
    total, tokens = torch.zeros(()), 0
    for row in (row for group in groups for row in group):
        distribution = plain_distribution(model, row, settings.temperature)
        with torch.no_grad():
            held = plain_distribution(reference, row, settings.temperature)
        for t, token in enumerate(row.completion_ids):
            logprob, advantage = distribution[t, token], float(row.advantages[t])
            ratio = torch.exp(logprob - row.logprobs[t])
            cut = ratio.clamp(1 - settings.clip, 1 + settings.clip)
            gain = torch.minimum(ratio * advantage, cut * advantage)
            if advantage < 0 and gain.item() < 3 * advantage:
                gain = torch.tensor(3 * advantage)
            difference = held[t, token] - logprob
            kl = torch.exp(difference) - difference - 1
            total = total - gain + settings.kl * kl
            tokens += 1
    return total / tokens


def gradients(model: Any) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def gradient_of_update(model: Any, groups: Groups, settings: UpdateSettings, reference: Any) -> torch.Tensor:
    """Return the gradient that one update leaves behind, before it was shortened."""
    Updater(model, settings, reference).update(groups)
    return gradients(model)


SETTINGS = {
    "clip": UpdateSettings(kl=0.0),
    "kl": UpdateSettings(kl=0.7),
    "tight clip": UpdateSettings(kl=0.1, clip=0.05),
    "temperature": UpdateSettings(kl=0.2, temperature=0.7),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_loss_and_gradient_equal_the_slow_version(name: str) -> None:
    settings = SETTINGS[name]
    groups, reference = rollouts(noise=0.8), tiny_model(seed=1)
    slow = tiny_model()
    wanted = slow_loss(slow, groups, settings, reference)
    wanted.backward()
    model = tiny_model()
    settings = settings.changed(max_grad_norm=1e9)
    figures = Updater(model, settings, reference).update(groups)
    assert figures["loss"] == pytest.approx(wanted.item(), abs=1e-5)
    assert torch.allclose(gradients(model), gradients(slow), atol=2e-6)
    assert figures["grad_norm"] == pytest.approx(float(gradients(slow).norm()), rel=1e-4)


@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_packed_logits_are_those_of_plain_forward_passes(name: str) -> None:
    model = tiny_model(name)
    groups = rollouts(model=model)
    batch = collate(pack(groups))
    found = torch.log_softmax(completion_logits(model, batch), -1)
    wanted = torch.cat([plain_distribution(model, row) for group in groups for row in group])
    assert torch.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(("packed", "at_once"), [(1, 1), (20, 64), (512, 1)])
def test_how_rows_are_packed_changes_no_gradient(
    packed: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, reference = UpdateSettings(kl=0.1), tiny_model(seed=1)
    wanted = gradient_of_update(tiny_model(), rollouts(), settings, reference)
    monkeypatch.setattr(trainer.learning.packing, "PACKED_TOKENS", packed)
    monkeypatch.setattr(trainer.learning.packing, "TOKENS_AT_ONCE", at_once)
    assert torch.allclose(
        gradient_of_update(tiny_model(), rollouts(), settings, reference), wanted, atol=2e-6
    )


def test_packing_keeps_every_row_once_and_never_mixes_prompts() -> None:
    groups = rollouts()
    sequences = pack(groups)
    assert [row for sequence in sequences for row in sequence] == [row for group in groups for row in group]
    assert all(len({row.prompt_ids for row in sequence}) == 1 for sequence in sequences)
    mixed = [[groups[0][0], groups[1][0]]]
    with pytest.raises(ValueError, match="must share one prompt"):
        pack(mixed)


def test_ratios_far_off_are_cut_and_counted() -> None:
    row = rollouts()[0][1]
    far = row._replace(
        logprobs=tuple(value - 5.0 for value in row.logprobs), advantages=np.ones(len(row.logprobs))
    )
    model = tiny_model()
    figures = Updater(model, UpdateSettings(kl=0.0)).update([[far]])
    assert figures["clip_share"] == 1.0
    assert not gradients(model).any()


def test_two_updates_equal_two_with_a_restart_between_them() -> None:
    settings, reference = UpdateSettings(kl=0.1), tiny_model(seed=1)
    groups = rollouts()
    model = tiny_model()
    updater = Updater(model, settings, reference)
    updater.update(groups)
    stored = copy.deepcopy(updater.state_dict())
    updater.update(groups)
    other = tiny_model(seed=2)
    resumed = Updater(other, settings, reference)
    resumed.load_state_dict(stored)
    resumed.update(groups)
    for key, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[key]), key


def test_the_reference_of_an_adapter_is_its_base_model() -> None:
    settings = UpdateSettings(kl=0.5)
    adapted = with_adapter(tiny_model(), scale=0.3)
    figures = Updater(adapted, settings).update(rollouts())
    explicit = Updater(with_adapter(tiny_model(), scale=0.3), settings, tiny_model()).update(rollouts())
    assert figures["kl"] > 0.01
    assert figures["kl"] == pytest.approx(explicit["kl"], rel=1e-4)
    assert figures["grad_norm"] == pytest.approx(explicit["grad_norm"], rel=1e-3)


def test_a_kl_term_without_a_reference_is_refused() -> None:
    with pytest.raises(ValueError, match="a KL term needs a reference model"):
        Updater(tiny_model(), UpdateSettings(kl=0.1))


@pytest.mark.parametrize("spoil", ["advantages", "logprobs"])
def test_a_step_that_is_not_finite_is_not_taken(spoil: str) -> None:
    model = tiny_model()
    before = copy.deepcopy(model.state_dict())
    groups = rollouts()
    row = groups[0][0]
    bad = np.full(len(row.completion_ids), np.nan)
    groups[0][0] = row._replace(**{spoil: bad if spoil == "advantages" else tuple(bad.tolist())})
    updater = Updater(model, UpdateSettings(kl=0.0))
    with pytest.raises(DivergedError, match="the step was not taken; lower the learning rate"):
        updater.update(groups)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    updater.update(rollouts())


def test_bfloat16_is_near_float32() -> None:
    exact = gradient_of_update(tiny_model(), rollouts(noise=0.0), UpdateSettings(kl=0.0), None)
    rounded = gradient_of_update(tiny_model(), rollouts(noise=0.0), UpdateSettings(kl=0.0, bf16=True), None)
    assert not torch.equal(exact, rounded)
    assert torch.nn.functional.cosine_similarity(exact, rounded, dim=0) > 0.99


def test_the_rate_grows_over_the_warm_up() -> None:
    def moved(updater: Updater) -> float:
        before = [p.detach().clone() for p in updater.model.parameters()]
        updater.update(rollouts())
        pairs = zip(before, updater.model.parameters(), strict=True)
        return max(float((new - old).detach().abs().max()) for old, new in pairs)

    settings = UpdateSettings(kl=0.0, learning_rate=1e-3, warmup_steps=3)
    updater = Updater(tiny_model(), settings)
    # The first step of AdamW is the rate itself, in every weight that has a gradient.
    assert moved(updater) == pytest.approx(1e-3 / 4, rel=1e-3)


def test_texts_to_imitate_become_likelier_whatever_their_advantages() -> None:
    texts = [group[0] for group in rollouts()]
    model, slow, found = tiny_model(), tiny_model(), []
    for row in texts:
        start, tokens = len(row.prompt_ids), list(row.completion_ids)
        logits = slow(input_ids=torch.tensor([[*row.prompt_ids, *tokens]])).logits[0, start - 1 : -1]
        found.append(torch.log_softmax(logits, -1)[range(len(tokens)), tokens])
    logprobs = torch.cat(found)
    (-logprobs.mean()).backward()
    Updater(model, UpdateSettings(kl=0.0, max_grad_norm=1e9)).update([[row] for row in texts], are_texts=True)
    assert torch.allclose(gradients(model), gradients(slow), atol=2e-6)


def test_texts_are_held_to_the_reference_by_the_kl_of_whole_distributions() -> None:
    texts = [group[0] for group in rollouts()]
    model, reference = tiny_model(), tiny_model(seed=1)
    rows = [[row] for row in texts]
    figures = Updater(model, UpdateSettings(kl=0.5), reference).update(rows, are_texts=True)
    assert figures["kl"] > 0
    assert figures["tokens"] == sum(len(row.completion_ids) for row in texts)
    same = Updater(tiny_model(), UpdateSettings(kl=0.5), tiny_model()).update(rows, are_texts=True)
    assert same["kl"] == pytest.approx(0.0, abs=1e-6)
