"""Programs that are one function of one expression, as the built-in models write them, and the way back."""

import ast
import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from evovpo.types import Problem, Program

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


@dataclass(frozen=True)
class Language:
    """Expressions over named inputs, and the programs that are one function of one expression."""

    arguments: tuple[str, ...]
    """The names that inputs have in an expression, in order; programs have the problem's own names."""
    longest: int
    """Characters of the longest expression that is read."""
    is_passed_over: Callable[[ast.stmt], bool]
    """Whether a program may hold a statement beside its function, and the function beside its `return`."""
    holds: Callable[[ast.expr, Sequence[str]], bool] = lambda tree, names: True
    """Whether a tree is of the language, over inputs of these names."""

    def canonical(self, text: str, inputs: int | None = None) -> str | None:
        """Return an expression over the first `inputs` arguments in its one spelling, or none if it is none.

        Spelling only: white space, quotes and needless parentheses. Two programs with the same canonical form
        behave the same; the reverse does not hold.
        """
        text = text.strip()
        if len(text) > self.longest:
            return None
        try:
            tree = parse_expression(text)
            return ast.unparse(tree) if self.holds(tree, self.arguments[:inputs]) else None
        except UNREADABLE:
            return None

    def shorter(self, expression: str) -> list[str]:
        """Return the expressions in which a part takes the place of the part around it, shortest first."""
        try:
            tree = parse_expression(expression)
        except UNREADABLE:
            return []
        found = {""}
        for node in filter(_is_value, ast.walk(tree)):
            start, end = node.col_offset, node.end_col_offset or 0
            for part in filter(_is_value, ast.walk(node)):
                if part is not node and not isinstance(part, ast.Constant):
                    shorter = _spliced(expression, start, end, ast.unparse(part))
                    found.add(self.canonical(shorter) or "")
        return sorted(found - {"", expression}, key=lambda text: (len(text), text))

    def to_source(self, expression: str, entry: str, parameters: Sequence[str]) -> str:
        """Return the source of a function `entry(parameters)` that returns a canonical expression of them.

        Parameters that an expression's own names would shadow are refused when a problem is loaded. Raises
        one of `UNREADABLE` for an expression that is nested too deeply.
        """
        tree = parse_expression(expression)
        has_re = any(isinstance(node, ast.Name) and node.id == "re" for node in ast.walk(tree))
        head, value = "import re\n\n\n" * has_re, _renamed(tree, self.arguments, parameters)
        return f"{head}def {entry}({', '.join(parameters)}):\n    return {value}\n"

    def program(self, expression: str, problem: Problem) -> Program | None:
        """Return the program that returns a canonical expression, or none if that is nested too deeply."""
        try:
            return Program(self.to_source(expression, problem.entry, problem.parameters))
        except UNREADABLE:
            return None

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - languages are module constants
    def from_source(self, source: str, entry: str) -> str | None:
        """Return the canonical expression of a program as `to_source` makes it, or none if it does more."""
        try:
            found = [node for node in ast.parse(source).body if not self.is_passed_over(node)]
            if len(found) != 1 or not isinstance(found[0], ast.FunctionDef) or found[0].name != entry:
                return None
            function, takes = found[0], found[0].args
            lines = [node for node in function.body if not self.is_passed_over(node)]
            has_more = takes.posonlyargs or takes.kwonlyargs or takes.vararg or takes.kwarg or takes.defaults
            if has_more or function.decorator_list or len(lines) != 1:
                return None
            names = [argument.arg for argument in takes.args]
            value = lines[0].value if isinstance(lines[0], ast.Return) else None
            if value is None or not 1 <= len(names) <= len(self.arguments) or not self.holds(value, names):
                return None
            return self.canonical(_renamed(value, names, self.arguments))
        except UNREADABLE:
            return None


def _is_value(node: ast.AST) -> TypeGuard[ast.expr]:
    """True for an expression that is more than the name of a method."""
    return isinstance(node, ast.expr) and not isinstance(node, ast.Attribute)


def _spliced(text: str, start: int, end: int, part: str) -> str:
    """Return a text with a part in place of its UTF-8 bytes from `start` to `end`."""
    whole = text.encode()
    return (whole[:start] + f"({part})".encode() + whole[end:]).decode()


def _renamed(tree: ast.expr, old: Sequence[str], new: Sequence[str]) -> str:
    """Return the text of an expression with new names for variables; the tree is changed."""
    names = dict(zip(old, new, strict=False))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.unparse(tree)
