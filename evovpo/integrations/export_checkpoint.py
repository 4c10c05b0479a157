"""Writes a run as OpenEvolve does: its best program with its metrics, and a checkpoint."""

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from evovpo.errors import ConfigError
from evovpo.files import write_errors, write_json
from evovpo.prompts.bundles import is_bundle, unpack
from evovpo.prompts.program_text import language_of
from evovpo.runs.stored import RunView, lineage
from evovpo.store import Store
from evovpo.types import Evaluation, Json, Parent, ParentRole, Program, Prompt


def write_best(store: Store, view: RunView, folder: Path) -> Path | None:
    """Write the best program of a run and `best_program_info.json` into `folder`/best; return its path."""
    if view.best is None:
        return None
    ancestors = lineage(store, view.run.id, view.problem, view.best)
    parents = {one.program.id: _parent(one.made_from) for one in ancestors}
    generation, parent = 0, parents[view.best.id]
    while parent is not None:
        generation, parent = generation + 1, parents.get(parent)
    after = next((one.evaluations for one in view.scores if one.program_id == view.best.id), 0)
    info = {
        "id": view.best.id,
        "generation": generation,
        "iteration": after,
        "timestamp": _time(view),
        "parent_id": parents[view.best.id],
        "metrics": _metrics(view, view.evaluation),
        "language": language_of(view.problem.suffix),
        "saved_at": time.time(),
    }
    place = folder / "best"
    with write_errors(f"{place}:", kind=ConfigError):
        place.mkdir(parents=True, exist_ok=True)
        path = _write_program(place, view.best, view.problem.suffix)
        write_json(place / "best_program_info.json", info, indent=2)
    return path


def write_checkpoint(store: Store, view: RunView, folder: Path) -> Path:
    """Write all programs of a run as a checkpoint that OpenEvolve loads and shows; return its folder."""
    place = folder / "checkpoints" / f"checkpoint_{view.summary.proposed}"
    prompts: dict[str, Prompt] = {}
    found: dict[str, dict[str, Json]] = {}
    islands: dict[int, list[Json]] = {0: []}
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
            parent = _parent(parents)
            before = found.get(parent or "", {}).get("generation")
            islands.setdefault(prompt.island, []).append(program.id)
            found[program.id] = {
                "id": program.id,
                "code": program.source,
                "language": language_of(view.problem.suffix),
                "parent_id": parent,
                "generation": before + 1 if isinstance(before, int) else 0,
                "timestamp": _time(view),
                "iteration_found": proposed,
                "metrics": _metrics(view, judged.evaluation),
                "metadata": {"island": prompt.island},
            }
    best = None if view.best is None else view.best.id
    count = max(islands) + 1
    metadata: dict[str, Json] = {
        "islands": [islands.get(number, []) for number in range(count)],
        "island_feature_maps": [{} for _ in range(count)],
        "archive": [best] if best else [],
        "best_program_id": best,
        "last_iteration": proposed,
    }
    with write_errors(f"{place}:", kind=ConfigError):
        (place / "programs").mkdir(parents=True, exist_ok=True)
        for name, record in found.items():
            write_json(place / "programs" / f"{name}.json", record)
        write_json(place / "metadata.json", metadata)
        if view.best is not None:
            _write_program(place, view.best, view.problem.suffix)
    return place


def _write_program(folder: Path, program: Program, suffix: str) -> Path:
    path = folder / f"best_program{suffix.rstrip('/')}"
    files = {Path(): program.source}
    if suffix == "/" and is_bundle(program.source):
        files = {Path(name): text for name, text in unpack(program.source).items()}
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def _parent(parents: Sequence[Parent]) -> str | None:
    return next((one.program_id for one in parents if one.role is ParentRole.PARENT), None)


def _time(view: RunView) -> float:
    return datetime.fromisoformat(view.run.created_at).timestamp()


def _metrics(view: RunView, evaluation: Evaluation | None) -> dict[str, Json]:
    """Return raw metrics, or rewards by objective where an evaluator returned none."""
    if evaluation is None:
        return {}
    if evaluation.metrics is not None:
        return dict(evaluation.metrics)
    names = [objective.name for objective in view.problem.objectives]
    return dict(zip(names, evaluation.rewards or (), strict=False))
