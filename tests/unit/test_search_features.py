"""Crossover, repair, failed attempts, notes, novelty, restarts and early stopping, each by hand."""

from __future__ import annotations

import dataclasses
from collections import Counter
from random import Random

import pytest
from plain_search import PLAIN, START, WORSE_START, PlainFormat, PlainLoop

from evovpo.config import SearchConfig
from evovpo.errors import ConfigError, ReplayError
from evovpo.prompts.request import Attempt
from evovpo.runs.replay import replay
from evovpo.search.search import Search
from evovpo.types import Evaluation, ParentRole, ParseStatus, Program, Prompt, PromptKind, Status, Tell


def rebuilt(loop: PlainLoop) -> Search:
    """Return the search that the loop's history makes again, every prompt compared."""
    search = Search(loop.search.problem, loop.config, PlainFormat(), "run", 0)
    replay(search, loop.history, reads_again=True)
    return search


def random_text(rng: Random) -> str:
    kind = rng.choice(["ok"] * 4 + ["fail", "bad!"])
    return (
        f"{rng.random():.2f} {rng.random():.2f} # {rng.randrange(10**6)}"
        if kind == "ok"
        else f"{kind} {rng.random()}"
    )


# Crossover and repair


def test_a_crossover_shows_the_program_that_adds_most_to_its_parent() -> None:
    loop = PlainLoop(crossover_share=1.0, selection="dirichlet")
    assert loop.step("0.9 0.1 # left").kind is PromptKind.MUTATE  # the better start adds nothing to itself
    loop.step("0.1 0.8 # right")
    pairs: Counter[tuple[str, str]] = Counter()
    for _ in range(20):
        prompt = loop.ask()
        assert prompt.kind is PromptKind.CROSSOVER
        request = loop.requests[-1]
        assert request.parent is not None
        assert request.partner is not None
        pairs[request.parent.program.source, request.partner.program.source] += 1
        assert [role for _, role in loop.parents(prompt)] == [ParentRole.PARENT, ParentRole.PARTNER]
    assert set(pairs) == {
        ("0.9 0.1 # left", "0.1 0.8 # right"),
        ("0.1 0.8 # right", "0.9 0.1 # left"),
    }
    rebuilt(loop)


def test_the_partner_is_not_shown_a_second_time_as_an_inspiration() -> None:
    loop = PlainLoop(crossover_share=1.0, inspirations=2)
    loop.step("0.9 0.1 # left")
    loop.step("0.1 0.8 # right")
    for _ in range(10):
        loop.ask()
        request = loop.requests[-1]
        shown = [request.parent, request.partner, *request.inspirations]
        assert len({item.program.id for item in shown if item is not None}) == len(shown)


def test_a_format_that_shows_no_partner_gets_no_crossover() -> None:
    loop = PlainLoop(PlainFormat((ParentRole.PARENT,)), crossover_share=1.0)
    kinds = {loop.step(f"0.{n} 0.{9 - n} # {n}").kind for n in range(9)}
    assert kinds == {PromptKind.MUTATE}


def test_shares_of_kinds_are_what_was_asked_for_and_leave_other_draws_alone() -> None:
    rng = Random(2)
    loop = PlainLoop(crossover_share=0.3, repair_share=0.2, evaluations=600)
    kinds = Counter(loop.step(random_text(rng)).kind for _ in range(600))
    assert 0.24 < kinds[PromptKind.CROSSOVER] / 600 < 0.36
    assert 0.1 < kinds[PromptKind.REPAIR] / 600 < 0.26
    rebuilt(loop)


def test_a_failing_program_is_repaired_at_most_twice_and_the_newest_first() -> None:
    loop = PlainLoop(repair_share=1.0)
    assert loop.step("fail a\n").kind is PromptKind.MUTATE  # nothing failed yet
    first = loop.step("fail b")
    assert (first.kind, loop.parents(first)) == (PromptKind.REPAIR, [("fail a", ParentRole.PARENT)])
    repaired = [loop.parents(loop.step("bad"))[0][0] for _ in range(3)]
    assert repaired == ["fail b", "fail b", "fail a"]
    assert loop.step("0.1 0.1 # nothing left to repair").kind is PromptKind.MUTATE
    rebuilt(loop)


