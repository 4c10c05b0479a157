"""The driver: what is stored before what, what is run and what is not, and how a run ends."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Sequence

import pytest
from toy_runs import HARD, PROBLEM, evaluation, hashed_rewards, population, source, toy_script

from evovpo.config import Config, SearchConfig
from evovpo.driver import Driver, Progress, replay
from evovpo.errors import ReplayError, SandboxError
from evovpo.prompts import AlignmentFormat
from evovpo.proposers.scripted import ScriptedProposer
from evovpo.search import Search
from evovpo.types import (
    Evaluation,
    ParseStatus,
    Problem,
    Program,
    Prompt,
    PromptKind,
    Rollout,
    RunStatus,
    Sampling,
    Status,
    Tell,
)

SETTINGS = Config(
    search=SearchConfig(evaluations=60, rollouts=3, answers=2, islands=2, in_flight=1),
    sampling=dataclasses.replace(Config().sampling, temperature=0.5, max_tokens=77),
)


class Judge:
    """Judges by a function of the source and remembers what it was asked, from any thread."""

    def __init__(self, judge: Callable[[str], Evaluation] | None = None) -> None:
        self._judge = judge or (lambda text: evaluation(text, hashed_rewards(text, 8), HARD.version))
        self._lock = threading.Lock()
        self.asked: list[str] = []

    def evaluate(self, program: Program) -> Evaluation:
        """Return the judgement."""
        with self._lock:
            self.asked.append(program.source)
        return self._judge(program.source)


class Journal:
    """Keeps asks and tells in the order in which they were stored."""

    def __init__(self) -> None:
        self.events: list[Prompt | Tell] = []
        self.orders: list[int] = []

    def add_prompt(self, prompt: Prompt) -> bool:
        """Keep an ask."""
        self.events.append(prompt)
        return True

    def add_tell(self, run_id: str, tell: Tell, order: int) -> bool:
        """Keep a tell."""
        self.events.append(tell)
        self.orders.append(order)
        return True

    @property
    def tells(self) -> list[Tell]:
        """The tells."""
        return [event for event in self.events if isinstance(event, Tell)]


def new_search(problem: Problem = HARD, settings: Config = SETTINGS) -> Search:
    return Search(problem, settings.search, AlignmentFormat(problem), "run", settings.run.seed)


def make_driver(
    write: Callable[[Prompt, int], str] | None = None,
    problem: Problem = HARD,
    settings: Config = SETTINGS,
    judge: Judge | None = None,
    known: dict[str, Evaluation] | None = None,
    on_tell: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Driver, Judge, Journal]:
    judge, journal = judge or Judge(), Journal()
    driver = Driver(
        search=new_search(problem, settings),
        problem=problem,
        config=settings,
        prompt_format=AlignmentFormat(problem),
        proposer=ScriptedProposer(write or toy_script()),
        judge=judge,
        journal=journal,
        known=known or {},
        on_tell=on_tell,
        workers=3,
    )
    return driver, judge, journal


def with_search(**changes: object) -> Config:
    return dataclasses.replace(SETTINGS, search=dataclasses.replace(SETTINGS.search, **changes))  # type: ignore[arg-type]


def test_a_run_uses_its_budget_and_stores_every_ask_before_its_tells() -> None:
    driver, _, journal = make_driver()
    assert asyncio.run(driver.run()) is RunStatus.EXHAUSTED
    asked: set[str] = set()
    for event in journal.events:
        if isinstance(event, Prompt):
            asked.add(event.id)
        else:
            assert event.prompt_id in asked
    assert journal.orders == list(range(len(journal.tells)))
    assert sum(len(tell.judged) for tell in journal.tells[1:]) == 60


def test_a_tell_is_stored_before_it_is_applied() -> None:
    driver, _, journal = make_driver(on_tell=lambda progress: None)
    seen: list[tuple[int, int]] = []
    driver.on_tell = lambda progress: seen.append((len(journal.tells), progress.search.tells))
    stored = journal.add_tell
    applied: list[int] = []

    def add_tell(run_id: str, tell: Tell, order: int) -> bool:
        applied.append(driver.search.tells)
        return stored(run_id, tell, order)

    journal.add_tell = add_tell  # type: ignore[method-assign]
    asyncio.run(driver.run())
    assert applied == list(range(len(applied)))
    assert seen == [(number + 1, number + 1) for number in range(len(applied))]


def test_every_program_is_judged_once_also_when_one_group_holds_it_twice() -> None:
    expressions = ["x0", "x0.upper()", "x0.upper()", "1 +"]
    driver, judge, journal = make_driver(
        lambda prompt, index: "⟦sep⟧".join(expressions[index : index + 2]) + "⟦end⟧",
        settings=with_search(joins=False),
    )
    asyncio.run(driver.run())
    assert sorted(judge.asked) == sorted([HARD.seeds[0].source, source("x0.upper()")])
    group = journal.tells[1:4]
    statuses = [[j.candidate.parse_status for j in tell.judged] for tell in group]
    assert statuses == [
        [ParseStatus.DUPLICATE, ParseStatus.PARSED],
        [ParseStatus.DUPLICATE, ParseStatus.DUPLICATE],
        [ParseStatus.DUPLICATE, ParseStatus.UNPARSED],
    ]
    assert [j.executed for tell in group for j in tell.judged] == [False, True, False, False, False, False]
    assert {
        j.evaluation
        for tell in group
        for j in tell.judged
        if j.candidate.program == Program(source("x0.upper()"))
    } == {group[0].judged[1].evaluation}


def test_what_another_run_judged_is_not_run_again() -> None:
    first, judge, _ = make_driver()
    asyncio.run(first.run())
    known = {
        Program(text).id: evaluation(text, hashed_rewards(text, 8), HARD.version) for text in judge.asked
    }
    second, again, journal = make_driver(known=known)
    asyncio.run(second.run())
    assert again.asked == []
    assert second.executed == 0
    assert population(second.search) == population(first.search)
    assert not any(judged.executed for tell in journal.tells for judged in tell.judged)
    statuses = {judged.candidate.parse_status for tell in journal.tells for judged in tell.judged}
    assert ParseStatus.PARSED in statuses


def test_candidates_know_what_they_were_made_from() -> None:
    driver, _, journal = make_driver(settings=with_search(evaluations=150, join_share=0.5))
    asyncio.run(driver.run())
    asked = {event.id: event for event in journal.events if isinstance(event, Prompt)}
    assert {prompt.kind for prompt in asked.values()} == {
        PromptKind.SEED,
        PromptKind.ROOT,
        PromptKind.MUTATE,
        PromptKind.JOIN,
    }
    for tell in journal.tells:
        prompt = asked[tell.prompt_id]
        for number, judged in enumerate(tell.judged):
            assert judged.candidate.slot == number
            if prompt.kind is PromptKind.JOIN:
                assert len({parent.program_id for parent in judged.candidate.parents}) == 2
            else:
                assert judged.candidate.parents == prompt.parents


@pytest.mark.parametrize("in_flight", [1, 5])
def test_a_run_stops_after_the_group_that_solves_it(in_flight: int) -> None:
    driver, _, journal = make_driver(
        problem=PROBLEM,
        settings=with_search(in_flight=in_flight, joins=False),
        judge=Judge(lambda text: evaluation(text, [float("upper" in text)] * 6, PROBLEM.version)),
        write=lambda prompt, index: ("x0.upper()" if prompt.sequence == 2 else "x0") + "⟦end⟧",
    )
    assert asyncio.run(driver.run()) is RunStatus.SOLVED
    assert len(journal.tells) == 1 + 2 * 3
    assert driver.search.is_solved


def test_a_solved_run_goes_on_if_it_is_told_to() -> None:
    driver, _, _ = make_driver(
        problem=PROBLEM,
        settings=with_search(stop_when_solved=False),
        judge=Judge(lambda text: evaluation(text, [1.0] * 6, PROBLEM.version)),
    )
    assert asyncio.run(driver.run()) is RunStatus.SOLVED
    assert driver.search.proposed == 60


def test_a_solved_starting_program_asks_no_model() -> None:
    def fail(prompt: Prompt, index: int) -> str:
        raise AssertionError("nothing may be asked")

    driver, _, _ = make_driver(
        fail, problem=PROBLEM, judge=Judge(lambda text: evaluation(text, [1.0] * 6, PROBLEM.version))
    )
    assert asyncio.run(driver.run()) is RunStatus.SOLVED
    assert driver.search.proposed == 0


def test_a_sandbox_that_fails_on_every_starting_program_is_an_error_and_nothing_is_told() -> None:
    driver, _, journal = make_driver(judge=Judge(lambda text: evaluation(text, None, HARD.version)))
    with pytest.raises(SandboxError, match="no starting program of 'hard-names'"):
        asyncio.run(driver.run())
    assert journal.tells == []
    assert [prompt.kind for prompt, _ in driver.search.open_tickets] == [PromptKind.SEED]


def test_a_sandbox_that_fails_on_one_program_does_not_stop_the_run() -> None:
    def judge(text: str) -> Evaluation:
        return evaluation(text, None if "upper" in text else hashed_rewards(text, 8), HARD.version)

    driver, _, journal = make_driver(judge=Judge(judge))
    assert asyncio.run(driver.run()) is RunStatus.EXHAUSTED
    failed = [
        judged
        for tell in journal.tells
        for judged in tell.judged
        if judged.evaluation is not None and judged.evaluation.status is Status.SANDBOX_ERROR
    ]
    assert failed
    assert not any("upper" in member.source for island in driver.search.islands for member in island.members)


class Counting(ScriptedProposer):
    """Counts the requests that are open at a time, and keeps the sampling settings."""

    def __init__(self) -> None:
        super().__init__(toy_script())
        self.open = self.most = 0
        self.settings: set[Sampling] = set()

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Wait a few turns, then reply."""
        self.open += 1
        self.most = max(self.most, self.open)
        self.settings.add(sampling)
        for _ in range(5):
            await asyncio.sleep(0)
        self.open -= 1
        return await super().propose(prompt, indices, sampling)


