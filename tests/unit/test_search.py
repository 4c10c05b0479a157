"""Ask and tell: the protocol, the budget, the population's moves, and a whole search kept as a golden file.

The golden file holds every ask and insertion of one search. After a change that is meant to alter
searches, write it again with `EVOVPO_WRITE_GOLDEN=1 pytest tests/unit/test_search.py -k golden`, and say in
the commit why searches come out differently.
"""

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_runs import (
    CONFIG,
    HARD,
    PROBLEM,
    SWAP,
    Loop,
    evaluation,
    population,
    random_expressions,
    random_writer,
    source,
)

from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.config import SearchConfig
from evovpo.errors import SearchError
from evovpo.judging.evaluator import Evaluator
from evovpo.sandbox import Sandbox
from evovpo.types import Evaluation, ParentRole, Program, Prompt, PromptKind, Tell, content_id

GOLDEN = Path(__file__).parents[1] / "golden" / "search.json"


def seeded(loop: Loop) -> Loop:
    loop.tell(loop.proposals(loop.ask()))
    return loop


def config(**changes: object) -> SearchConfig:
    return CONFIG.changed(**changes)  # type: ignore[arg-type]


def test_the_first_ticket_carries_the_starting_programs_and_costs_nothing() -> None:
    loop = Loop()
    prompt = loop.ask()
    assert (prompt.kind, prompt.sequence, prompt.proposals, prompt.slots) == (
        PromptKind.SEED,
        0,
        HARD.seeds,
        0,
    )
    loop.tell(loop.proposals(prompt))
    assert (loop.search.standing.proposed, loop.search.standing.tells) == (0, 1)
    assert [[m.source for m in island.members] for island in loop.search.population.islands] == [
        [HARD.seeds[0].source]
    ] * 2


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False))
def test_replies_may_come_in_any_order_late_or_never(order: Random) -> None:
    loop = seeded(Loop(config(evaluations=80, joins=False)))
    write = random_writer(1)
    waiting: list[tuple[Prompt, int]] = []
    asked = 0
    while True:
        prompt = loop.search.ask() if order.random() < 0.4 or not waiting else None
        if prompt is not None:
            asked += prompt.slots
            waiting += [(prompt, index) for index in range(prompt.rollouts)]
        elif waiting:
            ticket, index = waiting.pop(order.randrange(len(waiting)))
            if order.random() < 0.9:
                loop.tell(loop.reply(ticket, index, write(ticket, index)))
        else:
            break
    assert asked == 80
    assert loop.search.standing.proposed == sum(len(tell.judged) for tell in loop.told[1:]) <= 80
    missing = sum(len(indices) for _, indices in loop.search.tickets.open)
    assert missing * CONFIG.answers >= 80 - loop.search.standing.proposed >= missing


def test_telling_twice_changes_nothing() -> None:
    loop = seeded(Loop())
    prompt = loop.ask()
    tell = loop.reply(prompt, 1, ["x0.upper()", "x0[0]"])
    loop.tell(tell)
    before = (
        population(loop.search),
        loop.search.standing.tells,
        loop.search.standing.proposed,
        loop.search.standing.best,
    )
    other = loop.reply(prompt, 1, [SWAP, "x0"])
    assert loop.search.tell(tell) == loop.search.tell(other) == []
    assert (
        population(loop.search),
        loop.search.standing.tells,
        loop.search.standing.proposed,
        loop.search.standing.best,
    ) == before
    assert loop.search.tickets.open == [(prompt, (0,))]


def test_an_unknown_ticket_is_an_error() -> None:
    with pytest.raises(SearchError, match="no ticket nothing"):
        Loop().search.tell(Tell("nothing", None, ()))


