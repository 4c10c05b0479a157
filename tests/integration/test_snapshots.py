"""Runs taken up from a snapshot and the rows after it: as if replayed in full, or replayed in full."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from sqlite_files import sql
from toy_runs import CONFIG, HARD, PROBLEM, Loop, random_writer

from evovpo.config import Config
from evovpo.errors import ReplayError
from evovpo.runs.replay import rebuild, verify
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start
from evovpo.runs.snapshots import SnapshotKeeper, snapshot_of
from evovpo.search.search import SearchState
from evovpo.store import RunSummary, Store
from evovpo.types import Run, RunPart, RunStatus, Tell

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

    def go_on(self, **changes: object) -> None:
        config = SETTINGS.changed(search=changes)
        self.search.go_on(config.search, self.format)
        part = RunPart(len(self.search.tickets), self.search.tells, config.to_json())
        self.store.set_run_status("one", RunStatus.RUNNING, None, part)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Stored]:
    with Store.open(str(tmp_path / "run.db")) as store:
        yield Stored(store)


def replayed_events(store: Store, *, from_snapshot: bool = True) -> tuple[SearchState, int]:
    found = rebuild("one", store, from_snapshot=from_snapshot)
    return found.search, found.events


def assert_goes_on_alike(loop: Stored, events: int, log: pytest.LogCaptureFixture) -> None:
    """Check that so many events were replayed, and that the search is what replaying all gives."""
    whole, _ = replayed_events(loop.store, from_snapshot=False)
    log.clear()
    search, replayed = replayed_events(loop.store)
    assert replayed == events
    assert [prompt for prompt, _ in search.tickets.open] == [prompt for prompt, _ in whole.tickets.open]
    assert list(search.programs.items()) == list(whole.programs.items())
    assert [search.ask() for _ in range(4)] == [whole.ask() for _ in range(4)]


def test_only_what_came_after_the_snapshot_is_replayed(
    loop: Stored, caplog: pytest.LogCaptureFixture
) -> None:
    loop.steps(20)
    loop.store.keep_snapshot(snapshot_of(loop.search))
    tells = loop.search.tells
    loop.steps(6)
    loop.store.add_prompt(loop.ask())
    after = 7 + loop.search.tells - tells
    assert_goes_on_alike(loop, after, caplog)
    assert caplog.messages == []
    assert verify("one", loop.store)[1] == 27 + loop.search.tells


def test_a_snapshot_knows_the_settings_of_every_part(loop: Stored, caplog: pytest.LogCaptureFixture) -> None:
    loop.steps(8)
    loop.go_on(evaluations=420, novelty=0.05)
    loop.steps(8)
    loop.store.keep_snapshot(snapshot_of(loop.search))
    tells = loop.search.tells
    loop.go_on(evaluations=440, novelty=0.1, answers=3)
    loop.steps(5)
    assert_goes_on_alike(loop, 5 + loop.search.tells - tells, caplog)
    assert replayed_events(loop.store)[0].config.novelty == 0.1
    verify("one", loop.store)


def test_a_snapshot_is_stored_every_so_many_tells_in_place_of_the_one_before(loop: Stored) -> None:
    keeper, kept = SnapshotKeeper(loop.store, loop.search, every=5), []
    for _ in range(12):
        loop.steps(1)
        keeper.look()
        kept += [row["tells"] for row in loop.store.query("SELECT tells FROM snapshots")]
    assert len(set(kept)) > 1
    assert kept == sorted(kept)
    assert all(later - before >= 5 for before, later in pairwise(sorted(set(kept))))
    loop.steps(1)
    keeper.look(is_at_end=True)
    assert loop.store.query("SELECT tells FROM snapshots") == [{"tells": loop.search.tells}]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE snapshots SET body = substr(body, 1, 300)", "or another user or machine, wrote it"),
        ("UPDATE snapshots SET version = '0.0'", "or another user or machine, wrote it"),
        ("UPDATE snapshots SET tells = tells - 1", "it is of run one after"),
        ("DELETE FROM snapshots", ""),
    ],
)
def test_a_snapshot_that_cannot_be_used_is_ignored_with_one_line(
    loop: Stored, tmp_path: Path, caplog: pytest.LogCaptureFixture, change: str, said: str
) -> None:
    loop.steps(12)
    loop.store.keep_snapshot(snapshot_of(loop.search))
    sql(tmp_path / "run.db", change)
    assert_goes_on_alike(loop, 12 + loop.search.tells, caplog)
    assert [said in message and "all its rows are replayed" in message for message in caplog.messages] == (
        [True] if said else []
    )
    verify("one", loop.store)


def test_a_snapshot_that_the_rows_after_it_do_not_follow_is_ignored_with_one_line(
    loop: Stored, caplog: pytest.LogCaptureFixture
) -> None:
    loop.steps(12)
    other = Loop(SETTINGS.search, seed=1, run="one")
    while other.search.tells < loop.search.tells:
        other.step(random_writer(9, pool=90))
    loop.store.keep_snapshot(snapshot_of(other.search))
    loop.steps(3)
    assert_goes_on_alike(loop, 15 + loop.search.tells, caplog)
    assert len(caplog.messages) == 1
    assert "comes out differently" in caplog.messages[0]


def test_verifying_tells_a_snapshot_of_another_state_that_no_row_shows(loop: Stored) -> None:
    loop.steps(12)
    loop.search.gains[3] += 0.125
    loop.store.keep_snapshot(snapshot_of(loop.search))
    with pytest.raises(ReplayError, match="differ from the replay of all its rows"):
        verify("one", loop.store)


def test_figures_that_are_kept_and_the_rows_after_them_are_those_of_all_rows(loop: Stored) -> None:
    keeper = SnapshotKeeper(loop.store, loop.search, every=50)
    for _ in range(30):
        loop.steps(1)
        keeper.look()
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


def test_the_snapshot_of_a_run_in_the_sandbox_can_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SnapshotKeeper.__init__, "__defaults__", (10,))
    settings = Config.load(
        None, {"proposer.name": "random", "search.evaluations": 40, "search.stop_when_solved": False}
    )
    with Store.open(str(tmp_path / "run.db")) as store:
        start(RunRequest(PROBLEM, settings, run_id="one"), store)
        kept = store.snapshot("one")
        assert kept is not None
        assert kept.tells >= 30
        found = rebuild("one", store, from_snapshot=True)
    assert not [message for message in caplog.messages if "is not used" in message]
    assert found.events <= 20  # those after the snapshot alone
    assert found.search.proposed == 40
