"""Draws random typed string expressions, with literals that fit the given inputs.

Keep the order of the random draws: the random baseline, pretraining and generated tasks depend on it.
"""

from collections.abc import Sequence

from evovpo.builtin.strings.grammar import OPS, Tree
from evovpo.builtin.strings.literals import Literals

FOUND_PATTERNS = (
    r"\d+", r"[A-Z]", r"[A-Za-z]+", r"[a-z]+", r"[A-Z][a-z]*", r"[\d.]+", r"\w+", r"\d{4}", r"\d{2}",
    r"[A-Z]+", r"#\w+", r"@\w+", r"\d{3}", r"[A-Z]{2,}", r"\d+\.\d+", r"\w+$", r"^\w+", r"\b\w", r"\S+",
    r"\(\w+\)",
)  # fmt: skip
REMOVED_PATTERNS = (
    r"\D", r"\D+", r"\d+", r"[^A-Za-z]", r"[^A-Za-z0-9]", r"\s+", r"[A-Z]", r"[a-z]", r"\W+", r"\(.*\)",
    r"[a-z]+", r"^0+", r"[^0-9.]", r"[aeiou]", r"\d+$", r"[^A-Za-z0-9]+",
)  # fmt: skip
_STRING_OPS = (
    (16, "concat"), (5, "upto"), (5, "from"), (3, "item"), (3, "slice"), (5, "upper"), (5, "lower"),
    (3, "title"), (2, "capitalize"), (0.4, "swapcase"), (2.5, "strip"), (1.2, "strip_of"), (1.2, "lstrip_of"),
    (1.4, "rstrip_of"), (5, "before"), (5, "after"), (2.5, "before_last"), (3.5, "after_last"),
    (8, "replace"), (1, "replace_first"), (1.5, "zfill"), (6, "sub"), (2.5, "str"), (7, "join"), (15, "pick"),
)  # fmt: skip
_AROUND_OPS = ((5, "before"), (5, "after"), (2.5, "before_last"), (3.5, "after_last"))
_LIST_OPS = ((5, "words"), (7, "split"), (1, "rsplit_once"), (5, "findall"))
_JOINED_OPS = (
    (3, "words"), (4, "split"), (3, "findall"), (2, "tail"), (2, "head"), (1.5, "reversed"), (5, "each"),
    (0.7, "each_if"),
)  # fmt: skip
_EACH_OPS = (
    (3, "w_item"), (2, "w_upto"), (1, "w_from"), (1, "w_upper"), (2, "w_capitalize"), (1, "w_strip"),
    (1, "w_item_upper"),
)  # fmt: skip
_COUNT_OPS = ((3, "len"), (2, "length"), (2, "count"), (2, "parse_int"))
_TEST_OPS = (
    (10, "contains"), (1.5, "lacks"), (4, "starts"), (4, "ends"), (4, "isdigit"), (1.5, "isalpha"),
    (1, "isupper"), (0.5, "islower"), (3, "less"), (2, "more"), (2, "same_int"), (1.5, "same"),
)  # fmt: skip


