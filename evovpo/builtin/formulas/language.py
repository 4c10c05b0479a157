"""The formulas of the built-in model for numeric rules: one expression over one to four numbers.

Formulas are Python text over the names in `ARGUMENTS`: arithmetic, `abs`, `min`, `max`, powers with a small
constant exponent, and conditional expressions whose conditions compare values. Here are the canonical form
and the way to and from programs. Left out: loops, assignments, functions of `math`, comparisons as values.
"""

import ast
import functools
import re
from collections.abc import Callable, Iterator, Sequence

from evovpo.builtin.functions import UNREADABLE, parse_expression, read_function, renamed, write_function

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
_LONGEST_TEXT = 1000


def canonical(text: str, inputs: int = len(ARGUMENTS)) -> str | None:
    """Return the one way to write a formula over the first `inputs` arguments, or none if it is not one."""
    text = text.strip()
    try:
        tree = parse_expression(text) if len(text) <= _LONGEST_TEXT else None
    except UNREADABLE:
        return None
    return None if tree is None or not _is_formula(tree, ARGUMENTS[:inputs]) else ast.unparse(tree)


def to_source(formula: str, entry: str, parameters: Sequence[str]) -> str:
    """Return a program whose function `entry` returns a canonical formula of its parameters."""
    return write_function(formula, ARGUMENTS, entry, parameters)


@functools.lru_cache(maxsize=4096)
def from_source(source: str, entry: str) -> str | None:
    """Return the canonical formula that a program's function `entry` returns, or none if it does more."""
    try:
        found = read_function(source, entry, len(ARGUMENTS), _is_docstring)
    except UNREADABLE:
        return None
    if found is None or not _is_formula(*found) or _FUNCTIONS.keys() & set(found[1]):
        return None
    return renamed(*found, ARGUMENTS)


def function_of(formula: str) -> Callable[..., object]:
    """Return a function of four numbers that computes a canonical formula, in this process.

    What `canonical` lets through can neither call nor reach anything but arithmetic; it may raise
    `ArithmeticError` or `TypeError` (complex numbers are not compared), and may take long for large powers of
    large numbers.
    """
    found: Callable[..., object] = eval(f"lambda a, b=1, c=1, d=1: {formula}", dict(_NAMES))
    return found


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_formula(tree: ast.expr, names: Sequence[str]) -> bool:
    return len(list(values(tree))) <= MAX_NODES and _is_value(tree, names)


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
