"""Stores the evaluated programs of a run in compact form, so that a million programs fit into memory."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter

from evovpo.prompts.request import Change, ShownProgram
from evovpo.types import Evaluation, Program, Status, Trust

_judgement = attrgetter(*(field.name for field in fields(Evaluation)))


class JudgedPrograms(Mapping[str, ShownProgram]):
    """A mapping from program ids to evaluated programs, in order of addition."""

    def __init__(self) -> None:
        self._packed: dict[str, bytes] = {}

    def add(self, shown: ShownProgram) -> None:
        values = [shown.program.source, *_judgement(shown.evaluation), shown.changes]
        self._packed[shown.program.id] = json.dumps(values, separators=(",", ":")).encode("ascii")

    def __getitem__(self, program_id: str) -> ShownProgram:
        return _unpack(self._packed[program_id])

    def __contains__(self, program_id: object) -> bool:
        return program_id in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


@lru_cache(maxsize=1024)  # most asks use the same few programs
def _unpack(packed: bytes) -> ShownProgram:
    source, key, version, status, rewards, feedback, *rest = json.loads(packed)
    seconds, isolation, outputs, metrics, trust, changes = rest
    found = Evaluation(
        *(key, version, Status(status), None if rewards is None else tuple(rewards), feedback, seconds),
        *(isolation, None if outputs is None else tuple(outputs)),
        *(None if metrics is None else tuple((name, value) for name, value in metrics), Trust(trust)),
    )
    return ShownProgram(Program(source, key), found, tuple(Change(*change) for change in changes))
