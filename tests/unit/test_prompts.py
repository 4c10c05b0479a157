"""Prompt formats: exact texts, answers read from completions, and what may be shown at all."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import pytest
from toy_runs import HARD, PROBLEM, evaluation, source

from evovpo.builtin.chain import END, END_ID, MAX_ROWS, SEPARATOR, SEPARATOR_ID
from evovpo.builtin.strings import expressions
from evovpo.builtin.strings.format import ExpressionFormat, expression_fault
from evovpo.errors import ProblemError
from evovpo.prompts.request import PromptFormat, PromptRequest, ShownProgram, choose_rows
from evovpo.types import (
    Example,
    ParentRole,
    Problem,
    Program,
    Rollout,
    Sampling,
)


def rollout(text: str, token_ids: tuple[int, ...] | None = None) -> Rollout:
    return Rollout("r", "p", 0, 0, text, token_ids, None, None, Sampling(), "stop", 0.0)


def shown(
    text: str, outputs: tuple[str | None, ...] | None = None, rewards: tuple[float, ...] = (1.0,) * 6
) -> ShownProgram:
    return ShownProgram(Program(text), dataclasses.replace(evaluation(text, rewards), outputs=outputs))


def text_of(made_by: PromptFormat, problem: Problem, **given: object) -> str:
    values = {"answers": 2, "rows": (0, 3), **given}
    return made_by.messages(problem, PromptRequest(**values))[-1].content  # type: ignore[arg-type]


def test_a_root_prompt_shows_the_rows_in_the_order_given() -> None:
    made_by = ExpressionFormat(PROBLEM)
    first = "⟦ex⟧⟦a⟧⟦C7⟧,⟦s1⟧⟦C3⟧⟦to⟧⟦@a3⟧ ⟦@a0⟧"
    second = "⟦ex⟧⟦a⟧⟦C5⟧⟦to⟧⟦@a0⟧⟦u⟧"
    assert text_of(made_by, PROBLEM) == f"⟦m2⟧{first}{second}⟦out⟧"
    assert text_of(made_by, PROBLEM, rows=(3, 0), answers=4) == f"⟦m4⟧{second}{first}⟦out⟧"


def test_a_parent_is_shown_with_what_it_passes_and_what_it_gives_instead() -> None:
    outputs = ("LOVELACE, ADA", None, None, "PLATO", None, None)
    parent = shown(source("x0.upper()"), outputs, (0.0, 0.0, 0.0, 1.0, 0.0, 0.0))
    text = text_of(ExpressionFormat(PROBLEM), PROBLEM, parent=parent)
    assert text.endswith("⟦par⟧x0.upper()⟦no⟧⟦@a0⟧⟦u⟧, ⟦@a-1⟧⟦u⟧⟦ok⟧⟦out⟧")


def test_a_passing_row_whose_output_was_not_kept_is_shown_as_passing() -> None:
    parent = shown(source("x0.upper()"), (None,) * 6, (0.0, 0.0, 0.0, 1.0, 0.0, 0.0))
    text = text_of(ExpressionFormat(PROBLEM), PROBLEM, parent=parent)
    assert text.endswith("⟦par⟧x0.upper()⟦no⟧⟦err⟧⟦ok⟧⟦out⟧")


def test_a_parent_that_gave_no_outputs_is_shown_as_failing() -> None:
    parent = shown(source("int(x0)"), None, (0.0,) * 6)
    assert text_of(ExpressionFormat(PROBLEM), PROBLEM, parent=parent).endswith(
        "⟦par⟧int(x0)" + "⟦no⟧⟦err⟧" * 2 + "⟦out⟧"
    )


def test_no_more_rows_are_shown_than_the_model_knows() -> None:
    assert len(HARD.train) > MAX_ROWS
    text = text_of(ExpressionFormat(HARD), HARD, rows=tuple(range(len(HARD.train))))
    assert text.count("⟦ex⟧") == MAX_ROWS


def test_answers_are_read_in_order_with_their_tokens() -> None:
    text = f"x0{SEPARATOR}1 +{SEPARATOR} x0 . upper(){END}"
    tokens = (50, SEPARATOR_ID, 51, 52, SEPARATOR_ID, 53, 54, 55, END_ID)
    answers = ExpressionFormat(PROBLEM).answers(PROBLEM, rollout(text, tokens), 3)
    assert [answer.text for answer in answers] == ["x0", "1 +", " x0 . upper()"]
    assert [answer.token_span for answer in answers] == [(0, 1), (2, 4), (5, 8)]
    assert answers[0].program == Program(source("x0"))
    assert answers[1].program is None
    assert answers[2].program == Program(source("x0.upper()"))


@pytest.mark.parametrize(
    "text", ["", "x0", f"x0{END}", f"x0{SEPARATOR}x0", SEPARATOR * 9, f"x0{END}x0{SEPARATOR}x0"]
)
def test_there_are_always_as_many_slots_as_answers_were_asked_for(text: str) -> None:
    for count in (1, 2, 3):
        assert len(ExpressionFormat(PROBLEM).answers(PROBLEM, rollout(text), count)) == count


def test_a_program_at_the_edge_of_what_python_can_nest_is_no_crash() -> None:
    def deeper(frames: int, call: Callable[[], object]) -> object:
        return call() if frames == 0 else deeper(frames - 1, call)

    made_by = ExpressionFormat(PROBLEM)
    unreadable = 0
    for depth in range(180, 330):
        expression = expressions.canonical("-" * depth + "len(x0)")
        if expression is None:
            break
        program = Program(f"def solve(x0):\n    return {expression}\n")
        deeper(150, functools.partial(made_by.can_show, PROBLEM, program, ParentRole.PARENT))
        unreadable += deeper(150, functools.partial(expressions.to_program, expression, PROBLEM)) is None
    assert unreadable > 0


def test_only_single_expressions_can_be_shown_as_parents_and_nothing_as_inspiration() -> None:
    made_by = ExpressionFormat(PROBLEM)
    loop = Program("def solve(name):\n    x = name\n    return x\n")
    assert made_by.can_show(PROBLEM, Program(source("x0")), ParentRole.PARENT)
    assert not made_by.can_show(PROBLEM, loop, ParentRole.PARENT)
    assert not made_by.can_show(PROBLEM, Program(source("x0")), ParentRole.INSPIRATION)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"scorer_path": "score.py"}, "scorer"),
        ({"parameters": ()}, "0 inputs"),
        ({"parameters": tuple("abcde")}, "5 inputs"),
        ({"parameters": ("w",)}, "named re, w"),
        ({"train": (Example(("a",), 1),)}, "row 1"),
        ({"train": (Example(("a",), "b"), Example((None,), "b"))}, "row 2"),
    ],
)
def test_problems_that_the_built_in_model_cannot_read_are_refused_with_the_reason(
    changes: dict[str, object], fault: str
) -> None:
    problem = dataclasses.replace(PROBLEM, **changes)  # type: ignore[arg-type]
    assert fault in expression_fault(problem)
    with pytest.raises(ProblemError, match=fault):
        ExpressionFormat(problem)


def test_held_out_rows_of_any_kind_do_not_matter_to_the_format() -> None:
    odd = dataclasses.replace(PROBLEM, heldout=(Example((1, None), [2]),))
    assert expression_fault(odd) == ""
    assert text_of(ExpressionFormat(odd), odd) == text_of(ExpressionFormat(PROBLEM), PROBLEM)


@pytest.mark.parametrize(
    ("count", "only"), [(0, None), (3, None), (20, None), (20, [4, 9]), (9, list(range(8)))]
)
def test_rows_are_drawn_without_repeats_up_to_what_a_prompt_holds(count: int, only: list[int] | None) -> None:
    pool = set(range(count)) if only is None else set(only)
    seen: set[int] = set()
    for seed in range(60):
        rows = choose_rows(count, MAX_ROWS, np.random.default_rng(seed), only)
        assert len(set(rows)) == len(rows) == min(MAX_ROWS, len(pool))
        assert set(rows) <= pool
        seen |= set(rows)
    assert seen == pool
