"""VPO on policy, with TRL, on a tiny model made right here. Needs `pip install 'evovpo[train]'`.

Each completion is a chain of words; a word is rewarded for its vowels and for its length, two components that
one answer cannot both have in full, so that VPO keeps both kinds.
"""

import os

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from trainer import VPOConfig, VPOTrainer

letters = {letter: number for number, letter in enumerate("abcdefgh|.#")}
splitter = Tokenizer(models.WordLevel(letters, unk_token="#"))
splitter.pre_tokenizer = pre_tokenizers.Split("", "isolated")
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=splitter, eos_token=".", pad_token="#", unk_token="#", clean_up_tokenization_spaces=False
)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(letters),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        eos_token_id=letters["."],
        pad_token_id=letters["#"],
        bos_token_id=None,
    )
)


def judge(completions: list[str], **columns: object) -> list[list[list[float]]]:
    """Return for each completion a row for each of its answers: [m, D]."""
    chains = [completion.replace(" ", "").split("|")[:3] for completion in completions]
    return [
        [
            [sum(word.count(vowel) for vowel in "ae") / max(1, len(word)), min(1.0, len(word) / 8)]
            for word in chain
        ]
        for chain in chains
    ]


trainer = VPOTrainer(
    model=model,
    processing_class=tokenizer,
    reward_vector_funcs=judge,
    args=VPOConfig(
        objective="vpo",
        answers_per_chain=3,
        output_dir="out",
        max_steps=2,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=12,
        learning_rate=1e-3,
        beta=0.0,
        use_cpu=True,
        report_to="none",
    ),
    train_dataset=Dataset.from_list([{"prompt": "abc|"}] * 8),
)
trainer.train()
print({name: value for name, value in trainer.state.log_history[-1].items() if name == "train_loss"})
