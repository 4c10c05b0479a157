"""The tokenizer of the maze model, as a Hugging Face `tokenizer.json`."""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from evovpo.models.chain_format import BEGIN, END, PAD
from trainer.maze.route_format import TOKEN_PATTERN, UNKNOWN, vocabulary


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer: whole words between brackets, all else unknown; decoding is concatenation."""
    ids = {token: index for index, token in enumerate(vocabulary())}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(TOKEN_PATTERN), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=PAD,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
        model_max_length=256,
    )
