"""The expression language: spelling, typing, round trips, and conditions against the real sandbox."""

import ast
from collections.abc import Iterator
from random import Random

import pytest

from evovpo.builtin.strings import expressions
from evovpo.builtin.strings.expressions import ARGUMENTS
from evovpo.builtin.strings.grammar import OPS, Tree, render, shorter_variants, size, type_of
from evovpo.builtin.strings.joining import conditions, predicate
from evovpo.builtin.strings.literals import shared_words
from evovpo.builtin.strings.mutation import mutate
from evovpo.builtin.strings.sampler import Sampler
from evovpo.sandbox import Sandbox
from evovpo.types import Status

ROWS = [
    ["Dr. Ada Lovelace", "1815-12-10"],
    ["GRACE hopper (USN)", "09/12/1906"],
    ["", "no. 7"],
    ["Zoë O'Neil-Smith, Jr.", "  "],
    ["Dr. No", "€ 1,000.50"],
]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1, preload=()) as running:
        yield running


def sampled_programs(count: int, seed: int = 0) -> Iterator[tuple[Sampler, Tree]]:
    sampler = Sampler(Random(seed), ROWS)
    for _ in range(count):
        yield sampler, sampler.program()


def assert_well_typed(tree: Tree) -> None:
    """Fail unless every child has the type that its parent takes; a literal may be any string."""
    for child, wanted in zip(tree[1:], OPS[tree[0]].children if tree[0] in OPS else (), strict=False):
        assert type_of(child).replace("T", "S") == wanted.replace("T", "S"), (tree[0], child)
        assert_well_typed(child)


def test_a_rendered_tree_is_its_own_canonical_form_mutated_too() -> None:
    for sampler, tree in sampled_programs(3000):
        for text in (render(tree), render(mutate(sampler, tree))):
            if len(text) <= expressions.LONGEST:
                assert expressions.canonical(text) == text


def test_sampled_and_mutated_trees_are_well_typed_strings() -> None:
    for sampler, tree in sampled_programs(1500, seed=1):
        mutant = tree
        for _ in range(3):
            mutant = mutate(sampler, mutant)
            assert_well_typed(mutant)
        assert_well_typed(tree)
        assert type_of(tree) in "ST"


def test_shorter_variants_are_well_typed_and_smaller() -> None:
    for _, tree in sampled_programs(300, seed=4):
        for variant in shorter_variants(tree):
            assert_well_typed(variant)
            assert size(variant) < size(tree)


def test_sampled_programs_use_the_arguments_that_there_are() -> None:
    names = {
        node.id
        for _, tree in sampled_programs(500, seed=8)
        for node in ast.walk(ast.parse(render(tree), mode="eval"))
        if isinstance(node, ast.Name)
    }
    assert names <= {"x0", "x1", "w", "re", "len", "str", "int"}
    assert {"x0", "x1"} <= names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" x0 . upper( ) ", "x0.upper()"),
        ('x0 + "a"', "x0 + 'a'"),
        ("((x0))", "x0"),
        ("(x0 if 'a' in x0 else x1)", "x0 if 'a' in x0 else x1"),
        ("x0  # why", "x0"),
        ("1 +", None),
        ("x = 1", None),
        ("", None),
        ("   ", None),
        ("x0\x00", None),
        ("'" + "a" * expressions.LONGEST + "'", None),
        ("(" * 300 + "x0" + ")" * 90, None),
        ("-" * 399 + "1", None),
        ("'\ud800'", None),
    ],
)
def test_canonical_changes_spelling_only_and_refuses_what_is_no_expression(
    text: str, expected: str | None
) -> None:
    assert expressions.canonical(text) == expected


def test_a_program_comes_back_from_its_source() -> None:
    for _, tree in sampled_programs(500, seed=9):
        expression = expressions.canonical(render(tree))
        if expression is None:
            continue
        for parameters in (("first", "second"), ("x1", "x0"), ARGUMENTS[:2]):
            source = expressions.to_source(expression, "solve", parameters)
            assert expressions.from_source(source, "solve") == expression
            assert ("import re\n" in source) == ("re." in expression)


@pytest.mark.parametrize(
    "source",
    [
        "def other(a):\n    return a\n",
        "def solve(a):\n    b = a\n    return b\n",
        "def solve(a):\n    return\n",
        "import os\n\ndef solve(a):\n    return a\n",
        '"""Words."""\n\ndef solve(a):\n    return a\n',
        "def solve(a):\n    return a\n\ndef more():\n    return 1\n",
        "def solve(a, b, c, d, e):\n    return a\n",
        "def solve(a:\n",
    ],
)
def test_what_to_source_did_not_make_is_no_expression(source: str) -> None:
    assert expressions.from_source(source, "solve") is None


def test_shared_words_occur_in_two_rows_or_more() -> None:
    assert shared_words([["Dr. Ada 12"], ["Dr. Bob 12 x"], ["x y"]]) == ["12", "Dr"]


def test_conditions_hold_for_some_rows_and_differ_in_effect() -> None:
    effects = list(conditions(ROWS).values())
    assert len(set(effects)) == len(effects) > 10
    assert all(any(effect) and not all(effect) for effect in effects)


def test_the_simplest_condition_of_each_effect_is_kept() -> None:
    assert list(conditions([["a-b"], ["ab-"], ["c"], ["1-2-3"]])) == [
        "'-' in x0",
        "x0[:1].isdigit()",
        "x0.endswith('-')",
        "len(x0) < 3",
        "len(x0) < 5",
    ]


def test_the_text_of_a_condition_says_what_its_predicate_says(sandbox: Sandbox) -> None:
    probes = [*ROWS, ["x", "y"], ["Dr", "Dr. 1"], ["A-b-c-d", "-"], ["7", "€"], ["ends.", ". "], ["É", "é"]]
    found = conditions(ROWS)
    result = sandbox.run(f"def solve(x0, x1):\n    return [{', '.join(found)}]\n", "solve", probes)
    assert result.status is Status.OK
    for row, held in zip(probes, result.outputs, strict=True):
        assert held == [predicate(text, 2)(row) for text in found]


def test_sampled_programs_run_in_the_sandbox_and_give_strings(sandbox: Sandbox) -> None:
    returned = failed = 0
    for _, tree in sampled_programs(60, seed=10):
        source = expressions.to_source(render(tree), "solve", ("a", "b"))
        result = sandbox.run(source, "solve", ROWS, per_case=True)
        assert result.status is Status.OK
        for output, error in zip(result.outputs, result.errors, strict=True):
            failed += error is not None
            returned += error is None
            assert error is not None or isinstance(output, str), source
    assert returned > failed
