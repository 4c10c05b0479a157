"""The expression language of the built-in model: typed sampling, mutation, canonical form, joins.

A sentence of the language is one Python expression over the arguments `x0`, `x1`, … that yields a
string. Search (joins), the random baseline and pretraining share this file. Nothing here runs a
program: sampled trees are rendered to text, and a `Condition` carries its own pure predicate.

A tree is a nested tuple `(op, child, …)`; leaves are `("arg", 0)`, `("lit", "text")`, `("int", 3)`.
Types: `S` string, `L` list of strings, `I` integer, `B` truth value, `W` an expression over the
loop variable `w` of a comprehension.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeAlias

Tree: TypeAlias = tuple[Any, ...]

MAX_ARGUMENTS = 4
ARGUMENTS = tuple(f"x{index}" for index in range(MAX_ARGUMENTS))
MAX_EXPRESSION_CHARACTERS = 400

PATTERNS = (
    r"\d+", r"\D+", r"\D", r"\d", r"[A-Z]", r"[a-z]+", r"[A-Z]+", r"[A-Za-z]+", r"[^A-Za-z]",
    r"[^A-Za-z0-9]+", r"[^A-Za-z0-9]", r"[^0-9.]", r"[A-Z][a-z]*", r"[A-Z][a-z]+", r"\s+", r"\w+", r"\W+",
    r"[\d.]+", r"\(.*\)", r"[A-Za-z]+\d+", r"\d{4}", r"\d{2}", r"^0+", r"\d+$", r"[aeiou]", r"[a-z]", r"\S+",
    r"#\w+", r"@\w+", r"\d{3}", r"[A-Z]{2,}", r"\d+\.\d+", r"\w+$", r"^\w+", r"\b\w", r"\(\w+\)",
)  # fmt: skip
"""Regular expressions that the language knows, all short and free of backtracking traps."""

SEPARATORS = (" ", "-", "_", ".", "/", ",", ", ", ":", ";", "|", "(", ")", "@", "#", " - ")
OTHER_LITERALS = (
    "", ". ", ": ", "+", "$", "%", "&", '"', "'", "=", "<", ">", "[", "]", "0", "1", "!", "?", "*", "\\",
    "x", "A", "00", "0.", "N/A", "No. ", "Mr. ", "Dr. ", "www.", "https://", ".com", " (", "€", "+1 ",
)  # fmt: skip
_DIGIT_PATTERNS = (
    r"\d+", r"[A-Z]", r"[A-Za-z]+", r"[a-z]+", r"[A-Z][a-z]*", r"[\d.]+", r"\w+", r"\d{4}", r"\d{2}",
    r"[A-Z]+", r"#\w+", r"@\w+", r"\d{3}", r"[A-Z]{2,}", r"\d+\.\d+", r"\w+$", r"^\w+", r"\b\w", r"\S+",
    r"\(\w+\)",
)  # fmt: skip
_REMOVED_PATTERNS = (
    r"\D", r"\D+", r"\d+", r"[^A-Za-z]", r"[^A-Za-z0-9]", r"\s+", r"[A-Z]", r"[a-z]", r"\W+", r"\(.*\)",
    r"[a-z]+", r"^0+", r"[^0-9.]", r"[aeiou]", r"\d+$", r"[^A-Za-z0-9]+",
)  # fmt: skip

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


def _pick(rng: Random, table: Sequence[tuple[float, str]]) -> str:
    total = sum(weight for weight, _ in table)
    draw = rng.random() * total
    for weight, name in table:
        draw -= weight
        if draw < 0:
            return name
    return table[-1][1]


_STRING_OPS = (
    (16, "concat"), (5, "upto"), (5, "from"), (3, "item"), (3, "slice"), (5, "upper"), (5, "lower"),
    (3, "title"), (2, "capitalize"), (0.4, "swapcase"), (2.5, "strip"), (1.2, "strip_of"), (1.2, "lstrip_of"),
    (1.4, "rstrip_of"), (5, "before"), (5, "after"), (2.5, "before_last"), (3.5, "after_last"),
    (8, "replace"), (1, "replace_first"), (1.5, "zfill"), (6, "sub"), (2.5, "str"), (7, "join"), (15, "pick"),
)  # fmt: skip
_AROUND_OPS = ((5, "before"), (5, "after"), (2.5, "before_last"), (3.5, "after_last"))
_LIST_OPS = ((5, "words"), (7, "split"), (1, "rsplit_once"), (5, "findall"))
_JOINED_OPS = (
    (3, "words"),
    (4, "split"),
    (3, "findall"),
    (2, "tail"),
    (2, "head"),
    (1.5, "reversed"),
    (5, "each"),
    (0.7, "each_if"),
)
_EACH_OPS = (
    (3, "w_item"),
    (2, "w_upto"),
    (1, "w_from"),
    (1, "w_upper"),
    (2, "w_capitalize"),
    (1, "w_strip"),
    (1, "w_item_upper"),
)
_COUNT_OPS = ((3, "len"), (2, "length"), (2, "count"), (2, "parse_int"))
_TEST_OPS = (
    (10, "contains"), (1.5, "lacks"), (4, "starts"), (4, "ends"), (4, "isdigit"), (1.5, "isalpha"),
    (1, "isupper"), (0.5, "islower"), (3, "less"), (2, "more"), (2, "same_int"), (1.5, "same"),
)  # fmt: skip


class Sampler:
    """Draws typed trees over `arguments` strings, with literals that fit the given inputs.

    `rows` (N rows of argument strings) only bias which literals are drawn: separators that occur
    in them, and words that at least two of them share.
    """

    def __init__(self, rng: Random, rows: Sequence[Sequence[str]]) -> None:
        self.rng = rng
        self.arguments = len(rows[0])
        joined = "\x00".join(text for row in rows for text in row)
        self._present = [s for s in SEPARATORS if s in joined] or [" "]
        self._shared = shared_words(rows)

    def literal(self) -> Tree:
        """Return a literal to search for: mostly a separator that occurs in the inputs."""
        draw = self.rng.random()
        if self._shared and draw < 0.16:
            word = self.rng.choice(self._shared)
            if self.rng.random() < 0.25:
                word = self.rng.choice((word + " ", " " + word, word + ".", word + "-", word + ":"))
            return ("lit", word)
        if draw < 0.90:
            return ("lit", self.rng.choice(self._present))
        return ("lit", self.rng.choice(SEPARATORS + OTHER_LITERALS[1:]))

    def glue(self) -> Tree:
        """Return a literal to write: separators, short text, now and then a made-up word."""
        draw = self.rng.random()
        if draw < 0.62:
            return ("lit", self.rng.choice(SEPARATORS))
        if draw < 0.74:
            return ("lit", "")
        if draw < 0.86:
            return ("lit", self.rng.choice(OTHER_LITERALS))
        words = [self._made_up() for _ in range(self.rng.choices((1, 2, 3), (6, 2, 1))[0])]
        return (
            "lit",
            self.rng.choice(("", " ", "", "(", "-", ", "))
            + " ".join(words)
            + self.rng.choice(("", " ", ": ", ".", "-", ")", ", ")),
        )

    def _made_up(self) -> str:
        letters = "".join(self.rng.choice("aeiouaeiobcdfghklmnprstvw") for _ in range(self.rng.randint(1, 7)))
        return self.rng.choice(
            (letters, letters, letters.capitalize(), letters.upper()[:4], str(self.rng.randint(1, 99)))
        )

    def _position(self, low: int = 0) -> Tree:
        values = (0, 1, 2, 3, -1, -2, -3) if low == 0 else (1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5)
        weights = (6, 5, 3, 1.5, 5, 2, 1) if low == 0 else (8, 6, 5, 4, 2, 1, 1, 1, 4, 3, 2, 2, 0.7)
        return ("int", self.rng.choices(values, weights)[0])

    def argument(self) -> Tree:
        """Return one of the arguments."""
        return ("arg", self.rng.randrange(self.arguments))

    def string(self, depth: int) -> Tree:
        """Return a string-valued tree of at most `depth` nested operations."""
        if depth <= 0:
            return self.argument()
        name = _pick(self.rng, _STRING_OPS)
        if name == "concat":
            return self._concat(depth)
        if name == "item":
            return (name, self.string(depth - 1), self._position())
        if name in ("upto", "from"):
            return (name, self.string(depth - 1), self._offset(depth, name))
        if name == "slice":
            start = self.rng.randint(1, 5)
            stop = start + self.rng.randint(1, 4) if self.rng.random() < 0.7 else -self.rng.randint(1, 3)
            return (name, self.string(depth - 1), ("int", start), ("int", stop))
        if name in ("strip_of", "lstrip_of", "rstrip_of", "before", "after", "before_last", "after_last"):
            return (name, self.string(depth - 1), self.literal())
        if name in ("replace", "replace_first"):
            return (name, self.string(depth - 1), self.literal(), self.glue())
        if name == "zfill":
            return (name, self.string(depth - 1), ("int", self.rng.randint(2, 8)))
        if name == "sub":
            new = ("lit", "") if self.rng.random() < 0.6 else self.glue()
            return (name, ("pat", self.rng.choice(_REMOVED_PATTERNS)), new, self.string(depth - 1))
        if name == "str":
            return (name, self.number(depth - 1))
        if name == "join":
            return (name, self.glue(), self.strings(depth - 1))
        if name == "pick":
            return (name, self._plain_list(depth - 1), self._position())
        return (name, self.string(depth - 1))

    def _offset(self, depth: int, name: str) -> Tree:
        if self.rng.random() < 0.08 and depth > 1:
            found: Tree = ("find", self.argument(), self.literal())
            return (
                found
                if name == "upto" or self.rng.random() < 0.3
                else ("plus", found, ("int", self.rng.choice((1, 1, 2))))
            )
        return self._position(1)

    def field(self) -> Tree:
        """Return one part of an argument as people point at it: a word, a number, what is before a mark."""
        subject = self.argument()
        draw = self.rng.random()
        if draw < 0.58:
            part: Tree = ("pick", self._plain_list_of(subject), self._position())
        elif draw < 0.88:
            part = (_pick(self.rng, _AROUND_OPS), subject, self.literal())
            if self.rng.random() < 0.25:
                part = (_pick(self.rng, _AROUND_OPS), part, self.literal())
        elif draw < 0.94:
            part = (self.rng.choice(("upto", "from")), subject, self._position(1))
        else:
            part = ("sub", ("pat", self.rng.choice(_REMOVED_PATTERNS)), ("lit", ""), subject)
        draw = self.rng.random()
        if draw < 0.14:
            return ("item", part, ("int", 0))
        if draw < 0.24:
            return (self.rng.choice(("upto", "upto", "from")), part, self._position(1))
        if draw < 0.42:
            return (self.rng.choice(("upper", "lower", "capitalize", "title")), part)
        if draw < 0.50:
            return self.rng.choice(
                (
                    ("strip", part),
                    ("replace", part, self.literal(), self.glue()),
                    ("zfill", part, ("int", self.rng.randint(2, 6))),
                    ("rstrip_of", part, self.literal()),
                )
            )
        return part

    def _concat(self, depth: int) -> Tree:
        """Return a concatenation; most alternate parts of the input with constant text."""
        pieces = self.rng.choices((2, 3, 4, 5), (5, 6, 2, 1))[0]
        parts: list[Tree] = []
        glued = self.rng.random() < 0.25
        while len(parts) < pieces:
            if glued:
                part = self.glue()
            else:
                draw = self.rng.random()
                part = (
                    self.field()
                    if draw < 0.6
                    else self.argument()
                    if draw < 0.85
                    else self.string(min(depth - 1, 1))
                )
            if part == ("lit", "") or part[0] in ("if", "concat"):
                part = self.argument()
            if part[0] == "arg" and part in parts and self.rng.random() < 0.9:
                part = self.field()
            parts.append(part)
            glued = not glued if self.rng.random() < 0.85 else glued and len(parts) < 2
        tree = parts[0]
        for part in parts[1:]:
            tree = ("concat", tree, part)
        return tree

    def _plain_list_of(self, subject: Tree) -> Tree:
        name = _pick(self.rng, _LIST_OPS)
        if name == "findall":
            return (name, ("pat", self.rng.choice(_DIGIT_PATTERNS)), subject)
        return (name, subject) if name == "words" else (name, subject, self.literal())

    def _plain_list(self, depth: int) -> Tree:
        return self._plain_list_of(self.string(depth - 1))

    def strings(self, depth: int) -> Tree:
        """Return a list-valued tree, as `join` takes it."""
        name = _pick(self.rng, _JOINED_OPS)
        if name in ("words", "split", "findall") or depth <= -1:
            return self._plain_list(depth)
        inner = self._plain_list(depth - 1)
        if name in ("tail", "head"):
            return (name, inner, ("int", self.rng.choice((1, 1, 2, 2, 3, -1, -2))))
        if name == "reversed":
            return (name, inner)
        each = _pick(self.rng, _EACH_OPS)
        body: Tree = (each,)
        if OPS[each].children:
            body = (
                each,
                (
                    "int",
                    self.rng.choice((0, 0, 0, -1, 1)) if "item" in each else self.rng.choice((1, 1, 2, 3)),
                ),
            )
        if name == "each_if":
            test: Tree = self.rng.choice(
                (("w_isdigit",), ("w_isalpha",), ("w_long", ("int", self.rng.choice((1, 2, 3)))))
            )
            return (name, self.rng.choice((body, ("w",), ("w",))), inner, test)
        return (name, body, inner)

    def number(self, depth: int) -> Tree:
        """Return an integer-valued tree."""
        name = _pick(self.rng, _COUNT_OPS)
        if name == "len":
            tree: Tree = (name, self.string(max(depth - 1, 0)))
        elif name == "length":
            tree = (name, self._plain_list(max(depth - 1, 0)))
        elif name == "count":
            tree = (name, self.argument(), self.literal())
        else:
            tree = (name, self.string(max(depth - 1, 0)))
        if self.rng.random() < 0.25:
            other: Tree = ("int", self.rng.randint(1, 3))
            if self.rng.random() < 0.25:
                other = ("parse_int", self.argument()) if name == "parse_int" else other
            return (self.rng.choice(("plus", "plus", "minus")), tree, other)
        return tree

    def test(self) -> Tree:
        """Return a truth-valued tree over the arguments."""
        subject = self.argument()
        name = _pick(self.rng, _TEST_OPS)
        if name in ("contains", "lacks"):
            if self.arguments > 1 and self.rng.random() < 0.15:
                return (name, self.argument(), subject)
            return (name, self.literal(), subject)
        if name in ("starts", "ends"):
            return (name, subject, self.literal())
        if name in ("isdigit", "isalpha", "isupper", "islower"):
            part = self.rng.choice(
                (
                    subject,
                    ("item", subject, ("int", self.rng.choice((0, 0, 0, -1, -1, 1)))),
                    ("pick", ("words", subject), ("int", self.rng.choice((0, -1)))),
                    ("upto", subject, ("int", self.rng.choice((1, 2, 3)))),
                )
            )
            return (name, part)
        if name == "same":
            if self.arguments > 1 and self.rng.random() < 0.3:
                return (name, subject, ("arg", self.rng.randrange(self.arguments)))
            return (
                (name, subject, ("lit", "")) if self.rng.random() < 0.5 else (name, subject, self.literal())
            )
        if self.rng.random() < 0.15:
            return self._number_test(subject)
        measure = self.rng.choice(
            (
                ("len", subject),
                ("len", subject),
                ("count", subject, self.literal()),
                ("length", ("words", subject)),
                ("length", ("split", subject, self.literal())),
            )
        )
        small = measure[0] != "len"
        return (
            name,
            measure,
            ("int", self.rng.choice((1, 1, 2, 2, 3)) if small else self.rng.randint(2, 14)),
        )

    def _number_test(self, subject: Tree) -> Tree:
        value: Tree = (
            "parse_int",
            subject if self.rng.random() < 0.6 else ("pick", self._plain_list_of(subject), self._position()),
        )
        if self.arguments > 1 and self.rng.random() < 0.4:
            return (self.rng.choice(("more", "less")), value, ("parse_int", self.argument()))
        return (
            self.rng.choice(("more", "less", "same_int")),
            value,
            ("int", self.rng.choice((0, 1, 5, 9, 10, 12, 18, 20, 50, 99, 100))),
        )

    def program(self) -> Tree:
        """Return a whole program: a string, in about two fifths of the draws with a branch."""
        draw = self.rng.random()
        if draw < 0.34:
            then, other = self._branch(), self._branch()
            if self.rng.random() < 0.12:
                other = ("if", self._branch(), self.test(), other)
            return ("if", then, self.test(), other)
        if draw < 0.40:
            # A branch inside a larger expression: an optional part.
            tail: Tree = (
                "if",
                self.field(),
                self.test(),
                self.rng.choice((("lit", ""), self.argument(), self.glue())),
            )
            return (
                ("concat", self._branch(), tail)
                if self.rng.random() < 0.5
                else ("concat", tail, self._branch())
            )
        if draw < 0.60:
            return self._concat(2)
        if draw < 0.72:
            return self.field()
        return self.string(self.rng.choices((1, 2, 3, 4), (2, 4, 4, 1.5))[0])

    def _branch(self) -> Tree:
        draw = self.rng.random()
        if draw < 0.16:
            return self.argument()
        if draw < 0.24:
            return self.glue()
        if draw < 0.52:
            return self.field()
        return self._concat(1) if draw < 0.72 else self.string(self.rng.choice((1, 2, 2, 3)))

    def mutate(self, tree: Tree) -> Tree:
        """Return `tree` with one small change: a branch taken, a leaf or subtree redrawn."""
        if tree[0] == "if" and self.rng.random() < 0.4:
            branch: Tree = tree[1] if self.rng.random() < 0.5 else tree[3]
            return branch
        paths = list(_paths(tree))
        path = self.rng.choice(paths)
        return _replace(tree, path, self._redraw(_at(tree, path)))

    def _redraw(self, node: Tree) -> Tree:
        kind = type_of(node)
        if kind == "T":
            return self.literal() if self.rng.random() < 0.6 else self.glue()
        if kind == "P":
            return ("pat", self.rng.choice(_REMOVED_PATTERNS + _DIGIT_PATTERNS))
        if node[0] == "int":
            near = node[1] + self.rng.choice((-2, -1, -1, 1, 1, 2))
            return ("int", near if self.rng.random() < 0.6 else self.rng.choice((0, 1, 2, 3, -1, -2)))
        draw = self.rng.random()
        if kind == "S":
            if draw < 0.25 and node[0] != "arg":
                below = [child for child in node[1:] if type_of(child) == "S"]
                if below:
                    return self.rng.choice(below)
            if draw < 0.5:
                return self._wrap(node)
            return self.string(self.rng.choice((0, 1, 1, 2)))
        if kind == "B":
            return self.test()
        if kind == "L":
            return self._plain_list(1)
        if kind == "W":
            return ("w_item", ("int", 0)) if draw < 0.5 else ("w_capitalize",)
        return self.number(1)

    def _wrap(self, node: Tree) -> Tree:
        """Return a string operation applied to `node`."""
        for _ in range(4):
            outer = self.string(1)
            if outer[0] in ("concat", "str", "arg"):
                continue
            for index, child in enumerate(outer[1:], start=1):
                if child[0] == "arg":
                    return (*outer[:index], node, *outer[index + 1 :])
                if type_of(child) == "L":
                    return (*outer[:index], ("words", node), *outer[index + 1 :])
        return ("strip", node)


def _paths(tree: Tree, here: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield here
    if tree[0] in OPS:
        for index, child in enumerate(tree[1:], start=1):
            yield from _paths(child, (*here, index))


def _at(tree: Tree, path: tuple[int, ...]) -> Tree:
    for index in path:
        tree = tree[index]
    return tree


def _replace(tree: Tree, path: tuple[int, ...], new: Tree) -> Tree:
    if not path:
        return new
    index = path[0]
    return (*tree[:index], _replace(tree[index], path[1:], new), *tree[index + 1 :])


def shorter_variants(tree: Tree) -> Iterator[Tree]:
    """Yield every tree made by replacing one string operation by one of its string children.

    Pretraining keeps a sampled program only in its shortest form with the same outputs.
    """
    for path in _paths(tree):
        node = _at(tree, path)
        if node[0] not in OPS:
            continue
        kind = type_of(node)
        for child in node[1:]:
            if type_of(child) == kind and kind in ("S", "L"):
                yield _replace(tree, path, child)
            elif kind == "S" and type_of(child) == "L":
                for below in child[1:]:
                    if type_of(below) == "S":
                        yield _replace(tree, path, below)


_WORD = re.compile(r"[^\W\d_]{2,}|\d{2,}")


def shared_words(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return words and numbers (two characters or more) that occur in at least two of `rows`."""
    seen: dict[str, int] = {}
    for row in rows:
        for word in {word for text in row for word in _WORD.findall(text)}:
            seen[word] = seen.get(word, 0) + 1
    return sorted(word for word, count in seen.items() if count >= 2)


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


