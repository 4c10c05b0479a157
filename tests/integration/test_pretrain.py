"""What start models learn from: data that repeat exactly, shortest programs, and mazes that show a parent."""

import json
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("torch")

from safetensors.torch import load_file

from evovpo.builtin.chain import MAX_ANSWERS, SEPARATOR, split_chain
from evovpo.builtin.strings.grammar import render, shorter_variants
from evovpo.proposers.local import check_model_folder
from trainer.domains.strings.tasks import run_own, sample_sequence, sample_task
from trainer.recipes.maze.parents import ParentsRecipe, teach


def test_a_task_program_gives_its_outputs_and_has_no_operation_that_changes_nothing() -> None:
    rng = Random(0)
    for _ in range(50):
        task = sample_task(rng)
        assert run_own(task.text, task.rows) == task.outputs
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


def test_the_learning_rate_warms_up_holds_and_falls_to_zero() -> None:
    recipe = ParentsRecipe(steps=1000, warmup_steps=10, decay_share=0.2)
    assert recipe.rate(0) == pytest.approx(0.1)
    assert recipe.rate(500) == recipe.rate(799) == 1.0
    assert recipe.rate(900) == pytest.approx(0.5)
    assert recipe.rate(1000) == 0.0


@pytest.mark.slow
def test_a_model_is_taught_to_read_parents_and_the_same_again(tmp_path: Path) -> None:
    small = ParentsRecipe(steps=4, batch_tokens=600, block_sequences=24, block_batches=2, warmup_steps=1)
    for name in ("one", "same"):
        teach(tmp_path / name, small)
    check_model_folder(tmp_path / "one")
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "same"))
    assert all((first[name] == second[name]).all() for name in first)
    told = json.loads((tmp_path / "one" / "training.json").read_text())
    assert (told["recipe"]["steps"], [row["step"] for row in told["loss_curve"]]) == (4, [4])
    assert 0 < told["loss_curve"][0]["loss"] < 2
