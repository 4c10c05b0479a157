"""Alignments: what they show can be turned back into the output, by a slow reader of its own."""

import re
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evovpo.builtin.strings.references import (
    MAX_PIECES,
    MAX_RUNS,
    alignment_tokens,
    describe_inputs,
    describe_outputs,
    plain,
    run_class,
    runs,
)

TOKENS = re.compile(r"⟦[^⟦⟧]*⟧|[\s\S]")
texts = st.text(st.sampled_from("abcXYZ019 -,.;é€ßＡ⟦⟧\n_") | st.characters(), max_size=30)


def read_back(description: str, row: Sequence[str]) -> str:
    """Return the output that a description stands for."""
    tokens = TOKENS.findall(description)
    out: list[str] = []
    place = 0

    def bracketed(pattern: str) -> re.Match[str] | None:
        nonlocal place
        found = re.fullmatch(pattern, tokens[place]) if place < len(tokens) else None
        place += found is not None
        return found

    while place < len(tokens):
        pointer = bracketed(r"⟦@([a-d])(-?)(\d+)⟧")
        if pointer is None:
            assert tokens[place] == "⟦cut⟧" or len(tokens[place]) == 1, tokens[place]
            out.append(tokens[place])
            place += 1
            continue
        found = runs(row["abcd".index(pointer[1])])
        run = found[-int(pointer[3])] if pointer[2] else found[int(pointer[3])]
        if case := bracketed("⟦([ult])⟧"):
            run = {"u": str.upper, "l": str.lower, "t": str.capitalize}[case[1]](run)
        if start := bracketed(r"⟦from(\d)⟧"):
            run = run[int(start[1]) :]
        if length := bracketed(r"⟦<(\d)⟧"):
            run = run[: int(length[1])]
        elif length := bracketed(r"⟦>(\d)⟧"):
            run = run[-int(length[1]) :]
        out.append(run)
    return "".join(out)


def assert_reads_back(rows: Sequence[Sequence[str]], outputs: Sequence[str]) -> None:
    for row, output, description in zip(rows, outputs, describe_outputs(rows, outputs), strict=True):
        shown = read_back(description, row)
        if shown.endswith("⟦cut⟧"):
            assert plain(output).startswith(plain(shown.removesuffix("⟦cut⟧")))
        else:
            assert plain(shown) == plain(output)


@given(texts)
def test_the_runs_of_a_text_joined_are_the_text(text: str) -> None:
    assert "".join(runs(text)) == text


def test_runs_are_letters_digits_blanks_or_one_other_character() -> None:
    assert runs("Ab9  é--_1\n") == ["Ab", "9", "  ", "é", "-", "-", "_", "1", "\n"]
    assert runs("") == []


@pytest.mark.parametrize(
    ("run", "token"),
    [
        ("ab", "⟦w2⟧"),
        ("AB", "⟦W2⟧"),
        ("A", "⟦C1⟧"),
        ("Abc", "⟦C3⟧"),
        ("aBc", "⟦M3⟧"),
        ("abcdefghij", "⟦w7⟧"),
        ("12", "⟦d2⟧"),
        ("12345678", "⟦d6⟧"),
        (" ", "⟦s1⟧"),
        ("     ", "⟦s3⟧"),
        ("-", "-"),
        ("⟦", "["),
    ],
)
def test_the_class_of_a_run_says_kind_and_length(run: str, token: str) -> None:
    assert run_class(run) == token


def test_a_whole_run_is_pointed_at_the_way_most_rows_agree_on() -> None:
    rows = [["Lovelace, Ada"], ["van Rossum, Guido"]]
    assert describe_outputs(rows, ["Ada", "Guido"]) == ["⟦@a-1⟧", "⟦@a-1⟧"]
    assert describe_outputs(rows, ["Lovelace", "van"]) == ["⟦@a0⟧", "⟦@a0⟧"]


