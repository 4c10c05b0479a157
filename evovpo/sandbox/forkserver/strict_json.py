"""Reads JSON of an untrusted process: what is JSON but not acceptable is named."""

import json
import math
from typing import Any

INTEGER_DIGITS = 40
"""Longest integer accepted in an output: converting long ones costs quadratic time."""


class Decoder:
    """Reads one line of JSON, and notes the first value in it that is JSON but not acceptable."""

    def __init__(self) -> None:
        self._impurity = ""
        self._decoder = json.JSONDecoder(
            parse_constant=self._constant, parse_int=self._integer, parse_float=self._float
        )

    def read(self, raw: bytes) -> tuple[dict[str, Any], str]:
        """Return an object and what is wrong with a value in it (or an empty text).

        Raises ValueError (or RecursionError) if it is not a JSON object.
        """
        line = self._decoder.decode(raw.decode())
        if not isinstance(line, dict):
            raise ValueError("a line is not an object")
        if b"\\ud" in raw.lower():
            try:
                json.dumps(line, ensure_ascii=False).encode()
            except UnicodeEncodeError:
                self._impurity = "a text with half a surrogate pair"
        return line, self._impurity

    def _constant(self, text: str) -> None:
        self._impurity = f"{text} is not finite"

    def _integer(self, text: str) -> int:
        if len(text) > INTEGER_DIGITS:
            self._impurity = f"an integer of {len(text)} digits (at most {INTEGER_DIGITS})"
            return 0
        return int(text)

    def _float(self, text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            self._impurity = f"{text[:20]} is not finite"
        return value
