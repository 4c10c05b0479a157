"""The built-in model: its weights, prompt format and language.

It writes string expressions from examples (`strings/`).
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

BUILT_IN_MODEL = Path(__file__).parent / "weights" / "strings"
"""Folder of the built-in model, in Hugging Face format."""


def token_texts(text: str, token_ids: Sequence[int]) -> list[str]:
    """Return the text of each token of a completion, or nothing if the built-in model did not write it.

    `text` is the completion without special tokens: only the vocabulary that gives it can have been used.
    """
    texts, special = _vocabulary(BUILT_IN_MODEL)
    pieces = [texts.get(token, "") for token in token_ids]
    written = b"".join(_bytes(piece) for piece in pieces if piece not in special)
    return pieces if written.decode(errors="replace") == text else []


@cache
def _vocabulary(model: Path) -> tuple[dict[int, str], set[str]]:
    """Return the texts of a model's tokens by their ids, and those of its special tokens."""
    file = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    special = {one["content"] for one in file["added_tokens"] if one["special"]}
    return {token: text for text, token in file["model"]["vocab"].items()}, special


def _bytes(piece: str) -> bytes:
    """Return what a token writes: what no other token has is written byte by byte, as `<0xC3>`."""
    byte = re.fullmatch("<0x([0-9A-F]{2})>", piece)
    return bytes.fromhex(byte[1]) if byte else piece.encode()
