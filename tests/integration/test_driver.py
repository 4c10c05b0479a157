"""The driver: what is stored before what, what is run and what is not, and how a run ends."""

import asyncio
import dataclasses
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from plain_search import PLAIN, PlainFormat, judge
from scripted_proposer import ScriptedProposer
from toy_runs import HARD, PROBLEM, evaluation, hashed_rewards, population, source, toy_script

from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.builtin.strings.joining import join_language
from evovpo.config import Config, SandboxConfig, SearchConfig
from evovpo.errors import BudgetError, ReplayError, SandboxError
from evovpo.runs.driver import Driver, Progress
from evovpo.runs.replay import replay, verify
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import resume, start
from evovpo.search.search import SearchState
from evovpo.store import Store
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
    sampling=Config().sampling.changed(temperature=0.5, max_tokens=77),
)


class Judge:
    def __init__(self, judge: Callable[[str], Evaluation] | None = None) -> None:
        self._judge = judge or (lambda text: evaluation(text, hashed_rewards(text, 8), HARD.version))
        self._lock = threading.Lock()
        self.asked: list[str] = []

    def evaluate(self, program: Program) -> Evaluation:
        with self._lock:
            self.asked.append(program.source)
        return self._judge(program.source)


class Journal:
    def __init__(self) -> None:
        self.events: list[Prompt | Tell] = []
        self.orders: list[int] = []

    def add_prompt(self, prompt: Prompt) -> bool:
        self.events.append(prompt)
        return True

    def add_tells(self, run_id: str, tells: Sequence[Tell], order: int) -> None:
        self.events += tells
        self.orders += range(order, order + len(tells))

    @property
    def tells(self) -> list[Tell]:
        return [event for event in self.events if isinstance(event, Tell)]


def new_search(problem: Problem = HARD, settings: Config = SETTINGS) -> SearchState:
    made_by, language = ExpressionFormat(problem), join_language(problem)
    return SearchState(problem, settings.search, made_by, "run", settings.run.seed, language)


def make_driver(
    write: Callable[[Prompt, int], str] | None = None,
    problem: Problem = HARD,
    settings: Config = SETTINGS,
    judge: Judge | None = None,
    known: dict[str, Evaluation] | None = None,
) -> tuple[Driver, Judge, Journal]:
    judge, journal = judge or Judge(), Journal()
    driver = Driver(
        search=new_search(problem, settings),
        config=settings,
        proposer=ScriptedProposer(write or toy_script()),
        judge=judge,
        journal=journal,
        known=known or {},
        workers=3,
    )
    return driver, judge, journal


def with_search(**changes: object) -> Config:
    return SETTINGS.changed(search=SETTINGS.search.changed(**changes))  # type: ignore[arg-type]


def test_while_nothing_comes_it_is_said_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evovpo.runs.driver._QUIET_SECONDS", 0.01)
    served = SETTINGS.changed(proposer={"name": "openai", "model": "m", "base_url": "http://localhost:1/v1"})
    driver, _, _ = make_driver(settings=served)
    heard = asyncio.Event()

    class Silent(ScriptedProposer):
        async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
            await heard.wait()
            return await super().propose(prompt, indices, sampling)

    said: list[str] = []

    def listen(progress: Progress) -> None:
        said.append(progress.waits)
        if "replies of" in progress.waits:
            heard.set()

    driver.proposer, driver.on_tell = Silent(toy_script()), listen
    assert asyncio.run(driver.run()) is RunStatus.EXHAUSTED
    first = next(text for text in said if "replies" in text)
    assert re.fullmatch(r"waiting for replies of http://localhost:1/v1 to 1 prompt, \d+ s so far", first)
    assert said[-1] == ""


def test_of_several_servers_the_failing_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evovpo.runs.driver._QUIET_SECONDS", 0.01)
    served = SETTINGS.changed(proposer={"name": "openai", "model": "m", "base_url": "http://well:1/v1"})
    driver, _, _ = make_driver(settings=served)
    heard = asyncio.Event()

    class Failing(ScriptedProposer):
        trouble = "http://ill:1 failed once (http 500: x); next try in 9 s"

        async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
            await heard.wait()
            return await super().propose(prompt, indices, sampling)

    said: list[Progress] = []

    def listen(progress: Progress) -> None:
        said.append(progress)
        if "replies" in progress.waits:
            heard.set()

    driver.proposer, driver.on_tell = Failing(toy_script()), listen
    assert asyncio.run(driver.run()) is RunStatus.EXHAUSTED
    first = next(one for one in said if "replies" in one.waits)
    assert re.fullmatch(
        rf"waiting for replies to 1 prompt, \d+ s so far: {re.escape(Failing.trouble)}", first.waits
    )
    assert first.is_failing
    assert not said[-1].is_failing


