"""The maze model that ships: small, loadable by plain transformers, and a start that leaves room."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

from transformers import AutoModelForCausalLM, AutoTokenizer

from evovpo.builtin.chain import END_ID
from trainer.domains.maze import MAZE_MODEL
from trainer.domains.maze.domain import vocabulary
from trainer.recipes.maze.measure import measure_model


def test_the_folder_stays_under_five_megabytes() -> None:
    assert sum(path.stat().st_size for path in MAZE_MODEL.iterdir()) <= 5_000_000


def test_attention_heads_have_a_size_that_vllm_serves() -> None:
    config = json.loads((MAZE_MODEL / "config.json").read_text())
    assert config["hidden_size"] // config["num_attention_heads"] == 32
    assert config["architectures"] == ["LlamaForCausalLM"]


def test_sampling_defaults_are_the_plain_distribution() -> None:
    defaults = json.loads((MAZE_MODEL / "generation_config.json").read_text())
    assert (defaults["temperature"], defaults["top_k"], defaults["top_p"]) == (1.0, 0, 1.0)
    assert defaults["eos_token_id"] == END_ID


def test_model_and_tokenizer_have_the_vocabulary_of_the_format() -> None:
    assert AutoTokenizer.from_pretrained(MAZE_MODEL).get_vocab() == {
        token: index for index, token in enumerate(vocabulary())
    }
    assert AutoModelForCausalLM.from_pretrained(MAZE_MODEL).config.vocab_size == len(vocabulary())


@pytest.mark.parametrize("answers", [1, 3])
def test_the_start_model_reaches_the_exit_now_and_then_by_ways_of_all_kinds(answers: int) -> None:
    figures = measure_model(MAZE_MODEL, answers=answers, tasks=16, pool=12)
    assert figures["readable"] > 0.7
    assert 0.15 < figures["reached_exit"] < 0.5
    assert figures["with_gold"] > 0.01
    assert figures["with_diamond"] > 0.01
    assert figures["different_keys"] > 0.7
    assert figures["best@1"] < figures["best@10"] < 0.7
