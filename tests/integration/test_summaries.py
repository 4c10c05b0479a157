"""The summary of a run, compared with slow ways to the same figures."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from toy_runs import CONFIG, HARD, Loop, random_writer

from evovpo.config import Config
from evovpo.runs.replay import verify
from evovpo.store import Store
from evovpo.types import Run, RunStatus, Tell

SETTINGS = Config(search=CONFIG.changed(evaluations=400))


class Stored(Loop):
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
                self.store.add_tell("one", reply, self.search.standing.tells)
                self.tell(reply)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Stored]:
    with Store.open(str(tmp_path / "run.db")) as store:
        yield Stored(store)


def test_figures_and_curve_are_those_of_all_rows(loop: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    loop.steps(27)
    found = loop.store.run_summary("one")
    monkeypatch.setattr("evovpo.store.summary._PAGE", 5)  # of many pages
    assert loop.store.run_summary("one") == found
    assert (found.tells, found.proposed) == (loop.search.standing.tells, loop.search.standing.proposed)
    bests = [(0.0, 0)]  # the slow way: the best of all programs so far, after each tell
    for tell in (event for event in loop.store.history("one") if isinstance(event, Tell)):
        vectors = (one.evaluation for one in tell.judged if one.evaluation is not None)
        judged = [(one.mean_reward, one.passed) for one in vectors]
        bests.append(max([bests[-1], *judged]))
    rising = [place for place in range(1, len(bests)) if place == 1 or bests[place] > bests[place - 1]]
    assert [(point[0], *point[2:]) for point in found.curve] == [
        (place - 1, *bests[place]) for place in dict.fromkeys([*rising, len(bests) - 1])
    ]
    assert found.curve[-1].evaluations == loop.search.standing.proposed
    best = loop.search.standing.best
    assert best is not None
    assert (found.best_program_id, found.best_mean_reward) == (best.program.id, best.evaluation.mean_reward)
    assert verify("one", loop.store)[0].standing.tells == loop.search.standing.tells


def test_vectors_that_rise_are_those_that_no_earlier_one_reaches(loop: Stored) -> None:
    loop.steps(20)
    earlier: list[tuple[float, ...]] = []
    wanted = []
    for shown in loop.search.standing.programs.values():
        vector = shown.evaluation.rewards or ()
        if not any(all(one >= mine for one, mine in zip(old, vector, strict=True)) for old in earlier):
            wanted.append(vector)
        earlier.append(vector)
    found = loop.store.run_summary("one").risen
    assert [tuple(vector) for _, vector in found] == wanted
    assert len(wanted) > 2
    assert [proposed for proposed, _ in found] == sorted(proposed for proposed, _ in found)
