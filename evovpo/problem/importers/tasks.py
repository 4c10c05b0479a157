"""What every loader gives: tasks whose tests are values, or why there is none."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from evovpo.types import Json

LONGEST_TEST = 200_000
"""Characters of one test as JSON; longer ones are left out, they would cost more to pass on than to run."""
_MOST_DIGITS = 40
"""The sandbox takes no longer whole number as an output."""


class TaskFormat(StrEnum):
    """A public file format of programming tasks."""

    HUMANEVAL = "humaneval"
    MBPP = "mbpp"
    LIVECODEBENCH = "livecodebench"
    PSB2 = "psb2"


class Comparison(StrEnum):
    """When an output is right."""

    EQUAL = "equal"
    """The same JSON value (`evovpo.problem.examples.same_value`)."""
    CLOSE = "close"
    """The same but for numbers, which may differ by the test's tolerance."""
    SET = "set"
    """A list with the same elements, in any order and any number of times."""
    SORTED = "sorted"
    """A list with the same elements in any order."""
    LINES = "lines"
    """A text with the same words on each line; words that are numbers may be written otherwise."""


class Case(NamedTuple):
    """One call of the function, and what it should return."""

    arguments: tuple[Json, ...]
    expected: Json
    comparison: Comparison = Comparison.EQUAL
    tolerance: float = 0.0
    """Largest absolute difference for `CLOSE`."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a benchmark."""

    name: str
    """As the file calls it, for example `HumanEval/0`."""
    statement: str
    entry: str
    parameters: tuple[str, ...]
    seed: str
    """A program that runs and is not right."""
    tests: tuple[Case, ...]
    """What programs are rewarded by."""
    heldout: tuple[Case, ...] = ()
    """For reports only; kept where all tests compare by `EQUAL`."""
    left_out: tuple[str, ...] = ()
    """For each test of the file that is not among them, why."""


class Skipped(NamedTuple):
    """A task that cannot be turned into a problem."""

    name: str
    reason: str


Loaded: TypeAlias = Task | Skipped


class NotJsonError(ValueError):
    """A value that cannot be passed on as JSON; the message says why."""


def as_json(value: object) -> Json:
    """Return a Python value as JSON, tuples as lists; raises `NotJsonError` for what has no such form."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if abs(value) >= 10**_MOST_DIGITS:
            raise NotJsonError(f"a whole number of more than {_MOST_DIGITS} digits")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJsonError("a number that is not finite")
        return value
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise NotJsonError("a dictionary with keys that are no texts")
        return {key: as_json(part) for key, part in value.items()}
    raise NotJsonError(f"a value of type {type(value).__name__}")


def finished(
    name: str,
    statement: str,
    entry: str,
    parameters: Sequence[str],
    seed: str,
    tests: Sequence[Case],
    left_out: Sequence[str] = (),
    heldout: Sequence[Case] = (),
) -> Loaded:
    """Return a task of these tests, without repeated and overlong ones, or why it cannot be one.

    Tests that contradict each other make the task unusable, and so do tests that a program which returns
    nothing passes.
    """
    reasons = list(left_out)
    seen: dict[str, Case] = {}
    parts: list[list[Case]] = []
    for part in (tests, heldout):
        kept: list[Case] = []
        for test in part:
            key = json.dumps(test.arguments, sort_keys=True)
            if len(key) + len(json.dumps(test.expected)) > LONGEST_TEST:
                reasons.append(f"longer than {LONGEST_TEST:,} characters")
            elif key not in seen:
                seen[key] = test
                kept.append(test)
            elif seen[key] != test:
                return Skipped(name, "two of its tests want different things of the same arguments")
            else:
                reasons.append("repeats another test")
        parts.append(kept)
    if not parts[0]:
        reason = max(set(reasons), key=reasons.count) if reasons else "there are none"
        return Skipped(name, f"no test can be used: {reason}")
    if all(test.expected is None for test in parts[0]):
        return Skipped(name, "every test wants None, which a program that does nothing returns")
    if not parameters:
        return Skipped(name, "the function has no parameters")
    return Task(
        name, statement, entry, tuple(parameters), seed, tuple(parts[0]), tuple(parts[1]), tuple(reasons)
    )
