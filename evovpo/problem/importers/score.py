"""Rewards of an imported task: for each objective, the share of its tests with the right output.

`data/tests.json` lists the tests: arguments, expected text and objective. `evovpo import-tasks` copies this
file, which needs only the standard library, into problem folders.
"""

import json
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

per_case = True
"""A test on which a program raises counts as wrong, and the other tests still run."""


def cases() -> list[list[Any]]:
    """Return the arguments of each test."""
    return [test["arguments"] for test in _tests()]


def score(outputs: list[Any]) -> dict[str, float]:
    """Return the share of right outputs for each objective."""
    right: dict[str, list[bool]] = {}
    for test, output in zip(_tests(), outputs, strict=True):
        right.setdefault(test["objective"], []).append(same_words(output, test["expected"]))
    return {name: sum(values) / len(values) for name, values in right.items()}


def same_words(output: Any, expected: str) -> bool:
    """True for text with the same words on the same lines, ignoring trailing blank lines."""
    if not isinstance(output, str):
        return False
    ours, theirs = (text.rstrip().split("\n") for text in (output, expected))
    return len(ours) == len(theirs) and all(
        len(one.split()) == len(other.split()) and all(map(_same_word, one.split(), other.split()))
        for one, other in zip(ours, theirs, strict=True)
    )


def _tests() -> list[dict[str, Any]]:
    path = Path(__file__).parent / "data" / "tests.json"
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _same_word(one: str, other: str) -> bool:
    """True for equal words, and for equal numbers in different notation: 1.50 and 1.5."""
    if one == other:
        return True
    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False