@pytest.mark.parametrize("in_flight", [1, 3])
def test_as_many_requests_are_open_as_configured(in_flight: int) -> None:
    driver, _, _ = make_driver(settings=with_search(in_flight=in_flight))
    proposer = driver.proposer = Counting()
    asyncio.run(driver.run())
    assert proposer.most == in_flight
    assert proposer.settings == {Sampling(0.5, 77)}


def test_cancelling_leaves_open_tickets_that_a_later_run_takes_up() -> None:
    whole, _, expected = make_driver()
    asyncio.run(whole.run())

    driver, _, journal = make_driver()

    async def cancel_midway() -> None:
        def stop(progress: Progress) -> None:
            if progress.search.tells == 8:
                task.cancel()

        driver.on_tell = stop
        task = asyncio.create_task(driver.run())
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_midway())
    assert 0 < driver.search.proposed < 60

    later, _, rest = make_driver()
    replay(later.search, journal.events)
    assert later.search.open_tickets == driver.search.open_tickets
    assert asyncio.run(later.run()) is RunStatus.EXHAUSTED
    assert population(later.search) == population(whole.search)
    assert [event.id for event in (*journal.events, *rest.events) if isinstance(event, Prompt)] == [
        event.id for event in expected.events if isinstance(event, Prompt)
    ]


def test_an_error_of_the_proposer_ends_the_run() -> None:
    def fail(prompt: Prompt, index: int) -> str:
        raise RuntimeError("no model")

    driver, _, _ = make_driver(fail)
    with pytest.raises(RuntimeError, match="no model"):
        asyncio.run(driver.run())


def test_replaying_another_history_says_which_ask_differs_and_how() -> None:
    driver, _, journal = make_driver()
    asyncio.run(driver.run())
    replay(new_search(), journal.events, AlignmentFormat(HARD))
    changed = list(journal.events)
    place = max(number for number, event in enumerate(changed) if isinstance(event, Prompt))
    ask = changed[place]
    assert isinstance(ask, Prompt)
    changed[place] = dataclasses.replace(ask, seed=1)
    with pytest.raises(
        ReplayError, match=rf"ask {ask.sequence} \(event {place}\).*seed was 1, is now {ask.seed}"
    ):
        replay(new_search(), changed)
    with pytest.raises(ReplayError, match="cannot be applied: no ticket"):
        replay(new_search(), journal.tells)
