"""The tokenizer of the maze model, as a Hugging Face `tokenizer.json`."""

from transformers import PreTrainedTokenizerFast

from trainer.domains.maze.route_format import TOKEN_PATTERN, UNKNOWN, vocabulary
from trainer.recipes.tokenizer import word_tokenizer


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer: whole words between brackets, all else unknown; decoding is concatenation."""
    return word_tokenizer(vocabulary(), TOKEN_PATTERN, UNKNOWN, model_max_length=256)
