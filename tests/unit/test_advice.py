"""What an unsolved run says would help, one fact of its record at a time."""

from typing import Any

import pytest
from toy_runs import HARD

from evovpo.config import Config
from evovpo.reports.advice import advice
from evovpo.runs.stored import RunView
from evovpo.store import CallTotals, CurvePoint, RunSummary
from evovpo.types import ParseStatus, Run, RunStatus, Status

ROWS = len(HARD.objectives)
SERVED = {"name": "openai", "model": "m", "base_url": "http://localhost:8000/v1"}


def view(proposer: dict[str, str] = SERVED, budget: Any = None, **facts: Any) -> RunView:
    """Return a run of 100 evaluations in which nothing went wrong and nothing got better after the tenth."""
    config = Config().changed(proposer=proposer, budget=budget or {}).to_json()
    run = Run("run", HARD.id, HARD.version, 0, 100, config, RunStatus.EXHAUSTED, "")
    plain: dict[str, Any] = {
        "proposed": 100, "executed": 100, "joins": 0, "rollouts": 100, "tokens": 0, "sampling_seconds": 0.0,
        "evaluation_seconds": 0.0, "by_parse_status": {ParseStatus.PARSED: 100},
        "by_status": {Status.OK: 100}, "best_program_id": None, "best_mean_reward": 0.5, "examples_passed": 1,
        "curve": (CurvePoint(0, 0, 0.0, 0), CurvePoint(1, 10, 0.5, 1), CurvePoint(2, 100, 0.5, 1)),
        "calls": CallTotals(100, 0, 0, 0, None, {}),
    }  # fmt: skip
    return RunView(run, HARD, RunSummary(**plain | facts), None, None, ())


THIRDS = [tuple(float(row % 3 == rest) for row in range(ROWS)) for rest in range(3)]
"""Every row is right in one of three programs, all rows in no two of them."""
UNREAD = {
    "text": "I cannot\nhelp.", "reason": "the reply has no code block", "finish_reason": "stop",
    "parse_status": "unparsed",
}  # fmt: skip
FIRST_ROWS_RIGHT = (1.0,) * 6 + (0.0,) * (ROWS - 6)
LAST_ROWS_RIGHT = (0.0,) * (ROWS - 2) + (1.0,) * 2


@pytest.mark.parametrize(
    ("facts", "vectors", "first"),
    [
        (
            {"calls": CallTotals(30, 12, 0, 0, None, {"http 503": 4, "timeout": 8})},
            THIRDS,
            "12 of 30 requests brought nothing, most often: timeout; --set proposer.timeout_seconds=S",
        ),
        (
            {"calls": CallTotals(30, 12, 0, 0, None, {"http 429": 12})},
            THIRDS,
            "12 of 30 requests brought nothing, most often: http 429; --set proposer.concurrency=",
        ),
        (
            {"by_parse_status": {ParseStatus.PARSED: 60, ParseStatus.UNPARSED: 40}},
            THIRDS,
            "40 of 100 answers held no program, such as 'I cannot help.' (the reply has no code block): ",
        ),
        (
            {"by_status": {Status.OK: 30, Status.ERROR: 20, Status.TIMEOUT: 50}},
            THIRDS,
            "50 of 100 programs ended with timeout: allow them more, under [limits]",
        ),
        (
            {"curve": (CurvePoint(0, 0, 0.0, 0), CurvePoint(1, 90, 0.5, 1), CurvePoint(2, 100, 0.5, 1))},
            THIRDS,
            "it still got better after 90 of 100 evaluations: evovpo resume run --evaluations 200",
        ),
        ({}, [FIRST_ROWS_RIGHT, LAST_ROWS_RIGHT], "two of its programs are right on all rows together"),
        ({}, [FIRST_ROWS_RIGHT], "no program is right on training examples 7, 8 (# in the table): "),
        (
            {"by_parse_status": {ParseStatus.PARSED: 40, ParseStatus.DUPLICATE: 60}},
            THIRDS,
            "60 of 100 answers were programs that it had before",
        ),
        ({"proposer": {"name": "local"}}, THIRDS, "a larger model behind a server: "),
        ({}, THIRDS, "another --seed, or evovpo resume run --evaluations 200"),
        (
            {"budget": {"tokens": 90}, "calls": CallTotals(9, 0, 80, 12, None, {})},
            THIRDS,
            "another --seed, or evovpo resume run --set budget.tokens=184",
        ),
        (
            {"budget": {"money": 0.5}, "calls": CallTotals(9, 0, 80, 12, 0.6, {})},
            THIRDS,
            "another --seed, or evovpo resume run --set budget.money=1.2",
        ),
    ],
)
def test_each_fact_has_its_advice(
    facts: dict[str, Any], vectors: list[tuple[float, ...]], first: str
) -> None:
    found = advice(view(**facts, risen=[[1, vector] for vector in vectors]), answers=[UNREAD])
    assert found[0].startswith(first)
    assert len(found) <= 3


def test_of_many_reasons_the_three_likeliest_are_said() -> None:
    found = advice(
        view(
            {"name": "local"},
            by_parse_status={ParseStatus.DUPLICATE: 60, ParseStatus.UNPARSED: 40},
            by_status={Status.CRASH: 60},
            risen=[[1, FIRST_ROWS_RIGHT]],
        )
    )
    assert [line.split(":")[0] for line in found] == [
        "40 of 100 answers held no program",
        "60 of 100 programs ended with crash",
        "no program is right on training examples 7, 8 (# in the table)",
    ]


def test_a_run_of_which_nothing_came_is_not_to_be_continued() -> None:
    cut, empty = UNREAD | {"finish_reason": "length"}, UNREAD | {"text": ""}
    found = advice(view(), answers=[cut] * 3 + [empty] + [UNREAD] * 16, is_failed=True)
    assert found == [
        "3 of the first 20 replies were cut off at the limit of tokens, 1 held no text: "
        "more sampling.max_tokens, less thinking, or another model"
    ]


def test_the_commonest_failure_of_programs_is_quoted() -> None:
    failing = view(by_status={Status.ERROR: 60}, risen=[[1, FIRST_ROWS_RIGHT]])
    found = advice(failing, fault_of={Status.ERROR: "TypeError: pack() takes 0 arguments"}.__getitem__)
    assert found[0].startswith(
        "60 of 100 programs ended with error, most often 'TypeError: pack() takes 0 arguments': "
    )


def test_the_rows_that_a_nearly_right_program_gets_wrong_are_named() -> None:
    found = advice(view(risen=[[1, (1.0,) * (ROWS - 1) + (0.0,)], [2, (0.0,) * (ROWS - 1) + (1.0,)]]))
    assert found[0] == (
        f"its best program is wrong on training examples {ROWS} (# in the table): correct mistakes in them, "
        "or add more alike"
    )


def test_where_most_rows_are_wrong_nobody_is_told_to_correct_them() -> None:
    nowhere = view(risen=[[1, (1.0,) + (0.0,) * (ROWS - 1)]])
    assert "check that the result follows from the inputs alone, or evovpo resume" in advice(nowhere)[0]
