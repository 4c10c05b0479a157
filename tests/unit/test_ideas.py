"""What a model says of its change: read from answers, kept with programs, shown to later prompts."""

from dataclasses import replace

from plain_search import PLAIN, PlainLoop, judge
from prompt_cases import rollout

from evovpo.builtin.strings import expressions
from evovpo.prompts.instruct import DiffFormat, RewriteFormat
from evovpo.prompts.replies import idea_of
from evovpo.prompts.request import CHANGES, Change, PromptRequest, ShownProgram
from evovpo.types import Program, PromptKind


def test_an_idea_is_what_stands_before_the_program_without_reasoning() -> None:
    assert idea_of("Use a\n wider  grid.\n```python\npass\n```\nMore words.") == "Use a wider grid."
    assert idea_of("<think>long ``` thought</think>Less.\n<<<<<<< SEARCH\na\n=======\nb\n") == "Less."
    assert idea_of("long\n```\nthought\n```\n</think>\nLess.\n```\na\n```\n") == "Less."
    assert idea_of("```python\npass\n```") == ""
    assert idea_of("words alone") == ""
    assert len(idea_of("x" * 1000 + "\n```\npass\n```")) == 303


def test_a_program_keeps_its_last_changes_with_what_each_brought() -> None:
    loop = PlainLoop()
    parent = None
    for step in range(1, CHANGES + 3):
        program = Program(f"0.{step + 2} 0.{step + 2} # step {step}")
        prompt = loop.ask()
        before = loop.search.standing.best
        loop.search.standing.take(program, judge(program), before, f"idea {step}")
        parent = loop.search.standing.programs[program.id]
        assert prompt.messages
    assert parent is not None
    assert [change.idea for change in parent.changes] == [f"idea {step}" for step in range(3, CHANGES + 3)]
    assert parent.changes[-1] == Change("idea 5", 0.6, 0.7)


def test_a_prompt_lists_the_changes_of_its_parent() -> None:
    program = Program("def run():\n    return 1\n")
    parent = ShownProgram(program, judge(Program("0.5 0.5")), (Change("Try a grid.", 0.25, 0.5),))
    request = PromptRequest(1, kind=PromptKind.MUTATE, parent=parent)
    user = RewriteFormat().messages(PLAIN, request)[-1].content
    assert "- Try a grid. (0.25 -> 0.5)" in user
    request = replace(request, parent=replace(parent, changes=()))
    assert "last changes" not in RewriteFormat().messages(PLAIN, request)[-1].content


def test_a_whole_program_is_taken_where_edits_are_asked_for() -> None:
    parent = Program("def run():\n    return 1\n")
    text = "All new.\n```python\ndef run():\n    return 2\n```"
    (answer,) = DiffFormat().answers(PLAIN, rollout(text), 1, parent)
    assert answer.program == Program("def run():\n    return 2\n")


def test_an_expression_is_shortened_by_parts_in_place_of_the_parts_around_them() -> None:
    found = expressions.shorter(expressions.canonical("a.upper() if 'x' in a else a.strip()") or "")
    assert {"a.upper()", "a.strip()", "a if 'x' in a else a.strip()"} <= set(found)
    assert found == sorted(found, key=len)
    assert expressions.shorter("a") == []
