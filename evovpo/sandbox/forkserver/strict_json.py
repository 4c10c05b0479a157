"""Reads JSON of an untrusted process: what is JSON but not acceptable is named."""

import json
import math
from typing import Any

INTEGER_DIGITS = 40
"""Longest integer accepted in an output: converting long ones costs quadratic time."""


def read_object(raw: bytes) -> tuple[dict[str, Any], str]:
    """Return an object and what is wrong with a value in it (or an empty text).

    Raises ValueError (or RecursionError) if it is not a JSON object.
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
    if b"\\ud" in raw.lower():
        try:
            json.dumps(line, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            impurity = "a text with half a surrogate pair"
    return line, impurity
