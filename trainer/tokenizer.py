"""The tokenizer of the built-in model, as a Hugging Face `tokenizer.json`."""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from evovpo.models.chain_format import BEGIN, END, PAD, TOKEN_PATTERN, vocabulary


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer: `TOKEN_PATTERN` cuts the text, characters without a token become bytes.

    A byte-pair model without merges whose pre-tokens are looked up whole; decoding is plain
    concatenation, so that every text without the two bracket characters survives a round trip.
    """
    vocab = {token: index for index, token in enumerate(vocabulary())}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocab, merges=[], unk_token="⟦unk⟧", byte_fallback=True, ignore_merges=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(TOKEN_PATTERN), behavior="isolated")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=PAD,
        unk_token="⟦unk⟧",
        clean_up_tokenization_spaces=False,
        model_max_length=768,
    )
