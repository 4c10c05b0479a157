"""The chain of answers that a built-in model writes: answers between `⟦sep⟧` marks, closed by `⟦end⟧`."""

from collections.abc import Sequence
from typing import NamedTuple

MAX_ANSWERS = 4
PAD, BEGIN, END, SEPARATOR = "⟦pad⟧", "⟦begin⟧", "⟦end⟧", "⟦sep⟧"
PAD_ID, BEGIN_ID, END_ID, SEPARATOR_ID = 0, 1, 2, 3


class Slot(NamedTuple):
    """One answer of a chain: its text, and the range of tokens that wrote it where ids are known."""

    text: str
    token_span: tuple[int, int] | None


def split_chain(text: str, token_ids: Sequence[int] | None) -> list[Slot]:
    """Return the answers of a completion in order; the end mark is not part of any."""
    texts = text.split(END)[0].split(SEPARATOR)
    if token_ids is None:
        return [Slot(part, None) for part in texts]
    spans = []
    start = 0
    for position, token in enumerate([*token_ids, END_ID]):
        if token in (SEPARATOR_ID, END_ID):
            spans.append((start, position))
            start = position + 1
            if token == END_ID:
                break
    if len(spans) != len(texts):
        return [Slot(part, None) for part in texts]
    return [Slot(part, span) for part, span in zip(texts, spans, strict=True)]


def join_chain(answers: Sequence[str]) -> str:
    """Return the completion text of `answers`, end mark included."""
    return SEPARATOR.join(answers) + END
