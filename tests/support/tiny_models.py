"""Small random models with a character tokenizer, for tests of what samples from them.

Norm weights and biases are random too: fresh ones are ones and zeros, which would hide a missing term.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

hf: Any = transformers
"""Its classes are typed by halves; here they are not."""

CHARACTERS = "abcdefghijklmnopqrstuvwxyz 0123456789()\n"
PAD_ID, UNKNOWN_ID, END_ID = 0, 1, 2
VOCABULARY = {token: i for i, token in enumerate(["<pad>", "<unk>", "<end>", *CHARACTERS])}
CONTEXT = 96

OWN_DOMAIN = """
COMPONENTS = ("vowels", "short")
MAX_TOKENS = 6

def reward_vectors(completions, **columns):
    return [[[sum(map(text.count, "aeiou")) / 6, 1 / (1 + len(text))]] for text in completions]
"""

_COMMON: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.15,
    "bos_token_id": None,
    "eos_token_id": END_ID,
    "pad_token_id": PAD_ID,
}
_LLAMA3_ROTARY = {
    "rope_type": "llama3",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
CONFIGS: dict[str, Any] = {
    "llama": hf.LlamaConfig(
        **_COMMON, num_attention_heads=3, num_key_value_heads=3, head_dim=32, tie_word_embeddings=True
    ),
    "llama with shared key heads and scaled rotary": hf.LlamaConfig(
        **_COMMON,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        rms_norm_eps=0.01,
        rope_parameters=_LLAMA3_ROTARY,
    ),
    "qwen2": hf.Qwen2Config(**_COMMON, num_attention_heads=4, num_key_value_heads=1, head_dim=32),
}


def tiny_model(name: str = "llama", seed: int = 0) -> Any:
    """Return a random model of one of `CONFIGS`, the same for the same seed."""
    torch.manual_seed(seed)
    model = hf.AutoModelForCausalLM.from_config(CONFIGS[name])
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "norm" in key:
                parameter.uniform_(0.5, 1.5)
            if key.endswith("bias"):
                parameter.normal_(0, 0.3)
    return model.eval()


def write_tiny_folder(folder: Path, name: str = "llama", seed: int = 0) -> Path:
    """Write a model folder as `save_pretrained` does, and return it."""
    model = tiny_model(name, seed)
    model.generation_config = hf.GenerationConfig(eos_token_id=END_ID, pad_token_id=PAD_ID)
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    hf.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<end>", pad_token="<pad>"
    ).save_pretrained(folder)
    return folder


CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}"
    "{% endif %}"
)
"""As Qwen3's, without tools."""


def write_answering_model(
    folder: Path,
    prompts: Sequence[Mapping[str, Any]],
    answers: Sequence[str],
    template: str = CHAT_TEMPLATE,
    **arguments: object,
) -> Path:
    """Write a random Qwen3 that knows whole answers as tokens, and every prompt as unknown words.

    Its context has room for one token more than the longest prompt, made with these arguments of the
    template: a completion is one answer.
    """
    tokens = ["<pad>", "<unk>", "<end>", *answers]
    ids = {token: place for place, token in enumerate(dict.fromkeys(tokens))}
    words = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s+"), "removed")
    words.decoder = decoders.Fuse()
    tokenizer: Any = hf.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="<end>", pad_token="<pad>"
    )
    tokenizer.chat_template = template
    lengths = [0]
    for row in prompts:
        chat = {"tokenize": False, "add_generation_prompt": True, **arguments}
        text = row["prompt"]
        text = text if isinstance(text, str) else tokenizer.apply_chat_template(text, **chat)
        lengths.append(len(tokenizer(text)["input_ids"]))
    torch.manual_seed(0)
    config = hf.Qwen3Config(
        vocab_size=len(ids), hidden_size=16, intermediate_size=16, num_hidden_layers=2, head_dim=16,
        num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=max(lengths) + 1,
        bos_token_id=None, eos_token_id=END_ID, pad_token_id=PAD_ID,
    )  # fmt: skip
    hf.Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def with_adapter(model: Any, seed: int = 0, scale: float = 0.1) -> Any:
    """Return a PEFT model: `model`, which is changed, with a random LoRA adapter."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    modules = ["q_proj", "v_proj", "down_proj"]
    adapted: Any = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=modules))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, scale)
    return adapted.eval()


def load_folder(folder: Path) -> Any:
    """Return the model in a folder, as transformers loads it."""
    return hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
