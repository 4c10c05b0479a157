"""The suites of strings and lists: solvable, without leaks, and disjoint from what is trained on."""

import ast
import dataclasses
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evovpo.builtin.strings import expressions
from evovpo.builtin.strings.expressions import parse_expression
from evovpo.builtin.strings.format import expression_fault
from evovpo.judging.evaluator import Evaluator
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import load_suite
from evovpo.sandbox import Sandbox
from evovpo.types import Limits, Problem, Program
from trainer.domains.catalogue import open_family
from trainer.domains.strings.tasks import run_own

PROBLEMS = Path(__file__).resolve().parents[2] / "problems"
STRINGS, LISTS, HARD, FAMILY = (
    PROBLEMS / name for name in ("strings", "lists", "strings-hard", "strings-family")
)
GOLDEN = PROBLEMS.parent / "tests" / "golden"
REFERENCES: dict[str, str] = json.loads((GOLDEN / "references.json").read_text())
"""For hand-written problems of the suite `strings`: one right program each, in the language of the model."""
UNHURRIED = Limits(wall_seconds=60.0)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1, preload=()) as started:
        yield started


def program_of(problem: Problem) -> str:
    text: str = json.loads((Path(problem.folder) / "provenance.json").read_text())["program"]
    return text


def is_right(problem: Problem, program: Program, sandbox: Sandbox) -> bool:
    evaluator = Evaluator(dataclasses.replace(problem, limits=UNHURRIED), sandbox)
    rewards = evaluator.evaluate(program).rewards
    return min(rewards) == 1.0 and all(evaluator.evaluate_heldout(program))


def solution(expression: str, problem: Problem) -> Program:
    return Program(f"def solve({', '.join(problem.parameters)}):\n    return {expression}\n")


def test_every_string_task_is_listed_with_a_measured_difficulty() -> None:
    entries = load_suite(STRINGS)
    assert len(entries) >= 48
    assert sorted(entry.path for entry in entries) == sorted(STRINGS.glob("*/"))
    difficulties = {entry.difficulty for entry in entries}
    assert None not in difficulties
    assert len(difficulties) > 1


def test_string_tasks_have_enough_rows_and_none_that_gives_the_answer_away() -> None:
    for entry in load_suite(STRINGS):
        problem = load_problem(entry.path)
        rows, outputs = (*problem.train, *problem.heldout), tuple(row.output for row in problem.train)
        assert f"def solve({', '.join(problem.parameters)}):" in problem.seeds[0].source, problem.id
        assert 1 <= len(problem.parameters) <= 3, problem.id
        assert 4 <= len(problem.train) <= 16, problem.id
        assert len(problem.heldout) >= 8, problem.id
        assert all(isinstance(text, str) for row in rows for text in (*row.inputs, row.output)), problem.id
        assert len({row.inputs for row in rows}) == len(rows), problem.id
        assert outputs not in zip(*(row.inputs for row in problem.train), strict=True), problem.id
        assert len(set(outputs)) >= 2, problem.id


def test_each_list_task_is_solved_by_its_program_and_not_by_its_seed(sandbox: Sandbox) -> None:
    entries = load_suite(LISTS)
    assert len(entries) == 36
    for entry in entries:
        problem = load_problem(entry.path)
        assert len(problem.train) == 10
        assert len(problem.heldout) == 20
        assert is_right(problem, solution(program_of(problem), problem), sandbox), problem.id
        assert not is_right(problem, problem.seeds[0], sandbox)
        assert program_of(problem) not in problem.statement
        assert "text" in expression_fault(problem) or "string" in expression_fault(problem)


def test_each_side_of_a_list_task_is_wrong_somewhere_and_occurs_in_held_out_rows(sandbox: Sandbox) -> None:
    for entry in load_suite(LISTS):
        problem = load_problem(entry.path)
        then, rest = program_of(problem).split(" if ", 1) if " for " not in program_of(problem) else ("", "")
        if not then:
            continue  # a comprehension has an `if` of its own; cutting the text would cut that
        test, other = rest.split(" else ", 1)
        for side in (then, other):
            assert not is_right(problem, solution(side, problem), sandbox), problem.id
        rows = [dict(zip(problem.parameters, row.inputs, strict=True)) for row in problem.heldout]
        assert {bool(eval(test, {}, row)) for row in rows} == {False, True}


