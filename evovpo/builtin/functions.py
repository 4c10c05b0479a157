"""Programs that are one function of one expression, as the built-in models write them, and the way back."""

import ast
import warnings
from collections.abc import Callable, Sequence

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python's own parser and unparser raise for text that is no program, or one nested too deeply."""


def parse_expression(text: str) -> ast.expr:
    """Return the tree of an expression; raises one of `UNREADABLE`."""
    with warnings.catch_warnings():
        # A needless backslash in a string is legal and nobody's concern here.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text, mode="eval").body
        except SystemError:
            # CPython 3.11 can count its parser's recursion wrongly after an error (gh-106905); once.
            return ast.parse(text, mode="eval").body


def write_function(expression: str, arguments: Sequence[str], entry: str, parameters: Sequence[str]) -> str:
    """Return the source of a function `entry(parameters)` that returns a canonical expression of `arguments`.

    Raises one of `UNREADABLE`.
    """
    tree = parse_expression(expression)
    head = "import re\n\n\n" * any(isinstance(node, ast.Name) and node.id == "re" for node in ast.walk(tree))
    return f"{head}def {entry}({', '.join(parameters)}):\n    return {renamed(tree, arguments, parameters)}\n"


def read_function(
    source: str, entry: str, most: int, is_passed_over: Callable[[ast.stmt], bool]
) -> tuple[ast.expr, list[str]] | None:
    """Return what function `entry` of a program returns, and its 1 to `most` parameters; None if it is more.

    Statements of the program and the function may be passed over. Raises one of `UNREADABLE`.
    """
    found = [node for node in ast.parse(source).body if not is_passed_over(node)]
    if len(found) != 1 or not isinstance(found[0], ast.FunctionDef) or found[0].name != entry:
        return None
    function, takes = found[0], found[0].args
    lines = [node for node in function.body if not is_passed_over(node)]
    has_more = takes.posonlyargs or takes.kwonlyargs or takes.vararg or takes.kwarg or takes.defaults
    if has_more or function.decorator_list or not 1 <= len(takes.args) <= most or len(lines) != 1:
        return None
    if not isinstance(lines[0], ast.Return) or lines[0].value is None:
        return None
    return lines[0].value, [argument.arg for argument in takes.args]


def renamed(tree: ast.expr, old: Sequence[str], new: Sequence[str]) -> str:
    """Return the text of an expression with new names for variables; the tree is changed."""
    names = dict(zip(old, new, strict=False))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.unparse(tree)
