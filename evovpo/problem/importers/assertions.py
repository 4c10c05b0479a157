"""`assert f(1, 2) == 3` -> a call as values and what it should return, by reading alone.

Nothing of a file is executed: both sides of a comparison are evaluated over literals, a few operators and a
few harmless functions. An assertion that needs more, for example a test on random inputs, is refused with a
reason.
"""

import ast
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from evovpo.problem.importers.tasks import Case, Comparison, NotJsonError, as_json

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
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tuple": tuple,
    "list": list,
    "set": set,
    "sorted": sorted,
    "float": float,
    "int": int,
    "str": str,
    "len": len,
    "abs": abs,
    "round": round,
    "range": range,
}
_VIEWS = {
    "set": Comparison.SET,
    "sorted": Comparison.SORTED,
    "list": Comparison.EQUAL,
    "tuple": Comparison.EQUAL,
}
"""Functions around the call that compare lists otherwise; tuples are lists here."""
_ISCLOSE_RELATIVE = 1e-9
"""Default of `math.isclose` (the Python library reference)."""


class UnreadableError(ValueError):
    """A test that cannot be turned into values; the message says why."""


class Signature(NamedTuple):
    """A function's parameters, with the values of those that have one."""

    name: str
    parameters: tuple[str, ...]
    defaults: Mapping[str, object]


class ReadTests(NamedTuple):
    """What a body of test code came to."""

    tests: list[Case]
    left_out: list[str]
    """One reason for each assertion that could not be used."""


