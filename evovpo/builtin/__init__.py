"""The built-in model, a small model that writes string expressions, and its prompt format."""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

BUILT_IN_MODEL = Path(__file__).parent / "weights" / "strings"


def token_texts(text: str, token_ids: Sequence[int]) -> list[str]:
    """Return the text of each token; empty if the built-in vocabulary does not decode `token_ids` to `text`.

    `text` is a completion without special tokens. It may come from a model with another vocabulary.
    """
    texts, special = _vocabulary(BUILT_IN_MODEL)
    pieces = [texts.get(token, "") for token in token_ids]
    written = b"".join(_token_bytes(piece) for piece in pieces if piece not in special)
    return pieces if written.decode(errors="replace") == text else []


@cache
def _vocabulary(model: Path) -> tuple[dict[int, str], set[str]]:
    file = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    special = {one["content"] for one in file["added_tokens"] if one["special"]}
    return {token: text for text, token in file["model"]["vocab"].items()}, special


def _token_bytes(piece: str) -> bytes:
    byte = re.fullmatch("<0x([0-9A-F]{2})>", piece)
    return bytes.fromhex(byte[1]) if byte else piece.encode()
