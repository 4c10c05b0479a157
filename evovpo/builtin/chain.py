"""Completions of the built-in model: chains of answers, separated by `⟦sep⟧` and ended by `⟦end⟧`."""

from collections.abc import Sequence

from evovpo.prompts.request import Answer

MAX_ANSWERS = 4
MAX_ROWS = 7
PAD, BEGIN, END, SEPARATOR = "⟦pad⟧", "⟦begin⟧", "⟦end⟧", "⟦sep⟧"
PAD_ID, BEGIN_ID, END_ID, SEPARATOR_ID = 0, 1, 2, 3


def split_chain(text: str, token_ids: Sequence[int] | None) -> list[Answer]:
    """Return the answers of a completion in order. Their programs are not parsed yet."""
    texts = text.split(END)[0].split(SEPARATOR)
    spans = chain_spans(token_ids or ())
    known = spans if token_ids is not None and len(spans) == len(texts) else [None] * len(texts)
    return [Answer(part, None, span) for part, span in zip(texts, known, strict=True)]


def chain_spans(token_ids: Sequence[int]) -> list[tuple[int, int]]:
    """Return the token range (start, end) of each answer before the end mark."""
    spans = []
    start = 0
    for position, token in enumerate([*token_ids, END_ID]):
        if token in (SEPARATOR_ID, END_ID):
            spans.append((start, position))
            start = position + 1
            if token == END_ID:
                break
    return spans


def join_chain(answers: Sequence[str]) -> str:
    return SEPARATOR.join(answers) + END