def test_a_group_is_stored_before_it_is_applied() -> None:
    driver, _, journal = make_driver()
    seen: list[int] = []
    driver.on_tell = lambda progress: seen.append(progress.search.standing.tells)
    keep = journal.add_tells
    stored: list[int] = []

    def add_tells(run_id: str, tells: Sequence[Tell], order: int) -> None:
        assert driver.search.standing.tells == order == len(journal.tells)
        assert len({tell.prompt_id for tell in tells}) == 1
        stored.append(len(tells))
        keep(run_id, tells, order)

    journal.add_tells = add_tells  # type: ignore[method-assign]
    asyncio.run(driver.run())
    assert max(stored) == driver.config.search.rollouts
    assert seen == [number + 1 for number in range(sum(stored))]


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
    driver, _, journal = make_driver(settings=with_search(evaluations=400))
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
    assert driver.search.standing.is_solved


def test_a_solved_starting_program_asks_no_model() -> None:
    def fail(prompt: Prompt, index: int) -> str:
        raise AssertionError("nothing may be asked")

    driver, _, _ = make_driver(
        fail, problem=PROBLEM, judge=Judge(lambda text: evaluation(text, [1.0] * 6, PROBLEM.version))
    )
    assert asyncio.run(driver.run()) is RunStatus.SOLVED
    assert driver.search.standing.proposed == 0


def test_a_sandbox_that_fails_on_every_starting_program_is_an_error_and_nothing_is_told() -> None:
    driver, _, journal = make_driver(judge=Judge(lambda text: evaluation(text, None, HARD.version)))
    with pytest.raises(SandboxError, match="no starting program of 'hard-names'"):
        asyncio.run(driver.run())
    assert journal.tells == []
    assert [prompt.kind for prompt, _ in driver.search.tickets.open] == [PromptKind.SEED]


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
    assert not any(
        "upper" in member.source for island in driver.search.population.islands for member in island.members
    )


class Counting(ScriptedProposer):
    def __init__(self) -> None:
        super().__init__(toy_script())
        self.open = self.most = 0
        self.settings: set[Sampling] = set()

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
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
    assert proposer.settings == {Sampling(temperature=0.5, max_tokens=77)}


def test_requests_go_on_and_are_judged_while_many_are_asked() -> None:
    driver, _, journal = make_driver(settings=with_search(in_flight=600, evaluations=6000, joins=False))
    proposer = driver.proposer = Counting()
    executed: list[int] = []
    add_prompt = journal.add_prompt

    def add(prompt: Prompt) -> bool:
        executed.append(driver.executed)
        return add_prompt(prompt)

    journal.add_prompt = add  # type: ignore[method-assign]
    asyncio.run(driver.run())
    assert 64 <= proposer.most < 600
    assert executed[1] == executed[100] < executed[600]  # an eighth of the budget is 125 asks


def test_replaying_another_history_says_which_ask_differs_and_how() -> None:
    driver, _, journal = make_driver()
    asyncio.run(driver.run())
    replay(new_search(), journal.events, reads_again=True)
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


def test_a_half_told_group_that_the_budget_does_not_allow_stops_the_run() -> None:
    def refuse(prompt: Prompt, index: int) -> str:
        raise BudgetError("all 1000 tokens are used")

    driver, _, journal = make_driver()
    asyncio.run(driver.run())
    later, _, _ = make_driver(refuse)
    replay(later.search, journal.events[:4])  # starting programs, one ask, and one of its three replies
    assert asyncio.run(later.run()) is RunStatus.STOPPED
    assert [missing for _, missing in later.search.tickets.open] == [(1, 2)]


def test_a_run_without_progress_is_stopped_stored_as_such_and_verified(tmp_path: Path) -> None:
    settings = with_search(patience=12, joins=False, evaluations=200).changed(
        proposer=SETTINGS.proposer.changed(name="scripted"),
        sandbox=SandboxConfig(workers=1),
    )
    with Store.open(str(tmp_path / "run.db")) as store:
        outcome = start(
            RunRequest(HARD, settings, run_id="r"), store, ScriptedProposer(lambda prompt, index: "x0⟦end⟧")
        )
        assert (outcome.stopped, outcome.evaluations) == ("no better program in 12 evaluations", 12)
        assert store.run("r").status is RunStatus.STOPPED
        assert verify("r", store)[0].standing.stop_reason == outcome.stopped

        def fail(prompt: Prompt, index: int) -> str:
            raise AssertionError("nothing may be asked")

        again = resume("r", store, ScriptedProposer(fail))
        assert (again.stopped, again.evaluations) == (outcome.stopped, 12)
        assert store.run("r").status is RunStatus.STOPPED


