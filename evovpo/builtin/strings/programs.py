"""String expressions as text: the one spelling of each, and the way to and from programs."""

import ast
import functools
from collections.abc import Sequence

from evovpo.builtin.functions import UNREADABLE, parse_expression, read_function, renamed, write_function
from evovpo.builtin.strings.grammar import ARGUMENTS, MAX_ARGUMENTS

MAX_EXPRESSION_CHARACTERS = 400


def canonical(text: str) -> str | None:
    """Return `text` in the one spelling that identifies it, or none if it is no expression.

    Spelling only: white space, quotes and needless parentheses. Two programs with the same
    canonical form behave the same; the reverse does not hold.
    """
    text = text.strip()
    if not text or len(text) > MAX_EXPRESSION_CHARACTERS:
        return None
    try:
        return ast.unparse(parse_expression(text))
    except UNREADABLE:
        return None


def to_source(expression: str, entry: str, parameters: Sequence[str]) -> str:
    """Return the source of a function `entry(parameters)` that returns `expression`.

    `expression` is over `x0`, `x1`, …; it must be canonical. Parameters named `w` or `re` would
    be shadowed and are refused when a problem is loaded.
    """
    return write_function(expression, ARGUMENTS, entry, parameters)


@functools.lru_cache(maxsize=4096)
def from_source(source: str, entry: str) -> str | None:
    """Return the canonical expression of a program made by `to_source`, or none if it is not one."""
    try:
        found = read_function(source, entry, MAX_ARGUMENTS, _imports_re)
        return None if found is None else canonical(renamed(*found, ARGUMENTS))
    except UNREADABLE:
        return None


def _imports_re(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import) and ast.unparse(node) == "import re"
