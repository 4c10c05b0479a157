"""Runs in parts, and searches that train between the parts of their runs."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from toy_runs import HARD, PROBLEM, SWAP, population, toy_script

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.config import Config, SandboxConfig, SearchConfig
from evovpo.errors import ConfigError
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import load_suite
from evovpo.proposers.scripted import ScriptedProposer
from evovpo.runs.replay import rebuild, verify
from evovpo.runs.request import RunRequest
from evovpo.runs.run import resume, start
from evovpo.store import Store, rises, solved_at
from evovpo.types import PolicyVersion, Prompt, RunStatus
from trainer.domains.on_policy import Arm
from trainer.experiments.while_searching import (
    SearchPart,
    TrainingPart,
    search_part,
    search_while_training,
    store_url,
    training_part,
)
from trainer.loop.loop import SearchTraining, plan_search_training
from trainer.loop.retrain import serve_start_model

# ---------------------------------------------------------------- runs in parts


def settings(**changes: Any) -> Config:
    search = SearchConfig(evaluations=96, rollouts=4, answers=2, islands=2, migration_interval=2, in_flight=1)
    return Config(search=search.changed(**changes), sandbox=SandboxConfig(workers=1))


def asks(store: Store, run: str) -> list[Prompt]:
    return [event for event in store.history(run) if isinstance(event, Prompt)]


@pytest.mark.slow
def test_a_run_in_parts_comes_to_what_it_would_have(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "whole.db")) as store:
        start(RunRequest(HARD, settings(), run_id="one"), store, ScriptedProposer(toy_script()))
        whole, wanted = verify("one", store)[0], asks(store, "one")
    with Store.open(str(tmp_path / "parts.db")) as store:
        script = ScriptedProposer(toy_script())
        first = start(RunRequest(HARD, settings(), run_id="one", pause_at=32), store, script)
        assert 32 <= first.evaluations < 32 + 8
        assert store.run("one").status is RunStatus.INTERRUPTED
        assert all(not missing for _, missing in rebuild("one", store)[0].tickets.open)
        again = resume("one", store, ScriptedProposer(toy_script()), pause_at=32)
        assert again.evaluations == first.evaluations
        resume("one", store, ScriptedProposer(toy_script()), pause_at=64)
        assert store.run("one").status is RunStatus.INTERRUPTED
        last = resume("one", store, ScriptedProposer(toy_script()), pause_at=96)
        assert (last.evaluations, store.run("one").status) == (96, RunStatus.EXHAUSTED)
        assert population(verify("one", store)[0]) == population(whole)
        assert asks(store, "one") == wanted


def test_a_run_that_is_solved_before_its_pause_has_ended(tmp_path: Path) -> None:
    solving = ScriptedProposer(lambda prompt, index: f"{SWAP} if ', ' in x0 else x0.upper()⟦end⟧")
    with Store.open(str(tmp_path / "run.db")) as store:
        outcome = start(RunRequest(PROBLEM, settings(), run_id="one", pause_at=8), store, solving)
        assert outcome.evaluations == 8
        assert store.run("one").status is RunStatus.SOLVED


def test_a_run_that_goes_on_after_its_solution_pauses_too(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "run.db")) as store:
        changed = settings(stop_when_solved=False)
        paused = start(
            RunRequest(PROBLEM, changed, run_id="one", pause_at=64), store, ScriptedProposer(toy_script())
        )
        assert paused.solved
        assert store.run("one").status is RunStatus.INTERRUPTED
        ended = resume("one", store, ScriptedProposer(toy_script()))
        assert (ended.evaluations, store.run("one").status) == (96, RunStatus.SOLVED)


# ---------------------------------------------------------------- training between parts

PROBLEMS = [load_problem(entry.path) for entry in load_suite("strings-hard")[:2]]
VPO = Arm("vpo", "vpo", 3, 4, learning_rate=3e-4, kl=0.05)
SETTINGS: dict[str, object] = {"search": {"answers": 3, "rollouts": 4, "islands": 2}}


def make_plan(rounds: int = 3, arm: Arm = VPO, problems: int = 2, **changes: Any) -> SearchTraining:
    values = {"evaluations": 72, "seed": 0, "groups_per_step": 2} | changes
    return plan_search_training(PROBLEMS[:problems], SETTINGS, arm, BUILT_IN_MODEL, rounds=rounds, **values)


def begin(plan: SearchTraining, folder: Path) -> None:
    (folder / "parts").mkdir(parents=True)
    with Store.open(store_url(folder)) as store:
        serve_start_model(store, PolicyVersion(0, None, plan.search.proposer.model))


class Told(NamedTuple):
    """What a folder's store holds, without times."""

    texts: list[dict[str, Any]]
    runs: list[tuple[str, str, int]]
    trainings: list[tuple[Any, ...]]
    served: int


