"""What each strategy starts an ask from, by hand and against slow versions."""

import dataclasses
from random import Random

import pytest
from plain_search import START, PlainLoop

from evovpo.config import STRATEGIES
from evovpo.types import EvaluatorFolder, EvaluatorMode, Metric, ParentRole, Prompt, PromptKind


def shown(loop: PlainLoop, prompt: Prompt) -> str | None:
    return next((source for source, role in loop.parents(prompt) if role is ParentRole.PARENT), None)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "islands"])
def test_a_replayed_history_asks_the_same_and_a_budget_is_used_exactly(name: str) -> None:
    loop = PlainLoop(strategy=name, evaluations=90, rollouts=3, answers=2)
    loop.run_shuffled(Random(1))
    assert loop.search.standing.proposed == 90
    again = loop.rebuilt()
    assert again.standing.best == loop.search.standing.best
    assert list(again.standing.programs.items()) == list(loop.search.standing.programs.items())


def test_iid_asks_from_the_problem_alone_whatever_is_told() -> None:
    loop = PlainLoop(strategy="iid", attempts=3)
    prompts = [loop.step("0.9 0.1 # a"), loop.step("fail"), loop.step("0.0 0.0 # b")]
    assert {prompt.kind for prompt in prompts} == {PromptKind.ROOT}
    assert len({prompt.messages for prompt in prompts}) == 1


def test_iid_shows_the_best_start_where_only_the_evaluator_knows_what_to_define() -> None:
    metric = Metric("left", 0.0, 1.0)
    evaluator = EvaluatorFolder("evaluator.py", EvaluatorMode.WHOLE, (metric, metric))
    problem = dataclasses.replace(PlainLoop().search.standing.problem, scorer_path=None, evaluator=evaluator)
    loop = PlainLoop(problem=problem, strategy="iid")
    assert [shown(loop, loop.step(text)) for text in ("0.9 0.9 # a", "0.1 0.0 # b")] == [START.source] * 2
    islands = PlainLoop(problem=problem, ways={"fresh": 1.0})
    assert {islands.step(f"0.1 0.{n} # {n}").kind for n in range(5)} == {PromptKind.MUTATE}


def test_best_of_n_always_mutates_the_best_starting_program() -> None:
    loop = PlainLoop(strategy="best-of-n")
    prompts = [loop.step("0.9 0.9 # a"), loop.step("0.1 0.0 # worse"), loop.step("bad")]
    assert [shown(loop, prompt) for prompt in prompts] == [START.source] * 3
    assert len({prompt.messages for prompt in prompts}) == 1