def test_a_vector_of_the_wrong_length_is_an_error_and_nothing_is_applied() -> None:
    loop = seeded(Loop(judge=lambda text: evaluation(text, (1.0,) if "upper" in text else (0.0,) * 8)))
    prompt = loop.ask()
    before = population(loop.search)
    with pytest.raises(SearchError, match=r"1 components.*has 8 objectives"):
        loop.tell(loop.reply(prompt, 0, ["x0[0]", "x0.upper()"]))
    assert (population(loop.search), loop.search.standing.tells) == (before, 1)
    assert loop.search.tickets.open == [(prompt, (0, 1))]


def test_a_reply_that_does_not_fit_its_ticket_is_an_error() -> None:
    loop = seeded(Loop())
    prompt = loop.ask()
    good = loop.reply(prompt, 0, ["x0", "x0"])
    assert good.rollout is not None
    for index in (-1, prompt.rollouts):
        with pytest.raises(SearchError, match="asked for 2"):
            loop.search.tell(
                dataclasses.replace(good, rollout=dataclasses.replace(good.rollout, index=index))
            )
    with pytest.raises(SearchError, match="with the rollout that a model wrote"):
        loop.search.tell(dataclasses.replace(good, rollout=None))
    with pytest.raises(SearchError, match="1 candidates, expected 2"):
        loop.search.tell(dataclasses.replace(good, judged=good.judged[:1]))
    seed_tell = dataclasses.replace(good, prompt_id=Loop().ask().id)
    assert loop.search.standing.tells == 1
    unseeded = Loop()
    unseeded.ask()
    with pytest.raises(SearchError, match="without a rollout"):
        unseeded.search.tell(seed_tell)


@pytest.mark.parametrize("evaluations", [1, 2, 3, 5, 23, 100])
@pytest.mark.parametrize("joins", [True, False])
def test_the_budget_is_used_exactly(evaluations: int, joins: bool) -> None:
    loop = Loop(config(evaluations=evaluations, rollouts=4, answers=3, joins=joins))
    loop.run(random_writer(2))
    assert sum(len(tell.judged) for tell in loop.told[1:]) == loop.search.standing.proposed == evaluations
    assert sum(prompt.slots for prompt in loop.asked) == evaluations
    assert loop.search.ask() is None
    assert loop.search.tickets.open == []
    assert joins or PromptKind.JOIN not in {prompt.kind for prompt in loop.asked}


def test_open_tickets_count_against_the_budget_before_they_are_told() -> None:
    search = seeded(Loop(config(evaluations=10, rollouts=2, answers=2))).search
    asked = [search.ask() for _ in range(6)]
    assert [None if prompt is None else prompt.slots for prompt in asked] == [4, 4, 2, None, None, None]


def test_a_program_that_the_sandbox_failed_on_may_be_judged_again() -> None:
    is_broken = True

    def judge(text: str) -> Evaluation:
        return evaluation(text, None if is_broken and "upper" in text else [float("upper" in text)] * 8)

    loop = seeded(Loop(judge=judge))
    prompt = loop.ask()
    loop.tell(loop.reply(prompt, 0, ["x0.upper()", "1 +"]))
    assert not loop.search.standing.is_solved
    is_broken = False
    loop.tell(loop.reply(prompt, 1, ["x0.upper()", "1 +"]))
    assert loop.judged[1:] == [source("x0.upper()")] * 2
    assert loop.search.standing.is_solved


def test_another_seed_gives_another_search() -> None:
    first, second = Loop(seed=1), Loop(seed=2)
    for loop in (first, second):
        loop.run(random_writer(4))
    assert [prompt.messages for prompt in first.asked] != [prompt.messages for prompt in second.asked]


def test_prompts_are_numbered_from_the_run_and_know_the_tells_before_them() -> None:
    loop = Loop(run="some-run")
    loop.run(random_writer(6))
    assert [prompt.sequence for prompt in loop.asked] == list(range(len(loop.asked)))
    assert [prompt.id for prompt in loop.asked] == [
        content_id("some-run", str(number)) for number in range(len(loop.asked))
    ]
    told = 0
    for prompt in loop.asked:
        assert prompt.tells_before == told
        told += prompt.rollouts


