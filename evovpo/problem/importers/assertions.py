"""Parses `assert f(1, 2) == 3` into arguments and the expected result, without running code.

Nothing of a file is executed: both sides of a comparison are evaluated over literals, a few operators and a
few harmless functions. An assertion that needs more, for example a test on random inputs, is refused with a
reason.
"""

import ast
import builtins
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from evovpo.problem.importers.tasks import Case, OutputComparison, UnusableTaskError, as_json
from evovpo.types import Json

_MOST_ITEMS = 100_000
"""Longest text or list that evaluating a test may make, and largest exponent times bits."""
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_CONTAINERS: dict[type[ast.expr], type] = {ast.List: list, ast.Tuple: tuple, ast.Set: set}
_FUNCTIONS = ("tuple", "list", "set", "sorted", "float", "int", "str", "len", "abs", "round", "range")
_VIEWS = {"set": OutputComparison.SET, "sorted": OutputComparison.SORTED}
"""Functions around the call that compare lists otherwise; tuples are lists here."""
_OTHERWISE = "the test compares by something else than ==, or a difference with <"


class Signature(NamedTuple):
    """A function's parameters, with the values of those that have one."""

    name: str
    parameters: tuple[str, ...]
    defaults: Mapping[str, object]


class ReadTests(NamedTuple):
    """The tests read from a body of test code."""

    tests: list[Case]
    left_out: list[str]
    """One reason for each assertion that could not be used."""


def parse(source: str) -> ast.Module:
    """Return the syntax tree of a file's Python; raises `UnusableTaskError`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes in others' texts are nobody's concern here
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnusableTaskError(f"no Python: {error}") from error


def signature(source: str, name: str) -> Signature:
    """Return the signature of function `name` of a program; raises `UnusableTaskError` if there is none."""
    for node in parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            if node.args.vararg or node.args.kwarg or node.args.kwonlyargs:
                raise UnusableTaskError(f"{name} takes any number of arguments")
            names = tuple(argument.arg for argument in (*node.args.posonlyargs, *node.args.args))
            values = [value_of(value, {}) for value in node.args.defaults]
            return Signature(name, names, dict(zip(reversed(names), reversed(values), strict=False)))
    raise UnusableTaskError(f"no function {name} in the program")


def read_tests(body: Sequence[ast.stmt], called: str, function: Signature) -> ReadTests:
    """Return the tests of the assertions in `body`, in which the function goes by the name `called`.

    Assignments of values are followed; loops and other statements are not, so the assertions in them are
    left out.
    """
    found = ReadTests([], [])
    reader = _AssertReader(called, function, {})
    for statement in body:
        match statement:
            case ast.Assert(test=ast.Constant(value=value)) if value:
                continue  # `assert True` says nothing
            case ast.Assert(test=test):
                try:
                    found.tests.append(reader.test(test))
                except UnusableTaskError as error:
                    found.left_out.append(str(error))
            case ast.Assign(targets=targets) if all(isinstance(target, ast.Name) for target in targets):
                for name in map(_name, targets):
                    reader.known.pop(name, None)
                    try:
                        reader.known[name] = reader.value(statement.value)
                    except UnusableTaskError:
                        continue  # an assertion that needs it will say so
            case ast.Import() | ast.ImportFrom() | ast.Expr() | ast.Pass():
                continue
            case _:
                count = sum(isinstance(node, ast.Assert) for node in ast.walk(statement))
                found.left_out.extend(["the test is computed in a loop or a branch"] * count)
    return found


class _AssertReader(NamedTuple):
    called: str
    function: Signature
    known: dict[str, object]
    """Names that values were assigned to."""

    def value(self, node: ast.expr) -> Any:
        return value_of(node, self.known)

    def test(self, node: ast.expr) -> Case:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=call):
                return Case(self.arguments(call), False)
            case ast.Call(func=function) if _name(function) in ("isclose", "math.isclose"):
                return self.is_close(node)
            case ast.Call():
                return Case(self.arguments(node), True)
            case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE()], comparators=[bound]):
                return self.is_near(left, self.value(bound))
            case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
                return self.is_equal(*self.call_first(left, right))
            case ast.Compare(ops=[_]):
                raise UnusableTaskError(_OTHERWISE)
        raise UnusableTaskError("the test is no single comparison")

    def is_equal(self, left: ast.expr, right: ast.expr) -> Case:
        comparison, wanted = OutputComparison.EQUAL, self.value(right)
        match left:
            case ast.Call(
                func=ast.Name(id="set" | "sorted" | "list" | "tuple" as view), args=[call], keywords=[]
            ):
                comparison, left = _VIEWS.get(view, OutputComparison.EQUAL), call
        if comparison is OutputComparison.SET and isinstance(wanted, set):
            # In a fixed order, because what is written must be the same each time.
            wanted = sorted(wanted, key=repr)
        return Case(self.arguments(left), as_json(wanted), comparison)

    def is_near(self, left: ast.expr, bound: object) -> Case:
        """Return the test of `abs(f(x) - wanted) < bound`."""
        match left:
            case ast.Call(func=function, args=[ast.BinOp(left=one, op=ast.Sub(), right=other)]):
                if _name(function) in ("abs", "math.fabs") and isinstance(bound, int | float):
                    call, wanted = self.call_first(one, other)
                    arguments, number = self.arguments(call), as_json(self.value(wanted))
                    return Case(arguments, number, OutputComparison.CLOSE, float(bound))
        raise UnusableTaskError(_OTHERWISE)

    def is_close(self, node: ast.Call) -> Case:
        """Return the test of `math.isclose(f(x), wanted, rel_tol=...)`, relative to the wanted number."""
        tolerances: dict[str | None, Any] = {"rel_tol": 1e-9, "abs_tol": 0.0}  # as in Python's library
        tolerances |= {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        if len(node.args) != 2 or len(tolerances) > 2:
            raise UnusableTaskError("isclose has other arguments than two numbers and their tolerances")
        call, other = self.call_first(*node.args)
        wanted: Any = as_json(self.value(other))
        if not all(isinstance(number, int | float) for number in (wanted, *tolerances.values())):
            raise UnusableTaskError("isclose compares something else than numbers")
        tolerance = max(float(tolerances["rel_tol"]) * abs(wanted), float(tolerances["abs_tol"]))
        return Case(self.arguments(call), wanted, OutputComparison.CLOSE, tolerance)

    def call_first(self, left: ast.expr, right: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Return the side with the call, then the other; as they are where none or both have it."""
        return (right, left) if self.mentions(right) and not self.mentions(left) else (left, right)

    def mentions(self, node: ast.expr) -> bool:
        return any(isinstance(part, ast.Name) and part.id == self.called for part in ast.walk(node))

    def arguments(self, node: ast.expr) -> tuple[Json, ...]:
        """Return the arguments of a call of the function, in the order of its parameters."""
        if not isinstance(node, ast.Call) or _name(node.func) != self.called:
            raise UnusableTaskError("the test looks at something else than what the function returns")
        parameters = self.function.parameters
        if len(node.args) > len(parameters):
            raise UnusableTaskError("the test calls the function with more arguments than it has")
        given = {**self.function.defaults, **dict(zip(parameters, map(self.value, node.args), strict=False))}
        for keyword in node.keywords:
            if keyword.arg not in parameters:
                raise UnusableTaskError("the test calls the function with an unknown argument")
            given[keyword.arg] = self.value(keyword.value)
        if given.keys() != set(parameters):
            raise UnusableTaskError("the test calls the function with fewer arguments than it has")
        return tuple(as_json(given[parameter]) for parameter in parameters)


