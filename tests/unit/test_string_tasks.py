"""The strings domain of the study: its tasks, and that its judge is the sandbox."""

import dataclasses
from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest
from transformers import AutoTokenizer

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.builtin.chain import END_ID, MAX_ANSWERS, SEPARATOR, join_chain, split_chain
from evovpo.builtin.strings import expressions
from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.builtin.strings.grammar import render, shorter_variants
from evovpo.config import SearchConfig
from evovpo.judging.evaluator import Evaluator
from evovpo.sandbox import Sandbox
from evovpo.sandbox.result import Result, sandbox_failure
from evovpo.search.search import SearchState
from evovpo.types import Candidate, JudgedCandidate, ParseStatus, Problem, Program, PromptKind, Tell
from trainer.domains.arm_training import TrainingArm, TrainingBudget, train
from trainer.domains.catalogue import open_family
from trainer.domains.strings.string_family import MIN_ROWS, StringFamily
from trainer.domains.strings.tasks import run_own, sample_sequence, sample_task


@pytest.fixture(scope="module")
def domain() -> Iterator[StringFamily]:
    with open_family("strings") as opened:
        assert isinstance(opened, StringFamily)
        yield opened


def completion(*answers: str) -> list[int]:
    ids: list[int] = AutoTokenizer.from_pretrained(BUILT_IN_MODEL)(join_chain(answers))["input_ids"]
    return ids


@pytest.mark.slow
def test_tasks_follow_from_split_and_seed_and_splits_share_none(domain: StringFamily) -> None:
    first, again = domain.tasks("test", 6), domain.tasks("test", 8)
    assert first == again[:6]
    versions = [
        {task.version for task in domain.tasks(split, 30)} for split in ("train", "validation", "test")
    ]
    assert sum(map(len, versions)) == len(set.union(*versions)) == 90
    assert {task.version for task in domain.tasks("test", 30, seed=1)}.isdisjoint(versions[2])
    assert all(len(task.objectives) == len(task.train) >= MIN_ROWS for task in first)


def test_answers_are_judged_row_by_row_and_missing_ones_filled_up(domain: StringFamily) -> None:
    task = domain.tasks("test", 1)[0]
    wanted = [str(example.output) for example in task.train]
    constant = repr(wanted[0])
    ids = completion(constant, "a(", constant)
    answers = domain.judge(task, ids, 4)
    hits = tuple(float(output == wanted[0]) for output in wanted)
    assert [answer.rewards for answer in answers] == [hits, (0.0,) * len(hits), hits, (0.0,) * len(hits)]
    canonical_text = expressions.canonical(constant)
    assert canonical_text is not None
    program = Program(expressions.to_source(canonical_text, task.entry, task.parameters))
    assert [answer.key for answer in answers] == [program.id, None, program.id, None]
    assert answers[3].span is None
    assert answers[2].span is not None
    assert ids[answers[2].span[1]] == END_ID


def test_an_answer_is_right_only_with_every_row(domain: StringFamily) -> None:
    task = domain.tasks("test", 1)[0]
    rows = [(example.inputs[0], str(example.output)) for example in task.train]
    table = repr(rows[-1][1])
    for given, output in reversed(rows[:-1]):
        table = f"({output!r} if x0 == {given!r} else {table})"
    answers = domain.judge(task, completion(table), 1)
    assert answers[0].is_right
    assert set(answers[0].rewards) == {1.0}
    assert not domain.judge(task, completion(repr("\x7f")), 1)[0].is_right


def test_a_failure_of_the_sandbox_is_no_zero_and_not_remembered(
    domain: StringFamily, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = domain.tasks("validation", 2)[1]
    cases = len(task.train)

    def fail(*_: object, **__: object) -> Result:
        return sandbox_failure("fork failed", cases, "none")

    before = domain.judge(task, completion("x0.upper()"), 1)
    with monkeypatch.context() as failing:
        failing.setattr(domain.sandbox, "run", fail)
        lost, unread = domain.judge(task, completion("x0.lower()", "a("), 2)
        assert domain.judge(task, completion("x0.upper()"), 1) == before, "a program is run once a task"
    assert (lost.rewards, unread.rewards) == (None, (0.0,) * cases)
    assert lost.key is not None
    (found,) = domain.judge(task, completion("x0.lower()"), 1)
    assert found.key == lost.key
    assert found.rewards is not None


def prompts_of_a_search(problem: Problem, parent: Program, answers: int) -> Iterator[tuple[int, ...]]:
    """Yield the prompts of a search that knows one program, each with the rows in another order."""
    problem = dataclasses.replace(problem, seeds=(parent,))
    settings = SearchConfig(evaluations=100_000, islands=1, ways={"climb": 1.0}, joins=False, answers=answers)
    search = SearchState(problem, settings, ExpressionFormat(problem), "run", 0)
    first = search.ask()
    assert first is not None
    with Sandbox(workers=1, preload=()) as sandbox:
        evaluation = Evaluator(problem, sandbox).evaluate(parent)
    candidate = Candidate("c", first.id, None, 0, ParseStatus.PARSED, parent, None, ())
    search.tell(Tell(first.id, None, (JudgedCandidate(candidate, evaluation, True),)))
    tokenizer = AutoTokenizer.from_pretrained(BUILT_IN_MODEL)
    while (prompt := search.ask()) is not None:
        assert prompt.kind is PromptKind.MUTATE
        yield tuple(tokenizer(prompt.messages[0].content)["input_ids"])


@pytest.mark.parametrize("text", ["x0.upper()", "x0[:3]", "x0[0].lower() + x0[1:]", "re.sub(1, x0)"])
def test_a_prompt_with_a_parent_is_that_of_a_search_token_for_token(domain: StringFamily, text: str) -> None:
    task = next(task for task in domain.tasks("test", 20) if len(task.train) == MIN_ROWS)
    (answer,) = domain.judge(task, completion(text), 1)
    assert answer.key is not None
    expression = expressions.canonical(text)
    assert expression is not None
    parent = Program(expressions.to_source(expression, task.entry, task.parameters))
    wanted = domain.prompt_ids(task, 3, answer.key)
    # A search shows rows in random order: among some hundred prompts is the order that they are stored in.
    assert wanted in islice(prompts_of_a_search(task, parent, 3), 400)
    assert wanted != domain.prompt_ids(task, 3)


def test_answers_of_a_step_are_shown_as_parents_in_it(domain: StringFamily) -> None:
    arm = TrainingArm("vpo", 3, 2, learning_rate=1e-4, parent_share=0.5)
    _, (step,) = train(arm, domain, TrainingBudget(tokens=1, prompts=4, tasks=6), 0)
    assert 0.0 < step["parent_share"] <= 0.5


def test_a_task_program_gives_its_outputs_and_has_no_operation_that_changes_nothing() -> None:
    rng = Random(0)
    for _ in range(50):
        task = sample_task(rng)
        assert run_own(task.text, task.rows) == task.outputs
        assert all(
            run_own(render(variant), task.rows) != task.outputs for variant in shorter_variants(task.tree)
        )


def test_a_chain_holds_different_programs_and_the_truth_when_it_is_one() -> None:
    rng = Random(2)
    for _ in range(200):
        prompt, completion = sample_sequence(rng)
        answers = [slot.text for slot in split_chain(completion, None)]
        assert len(set(answers)) == len(answers) <= MAX_ANSWERS
        assert prompt.startswith(f"⟦m{len(answers)}⟧")
        assert SEPARATOR not in prompt
