"""Saves the state of a search as bytes and restores it.

The state is pickled without problem, settings, prompt formats and language, which are added again when it is
loaded. A store, and so a snapshot, may come from anybody: loading creates only records, search classes and
containers, and calls no functions.
"""

import gzip
import io
import pickle
import sys
from collections import Counter, deque
from enum import Enum
from typing import Any

from evovpo.search.search import SearchState

_CONTAINERS = {("collections", kind.__name__): kind for kind in (Counter, deque)}
_RECORDS = ("evovpo.types", "evovpo.prompts.request")


def dump(search: SearchState) -> bytes:
    """Return the serialized state of a search."""
    given = {id(value): name for name, value in _given(search).items()}

    class SnapshotWriter(pickle.Pickler):
        def persistent_id(self, obj: Any) -> str | None:
            return given.get(id(obj))

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, Enum):  # some Python versions load enums by a call of `getattr`
                return type(obj), (obj.value,)
            return NotImplemented

    state = io.BytesIO()
    with gzip.GzipFile(fileobj=state, mode="wb", compresslevel=1, mtime=0) as file:
        SnapshotWriter(file, pickle.HIGHEST_PROTOCOL).dump(search)
    return state.getvalue()


def load(state: bytes, made_as: SearchState) -> SearchState:
    """Return the search in a snapshot; `made_as` is a search of the same run before its first ask.

    `go_on` was called on it for every part that the snapshot has. Raises `ValueError` for any bytes that are
    not a snapshot.
    """
    given = _given(made_as)

    class SnapshotReader(pickle.Unpickler):
        def persistent_load(self, name: Any) -> Any:
            return given[name]

        def find_class(self, module: str, name: str) -> Any:
            found = _CONTAINERS.get((module, name))
            if module in sys.modules and (module.startswith("evovpo.search.") or module in _RECORDS):
                found = vars(sys.modules[module]).get(name)
            if not isinstance(found, type) or found.__module__ != module:
                raise pickle.UnpicklingError(f"{module}.{name} has no place in a snapshot")
            return found

    try:
        search = SnapshotReader(gzip.GzipFile(fileobj=io.BytesIO(state))).load()
    except Exception as error:  # a damaged pickle raises anything
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if not isinstance(search, SearchState):
        raise ValueError(f"{type(search).__name__} in place of a search")
    return search


def _given(search: SearchState) -> dict[str, object]:
    """Return the parts of a search that are not pickled, by names common to all searches of a run."""
    given: dict[str, object] = {"problem": search.problem, "settings": search.config}
    if search.language is not None:
        given["language"] = search.language
    return given | {f"format {place}": made_by for place, made_by in enumerate(search.formats)}


def same_state(first: SearchState, second: SearchState) -> bool:
    """Return whether two searches of one run have the same state."""

    def known(search: SearchState) -> tuple[Any, ...]:
        people = search.population
        best = people.leader, people.specialist, people.weights
        state = [one.members for one in people.islands], people.cells, people.visits, best
        return search.tickets.open, search.gains, search.notes.text, state, list(search.programs.items())

    return known(first) == known(second)
