"""Random formulas and random changes of one: all that the model for numeric rules is pretrained on.

Both are general, and neither knows any problem.
"""

import ast
import copy
import math
from collections.abc import Mapping
from random import Random
from typing import Any, TypeVar

from evovpo.builtin.formulas.format import ARGUMENTS, BINARY, COMPARISONS, FORMULAS, function_of, values
from evovpo.errors import ConfigError

_T = TypeVar("_T")
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
_PROBES = 5
_LARGEST_PROBE = 200
_TRIES = 200


class FormulaSampler:
    """Draws formulas over `inputs` numbers and changes of formulas, from the generator `rng`.

    All that is returned is canonical, uses an argument, and gives a finite number for some random whole
    numbers. Raises `ConfigError` for another number of inputs than 1 to 4.
    """

    def __init__(self, rng: Random, inputs: int) -> None:
        if not 1 <= inputs <= len(ARGUMENTS):
            raise ConfigError(f"formulas have 1 to {len(ARGUMENTS)} inputs, found {inputs}; use fewer")
        self._rng = rng
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
        text = FORMULAS.canonical(ast.unparse(ast.fix_missing_locations(tree)), len(self._names))
        if text is None or not any(isinstance(node, ast.Name) for node in values(tree)):
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
        if nodes <= 1:
            is_name = self._rng.random() < 0.62
            return ast.Name(self._rng.choice(self._names)) if is_name else ast.Constant(self._number())
        kinds = {kind: weight for kind, (fewest, weight) in _KINDS.items() if nodes >= fewest}
        match self._drawn(kinds):
            case "binary":
                left, right = self._shares(nodes - 1, 2)
                return ast.BinOp(self._value(left), self._drawn(BINARY)(), self._value(right))
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
        return ast.Compare(self._value(left), [self._drawn(COMPARISONS)()], [self._value(right)])

    def _number(self) -> int | float:
        """Return a constant: most are small whole numbers, some larger, some with one decimal."""
        draw = self._rng.random()
        if draw < 0.5:
            return self._rng.randint(1, 10)
        if draw < 0.8:
            return round(math.exp(self._rng.uniform(0.0, math.log(300))))
        return round(self._rng.uniform(0.1, 9.9), 1)

    def _shares(self, nodes: int, parts: int) -> list[int]:
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
                place = self._rng.choice(_replaceable(tree))
                return _put(tree, place, self._value(self._rng.choice((1, 1, 3, 3, 5, 7))))
            case "wrap":
                return self._wrapped(tree)
            case _:
                place = self._rng.choice(_replaceable(tree))
                inner = [value for value in values(place) if not _is_test(value)]
                return _put(tree, place, self._rng.choice(inner))

    def _with_number(self, tree: ast.expr) -> ast.expr:
        """Return the formula with one constant moved a little, scaled, or drawn anew."""
        numbers = [node for node in values(tree) if isinstance(node, ast.Constant)]
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
        inner = [node for node in values(tree) if isinstance(node, ast.BinOp | ast.Compare | ast.Name)]
        if inner:
            match self._rng.choice(inner):
                case ast.Name() as name:
                    name.id = self._rng.choice(self._names)
                case ast.BinOp(op=op) as node if not isinstance(op, ast.Pow):
                    node.op = self._drawn(BINARY)()
                case ast.Compare() as node:
                    node.ops = [self._drawn(COMPARISONS)()]
        return tree

    def _wrapped(self, tree: ast.expr) -> ast.expr:
        """Return the formula with one value made part of a new operation."""
        place = self._rng.choice(_replaceable(tree))
        other = self._value(self._rng.choice((1, 1, 3, 5)))
        pair = [place, other]
        self._rng.shuffle(pair)
        match self._rng.choices(("binary", "if", "extreme"), (5, 4, 1))[0]:
            case "binary":
                new: ast.expr = ast.BinOp(pair[0], self._drawn(BINARY)(), pair[1])
            case "if":
                new = ast.IfExp(self._condition(3), *pair)
            case _:
                new = _call(self._rng.choice(("min", "max")), *pair)
        return _put(tree, place, new)


def _put(tree: ast.expr, old: ast.expr, new: ast.expr) -> ast.expr:
    """Return the formula with `new` in place of `old`; the formula is changed, `new` is copied."""

    class Put(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return copy.deepcopy(new) if node is old else self.generic_visit(node)

    changed: ast.expr = Put().visit(tree)
    return changed


def _replaceable(tree: ast.expr) -> list[ast.expr]:
    """Return all values that another may replace: not conditions, exponents or functions."""
    powers = (node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow))
    exponents = {id(node.right) for node in powers}
    return [value for value in values(tree) if id(value) not in exponents and not _is_test(value)]


def _is_test(node: ast.expr) -> bool:
    return isinstance(node, ast.Compare | ast.BoolOp)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name), list(arguments), [])