def parse(source: str) -> ast.Module:
    """Return the syntax tree of a file's Python; raises `UnreadableError`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes in others' texts are nobody's concern here
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(f"no Python: {error}") from error


def signature(source: str, name: str) -> Signature:
    """Return the signature of function `name` of a program; raises `UnreadableError` if there is none."""
    for node in parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            if node.args.vararg or node.args.kwarg or node.args.kwonlyargs:
                raise UnreadableError(f"{name} takes any number of arguments")
            names = tuple(argument.arg for argument in (*node.args.posonlyargs, *node.args.args))
            defaults = {}
            for parameter, value in zip(reversed(names), reversed(node.args.defaults), strict=False):
                defaults[parameter] = value_of(value, {})
            return Signature(name, names, defaults)
    raise UnreadableError(f"no function {name} in the program")


def read_tests(body: Sequence[ast.stmt], called: str, function: Signature) -> ReadTests:
    """Return the tests of the assertions in `body`, in which the function goes by the name `called`.

    Assignments of values are followed; loops and other statements are not, so the assertions in them are
    left out.
    """
    tests: list[Case] = []
    left_out: list[str] = []
    known: dict[str, object] = {}
    for statement in body:
        if isinstance(statement, ast.Assert):
            if isinstance(statement.test, ast.Constant) and statement.test.value:
                continue  # `assert True` says nothing
            try:
                tests.append(_test(statement.test, called, function, known))
            except (UnreadableError, NotJsonError) as error:
                left_out.append(str(error))
        elif isinstance(statement, ast.Assign) and all(
            isinstance(name, ast.Name) for name in statement.targets
        ):
            for target in statement.targets:
                assert isinstance(target, ast.Name)
                known.pop(target.id, None)
                try:
                    known[target.id] = value_of(statement.value, known)
                except UnreadableError:
                    continue  # an assertion that needs it will say so
        elif not isinstance(statement, ast.Import | ast.ImportFrom | ast.Expr | ast.Pass):
            count = sum(isinstance(node, ast.Assert) for node in ast.walk(statement))
            left_out += ["the test is computed in a loop or a branch"] * count
    return ReadTests(tests, left_out)


def _test(node: ast.expr, called: str, function: Signature, known: Mapping[str, object]) -> Case:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return Case(_arguments(node.operand, called, function, known), False)
    if isinstance(node, ast.Call) and _name(node.func) in ("isclose", "math.isclose"):
        return _isclose(node, called, function, known)
    if isinstance(node, ast.Call):
        return Case(_arguments(node, called, function, known), True)
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        raise UnreadableError("the test is no single comparison")
    left, right, sign = node.left, node.comparators[0], node.ops[0]
    if isinstance(sign, ast.Lt | ast.LtE):
        return _close(left, value_of(right, known), called, function, known)
    if not isinstance(sign, ast.Eq | ast.Is):
        raise UnreadableError("the test compares by something else than ==, or a difference with <")
    if not _mentions(left, called) and _mentions(right, called):
        left, right = right, left
    comparison = Comparison.EQUAL
    wanted = value_of(right, known)
    if (
        isinstance(left, ast.Call)
        and _name(left.func) in _VIEWS
        and len(left.args) == 1
        and not left.keywords
    ):
        comparison = _VIEWS[_name(left.func)]
        left = left.args[0]
    if comparison is Comparison.SET and isinstance(wanted, set):
        # In a fixed order, because what is written must be the same each time.
        wanted = sorted(wanted, key=repr)
    return Case(_arguments(left, called, function, known), as_json(wanted), comparison)


def _close(
    left: ast.expr, bound: object, called: str, function: Signature, known: Mapping[str, object]
) -> Case:
    """Return the test of `abs(f(x) - wanted) < bound`."""
    if (
        not isinstance(left, ast.Call)
        or _name(left.func) not in ("abs", "math.fabs")
        or len(left.args) != 1
        or not isinstance(left.args[0], ast.BinOp)
        or not isinstance(left.args[0].op, ast.Sub)
        or not isinstance(bound, int | float)
    ):
        raise UnreadableError("the test compares by something else than ==, or a difference with <")
    call, wanted = left.args[0].left, left.args[0].right
    if not _mentions(call, called):
        call, wanted = wanted, call
    arguments = _arguments(call, called, function, known)
    return Case(arguments, as_json(value_of(wanted, known)), Comparison.CLOSE, float(bound))


def _isclose(node: ast.Call, called: str, function: Signature, known: Mapping[str, object]) -> Case:
    """Return the test of `math.isclose(f(x), wanted, rel_tol=...)`, relative to the wanted number."""
    options = {keyword.arg: value_of(keyword.value, known) for keyword in node.keywords}
    if len(node.args) != 2 or not options.keys() <= {"rel_tol", "abs_tol"}:
        raise UnreadableError("isclose has other arguments than two numbers and their tolerances")
    call, other = node.args if _mentions(node.args[0], called) else reversed(node.args)
    wanted = as_json(value_of(other, known))
    relative, absolute = options.get("rel_tol", _ISCLOSE_RELATIVE), options.get("abs_tol", 0.0)
    if not all(isinstance(number, int | float) for number in (wanted, relative, absolute)):
        raise UnreadableError("isclose compares something else than numbers")
    assert isinstance(wanted, int | float)
    assert isinstance(relative, int | float)
    assert isinstance(absolute, int | float)
    tolerance = max(float(relative) * abs(wanted), float(absolute))
    return Case(_arguments(call, called, function, known), wanted, Comparison.CLOSE, tolerance)


def _arguments(
    node: ast.expr, called: str, function: Signature, known: Mapping[str, object]
) -> tuple[Any, ...]:
    """Return the arguments of a call of the function, in the order of its parameters."""
    if not isinstance(node, ast.Call) or _name(node.func) != called:
        raise UnreadableError("the test looks at something else than what the function returns")
    if len(node.args) > len(function.parameters):
        raise UnreadableError("the test calls the function with more arguments than it has")
    given: dict[str, object] = dict(function.defaults)
    given |= zip(function.parameters, [value_of(part, known) for part in node.args], strict=False)
    for keyword in node.keywords:
        if keyword.arg not in function.parameters:
            raise UnreadableError("the test calls the function with an unknown argument")
        given[keyword.arg] = value_of(keyword.value, known)
    if given.keys() != set(function.parameters):
        raise UnreadableError("the test calls the function with fewer arguments than it has")
    return tuple(as_json(given[parameter]) for parameter in function.parameters)


def _mentions(node: ast.expr, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))


def _name(node: ast.expr) -> str:
    """Return the dotted name that an expression is, or nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def value_of(node: ast.expr, known: Mapping[str, object]) -> Any:
    """Return the value of an expression over literals and `known` names; raises `UnreadableError`."""
    try:
        return _value(node, known)
    except (TypeError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError(f"a value in the test cannot be computed: {error}") from error


def _value(node: ast.expr, known: Mapping[str, object]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.List(elts=parts):
            return [_value(part, known) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(_value(part, known) for part in parts)
        case ast.Set(elts=parts):
            return {_value(part, known) for part in parts}
        case ast.Dict(keys=keys, values=values) if all(key is not None for key in keys):
            return {
                _value(key, known): _value(value, known)
                for key, value in zip(keys, values, strict=True)
                if key is not None
            }
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _SIGNS:
            return _SIGNS[type(sign)](_value(operand, known))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            first, second = _value(left, known), _value(right, known)
            _check_size(sign, first, second)
            return _OPERATORS[type(sign)](first, second)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            values = [_value(argument, known) for argument in arguments]
            found = _FUNCTIONS[name](*values)
            if isinstance(found, range):
                if len(found) > _MOST_ITEMS:
                    raise UnreadableError(f"a range of more than {_MOST_ITEMS:,} numbers")
                return list(found)
            return found
    raise UnreadableError("the test computes its values")


def _check_size(sign: ast.operator, first: object, second: object) -> None:
    """Refuse what would make a value of absurd size."""
    sizes = [len(part) if isinstance(part, str | list | tuple) else None for part in (first, second)]
    numbers = [part for part in (first, second) if isinstance(part, int)]
    if isinstance(sign, ast.Mod) and isinstance(first, str):
        raise UnreadableError("a text is formatted")
    if isinstance(sign, ast.Mult) and any(size is not None for size in sizes):
        length = max(size for size in sizes if size is not None)
        if numbers and length * max(numbers) > _MOST_ITEMS:
            raise UnreadableError(f"a value of more than {_MOST_ITEMS:,} items")
    if (
        isinstance(sign, ast.Pow)
        and isinstance(first, int)
        and isinstance(second, int)
        and first.bit_length() * abs(second) > _MOST_ITEMS
    ):
        raise UnreadableError("a number with too many digits")