def test_the_best_has_most_mean_reward_then_is_shortest_then_first() -> None:
    vectors = {"x0.upper()": 3, "x0.lower()": 3, "x0.title()": 2, "x0[0]": 3, "x0[1]": 3, "x0.strip()": 4}
    loop = seeded(
        Loop(
            config(rollouts=8, answers=1, joins=False),
            judge=lambda text: evaluation(
                text,
                next(
                    ([1.0] * n + [0.0] * (8 - n) for e, n in vectors.items() if source(e) == text), [0.0] * 8
                ),
            ),
        )
    )
    prompt = loop.ask()
    best = []
    for index, expression in enumerate(vectors):
        loop.tell(loop.reply(prompt, index, [expression]))
        assert loop.search.standing.best is not None
        best.append(loop.search.standing.best.program.source)
    assert best == [
        source(e) for e in ("x0.upper()", "x0.upper()", "x0.upper()", "x0[0]", "x0[0]", "x0.strip()")
    ]
    assert not loop.search.standing.is_solved


def test_islands_take_turns_and_keep_their_own_programs() -> None:
    loop = Loop(config(islands=3, migration_rate=0.0, ways={"explore": 1.0}, joins=False, evaluations=120))
    loop.run(random_writer(8))
    model_asks = [prompt for prompt in loop.asked if prompt.kind is not PromptKind.SEED]
    assert [prompt.island for prompt in model_asks] == [number % 3 for number in range(len(model_asks))]
    home = {prompt.id: prompt.island for prompt in loop.asked}
    origin = {
        judged.candidate.program.id: home[tell.prompt_id]
        for tell in loop.told[1:]
        for judged in tell.judged
        if judged.candidate.program is not None and judged.executed
    }
    for island in loop.search.population.islands:
        assert {origin.get(m.program_id, island.index) for m in island.members} == {island.index}
        assert len(island.members) > 1


def three_islands(rate: float, seed: int = 0) -> tuple[Loop, list[set[str]]]:
    """Return a loop before the ask that migrates, and what its islands hold: four programs of their own."""
    loop = seeded(
        Loop(
            config(islands=3, migration_interval=1, migration_rate=rate, rollouts=1, answers=1, joins=False),
            seed=seed,
            judge=lambda text: evaluation(text, [0.0] * 8),
        )
    )
    for number, expression in enumerate(random_expressions(1, 12)):
        program = Program(source(expression))
        found = evaluation(program.source, [float(bit == "1") for bit in f"{number + 1:08b}"])
        loop.search.standing.take(program, found)
        loop.search.population.insert(program, found, number % 3)
    before = held(loop)
    assert [len(programs) for programs in before] == [4, 4, 4]
    loop.ask()
    loop.ask()
    assert held(loop) == before
    return loop, before


def held(loop: Loop) -> list[set[str]]:
    """Return what each island holds beside the starting program."""
    islands = loop.search.population.islands
    return [{m.source for m in island.members} - {HARD.seeds[0].source} for island in islands]


@pytest.mark.parametrize(("rate", "most"), [(0.01, 1), (0.2, 1), (0.4, 2), (1.0, 5)])
def test_migration_copies_a_share_of_each_island_to_the_next_one_in_the_ring(rate: float, most: int) -> None:
    moved = []
    for seed in range(10):
        loop, before = three_islands(rate, seed)
        orders = {m.source: m.order for island in loop.search.population.islands for m in island.members}
        loop.ask()  # the third ask of three islands migrates before it is made
        for place, programs in enumerate(held(loop)):
            assert before[place] <= programs
            assert programs - before[place] <= before[place - 1]
            moved.append(len(programs - before[place]))
        for island in loop.search.population.islands:
            assert all(m.order == orders[m.source] for m in island.members)
    assert max(moved) <= most
    assert max(moved) >= min(most, 2)
    assert sum(moved) > 0


