"""The pretraining recipe: data that repeat exactly, shortest programs, and a run that can be resumed."""

import json
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("torch")

from evovpo.builtin.chain import MAX_ANSWERS, SEPARATOR, split_chain
from evovpo.builtin.strings.grammar import render, shorter_variants
from trainer.domains.strings.tasks import run_own, sample_sequence, sample_task
from trainer.recipes.pretrain import STRINGS, PretrainConfig, batches, collate, pretrain, rate_factor
from trainer.recipes.tokenizer import build_tokenizer

TINY = PretrainConfig(
    hidden_size=32, layers=1, heads=1, intermediate_size=32, steps=4, batch_tokens=600, block_sequences=12,
    block_batches=2, warmup_steps=1,
)  # fmt: skip


def test_the_same_seed_gives_the_same_sequences() -> None:
    assert [sample_sequence(Random(3)) for _ in range(2)] == [sample_sequence(Random(3)) for _ in range(2)]


def test_a_task_program_gives_its_outputs() -> None:
    rng = Random(0)
    for _ in range(50):
        task = sample_task(rng)
        assert run_own(task.text, task.rows) == task.outputs


def test_a_task_program_has_no_operation_that_changes_nothing() -> None:
    rng = Random(1)
    for _ in range(50):
        task = sample_task(rng)
        assert all(
            run_own(render(variant), task.rows) != task.outputs for variant in shorter_variants(task.tree)
        )


def test_a_chain_holds_different_programs_and_the_truth_when_it_is_one() -> None:
    rng = Random(2)
    for _ in range(200):
        prompt, completion = sample_sequence(rng)
        answers = [slot.text for slot in split_chain(completion, None)]
        assert len(set(answers)) == len(answers) <= MAX_ANSWERS
        assert prompt.startswith(f"⟦m{len(answers)}⟧")
        assert SEPARATOR not in prompt


def test_batches_hold_every_sequence_once_within_the_token_budget() -> None:
    tokenizer = build_tokenizer()
    block = STRINGS.sample_block(1, 0, 40, tokenizer)
    found = batches(block, TINY, Random(0))
    assert sorted(id(sequence) for batch in found for sequence in batch) == sorted(map(id, block))
    assert all(len(batch) == 1 or max(len(ids) for ids, _ in batch) * len(batch) <= 600 for batch in found)


def test_only_completion_tokens_carry_loss() -> None:
    ids, mask = collate([([5, 6, 7, 2], 2), ([8, 2], 1)])
    assert ids.shape == mask.shape == (2, 16)
    assert mask.sum(dim=1).tolist() == [2, 1]
    assert ids[mask].tolist() == [7, 2, 2]


def test_the_learning_rate_warms_up_holds_and_falls_to_zero() -> None:
    config = PretrainConfig(steps=1000, warmup_steps=10, decay_share=0.2)
    assert rate_factor(0, config) == pytest.approx(0.1)
    assert rate_factor(500, config) == rate_factor(799, config) == 1.0
    assert rate_factor(900, config) == pytest.approx(0.5)
    assert rate_factor(1000, config) == 0.0


@pytest.mark.slow
def test_a_resumed_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    import dataclasses

    from safetensors.torch import load_file

    whole, parted = tmp_path / "whole", tmp_path / "parted"
    pretrain(whole, TINY)
    # The rate is constant until its fall, so a shorter run's checkpoint is one of the longer run's.
    pretrain(parted, dataclasses.replace(TINY, steps=3, decay_share=0.1))
    (parted / "model.safetensors").unlink()
    pretrain(parted, TINY)
    first, second = (load_file(folder / "model.safetensors") for folder in (whole, parted))
    assert all((first[name] == second[name]).all() for name in first)
    assert json.loads((whole / "training.json").read_text())["recipe"]["steps"] == 4
