"""The format of the built-in model for numeric rules: the text that it reads and writes, and its vocabulary.

Prompt: how many answers are wanted, how many inputs there are, and optionally a parent formula with its
reward vector, one digit a component. Completion: a chain of formulas between `⟦sep⟧` marks, closed by
`⟦end⟧`. The marks with ids 0 to 3, and how a chain is cut, are those of `evovpo.builtin.chain`.
"""

import re
from collections.abc import Sequence

from evovpo.builtin.chain import BEGIN, END, MAX_ANSWERS, PAD, SEPARATOR, ChainFormat
from evovpo.builtin.formulas.language import ARGUMENTS, canonical, from_source, to_source
from evovpo.prompts.request import Request
from evovpo.types import Message, Problem, Program

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


_INPUT = re.compile(rf"\b[{''.join(ARGUMENTS)}]\b")


def formula_fault(problem: Problem) -> str:
    """Return why the format for numeric rules does not fit `problem`; empty if it does.

    Nothing in a problem with a scorer says that its inputs are numbers, so a starting program has to: one
    that calculates with them, in one formula.
    """
    if problem.is_by_example:
        return "it has examples instead of a scorer"
    if problem.evaluator is not None:
        return "it has an evaluator of its own"
    if not 1 <= len(problem.parameters) <= len(ARGUMENTS):
        return f"it has {len(problem.parameters)} inputs; 1 to {len(ARGUMENTS)} fit"
    if {"abs", "min", "max"} & set(problem.parameters):
        return "an input is named abs, min or max, names that formulas use"
    if len(problem.objectives) > MAX_COMPONENTS:
        return f"it has {len(problem.objectives)} objectives; at most {MAX_COMPONENTS} fit"
    formulas = [from_source(program.source, problem.entry) or "" for program in problem.seeds]
    if not any(len(formula) > 1 and _INPUT.search(formula) for formula in formulas):
        return "no starting program is a formula of its inputs, such as 'return item - remaining'"
    return ""


class FormulaFormat(ChainFormat):
    """A parent formula and its rewards in steps of a tenth in, a chain of formulas out."""

    model = "the built-in model for numeric rules"
    fault = staticmethod(formula_fault)
    read = staticmethod(from_source)

    @staticmethod
    def program(text: str, problem: Problem) -> Program | None:
        formula = canonical(text, len(problem.parameters))
        return None if formula is None else Program(to_source(formula, problem.entry, problem.parameters))

    def messages(self, problem: Problem, request: Request) -> tuple[Message, ...]:
        """Return one message; a parent with its rewards is all that has a place in this format."""
        formula, levels = None, []
        if request.parent is not None:
            formula = from_source(request.parent.program.source, problem.entry)
            levels = [level(reward) for reward in request.parent.evaluation.rewards or ()]
        text = encode_prompt(request.answers, len(problem.parameters), formula, levels)
        return (Message("user", text),)