def test_a_seed_that_the_format_cannot_show_is_never_a_parent() -> None:
    documented = Program('"""A starting program."""\n\n\ndef solve(name):\n    return name\n')
    problem = dataclasses.replace(HARD, seeds=(documented,))
    loop = Loop(
        config(ways={"climb": 0.5, "specialist": 0.5}, evaluations=60, joins=False),
        problem=problem,
        judge=lambda text: evaluation(text, [float(text == documented.source)] * 7 + [0.0]),
    )
    loop.run(random_writer(10))
    kinds = Counter(prompt.kind for prompt in loop.asked[1:])
    assert kinds[PromptKind.ROOT] > 0
    assert all((prompt.kind is PromptKind.MUTATE) == bool(prompt.parents) for prompt in loop.asked)
    assert all(parent.program_id != documented.id for prompt in loop.asked for parent in prompt.parents)
    assert all(("⟦par⟧" in prompt.messages[0].content) == bool(prompt.parents) for prompt in loop.asked[1:])


def test_the_built_in_format_asks_half_of_its_prompts_from_the_problem_alone_eight_times_each() -> None:
    loop = Loop(SearchConfig(evaluations=4000, ways=ExpressionFormat.ways, joins=False, patience=0))
    loop.run(random_writer(11))
    asked = loop.asked[1:]
    assert {prompt.rollouts for prompt in asked} == {8}
    ways = Counter(prompt.way for prompt in asked)
    assert set(ways) == {"fresh", "explore", "climb"}
    assert ways["fresh"] / len(asked) == pytest.approx(0.5, abs=0.07)
    assert ways["explore"] / len(asked) == pytest.approx(0.45, abs=0.07)
    assert all((prompt.kind is PromptKind.ROOT) == (prompt.way == "fresh") for prompt in asked)


def test_before_the_first_reply_at_most_an_eighth_of_the_budget_is_asked_for() -> None:
    loop = seeded(Loop(config(evaluations=100, rollouts=2, answers=2, joins=False)))
    opened = []
    while loop.search.is_ready:
        opened.append(loop.ask())
    assert len(opened) == 3  # 12 candidates of 12.5
    loop.tell(loop.reply(opened[1], 0, ["x0", "x0[0]"]))
    while loop.search.is_ready and (prompt := loop.search.ask()) is not None:
        opened.append(prompt)
    assert sum(prompt.slots for prompt in opened) == 100


def test_one_ask_is_always_handed_out_however_small_the_budget() -> None:
    loop = seeded(Loop(config(evaluations=4, rollouts=4, answers=1, joins=False)))
    assert loop.search.is_ready
    first = loop.ask()
    assert first.slots == 4
    assert not loop.search.is_ready
    loop.tell(loop.reply(first, 0, ["x0"]))
    assert loop.search.is_ready


def judge_by_rows(text: str) -> Evaluation:
    """Judge the two halves of the solution, and their join, by what they are."""
    left, right = float(SWAP.replace("x0", "name") in text), float("name.upper()" in text)
    return evaluation(text, [left] * 3 + [right] * 3, PROBLEM.version)


def test_joins_of_complementary_programs_are_asked_next_and_are_marked() -> None:
    loop = seeded(Loop(problem=PROBLEM, judge=judge_by_rows))
    first = loop.ask()
    loop.tell(loop.reply(first, 0, [SWAP, "x0[0]"]))
    loop.tell(loop.reply(first, 1, ["x0.upper()", "x0[1]"]))
    prompt = loop.ask()
    assert prompt.kind is PromptKind.JOIN
    assert prompt.messages == ()
    assert prompt.proposals[0].source == source(f"{SWAP} if ' ' in x0 else x0.upper()")
    assert prompt.slots == len(prompt.proposals)
    join = loop.search.tickets[prompt.id].joins[0]
    assert [(p.role, p.program_id) for p in join.parents] == [
        (ParentRole.JOIN_THEN, content_id(source(SWAP))),
        (ParentRole.JOIN_ELSE, content_id(source("x0.upper()"))),
    ]
    before = loop.search.standing.proposed
    loop.tell(loop.proposals(prompt))
    assert loop.search.standing.proposed - before == loop.search.standing.joined == len(prompt.proposals)
    assert loop.search.standing.is_solved


