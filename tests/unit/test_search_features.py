"""Crossover, repair, failed attempts, other programs and early stopping, each by hand."""

import dataclasses
from collections import Counter
from random import Random
from typing import Any

import pytest
from plain_search import PLAIN, START, WORSE_START, PlainFormat, PlainLoop, random_text
from toy_runs import population

from evovpo.config import SearchConfig
from evovpo.errors import ConfigError, ReplayError
from evovpo.prompts.request import Attempt
from evovpo.search.search import SearchState
from evovpo.search.strategies import Islands
from evovpo.types import (
    Evaluation,
    Feature,
    Objective,
    ParentRole,
    ParseStatus,
    Program,
    Prompt,
    PromptKind,
    Status,
)


def test_a_way_with_nothing_to_work_on_gives_its_ask_to_climb_and_without_programs_to_fresh() -> None:
    loop = PlainLoop(ways={"combine": 1.0})
    prompt = loop.ask()
    assert prompt.kind is PromptKind.CROSSOVER  # the two starting programs differ
    assert loop.step("0.9 0.1 # left").way == "combine"
    lonely = PlainLoop(ways={"repair": 1.0}, problem=dataclasses.replace(PLAIN, seeds=()))
    first = lonely.step("0.5 0.5 # first")
    assert (first.way, first.kind) == ("fresh", PromptKind.ROOT)
    second = lonely.step("fail")
    assert (second.way, second.kind) == ("climb", PromptKind.MUTATE)
    assert lonely.ask().way == "repair"


def test_the_settings_the_format_or_the_problem_give_the_shares_at_first() -> None:
    def ways(**settings: object) -> set[str]:
        loop = PlainLoop(**settings)  # type: ignore[arg-type]
        rng = Random(3)
        return {loop.step(random_text(rng)).way for _ in range(300)}

    of_format = PlainFormat(ways={"fresh": 0.5, "explore": 0.5})
    assert ways(format_=of_format, ways={}) == {"fresh", "explore"}
    assert ways(format_=of_format, ways={"climb": 1.0}) == {"climb"}
    assert ways(ways={}) == {"climb", "specialist", "explore", "combine", "repair", "fresh"}
    one = dataclasses.replace(PLAIN, objectives=(Objective("left"),))
    strategy = SearchState(one, SearchConfig(), PlainFormat(), "run", 0)._strategy
    assert isinstance(strategy, Islands)
    assert "specialist" not in strategy.shares.now


def test_the_way_that_brings_gains_is_taken_more_often() -> None:
    ways: Counter[str] = Counter()
    loop = PlainLoop(PlainFormat(ways={"climb": 0.5, "explore": 0.5}), ways={}, evaluations=400)
    for number in range(400):
        prompt = loop.ask()
        better = f"0.{2000 + number} 0.{2000 + number} # {number}"
        loop.tell(prompt, better if prompt.way == "explore" else "bad")
        ways[prompt.way] += number >= 100
    assert ways["explore"] / ways.total() > 0.9
    loop.rebuilt()


def test_a_mended_program_is_not_repaired_again() -> None:
    loop = PlainLoop(ways={"repair": 1.0})
    loop.step("fail a")
    assert loop.step("0.4 0.4 # mended").kind is PromptKind.REPAIR
    assert loop.step("0.5 0.4 # next").kind is PromptKind.MUTATE


def test_failing_starting_programs_are_repaired() -> None:
    problem = dataclasses.replace(PLAIN, seeds=(dataclasses.replace(START, source="fail seed", id=""),))
    loop = PlainLoop(problem=problem, ways={"repair": 1.0})
    prompt = loop.step("0.5 0.5 # runs")
    assert (prompt.kind, loop.parents(prompt)[0][0]) == (PromptKind.REPAIR, "fail seed")


