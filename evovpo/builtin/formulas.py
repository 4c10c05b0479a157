"""The language of the built-in model for numeric rules: one expression over one to four numbers.

Formulas are Python text over the names in `ARGUMENTS`: arithmetic, `abs`, `min`, `max`, powers with a small
constant exponent, and conditional expressions whose conditions compare values. Here are the canonical form,
the way to and from programs, and random formulas and random changes of one, which is all that the
model is pretrained on: both are general, and neither knows any problem.

Left out: loops, assignments, functions of `math`, comparisons as values.
"""

from __future__ import annotations

import ast
import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple, TypeVar

from evovpo.errors import ConfigError

ARGUMENTS = ("a", "b", "c", "d")
"""The names that inputs have in a formula, in order; programs have the problem's own names."""
MAX_NODES = 60
"""Largest formula that is read, in values and conditions."""
MAX_EXPONENT = 4
"""Largest exponent that is read: towers of powers would take a program's whole time limit."""

_T = TypeVar("_T")
_BINARY: dict[type[ast.operator], int] = {
    ast.Add: 5, ast.Sub: 5, ast.Mult: 4, ast.Div: 2, ast.FloorDiv: 1, ast.Mod: 2,
}  # fmt: skip
"""Operators with the weight that the sampler gives them."""
_COMPARISONS: dict[type[ast.cmpop], int] = {
    ast.Lt: 4, ast.LtE: 3, ast.Gt: 4, ast.GtE: 3, ast.Eq: 1, ast.NotEq: 1,
}  # fmt: skip
_KINDS = {
    "binary": (3, 60),
    "if": (6, 22),
    "extreme": (3, 8),
    "abs": (2, 3),
    "minus": (2, 3),
    "power": (2, 4),
}
"""Kinds of inner nodes: fewest nodes, weight."""
_EXPONENTS = (2, 2, 3, 0.5)
_FUNCTIONS = {"abs": (1, 1), "min": (2, 4), "max": (2, 4)}
"""Fewest and most arguments of what a formula may call."""
_CONSTANT = re.compile(r"\d{1,6}|\d{1,4}\.\d{1,3}")
_NAMES: dict[str, object] = {"__builtins__": {"abs": abs, "min": min, "max": max}}
_LONGEST_TEXT = 1000
_PROBES = 5
_LARGEST_PROBE = 200
_TRIES = 200


# ---------------------------------------------------------------- texts and programs


def canonical(text: str, inputs: int = len(ARGUMENTS)) -> str | None:
    """Return the one way to write a formula over the first `inputs` arguments, or none if it is not one."""
    tree = _parse(text.strip())
    return None if tree is None or not _is_formula(tree, ARGUMENTS[:inputs]) else ast.unparse(tree)


def to_source(formula: str, entry: str, parameters: Sequence[str]) -> str:
    """Return a program whose function `entry` returns a canonical formula of its parameters."""
    tree = ast.parse(formula, mode="eval").body
    text = ast.unparse(_renamed(tree, dict(zip(ARGUMENTS, parameters, strict=False))))
    return f"def {entry}({', '.join(parameters)}):\n    return {text}\n"


def from_source(source: str, entry: str) -> str | None:
    """Return the canonical formula that a program's function `entry` returns, or none if it does more."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = [node for node in body if not _is_docstring(node)]
    if len(found) != 1 or not isinstance(found[0], ast.FunctionDef) or found[0].name != entry:
        return None
    function = found[0]
    lines = [node for node in function.body if not _is_docstring(node)]
    takes, names = function.args, [argument.arg for argument in function.args.args]
    has_more = takes.posonlyargs or takes.kwonlyargs or takes.vararg or takes.kwarg or takes.defaults
    if has_more or function.decorator_list or not 1 <= len(names) <= len(ARGUMENTS) or len(lines) != 1:
        return None
    returned = lines[0].value if isinstance(lines[0], ast.Return) else None
    if returned is None or not _is_formula(returned, names):
        return None
    return ast.unparse(_renamed(returned, dict(zip(names, ARGUMENTS, strict=False))))


def function_of(formula: str) -> Callable[..., object]:
    """Return a function of four numbers that computes a canonical formula, in this process.

    What `canonical` lets through can neither call nor reach anything but arithmetic; it may raise
    `ArithmeticError` or `TypeError` (complex numbers are not compared), and may take long for large powers of
    large numbers.
    """
    found: Callable[..., object] = eval(f"lambda a, b=1, c=1, d=1: {formula}", dict(_NAMES))
    return found


def _parse(text: str) -> ast.expr | None:
    if len(text) > _LONGEST_TEXT:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_formula(tree: ast.expr, names: Sequence[str]) -> bool:
    return len(list(_values(tree))) <= MAX_NODES and _is_value(tree, names)


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
            return type(op) in _BINARY and _is_value(left, names) and _is_value(right, names)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _is_condition(test, names) and _is_value(body, names) and _is_value(orelse, names)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            fewest, most = _FUNCTIONS[name]
            return fewest <= len(arguments) <= most and all(_is_value(item, names) for item in arguments)
    return False


def _is_condition(node: ast.expr, names: Sequence[str]) -> bool:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return type(op) in _COMPARISONS and _is_value(left, names) and _is_value(right, names)
        case ast.BoolOp(values=parts):
            return all(_is_condition(part, names) for part in parts)
    return False


def _values(tree: ast.expr) -> Iterator[ast.expr]:
    """Yield all values and conditions of a formula; names of functions are none."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return (node for node in ast.walk(tree) if isinstance(node, ast.expr) and id(node) not in called)