def test_joins_never_take_more_than_a_tenth_even_while_they_are_open() -> None:
    settings_ = config(evaluations=200, islands=1)
    loop = seeded(Loop(settings_))
    write = random_writer(13)
    joined = 0
    while (prompt := loop.search.ask()) is not None:
        if prompt.kind is PromptKind.JOIN:
            joined += len(prompt.proposals)
            assert len(prompt.proposals) <= 8
        else:
            for index in range(prompt.rollouts):
                loop.tell(loop.reply(prompt, index, write(prompt, index)))
    assert 0 < joined <= 20


def test_a_proposed_join_passes_more_rows_than_the_best_so_far() -> None:
    loop = seeded(Loop(config(evaluations=1200)))
    write = random_writer(14)
    proposed: list[str] = []
    while (prompt := loop.search.ask()) is not None:
        if prompt.kind is PromptKind.JOIN:
            assert loop.search.standing.best is not None
            for join in loop.search.tickets[prompt.id].joins:
                assert join.passed > loop.search.standing.passed
                assert all(loop.search.evaluation(parent.program_id) for parent in join.parents)
            proposed += [program.id for program in prompt.proposals]
            loop.tell(loop.proposals(prompt))
        else:
            for index in range(prompt.rollouts):
                loop.tell(loop.reply(prompt, index, write(prompt, index)))
    assert len(proposed) == len(set(proposed)) > 10


def test_joins_that_single_out_a_row_wait_for_half_of_the_budget() -> None:
    # Only `len(x0) < 4` tells row 6 from all others.
    passed = {"x0.upper()": {0, 1, 2, 3, 4, 5, 7}, "x0.lower()": {6}}
    rewards = {source(e): [float(row in rows) for row in range(8)] for e, rows in passed.items()}
    loop = seeded(
        Loop(config(evaluations=40), judge=lambda text: evaluation(text, rewards.get(text, [0.0] * 8)))
    )
    reserved = 0
    while (prompt := loop.search.ask()) is not None and prompt.kind is not PromptKind.JOIN:
        reserved += prompt.slots
        for index in range(prompt.rollouts):
            loop.tell(loop.reply(prompt, index, list(passed)))
    assert prompt is not None
    assert reserved == 20


def test_the_end_of_the_budget_waits_for_what_is_open_and_is_for_joins() -> None:
    asks = config(evaluations=40, rollouts=2, answers=2)
    for settings_, open_asks in ((asks, 9), (asks.changed(joins=False), 10)):
        loop = seeded(Loop(settings_, problem=PROBLEM, judge=judge_by_rows))
        opened = [loop.ask()]
        loop.tell(loop.reply(opened[0], 0, ["x0[0]", "x0[1]"]))
        while loop.search.is_ready and (prompt := loop.search.ask()) is not None:
            opened.append(prompt)
        assert len(opened) == open_asks
    loop = seeded(Loop(asks, problem=PROBLEM, judge=judge_by_rows))
    opened = [loop.ask() for _ in range(9)]
    for number, prompt in enumerate(opened):
        for index in range(2):
            assert not loop.search.is_ready or number < 8
            loop.tell(loop.reply(prompt, index, [SWAP, "x0.upper()"] if number == 8 else ["x0[0]", "x0[1]"]))
    assert loop.search.is_ready
    assert loop.ask().kind is PromptKind.JOIN