def test_a_prompt_shows_the_last_failed_answers_to_the_same_parent_with_their_reasons() -> None:
    loop = PlainLoop(ways={"climb": 1.0}, rollouts=7, attempts=6)
    loop.step(
        "bad answer",
        "bad! answer",
        "",  # never written: no attempt
        "fail one",
        "0.1 0.1 # dominated",
        "0.2 0.2 # equal",
        "0.1 0.3 # better in one",
    )
    # The parent of all these is the better start.
    assert loop.requests[0].attempts == ()
    assert list(loop.search._failures.attempts(START.id)) == [
        Attempt("bad answer", "no program could be read from it"),
        Attempt("bad! answer", "it is bad"),
        Attempt("fail one", "fail one went wrong"),
        Attempt("0.1 0.1 # dominated", "no better in anything, worse in left, right"),
        Attempt("0.2 0.2 # equal", "no better in anything"),
    ]
    loop.rebuilt()


def test_attempts_belong_to_a_parent_and_only_the_last_are_shown() -> None:
    without = PlainLoop(attempts=0)
    without.step("bad")
    without.ask()
    assert without.requests[-1].attempts == ()
    loop = PlainLoop(attempts=2)
    for number in range(4):
        loop.step(f"bad {number}")
    loop.ask()
    assert [attempt.text for attempt in loop.requests[-1].attempts] == ["bad 2", "bad 3"]
    loop.step("0.9 0.9 # better")
    loop.ask()
    parent = loop.requests[-1].parent
    assert parent is not None
    assert parent.program.source == "0.9 0.9 # better"
    assert loop.requests[-1].attempts == ()


def test_patience_counts_evaluations_since_the_best_got_better() -> None:
    loop = PlainLoop(patience=3)
    loop.step("0.1 0.1 # no better")
    loop.step("0.5 0.5 # better, and a long one")
    loop.step("0.5 0.5 # as good")  # shorter, so the best, but no better
    loop.step("bad")
    assert loop.search.standing.stop_reason == ""
    loop.step("fail")
    assert loop.search.standing.stop_reason == "no better program in 3 evaluations"


def test_a_target_is_a_mean_reward() -> None:
    loop = PlainLoop(target="0.6")
    loop.step("0.9 0.2 # not yet")
    assert loop.search.standing.stop_reason == ""
    loop.step("0.9 0.3 # now")
    assert loop.search.standing.stop_reason == "the target of 0.6 is reached"
    assert loop.rebuilt().standing.stop_reason == loop.search.standing.stop_reason


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (None, 0.5),
        ((("speed", 3.0),), 0.5),
        ((("speed", 3.0), ("combined_score", 2.5)), 2.5),
        ((("combined_score", 7),), 7.0),
        ((("combined_score", "nan"),), 0.5),
        ((("combined_score", True),), 0.5),
    ],
)
def test_the_score_of_a_program_is_its_combined_score_if_it_has_one(
    metrics: tuple[tuple[str, float | str | bool], ...] | None, expected: float
) -> None:
    evaluation = Evaluation("p", "v", Status.OK, (0.0, 1.0), "", 0.0, "none", metrics=metrics)
    for target, reason in ((expected, f"the target of {expected} is reached"), (expected + 1e-9, "")):
        search = SearchState(PLAIN, SearchConfig(target=target), PlainFormat())
        search.standing.take(Program("p"), evaluation)
        assert search.standing.stop_reason == reason


@pytest.mark.parametrize("target", ["much", "nan", "inf", "1,5"])
def test_a_target_that_is_no_number_is_refused(target: str) -> None:
    with pytest.raises(ConfigError, match=r"search\.target: expected a number"):
        SearchConfig(target=target)


def test_a_mutation_shows_the_best_other_programs_of_its_island_where_the_format_does() -> None:
    loop = PlainLoop(PlainFormat(others=2), rollouts=4)
    loop.step("0.9 0.9 # best", "0.5 0.5 # middle", "fail", "0.4 0.7 # better at right")
    prompt = loop.ask()
    assert loop.parents(prompt) == [
        ("0.9 0.9 # best", ParentRole.PARENT),
        ("0.4 0.7 # better at right", ParentRole.INSPIRATION),
        ("0.5 0.5 # middle", ParentRole.INSPIRATION),
    ]
    without = PlainLoop(rollouts=4)
    without.step("0.9 0.9 # best", "0.5 0.5 # middle", "fail", "0.4 0.7 # better at right")
    assert without.parents(without.ask()) == [("0.9 0.9 # best", ParentRole.PARENT)]
    assert without.search.tickets.open[-1][0].seed == prompt.seed  # they take nothing from other draws


