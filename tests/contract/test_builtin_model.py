"""The model folder that ships: loadable by plain transformers, small, and true to its own format."""

import json
from pathlib import Path
from random import Random

import pytest

from evovpo.builtin import BUILT_IN_MODEL, token_texts
from evovpo.builtin.chain import END, END_ID, SEPARATOR_ID, split_chain
from evovpo.builtin.strings.format import vocabulary
from trainer.domains.maze import MAZE_MODEL
from trainer.domains.strings.tasks import run_own, sample_sequence, sample_task

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")


@pytest.fixture(scope="module")
def tokenizer() -> object:
    return transformers.AutoTokenizer.from_pretrained(BUILT_IN_MODEL)


@pytest.mark.parametrize("folder", [BUILT_IN_MODEL, MAZE_MODEL], ids=["strings", "maze"])
def test_a_model_that_ships_is_small_and_of_a_shape_that_vllm_serves(folder: Path) -> None:
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 3_000_000
    config = json.loads((folder / "config.json").read_text())
    assert config["hidden_size"] // config["num_attention_heads"] in (32, 64)
    assert config["architectures"] == ["LlamaForCausalLM"]
    defaults = json.loads((folder / "generation_config.json").read_text())
    assert (defaults["temperature"], defaults["top_k"], defaults["top_p"]) == (1.0, 0, 1.0)
    assert defaults["eos_token_id"] == END_ID


def test_auto_tokenizer_has_the_vocabulary_of_the_format(tokenizer: object) -> None:
    assert tokenizer.get_vocab() == {token: index for index, token in enumerate(vocabulary())}  # type: ignore[attr-defined]


def test_text_survives_a_round_trip_through_auto_tokenizer(tokenizer: object) -> None:
    rng = Random(5)
    texts = ["".join(sample_sequence(rng)) for _ in range(300)]
    texts += ["x0.replace('Łódź', '日本')" + END, "  two  blanks ", "⟦m1⟧⟦ex⟧⟦a⟧€ 5\t\n'⟦out⟧", ""]
    for text in texts:
        ids = tokenizer(text)["input_ids"]  # type: ignore[operator]
        assert tokenizer.decode(ids) == text  # type: ignore[attr-defined]


def test_token_spans_of_a_chain_decode_to_its_answers(tokenizer: object) -> None:
    text = "x0.split('-')[0]⟦sep⟧x0[:3]⟦sep⟧''⟦end⟧"
    ids = tokenizer(text)["input_ids"]  # type: ignore[operator]
    assert ids.count(SEPARATOR_ID) == 2
    slots = split_chain(text, ids)
    assert [slot.text for slot in slots] == ["x0.split('-')[0]", "x0[:3]", "''"]
    for slot in slots:
        assert slot.token_span is not None
        assert tokenizer.decode(ids[slice(*slot.token_span)]) == slot.text  # type: ignore[attr-defined]


@pytest.mark.slow
def test_tokens_have_the_texts_that_make_up_a_completion(tokenizer: object) -> None:
    ids = tokenizer("x0.split(' ')[0] + 'née'")["input_ids"]  # type: ignore[operator]
    text = tokenizer.decode(ids)  # type: ignore[attr-defined]
    pieces = token_texts(text, [*ids, END_ID])
    assert len(pieces) == len(ids) + 1
    assert pieces[-1] == END
    assert "".join(pieces[:-1]).replace("<0xC3><0xA9>", "é") == text == "x0.split(' ')[0] + 'née'"
    assert token_texts(text + "?", ids) == token_texts("", []) == []


def test_the_model_has_learned_its_task(tokenizer: object) -> None:
    """Greedy answers to fresh tasks: a model that is broken or untrained gets next to none right."""
    torch = pytest.importorskip("torch")
    model = transformers.AutoModelForCausalLM.from_pretrained(BUILT_IN_MODEL)
    rng = Random("fresh tasks")
    right = 0
    for _ in range(20):
        task = sample_task(rng)
        from evovpo.builtin.strings.format import encode_prompt

        ids = tokenizer(encode_prompt(task.rows, task.outputs, 1), return_tensors="pt")  # type: ignore[operator]
        with torch.no_grad():
            made = model.generate(
                **ids, max_new_tokens=60, do_sample=False, top_k=None, top_p=None, temperature=None
            )
        text = tokenizer.decode(made[0][ids["input_ids"].shape[1] :]).split(END)[0]  # type: ignore[attr-defined]
        right += text == task.text
    assert right >= 4
    assert run_own("x0[:1]", [("ab",)]) == ["a"]