@pytest.mark.parametrize(("name", "evaluations"), [("openai", 102), ("local", 120)])
def test_a_model_of_a_server_that_writes_no_programs_stops_the_run(name: str, evaluations: int) -> None:
    settings = with_search(evaluations=120).changed(proposer=SETTINGS.proposer.changed(name=name))
    driver, _, _ = make_driver(lambda prompt, index: "I cannot help.", settings=settings)
    assert asyncio.run(driver.run()) is (RunStatus.STOPPED if name == "openai" else RunStatus.EXHAUSTED)
    assert driver.search.standing.proposed == evaluations
    assert bool(driver.stop_reason) == (name == "openai")


def test_starting_programs_that_all_fail_do_not_end_the_run() -> None:
    def fails(text: str) -> Evaluation:
        is_seed = text == HARD.seeds[0].source
        good = evaluation(text, [0.0] * 8 if is_seed else hashed_rewards(text, 8), HARD.version)
        return dataclasses.replace(good, status=Status.ERROR, feedback="boom") if is_seed else good

    driver, _, _ = make_driver(judge=Judge(fails))
    assert asyncio.run(driver.run()) is RunStatus.EXHAUSTED
    assert driver.search.standing.best is not None
    assert driver.search.standing.best.evaluation.mean_reward > 0.0


class Gate:
    """Holds every judgement but those of starting programs until `release`; counts how many are held."""

    def __init__(self) -> None:
        self.held = self.most = self.judged = 0
        self._lock = threading.Lock()
        self._open = threading.Event()

    def release(self) -> None:
        self._open.set()

    def evaluate(self, program: Program) -> Evaluation:
        if program not in PLAIN.seeds:
            with self._lock:
                self.held += 1
                self.most = max(self.most, self.held)
            assert self._open.wait(300)
            with self._lock:
                self.held -= 1
                self.judged += 1
        return judge(program)


def drive_plain(gate: Gate, proposer: ScriptedProposer, in_flight: int, evaluations: int) -> Journal:
    settings = Config(
        search=SearchConfig(
            evaluations=evaluations, rollouts=1, islands=1, ways={"climb": 1.0}, in_flight=in_flight
        )
    )
    journal = Journal()
    search = SearchState(PLAIN, settings.search, PlainFormat(), "run", 0)
    driver = Driver(search, settings, proposer, gate, journal, workers=8)
    assert asyncio.run(driver.run()) is RunStatus.EXHAUSTED
    replay(SearchState(PLAIN, settings.search, PlainFormat(), "run", 0), journal.events, reads_again=True)
    return journal


class Releasing(ScriptedProposer):
    """Replies to ask 3 only after ask 4 came, which opens the gate once so many programs wait there."""

    def __init__(self, gate: Gate, write: Callable[[Prompt, int], str], at_once: int = 1) -> None:
        super().__init__(write)
        self._gate, self._at_once = gate, at_once
        self._fourth = asyncio.Event()

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        if prompt.sequence == 3:
            await self._fourth.wait()
        if prompt.sequence == 4:
            async with asyncio.timeout(60):
                while self._gate.most < self._at_once:
                    await asyncio.sleep(0.005)
            self._fourth.set()
            self._gate.release()
        return await super().propose(prompt, indices, sampling)


def test_slow_judgements_of_several_groups_run_at_a_time_and_hold_no_request_up() -> None:
    gate = Gate()
    write = Releasing(gate, lambda prompt, index: f"0.{prompt.sequence} 0.1 # x", at_once=2)
    journal = drive_plain(gate, write, 3, 40)
    asked = [event.id for event in journal.events if isinstance(event, Prompt)]
    assert [tell.prompt_id for tell in journal.tells][:3] == asked[:3]
    assert len(journal.tells) == 41


def test_a_program_that_is_being_judged_for_another_group_is_not_run_twice() -> None:
    gate = Gate()
    journal = drive_plain(gate, Releasing(gate, lambda prompt, index: "0.5 0.5 # same"), 3, 40)
    assert gate.judged == 1
    slots = [tell.judged[0] for tell in journal.tells[1:]]
    assert [slot.executed for slot in slots] == [True] + [False] * 39
    statuses = [slot.candidate.parse_status for slot in slots]
    assert statuses == [ParseStatus.PARSED] + [ParseStatus.DUPLICATE] * 39