def told(folder: Path) -> Told:
    with Store.open(store_url(folder), create=False) as store:
        served = store.served()
        assert served is not None
        return Told(
            store.query(
                "SELECT p.run_id, p.sequence, r.rollout_index, r.text, r.policy_version FROM rollouts r "
                "JOIN prompts p ON p.id = r.prompt_id ORDER BY 1, 2, 3"
            ),
            sorted((row.run, str(row.status), row.evaluations) for row in store.runs()),
            [(one.runs, one.after, one.through, one.start_version) for one in store.trainings()],
            served.number,
        )


class InTurn(NamedTuple):
    plan: SearchTraining
    folder: Path
    searches: list[SearchPart]
    trainings: list[TrainingPart]
    told: Told


@pytest.fixture(scope="module")
def in_turn(tmp_path_factory: pytest.TempPathFactory) -> InTurn:
    """A plan whose parts were done one after the other in this process."""
    plan, folder = make_plan(), tmp_path_factory.mktemp("turns") / "work"
    begin(plan, folder)
    searches, trainings = [], []
    for number in (1, 2, 3):
        searches += [search_part(plan, folder, number, index) for index in (0, 1)]
        if number < 3:
            trainings.append(training_part(plan, folder, number))
    return InTurn(plan, folder, searches, trainings, told(folder))


@pytest.mark.slow
def test_every_round_searches_with_the_model_of_the_training_before_it(in_turn: InTurn) -> None:
    assert [part.version for part in in_turn.trainings] == [1, 2]
    with Store.open(store_url(in_turn.folder), create=False) as store:
        rows = store.query(
            "SELECT p.run_id, r.policy_version AS version, count(*) AS n FROM rollouts r "
            "JOIN prompts p ON p.id = r.prompt_id GROUP BY 1, 2"
        )
    asked = {(row["run_id"], row["version"]): row["n"] * 3 for row in rows}
    before = {part.run: 0 for part in in_turn.searches}
    for part in in_turn.searches:
        written = asked[part.run, part.round - 1]
        assert written <= part.evaluations - before[part.run] <= written + 8  # and joins
        before[part.run] = part.evaluations
        assert part.is_ended == (part.solved or part.evaluations == 72)
        assert part.is_ended or part.evaluations >= 24 * part.round
    assert [part.round for part in in_turn.searches if part.is_ended] == [3, 3]


@pytest.mark.slow
def test_every_group_is_trained_on_once_at_most_and_after_the_round_that_wrote_it(in_turn: InTurn) -> None:
    first, second = in_turn.told.trainings
    assert first[1] == (None, None)
    assert second[1] == first[2] == tuple(in_turn.trainings[0].through.values())
    with Store.open(store_url(in_turn.folder), create=False) as store:
        for part in in_turn.trainings:
            groups = sum(
                len(list(store.groups(run))) - len(list(store.groups(run, last)))
                for run, last in part.through.items()
            )
            earlier = sum(one.groups for one in in_turn.trainings if one.round < part.round)
            assert 0 < part.groups <= groups - earlier
            assert part.tokens > 0


@pytest.mark.slow
def test_until_its_first_training_a_search_is_the_frozen_one(in_turn: InTurn, tmp_path: Path) -> None:
    frozen = make_plan(rounds=1, problems=1)
    begin(frozen, tmp_path / "work")
    search_part(frozen, tmp_path / "work", 1, 0)
    mine = [row for row in in_turn.told.texts if row["run_id"] == in_turn.plan.run_id(1, 0)]
    theirs = told(tmp_path / "work").texts
    same = [
        (row["sequence"], row["rollout_index"], row["text"]) for row in mine if row["policy_version"] == 0
    ]
    assert same == [(row["sequence"], row["rollout_index"], row["text"]) for row in theirs][: len(same)]
    assert [row["text"] for row in mine] != [row["text"] for row in theirs]


