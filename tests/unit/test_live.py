"""The line that says where a running search stands."""

import dataclasses
import io
import sys
import time
import types

import pytest
from rich.console import Console
from toy_runs import CONFIG, HARD, Loop, evaluation

from evovpo.config import Config
from evovpo.prompts.instruct import RewriteFormat
from evovpo.reports import live
from evovpo.reports.live import LiveProgress, WorkBar, status_line
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
    line = status_line(judged(loop_with(*REWARDS)).standing, 0.043)
    assert line == "best mean reward 0.562, 1 of 8 examples, 0.04 programs/s"


def test_of_objectives_the_best_mean_is_shown() -> None:
    scored = dataclasses.replace(HARD, scorer_path="score.py")
    for rewards, start in (
        (REWARDS, "best mean reward 0.562, 1 of 8 objectives at 1, "),
        ([0.25] * 8, "best mean reward 0.250, "),
    ):
        loop = loop_with(*rewards)
        loop.problem = scored
        loop.search = SearchState(scored, CONFIG, RewriteFormat(), "run", 0)
        assert status_line(judged(loop).standing, 12.4) == f"{start}12 programs/s"


def test_before_any_judgement_nothing_is_claimed() -> None:
    assert status_line(Loop().search.standing, 1.0) == "nothing judged yet, 1 programs/s"


SERVED = Config().changed(proposer={"name": "openai", "model": "m", "base_url": "http://localhost:8000/v1"})
RUN = Run("run", HARD.id, HARD.version, 0, 100, SERVED.to_json(), RunStatus.RUNNING, "")


def test_a_silent_server_is_named_with_the_requests_that_brought_nothing() -> None:
    totals = CallTotals(5, 2, 10, 20, None, {"timeout": 2})
    progress = LiveProgress(Console(file=io.StringIO(), width=200), lambda run: totals)
    progress.started(RUN)
    progress.told(Progress(judged(loop_with(*REWARDS)), 1, "waiting since 40 s"))
    status = progress.status()
    assert ", 0 of 100 evaluations, best mean reward 0.562, " in status
    assert "5 requests to servers (2 of them brought nothing: timeout 2)" in status
    assert status.endswith(", waiting since 40 s")


def test_without_a_terminal_the_first_wait_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "UPDATE_SECONDS", 1e-9)
    output, search = io.StringIO(), judged(loop_with(*REWARDS))
    progress = LiveProgress(Console(file=output, width=200))
    progress.started(RUN)
    for waits in ("", "waiting since 10 s", "waiting since 20 s"):
        progress.told(Progress(search, 1, waits))
    assert "waiting since 10 s\n" in output.getvalue()
    assert "waiting since 20 s" not in output.getvalue()


def test_while_a_server_fails_no_time_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "UPDATE_SECONDS", 1e-9)
    progress, search = LiveProgress(Console(file=io.StringIO(), width=200)), judged(loop_with(*REWARDS))
    progress.started(RUN)
    for done in range(-3, 1):  # as if replies came steadily before
        progress.show(progress.status().split(",")[0], 4 + done, 100)
        time.sleep(0.01)
    assert "to go" in progress.status()
    progress.told(Progress(search, 1, "waiting: failed once", True))
    assert "to go" not in progress.status()
    assert "waiting: failed once" in progress.status()


def test_a_terminal_shows_the_best_program_and_untrusted_text_cannot_steer_it() -> None:
    output = io.StringIO()
    with LiveProgress(Console(file=output, force_terminal=True, width=120)) as progress:
        progress.started(dataclasses.replace(RUN, problem_id="\x1b[5mpurple[/]"))
        progress.told(Progress(judged(loop_with(*REWARDS)), 1))
        progress.line("a \x1b[5mline")
    shown = output.getvalue()
    assert "0/100" in shown
    assert "best mean reward 0.562" in shown
    assert "\x1b[5m" not in shown


def test_work_says_how_long_it_may_still_take_once_that_is_known() -> None:
    bar = WorkBar(Console(file=io.StringIO()))
    for done in range(4):
        assert "to go" not in bar.status() or done > 1
        bar.show("searching", done, 10)
        time.sleep(0.01)
    assert bar.status().startswith("searching, 3 of 10, at most ")
    bar.show("training", 0, 5)  # at a speed of its own
    assert bar.status() == "training, 0 of 5"


def test_without_a_terminal_lines_come_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LINE_SECONDS", 0.01)
    output = io.StringIO()
    with WorkBar(Console(file=output)) as bar:
        bar.show("at work", 1, 2)
        end = time.monotonic() + 60
        while output.getvalue().count("at work, 1 of 2\n") < 3 and time.monotonic() < end:
            time.sleep(0.01)
    assert output.getvalue().startswith("at work, 1 of 2\n" * 3)


def test_a_notebook_shows_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = types.SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))
    notebook = types.ModuleType("IPython.display")
    monkeypatch.setattr(notebook, "display", lambda data, raw, display_id: handle, raising=False)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    monkeypatch.setattr(live, "NOTEBOOK_SECONDS", 0.01)
    with WorkBar(Console(file=io.StringIO(), force_jupyter=True)) as bar:
        bar.show("work", 1, 4)
        while shown[-1:] != ["work, 1 of 4"]:
            time.sleep(0.01)
    while shown[-1]:
        time.sleep(0.01)