def _renamed(tree: ast.expr, names: dict[str, str]) -> ast.expr:
    """Return a copy with other names for arguments; `abs`, `min` and `max` keep theirs."""
    tree = copy.deepcopy(tree)
    for node in _values(tree):
        if isinstance(node, ast.Name):
            node.id = names[node.id]
    return tree


# ---------------------------------------------------------------- random formulas


class FormulaSampler:
    """Draws formulas over `inputs` numbers and changes of formulas, from the generator `rng`.

    All that is returned is canonical, uses an argument, and gives a finite number for some random whole
    numbers. Raises `ConfigError` for another number of inputs than 1 to 4.
    """

    def __init__(self, rng: Random, inputs: int) -> None:
        if not 1 <= inputs <= len(ARGUMENTS):
            raise ConfigError(f"formulas have 1 to {len(ARGUMENTS)} inputs, found {inputs}; use fewer")
        self._rng = rng
        self._inputs = inputs
        self._names = ARGUMENTS[:inputs]

    def formula(self) -> str:
        """Return a random formula; half have at most seven nodes, few more than twenty."""
        while True:
            nodes = min(3 + int(self._rng.expovariate(1 / 6)), 30)
            text = self._usable(self._value(nodes))
            if text is not None:
                return text

    def mutant(self, formula: str) -> str:
        """Return a canonical formula changed in one or two places, and not the same."""
        for _ in range(_TRIES):
            tree = ast.parse(formula, mode="eval").body
            for _ in range(self._rng.choice((1, 1, 2))):
                tree = self._changed(tree)
            text = self._usable(tree)
            if text is not None and text != formula:
                return text
        return self.formula()

    def _usable(self, tree: ast.expr) -> str | None:
        """Return the text of a formula if it is one worth having."""
        text = canonical(ast.unparse(ast.fix_missing_locations(tree)), self._inputs)
        if text is None or not any(isinstance(node, ast.Name) for node in _values(tree)):
            return None
        function = function_of(text)
        for _ in range(_PROBES):
            try:
                value = function(*(self._rng.randint(1, _LARGEST_PROBE) for _ in self._names))
                if not isinstance(value, int | float) or not math.isfinite(value):
                    return None
            except (ArithmeticError, TypeError):  # the latter for complex numbers, which have no order
                return None
        return text

    def _value(self, nodes: int) -> ast.expr:
        """Return a random value of about so many nodes."""
        if nodes <= 1:
            return self._leaf()
        kinds = {kind: weight for kind, (fewest, weight) in _KINDS.items() if nodes >= fewest}
        match self._drawn(kinds):
            case "binary":
                left, right = self._shares(nodes - 1, 2)
                return ast.BinOp(self._value(left), self._drawn(_BINARY)(), self._value(right))
            case "if":
                test, body, orelse = self._shares(nodes - 1, 3)
                return ast.IfExp(self._condition(test), self._value(body), self._value(orelse))
            case "extreme":
                left, right = self._shares(nodes - 1, 2)
                return _call(self._rng.choice(("min", "max")), self._value(left), self._value(right))
            case "abs":
                return _call("abs", self._value(nodes - 1))
            case "minus":
                return ast.UnaryOp(ast.USub(), self._value(nodes - 1))
            case _:
                exponent = ast.Constant(self._rng.choice(_EXPONENTS))
                return ast.BinOp(self._value(nodes - 1), ast.Pow(), exponent)

    def _condition(self, nodes: int) -> ast.expr:
        if nodes >= 7 and self._rng.random() < 0.3:
            parts = self._shares(nodes - 1, 2)
            joined = self._rng.choice((ast.And, ast.Or))()
            return ast.BoolOp(joined, [self._condition(part) for part in parts])
        left, right = self._shares(max(nodes - 1, 2), 2)
        return ast.Compare(self._value(left), [self._drawn(_COMPARISONS)()], [self._value(right)])

    def _leaf(self) -> ast.expr:
        if self._rng.random() < 0.62:
            return ast.Name(self._rng.choice(self._names))
        return ast.Constant(self._number())

    def _number(self) -> int | float:
        """Return a constant: most are small whole numbers, some larger, some with one decimal."""
        draw = self._rng.random()
        if draw < 0.5:
            return self._rng.randint(1, 10)
        if draw < 0.8:
            return round(math.exp(self._rng.uniform(0.0, math.log(300))))
        return round(self._rng.uniform(0.1, 9.9), 1)

    def _shares(self, nodes: int, parts: int) -> list[int]:
        """Return random sizes of parts, at least 1 each."""
        cuts = [self._rng.random() + 0.1 for _ in range(parts)]
        spare = max(nodes - parts, 0)
        return [1 + round(spare * cut / sum(cuts)) for cut in cuts]

    def _drawn(self, weights: Mapping[_T, int]) -> _T:
        return self._rng.choices(list(weights), list(weights.values()))[0]

    def _changed(self, tree: ast.expr) -> ast.expr:
        """Return `tree` with one place changed; it may be changed itself."""
        match self._rng.choices(("redraw", "number", "swap", "wrap", "lift"), (35, 25, 15, 15, 10))[0]:
            case "number":
                return self._with_number(tree)
            case "swap":
                return self._with_swap(tree)
            case "redraw":
                return _put(self._place(tree), self._value(self._rng.choice((1, 1, 3, 3, 5, 7))))
            case "wrap":
                return self._wrapped(tree)
            case _:
                place = self._place(tree)
                inner = [value for value in _values(place.node) if not _is_test(value)]
                return _put(place, self._rng.choice(inner))

    def _place(self, tree: ast.expr) -> _Place:
        return self._rng.choice(_places(tree))

    def _with_number(self, tree: ast.expr) -> ast.expr:
        """Return the formula with one constant moved a little, scaled, or drawn anew."""
        numbers = [node for node in _values(tree) if isinstance(node, ast.Constant)]
        if numbers:
            number = self._rng.choice(numbers)
            value = float(str(number.value))
            found = self._rng.choice(
                (
                    value + self._rng.choice((-1, 1)) * (0.1 if value < 3 and value % 1 else 1),
                    value + self._rng.randint(-10, 10),
                    value * 2,
                    value / 2,
                    self._number(),
                )
            )
            found = max(round(found, 1), 0.0)
            number.value = int(found) if found == int(found) else found
        return tree

    def _with_swap(self, tree: ast.expr) -> ast.expr:
        """Return the formula with one operator, comparison or argument put in place of another."""
        inner = [node for node in _values(tree) if isinstance(node, ast.BinOp | ast.Compare | ast.Name)]
        if inner:
            match self._rng.choice(inner):
                case ast.Name() as name:
                    name.id = self._rng.choice(self._names)
                case ast.BinOp(op=op) as node if not isinstance(op, ast.Pow):
                    node.op = self._drawn(_BINARY)()
                case ast.Compare() as node:
                    node.ops = [self._drawn(_COMPARISONS)()]
        return tree

    def _wrapped(self, tree: ast.expr) -> ast.expr:
        """Return the formula with one value made part of a new operation."""
        place = self._place(tree)
        other = self._value(self._rng.choice((1, 1, 3, 5)))
        pair = [place.node, other]
        self._rng.shuffle(pair)
        match self._rng.choices(("binary", "if", "extreme"), (5, 4, 1))[0]:
            case "binary":
                return _put(place, ast.BinOp(pair[0], self._drawn(_BINARY)(), pair[1]))
            case "if":
                return _put(place, ast.IfExp(self._condition(3), pair[0], pair[1]))
            case _:
                return _put(place, _call(self._rng.choice(("min", "max")), pair[0], pair[1]))