@dataclass(frozen=True, slots=True)
class Condition:
    """A test on the arguments: its text in the language, and the same test as a predicate."""

    text: str
    holds: Callable[[Sequence[str]], bool]


def conditions(rows: Sequence[Sequence[str]]) -> list[Condition]:
    """Return the tests that a join may branch on, simplest first, without repeats in effect.

    They are made from `rows` (training inputs): which separators and shared words occur, at the
    start or the end, how long, how many, digits or letters first. A test that holds for all the
    rows or for none is left out, and of tests that agree on every row the first is kept.
    """
    found: list[Condition] = []
    seen: set[tuple[bool, ...]] = set()

    def offer(text: str, holds: Callable[[Sequence[str]], bool]) -> None:
        effect = tuple(holds(row) for row in rows)
        if any(effect) and not all(effect) and effect not in seen:
            seen.add(effect)
            found.append(Condition(text, holds))

    words = shared_words(rows)
    for index in range(len(rows[0])):
        name = ARGUMENTS[index]
        texts = [row[index] for row in rows]
        marks = [
            s
            for s in (*SEPARATORS, "+", "$", "€", "%", "&", "=", "[", "<", '"', "'", "!", "?", "*")
            if any(s in t for t in texts)
        ]
        for mark in marks:
            offer(f"{mark!r} in {name}", lambda row, i=index, m=mark: m in row[i])  # type: ignore[misc]
        offer(f"{name}[:1].isdigit()", lambda row, i=index: row[i][:1].isdigit())  # type: ignore[misc]
        offer(f"{name}[-1:].isdigit()", lambda row, i=index: row[i][-1:].isdigit())  # type: ignore[misc]
        offer(f"{name}.isdigit()", lambda row, i=index: row[i].isdigit())  # type: ignore[misc]
        offer(f"{name} == ''", lambda row, i=index: row[i] == "")  # type: ignore[misc]
        offer(f"{name}[:1].isupper()", lambda row, i=index: row[i][:1].isupper())  # type: ignore[misc]
        offer(f"{name}.isupper()", lambda row, i=index: row[i].isupper())  # type: ignore[misc]
        for word in words:
            offer(f"{word!r} in {name}", lambda row, i=index, m=word: m in row[i])  # type: ignore[misc]
            offer(f"{name}.startswith({word!r})", lambda row, i=index, m=word: row[i].startswith(m))  # type: ignore[misc]
        for mark in marks:
            offer(f"{name}.startswith({mark!r})", lambda row, i=index, m=mark: row[i].startswith(m))  # type: ignore[misc]
            offer(f"{name}.endswith({mark!r})", lambda row, i=index, m=mark: row[i].endswith(m))  # type: ignore[misc]
            for number in (1, 2, 3):
                offer(
                    f"{name}.count({mark!r}) > {number}",
                    lambda row, i=index, m=mark, n=number: row[i].count(m) > n,  # type: ignore[misc]
                )
        for number in (1, 2, 3):
            offer(f"len({name}.split()) > {number}", lambda row, i=index, n=number: len(row[i].split()) > n)  # type: ignore[misc]
        for length in sorted({len(text) for text in texts})[1:]:
            offer(f"len({name}) < {length}", lambda row, i=index, n=length: len(row[i]) < n)  # type: ignore[misc]
    return found


def join(then: str, condition: str, otherwise: str) -> str | None:
    """Return the canonical `then if condition else otherwise`, or none if it would be too long."""
    return canonical(f"({then}) if {condition} else ({otherwise})")