def test_cases_prefixes_suffixes_and_middles_are_shown_as_such() -> None:
    rows = [["lovelace", "1815"]]
    assert describe_outputs(rows, ["LOVELACE"]) == ["⟦@a0⟧⟦u⟧"]
    assert describe_outputs(rows, ["Lovelace"]) == ["⟦@a0⟧⟦t⟧"]
    assert describe_outputs(rows, ["love"]) == ["⟦@a0⟧⟦<4⟧"]
    assert describe_outputs(rows, ["LOV"]) == ["⟦@a0⟧⟦u⟧⟦<3⟧"]
    assert describe_outputs(rows, ["lace"]) == ["⟦@a0⟧⟦>4⟧"]
    assert describe_outputs(rows, ["vela"]) == ["⟦@a0⟧⟦from2⟧⟦<4⟧"]
    assert describe_outputs(rows, ["15: love"]) == ["⟦@b0⟧⟦>2⟧: ⟦@a0⟧⟦<4⟧"]


def test_what_comes_from_nowhere_is_spelled_out_and_an_error_is_marked() -> None:
    assert describe_outputs([["ab"], ["cd"]], ["Hi!", None]) == ["Hi!", "⟦err⟧"]


def test_a_long_output_is_cut_and_marked() -> None:
    (description,) = describe_outputs([["ab"]], ["-" * (MAX_PIECES + 1)])
    assert description == "-" * MAX_PIECES + "⟦cut⟧"


def test_letters_are_spelled_out_only_where_rows_share_them() -> None:
    assert describe_inputs([["Dr. Ada"], ["Dr. Bo"]]) == ["⟦a⟧⟦C2⟧Dr.⟦s1⟧⟦C3⟧", "⟦a⟧⟦C2⟧Dr.⟦s1⟧⟦C2⟧"]
    assert describe_inputs([["-" * 30]]) == ["⟦a⟧" + "-" * MAX_RUNS + "⟦cut⟧"]
    assert describe_inputs([["ab", "", "12"]]) == ["⟦a⟧⟦w2⟧⟦b⟧⟦c⟧⟦d2⟧"]


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=5))
def test_any_output_can_be_read_back(rows: list[tuple[str, str, str]]) -> None:
    assert_reads_back([row[:2] for row in rows], [row[2] for row in rows])


def test_outputs_made_of_parts_of_the_inputs_can_be_read_back() -> None:
    rng = Random(0)
    words = ["Ada", "LOVELACE", "x7", "o'Neil", "van der", "1815-12-10", "straße", "éa", "12", " "]
    for _ in range(400):
        rows = [
            [rng.choice(words) + rng.choice(", ") + rng.choice(words) for _ in range(2)] for _ in range(3)
        ]
        outputs = []
        for row in rows:
            part = rng.choice(row)
            start = rng.randrange(len(part))
            change = rng.choice((str, str.upper, str.lower, str.title))
            outputs.append(
                change(part[start : start + rng.randint(0, 9)]) + rng.choice(("", "-", "ab")) + row[0][:3]
            )
        assert_reads_back(rows, outputs)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
def test_every_token_is_in_the_vocabulary(rows: list[tuple[str, str]]) -> None:
    known = set(alignment_tokens())
    inputs = [[row[0]] for row in rows]
    for description in (*describe_inputs(inputs), *describe_outputs(inputs, [row[1] for row in rows])):
        assert {token for token in TOKENS.findall(description) if len(token) > 1} <= known


def test_the_order_of_the_rows_does_not_change_a_row() -> None:
    rows = [["Lovelace, Ada"], ["Turing, Alan"], ["Plato"], ["van Rossum, Guido"]]
    outputs = ["A. Lovelace", "A. Turing", "Plato", "G. van Rossum"]
    order = [2, 0, 3, 1]
    described = list(zip(describe_inputs(rows), describe_outputs(rows, outputs), strict=True))
    shuffled_rows, shuffled = [rows[i] for i in order], [outputs[i] for i in order]
    assert [described[i] for i in order] == list(
        zip(describe_inputs(shuffled_rows), describe_outputs(shuffled_rows, shuffled), strict=True)
    )
