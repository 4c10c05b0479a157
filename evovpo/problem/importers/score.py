"""Rewards of an imported task: the share of each objective's tests whose output is right.

`data/tests.json` lists the tests: arguments, what is expected, how it is compared, and to which objective it
belongs. Programs are given the arguments alone; this file runs outside of their process. It is copied into
the problem folders that `evovpo import-tasks` writes, where nothing but the standard library is needed.
"""

import json
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

per_case = True
"""A test on which a program raises counts as wrong, and the others go on."""


def cases() -> list[list[Any]]:
    """Return the arguments of each test."""
    return [test["arguments"] for test in _tests()]


def score(outputs: list[Any]) -> dict[str, float]:
    """Return for each objective the share of its tests that are right."""
    right: dict[str, list[bool]] = {}
    for test, output in zip(_tests(), outputs, strict=True):
        right.setdefault(test["objective"], []).append(is_right(test, output))
    return {name: sum(values) / len(values) for name, values in right.items()}


def is_right(test: dict[str, Any], output: Any) -> bool:
    """True if an output is what a test expects, by the test's own comparison."""
    expected = test["expected"]
    match test["comparison"]:
        case "set":
            return isinstance(output, list) and set(map(_key, output)) == set(map(_key, expected))
        case "sorted":
            return isinstance(output, list) and sorted(map(_key, output)) == sorted(map(_key, expected))
        case "lines":
            return isinstance(output, str) and _same_lines(output, expected)
    return _same(output, expected, test.get("tolerance", 0.0))


def _tests() -> list[dict[str, Any]]:
    path = Path(__file__).parent / "data" / "tests.json"
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _key(value: Any) -> str:
    """Return a text that is the same for equal values: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_key, value)) + "]"
    return json.dumps(value, sort_keys=True)


def _same(output: Any, expected: Any, tolerance: float) -> bool:
    """True for values of one shape whose numbers are within the tolerance; goes no deeper than `expected`."""
    if isinstance(expected, list):
        return (
            isinstance(output, list)
            and len(output) == len(expected)
            and all(_same(one, other, tolerance) for one, other in zip(output, expected, strict=True))
        )
    if isinstance(expected, dict):
        return (
            isinstance(output, dict)
            and output.keys() == expected.keys()
            and all(_same(output[key], value, tolerance) for key, value in expected.items())
        )
    if isinstance(output, bool) or isinstance(expected, bool):
        return output is expected
    if isinstance(expected, int | float) and isinstance(output, int | float):
        return bool(output == expected or abs(output - expected) <= tolerance)
    return bool(output == expected)


def _same_lines(output: str, expected: str) -> bool:
    """True if the texts have the same words on the same lines, blank lines at the end aside."""
    ours, theirs = (text.rstrip().split("\n") for text in (output, expected))
    return len(ours) == len(theirs) and all(
        len(one.split()) == len(other.split()) and all(map(_same_word, one.split(), other.split()))
        for one, other in zip(ours, theirs, strict=True)
    )


def _same_word(one: str, other: str) -> bool:
    """True for equal words, and for the same number written otherwise: 1.50 and 1.5."""
    if one == other:
        return True
    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False