def test_a_mended_program_is_not_repaired_again() -> None:
    loop = PlainLoop(repair_share=1.0)
    loop.step("fail a")
    assert loop.step("0.4 0.4 # mended").kind is PromptKind.REPAIR
    assert loop.step("0.5 0.4 # next").kind is PromptKind.MUTATE


def test_failing_starting_programs_are_repaired() -> None:
    problem = dataclasses.replace(PLAIN, seeds=(dataclasses.replace(START, source="fail seed", id=""),))
    loop = PlainLoop(problem=problem, repair_share=1.0)
    prompt = loop.step("0.5 0.5 # runs")
    assert (prompt.kind, loop.parents(prompt)[0][0]) == (PromptKind.REPAIR, "fail seed")


# Failed attempts


def test_a_prompt_shows_the_last_failed_answers_to_the_same_parent_with_their_reasons() -> None:
    loop = PlainLoop(strategy="sequential", rollouts=7, attempts=6)
    loop.step(
        "bad answer",
        "bad! answer",
        "",  # never written: no attempt
        "fail one",
        "0.1 0.1 # dominated",
        "0.2 0.2 # equal",
        "0.1 0.3 # better in one",
    )
    # The parent of all these is the better start; the chain goes on with the best of them.
    assert loop.requests[0].attempts == ()
    assert list(loop.search._failures.attempts(START.id)) == [
        Attempt("bad answer", "no program could be read from it"),
        Attempt("bad! answer", "it is bad"),
        Attempt("fail one", "fail one went wrong"),
        Attempt("0.1 0.1 # dominated", "no better in anything, worse in left, right"),
        Attempt("0.2 0.2 # equal", "no better in anything"),
    ]
    rebuilt(loop)


def test_attempts_belong_to_a_parent_and_only_the_last_are_shown() -> None:
    loop = PlainLoop(attempts=2, selection="pareto")
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


def test_without_memory_of_failures_none_are_shown() -> None:
    loop = PlainLoop(attempts=0)
    loop.step("bad")
    loop.step("fail")
    assert all(request.attempts == () for request in loop.requests)


# Notes


def test_notes_are_asked_for_at_intervals_and_shown_in_every_later_prompt() -> None:
    loop = PlainLoop(notes_interval=2, attempts=1)
    loop.step("0.3 0.1 # a")
    loop.step("bad one")
    notes = loop.ask()
    assert (notes.kind, notes.rollouts, notes.answers, notes.slots) == (PromptKind.NOTES, 1, 0, 0)
    request = loop.requests[-1]
    assert (request.answers, request.kind) == (0, PromptKind.NOTES)
    assert request.parent is not None
    assert request.parent.program.source == "0.3 0.1 # a"
    assert [item.program.source for item in request.inspirations] == [START.source]
    assert [attempt.text for attempt in request.attempts] == ["bad one"]
    assert loop.tell(notes, "Left is easy.") == []
    loop.step("0.4 0.1 # b")
    loop.step("0.5 0.1 # c")
    assert loop.requests[-1].notes == "Left is easy."
    second = loop.ask()
    assert second.kind is PromptKind.NOTES
    loop.tell(second, "  ")  # nothing written: the old notes stay
    assert loop.step("0.6 0.1 # d").kind is PromptKind.MUTATE
    assert loop.requests[-1].notes == "Left is easy."
    search = rebuilt(loop)
    assert (search.notes.text, search.proposed) == ("Left is easy.", 5)


def test_notes_cost_no_evaluation_and_end_with_the_budget() -> None:
    loop = PlainLoop(notes_interval=1, evaluations=5)
    kinds: list[PromptKind] = []
    while True:
        prompt = loop.search.ask() if loop.search.tells else loop.ask()
        if prompt is None:
            break
        loop.tell(prompt, "notes" if prompt.kind is PromptKind.NOTES else f"0.{len(kinds)} 0.1 # x")
        kinds.append(prompt.kind)
    assert kinds == [PromptKind.MUTATE, PromptKind.NOTES] * 4 + [PromptKind.MUTATE]
    assert loop.search.proposed == 5


def test_long_notes_are_cut() -> None:
    loop = PlainLoop(notes_interval=1)
    loop.step("0.3 0.1 # a")
    loop.tell(loop.ask(), "x" * 10_000)
    assert loop.search.notes.text == "x" * 4000


