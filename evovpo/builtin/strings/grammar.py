"""The grammar of string expressions: trees of typed operations, and their text.

A sentence of the language is one Python expression over the arguments `x0`, `x1`, … that yields a
string. A tree is a nested tuple `(op, child, …)`; leaves are `("arg", 0)`, `("lit", "text")`, `("int", 3)`.
Types: `S` string, `L` list of strings, `I` integer, `B` truth value, `W` an expression over the
loop variable `w` of a comprehension.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

Tree: TypeAlias = tuple[Any, ...]

MAX_ARGUMENTS = 4
ARGUMENTS = tuple(f"x{index}" for index in range(MAX_ARGUMENTS))

PATTERNS = (
    r"\d+", r"\D+", r"\D", r"\d", r"[A-Z]", r"[a-z]+", r"[A-Z]+", r"[A-Za-z]+", r"[^A-Za-z]",
    r"[^A-Za-z0-9]+", r"[^A-Za-z0-9]", r"[^0-9.]", r"[A-Z][a-z]*", r"[A-Z][a-z]+", r"\s+", r"\w+", r"\W+",
    r"[\d.]+", r"\(.*\)", r"[A-Za-z]+\d+", r"\d{4}", r"\d{2}", r"^0+", r"\d+$", r"[aeiou]", r"[a-z]", r"\S+",
    r"#\w+", r"@\w+", r"\d{3}", r"[A-Z]{2,}", r"\d+\.\d+", r"\w+$", r"^\w+", r"\b\w", r"\(\w+\)",
)  # fmt: skip
"""Regular expressions that the language knows, all short and free of backtracking traps."""

_ATOM, _SUM, _COMPARE, _NOT, _AND, _IF = 5, 4, 3, 2, 1, 0


class _Op(NamedTuple):
    type: str
    children: tuple[str, ...]
    template: str
    precedence: int
    needs: tuple[int, ...]
    """Lowest precedence each child may have unparenthesised."""


def _op(
    kind: str, children: str, template: str, precedence: int = _ATOM, needs: tuple[int, ...] | None = None
) -> _Op:
    kinds = tuple(children)
    return _Op(kind, kinds, template, precedence, (needs or (_ATOM,) * len(kinds))[: len(kinds)])


_CALL = (_ATOM, _IF, _IF)
OPS: dict[str, _Op] = {
    "concat": _op("S", "SS", "{} + {}", _SUM, (_SUM, _ATOM)),
    "item": _op("S", "SI", "{}[{}]", needs=(_ATOM, _SUM)),
    "from": _op("S", "SI", "{}[{}:]", needs=(_ATOM, _SUM)),
    "upto": _op("S", "SI", "{}[:{}]", needs=(_ATOM, _SUM)),
    "slice": _op("S", "SII", "{}[{}:{}]", needs=(_ATOM, _SUM, _SUM)),
    "upper": _op("S", "S", "{}.upper()"),
    "lower": _op("S", "S", "{}.lower()"),
    "title": _op("S", "S", "{}.title()"),
    "capitalize": _op("S", "S", "{}.capitalize()"),
    "swapcase": _op("S", "S", "{}.swapcase()"),
    "strip": _op("S", "S", "{}.strip()"),
    "strip_of": _op("S", "ST", "{}.strip({})", needs=_CALL),
    "lstrip_of": _op("S", "ST", "{}.lstrip({})", needs=_CALL),
    "rstrip_of": _op("S", "ST", "{}.rstrip({})", needs=_CALL),
    "before": _op("S", "ST", "{}.partition({})[0]", needs=_CALL),
    "after": _op("S", "ST", "{}.partition({})[2]", needs=_CALL),
    "before_last": _op("S", "ST", "{}.rpartition({})[0]", needs=_CALL),
    "after_last": _op("S", "ST", "{}.rpartition({})[2]", needs=_CALL),
    "replace": _op("S", "STT", "{}.replace({}, {})", needs=(_ATOM, _IF, _IF)),
    "replace_first": _op("S", "STT", "{}.replace({}, {}, 1)", needs=(_ATOM, _IF, _IF)),
    "zfill": _op("S", "SI", "{}.zfill({})", needs=_CALL),
    "sub": _op("S", "PTS", "re.sub({}, {}, {})", needs=(_IF, _IF, _IF)),
    "str": _op("S", "I", "str({})", needs=(_IF,)),
    "join": _op("S", "TL", "{}.join({})", needs=_CALL),
    "pick": _op("S", "LI", "{}[{}]", needs=(_ATOM, _SUM)),
    "if": _op("S", "SBS", "{} if {} else {}", _IF, (_AND, _AND, _IF)),
    "words": _op("L", "S", "{}.split()"),
    "split": _op("L", "ST", "{}.split({})", needs=_CALL),
    "rsplit_once": _op("L", "ST", "{}.rsplit({}, 1)", needs=_CALL),
    "findall": _op("L", "PS", "re.findall({}, {})", needs=(_IF, _IF)),
    "tail": _op("L", "LI", "{}[{}:]", needs=(_ATOM, _SUM)),
    "head": _op("L", "LI", "{}[:{}]", needs=(_ATOM, _SUM)),
    "reversed": _op("L", "L", "{}[::-1]"),
    "each": _op("L", "WL", "[{} for w in {}]", needs=(_IF, _NOT)),
    "each_if": _op("L", "WLB", "[{} for w in {} if {}]", needs=(_IF, _NOT, _NOT)),
    "len": _op("I", "S", "len({})", needs=(_IF,)),
    "length": _op("I", "L", "len({})", needs=(_IF,)),
    "count": _op("I", "ST", "{}.count({})", needs=_CALL),
    "parse_int": _op("I", "S", "int({})", needs=(_IF,)),
    "find": _op("I", "ST", "{}.find({})", needs=_CALL),
    "plus": _op("I", "II", "{} + {}", _SUM, (_SUM, _ATOM)),
    "minus": _op("I", "II", "{} - {}", _SUM, (_SUM, _ATOM)),
    "contains": _op("B", "TS", "{} in {}", _COMPARE, (_SUM, _SUM)),
    "lacks": _op("B", "TS", "{} not in {}", _COMPARE, (_SUM, _SUM)),
    "starts": _op("B", "ST", "{}.startswith({})", needs=_CALL),
    "ends": _op("B", "ST", "{}.endswith({})", needs=_CALL),
    "isdigit": _op("B", "S", "{}.isdigit()"),
    "isalpha": _op("B", "S", "{}.isalpha()"),
    "isupper": _op("B", "S", "{}.isupper()"),
    "islower": _op("B", "S", "{}.islower()"),
    "less": _op("B", "II", "{} < {}", _COMPARE, (_SUM, _SUM)),
    "more": _op("B", "II", "{} > {}", _COMPARE, (_SUM, _SUM)),
    "same_int": _op("B", "II", "{} == {}", _COMPARE, (_SUM, _SUM)),
    "same": _op("B", "SS", "{} == {}", _COMPARE, (_SUM, _SUM)),
    "w": _op("W", "", "w"),
    "w_item": _op("W", "I", "w[{}]", needs=(_SUM,)),
    "w_upto": _op("W", "I", "w[:{}]", needs=(_SUM,)),
    "w_from": _op("W", "I", "w[{}:]", needs=(_SUM,)),
    "w_upper": _op("W", "", "w.upper()"),
    "w_capitalize": _op("W", "", "w.capitalize()"),
    "w_strip": _op("W", "", "w.strip()"),
    "w_item_upper": _op("W", "I", "w[{}].upper()", needs=(_SUM,)),
    "w_isdigit": _op("B", "", "w.isdigit()"),
    "w_isalpha": _op("B", "", "w.isalpha()"),
    "w_long": _op("B", "I", "len(w) > {}", _COMPARE, (_SUM,)),
}
"""Every operation: result type, child types (`T` literal, `P` pattern), text template."""


def _render(tree: Tree) -> tuple[str, int]:
    kind = tree[0]
    if kind == "arg":
        return ARGUMENTS[tree[1]], _ATOM
    if kind in ("lit", "pat"):
        return repr(tree[1]), _ATOM
    if kind == "int":
        return str(tree[1]), _ATOM if tree[1] >= 0 else _SUM
    op = OPS[kind]
    parts = []
    for child, needed in zip(tree[1:], op.needs, strict=True):
        text, precedence = _render(child)
        parts.append(text if precedence >= needed else f"({text})")
    return op.template.format(*parts), op.precedence


def render(tree: Tree) -> str:
    """Return the Python text of `tree`; equal to its own `canonical` form."""
    return _render(tree)[0]


def type_of(tree: Tree) -> str:
    """Return the type letter of `tree` (see the module's docstring)."""
    kind = tree[0]
    if kind == "arg":
        return "S"
    if kind == "lit":
        return "T"
    if kind == "pat":
        return "P"
    return "I" if kind == "int" else OPS[kind].type


def size(tree: Tree) -> int:
    """Return the number of operations in `tree`; leaves count nothing."""
    if tree[0] in ("arg", "lit", "pat", "int"):
        return 0
    return 1 + sum(size(child) for child in tree[1:])


def has_branch(tree: Tree) -> bool:
    """Return whether a conditional expression occurs anywhere in `tree`."""
    return tree[0] == "if" or (tree[0] in OPS and any(has_branch(child) for child in tree[1:]))


def paths(tree: Tree, here: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Yield the way to every node of `tree`, as indices from the root."""
    yield here
    if tree[0] in OPS:
        for index, child in enumerate(tree[1:], start=1):
            yield from paths(child, (*here, index))


def subtree(tree: Tree, path: tuple[int, ...]) -> Tree:
    """Return the node at `path`."""
    for index in path:
        tree = tree[index]
    return tree


def with_subtree(tree: Tree, path: tuple[int, ...], new: Tree) -> Tree:
    """Return `tree` with `new` at `path`."""
    if not path:
        return new
    index = path[0]
    return (*tree[:index], with_subtree(tree[index], path[1:], new), *tree[index + 1 :])


def shorter_variants(tree: Tree) -> Iterator[Tree]:
    """Yield every tree made by replacing one string operation by one of its string children.

    Pretraining keeps a sampled program only in its shortest form with the same outputs.
    """
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
