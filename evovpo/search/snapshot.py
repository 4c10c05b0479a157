"""Saves the state of a search as bytes and restores it.

The state is pickled without the problem, settings, formats and language, which are put in again on reading.
A snapshot may come with a store from anywhere, so reading creates only records, classes of the search and
containers, and calls no function.
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
    """Return the state of a search."""
    given = {id(value): name for name, value in _given(search).items()}

    class SnapshotWriter(pickle.Pickler):
        def persistent_id(self, obj: Any) -> str | None:
            return given.get(id(obj))

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, Enum):  # which some versions of Python would read back by a call of `getattr`
                return type(obj), (obj.value,)
            return NotImplemented

    state = io.BytesIO()
    with gzip.GzipFile(fileobj=state, mode="wb", compresslevel=1, mtime=0) as file:
        SnapshotWriter(file, pickle.HIGHEST_PROTOCOL).dump(search)
    return state.getvalue()


def load(state: bytes, made_as: SearchState) -> SearchState:
    """Return the search of a snapshot; `made_as` is one of the same run, as of before its first ask.

    It has been told to go on under the settings of every part that the snapshot knows. Raises `ValueError`
    for bytes that are none, whatever is wrong with them.
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
    """Return what a search was made with, by names that hold in every search of the run."""
    given: dict[str, object] = {"problem": search.problem, "settings": search.config}
    if search.language is not None:
        given["language"] = search.language
    return given | {f"format {place}": made_by for place, made_by in enumerate(search.formats)}


def same_state(first: SearchState, second: SearchState) -> bool:
    """True if two searches of one run have the same state."""

    def known(search: SearchState) -> tuple[Any, ...]:
        people = search.population
        best = people.leader, people.specialist, people.weights
        state = [one.members for one in people.islands], people.cells, people.visits, best
        return search.tickets.open, search.gains, search.notes.text, state, list(search.programs.items())

    return known(first) == known(second)
