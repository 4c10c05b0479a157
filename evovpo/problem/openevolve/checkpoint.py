"""Reads an OpenEvolve checkpoint without running code; damaged files are skipped and reported."""

import errno
import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pydantic

from evovpo.errors import ProblemError
from evovpo.prompts.program_text import suffix_of
from evovpo.types import Message, Status

_NOT_FINITE = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
"""OpenEvolve's notation of a non-finite number, which is not JSON -> text that replaces the number."""


_LAST_SECOND = 253402300799.0
_MOST_ISLANDS = 10_000
_USUAL_FOLDERS = ("checkpoints", "openevolve_output", "output", "")


def _or_default(default: object) -> pydantic.WrapValidator:
    def validated(value: object, validate: pydantic.ValidatorFunctionWrapHandler) -> object:
        try:
            return validate(value)
        except pydantic.ValidationError:
            return default

    return pydantic.WrapValidator(validated)


def _artifacts(text: object) -> tuple[tuple[str, str], ...]:
    try:
        data = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return ()
    found = data.items() if isinstance(data, dict) else ()
    return tuple((name, value if isinstance(value, str) else json.dumps(value)) for name, value in found)


class CheckpointProgram(pydantic.BaseModel, strict=True):
    id: str
    code: str
    language: Annotated[str, _or_default("")] = ""
    parent: Annotated[str | None, _or_default(None)] = pydantic.Field(None, alias="parent_id")
    iteration: Annotated[int, _or_default(0)] = pydantic.Field(0, alias="iteration_found")
    timestamp: Annotated[float, pydantic.Field(ge=0, le=_LAST_SECOND), _or_default(0.0)] = 0.0
    island: int = 0
    metrics: Annotated[
        tuple[tuple[str, Any], ...],
        pydantic.BeforeValidator(lambda value: tuple(value.items()) if isinstance(value, dict) else ()),
    ] = ()
    artifacts: Annotated[tuple[tuple[str, str], ...], pydantic.BeforeValidator(_artifacts)] = pydantic.Field(
        (), alias="artifacts_json"
    )
    metadata: Annotated[dict[str, Any], _or_default({})] = {}
    prompts: Annotated[dict[str, Any], _or_default({})] = {}

    @property
    def status(self) -> Status:
        if dict(self.metrics).get("timeout") is True:
            return Status.TIMEOUT
        is_scored = any(name != "error" and type(value) in (int, float) for name, value in self.metrics)
        return Status.OK if is_scored else Status.ERROR

    @property
    def is_copy(self) -> bool:
        return self.metadata.get("migrant") is True

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt that produced the program; empty if the checkpoint has no prompt."""
        asked = self._template()
        roles = (role for role in ("system", "user") if isinstance(asked.get(role), str) and asked[role])
        return tuple(Message(role, asked[role]) for role in roles)

    @property
    def response(self) -> str:
        responses = self._template().get("responses")
        first = responses[0] if isinstance(responses, list) and responses else ""
        return first if isinstance(first, str) else ""

    def _template(self) -> dict[str, Any]:
        templates = (value for value in self.prompts.values() if isinstance(value, dict))
        return next((value for value in templates if isinstance(value.get("user"), str)), {})


class Checkpoint(NamedTuple):
    folder: Path
    name: str
    programs: tuple[CheckpointProgram, ...]
    """All programs, each after its parent; otherwise in the order of iterations."""
    suffix: str
    faults: tuple[str, ...]


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint in `path`, or else the latest below. Raises `ProblemError` if there is none."""
    folder = _checkpoint_folder(path)
    faults: list[str] = []
    metadata = _object(folder / "metadata.json", faults) or {}
    islands: dict[str, int] = {}
    listed = metadata.get("islands")
    for index, members in enumerate(listed if isinstance(listed, list) else ()):
        for member in members if isinstance(members, list) else ():
            islands.setdefault(str(member), index)
    programs: list[CheckpointProgram] = []
    for file in sorted((folder / "programs").glob("*.json")):
        data = _object(file, faults)
        if data is None:
            continue
        try:
            program = CheckpointProgram.model_validate(data)
        except pydantic.ValidationError:
            faults.append(f"{file.name}: expected a program with id and code, found other keys")
            continue
        own = program.metadata.get("island")
        island = islands.get(program.id, own if isinstance(own, int) and 0 <= own < _MOST_ISLANDS else 0)
        programs.append(program.model_copy(update={"island": island}))
    if not programs:
        said = f" ({'; '.join(faults[:5])})" if faults else ""
        raise ProblemError(
            f"{folder}: expected programs/*.json of OpenEvolve, found none that can be read{said}"
        )
    suffix = suffix_of(programs[0].language.lower())
    best = next((file for file in sorted(folder.glob("best_program.*")) if file.suffix != ".json"), None)
    return Checkpoint(
        folder=folder,
        name=next((above.name for above in folder.parents if above.name not in _USUAL_FOLDERS), folder.name),
        programs=tuple(_parents_first(programs)),
        suffix=suffix if best is None else best.suffix,
        faults=tuple(faults),
    )


def _parents_first(programs: list[CheckpointProgram]) -> list[CheckpointProgram]:
    waiting = sorted(programs, key=lambda item: (item.iteration, item.timestamp, item.id))
    missing = {program.id for program in waiting}
    found: list[CheckpointProgram] = []
    while waiting:
        # OpenEvolve writes no cycles of parents; in a cycle, the oldest program comes before its parent.
        place = next((place for place, item in enumerate(waiting) if item.parent not in missing), 0)
        found.append(waiting.pop(place))
        missing.discard(found[-1].id)
    return found


def _checkpoint_folder(path: Path) -> Path:
    if (path / "programs").is_dir():
        return path.resolve()
    found = [
        programs.parent
        for above in ("", "checkpoints/", "openevolve_output/checkpoints/")
        for programs in path.glob(f"{above}checkpoint_*/programs/")
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


def _object(file: Path, faults: list[str]) -> dict[str, Any] | None:
    try:
        if file.exists() and not file.is_file():  # reading a pipe or a device might never end
            raise OSError(errno.EINVAL, "no plain file")
        data = json.loads(file.read_text(encoding="utf-8"), parse_constant=_NOT_FINITE.get)
    except OSError as error:
        faults.append(f"{file.name}: cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        faults.append(f"{file.name}: no JSON: {str(error)[:100]}")
    else:
        if isinstance(data, dict):
            return data
        faults.append(f"{file.name}: expected an object, found {data!r:.40}")
    return None