def test_a_format_without_second_programs_is_never_asked_for_notes() -> None:
    loop = PlainLoop(PlainFormat((ParentRole.PARENT,)), notes_interval=1)
    assert {loop.step(f"0.{n} 0.1 # {n}").kind for n in range(5)} == {PromptKind.MUTATE}


# Goals


def test_goals_ask_for_what_the_front_lacks_and_take_nothing_from_other_draws() -> None:
    prompts, asked = {}, {}
    for goals in (True, False):
        loop = PlainLoop(goals=goals)
        loop.step("0.9 0.1 # left")
        prompts[goals] = [loop.ask() for _ in range(100)]
        asked[goals] = [request.weights for request in loop.requests[1:]]
        rebuilt(loop)
    assert [prompt.seed for prompt in prompts[True]] == [prompt.seed for prompt in prompts[False]]
    assert [prompt.parents for prompt in prompts[True]] == [prompt.parents for prompt in prompts[False]]
    assert set(asked[False]) == {()}
    assert all(sum(weights) == pytest.approx(1.0) for weights in asked[True])
    # Of three uniform weights of `right` it is the largest: 3/4 on average.
    assert 0.67 < sum(right for _, right in asked[True]) / 100 < 0.83


def test_goals_of_independent_asks_look_at_no_front() -> None:
    loop = PlainLoop(goals=True, strategy="iid")
    loop.step("0.9 0.1 # left")
    rights = [loop.ask() and loop.requests[-1].weights[1] for _ in range(100)]
    assert 0.4 < sum(rights) / 100 < 0.6


# Novelty


def test_an_answer_near_the_programs_of_its_island_is_rejected_and_counts() -> None:
    loop = PlainLoop(novelty=0.5)
    prompt = loop.step("0.2 0.2 # better seed!")
    judged = loop.history[-1]
    assert isinstance(judged, Tell)
    candidate = judged.judged[0].candidate
    assert candidate.parse_status is ParseStatus.REJECTED
    assert candidate.reason.startswith("not novel: its text is at distance 0.0")
    assert START.id in candidate.reason
    assert judged.judged[0].evaluation is None
    assert loop.search.proposed == prompt.slots == 1
    loop.step("0.4 0.9 # of an entirely other kind")
    assert loop.search.best is not None
    assert loop.search.best.program.source.endswith("kind")
    shown = loop.search._failures.attempts(START.id)
    assert [attempt.text for attempt in shown] == ["0.2 0.2 # better seed!"]
    rebuilt(loop)


def test_novelty_is_judged_against_the_island_as_it_was_at_the_ask() -> None:
    loop = PlainLoop(novelty=0.5)
    first, second = loop.ask(), loop.ask()
    loop.tell(first, "0.9 0.9 # something entirely other")
    loop.tell(second, "0.9 0.8 # something entirely other")
    told = loop.history[-1]
    assert isinstance(told, Tell)
    assert told.judged[0].candidate.parse_status is ParseStatus.PARSED
    loop.step("0.8 0.8 # something entirely other")
    told = loop.history[-1]
    assert isinstance(told, Tell)
    assert told.judged[0].candidate.parse_status is ParseStatus.REJECTED
    rebuilt(loop)


def test_a_stored_rejection_that_does_not_follow_is_found_out() -> None:
    loop = PlainLoop(novelty=0.5)
    loop.step("0.4 0.9 # of an entirely other kind")
    told = loop.history[-1]
    assert isinstance(told, Tell)
    judged = told.judged[0]
    refused = dataclasses.replace(
        judged.candidate, parse_status=ParseStatus.REJECTED, reason="not novel: by its nose"
    )
    loop.history[-1] = dataclasses.replace(
        told, judged=(dataclasses.replace(judged, candidate=refused, evaluation=None),)
    )
    with pytest.raises(ReplayError, match="other candidates than its completion gives"):
        rebuilt(loop)


# Restarts