def hard_problems() -> list[Problem]:
    return [load_problem(entry.path) for entry in load_suite(HARD)]


def test_every_hard_task_is_solvable_in_the_language_and_has_held_out_rows(sandbox: Sandbox) -> None:
    problems = hard_problems()
    assert len(problems) == 40
    for problem in problems:
        assert expression_fault(problem) == ""
        name = problem.id.rpartition("/")[2]
        text = expressions.canonical(REFERENCES[name] if name in REFERENCES else program_of(problem))
        assert is_right(
            problem, Program(expressions.to_source(text, problem.entry, problem.parameters)), sandbox
        ), name
        assert not is_right(problem, problem.seeds[0], sandbox)
        assert len(problem.heldout) >= 8


def test_every_reference_is_right_on_its_problem(sandbox: Sandbox) -> None:
    for name, text in REFERENCES.items():
        problem = load_problem(PROBLEMS / "strings" / name)
        expression = expressions.canonical(text)
        program = Program(expressions.to_source(expression, problem.entry, problem.parameters))
        assert is_right(problem, program, sandbox), name


@pytest.mark.slow
def test_hard_tasks_share_no_row_with_tasks_that_studies_train_and_test_on() -> None:
    ours = {row for problem in hard_problems() for row in (*problem.train, *problem.heldout)}
    with open_family("strings") as domain:
        for split in ("train", "validation", "test"):
            for task in domain.tasks(split, 25):
                assert ours.isdisjoint(task.train)


def test_the_selection_says_what_was_asked_and_kept() -> None:
    summary: dict[str, Any] = json.loads((HARD / "selection.json").read_text())
    names = [entry.path.name for entry in load_suite(HARD)]
    assert set(summary["best_share_of_rows"]) == set(names)
    assert max(summary["best_share_of_rows"].values()) < 1
    assert summary["drawn"]["kept"] + summary["hand_written"]["kept"] == len(names)
    assert summary["drawn"]["asked"] == 1 + max(
        int(name.rpartition("-")[2]) for name in names if name.startswith("drawn-")
    )


def test_the_pilot_solved_each_task_of_the_families_now_and_then() -> None:
    entries = {entry.path.name: entry for entry in load_suite(FAMILY)}
    lines = gzip.decompress((FAMILY / "pilot.jsonl.gz").read_bytes()).decode().splitlines()
    rows = {row["task"]: row["searches"] for row in map(json.loads, lines)}
    kept = {
        name for name, found in rows.items() if len(found) == 10 and 0 < sum(one[3] for one in found) < 10
    }
    assert kept == set(entries)
    for name, entry in entries.items():
        assert sorted(seed for seed, *_ in rows[name]) == [*range(9000, 9010)]
        assert entry.difficulty == pytest.approx(1 - sum(one[3] for one in rows[name]) / 10)
        assert entry.family == name.partition("-")[0]
        assert entry.is_held_out == (int(entry.family[1:]) % 3 == 2)


def test_tasks_of_families_have_enough_rows_of_both_sides() -> None:
    for entry in load_suite(FAMILY):
        problem = load_problem(entry.path)
        tree = parse_expression(program_of(problem))
        assert isinstance(tree, ast.IfExp)
        test = f"'then' if {ast.unparse(tree.test)} else 'else'"
        for rows, fewest in ((problem.train, 10), (problem.heldout, 20)):
            inputs = [[str(text) for text in row.inputs] for row in rows]
            assert run_own(program_of(problem), inputs) == [row.output for row in rows]
            sides = run_own(test, inputs)
            assert len(rows) >= fewest
            assert min(sides.count("then"), sides.count("else")) >= 3
        inputs = [[str(text) for text in row.inputs] for row in problem.train]
        for side in (tree.body, tree.orelse):  # neither is right alone
            assert run_own(ast.unparse(side), inputs) != [row.output for row in problem.train]
