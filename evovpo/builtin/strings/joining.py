"""How expression programs are joined, `a if condition else b`, for `evovpo/search/joins.py`."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from evovpo.builtin.strings.format import expression_fault
from evovpo.builtin.strings.grammar import ARGUMENTS, STRINGS
from evovpo.builtin.strings.literals import SEPARATORS, shared_words
from evovpo.search.joins import JoinLanguage
from evovpo.types import Problem, Program

_MARKS = (*SEPARATORS, "+", "$", "€", "%", "&", "=", "[", "<", '"', "'", "!", "?", "*")


class Condition(NamedTuple):
    """A test on the arguments: its text in the language, and the same test as a predicate."""

    text: str
    holds: Callable[[Sequence[str]], bool]


def join_language(problem: Problem) -> JoinLanguage | None:
    """Return how programs of `problem` are joined.

    None if it is not one of strings by example, or no condition tells its rows apart.
    """
    if expression_fault(problem):
        return None
    rows = [[str(value) for value in example.inputs] for example in problem.train]
    found = conditions(rows)
    if not found:
        return None

    def joined(then: str, condition: str, otherwise: str) -> Program | None:
        first, second = (STRINGS.from_source(source, problem.entry) for source in (then, otherwise))
        # What would be too long has no canonical form.
        expression = first and second and STRINGS.canonical(f"({first}) if {condition} else ({second})")
        return STRINGS.program(expression, problem) if expression else None

    return JoinLanguage(
        conditions=tuple(condition.text for condition in found),
        holds_C_N=np.array([[float(condition.holds(row)) for row in rows] for condition in found]),
        join=joined,
    )


def conditions(rows: Sequence[Sequence[str]]) -> list[Condition]:
    """Return the tests that a join may branch on, simplest first, without repeats in effect.

    They are made from `rows` (training inputs): which separators and shared words occur, at the
    start or the end, how long, how many, digits or letters first. A test that holds for all the
    rows or for none is left out, and of tests that agree on every row the first is kept.
    """
    found: list[Condition] = []
    seen: set[tuple[bool, ...]] = set()
    for text in _tests(rows):
        holds = _predicate(text, len(rows[0]))
        effect = tuple(map(holds, rows))
        if any(effect) and not all(effect) and effect not in seen:
            seen.add(effect)
            found.append(Condition(text, holds))
    return found


@functools.lru_cache(maxsize=4096)
def _predicate(text: str, arguments: int) -> Callable[[Sequence[str]], bool]:
    """Return a test as a function of a row. Its text is made here, of templates and quoted literals."""
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