def test_a_stale_island_starts_anew_with_the_best_of_another() -> None:
    loop = PlainLoop(islands=2, restart_after=3, migrants=0)
    loop.step("0.9 0.9 # best, on island 0")
    for number in range(3):
        assert loop.step(f"0.0 0.0 # nothing for island 1, {number}").island == 1
        loop.step(f"0.95 0.9{number} # better and better on island 0")
    assert [m.source for m in loop.search.population.islands[1].members] == [START.source]
    assert loop.search.population.restarts == 0
    assert loop.ask().island == 1
    assert loop.search.population.restarts == 1
    assert [m.source for m in loop.search.population.islands[1].members] == [
        "0.95 0.92 # better and better on island 0"
    ]
    assert rebuilt(loop).population.restarts == 1


def test_the_island_of_the_best_program_is_not_emptied_while_there_is_another() -> None:
    loop = PlainLoop(islands=2, restart_after=2, migrants=0)
    loop.step("0.9 0.9 # best, on island 0")
    for number in range(12):
        prompt = loop.ask()
        # Island 1 makes progress all the time, but stays behind.
        loop.tell(prompt, f"0.3 0.{30 + number} # {number}" if prompt.island else "bad")
    assert loop.search.population.restarts == 0
    assert [m.source for m in loop.search.population.islands[0].members] == ["0.9 0.9 # best, on island 0"]


def test_a_single_island_starts_anew_with_the_starting_programs() -> None:
    loop = PlainLoop(islands=1, restart_after=2)
    loop.step("0.9 0.9 # best")
    for _ in range(3):
        loop.step("bad")
    assert loop.search.population.restarts == 1
    assert [m.source for m in loop.search.population.islands[0].members] == [START.source]
    assert loop.search.best is not None
    assert loop.search.best.program.source == "0.9 0.9 # best"


def test_progress_puts_a_restart_off() -> None:
    loop = PlainLoop(islands=1, restart_after=2)
    for number in range(9):
        loop.step("bad")
        loop.step(f"0.5 0.5{number} # {number}")
    assert loop.search.population.restarts == 0


# Early stopping


def test_patience_counts_evaluations_since_the_best_got_better() -> None:
    loop = PlainLoop(patience=3)
    loop.step("0.1 0.1 # no better")
    loop.step("0.5 0.5 # better, and a long one")
    loop.step("0.5 0.5 # as good")  # shorter, so the best, but no better
    loop.step("bad")
    assert loop.search.stop_reason == ""
    loop.step("fail")
    assert loop.search.stop_reason == "no better program in 3 evaluations"


def test_a_target_is_a_mean_reward() -> None:
    loop = PlainLoop(target="0.6")
    loop.step("0.9 0.2 # not yet")
    assert loop.search.stop_reason == ""
    loop.step("0.9 0.3 # now")
    assert loop.search.stop_reason == "the target of 0.6 is reached"
    assert rebuilt(loop).stop_reason == loop.search.stop_reason


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
        search = Search(PLAIN, SearchConfig(target=str(target)), PlainFormat())
        search.gains.append(0.0)
        search.take(Program("p"), evaluation)
        assert search.stop_reason == reason


@pytest.mark.parametrize("target", ["much", "nan", "inf", "1,5"])
def test_a_target_that_is_no_number_is_refused(target: str) -> None:
    with pytest.raises(ConfigError, match=r"search\.target: expected a finite number"):
        SearchConfig(target=target)


def test_shares_above_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="together they are at most 1"):
        SearchConfig(crossover_share=0.6, repair_share=0.5)


# Examples


def test_a_prompt_shows_top_and_diverse_programs_although_none_of_them_adds_anything() -> None:
    loop = PlainLoop(top_programs=1, diverse_programs=1, rollouts=3)
    loop.step("0.9 0.9 # best", "0.5 0.5 # middle", "fail")
    prompt = loop.ask()
    (parent, *others) = loop.parents(prompt)
    assert parent == ("0.9 0.9 # best", ParentRole.PARENT)  # alone on the front
    assert others[0] == ("0.5 0.5 # middle", ParentRole.INSPIRATION)
    assert [role for _, role in others] == [ParentRole.INSPIRATION] * 2
    assert others[1][0] in (START.source, WORSE_START.source)  # what fails is not shown
    assert [shown.program.source for shown in loop.requests[-1].inspirations] == [text for text, _ in others]
    without = PlainLoop(rollouts=3, inspirations=2)
    without.step("0.9 0.9 # best", "0.5 0.5 # middle", "fail")
    assert without.parents(without.ask()) == [parent]
    assert without.search.tickets.open[-1][0].seed == prompt.seed  # they take nothing from other draws
    rebuilt(loop)


