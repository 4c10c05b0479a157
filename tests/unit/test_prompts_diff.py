"""SEARCH/REPLACE edits: where they are made, what is refused and why, and that it is all or nothing."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from prompt_cases import EVALUATED, FILES, FOLDER, MARKED, TEXT, rollout

from evovpo.prompts.blocks import layout
from evovpo.prompts.bundles import header, pack, unpack
from evovpo.prompts.instruct import DiffFormat
from evovpo.prompts.replies import delimiter
from evovpo.prompts.request import Answer
from evovpo.types import Problem, Program

FREE = """def area(r):
    if r > 0:
        return r * r
    return 0.0


def zero(r):
    return 0.0
"""


def edit(search: str, replace: str) -> str:
    """Return an edit; both texts are whole lines."""
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def only(text: str, parent: str = FREE, problem: Problem = EVALUATED) -> Answer:
    (answer,) = DiffFormat().answers(problem, rollout(text), 1, Program(parent))
    return answer


def source(text: str, parent: str = FREE, problem: Problem = EVALUATED) -> str:
    answer = only(text, parent, problem)
    assert answer.program is not None, answer.reason
    return answer.program.source


def reason(text: str, parent: str = FREE, problem: Problem = EVALUATED) -> str:
    answer = only(text, parent, problem)
    assert answer.program is None
    return answer.reason


def test_several_edits_refer_to_the_program_as_it_was() -> None:
    text = edit("def zero(r):\n", "def area(r):\n") + "and\n" + edit("def area(r):\n", "def zero(r):\n")
    swapped = FREE.replace("area", "?").replace("zero", "area").replace("?", "zero")
    assert source(text) == swapped


def test_blanks_at_the_ends_of_lines_do_not_matter() -> None:
    assert source(edit("def area(r):  \n    if r > 0: \n", "def area(r):\n    if r >= 0:\n")) == FREE.replace(
        ">", ">="
    )


def test_common_indentation_does_not_matter_and_is_put_back() -> None:
    search, replace = "if r > 0:\n    return r * r\n", "if r > 1:\n\n    return r\n"
    assert source(edit(search, replace)) == FREE.replace(
        "    if r > 0:\n        return r * r\n", "    if r > 1:\n\n        return r\n"
    )
    deeper = "            return r * r\n"
    assert source(edit(deeper, deeper.replace("r *", "2 *"))) == FREE.replace("r * r", "2 * r")


def test_exact_lines_win_over_lines_that_match_but_for_their_indentation() -> None:
    parent = "if x:\n    y = 1\ny = 1\n"
    assert source(edit("y = 1\n", "y = 2\n"), parent) == "if x:\n    y = 1\ny = 2\n"


def test_delimiters_may_be_sloppy_and_fenced() -> None:
    text = "Here:\n```diff\n<<<<<<<< SEARCH  \ndef zero(r):\n======\ndef none(r):\n>>>>>>> REPLACE\n```\n"
    assert source(text) == FREE.replace("zero", "none")


def test_windows_line_ends_stay() -> None:
    parent = FREE.replace("\n", "\r\n")
    assert source(edit("def zero(r):\n", "def none(r):\n"), parent) == parent.replace("zero", "none")
    assert source(edit("def zero(r):\n", "def none(r):\n").replace("\n", "\r\n")) == FREE.replace(
        "zero", "none"
    )


def test_lines_like_a_divider_are_found_in_the_program() -> None:
    parent = '"""\nTitle\n=======\n"""\nx = 1\n'
    text = edit("Title\n=======\n", "Heading\n=======\n")
    assert source(text, parent) == parent.replace("Title", "Heading")


def test_several_places_are_refused_with_their_lines() -> None:
    assert reason(edit("    return 0.0\n", "    return 1.0\n")) == (
        "edit 1: its SEARCH text is found in 2 places (lines 4, 8); give more lines"
    )


def test_no_place_is_refused_with_the_nearest_lines() -> None:
    assert reason(edit("def zero(r):\n    return 1.0\n", "x\n")) == (
        "edit 1: its SEARCH text is not in the program; nearest is line 8, 'return 0.0' where SEARCH has "
        "'return 1.0'"
    )
    assert reason(edit("def zeros(r):\n", "x\n")).endswith("nearest is line 7, 'def zero(r):'")
    assert reason(edit("completely other\n", "x\n")).endswith("nor anything like 'completely other'")
    assert reason(edit("  if r > 0:\n   return r * r\n", "x\n")) == (
        "edit 1: its SEARCH text is indented otherwise than line 2 and following"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I would not change anything.", "it has no edit of the form"),
        ("```python\n<<<<<<< SEARCH\nx\n=======\n```", "edit 1 does not end with '>>>>>>> REPLACE'"),
        ("<<<<<<< SEARCH\ndef zero(r):\n=======\ndef", "edit 1 does not end with '>>>>>>> REPLACE'"),
        ("<<<<<<< SEARCH\nx\n" + edit("def zero(r):\n", "y\n"), "edit 1 does not end with '>>>>>>> REPLACE'"),
        ("<<<<<<< SEARCH\ndef zero(r):\n>>>>>>> REPLACE", "edit 1 has no line '======='"),
        (edit("\n", "x\n"), "edit 1: its SEARCH text is empty"),
        (edit("def zero(r):\n", "def zero(r):\n"), "it changes nothing"),
        (edit("def zero(r):\n    return 0.0\n", "") + edit("\ndef zero(r):\n", ""), "two edits touch line 7"),
        (edit("      def zero(r):\n", "x = 1\n"), "its SEARCH text is indented otherwise"),
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_applied_says_why(text: str, why: str) -> None:
    assert why in reason(text)


def test_one_bad_edit_refuses_all() -> None:
    assert reason(edit("def zero(r):\n", "def none(r):\n") + edit("nowhere\n", "x\n")).startswith("edit 2")


def test_edits_cut_off_by_the_token_limit_say_so() -> None:
    text = edit("def zero(r):\n", "def none(r):\n") + "<<<<<<< SEARCH\ndef ar"
    (answer,) = DiffFormat().answers(EVALUATED, rollout(text, "length"), 1, Program(FREE))
    assert answer.reason.endswith("(the token limit cut the reply off)")


@pytest.mark.parametrize(
    ("search", "replace", "why"),
    [
        ("    return area(1.0)\n", "    return area(2.0)\n", "'return area(1.0)' became"),
        ("# EVOLVE-BLOCK-END\n", "", "'# EVOLVE-BLOCK-END' was removed"),
        ("    return r * r\n", "# EVOLVE-BLOCK-END\n", "a line outside of the EVOLVE-BLOCKs"),
    ],
)
def test_an_edit_outside_of_the_blocks_is_refused(search: str, replace: str, why: str) -> None:
    assert why in reason(edit(search, replace), MARKED)


def test_marker_lines_may_stand_in_an_edit_as_they_are() -> None:
    text = edit("# EVOLVE-BLOCK-START\ndef area(r):\n", "# EVOLVE-BLOCK-START\nx = 1\ndef area(r):\n")
    assert source(text, MARKED) == MARKED.replace("def area(r)", "x = 1\ndef area(r)")
    text = edit(
        "    return 2 * r\n# EVOLVE-BLOCK-END\n\n", "    return 2 * r\n    # end\n# EVOLVE-BLOCK-END\n\n"
    )
    assert source(text, MARKED) == MARKED.replace("2 * r\n", "2 * r\n    # end\n")


def test_markers_of_any_comment_divide_a_text() -> None:
    for start, end in (("// ", ""), ("<!-- ", " -->"), ("-- ", ""), ("  /* ", " */"), ("%", ""), ("", "")):
        text = f"a\n{start}EVOLVE-BLOCK-START{end}\nb\n{start}EVOLVE-BLOCK-END{end}\nc\n"
        found = layout(text)
        assert found is not None
        assert found.blocks == (("b",),)
        assert only(edit("b\n", "B\n"), text, TEXT).program == Program(text.replace("\nb\n", "\nB\n"))
        assert "outside" in reason(edit("c\n", "C\n"), text, TEXT)


def test_markers_without_their_other_half() -> None:
    assert layout("a\n# EVOLVE-BLOCK-END\nb\n") is None
    found = layout("a\n# EVOLVE-BLOCK-START\nb\n# EVOLVE-BLOCK-START\nc")
    assert found is not None
    assert found.blocks == (("b", "# EVOLVE-BLOCK-START", "c"),)
    assert layout("print('EVOLVE-BLOCK-START')") is None


LINES = st.sampled_from(["a", " a", "b", "", "# EVOLVE-BLOCK-START", "# EVOLVE-BLOCK-END"])
TEXTS = st.lists(LINES, max_size=8).map(lambda lines: "".join(line + "\n" for line in lines))


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=2))
def test_nothing_outside_of_the_blocks_ever_changes(parent: str, edits: list[tuple[str, str]]) -> None:
    answer = only("".join(edit(*texts) for texts in edits), parent, TEXT)
    assert (answer.program is None) == bool(answer.reason)
    before = layout(parent)
    if answer.program is not None and before is not None:
        after = layout(answer.program.source)
        assert after is not None
        assert after.fixed == before.fixed


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", " c", "", "======="]), min_size=1, max_size=8), st.data())
def test_an_edit_of_any_range_found_once_gives_what_was_wanted(lines: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(lines) - 1))
    end = data.draw(st.integers(start + 1, len(lines)))
    new = data.draw(st.lists(st.sampled_from(["x", " y", ""]), max_size=3))
    window = lines[start:end]
    assume(any(line.strip() for line in window))
    assume("=======" not in window)
    same = [at for at in range(len(lines)) if lines[at : at + len(window)] == window]
    text = edit("".join(f"{line}\n" for line in window), "".join(f"{line}\n" for line in new))
    answer = only(text, "\n".join(lines), TEXT)
    if len(same) == 1:
        wanted = "\n".join([*lines[:start], *new, *lines[end:]])
        assert answer.program == Program(wanted)
    else:
        assert f"found in {len(same)} places" in answer.reason


def test_a_chain_of_edits_is_one_program_an_answer() -> None:
    first, second = edit("def zero(r):\n", "def none(r):\n"), edit("def area(r):\n", "def disk(r):\n")
    text = f"{delimiter(1)}\n{first}\n{delimiter(2)}\n{second}{first}\n{delimiter(3)}\nnothing"
    answers = DiffFormat().answers(EVALUATED, rollout(text), 4, Program(FREE))
    assert [answer.program for answer in answers] == [
        Program(FREE.replace("zero", "none")),
        Program(FREE.replace("zero", "none").replace("area", "disk")),
        None,
        None,
    ]


def test_without_a_parent_edits_apply_to_the_starting_program() -> None:
    (answer,) = DiffFormat().answers(EVALUATED, rollout(edit("    return r * r\n", "    return r\n")), 1)
    assert answer.program == Program(MARKED.replace("r * r", "r"))


def test_edits_are_looked_for_in_all_files_of_a_folder() -> None:
    made = source(edit("    return 1\n", "    return 2\n"), pack(FILES), FOLDER)
    assert unpack(made) == {**FILES, "lib/tools.py": "def one():\n    return 2\n"}


def test_an_edit_that_fits_two_files_needs_the_name_of_one() -> None:
    parent = pack({"a.py": "x = 1\n", "b.py": "x = 1\n"})
    text = edit("x = 1\n", "x = 2\n")
    assert "2 places (lines 1 of a.py, 1 of b.py)" in reason(text, parent, FOLDER)
    assert unpack(source(f"{header('b.py')}\n{text}", parent, FOLDER)) == {
        "a.py": "x = 1\n",
        "b.py": "x = 2\n",
    }
    assert "'c.py', which the program does not have" in reason(f"{header('c.py')}\n{text}", parent, FOLDER)
