"""The grammar of string expressions: trees of typed operations and their Python text.

An expression is Python code that computes a string from arguments `x0`, `x1`, …. A tree is a nested tuple
`(op, child, …)`; leaves are `("arg", 0)`, `("lit", "text")`, `("int", 3)`. A letter denotes a tree's type:
`S` string, `L` list of strings, `I` integer, `B` boolean, `W` expression over a comprehension's variable `w`.
"""

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from evovpo.builtin.strings.expressions import ARGUMENTS, parse_expression

Tree: TypeAlias = tuple[Any, ...]

PATTERNS = (
    r"\d+", r"\D+", r"\D", r"\d", r"[A-Z]", r"[a-z]+", r"[A-Z]+", r"[A-Za-z]+", r"[^A-Za-z]",
    r"[^A-Za-z0-9]+", r"[^A-Za-z0-9]", r"[^0-9.]", r"[A-Z][a-z]*", r"[A-Z][a-z]+", r"\s+", r"\w+", r"\W+",
    r"[\d.]+", r"\(.*\)", r"[A-Za-z]+\d+", r"\d{4}", r"\d{2}", r"^0+", r"\d+$", r"[aeiou]", r"[a-z]", r"\S+",
    r"#\w+", r"@\w+", r"\d{3}", r"[A-Z]{2,}", r"\d+\.\d+", r"\w+$", r"^\w+", r"\b\w", r"\(\w+\)",
)  # fmt: skip


class _Op(NamedTuple):
    type: str
    children: str
    template: str


_CHANGES = ("upper", "lower", "title", "capitalize", "swapcase", "strip")
_KINDS = ("isdigit", "isalpha", "isupper", "islower")
OPS: dict[str, _Op] = {
    "concat": _Op("S", "SS", "{} + {}"),
    "item": _Op("S", "SI", "{}[{}]"),
    "from": _Op("S", "SI", "{}[{}:]"),
    "upto": _Op("S", "SI", "{}[:{}]"),
    "slice": _Op("S", "SII", "{}[{}:{}]"),
    **{name: _Op("S", "S", f"{{}}.{name}()") for name in _CHANGES},
    "strip_of": _Op("S", "ST", "{}.strip({})"),
    "lstrip_of": _Op("S", "ST", "{}.lstrip({})"),
    "rstrip_of": _Op("S", "ST", "{}.rstrip({})"),
    "before": _Op("S", "ST", "{}.partition({})[0]"),
    "after": _Op("S", "ST", "{}.partition({})[2]"),
    "before_last": _Op("S", "ST", "{}.rpartition({})[0]"),
    "after_last": _Op("S", "ST", "{}.rpartition({})[2]"),
    "replace": _Op("S", "STT", "{}.replace({}, {})"),
    "replace_first": _Op("S", "STT", "{}.replace({}, {}, 1)"),
    "zfill": _Op("S", "SI", "{}.zfill({})"),
    "sub": _Op("S", "PTS", "re.sub({}, {}, {})"),
    "str": _Op("S", "I", "str({})"),
    "join": _Op("S", "TL", "{}.join({})"),
    "pick": _Op("S", "LI", "{}[{}]"),
    "if": _Op("S", "SBS", "{} if {} else {}"),
    "words": _Op("L", "S", "{}.split()"),
    "split": _Op("L", "ST", "{}.split({})"),
    "rsplit_once": _Op("L", "ST", "{}.rsplit({}, 1)"),
    "findall": _Op("L", "PS", "re.findall({}, {})"),
    "tail": _Op("L", "LI", "{}[{}:]"),
    "head": _Op("L", "LI", "{}[:{}]"),
    "reversed": _Op("L", "L", "{}[::-1]"),
    "each": _Op("L", "WL", "[{} for w in {}]"),
    "each_if": _Op("L", "WLB", "[{} for w in {} if {}]"),
    "len": _Op("I", "S", "len({})"),
    "length": _Op("I", "L", "len({})"),
    "count": _Op("I", "ST", "{}.count({})"),
    "parse_int": _Op("I", "S", "int({})"),
    "find": _Op("I", "ST", "{}.find({})"),
    "plus": _Op("I", "II", "{} + {}"),
    "minus": _Op("I", "II", "{} - {}"),
    "contains": _Op("B", "TS", "{} in {}"),
    "lacks": _Op("B", "TS", "{} not in {}"),
    "starts": _Op("B", "ST", "{}.startswith({})"),
    "ends": _Op("B", "ST", "{}.endswith({})"),
    **{name: _Op("B", "S", f"{{}}.{name}()") for name in _KINDS},
    "less": _Op("B", "II", "{} < {}"),
    "more": _Op("B", "II", "{} > {}"),
    "same_int": _Op("B", "II", "{} == {}"),
    "same": _Op("B", "SS", "{} == {}"),
    "w": _Op("W", "", "w"),
    "w_item": _Op("W", "I", "w[{}]"),
    "w_upto": _Op("W", "I", "w[:{}]"),
    "w_from": _Op("W", "I", "w[{}:]"),
    "w_upper": _Op("W", "", "w.upper()"),
    "w_capitalize": _Op("W", "", "w.capitalize()"),
    "w_strip": _Op("W", "", "w.strip()"),
    "w_item_upper": _Op("W", "I", "w[{}].upper()"),
    "w_isdigit": _Op("B", "", "w.isdigit()"),
    "w_isalpha": _Op("B", "", "w.isalpha()"),
    "w_long": _Op("B", "I", "len(w) > {}"),
}
"""All operations, with result type, child types (also `T` literal and `P` pattern) and text template."""