class _Place(NamedTuple):
    """A value in a formula, and how to put another in its place."""

    root: ast.expr
    node: ast.expr
    above: ast.AST | None
    """None for the formula itself."""
    field: str
    position: int | None
    """In that field, if it is a list."""


def _places(tree: ast.expr) -> list[_Place]:
    """Return the places of all values that may be replaced: not conditions, exponents or functions."""
    found = [_Place(tree, tree, None, "", None)]
    for above in ast.walk(tree):
        for field, value in ast.iter_fields(above):
            is_fixed = field == "func" or (field == "right" and isinstance(above.op, ast.Pow))  # type: ignore[attr-defined]
            if is_fixed:
                continue
            if isinstance(value, ast.expr) and not _is_test(value):
                found.append(_Place(tree, value, above, field, None))
            elif isinstance(value, list):
                found += [
                    _Place(tree, item, above, field, index)
                    for index, item in enumerate(value)
                    if isinstance(item, ast.expr) and not _is_test(item)
                ]
    return found


def _put(place: _Place, node: ast.expr) -> ast.expr:
    """Return the formula with `node` in a place; the formula is changed, `node` is copied."""
    node = copy.deepcopy(node)
    if place.above is None:
        return node
    if place.position is None:
        setattr(place.above, place.field, node)
    else:
        getattr(place.above, place.field)[place.position] = node
    return place.root


def _is_test(node: ast.expr) -> bool:
    return isinstance(node, ast.Compare | ast.BoolOp)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name), list(arguments), [])
