"""Joins two programs of one expression each as `a if condition else b`, for `evovpo/search/joins.py`."""

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from evovpo.builtin.strings import expressions
from evovpo.builtin.strings.expressions import ARGUMENTS
from evovpo.builtin.strings.format import expression_fault
from evovpo.builtin.strings.literals import SEPARATORS, shared_words
from evovpo.search.joins import JoinLanguage
from evovpo.types import Problem, Program

_MARKS = (*SEPARATORS, "+", "$", "€", "%", "&", "=", "[", "<", '"', "'", "!", "?", "*")


def join_language(problem: Problem) -> JoinLanguage | None:
    """Return conditions and functions for joins; None if `problem` does not fit the built-in model."""
    if expression_fault(problem):
        return None
    rows = [[str(value) for value in example.inputs] for example in problem.train]
    found = conditions(rows)

    def joined(then: str, condition: str, otherwise: str) -> Program | None:
        first, second = (expressions.from_source(source, problem.entry) for source in (then, otherwise))
        # `canonical` returns None for an expression that is too long.
        expression = first and second and expressions.canonical(f"({first}) if {condition} else ({second})")
        return expressions.to_program(expression, problem) if expression else None

    def shorter(source: str) -> list[Program]:
        expression = expressions.from_source(source, problem.entry)
        programs = (expressions.to_program(one, problem) for one in expressions.shorter(expression or ""))
        return list(filter(None, programs))

    holds_C_N = np.array(list(found.values()), dtype=np.float64).reshape(-1, len(rows))
    return JoinLanguage(tuple(found), holds_C_N, joined, shorter)


def conditions(rows: Sequence[Sequence[str]]) -> dict[str, tuple[bool, ...]]:
    """Return {condition: its result for each row} for the possible conditions of a join, simplest first.

    A condition is left out if it holds for all rows or for no row, or if an earlier one has the same results.
    """
    found: dict[tuple[bool, ...], str] = {}
    for text in _tests(rows):
        held = tuple(map(predicate(text, len(rows[0])), rows))
        if any(held) and not all(held):
            found.setdefault(held, text)
    return {text: held for held, text in found.items()}


@functools.lru_cache(maxsize=4096)
def predicate(text: str, arguments: int) -> Callable[[Sequence[str]], bool]:
    """Return a function that evaluates the condition `text` on a row.

    `text` is passed to `eval`. This is safe, because training text occurs in `text` only as quoted literals.
    """
    test: Callable[..., bool] = eval(f"lambda {', '.join(ARGUMENTS[:arguments])}: {text}")
    return lambda row: test(*row)


def _tests(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    words = shared_words(rows)
    for name, texts in zip(ARGUMENTS, zip(*rows, strict=True), strict=False):
        marks = [mark for mark in _MARKS if any(mark in text for text in texts)]
        yield from (f"{mark!r} in {name}" for mark in marks)
        yield from (f"{name}[:1].isdigit()", f"{name}[-1:].isdigit()", f"{name}.isdigit()", f"{name} == ''")
        yield from (f"{name}[:1].isupper()", f"{name}.isupper()")
        for word in words:
            yield from (f"{word!r} in {name}", f"{name}.startswith({word!r})")
        for mark in marks:
            yield from (f"{name}.startswith({mark!r})", f"{name}.endswith({mark!r})")
            yield from (f"{name}.count({mark!r}) > {number}" for number in (1, 2, 3))
        yield from (f"len({name}.split()) > {number}" for number in (1, 2, 3))
        yield from (f"len({name}) < {length}" for length in sorted({len(text) for text in texts})[1:])