def render(tree: Tree) -> str:
    return ast.unparse(parse_expression(spell(tree)))


def spell(tree: Tree) -> str:
    """Return fully parenthesized Python text of `tree`; this is ten times as fast as `render`."""
    kind = tree[0]
    if kind == "arg":
        return ARGUMENTS[tree[1]]
    if kind in ("lit", "pat", "int"):
        return repr(tree[1])
    return OPS[kind].template.format(*(f"({spell(child)})" for child in tree[1:]))


def type_of(tree: Tree) -> str:
    """Return the letter for the type of `tree`, as listed at the top of this file and at `OPS`."""
    leaves = {"arg": "S", "lit": "T", "pat": "P", "int": "I"}
    return leaves.get(tree[0]) or OPS[tree[0]].type


def size(tree: Tree) -> int:
    return 1 + sum(size(child) for child in tree[1:]) if tree[0] in OPS else 0


def has_branch(tree: Tree) -> bool:
    return tree[0] == "if" or (tree[0] in OPS and any(has_branch(child) for child in tree[1:]))


def paths(tree: Tree, here: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield here
    if tree[0] in OPS:
        for index, child in enumerate(tree[1:], start=1):
            yield from paths(child, (*here, index))


def subtree(tree: Tree, path: tuple[int, ...]) -> Tree:
    for index in path:
        tree = tree[index]
    return tree


def with_subtree(tree: Tree, path: tuple[int, ...], new: Tree) -> Tree:
    if not path:
        return new
    index = path[0]
    return (*tree[:index], with_subtree(tree[index], path[1:], new), *tree[index + 1 :])


def shorter_variants(tree: Tree) -> Iterator[Tree]:
    """Yield variants of `tree` with a string or list operation replaced by its own part of the same type."""
    for path in paths(tree):
        node = subtree(tree, path)
        if node[0] not in OPS:
            continue
        kind = type_of(node)
        for child in node[1:]:
            if type_of(child) == kind and kind in ("S", "L"):
                yield with_subtree(tree, path, child)
            elif kind == "S" and type_of(child) == "L":
                for below in child[1:]:
                    if type_of(below) == "S":
                        yield with_subtree(tree, path, below)
