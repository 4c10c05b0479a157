"""The line that says where a running search stands."""

from __future__ import annotations

import dataclasses

from toy_runs import CONFIG, HARD, Loop, evaluation

from evovpo.prompts.instruct import RewriteFormat
from evovpo.reports.live import status_line
from evovpo.search.search import Search

REWARDS = (1.0, *[0.5] * (len(HARD.objectives) - 1))
"""Of the starting program: 4.5 of 8 in all, so a mean of 0.5625."""


def judged(loop: Loop) -> Search:
    """Tell the judgement of the starting program, and return the search."""
    loop.tell(loop.proposals(loop.ask()))
    return loop.search


def loop_with(*rewards: float) -> Loop:
    return Loop(judge=lambda text: evaluation(text, rewards, HARD.version))


def test_examples_are_counted_and_slow_runs_have_decimals() -> None:
    line = status_line(judged(loop_with(*REWARDS)), 0.043)
    assert line == "best mean reward 0.562, 1 of 8 examples, 0.04 programs/s, best by island 1 1"


def test_of_objectives_the_best_mean_of_each_island_is_shown() -> None:
    scored = dataclasses.replace(HARD, scorer_path="score.py")
    for rewards, start in (
        (REWARDS, "best mean reward 0.562, 1 of 8 objectives at 1, "),
        ([0.25] * 8, "best mean reward 0.250, "),
    ):
        loop = loop_with(*rewards)
        loop.problem = scored
        loop.search = Search(scored, CONFIG, RewriteFormat(), "run", 0)
        mean = f"{sum(rewards) / 8:.3f}"
        assert status_line(judged(loop), 12.4) == f"{start}12 programs/s, best by island {mean} {mean}"


def test_before_any_judgement_nothing_is_claimed() -> None:
    assert status_line(Loop().search, 1.0) == "nothing judged yet, 1 programs/s, best by island 0 0"
