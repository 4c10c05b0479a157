"""Tokenizers of the built-in models, as Hugging Face `tokenizer.json`."""

from collections.abc import Iterable
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from evovpo.builtin.chain import BEGIN, END, PAD
from evovpo.builtin.strings.format import TOKEN_PATTERN, vocabulary

_UNKNOWN = "⟦unk⟧"


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer: `TOKEN_PATTERN` cuts the text, characters without a token become bytes.

    A byte-pair model without merges whose pre-tokens are looked up whole; decoding is plain
    concatenation, so that every text without the two bracket characters survives a round trip.
    """
    vocab = {token: index for index, token in enumerate(vocabulary())}
    model = models.BPE(vocab=vocab, merges=[], unk_token=_UNKNOWN, byte_fallback=True, ignore_merges=True)
    decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return _tokenizer(model, TOKEN_PATTERN, decoder, 768)


def word_tokenizer(tokens: Iterable[str], pattern: str, model_max_length: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole words: `pattern` cuts the text, what is no token is unknown.

    Decoding is concatenation.
    """
    ids = {token: index for index, token in enumerate(tokens)}
    return _tokenizer(models.WordLevel(ids, unk_token=_UNKNOWN), pattern, decoders.Fuse(), model_max_length)


def _tokenizer(model: Any, pattern: str, decoder: Any, model_max_length: int) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    tokenizer.decoder = decoder
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=PAD,
        unk_token=_UNKNOWN,
        clean_up_tokenization_spaces=False,
        model_max_length=model_max_length,
    )
