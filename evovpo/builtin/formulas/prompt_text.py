"""The text that the built-in model for numeric rules reads and writes, and its vocabulary.

Prompt: how many answers are wanted, how many inputs there are, and optionally a parent formula with its
reward vector, one digit a component. Completion: a chain of formulas between `⟦sep⟧` marks, closed by
`⟦end⟧`. The marks with ids 0 to 3, and how a chain is cut, are those of `evovpo.builtin.chain`.
"""

import re
from collections.abc import Sequence

from evovpo.builtin.chain import BEGIN, END, MAX_ANSWERS, PAD, SEPARATOR
from evovpo.builtin.formulas.language import ARGUMENTS

MAX_COMPONENTS = 16
"""Longest reward vector that a prompt shows."""
LEVELS = 10
"""Steps in which a reward is shown: 0 for less than 0.1, 9 for 0.9 and more."""
UNKNOWN, _PARENT, _OUT = "⟦unk⟧", "⟦par⟧", "⟦out⟧"
_PIECES = (
    " + ", " - ", " * ", " / ", " // ", " % ", " ** ", " < ", " <= ", " > ", " >= ", " == ", " != ", " if ",
    " else ", " and ", " or ", "abs(", "min(", "max(", ", ", "(", ")", "-", ".", *ARGUMENTS,
    *(str(digit) for digit in range(10)),
)  # fmt: skip


def vocabulary() -> list[str]:
    """Return all tokens in the order of their ids: marks, then pieces of formulas."""
    return [
        *(PAD, BEGIN, END, SEPARATOR, UNKNOWN, _PARENT, _OUT),
        *(f"⟦m{answers}⟧" for answers in range(1, MAX_ANSWERS + 1)),
        *(f"⟦n{inputs}⟧" for inputs in range(1, len(ARGUMENTS) + 1)),
        *(f"⟦r{level}⟧" for level in range(LEVELS)),
        *_PIECES,
    ]


TOKEN_PATTERN = "⟦[^⟦⟧]*⟧|" + "|".join(re.escape(piece) for piece in sorted(_PIECES, key=len, reverse=True))
"""Regular expression whose successive matches are the tokens of a text; all else is unknown."""


def encode_prompt(
    answers: int,
    inputs: int,
    parent: str | None = None,
    levels_D: Sequence[int] = (),  # noqa: N803
) -> str:
    """Return the prompt for `answers` formulas over `inputs` numbers.

    `parent` is a canonical formula and `levels_D` its rewards in steps, D of them, at most `MAX_COMPONENTS`.
    """
    shown = "" if parent is None else _PARENT + parent + "".join(f"⟦r{level}⟧" for level in levels_D)
    return f"⟦m{answers}⟧⟦n{inputs}⟧{shown}{_OUT}"


def level(reward: float) -> int:
    """Return the step of a reward in [0, 1]."""
    return min(int(reward * LEVELS), LEVELS - 1)
