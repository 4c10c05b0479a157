"""The scorer of an imported task. The reward of an objective is the share of its tests that pass.

`data/tests.json` lists the tests, each with arguments, expected text and objective. `evovpo import-tasks`
copies this module into problem folders, so it uses only the standard library.
"""

import json
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

per_case = True
"""If the program raises an exception in a test, this test fails and the other tests still run."""


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
    """True if both texts have the same words on the same lines; blank lines at the end are ignored."""
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
    """True for equal words, and for equal numbers in different notation, such as 1.50 and 1.5."""
    if one == other:
        return True
    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False
