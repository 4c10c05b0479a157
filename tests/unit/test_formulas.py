"""The language of numeric rules: what is a formula, programs and back, random formulas and changes."""

from __future__ import annotations

import ast
import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evovpo.builtin.formulas.format import FORMULAS, MAX_NODES, function_of
from evovpo.builtin.formulas.sampler import FormulaSampler
from evovpo.errors import ConfigError

NAMES = ("item", "remaining", "capacity")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a-b", "a - b"),
        (" (a - (b)) ", "a - b"),
        ("-a ** 2", "-a ** 2"),
        ("a ** 0.50", "a ** 0.5"),
        ("1 if b-a<=8 else -(b//a)%7", "1 if b - a <= 8 else -(b // a) % 7"),
        (
            "a if a<b and c!=2 or b==1 else max(a,b,1.5)",
            "a if a < b and c != 2 or b == 1 else max(a, b, 1.5)",
        ),
        ("abs(a)", "abs(a)"),
        ("3", "3"),
    ],
)
def test_a_formula_has_one_way_to_be_written(text: str, wanted: str) -> None:
    assert FORMULAS.canonical(text, 3) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "", "a -", "a; b", "a = 1", "d", "x", "abs", "print(a)", "a.real", "a[0]", "'a'", "True", "1e9", "1j",
        "a < b", "a if b else c", "1 if a < b < c else 2", "not a", "min(a)", "abs(a, b)", "max(a, key=b)",
        "min(*a)", "a @ b", "a << 2", "a ** b", "a ** 5", "a ** -2", "+a", "a and b", "0.12345", "1234567",
        "08", "[a]", "lambda: a", "(a := 1)", "a" + " + a" * 40, "(" * 500 + "a" + ")" * 500, "abs(print)",
    ],
)  # fmt: skip
def test_everything_else_is_none(text: str) -> None:
    assert FORMULAS.canonical(text, 3) is None


def test_programs_have_the_names_of_the_problem_and_lead_back() -> None:
    source = FORMULAS.to_source("min(a, b) if c > 10 else -a", "priority", NAMES)
    assert source == (
        "def priority(item, remaining, capacity):\n"
        "    return min(item, remaining) if capacity > 10 else -item\n"
    )
    assert FORMULAS.from_source(source, "priority") == "min(a, b) if c > 10 else -a"
    swapped = FORMULAS.to_source("a - b", "f", ("b", "a"))
    assert swapped.endswith("return b - a\n")
    assert FORMULAS.from_source(swapped, "f") == "a - b"


def test_a_starting_program_may_have_docstrings() -> None:
    assert (
        FORMULAS.from_source('"""Rule."""\n\n\ndef f(x, y):\n    """It."""\n    return y // x\n', "f")
        == "b // a"
    )


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    y = x\n    return y\n", "def g(x):\n    return x\n",
        "import math\ndef f(x):\n    return x\n",
        "def f(x=1):\n    return x\n", "def f(*x):\n    return 1\n", "def f(x):\n    return\n", "def f(:\n",
        "def f():\n    return 1\n", "def f(x, y, z, u, v):\n    return x\n", "def f(x):\n    return q\n",
        "@cache\ndef f(x):\n    return x\n", "def f(x):\n    return x\nf = 1\n",
    ],
)  # fmt: skip
def test_a_program_that_does_more_is_no_formula(source: str) -> None:
    assert FORMULAS.from_source(source, "f") is None


@given(st.integers(0, 10**9), st.integers(1, 4))
def test_random_formulas_and_changes_are_canonical_and_can_be_computed(seed: int, inputs: int) -> None:
    sampler = FormulaSampler(Random(seed), inputs)
    formula = sampler.formula()
    changed = sampler.mutant(formula)
    assert changed != formula
    names = tuple(f"x{number}" for number in range(inputs))
    for text in (formula, changed):
        assert FORMULAS.canonical(text, inputs) == text
        assert FORMULAS.from_source(FORMULAS.to_source(text, "f", names), "f") == text
        used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        assert used & set("abcd"[:inputs])
        assert not used & set("abcd"[inputs:])


def test_a_draw_follows_from_its_seed_and_draws_differ() -> None:
    first, again = (FormulaSampler(Random(7), 3) for _ in range(2))
    drawn = [first.formula() for _ in range(200)]
    assert drawn == [again.formula() for _ in range(200)]
    assert len(set(drawn)) > 150


def test_the_sampler_reaches_all_of_the_language() -> None:
    sampler = FormulaSampler(Random(1), 3)
    text = " ".join(sampler.formula() for _ in range(600))
    for piece in (
        "a", "b", "c", " + ", " - ", " * ", " / ", " // ", " % ", " ** ", " < ", " <= ", " > ", " >= ",
        " == ", " != ", " if ", " and ", " or ", "abs(", "min(", "max(", "-", ".",
    ):  # fmt: skip
        assert piece in text, piece


def test_changes_stay_near_their_parent() -> None:
    """A change in one or two places keeps most of a long formula, on average."""
    rng = Random(3)
    sampler = FormulaSampler(rng, 3)
    parents = [text for text in (sampler.formula() for _ in range(300)) if len(text) > 30][:60]
    kept = []
    for parent in parents:
        tokens, changed = set(parent.split()), set(sampler.mutant(parent).split())
        kept.append(len(tokens & changed) / len(tokens))
    assert sum(kept) / len(kept) > 0.6


def test_a_formula_computes_what_its_program_computes() -> None:
    rng = Random(5)
    sampler = FormulaSampler(rng, 3)
    for _ in range(50):
        text = sampler.formula()
        names: dict[str, object] = {}
        exec(FORMULAS.to_source(text, "f", NAMES), names)
        arguments = [rng.randint(1, 150) for _ in NAMES]
        try:
            wanted = names["f"](*arguments)  # type: ignore[operator]
        except (ArithmeticError, TypeError) as error:
            with pytest.raises(type(error)):
                function_of(text)(*arguments)
        else:
            assert function_of(text)(*arguments) == wanted or math.isnan(wanted)


def test_limits_are_held() -> None:
    longest = "a" + " + a" * ((MAX_NODES - 1) // 2)
    assert FORMULAS.canonical(longest) == longest
    assert FORMULAS.canonical(longest + " + a") is None
    with pytest.raises(ConfigError, match="found 5"):
        FormulaSampler(Random(0), 5)
