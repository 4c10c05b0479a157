"""Strict JSON: writes the results of evaluators, and parses the output of untrusted processes."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

INTEGER_DIGITS = 40
"""Maximum digits of an integer in an output, because conversion takes quadratic time."""
DEEPEST = 100
"""Maximum nesting depth of an output, because readers may recurse."""


def read_object(raw: bytes) -> tuple[dict[str, Any], str]:
    """Return the JSON object in `raw`, and a text that describes an invalid value in the object or is empty.

    Raises ValueError or RecursionError if `raw` is not a JSON object.
    """
    impurity = ""

    def constant(text: str) -> None:
        nonlocal impurity
        impurity = f"{text} is not finite"

    def integer(text: str) -> int:
        nonlocal impurity
        if len(text) <= INTEGER_DIGITS:
            return int(text)
        impurity = f"an integer of {len(text)} digits (at most {INTEGER_DIGITS})"
        return 0

    def real(text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            constant(text[:20])
        return value

    line = json.loads(raw.decode(), parse_constant=constant, parse_int=integer, parse_float=real)
    if not isinstance(line, dict):
        raise ValueError("a line is not an object")
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _is_deep(line):
        impurity = f"more than {DEEPEST} lists in lists"
    if b"\\ud" in raw.lower():
        try:
            json.dumps(line, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            impurity = "a text with half a surrogate pair"
    return line, impurity


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        inside = [one.values() if isinstance(one, dict) else one for one in level]
        level = [item for items in inside for item in items if isinstance(item, dict | list)]
    return bool(level)


TEXT_LIMIT = 4000
"""Maximum length of a text metric or an artifact, in characters."""
ARTIFACTS_LIMIT = 20_000
_REPR_LIMIT = 300
_DEEPEST = 20
_MOST_ITEMS = 1000


def plain(value: Any, depth: int = 0) -> Any:
    """Convert a value to JSON types. It may contain numbers, arrays and collections of any library.

    Non-finite numbers become text. Values of other types, and very large or deep values, become a short repr.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int):
        number = int(value)
        return number if abs(number) < 10**INTEGER_DIGITS else _described(value)
    if isinstance(value, float):
        real = float(value)
        return real + 0.0 if math.isfinite(real) else str(real)
    if depth < _DEEPEST:
        if isinstance(value, Mapping) and len(value) <= _MOST_ITEMS:
            return {text(str(key)): plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset) and len(value) <= _MOST_ITEMS:
            return [plain(item, depth + 1) for item in value]
        if (
            callable(getattr(value, "tolist", None))
            and getattr(value, "size", _MOST_ITEMS + 1) <= _MOST_ITEMS
        ):
            return plain(value.tolist(), depth + 1)
        if callable(getattr(value, "item", None)) and not getattr(value, "shape", ()):
            return plain(value.item(), depth + 1)
    return _described(value)


def metrics_of(result: Any) -> list[tuple[str, Any]]:
    """Return the metrics of a result as (name, value) pairs. Raises TypeError if there are none."""
    found = result if isinstance(result, Mapping) else getattr(result, "metrics", None)
    if not isinstance(found, Mapping):
        raise TypeError(
            f"expected a dictionary of metrics or an object with `metrics`, found {type(result).__name__}"
        )
    return [(text(str(name)), plain(value)) for name, value in found.items()]


def artifacts_of(result: Any) -> list[tuple[str, str]]:
    """Return the truncated artifacts of a result as (name, text) pairs, or [] if there are none."""
    found = None if isinstance(result, Mapping) else getattr(result, "artifacts", None)
    if not isinstance(found, Mapping):
        return []
    return capped((str(name), value) for name, value in found.items())


def capped(artifacts: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Return artifacts as (name, text) pairs, with limits on each text and on their total length."""
    kept: list[tuple[str, str]] = []
    left = ARTIFACTS_LIMIT
    for name, value in artifacts:
        if isinstance(value, bytes | bytearray):
            value = bytes(value[: 4 * TEXT_LIMIT]).decode(errors="replace")
        content = value if isinstance(value, str) else str(plain(value))
        pair = (text(name)[:200], text(content))
        left -= len(pair[0]) + len(pair[1])
        if left < 0:
            break
        kept.append(pair)
    return kept


def score_of(metrics: Mapping[str, Any]) -> float:
    """Return `combined_score` or, if it is not a number, the mean of all numeric metrics (0 if none is)."""
    if _is_number(metrics.get("combined_score")):
        return float(metrics["combined_score"])
    numbers = [float(value) for value in metrics.values() if _is_number(value)]
    return sum(numbers) / len(numbers) if numbers else 0.0


def text(value: str) -> str:
    """Return `value`, truncated to `TEXT_LIMIT` characters, with lone surrogates replaced."""
    value = value if len(value) <= TEXT_LIMIT else value[: TEXT_LIMIT - 4] + " ..."
    return value.encode(errors="replace").decode()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _described(value: Any) -> str:
    try:
        return text(repr(value)[:_REPR_LIMIT])
    except Exception as error:  # a foreign `__repr__` may raise anything
        return f"<{type(value).__name__}, not shown: {type(error).__name__}>"
