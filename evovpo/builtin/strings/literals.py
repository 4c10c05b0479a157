"""Draws the constants of random string expressions: literals and positions."""

import re
from collections import Counter
from collections.abc import Sequence
from random import Random

from evovpo.builtin.strings.grammar import Tree

SEPARATORS = (" ", "-", "_", ".", "/", ",", ", ", ":", ";", "|", "(", ")", "@", "#", " - ")
OTHER_LITERALS = (
    "", ". ", ": ", "+", "$", "%", "&", '"', "'", "=", "<", ">", "[", "]", "0", "1", "!", "?", "*", "\\",
    "x", "A", "00", "0.", "N/A", "No. ", "Mr. ", "Dr. ", "www.", "https://", ".com", " (", "€", "+1 ",
)  # fmt: skip
_WORD = re.compile(r"[^\W\d_]{2,}|\d{2,}")


class Literals:
    """Draws random leaves of expression trees. `rows` has N rows of argument strings."""

    def __init__(self, rng: Random, rows: Sequence[Sequence[str]]) -> None:
        self.rng = rng
        self.arguments = len(rows[0])
        joined = "\x00".join(text for row in rows for text in row)
        self._present = [s for s in SEPARATORS if s in joined] or [" "]
        self._shared = shared_words(rows)

    def argument(self) -> Tree:
        return ("arg", self.rng.randrange(self.arguments))

    def literal(self) -> Tree:
        """Return a literal to search for in an input, mostly a separator that occurs in the inputs."""
        draw = self.rng.random()
        if self._shared and draw < 0.16:
            word = self.rng.choice(self._shared)
            if self.rng.random() < 0.25:
                word = self.rng.choice((word + " ", " " + word, word + ".", word + "-", word + ":"))
            return ("lit", word)
        if draw < 0.90:
            return ("lit", self.rng.choice(self._present))
        return ("lit", self.rng.choice(SEPARATORS + OTHER_LITERALS[1:]))

    def glue(self) -> Tree:
        """Return a literal for a part of an output: a separator, a short text, or sometimes made-up words."""
        draw = self.rng.random()
        if draw < 0.62:
            return ("lit", self.rng.choice(SEPARATORS))
        if draw < 0.74:
            return ("lit", "")
        if draw < 0.86:
            return ("lit", self.rng.choice(OTHER_LITERALS))
        words = [self._made_up() for _ in range(self.rng.choices((1, 2, 3), (6, 2, 1))[0])]
        before = self.rng.choice(("", " ", "", "(", "-", ", "))
        return ("lit", before + " ".join(words) + self.rng.choice(("", " ", ": ", ".", "-", ")", ", ")))

    def _made_up(self) -> str:
        letters = "".join(self.rng.choice("aeiouaeiobcdfghklmnprstvw") for _ in range(self.rng.randint(1, 7)))
        return self.rng.choice(
            (letters, letters, letters.capitalize(), letters.upper()[:4], str(self.rng.randint(1, 99)))
        )

    def index(self) -> Tree:
        return ("int", self.rng.choices((0, 1, 2, 3, -1, -2, -3), (6, 5, 3, 1.5, 5, 2, 1))[0])

    def bound(self) -> Tree:
        values = (1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5)
        return ("int", self.rng.choices(values, (8, 6, 5, 4, 2, 1, 1, 1, 4, 3, 2, 2, 0.7))[0])


def shared_words(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return words and numbers of at least two characters that occur in at least two of `rows`."""
    counts = Counter(word for row in rows for word in {word for text in row for word in _WORD.findall(text)})
    return sorted(word for word, count in counts.items() if count >= 2)
