"""What each strategy starts an ask from, by hand and against slow versions."""

import dataclasses
import math
from random import Random

import pytest
from plain_search import START, PlainFormat, PlainLoop

from evovpo.config import STRATEGIES
from evovpo.runs.replay import replay
from evovpo.search.search import SearchState
from evovpo.search.strategies.iid import IndependentSampling
from evovpo.search.strategies.islands import Islands
from evovpo.search.strategies.puct import EXPLORATION
from evovpo.types import EvaluatorFolder, EvaluatorMode, Metric, ParentRole, Prompt, PromptKind


def shown(loop: PlainLoop, prompt: Prompt) -> str | None:
    """Return the parent of an ask."""
    return next((source for source, role in loop.parents(prompt) if role is ParentRole.PARENT), None)


def text(rng: Random) -> str:
    """Return an answer: mostly a program, some that fail, some that are none."""
    kind = rng.choice(["ok"] * 5 + ["fail", "bad"])
    if kind != "ok":
        return f"{kind} {rng.random()}"
    return f"{rng.random():.3f} {rng.random():.3f} # {rng.randrange(10**6)}"


def test_every_strategy_is_made() -> None:
    made = {name: type(PlainLoop(strategy=name).search._strategy) for name in STRATEGIES}
    assert {name for name, strategy in made.items() if strategy is Islands} == {"islands"}
    assert {name for name, strategy in made.items() if strategy is IndependentSampling} == {
        "iid",
        "best-of-n",
    }


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "islands"])
def test_a_replayed_history_asks_the_same_and_a_budget_is_used_exactly(name: str) -> None:
    loop = PlainLoop(strategy=name, evaluations=90, rollouts=3, answers=2, beam=3)
    rng = Random(1)
    waiting: list[tuple[Prompt, int]] = []
    while True:
        may_ask = loop.search.is_ready and len(waiting) < 9
        if may_ask and loop.search.tells and (prompt := loop.search.ask()) is not None:
            loop.history.append(prompt)
            waiting += [(prompt, index) for index in range(prompt.rollouts)]
        elif not loop.search.tells:
            prompt = loop.ask()
            waiting += [(prompt, index) for index in range(prompt.rollouts)]
        elif waiting:
            ticket, index = waiting.pop(rng.randrange(len(waiting)))
            loop.tell(ticket, "\n".join(text(rng) for _ in range(ticket.answers)), index)
        else:
            break
    assert loop.search.proposed == 90
    again = SearchState(loop.search.problem, loop.config, PlainFormat(), "run", 0)
    replay(again, loop.history, reads_again=True)
    assert again.best == loop.search.best
    assert list(again.gains) == list(loop.search.gains)


def test_iid_asks_from_the_problem_alone_whatever_is_told() -> None:
    loop = PlainLoop(strategy="iid", attempts=3)
    prompts = [loop.step("0.9 0.1 # a"), loop.step("fail"), loop.step("0.0 0.0 # b")]
    assert {prompt.kind for prompt in prompts} == {PromptKind.ROOT}
    assert len({prompt.messages for prompt in prompts}) == 1


def test_iid_shows_the_best_start_where_only_the_evaluator_knows_what_to_define() -> None:
    metric = Metric("left", 0.0, 1.0)
    evaluator = EvaluatorFolder("evaluator.py", EvaluatorMode.WHOLE, (metric, metric))
    problem = dataclasses.replace(PlainLoop().search.problem, scorer_path=None, evaluator=evaluator)
    loop = PlainLoop(problem=problem, strategy="iid")
    assert [shown(loop, loop.step(text)) for text in ("0.9 0.9 # a", "0.1 0.0 # b")] == [START.source] * 2
    islands = PlainLoop(problem=problem, ways={"fresh": 1.0})
    assert {islands.step(f"0.1 0.{n} # {n}").kind for n in range(5)} == {PromptKind.MUTATE}


def test_best_of_n_always_mutates_the_best_starting_program() -> None:
    loop = PlainLoop(strategy="best-of-n")
    prompts = [loop.step("0.9 0.9 # a"), loop.step("0.1 0.0 # worse"), loop.step("bad")]
    assert [shown(loop, prompt) for prompt in prompts] == [START.source] * 3
    assert len({prompt.messages for prompt in prompts}) == 1


