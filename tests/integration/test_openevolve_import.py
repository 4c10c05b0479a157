"""Checkpoints of OpenEvolve as stored runs, and the model calls that our client logged for them."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import shell
from openevolve.config import LLMModelConfig
from openevolve.llm.ensemble import LLMEnsemble
from openevolve_problems import BETTER, PROGRAM, SHAPES, answering, served, write_project

from evovpo.errors import ProblemError, ReplayError
from evovpo.integrations.importing import import_checkpoint, imported_problem
from evovpo.integrations.openevolve import client
from evovpo.problem.openevolve.checkpoint import read_checkpoint
from evovpo.problem.openevolve.evaluator import OpenEvolveEvaluator
from evovpo.problem.openevolve.loading import load_openevolve
from evovpo.reports.run_report import run_json
from evovpo.runs.replay import rebuild
from evovpo.runs.stored import read_run
from evovpo.store import Store
from evovpo.types import Message, ParseStatus, Prompt, PromptKind, RunStatus, Status, Tell, Trust

BEST = PROGRAM.replace("1.0", "3.5")


def program(name: str, code: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": name,
        "code": code,
        "language": "python",
        "parent_id": None,
        "timestamp": 1000.0 + fields.get("iteration_found", 0),
        "iteration_found": 0,
        "metrics": {"near": 0.25, "large": 1.0, "combined_score": 0.25},
        "metadata": {},
        **fields,
    }


def prompted(response: str) -> dict[str, Any]:
    return {"diff_user": {"system": "Improve it.", "user": "Here it is.", "responses": [response]}}


PROGRAMS = [
    program("first", PROGRAM),
    program("copy", PROGRAM, metadata={"migrant": True, "island": 1}, iteration_found=1),
    program(
        "better",
        BETTER,
        parent_id="first",
        iteration_found=2,
        metrics={"near": 0.75, "large": 3.0, "combined_score": 0.75, "ok": True},
        prompts=prompted(f"```python\n{BETTER}```"),
        artifacts_json='{"advice": "more", "count": 3}',
    ),
    program(
        "lost", BEST, parent_id="evicted", iteration_found=3, metrics={"near": float("nan"), "large": 3.5}
    ),
    program(
        "slow",
        "while True: pass\n",
        parent_id="better",
        iteration_found=4,
        metrics={"error": 0.0, "timeout": True},
    ),
]
METADATA = {"islands": [["first", "better"], ["copy", "lost", "slow"]], "last_iteration": 10}


def write_checkpoint(folder: Path, programs: list[dict[str, Any]] = PROGRAMS) -> Path:
    files = {f"programs/{item['id']}.json": json.dumps(item) for item in programs}
    return write_project(folder, files | {"metadata.json": json.dumps(METADATA), "best_program.py": BETTER})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/evovpo.db", create=True) as opened:
        yield opened


def test_a_checkpoint_is_read_from_its_own_folder_or_the_output_above(tmp_path: Path) -> None:
    for number in (9, 10):
        write_checkpoint(tmp_path / "packing" / "openevolve_output" / "checkpoints" / f"checkpoint_{number}")
    found = read_checkpoint(tmp_path / "packing")
    assert found.folder.name == "checkpoint_10"
    assert (found.name, found.suffix) == ("packing", ".py")
    assert [item.id for item in found.programs] == ["first", "copy", "better", "lost", "slow"]
    better, lost, slow = found.programs[2:]
    assert better.messages == (Message("system", "Improve it."), Message("user", "Here it is."))
    assert better.artifacts == (("advice", "more"), ("count", "3"))
    assert (better.island, lost.island) == (0, 1)
    assert lost.metrics == (("near", "nan"), ("large", 3.5))
    assert (better.status, slow.status) == (Status.OK, Status.TIMEOUT)


def test_torn_files_are_left_out_and_named(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "checkpoint_1")
    (folder / "programs" / "better.json").write_text('{"id": "better", "co')
    (folder / "programs" / "lost.json").write_text('{"id": "lost"}')
    (folder / "metadata.json").write_text("[]")
    found = read_checkpoint(folder)
    assert [item.id for item in found.programs] == ["first", "copy", "slow"]
    assert [fault.partition(":")[0] for fault in found.faults] == [
        "metadata.json",
        "better.json",
        "lost.json",
    ]


def test_a_folder_without_a_checkpoint_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="expected a checkpoint of OpenEvolve"):
        read_checkpoint(tmp_path)
    folder = write_project(tmp_path / "c", {"programs/a.json": "{"})
    with pytest.raises(ProblemError, match=r"none that can be read \(.*a.json: no JSON"):
        read_checkpoint(folder)


def test_an_imported_run_is_shown_and_importing_again_changes_nothing(tmp_path: Path, store: Store) -> None:
    checkpoint = read_checkpoint(write_checkpoint(tmp_path / "packing" / "checkpoint_10"))
    problem = imported_problem(checkpoint, None)
    found = import_checkpoint(store, checkpoint, problem)
    assert (found.programs, found.copies, found.parents_gone, found.prompts, found.joined) == (4, 1, 1, 1, 0)
    view = read_run(store, found.run)
    assert view.run.status is RunStatus.STOPPED
    assert view.best is not None
    assert view.best.source == BETTER
    assert run_json(view, [])["combined_score"] == 0.75
    assert view.evaluation is not None
    assert view.evaluation.metrics == (("near", 0.75), ("large", 3.0), ("combined_score", 0.75), ("ok", True))
    assert (view.evaluation.trust, view.evaluation.feedback) == (Trust.LOW, "advice: more\ncount: 3")
    assert view.summary.by_status == {Status.OK: 2, Status.TIMEOUT: 1}
    with pytest.raises(ReplayError, match="imported from another system"):
        rebuild(found.run, store)
    history = list(store.history(found.run))
    again = import_checkpoint(store, checkpoint, problem)
    assert again == dataclasses.replace(found, is_new=False)
    assert list(store.history(found.run)) == history
    kinds = [event.kind for event in history if isinstance(event, Prompt)]
    assert kinds == [PromptKind.SEED, PromptKind.MUTATE, PromptKind.MUTATE, PromptKind.MUTATE]


def test_an_import_that_was_cut_off_is_completed(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = read_checkpoint(write_checkpoint(tmp_path / "checkpoint_10"))
    problem = imported_problem(checkpoint, None)
    add_tell = store.add_tell
    told: list[Tell] = []

    def failing(run_id: str, tell: Tell, order: int) -> bool:
        if len(told) == 2:
            raise KeyboardInterrupt
        told.append(tell)
        return add_tell(run_id, tell, order)

    with monkeypatch.context() as patch:
        patch.setattr(store, "add_tell", failing)
        with pytest.raises(KeyboardInterrupt):
            import_checkpoint(store, checkpoint, problem)
    found = import_checkpoint(store, checkpoint, problem)
    assert found.is_new
    assert store.run(found.run).status is RunStatus.STOPPED
    assert sum(isinstance(event, Tell) for event in store.history(found.run)) == 4


def test_the_command_imports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = shell.Shell(capsys)
    folder = write_checkpoint(tmp_path / "packing" / "checkpoint_10")
    url = f"sqlite:///{tmp_path}/evovpo.db"
    answer = command("import-openevolve", folder, "--store", url, "--json")
    assert (answer.code, answer.json["programs"], answer.json["is_new"]) == (0, 4, True)
    shown = command("show", "latest", "--store", url, "--no-png", "--json")
    assert (shown.json["problem"], shown.json["trust"], shown.json["status"]) == ("packing", "low", "stopped")
    assert shown.json["combined_curve"][-1] == {"evaluations": 1, "combined_score": 0.75}
    refused = command("replay", "latest", "--store", url)
    assert refused.code == 2
    assert "cannot be replayed" in refused.err


# ---------------------------------------------------------------- the client for OpenEvolve's own runs

CHAIN = "Let me see.\n=== ANSWER 1 ===\nI cannot.\n=== ANSWER 2 ===\n```python\n{}```\n"


def ask(url: str, store: Store, calls: int = 1, **options: int) -> str:
    """Return the last answer, asking as OpenEvolve does: with a hook that crossed a process border."""
    hook = pickle.loads(pickle.dumps(functools.partial(client, store_url=store.name, **options)))
    model = LLMModelConfig(
        api_base=url,
        api_key="k",
        name="m",
        temperature=0.7,
        max_tokens=500,
        timeout=10,
        retries=1,
        init_client=hook,
    )
    ensemble = LLMEnsemble([model])
    for _ in range(calls):  # OpenEvolve makes an event loop for each call
        text: str = asyncio.run(
            ensemble.generate_with_context("Improve it.", [{"role": "user", "content": "Here it is."}])
        )
    asyncio.run(ensemble.models[0].aclose())
    return text


def test_calls_are_logged_joined_and_their_other_answers_judged(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with served(["no code", CHAIN.format(BETTER), CHAIN.format(BEST)]) as (url, bodies):
        handed = ask(url, store, rollouts=3, answers=2)
    assert handed.strip() == f"```python\n{BETTER}```"
    asked = next(body for body in bodies if body.get("n") == 3)
    assert asked["messages"][0] == {"role": "system", "content": "Improve it."}
    assert "=== ANSWER 1 ===" in asked["messages"][1]["content"]
    assert store.query("SELECT DISTINCT outcome, model FROM calls") == [{"outcome": "ok", "model": "m"}]

    evolved = program("better", BETTER, parent_id="first", iteration_found=1, prompts=prompted(handed))
    evolved["metrics"] = {"near": 0.75, "large": 3.0}
    checkpoint = read_checkpoint(write_checkpoint(tmp_path / "checkpoint_1", [PROGRAMS[0], evolved]))
    alone = import_checkpoint(store, checkpoint, imported_problem(checkpoint, None))
    assert (alone.joined, alone.judged, alone.unclaimed) == (1, 0, 0)
    (group,) = store.groups(alone.run)
    assert (len(group.rollouts), group.rollouts[0].text) == (1, CHAIN.format(BETTER))
    assert group.rollouts[0].token_ids == tuple(map(ord, CHAIN.format(BETTER)))

    sandbox = answering(near=0.875, large=3.5)
    project = load_openevolve(
        write_project(tmp_path / "p", SHAPES["plain"]), open_evaluator=answering(near=0.25, large=1.0).open
    )
    problem = imported_problem(checkpoint, project.problem)
    found = import_checkpoint(store, checkpoint, problem, OpenEvolveEvaluator(problem, sandbox))
    assert (found.joined, found.judged) == (1, 1)
    assert [list(job.files.values()) for job in sandbox.jobs] == [[BEST]]
    (group,) = store.groups(found.run)
    assert [rollout.text for rollout in group.rollouts] == [
        "no code",
        CHAIN.format(BETTER),
        CHAIN.format(BEST),
    ]
    assert group.rollouts[1].logprobs == (-0.5,) * len(CHAIN.format(BETTER))
    assert group.rollouts[0].prompt_token_ids == (1, 2)
    assert all(rollout.sampling.temperature == 0.7 for rollout in group.rollouts)
    zero = (0.0, 0.0)
    assert group.rewards_G_M_D[0] == (zero, zero)
    theirs, ours = group.rewards_G_M_D[1], group.rewards_G_M_D[2]
    assert theirs[0] == ours[0] == zero
    assert all(0.5 < early < late for early, late in zip(theirs[1], ours[1], strict=True))


def test_without_chains_the_whole_reply_is_handed_over(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with served(["just words"]) as (url, bodies):
        assert ask(url, store, calls=3) == "just words"
    assert bodies[0]["messages"][1]["content"] == "Here it is."
    assert len(bodies) == store.query("SELECT COUNT(*) AS n FROM calls")[0]["n"]
    assert len([body for body in bodies if body["max_tokens"] == 500]) == 3
    (row,) = store.query("SELECT id FROM runs")
    tells = [event for event in store.history(row["id"]) if isinstance(event, Tell)]
    statuses = [[item.candidate.parse_status for item in tell.judged] for tell in tells]
    assert statuses == [[ParseStatus.UNPARSED]] * 3
