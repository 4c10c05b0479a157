"""One number that ranks alone: exact where bounded rewards are the same, whatever a search decides."""

import dataclasses
import math

import judging
import pytest
from plain_search import PLAIN, PlainFormat

from evovpo.analysis.scores import NO_SCORE, Scored, compared, only_failures, score_of
from evovpo.config import SearchConfig
from evovpo.problem.openevolve.metrics import read_rewards
from evovpo.prompts.program_text import better_at, shown_rewards
from evovpo.search.search import SearchState
from evovpo.types import (
    Evaluation,
    EvaluatorFolder,
    EvaluatorMode,
    Json,
    Metric,
    Objective,
    Problem,
    Program,
    Status,
)

METRIC = Metric("combined_score", 1.0, 2.0, is_soft=True)
PROBLEM = dataclasses.replace(
    PLAIN,
    scorer_path=None,
    objectives=(Objective("combined_score", "higher is better"),),
    evaluator=EvaluatorFolder("evaluator.py", EvaluatorMode.WHOLE, (METRIC,), left_out=("size",)),
)
START = Program("start")
HIGH, HIGHER = 1e17, math.nextafter(1e17, math.inf)


def judged(program: Program, status: Status = Status.OK, **metrics: Json) -> Evaluation:
    assert PROBLEM.evaluator is not None
    rewards = read_rewards(PROBLEM.evaluator, metrics)[0] if status is Status.OK else (0.0,)
    return Evaluation(program.id, "v", status, rewards, "", 0.0, "none", metrics=tuple(metrics.items()))


def told(problem: Problem, *scores: float, **settings: object) -> SearchState:
    """Return a search that was told programs with these scores; the first one is the start."""
    programs = [Program(f"program {number}") for number in range(len(scores))]
    problem = dataclasses.replace(problem, seeds=tuple(programs))
    search = SearchState(problem, SearchConfig(**settings), PlainFormat(), "run", 0)
    prompt = search.ask()
    assert prompt is not None

    def judge(program: Program) -> Evaluation:
        return judged(program, combined_score=scores[programs.index(program)])

    search.tell(judging.judged(search, prompt, None, judge))
    return search


def test_a_score_is_what_is_compared_and_a_failure_is_below_all() -> None:
    high, higher = judged(START, combined_score=HIGH), judged(START, combined_score=HIGHER)
    assert high.rewards == higher.rewards
    assert (compared(PROBLEM, high), compared(PROBLEM, higher)) == ((HIGH,), (HIGHER,))
    assert score_of(PROBLEM, judged(START, Status.CRASH, combined_score=HIGH)) == NO_SCORE
    assert score_of(PROBLEM, judged(START, combined_score="nan", a=1.0)) == NO_SCORE
    assert score_of(PROBLEM, judged(START, a=1.0, b=2.0, size=9.0)) == 1.5
    assert score_of(PLAIN, high) is None


def test_the_higher_score_is_best_and_selected_although_the_rewards_are_the_same() -> None:
    search = told(PROBLEM, HIGH, HIGHER, -1e300, islands=2, ways={"climb": 1.0})
    assert search.standing.best is not None
    assert search.standing.best.program.source == "program 1"
    best = search.standing.best.program.id
    for _ in range(6):
        prompt = search.ask()
        assert prompt is not None
        assert prompt.parent_id == best


def test_target_and_patience_go_by_the_score() -> None:
    assert told(PROBLEM, HIGH, target=repr(HIGHER)).standing.stop_reason == ""
    assert told(PROBLEM, HIGH, HIGHER, target=repr(HIGHER)).standing.stop_reason.startswith("the target of")
    search = told(PROBLEM, HIGH, patience=2, rollouts=1, islands=1)
    for number, score in enumerate((HIGHER, 1.0, 2.0)):
        assert search.standing.stop_reason == ""
        prompt = search.ask()
        assert prompt is not None
        program = Program(f"new {number}")
        search.standing.count(prompt, 1)
        search.standing.take(program, judged(program, combined_score=score))
    assert search.standing.stop_reason == "no better program in 2 evaluations"


def test_prompts_show_numbers_as_they_are() -> None:
    low = judged(START, c1=1.52, eval_time=3, combined_score=HIGH, ok=True)
    high = judged(START, combined_score=HIGHER)
    assert (
        shown_rewards(PROBLEM, low)
        == "combined_score = 1e+17.\nAs measured: c1 = 1.52, eval_time = 3, ok = true."
    )
    assert (
        shown_rewards(PROBLEM, judged(START, a=1.0, b=2.0))
        == "mean of 2 metrics = 1.5.\nAs measured: a = 1, b = 2."
    )
    assert (
        shown_rewards(PROBLEM, judged(START, Status.CRASH))
        == "It failed with status crash.\nIt has no score."
    )
    assert better_at(PROBLEM, high, low).startswith("combined_score (")
    assert better_at(PROBLEM, low, high) == ""


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([{"combined_score": 0.0}, {"combined_score": 0}], False),
        ([{"combined_score": -1.0, "error": "x"}, {"combined_score": 0.0, "error": "y"}], True),
        ([{"combined_score": -1.0}, {"combined_score": -2.0}], False),
        ([{"combined_score": 0.0, "error": "x"}, {"combined_score": 0.1}], False),
        ([{}], True),
    ],
)
def test_a_run_of_failures_is_known(found: list[dict[str, Json]], expected: bool) -> None:
    scores = [Scored(number, str(number), Status.OK, metrics, ()) for number, metrics in enumerate(found)]
    assert only_failures(scores, lambda program_id: "") is expected
