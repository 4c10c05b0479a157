"""Writes a run in OpenEvolve's file format: the best program with its metrics, and a checkpoint."""

import contextlib
import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from evovpo.errors import ConfigError
from evovpo.files import write_errors, write_json
from evovpo.prompts.bundles import is_bundle, unpack
from evovpo.prompts.program_text import language_of
from evovpo.runs.stored import RunView
from evovpo.store import Store
from evovpo.types import Evaluation, Json, ParentRole, Program, Prompt


def write_best(store: Store, view: RunView, folder: Path) -> Path | None:
    """Write the best program, if any, with its metrics to `folder`/best. Return the program's path."""
    if view.best is None:
        return None
    found = _openevolve_programs(store, view)[view.best.id]
    same = ("id", "generation", "timestamp", "parent_id", "metrics", "language")
    info = {key: found[key] for key in same} | {
        "iteration": found["iteration_found"],
        "saved_at": time.time(),
    }
    place = folder / "best"
    with write_errors(f"{place}:", kind=ConfigError):
        place.mkdir(parents=True, exist_ok=True)
        path = _write_program(place, view.best, view.problem.suffix)
        write_json(place / "best_program_info.json", info, indent=2)
    return path


def write_checkpoint(store: Store, view: RunView, folder: Path) -> Path:
    """Write all programs of a run as an OpenEvolve checkpoint; return the checkpoint's folder.

    Its number is the run's evaluations, added to the highest number of another run in the folder.
    """
    number = view.summary.proposed + _highest_of_others(view.run.id, folder / "checkpoints")
    place = folder / "checkpoints" / f"checkpoint_{number}"
    found = _openevolve_programs(store, view)
    best = None if view.best is None else view.best.id
    count = 1 + max((one["metadata"]["island"] for one in found.values()), default=0)
    islands: list[list[str]] = [[] for _ in range(count)]
    for name, one in found.items():
        islands[one["metadata"]["island"]].append(name)
    metadata = {
        "islands": islands,
        "island_feature_maps": [{} for _ in islands],
        "archive": [best] if best else [],
        "best_program_id": best,
        "last_iteration": number,
        "evovpo_run": view.run.id,
    }
    with write_errors(f"{place}:", kind=ConfigError):
        (place / "programs").mkdir(parents=True, exist_ok=True)
        for name, one in found.items():
            write_json(place / "programs" / f"{name}.json", one)
        write_json(place / "metadata.json", metadata)
        if view.best is not None:
            _write_program(place, view.best, view.problem.suffix)
    return place


def _highest_of_others(run_id: str, folder: Path) -> int:
    others = [0]
    for place in folder.glob("checkpoint_*"):
        run = None
        with contextlib.suppress(OSError, ValueError):
            run = json.loads((place / "metadata.json").read_text(encoding="utf-8")).get("evovpo_run")
        number = place.name.rpartition("_")[2]
        others += [int(number)] * (run != run_id and number.isdigit())
    return max(others)


def _openevolve_programs(store: Store, view: RunView) -> dict[str, dict[str, Any]]:
    prompts: dict[str, Prompt] = {}
    found: dict[str, dict[str, Any]] = {}
    proposed = 0
    for event in store.history(view.run.id):
        if isinstance(event, Prompt):
            prompts[event.id] = event
            continue
        prompt = prompts[event.prompt_id]
        for judged in event.judged:
            program, parents = judged.candidate.program, judged.candidate.parents
            proposed += prompt.has_model
            if program is None or judged.evaluation is None or program.id in found:
                continue
            parent = next((one.program_id for one in parents if one.role is ParentRole.PARENT), None)
            found[program.id] = {
                "id": program.id,
                "code": program.source,
                "language": language_of(view.problem.suffix),
                "parent_id": parent,
                "generation": found[parent]["generation"] + 1 if parent in found else 0,
                "timestamp": datetime.fromisoformat(view.run.created_at).timestamp(),
                "iteration_found": proposed,
                "metrics": _metrics(view, judged.evaluation),
                "metadata": {"island": prompt.island},
            }
    return found


def _write_program(folder: Path, program: Program, suffix: str) -> Path:
    path = folder / f"best_program{suffix.rstrip('/')}"
    files = {Path(): program.source}
    if suffix == "/" and is_bundle(program.source):
        files = {Path(name): text for name, text in unpack(program.source).items()}
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def _metrics(view: RunView, evaluation: Evaluation) -> dict[str, Json]:
    if evaluation.metrics is not None:
        return dict(evaluation.metrics)
    names = [objective.name for objective in view.problem.objectives]
    return dict(zip(names, evaluation.rewards or (), strict=False))