def test_what_fails_is_not_shown_beside_a_parent() -> None:
    loop = PlainLoop(PlainFormat(others=9))
    loop.step("fail")
    loop.step("0.9 0.9 # best")
    shown = {source for source, role in loop.parents(loop.ask()) if role is ParentRole.INSPIRATION}
    assert shown == {START.source, WORSE_START.source}


def test_only_mutations_show_other_programs() -> None:
    loop = PlainLoop(PlainFormat(others=2), ways={"combine": 1.0})
    loop.step("0.9 0.1 # left")
    loop.step("0.1 0.8 # right")
    assert [role for _, role in loop.parents(loop.ask())] == [ParentRole.PARENT, ParentRole.PARTNER]


def test_an_island_shows_its_own_programs() -> None:
    loop = PlainLoop(PlainFormat(others=9), islands=2, migration_interval=99, ways={"explore": 1.0})
    first, second = loop.step("0.9 0.9 # one"), loop.step("0.3 0.3 # two")
    assert (first.island, second.island) == (0, 1)
    for _ in range(20):
        prompt = loop.step("bad")
        sources = {source for source, _ in loop.parents(prompt)}
        own, other = ("0.9 0.9 # one", "0.3 0.3 # two")[:: 1 if prompt.island == 0 else -1]
        assert own in sources
        assert other not in sources


def test_a_search_with_everything_switched_on_replays() -> None:
    ways = {"climb": 0.2, "specialist": 0.1, "explore": 0.2, "combine": 0.2, "repair": 0.2, "fresh": 0.1}
    loop = PlainLoop(
        PlainFormat(others=2, ways=ways), islands=3, rollouts=2, answers=2, evaluations=400, ways={},
        attempts=3, migration_interval=4,
        problem=dataclasses.replace(PLAIN, features=(Feature("length"), Feature("reward:left"))),
    )  # fmt: skip
    loop.run_shuffled(Random(9))
    kinds = Counter(event.kind for event in loop.history if isinstance(event, Prompt))
    statuses = Counter(judged.candidate.parse_status for told in loop.tells for judged in told.judged)
    assert loop.search.standing.proposed == 400
    of_models = (PromptKind.ROOT, PromptKind.MUTATE, PromptKind.CROSSOVER, PromptKind.REPAIR)
    assert min(kinds[kind] for kind in of_models) > 1
    assert min(statuses[ParseStatus.PARSED], statuses[ParseStatus.UNPARSED]) > 10
    again = loop.rebuilt()
    assert population(again) == population(loop.search)
    assert len(again.population.cells) > 10


@pytest.mark.parametrize(
    ("text", "changes", "is_accepted"),
    [
        ("bad! one", {"reason": ""}, True),  # earlier versions kept none
        ("bad! one", {"reason": "it is good"}, False),
        ("0.4 0.9 # fine", {"parse_status": ParseStatus.REJECTED, "reason": "not novel: by its nose"}, False),
    ],
)
def test_a_changed_candidate_is_found_out_but_not_a_missing_reason(
    text: str, changes: dict[str, Any], is_accepted: bool
) -> None:
    loop = PlainLoop(attempts=0)
    loop.step(text)
    told = loop.tells[-1]
    candidate = dataclasses.replace(told.judged[0].candidate, **changes)
    evaluation = told.judged[0].evaluation if is_accepted else None
    slot = dataclasses.replace(told.judged[0], candidate=candidate, evaluation=evaluation)
    loop.history[-1] = dataclasses.replace(told, judged=(slot,))
    if is_accepted:
        loop.rebuilt()
    else:
        with pytest.raises(ReplayError, match="other candidates than its completion gives"):
            loop.rebuilt()
