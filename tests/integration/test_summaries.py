"""The stored summaries of a run: with the rows after them they are those of all rows."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlite_files import sql
from toy_runs import CONFIG, HARD, PROBLEM, Loop, random_writer

from evovpo.config import Config
from evovpo.errors import ReplayError
from evovpo.runs import driver
from evovpo.runs.replay import verify
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start
from evovpo.store import RunSummary, Store
from evovpo.types import Run, RunStatus, Tell

SETTINGS = Config(search=CONFIG.changed(evaluations=400))


class Stored(Loop):
    """A loop whose asks and tells are stored first, as a driver does it."""

    def __init__(self, store: Store) -> None:
        super().__init__(SETTINGS.search, run="one")
        self.store = store
        self.write = random_writer(5, pool=90)
        store.add_problem(HARD)
        config = SETTINGS.to_json()
        run = Run("one", HARD.id, HARD.version, 0, 400, config, RunStatus.RUNNING, "2026-01-02T03:04:05Z")
        store.add_run(run)

    def steps(self, count: int) -> None:
        for _ in range(count):
            prompt = self.ask()
            self.store.add_prompt(prompt)
            for index in range(1 if prompt.proposals else prompt.rollouts):
                wanted = () if prompt.proposals else self.write(prompt, index)
                reply = self.proposals(prompt) if prompt.proposals else self.reply(prompt, index, wanted)
                self.store.add_tell("one", reply, self.search.tells)
                self.tell(reply)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Stored]:
    with Store.open(str(tmp_path / "run.db")) as store:
        yield Stored(store)


def test_figures_that_are_kept_and_the_rows_after_them_are_those_of_all_rows(loop: Stored) -> None:
    for _ in range(6):
        loop.steps(4)
        loop.store.keep_summary("one")
    loop.steps(3)
    (kept,) = loop.store.query("SELECT count(*) AS times, max(tells) AS tells FROM summaries")
    assert kept["times"] > 2
    assert kept["tells"] < loop.search.tells
    found = loop.store.run_summary("one")
    assert found == loop.store.run_summary("one", from_rows=True)
    assert (found.tells, found.proposed) == (loop.search.tells, loop.search.proposed)
    bests = [(0.0, 0)]  # the slow way: the best of all programs so far, after each tell
    for tell in (event for event in loop.store.history("one") if isinstance(event, Tell)):
        vectors = (one.evaluation for one in tell.judged if one.evaluation is not None)
        judged = [(one.mean_reward, one.passed) for one in vectors]
        bests.append(max([bests[-1], *judged]))
    rising = [place for place in range(1, len(bests)) if place == 1 or bests[place] > bests[place - 1]]
    assert [(point[0], *point[2:]) for point in found.curve] == [
        (place - 1, *bests[place]) for place in dict.fromkeys([*rising, len(bests) - 1])
    ]
    assert found.curve[-1].evaluations == loop.search.proposed
    best = loop.search.best
    assert best is not None
    assert (found.best_program_id, found.best_mean_reward) == (best.program.id, best.evaluation.mean_reward)
    assert verify("one", loop.store)[0].tells == loop.search.tells


def test_vectors_that_rise_are_those_that_no_earlier_one_reaches(loop: Stored) -> None:
    loop.steps(10)
    loop.store.keep_summary("one")
    loop.steps(10)
    earlier: list[tuple[float, ...]] = []
    wanted = []
    for shown in loop.search.programs.values():
        vector = shown.evaluation.rewards or ()
        if not any(all(one >= mine for one, mine in zip(old, vector, strict=True)) for old in earlier):
            wanted.append(vector)
        earlier.append(vector)
    found = loop.store.run_summary("one").risen
    assert [tuple(vector) for _, vector in found] == wanted
    assert len(wanted) > 2
    assert [proposed for proposed, _ in found] == sorted(proposed for proposed, _ in found)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE summaries SET figures = x'00'",
        "UPDATE summaries SET curve = x'00'",
        "UPDATE summaries SET tells = tells + 10000",
    ],
)
def test_kept_figures_that_cannot_be_used_are_counted_anew(loop: Stored, tmp_path: Path, change: str) -> None:
    loop.steps(8)
    loop.store.keep_summary("one")
    loop.steps(4)
    sql(tmp_path / "run.db", change)
    assert loop.store.run_summary("one") == loop.store.run_summary("one", from_rows=True)
    loop.store.keep_summary("one")
    assert loop.store.run_summary("one") == loop.store.run_summary("one", from_rows=True)


def test_verifying_tells_kept_figures_that_rows_do_not_come_to(loop: Stored) -> None:
    loop.steps(8)
    loop.store.keep_summary("one")
    verify("one", loop.store)
    made = Store.run_summary

    def other(store: Store, run_id: str, from_rows: bool = False) -> RunSummary:
        found = made(store, run_id, from_rows)
        return found if from_rows else replace(found, executed=found.executed + 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "run_summary", other)
        with pytest.raises(ReplayError, match="differ from those of its rows"):
            verify("one", loop.store)


def test_a_run_stores_a_summary_at_intervals_of_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "SUMMARY_TELLS", 10)
    settings = Config.load(
        None, {"proposer.name": "random", "search.evaluations": 40, "search.stop_when_solved": False}
    )
    with Store.open(str(tmp_path / "run.db")) as store:
        start(RunRequest(PROBLEM, settings, run_id="one"), store)
        kept = [row["tells"] for row in store.query("SELECT tells FROM summaries ORDER BY tells")]
        assert [tells // 10 for tells in kept] == list(range(1, store.last_tell("one") // 10 + 1))
        verify("one", store)
