"""Converts expressions to programs and back. Such a program is one function that returns one expression.

Only syntax is checked: every Python expression is accepted.
"""

import ast
import functools
import warnings
from collections.abc import Sequence
from typing import TypeGuard

from evovpo.types import Problem, Program

MAX_ARGUMENTS = 4
ARGUMENTS = tuple(f"x{index}" for index in range(MAX_ARGUMENTS))
"""The names of the inputs in expressions, in order; programs use the problem's own names."""
LONGEST = 400
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Exceptions of Python's parser and unparser for invalid or too deeply nested text."""


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of an expression. Raises an `UNREADABLE` exception if `text` is invalid."""
    with warnings.catch_warnings():
        # Invalid escapes in strings are legal and only cause warnings.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text, mode="eval").body
        except SystemError:
            # After an error CPython 3.11 may count the parser's recursion wrongly once (gh-106905).
            return ast.parse(text, mode="eval").body


def canonical(text: str) -> str | None:
    """Return the canonical form of an expression, or None if the expression is invalid or too long.

    Only whitespace, quotes and redundant parentheses are normalized. Expressions with the same behaviour can
    have different canonical forms.
    """
    text = text.strip()
    if len(text) > LONGEST:
        return None
    try:
        return ast.unparse(parse_expression(text))
    except UNREADABLE:
        return None


def shorter(expression: str) -> list[str]:
    """Return variants with one subexpression replaced by one of its own parts, shortest variants first."""
    try:
        tree = parse_expression(expression)
    except UNREADABLE:
        return []
    found, whole = {""}, expression.encode()
    for node in filter(_is_value, ast.walk(tree)):
        start, end = node.col_offset, node.end_col_offset or 0
        for part in filter(_is_value, ast.walk(node)):
            if part is not node and not isinstance(part, ast.Constant):
                spliced = whole[:start] + f"({ast.unparse(part)})".encode() + whole[end:]
                found.add(canonical(spliced.decode()) or "")
    return sorted(found - {"", expression}, key=lambda text: (len(text), text))


def to_source(expression: str, entry: str, parameters: Sequence[str]) -> str:
    """Return the source of the function `entry(parameters)` that computes the canonical `expression`.

    Raises one of the `UNREADABLE` exceptions if the expression is nested too deeply.
    """
    tree = parse_expression(expression)
    has_re = any(isinstance(node, ast.Name) and node.id == "re" for node in ast.walk(tree))
    head, value = "import re\n\n\n" * has_re, _renamed(tree, ARGUMENTS, parameters)
    return f"{head}def {entry}({', '.join(parameters)}):\n    return {value}\n"


def to_program(expression: str, problem: Problem) -> Program | None:
    """Return the program of a canonical expression, or None if the expression is nested too deeply."""
    try:
        return Program(to_source(expression, problem.entry, problem.parameters))
    except UNREADABLE:
        return None


@functools.lru_cache(maxsize=4096)
def from_source(source: str, entry: str) -> str | None:
    """Return the canonical expression of a program that only returns an expression, else None."""
    try:
        found = [node for node in ast.parse(source).body if not _is_import_of_re(node)]
        if len(found) != 1 or not isinstance(found[0], ast.FunctionDef) or found[0].name != entry:
            return None
        function, takes = found[0], found[0].args
        lines = [node for node in function.body if not _is_import_of_re(node)]
        has_more = takes.posonlyargs or takes.kwonlyargs or takes.vararg or takes.kwarg or takes.defaults
        if has_more or function.decorator_list or len(lines) != 1:
            return None
        names = [argument.arg for argument in takes.args]
        value = lines[0].value if isinstance(lines[0], ast.Return) else None
        if value is None or not 1 <= len(names) <= len(ARGUMENTS):
            return None
        return canonical(_renamed(value, names, ARGUMENTS))
    except UNREADABLE:
        return None


def _is_import_of_re(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import) and ast.unparse(node) == "import re"


def _is_value(node: ast.AST) -> TypeGuard[ast.expr]:
    return isinstance(node, ast.expr) and not isinstance(node, ast.Attribute)


def _renamed(tree: ast.expr, old: Sequence[str], new: Sequence[str]) -> str:
    names = dict(zip(old, new, strict=False))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.unparse(tree)