def test_sequential_refines_the_best_of_the_last_group_also_when_it_is_worse() -> None:
    loop = PlainLoop(strategy="sequential", rollouts=3)
    found = [shown(loop, loop.step("0.5 0.5 # a", "0.9 0.3 # b", "fail"))]
    found.append(shown(loop, loop.step("0.1 0.1 # c", "bad", "0.1 0.0 # d")))
    found.append(shown(loop, loop.step("fail again", "bad", "0.9 0.3 # b")))  # nothing new that runs
    found.append(shown(loop, loop.ask()))
    assert found == [START.source, "0.9 0.3 # b", "0.1 0.1 # c", "0.1 0.1 # c"]


def test_sequential_has_one_ask_open_at_a_time() -> None:
    loop = PlainLoop(strategy="sequential", rollouts=2)
    prompt = loop.ask()
    assert not loop.search.is_ready
    loop.tell(prompt, "0.3 0.3 # a", 0)
    assert not loop.search.is_ready
    loop.tell(prompt, "0.2 0.3 # b", 1)
    assert loop.search.is_ready


def test_beam_expands_the_best_of_the_last_generation_in_turn() -> None:
    loop = PlainLoop(strategy="beam", beam=2)
    first = [loop.ask(), loop.ask()]
    assert [shown(loop, prompt) for prompt in first] == [START.source, "0.1 0.1 # seed"]
    assert not loop.search.is_ready
    loop.tell(first[1], "0.0 0.1 # low")
    assert not loop.search.is_ready
    loop.tell(first[0], "0.1 0.1 # mid")
    assert loop.search.is_ready
    second = [loop.step("0.7 0.7 # up"), loop.step("fail")]
    assert [shown(loop, prompt) for prompt in second] == ["0.1 0.1 # mid", "0.0 0.1 # low"]
    # One new program that runs: the best of the old beam takes the other place.
    assert [shown(loop, loop.ask()) for _ in range(2)] == ["0.7 0.7 # up", "0.1 0.1 # mid"]


def test_puct_by_hand() -> None:
    loop = PlainLoop(strategy="puct")
    # Means 0.1, 0.2: prior 1/3 and 2/3, scale 0.1: 0.1 + 0.0333 against 0.2 + 0.0667.
    first = loop.step("0.3 0.3 # child")
    assert shown(loop, first) == START.source
    # Means 0.1, 0.2, 0.3; the best starting program was visited and has 0.3 below it, T = 1.
    weight = 0.2 * math.sqrt(2)
    scores = {
        "0.1 0.1 # seed": 0.1 + weight / 6,
        START.source: 0.3 + weight * 2 / 6 / 2,
        "0.3 0.3 # child": 0.3 + weight * 3 / 6,
    }
    second = loop.ask()
    assert shown(loop, second) == max(scores, key=lambda source: scores[source]) == "0.3 0.3 # child"
    # Open asks count: the child has 1 visit now, its parent 2.
    weight = 0.2 * math.sqrt(3)
    assert 0.3 + weight * 3 / 6 / 2 > 0.3 + weight * 2 / 6 / 3 > 0.1 + weight / 6
    assert shown(loop, loop.ask()) == "0.3 0.3 # child"


def test_puct_is_what_a_slow_version_over_whole_subtrees_says() -> None:
    loop = PlainLoop(strategy="puct")
    rng = Random(3)
    means = {"0.1 0.1 # seed": 0.1, START.source: 0.2}
    parent_of: dict[str, str | None] = dict.fromkeys(means)
    expanded: list[str] = []

    def line(source: str | None) -> list[str]:
        return [] if source is None else [source, *line(parent_of[source])]

    for _ in range(60):
        ranked = sorted(means, key=lambda source: -means[source])
        spread = (max(means.values()) - min(means.values())) or 1.0
        scores = {}
        for source in means:
            below = [other for other in means if source in line(other)]
            visits = sum(source in line(other) for other in expanded)
            prior = (len(means) - ranked.index(source)) / sum(range(1, len(means) + 1))
            bonus = EXPLORATION * spread * prior * math.sqrt(1 + len(expanded)) / (1 + visits)
            scores[source] = max(means[other] for other in below) + bonus
        answer = text(rng)
        chosen = shown(loop, loop.step(answer))
        assert chosen is not None
        assert scores[chosen] == pytest.approx(max(scores.values()), abs=1e-9)
        expanded.append(chosen)
        if answer[0].isdigit():
            means[answer] = sum(map(float, answer.split()[:2])) / 2
            parent_of[answer] = chosen
