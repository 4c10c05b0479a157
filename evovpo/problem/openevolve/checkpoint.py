"""Reads a checkpoint that OpenEvolve wrote: programs, metrics, parents, islands, prompts and responses.

Only the files are read, nothing is run. A file that is torn or of another form is left out and named.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from evovpo.errors import ProblemError
from evovpo.types import Json, Message, Status

_SUFFIXES = {
    "python": ".py",
    "rust": ".rs",
    "r": ".r",
    "c++": ".cpp",
    "cpp": ".cpp",
    "c": ".c",
    "java": ".java",
    "javascript": ".js",
    "text": ".txt",
}
"""File endings by the names that OpenEvolve gives languages."""


class Evolved(NamedTuple):
    """One program of a checkpoint."""

    id: str
    """Its id there."""
    code: str
    parent: str | None
    iteration: int
    timestamp: float
    island: int
    metrics: tuple[tuple[str, Json], ...]
    """Not finite numbers as text."""
    artifacts: tuple[tuple[str, str], ...]
    messages: tuple[Message, ...]
    """The prompt that it came from; empty where the checkpoint has none."""
    response: str
    """What the model answered, or empty."""
    is_copy: bool
    """A migrant: the copy of a program of another island."""

    @property
    def status(self) -> Status:
        """How judging it ended, as far as its metrics say."""
        values = dict(self.metrics)
        if values.get("timeout") is True:
            return Status.TIMEOUT
        numbers = [
            name
            for name, value in self.metrics
            if name != "error" and isinstance(value, int | float) and not isinstance(value, bool)
        ]
        return Status.OK if numbers else Status.ERROR


class Checkpoint(NamedTuple):
    """What could be read of a checkpoint."""

    folder: Path
    name: str
    """Of the folder that OpenEvolve ran for, as far as the path tells."""
    programs: tuple[Evolved, ...]
    """Oldest first."""
    suffix: str
    iteration: int
    """The last one that it was written at; 0 where it does not say."""
    faults: tuple[str, ...]
    """Files that were left out, each with why."""


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint in the folder `path`, or the latest one below it.

    Raises `ProblemError` if there is none, or none of its programs can be read.
    """
    folder = _checkpoint_folder(path)
    faults: list[str] = []
    metadata = _object(folder / "metadata.json", faults) or {}
    islands: dict[str, int] = {}
    for index, members in enumerate(metadata.get("islands") or ()):
        for member in members if isinstance(members, list) else ():
            islands.setdefault(str(member), index)
    programs: list[Evolved] = []
    languages: list[str] = []
    for file in sorted((folder / "programs").glob("*.json")):
        data = _object(file, faults)
        if data is None:
            continue
        if not isinstance(data.get("code"), str) or not isinstance(data.get("id"), str):
            faults.append(f"{file.name}: expected a program with id and code, found other keys")
            continue
        programs.append(_evolved(data, islands))
        languages.append(str(data.get("language")))
    if not programs:
        said = f" ({'; '.join(faults[:5])})" if faults else ""
        raise ProblemError(
            f"{folder}: expected programs/*.json of OpenEvolve, found none that can be read{said}"
        )
    programs.sort(key=lambda program: (program.iteration, program.timestamp, program.id))
    iteration = metadata.get("last_iteration")
    best = next((file for file in sorted(folder.glob("best_program.*")) if file.suffix != ".json"), None)
    return Checkpoint(
        folder=folder,
        name=_name(folder),
        programs=tuple(programs),
        suffix=best.suffix if best is not None else _SUFFIXES.get(languages[0].lower(), ".txt"),
        iteration=iteration if isinstance(iteration, int) else 0,
        faults=tuple(faults),
    )


def _checkpoint_folder(path: Path) -> Path:
    """Return the checkpoint that is meant: the folder itself, or the latest in an output folder."""
    if (path / "programs").is_dir():
        return path.resolve()
    found = [
        folder
        for pattern in (
            "checkpoint_*",
            "checkpoints/checkpoint_*",
            "openevolve_output/checkpoints/checkpoint_*",
        )
        for folder in path.glob(pattern)
        if (folder / "programs").is_dir()
    ]
    if not found:
        raise ProblemError(
            f"{path}: expected a checkpoint of OpenEvolve (a folder with programs/), or its output folder, "
            "found neither; give for example openevolve_output/checkpoints/checkpoint_100"
        )
    return max(found, key=_number).resolve()


def _number(folder: Path) -> int:
    last = folder.name.rpartition("_")[2]
    return int(last) if last.isdecimal() else -1


def _name(folder: Path) -> str:
    """Return what the run was about: the first folder above that has a name of its own."""
    for parent in folder.parents:
        if parent.name not in ("checkpoints", "openevolve_output", "output", ""):
            return parent.name
    return folder.name


def _object(file: Path, faults: list[str]) -> dict[str, Any] | None:
    """Return the JSON object in a file, or none after adding a fault."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        faults.append(f"{file.name}: cannot be read: {error.strerror}")
        return None
    except (ValueError, RecursionError) as error:
        faults.append(f"{file.name}: no JSON: {str(error)[:100]}")
        return None
    if not isinstance(data, dict):
        faults.append(f"{file.name}: expected an object, found {data!r:.40}")
        return None
    return data


def _evolved(data: Mapping[str, Any], islands: Mapping[str, int]) -> Evolved:
    metrics = data.get("metrics")
    metadata = data.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    parent, iteration = data.get("parent_id"), data.get("iteration_found")
    timestamp, island = data.get("timestamp"), metadata.get("island")
    messages, response = _prompt(data.get("prompts"))
    return Evolved(
        id=data["id"],
        code=data["code"],
        parent=parent if isinstance(parent, str) else None,
        iteration=iteration if isinstance(iteration, int) else 0,
        timestamp=float(timestamp) if isinstance(timestamp, int | float) else 0.0,
        island=islands.get(data["id"], island if isinstance(island, int) and island >= 0 else 0),
        metrics=tuple((str(name), _finite(value)) for name, value in metrics.items())
        if isinstance(metrics, dict)
        else (),
        artifacts=_artifacts(data.get("artifacts_json")),
        messages=messages,
        response=response,
        is_copy=metadata.get("migrant") is True,
    )


def _finite(value: Any) -> Json:
    """Return JSON as it is, with NaN and infinities, which its writer lets through, as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    found: Json = value
    return found


def _artifacts(text: object) -> tuple[tuple[str, str], ...]:
    try:
        data = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return ()
    if not isinstance(data, dict):
        return ()
    return tuple(
        (str(name), value if isinstance(value, str) else json.dumps(value)) for name, value in data.items()
    )


def _prompt(prompts: object) -> tuple[tuple[Message, ...], str]:
    """Return messages and response of the first template that made a program."""
    for template in prompts.values() if isinstance(prompts, dict) else ():
        if not isinstance(template, dict) or not isinstance(template.get("user"), str):
            continue
        messages = tuple(
            Message(role, template[role])
            for role in ("system", "user")
            if isinstance(template.get(role), str) and template[role]
        )
        responses = template.get("responses")
        first = responses[0] if isinstance(responses, list) and responses else ""
        return messages, first if isinstance(first, str) else ""
    return (), ""
