"""String expressions as text: the one spelling of each, and the way to and from programs."""

import ast
import warnings
from collections.abc import Sequence

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
        return ast.unparse(_parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _parse(text: str) -> ast.Expression:
    with warnings.catch_warnings():
        # A needless backslash in a string is legal and nobody's concern here.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text, mode="eval")
        except SystemError:
            # CPython 3.11 can count its parser's recursion wrongly after an error (gh-106905); once.
            return ast.parse(text, mode="eval")


class _Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)


def to_source(expression: str, entry: str, parameters: Sequence[str]) -> str:
    """Return the source of a function `entry(parameters)` that returns `expression`.

    `expression` is over `x0`, `x1`, …; it must be canonical. Parameters named `w` or `re` would
    be shadowed and are refused when a problem is loaded.
    """
    tree = ast.parse(expression, mode="eval")
    renamed = ast.unparse(_Rename(dict(zip(ARGUMENTS, parameters, strict=False))).visit(tree))
    head = (
        "import re\n\n\n"
        if any(isinstance(node, ast.Name) and node.id == "re" for node in ast.walk(tree))
        else ""
    )
    return f"{head}def {entry}({', '.join(parameters)}):\n    return {renamed}\n"


def from_source(source: str, entry: str) -> str | None:
    """Return the canonical expression of a program made by `to_source`, or none if it is not one."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    others = [node for node in module.body if not isinstance(node, ast.FunctionDef)]
    if len(functions) != 1 or functions[0].name != entry or len(functions[0].args.args) > MAX_ARGUMENTS:
        return None
    if any(ast.unparse(node) != "import re" for node in others):
        return None
    body = functions[0].body
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        return None
    names = {argument.arg: ARGUMENTS[index] for index, argument in enumerate(functions[0].args.args)}
    return canonical(ast.unparse(_Rename(names).visit(body[0].value)))
