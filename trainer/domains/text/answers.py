"""Reads answers from the tags of a completion, and compares texts.

A tag must occur exactly once and be closed, and must not contain a tag of another part or answer. Otherwise
the answer is unreadable: it gets zero rewards and a reason.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from evovpo.errors import AnswerError
from evovpo.judging.measure import JudgedAnswer
from evovpo.prompts.replies import without_reasoning
from evovpo.types import Rewards
from trainer.domains.domain import Chains, Domain, Row

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WRAPPERS = r"</?response_"
_DELIMITERS = rf"{_WRAPPERS}|</?(answer|support|entity_[A-E]|think|tool_call|response)>"


def chat(text: str) -> dict[str, Any]:
    return {"prompt": [{"role": "user", "content": text}]}


def asked(form: str, answers: int) -> str:
    """Return the part of a prompt that asks for `answers` answers, each in the form shown by `form`."""
    if answers == 1:
        return f"Think briefly, then write your answer in this form:\n{form}"
    return (
        f"Think briefly, then give {answers} genuinely different answers, not paraphrases, each valid on its "
        f"own. Wrap answer i in <response_i> and </response_i>, from <response_1> to <response_{answers}>, "
        f"close every tag, and write each in this form:\n{form}"
    )


def tagged(text: str, tag: str, foreign: str = _DELIMITERS) -> str:
    """Return the content of the only `<tag>...</tag>` of a text.

    Raises `AnswerError` if the tag is missing, unclosed or repeated, or if `foreign` matches its content.
    """
    opening, closing = f"<{tag}>", f"</{tag}>"
    _, opened, rest = text.partition(opening)
    inner, closed, _ = rest.partition(closing)
    if not opened:
        raise AnswerError(f"it has no {opening}")
    if not closed:
        raise AnswerError(f"{opening} is not closed")
    if text.count(opening) + text.count(closing) > 2:
        raise AnswerError(f"{opening} is there more than once")
    if re.search(foreign, inner):
        raise AnswerError(f"{opening} holds the tag of another part or answer")
    return inner.strip()


def response(text: str, number: int, answers: int) -> str:
    """Return the text of answer `number`, counted from 1. Raises `AnswerError` if this is unreadable."""
    return text if answers == 1 else tagged(text, f"response_{number}", _WRAPPERS)


def by_vector(rewards: Iterable[float]) -> JudgedAnswer:
    """Return a judged answer with its rewards as key, so that answers with equal rewards are duplicates."""
    vector = tuple(rewards)
    return JudgedAnswer(str(vector), vector)


def text_domain(
    name: str,
    components: tuple[str, ...],
    answers: int,
    prompts: list[dict[str, Any]],
    read: Callable[[str, Row], JudgedAnswer],
    max_tokens: tuple[int, int],
    part: Callable[[str, int, int], str] = response,
    has_reasoning: bool = False,
    threads: int = 1,
) -> Domain:
    """Return a domain whose answers are judged one by one.

    `part` extracts the text of an answer, and `read` judges this text. If either raises `AnswerError`, the
    answer gets `row["size"]` zero rewards, by default one per component. Reasoning in `<think>` is removed
    unless `has_reasoning` is true. `max_tokens` has the limits for one answer and for several answers.
    """

    def judge(text: str, row: Row) -> list[JudgedAnswer]:
        zeros: Rewards = (0.0,) * row.get("size", len(components))
        plain = text if has_reasoning else without_reasoning(text)
        found = []
        for number in range(1, answers + 1):
            try:
                found.append(read(part(plain, number, answers), row))
            except (AnswerError, RecursionError) as error:
                said = str(error) if isinstance(error, AnswerError) else "it is nested too deeply"
                found.append(JudgedAnswer(None, zeros, reason=said))
        return found

    def judge_texts(texts: Sequence[str], rows: Sequence[Row]) -> Chains:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda pair: judge(*pair), zip(texts, rows, strict=True)))

    return Domain(name, components, answers, prompts, judge_texts, max_tokens[answers > 1])


def normalised(text: object, articles: bool = True) -> str:
    """Return a text normalised as in SQuAD, without case, punctuation and (if `articles`) articles."""
    plain = str(text).lower().translate(_PUNCTUATION)
    return " ".join((re.sub(r"\b(a|an|the)\b", " ", plain) if articles else plain).split())


def multiset_f1(found: Iterable[str], wanted: Iterable[str]) -> float:
    ours, theirs = Counter(iter(found)), Counter(iter(wanted))
    shared, size = (ours & theirs).total(), ours.total() + theirs.total()
    return 2 * shared / size if size else 1.0