@pytest.mark.slow
def test_a_training_whose_end_was_not_noted_is_not_made_again(tmp_path: Path) -> None:
    plan, folder = make_plan(rounds=2, evaluations=48, problems=1), tmp_path / "work"
    begin(plan, folder)
    search_part(plan, folder, 1, 0)
    found = training_part(plan, folder, 1)
    before = told(folder)
    (folder / "parts" / "001-training.json").unlink()
    again = training_part(plan, folder, 1)
    assert told(folder) == before
    again, found = (dataclasses.replace(part, cpu_seconds=0.0, seconds=0.0) for part in (again, found))
    assert again == found


@pytest.mark.slow
def test_a_training_that_diverges_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    wild = dataclasses.replace(VPO, learning_rate=1e30)
    plan, folder = make_plan(2, wild, 1, evaluations=48, groups_per_step=1), tmp_path / "work"
    begin(plan, folder)
    search_part(plan, folder, 1, 0)
    part = training_part(plan, folder, 1)
    assert part.version is None
    assert "lower the learning rate" in part.why_not
    assert set(part.through) == {plan.run_id(1, 0)}
    assert told(folder).served == 0


KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_search_training import make_plan
from trainer.experiments.while_searching import search_while_training

done = []

def dies(part):
    done.append(part)
    if len(done) == int(sys.argv[3]):
        os.kill(os.getpid(), 9)

if __name__ == "__main__":
    search_while_training(make_plan(), Path(sys.argv[2]), 2, dies)
"""


@pytest.mark.slow
def test_killed_in_the_middle_the_same_call_comes_to_the_same(in_turn: InTurn, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    # After the first training: the second round is under way in two processes.
    died = subprocess.run(
        [sys.executable, script, Path(__file__).parent, folder, "3"],
        check=False, capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert died.returncode == -9, died.stderr[-2000:]
    searches, trainings = search_while_training(in_turn.plan, folder)
    assert told(folder) == in_turn.told
    assert [(one.round, one.run, one.evaluations) for one in searches] == [
        (part.round, part.run, part.evaluations) for part in in_turn.searches
    ]
    assert [one.round for one in trainings] == [1, 2]
    assert all(one.cpu_seconds > 0 for one in (*searches, *trainings))
    for problem, run in zip(in_turn.plan.searched, in_turn.plan.run_ids(1), strict=True):
        with Store.open(store_url(folder), create=False) as store:
            summary = store.run_summary(run)
            tokens = store.query(
                "SELECT sum(r.tokens) AS n FROM rollouts r JOIN prompts p ON p.id = r.prompt_id "
                "WHERE p.run_id = :run",
                run=run,
            )
        curve, solved_after = rises(summary.curve), solved_at(summary.curve, len(problem.objectives))
        assert curve[-1][1] == summary.best_mean_reward
        assert summary.tokens == tokens[0]["n"]
        assert solved_after is None or tuple(curve[-1]) == (solved_after, 1.0)
    with pytest.raises(ConfigError, match="holds searches that train with other settings"):
        search_while_training(make_plan(seed=1), folder)


# ---------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 7}, "7 rounds of 72 evaluations, 12 an ask; expected 1 round or more"),
        ({"arm": Arm("grpo", "grpo", 1, 12)}, "search.answers is 3, and the arm trains on 1"),
        ({"arm": dataclasses.replace(VPO, single_share=0.5)}, "single_share is 0.5; what prompts ask for"),
        ({"arm": dataclasses.replace(VPO, parent_share=0.5)}, "parent_share is 0.5; what prompts ask for"),
        ({"arm": Arm("c", "vpo-at-c", 3, 4, {"c": 4})}, "c of the objective is 4; expected less than"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_plan(**changes)


def test_the_id_of_a_plan_follows_from_all_that_it_does() -> None:
    plans = [
        make_plan(), make_plan(rounds=2), make_plan(seed=1), make_plan(evaluations=84),
        make_plan(arm=dataclasses.replace(VPO, kl=0.0)),
    ]  # fmt: skip
    assert len({plan.id for plan in plans}) == len(plans)
    assert make_plan().id == plans[0].id
    assert [plans[0].pause_at(number) for number in (1, 2, 3)] == [24, 48, 72]
