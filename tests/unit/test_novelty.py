"""Distances of texts, and answers that are refused before they are evaluated."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_search import PLAIN, PlainFormat, judge

from evovpo.config import Config, SearchConfig
from evovpo.proposers.scripted import ScriptedProposer
from evovpo.runs.driver import Driver
from evovpo.search.novelty import SHINGLE, text_distance, text_fault
from evovpo.search.population import Member
from evovpo.search.search import SearchState
from evovpo.store import Store
from evovpo.types import ParseStatus, Program, Run, RunStatus, Tell

SETTINGS = Config(
    search=SearchConfig(evaluations=4, islands=1, elites=1, ways={"climb": 1.0}, in_flight=1, novelty=0.5)
)


def member(text: str, order: int = 0) -> Member:
    return Member(Program(text).id, text, (0.0,), order)


# Texts


def test_text_distance_by_hand() -> None:
    # abcdef has the shingles abcde and bcdef, abcdeg has abcde and bcdeg: one of three is shared.
    assert SHINGLE == 5
    assert text_distance("abcdef", "abcdeg") == pytest.approx(2 / 3)
    assert text_distance("abcdef", "uvwxyz") == 1.0
    assert text_distance("ab", "ab") == 0.0
    assert text_distance("ab", "ac") == 1.0


@given(st.text("ab \n", max_size=30), st.text("ab \n", max_size=30))
def test_text_distance_is_a_symmetric_share_as_counting_says(one: str, other: str) -> None:
    def parts(text: str) -> set[str]:
        plain = " ".join(text.split())
        return {plain[n : n + 5] for n in range(len(plain) - 4)} or {plain}

    expected = 1 - len(parts(one) & parts(other)) / len(parts(one) | parts(other))
    assert text_distance(one, other) == pytest.approx(expected)
    assert text_distance(one, other) == text_distance(other, one)
    assert text_distance(one, one) == 0.0


def test_a_text_is_refused_below_the_least_distance_to_the_nearest_and_only_then() -> None:
    others = [member("uvwxyz"), member("abcdeg", 1)]
    assert text_fault("abcdef", others, 0.66) == ""
    reason = text_fault("abcdef", others, 0.67)
    assert reason == f"not novel: its text is at distance 0.667 from program {others[1].program_id}; " + (
        "at least 0.67 is wanted"
    )
    assert text_fault("abcdef", [], 1.0) == ""
    assert text_fault("abcdeg", others, 0.0) == ""


# In a run


def test_a_program_refused_first_and_judged_later_comes_from_where_it_was_judged(tmp_path: Path) -> None:
    near, other = "0.2 0.2 # better seed!", "0.9 0.9 # an entirely other thing"
    search = SearchState(PLAIN, SETTINGS.search, PlainFormat(), "one", 0)
    with Store.open(str(tmp_path / "run.db")) as store:
        store.add_problem(PLAIN)
        store.add_run(
            Run("one", PLAIN.id, PLAIN.version, 0, 4, SETTINGS.to_json(), RunStatus.RUNNING, "2026-01-02")
        )
        driver = Driver(
            search=search,
            config=SETTINGS,
            proposer=ScriptedProposer([near, other, near, near]),
            judge=SimpleNamespace(evaluate=judge),
            journal=store,
        )
        asyncio.run(driver.run())
        statuses = [
            judged.candidate.parse_status
            for event in store.history("one")
            if isinstance(event, Tell) and event.rollout
            for judged in event.judged
        ]
        step = store.lineage("one", Program(near).id)[0]
    assert statuses == [
        ParseStatus.REJECTED,
        ParseStatus.PARSED,
        ParseStatus.PARSED,
        ParseStatus.DUPLICATE,
    ]
    assert [parent.program_id for parent in step.parents] == [Program(other).id]