def golden_events() -> list[object]:
    """Return every ask and insertion of one search with real judgements and scripted replies."""
    expressions = [SWAP, "x0.upper()", "x0[0]", "1 +", "int(x0)", *GOLDEN_EXPRESSIONS]
    settings_ = SearchConfig(
        evaluations=120, islands=2, rollouts=2, answers=2, migration_interval=3, in_flight=1
    )

    def write(prompt: Prompt, index: int) -> Sequence[str]:
        place = 7 * prompt.sequence + 3 * index
        return [expressions[(place + 2 * slot) % len(expressions)] for slot in range(prompt.answers)]

    with Sandbox(workers=1, preload=()) as sandbox:
        judge = Evaluator(HARD, sandbox)
        loop = Loop(settings_, seed=11, judge=lambda text: judge.evaluate(Program(text)))
        loop.run(write)
    told = iter(zip(loop.told, loop.insertions, strict=True))
    events: list[object] = []
    for prompt in loop.asked:
        events.append(
            {
                "ask": prompt.sequence,
                "kind": str(prompt.kind),
                "island": prompt.island,
                "seed": prompt.seed,
                "parents": [[parent.program_id, str(parent.role)] for parent in prompt.parents],
                "messages": [message.content for message in prompt.messages],
                "proposals": [program.source for program in prompt.proposals],
            }
        )
        for _ in range(prompt.rollouts):
            tell, insertions = next(told)
            events.append(
                {
                    "tell": [
                        [
                            str(j.candidate.parse_status),
                            j.evaluation and j.evaluation.rewards and sum(j.evaluation.rewards),
                        ]
                        for j in tell.judged
                    ],
                    "insertions": [[i.program_id, i.island, str(i.status)] for i in insertions],
                }
            )
    best = loop.search.standing.best
    events.append({"best": best and best.program.source, "islands": population(loop.search)})
    plain: list[object] = json.loads(json.dumps(events))
    return plain


GOLDEN_EXPRESSIONS = (
    "x0.lower()", "x0[::-1]", "x0.split(', ')[0]", "x0.split(', ')[-1]", "x0.split(',')[1]", "x0.title()",
    "x0.partition(', ')[2]", "x0 + '!'", "x0.swapcase()", "x0[:5].upper()", "x0.replace(', ', ' ')", "x0[1:]",
    "x0.split()[-1] + ' ' + x0.split(',')[0]", "x0.upper()[:6]", "re.sub('[a-z]', '', x0)", "x0.strip()",
    "x0 if ',' in x0 else x0.upper()", "'-'.join(x0.split())", "x0[-3:]", "len(x0)", "str(len(x0))", "x1",
    "x0 *",
    "x0.capitalize()", "x0.zfill(9)", "x0[0] + x0[1:].lower()", "''", "'PLATO'", "x0.partition('p')[0]",
    "''.join([w.capitalize() for w in x0.split()])", "x0.count('a')", "x0.find(',')", "x0[2:4]", "x0[5]",
)  # fmt: skip


def test_a_whole_search_comes_out_as_the_golden_file_says() -> None:
    events = golden_events()
    if os.environ.get("EVOVPO_WRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        lines = ",\n".join(json.dumps(event, ensure_ascii=False) for event in events)
        GOLDEN.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for number, (event, wanted) in enumerate(zip(events, stored, strict=False)):
        assert event == wanted, f"event {number}"
    assert len(events) == len(stored)
    kinds = Counter(event.get("kind") for event in stored)
    assert min(kinds[kind] for kind in ("root", "mutate", "join", "seed")) > 0


def test_runs_of_two_problems_with_one_seed_are_independent_draws() -> None:
    seeds = []
    for problem in (PROBLEM, dataclasses.replace(PROBLEM, id="other")):
        loop = Loop(problem=problem)
        seeds.append([loop.ask().seed for _ in range(3)])
    assert not set(seeds[0]) & set(seeds[1])
