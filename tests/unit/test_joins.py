"""Joins: what they pass is known without running them, and the sandbox agrees."""

import dataclasses
from collections.abc import Iterator, Sequence

import pytest
from toy_runs import PROBLEM, SWAP, member, random_expressions, source

from evovpo.builtin.strings import expressions
from evovpo.builtin.strings.joining import conditions, join_language
from evovpo.judging.evaluator import Evaluator
from evovpo.sandbox import Sandbox
from evovpo.search.joins import Join, find_joins
from evovpo.search.population import Member
from evovpo.types import Example, Objective, Problem, Program

LEFT, RIGHT = member(source(SWAP), (1, 1, 1, 0, 0, 0), 1), member(source("x0.upper()"), (0, 0, 0, 1, 1, 1), 2)


def found(
    new: Member, others: Sequence[Member], limit: int, above: int = 0, problem: Problem = PROBLEM
) -> list[Join]:
    language = join_language(problem)
    assert language is not None
    return find_joins(language, new, others, limit, above)


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with Sandbox(workers=1, preload=()) as sandbox:
        yield Evaluator(PROBLEM, sandbox)


def test_complementary_programs_are_joined_under_a_condition_that_tells_their_rows_apart() -> None:
    best = found(LEFT, [RIGHT], 3)[0]
    assert best.program.source == source(f"{SWAP} if ' ' in x0 else x0.upper()")
    assert tuple(parent.program_id for parent in best.parents) == (LEFT.program_id, RIGHT.program_id)
    assert (best.passed, best.smaller_side) == (6, 3)


def test_a_join_passes_the_rows_that_it_says_and_no_others(evaluator: Evaluator) -> None:
    pool: list[Member] = []
    for order, expression in enumerate([SWAP, "x0.upper()", "x0", *random_expressions(3, 60)]):
        judged = evaluator.evaluate(Program(source(expression)))
        assert judged.rewards is not None
        if any(judged.rewards):
            pool.append(Member(judged.program_id, source(expression), judged.rewards, order))
    # Few random programs pass a row, so vectors that others could have are given to some of them.
    compared = 0
    for new in pool:
        for join in found(new, [m for m in pool if m is not new], 6):
            rewards = evaluator.evaluate(join.program).rewards
            assert rewards is not None
            assert sum(rewards) == join.passed
            compared += 1
    assert compared >= 12


def test_every_possible_join_is_found_and_each_passes_more_than_its_sides() -> None:
    others = [RIGHT, member(source("x0"), (0, 1, 0, 0, 0, 1), 3), member(source("x0[0]"), (0,) * 6, 4)]
    rows = [[str(value) for value in example.inputs] for example in PROBLEM.train]
    wanted = set()
    for other in others:
        for held in conditions(rows).values():
            for then, otherwise in ((LEFT, other), (other, LEFT)):
                passed = sum((then if h else otherwise).rewards[index] for index, h in enumerate(held))
                if passed > max(sum(then.rewards), sum(otherwise.rewards)):
                    wanted.add((then.program_id, otherwise.program_id, passed, min(sum(held), 6 - sum(held))))
    joins = found(LEFT, others, 10_000)
    assert {(*(p.program_id for p in j.parents), j.passed, j.smaller_side) for j in joins} == wanted
    assert wanted


def test_joins_come_best_first_and_a_condition_for_one_row_after_others() -> None:
    problem = dataclasses.replace(PROBLEM, train=(*PROBLEM.train[:5], Example(("Homer 7",), "HOMER 7")))
    joins = found(LEFT, [RIGHT, member(source("x0"), (0, 0, 0, 1, 0, 1), 3)], 10_000, problem=problem)
    keys = [(-join.passed, -min(join.smaller_side, 2)) for join in joins]
    assert keys == sorted(keys)
    assert {join.smaller_side for join in joins} == {1, 2, 3}


def test_only_joins_above_the_given_number_of_rows_come() -> None:
    assert {join.passed for join in found(LEFT, [RIGHT], 100)} == {5, 6}
    assert {join.passed for join in found(LEFT, [RIGHT], 100, above=5)} == {6}
    assert found(LEFT, [RIGHT], 100, above=6) == []


def joined(then: str, condition: str, otherwise: str) -> str | None:
    language = join_language(PROBLEM)
    assert language is not None
    program = language.join(source(then), condition, source(otherwise))
    return None if program is None else expressions.from_source(program.source, PROBLEM.entry)


def test_a_join_is_one_conditional_expression_in_canonical_form() -> None:
    assert joined("x0", "'-' in x0", "x0[:1]") == "x0 if '-' in x0 else x0[:1]"
    nested = joined("x0 if x0 else 'a'", "x0 == ''", "x0 if 'b' else x0")
    assert nested == "(x0 if x0 else 'a') if x0 == '' else x0 if 'b' else x0"
    assert nested == expressions.canonical(nested)


def test_a_join_that_gets_too_long_is_none() -> None:
    side = "x0" + " + x0" * 50
    assert joined(side, "'-' in x0", side) is None
    assert joined(side, "'-' in x0", "x0") is not None


def test_the_limit_counts_joins_and_not_attempts() -> None:
    # The better partner makes every join too long to be an expression.
    huge = member(source("x0.upper()" + ".upper()" * 40), (0, 0, 0, 1, 1, 1), 3)
    small = member(source("x0.title()"), (0, 0, 0, 0, 1, 1), 4)
    joins = found(LEFT, [huge, small], 2)
    assert len(joins) == 2
    assert all(small.program_id in (parent.program_id for parent in join.parents) for join in joins)


def test_programs_that_are_no_expressions_are_not_joined() -> None:
    loop = member("def solve(name):\n    x = name\n    return x.upper()\n", (0, 0, 0, 1, 1, 1), 3)
    assert found(LEFT, [loop], 10) == []


def test_nothing_is_joined_with_nobody_or_where_no_condition_exists() -> None:
    assert found(LEFT, [], 10) == []
    single = dataclasses.replace(PROBLEM, train=PROBLEM.train[:1], objectives=(Objective("row-1"),))
    language = join_language(single)
    assert language is not None
    assert language.conditions == ()
    assert (
        find_joins(language, member(source(SWAP), (1,), 1), [member(source("x0.upper()"), (0,), 2)], 10) == []
    )
