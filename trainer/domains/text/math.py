r"""Mathematics: problems whose final answer is written in `\boxed{}`, as in GSM8K, MATH and sets from them.

Components, ours: *answer*, 1 if it equals the given one symbolically (sympy); *steps*, the share of the sums
before it (`3*4 = 12`) that are right, of two at least; *format*, 1 if nothing follows the box; *length*, for
a right answer 1 up to 150 words, then less in proportion. Read: `problem` or `question`, and `answer` (of
GSM8K what follows `####`) or a `solution` with its box.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import sympy
from pydantic import AliasChoices, BaseModel, Field

from evovpo.errors import AnswerError, ProblemError
from evovpo.judging.measure import JudgedAnswer
from trainer.domains.domain import Domain, Row
from trainer.domains.text.answers import asked, by_vector, chat, text_domain
from trainer.domains.text.rows import read_rows

MAX_TOKENS = (1024, 2048)
COMPONENTS = ("answer", "steps", "format", "length")
_WORDS, _FEWEST_STEPS, _LONGEST, _MOST_POWERS = 150, 2, 120, 3
_FORM = r"the steps as sums such as 3*4 = 12, then the final answer in \boxed{}"
_PLAIN = ((r"\\(cdot|times)|[×·]", "*"), (r"(?<=\d),(?=\d{3}(?!\d))", ""))
_LATEX = (
    *_PLAIN,
    (r"\\(left|right|[,!;: ])|\\?[$%]|^\s*[a-z]\s*=", ""),
    (r"\\(text|mathrm)\{[^{}]*\}", " "),
    (r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1)/(\2))"),
    (r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)"),
    (r"\^\{([^{}]*)\}", r"**(\1)"),
    (r"\^", "**"),
    (r"\\(pi|sin|cos|tan|log|ln)", r"\1"),
    (r"(?<=[\d)])\s*(?=[a-z(])|(?<=\b[a-z])(?=\()", "*"),
)
_ARITHMETIC = re.compile(
    r"(?:\d++(?:\.\d++)?|\.\d++|\b(?:sqrt|sin|cos|tan|log|ln|pi|[a-zA-Z])\b|[-+/(), ]|(?<!\*)\*(?! *\*)"
    r"|\*\*(?:-?(?:1?\d|20|[a-z])|\(-?(?:\d?\*?[a-z]|1?\d|20)(?:[-+/](?:1?\d|20|[a-z]))?\))"
    r"(?! *\*\*|\d))*"
)
"""Numbers, known functions, single letters, and powers with small exponents: sympy runs what it reads."""


class _Problem(BaseModel):
    problem: str = Field(validation_alias=AliasChoices("problem", "question"))
    answer: str | int | float | None = None
    solution: str = ""


def open_file(data: Path, answers: int) -> Domain:
    """Return the domain of a file; raises `ProblemError` for a row without a final answer."""
    prompts = []
    for number, row in enumerate(read_rows(data, _Problem), 1):
        is_given = row.answer not in (None, "")
        gold = str(row.answer).rpartition("####")[2].strip() if is_given else _boxed(row.solution)
        if not gold:
            raise ProblemError(f"{data}: row {number}: expected an answer or a solution with \\boxed{{}}")
        prompts.append(chat(f"{row.problem}\n\n{asked(_FORM, answers)}") | {"gold": gold})
    return text_domain("math", COMPONENTS, answers, prompts, _read, MAX_TOKENS)


def _boxed(text: str) -> str:
    r"""Return what the last `\boxed{}` holds, inner braces matched; empty if there is none."""
    inner, depth = text.rpartition("\\boxed{")[2] * ("\\boxed{" in text), 1
    for place, letter in enumerate(inner):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return inner[:place].strip()
    return ""


def _read(text: str, row: Row) -> JudgedAnswer:
    final, (before, _, after) = _boxed(text), text.partition("\\boxed{")
    if not final or "\\boxed" in after:
        raise AnswerError("it has no closed and filled \\boxed{}, or more than one")
    sums = [is_equal(*pair) for pair in _sums(before)]
    is_last = not after.partition(final)[2].strip(" \n\t}$.*\\)]")
    answer = float(is_equal(final, row["gold"]))
    steps = sum(sums) / max(_FEWEST_STEPS, len(sums))
    return by_vector((answer, steps, float(is_last), answer * min(1.0, _WORDS / len(text.split()))))


def _sums(text: str) -> list[tuple[str, str]]:
    """Return both sides of the sums of numbers in a text."""
    found = []
    for left, right in pairwise(_replaced(text, _PLAIN).split("=")):
        term = re.search(r"[\d(](?:[\d+\-*/() ]|\.\d)*\Z", left[-60:])
        value = re.match(r"\s*-?\d+(\.\d+)?", right)
        if term and value and re.search(r"\d\s*[+\-*/]", term[0]):
            found.append((term[0], value[0]))
    return found


@lru_cache(maxsize=4096)
def is_equal(found: str, gold: str) -> bool:
    """True if two answers, in LaTeX or plain, are the same text or symbolically equal."""
    if found.split() == gold.split():
        return True
    try:
        ours, theirs = _expression(found), _expression(gold)
        if isinstance(ours, tuple) or isinstance(theirs, tuple):
            return bool(ours == theirs)
        # At one point first: an answer made to be hard is seldom near.
        symbols = sorted((ours - theirs).free_symbols, key=str)
        points = {one: sympy.Rational(37 + 11 * place, 100) for place, one in enumerate(symbols)}
        is_near = abs(complex((ours - theirs).evalf(15, subs=points))) < 1e-9
        return is_near and bool(sympy.simplify(sympy.expand(ours - theirs)) == 0)
    except (ArithmeticError, AttributeError, MemoryError, RuntimeError, TypeError, ValueError):
        return False


def _expression(text: str) -> Any:
    """Return a text as a sympy expression; raises `ValueError` (also `SympifyError`) if it is not one."""
    # Twice, for fractions within fractions; on one line, because sympy reads lines as one number.
    text = " ".join(_replaced(text, (*_LATEX, *_LATEX)).split())
    if len(text) > _LONGEST or text.count("**") > _MOST_POWERS or not _ARITHMETIC.fullmatch(text):
        raise ValueError(f"{text:.40} is no arithmetic")
    letters = {letter: sympy.Symbol(letter) for letter in re.findall(r"\b[a-zA-Z]\b", text)}
    return sympy.sympify(text, locals=letters, rational=True)


def _replaced(text: str, replacements: Iterable[tuple[str, str]]) -> str:
    for pattern, replacement in replacements:
        text = re.sub(pattern, replacement, text)
    return text
