"""The formulas of the built-in model for numeric rules, their prompts and chains as text, and its vocabulary.

Formulas are Python text over the names in `ARGUMENTS`: arithmetic, `abs`, `min`, `max`, powers with a small
constant exponent, and conditional expressions whose conditions compare values. Left out: loops, assignments,
functions of `math`, comparisons as values.

Prompt: how many answers are wanted, how many inputs there are, and optionally a parent formula with its
reward vector, one digit a component. Completion: a chain of formulas between `⟦sep⟧` marks, closed by
`⟦end⟧`. The marks with ids 0 to 3, and how a chain is cut, are those of `evovpo.builtin.chain`.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from evovpo.builtin.chain import BEGIN, END, MAX_ANSWERS, PAD, SEPARATOR, ChainFormat
from evovpo.builtin.functions import Language
from evovpo.prompts.request import Request
from evovpo.types import Message, Problem

ARGUMENTS = ("a", "b", "c", "d")
"""The names that inputs have in a formula, in order; programs have the problem's own names."""
MAX_NODES = 60
"""Largest formula that is read, in values and conditions."""
MAX_EXPONENT = 4
"""Largest exponent that is read: towers of powers would take a program's whole time limit."""

BINARY: dict[type[ast.operator], int] = {
    ast.Add: 5, ast.Sub: 5, ast.Mult: 4, ast.Div: 2, ast.FloorDiv: 1, ast.Mod: 2,
}  # fmt: skip
"""Operators with the weight that the sampler gives them."""
COMPARISONS: dict[type[ast.cmpop], int] = {
    ast.Lt: 4, ast.LtE: 3, ast.Gt: 4, ast.GtE: 3, ast.Eq: 1, ast.NotEq: 1,
}  # fmt: skip
_FUNCTIONS = {"abs": (1, 1), "min": (2, 4), "max": (2, 4)}
"""Fewest and most arguments of what a formula may call."""
_CONSTANT = re.compile(r"\d{1,6}|\d{1,4}\.\d{1,3}")
_NAMES: dict[str, object] = {"__builtins__": {"abs": abs, "min": min, "max": max}}


def function_of(formula: str) -> Callable[..., object]:
    """Return a function of four numbers that computes a canonical formula, in this process.

    What `canonical` lets through can neither call nor reach anything but arithmetic; it may raise
    `ArithmeticError` or `TypeError` (complex numbers are not compared), and may take long for large powers of
    large numbers.
    """
    found: Callable[..., object] = eval(f"lambda a, b=1, c=1, d=1: {formula}", dict(_NAMES))
    return found


def _is_formula(tree: ast.expr, names: Sequence[str]) -> bool:
    is_clear = not _FUNCTIONS.keys() & set(names)
    return is_clear and len(list(values(tree))) <= MAX_NODES and _is_value(tree, names)


def _is_value(node: ast.expr, names: Sequence[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name in names
        case ast.Constant(value=value):
            return type(value) in (int, float) and _CONSTANT.fullmatch(repr(value)) is not None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_value(operand, names)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=exponent)):
            is_small = isinstance(exponent, int | float) and exponent <= MAX_EXPONENT
            return is_small and _is_value(left, names) and _is_value(node.right, names)
        case ast.BinOp(left=left, op=op, right=right):
            return type(op) in BINARY and _is_value(left, names) and _is_value(right, names)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _is_condition(test, names) and _is_value(body, names) and _is_value(orelse, names)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            fewest, most = _FUNCTIONS[name]
            return fewest <= len(arguments) <= most and all(_is_value(item, names) for item in arguments)
    return False


def _is_condition(node: ast.expr, names: Sequence[str]) -> bool:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return type(op) in COMPARISONS and _is_value(left, names) and _is_value(right, names)
        case ast.BoolOp(values=parts):
            return all(_is_condition(part, names) for part in parts)
    return False


def values(tree: ast.expr) -> Iterator[ast.expr]:
    """Yield all values and conditions of a formula; names of functions are none."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return (node for node in ast.walk(tree) if isinstance(node, ast.expr) and id(node) not in called)


FORMULAS = Language(
    ARGUMENTS,
    longest=1000,
    is_passed_over=lambda node: isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant),
    holds=_is_formula,
)


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
    levels_D: Sequence[int] = (),
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
    formulas = [FORMULAS.from_source(program.source, problem.entry) or "" for program in problem.seeds]
    if not any(len(formula) > 1 and _INPUT.search(formula) for formula in formulas):
        return "no starting program is a formula of its inputs, such as 'return item - remaining'"
    return ""


class FormulaFormat(ChainFormat):
    """A parent formula and its rewards in steps of a tenth in, a chain of formulas out."""

    model = "the built-in model for numeric rules"
    language = FORMULAS
    fault = staticmethod(formula_fault)

    def messages(self, problem: Problem, request: Request) -> tuple[Message, ...]:
        """Return one message; a parent with its rewards is all that has a place in this format."""
        formula, levels = None, []
        if request.parent is not None:
            formula = FORMULAS.from_source(request.parent.program.source, problem.entry)
            levels = [level(reward) for reward in request.parent.evaluation.rewards or ()]
        text = encode_prompt(request.answers, len(problem.parameters), formula, levels)
        return (Message("user", text),)
