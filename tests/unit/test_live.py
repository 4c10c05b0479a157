"""The line that says where a running search stands."""

import dataclasses
import io
import time

import pytest
from rich.console import Console
from toy_runs import CONFIG, HARD, Loop, evaluation

from evovpo.config import Config
from evovpo.prompts.instruct import RewriteFormat
from evovpo.reports import live
from evovpo.reports.live import LiveProgress, LiveView, status_line
from evovpo.runs.driver import Progress
from evovpo.search.search import SearchState
from evovpo.store import CallTotals
from evovpo.types import Run, RunStatus

REWARDS = (1.0, *[0.5] * (len(HARD.objectives) - 1))
"""Of the starting program: 4.5 of 8 in all, so a mean of 0.5625."""


def judged(loop: Loop) -> SearchState:
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
        loop.search = SearchState(scored, CONFIG, RewriteFormat(), "run", 0)
        mean = f"{sum(rewards) / 8:.3f}"
        assert status_line(judged(loop), 12.4) == f"{start}12 programs/s, best by island {mean} {mean}"


def test_before_any_judgement_nothing_is_claimed() -> None:
    assert status_line(Loop().search, 1.0) == "nothing judged yet, 1 programs/s, best by island 0 0"


SERVED = Config().changed(proposer={"name": "openai", "model": "m", "base_url": "http://localhost:8000/v1"})
RUN = Run("run", HARD.id, HARD.version, 0, 100, SERVED.to_json(), RunStatus.RUNNING, "")


def test_a_silent_server_is_named_with_the_requests_that_brought_nothing() -> None:
    totals = CallTotals(5, 2, 10, 20, None, {"timeout": 2})
    progress = LiveProgress(Console(file=io.StringIO(), width=200), lambda run: totals)
    progress.started(RUN)
    progress.told(Progress(judged(loop_with(*REWARDS)), 1, "waiting since 40 s"))
    status = progress.status()
    assert status.startswith("0 of 100 evaluations, best mean reward 0.562, ")
    assert "5 requests to servers (2 of them brought nothing: timeout 2)" in status
    assert status.endswith(", waiting since 40 s")


def test_a_terminal_is_told_how_long_it_may_still_take() -> None:
    output = io.StringIO()
    console = Console(file=output, width=200)
    progress = LiveProgress(console)
    progress.started(RUN)
    progress.told(Progress(judged(loop_with(*REWARDS)), 1))
    console.print(progress._view())
    assert "to go" not in output.getvalue()
    progress.proposed = 50
    console.print(progress._view())
    assert "to go" in output.getvalue()


class Work(LiveView):
    """Work of which nothing is told."""

    def _view(self) -> str:
        return ""

    def status(self) -> str:
        return "at work"


def test_without_a_terminal_lines_come_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LINE_SECONDS", 0.01)
    output = io.StringIO()
    with Work(Console(file=output)):
        end = time.monotonic() + 60
        while output.getvalue().count("at work\n") < 3 and time.monotonic() < end:
            time.sleep(0.01)
    assert output.getvalue().startswith("at work\nat work\nat work\n")