@pytest.mark.parametrize("strategy", ["sequential", "beam", "puct", "iid", "best-of-n"])
def test_strategies_with_memory_show_examples_and_independent_draws_none(strategy: str) -> None:
    loop = PlainLoop(strategy=strategy, top_programs=2, rollouts=2, attempts=0)
    loop.step("0.9 0.9 # best", "0.5 0.5 # middle")
    shown = [role for _, role in loop.parents(loop.ask())]
    examples = 0 if strategy in ("iid", "best-of-n") else 2
    assert shown.count(ParentRole.INSPIRATION) == examples


def test_an_island_shows_its_own_programs_and_forgets_them_when_it_starts_anew() -> None:
    loop = PlainLoop(islands=2, top_programs=9, migration_interval=99, restart_after=2)
    first = loop.step("0.9 0.9 # one")
    assert first.island == 0
    second = loop.step("0.3 0.3 # two")
    for _ in range(20):
        prompt = loop.step("bad")
        sources = {source for source, _ in loop.parents(prompt)}
        if loop.search.population.restarts and prompt.island == second.island:
            break
        own, other = ("0.9 0.9 # one", "0.3 0.3 # two")[:: 1 if prompt.island == first.island else -1]
        assert own in sources
        assert other not in sources
    assert sources == {"0.9 0.9 # one"}  # founded anew with the best of the other island


# Together


def test_a_search_with_everything_switched_on_replays() -> None:
    rng = Random(9)
    loop = PlainLoop(
        islands=3, rollouts=2, answers=2, evaluations=400, root_share=0.2, inspirations=2,
        crossover_share=0.2,
        repair_share=0.2, attempts=3, notes_interval=7, novelty=0.95,
        restart_after=6, migration_interval=4, top_programs=2, diverse_programs=1, goals=True,
    )  # fmt: skip
    waiting: list[tuple[Prompt, int]] = []
    kinds: Counter[PromptKind] = Counter()
    statuses: Counter[ParseStatus] = Counter()
    prompt: Prompt | None = loop.ask()
    while prompt is not None or waiting:
        if prompt is not None:
            kinds[prompt.kind] += 1
            waiting += [(prompt, index) for index in range(prompt.rollouts)]
        while len(waiting) > 8 or (waiting and prompt is None):
            ticket, index = waiting.pop(rng.randrange(len(waiting)))
            loop.tell(ticket, "\n".join(random_text(rng) for _ in range(ticket.answers)) or "noted", index)
            told = loop.history[-1]
            assert isinstance(told, Tell)
            statuses.update(judged.candidate.parse_status for judged in told.judged)
        prompt = None if prompt is None else loop.search.ask()
        if prompt is not None:
            loop.history.append(prompt)
    assert loop.search.proposed == 400
    assert min(kinds[kind] for kind in PromptKind if kind not in (PromptKind.SEED, PromptKind.JOIN)) > 3
    assert min(statuses[s] for s in ParseStatus if s is not ParseStatus.DUPLICATE) > 10
    assert loop.search.population.restarts > 0
    again = rebuilt(loop)
    assert again.population.restarts == loop.search.population.restarts
    assert [i.filled_cells for i in again.population.islands] == [
        i.filled_cells for i in loop.search.population.islands
    ]
    assert [[m.program_id for m in i.members] for i in again.population.islands] == [
        [m.program_id for m in i.members] for i in loop.search.population.islands
    ]


def test_a_changed_reason_is_found_out_and_one_that_was_never_kept_is_not() -> None:
    loop = PlainLoop(attempts=0)
    loop.step("bad! one")
    told = loop.history[-1]
    assert isinstance(told, Tell)
    for reason, is_accepted in (("", True), ("it is good", False)):
        candidate = dataclasses.replace(told.judged[0].candidate, reason=reason)
        slot = dataclasses.replace(told.judged[0], candidate=candidate)
        loop.history[-1] = dataclasses.replace(told, judged=(slot,))
        if is_accepted:
            rebuilt(loop)
        else:
            with pytest.raises(ReplayError, match="other candidates than its completion gives"):
                rebuilt(loop)