def _name(node: ast.expr) -> str:
    """Return the dotted name that an expression is, or nothing."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return f"{module}.{name}"
    return ""


def value_of(node: ast.expr, known: Mapping[str, object]) -> Any:
    """Return the value of an expression over literals and `known` names; raises `UnusableTaskError`."""
    try:
        return _value(node, known)
    except UnusableTaskError:
        raise
    except (TypeError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        raise UnusableTaskError(f"a value in the test cannot be computed: {error}") from error


def _value(node: ast.expr, known: Mapping[str, object]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return _CONTAINERS[type(node)](_value(part, known) for part in parts)
        case ast.Dict(keys=keys, values=values):
            pairs = [(key, value) for key, value in zip(keys, values, strict=True) if key is not None]
            if len(pairs) == len(keys):
                return {_value(key, known): _value(value, known) for key, value in pairs}
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _SIGNS:
            return _SIGNS[type(sign)](_value(operand, known))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            first, second = _value(left, known), _value(right, known)
            _check_size(sign, first, second)
            return _OPERATORS[type(sign)](first, second)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            found = getattr(builtins, name)(*(_value(argument, known) for argument in arguments))
            if isinstance(found, range) and len(found) > _MOST_ITEMS:
                raise UnusableTaskError(f"a range of more than {_MOST_ITEMS:,} numbers")
            return list(found) if isinstance(found, range) else found
    raise UnusableTaskError("the test computes its values")


def _check_size(sign: ast.operator, first: object, second: object) -> None:
    if isinstance(sign, ast.Mult) and isinstance(first, int):
        first, second = second, first
    match sign, first, second:
        case ast.Mod(), str(), _:
            raise UnusableTaskError("a text is formatted")
        case ast.Mult(), str() | list() | tuple(), int() if len(first) * second > _MOST_ITEMS:
            raise UnusableTaskError(f"a value of more than {_MOST_ITEMS:,} items")
        case ast.Pow(), int(), int() if first.bit_length() * abs(second) > _MOST_ITEMS:
            raise UnusableTaskError("a number with too many digits")
