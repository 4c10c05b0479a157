"""Checkpoints of OpenEvolve as stored runs."""

import asyncio
import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openevolve.config import Config as OpenEvolveConfig
from openevolve.config import DatabaseConfig, EvaluatorConfig, LLMConfig, LLMModelConfig
from openevolve.controller import OpenEvolve
from openevolve.database import ProgramDatabase
from openevolve_problems import BETTER, LOAD, PROGRAM, numbered, write_project
from shell import Shell

from evovpo.errors import ProblemError, ReplayError
from evovpo.integrations.import_checkpoint import bring_in
from evovpo.problem.openevolve.checkpoint import read_checkpoint
from evovpo.reports.run_report import run_json
from evovpo.runs.replay import rebuild
from evovpo.runs.stored import read_run
from evovpo.store import Store
from evovpo.types import Message, Program, Prompt, PromptKind, RunStatus, Status, Tell, Trust

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
        "lost", BEST, parent_id="evicted", iteration_found=3, metrics={"near": float("nan"), "large": 0.5}
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
    assert lost.metrics == (("near", "nan"), ("large", 0.5))
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
    folder = write_checkpoint(tmp_path / "packing" / "checkpoint_10")
    found = bring_in(store, folder)
    assert (found.programs, found.copies, found.prompts) == (4, 1, 1)
    view = read_run(store, found.run)
    assert view.run.status is RunStatus.STOPPED
    assert view.best.source == BETTER
    assert run_json(view, [])["combined_score"] == 0.75
    assert view.evaluation.metrics == (("near", 0.75), ("large", 3.0), ("combined_score", 0.75), ("ok", True))
    assert (view.evaluation.trust, view.evaluation.feedback) == (Trust.LOW, "advice: more\ncount: 3")
    assert view.summary.by_status == {Status.OK: 2, Status.TIMEOUT: 1}
    with pytest.raises(ReplayError, match="imported from another system"):
        rebuild(found.run, store)
    history = list(store.history(found.run))
    assert bring_in(store, folder) == dataclasses.replace(found, is_new=False)
    assert list(store.history(found.run)) == history
    kinds = [(event.kind, event.island) for event in history if isinstance(event, Prompt)]
    seed, mutate = PromptKind.SEED, PromptKind.MUTATE
    assert kinds == [(seed, 0), (seed, 1), (mutate, 0), (mutate, 1), (mutate, 1)]


def test_an_import_that_was_cut_off_is_completed(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_checkpoint(tmp_path / "checkpoint_10")
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
            bring_in(store, folder)
    found = bring_in(store, folder)
    assert found.is_new
    assert store.run(found.run).status is RunStatus.STOPPED
    assert sum(isinstance(event, Tell) for event in store.history(found.run)) == 5


# ---------------------------------------------------------------- runs of OpenEvolve itself

EVALUATOR = (
    LOAD
    + """
def evaluate(program_path):
    value = _load(program_path).guess()
    return {"near": max(0.0, 1 - abs(40 - value) / 40), "large": value, "combined_score": value / 40}
"""
)
NOISY = "import random\n" + EVALUATOR.replace(".guess()", ".guess() + random.random()")


def written(number: int) -> str:
    """Return what a scripted server answers first, second, ...: a new program each time, of any length."""
    program = PROGRAM.replace("1.0", str(number * 17 % 41)) + "#" * (number * 397 % 1000)
    return f"```python\n{program}\n```"


def run_openevolve(folder: Path) -> Path:
    write_project(folder, {"initial_program.py": PROGRAM, "evaluator.py": EVALUATOR})
    with numbered(written) as url:
        model = LLMModelConfig(api_base=url, api_key="k", name="m", retries=0, timeout=60)
        config = OpenEvolveConfig(
            max_iterations=60,
            checkpoint_interval=60,
            diff_based_evolution=False,
            llm=LLMConfig(models=[model], evaluator_models=[]),
            database=DatabaseConfig(num_islands=3, migration_interval=4, random_seed=1),
            evaluator=EvaluatorConfig(cascade_evaluation=False),
        )
        asyncio.run(
            OpenEvolve(
                initial_program_path=str(folder / "initial_program.py"),
                evaluation_file=str(folder / "evaluator.py"),
                config=config,
                output_dir=str(folder / "openevolve_output"),
            ).run()
        )
    return folder / "openevolve_output"


def stored_programs(store: Store, run_id: str) -> Counter[tuple[str, int, str | None, str]]:
    found: Counter[tuple[str, int, str | None, str]] = Counter()
    asked = {event.id: event for event in store.history(run_id) if isinstance(event, Prompt)}
    for event in store.history(run_id):
        for judged in event.judged if isinstance(event, Tell) else ():
            program, evaluation = judged.candidate.program, judged.evaluation
            parent = asked[event.prompt_id].parent_id
            metrics = json.dumps(dict(evaluation.metrics or ()), sort_keys=True)
            found[program.id, asked[event.prompt_id].island, parent, metrics] += 1
    return found


@pytest.mark.slow
def test_a_run_of_openevolve_with_its_migration_is_imported_as_its_own_database_loads_it(
    tmp_path: Path, store: Store, evovpo: Shell
) -> None:
    output = run_openevolve(tmp_path / "guessing")
    checkpoint = next((output / "checkpoints").iterdir())
    database = ProgramDatabase(DatabaseConfig(num_islands=3))
    database.load(str(checkpoint))
    islands = {member: index for index, island in enumerate(database.islands) for member in island}
    theirs: Counter[tuple[str, int, str | None, str]] = Counter()
    for item in database.programs.values():
        parent = database.programs.get(item.parent_id or "")
        parent_id = None if parent is None else Program(parent.code).id
        metrics = json.dumps(item.metrics, sort_keys=True)
        theirs[Program(item.code).id, islands[item.id], parent_id, metrics] += 1
    migrants = sum(item.metadata.get("migrant", False) for item in database.programs.values())

    imported = ("import-openevolve", output, "--store", store.name, "--json")
    answer = evovpo(*imported)
    assert answer.code == 0
    assert migrants >= 3
    assert len(database.programs) > 20
    assert answer.json["programs"] + answer.json["copies"] == len(database.programs)
    assert stored_programs(store, answer.json["run"]) == theirs
    before = store.query("SELECT count(*) AS n FROM tells")
    assert evovpo(*imported).json == answer.json | {"is_new": False}
    assert store.query("SELECT count(*) AS n FROM tells") == before
    best = evovpo("show", answer.json["run"], "--store", store.name, "--no-png", "--json").json
    expected = database.get_best_program()
    assert best["combined_score"] == expected.metrics["combined_score"]


def test_importing_again_under_an_evaluator_whose_numbers_vary_changes_nothing(
    tmp_path: Path, store: Store, evovpo: Shell
) -> None:
    write_project(tmp_path / "p", {"initial_program.py": PROGRAM, "evaluator.py": NOISY})
    folder = write_checkpoint(tmp_path / "packing" / "checkpoint_10")
    first, second = (
        evovpo("import-openevolve", folder, "--problem", tmp_path / "p", "--store", store.name, "--json")
        for _ in range(2)
    )
    assert (first.code, second.code) == (0, 0)
    assert (second.json["run"], second.json["is_new"]) == (first.json["run"], False)
    assert len(store.runs()) == len(store.query("SELECT * FROM problems")) == 1