class Sampler(Literals):
    """Draws random expression trees (see `grammar.py`). The base class draws their leaves."""

    def _pick(self, table: Sequence[tuple[float, str]]) -> str:
        weights, names = zip(*table, strict=True)
        return str(self.rng.choices(names, weights)[0])

    def string(self, depth: int) -> Tree:
        """Return a random tree of type string. A larger `depth` allows more nesting; 0 gives an argument."""
        if depth <= 0:
            return self.argument()
        name = self._pick(_STRING_OPS)
        if name == "concat":
            return self._concat(depth)
        if name == "item":
            return (name, self.string(depth - 1), self.index())
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
            return (name, ("pat", self.rng.choice(REMOVED_PATTERNS)), new, self.string(depth - 1))
        if name == "str":
            return (name, self.number(depth - 1))
        if name == "join":
            return (name, self.glue(), self.strings(depth - 1))
        if name == "pick":
            return (name, self.plain_list(depth - 1), self.index())
        return (name, self.string(depth - 1))

    def _offset(self, depth: int, name: str) -> Tree:
        if self.rng.random() < 0.08 and depth > 1:
            found: Tree = ("find", self.argument(), self.literal())
            if name == "upto" or self.rng.random() < 0.3:
                return found
            return ("plus", found, ("int", self.rng.choice((1, 1, 2))))
        return self.bound()

    def field(self) -> Tree:
        """Return a random tree for a part of an argument, such as a word, or the text before a separator."""
        subject = self.argument()
        draw = self.rng.random()
        if draw < 0.58:
            part: Tree = ("pick", self.plain_list_of(subject), self.index())
        elif draw < 0.88:
            part = (self._pick(_AROUND_OPS), subject, self.literal())
            if self.rng.random() < 0.25:
                part = (self._pick(_AROUND_OPS), part, self.literal())
        elif draw < 0.94:
            part = (self.rng.choice(("upto", "from")), subject, self.bound())
        else:
            part = ("sub", ("pat", self.rng.choice(REMOVED_PATTERNS)), ("lit", ""), subject)
        draw = self.rng.random()
        if draw < 0.14:
            return ("item", part, ("int", 0))
        if draw < 0.24:
            return (self.rng.choice(("upto", "upto", "from")), part, self.bound())
        if draw < 0.42:
            return (self.rng.choice(("upper", "lower", "capitalize", "title")), part)
        if draw < 0.50:
            changes = (
                ("strip", part),
                ("replace", part, self.literal(), self.glue()),
                ("zfill", part, ("int", self.rng.randint(2, 6))),
                ("rstrip_of", part, self.literal()),
            )
            return self.rng.choice(changes)
        return part

    def _concat(self, depth: int) -> Tree:
        pieces = self.rng.choices((2, 3, 4, 5), (5, 6, 2, 1))[0]
        parts: list[Tree] = []
        glued = self.rng.random() < 0.25
        while len(parts) < pieces:
            if glued:
                part = self.glue()
            elif (draw := self.rng.random()) < 0.6:
                part = self.field()
            else:
                part = self.argument() if draw < 0.85 else self.string(min(depth - 1, 1))
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

    def plain_list_of(self, subject: Tree) -> Tree:
        name = self._pick(_LIST_OPS)
        if name == "findall":
            return (name, ("pat", self.rng.choice(FOUND_PATTERNS)), subject)
        return (name, subject) if name == "words" else (name, subject, self.literal())

    def plain_list(self, depth: int) -> Tree:
        return self.plain_list_of(self.string(depth - 1))

    def strings(self, depth: int) -> Tree:
        name = self._pick(_JOINED_OPS)
        if name in ("words", "split", "findall") or depth <= -1:
            return self.plain_list(depth)
        inner = self.plain_list(depth - 1)
        if name in ("tail", "head"):
            return (name, inner, ("int", self.rng.choice((1, 1, 2, 2, 3, -1, -2))))
        if name == "reversed":
            return (name, inner)
        each = self._pick(_EACH_OPS)
        body: Tree = (each,)
        if OPS[each].children:
            body = (each, ("int", self.rng.choice((0, 0, 0, -1, 1) if "item" in each else (1, 1, 2, 3))))
        if name == "each_if":
            test: Tree = self.rng.choice(
                (("w_isdigit",), ("w_isalpha",), ("w_long", ("int", self.rng.choice((1, 2, 3)))))
            )
            return (name, self.rng.choice((body, ("w",), ("w",))), inner, test)
        return (name, body, inner)

    def number(self, depth: int) -> Tree:
        name = self._pick(_COUNT_OPS)
        if name == "count":
            tree: Tree = (name, self.argument(), self.literal())
        else:
            draw_inner = self.plain_list if name == "length" else self.string
            tree = (name, draw_inner(max(depth - 1, 0)))
        if self.rng.random() < 0.25:
            other: Tree = ("int", self.rng.randint(1, 3))
            if self.rng.random() < 0.25:
                other = ("parse_int", self.argument()) if name == "parse_int" else other
            return (self.rng.choice(("plus", "plus", "minus")), tree, other)
        return tree

    def test(self) -> Tree:
        subject = self.argument()
        name = self._pick(_TEST_OPS)
        if name in ("contains", "lacks"):
            if self.arguments > 1 and self.rng.random() < 0.15:
                return (name, self.argument(), subject)
            return (name, self.literal(), subject)
        if name in ("starts", "ends"):
            return (name, subject, self.literal())
        if name in ("isdigit", "isalpha", "isupper", "islower"):
            parts = (
                subject,
                ("item", subject, ("int", self.rng.choice((0, 0, 0, -1, -1, 1)))),
                ("pick", ("words", subject), ("int", self.rng.choice((0, -1)))),
                ("upto", subject, ("int", self.rng.choice((1, 2, 3)))),
            )
            return (name, self.rng.choice(parts))
        if name == "same":
            if self.arguments > 1 and self.rng.random() < 0.3:
                return (name, subject, ("arg", self.rng.randrange(self.arguments)))
            return (name, subject, ("lit", "") if self.rng.random() < 0.5 else self.literal())
        if self.rng.random() < 0.15:
            return self._number_test(subject)
        measures: tuple[Tree, ...] = (
            ("len", subject),
            ("len", subject),
            ("count", subject, self.literal()),
            ("length", ("words", subject)),
            ("length", ("split", subject, self.literal())),
        )
        measure = self.rng.choice(measures)
        bound = self.rng.randint(2, 14) if measure[0] == "len" else self.rng.choice((1, 1, 2, 2, 3))
        return (name, measure, ("int", bound))

    def _number_test(self, subject: Tree) -> Tree:
        is_whole = self.rng.random() < 0.6
        value = ("parse_int", subject if is_whole else ("pick", self.plain_list_of(subject), self.index()))
        if self.arguments > 1 and self.rng.random() < 0.4:
            return (self.rng.choice(("more", "less")), value, ("parse_int", self.argument()))
        test = self.rng.choice(("more", "less", "same_int"))
        return (test, value, ("int", self.rng.choice((0, 1, 5, 9, 10, 12, 18, 20, 50, 99, 100))))

    def program(self) -> Tree:
        """Return a random tree of a whole program. About 40 % of programs have a conditional expression."""
        draw = self.rng.random()
        if draw < 0.34:
            then, other = self._branch(), self._branch()
            if self.rng.random() < 0.12:
                other = ("if", self._branch(), self.test(), other)
            return ("if", then, self.test(), other)
        if draw < 0.40:
            # An optional part: a branch inside a larger expression.
            then, test = self.field(), self.test()
            tail = ("if", then, test, self.rng.choice((("lit", ""), self.argument(), self.glue())))
            if self.rng.random() < 0.5:
                return ("concat", self._branch(), tail)
            return ("concat", tail, self._branch())
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
