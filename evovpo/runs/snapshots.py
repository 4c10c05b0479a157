"""Snapshots of a run's search, so that resuming reads only the rows after the latest snapshot.

A snapshot that is damaged, was written by other code, or does not fit the rows is ignored.
"""

import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path

from evovpo.search.search import SearchState
from evovpo.search.snapshot import dump, load
from evovpo.store import Snapshot, Store
from evovpo.trust import seal
from evovpo.types import content_id

EVERY = 10_000
"""Tells between two snapshots (five seconds of replay); a fifth of that suffices at the end of a run."""
_log = logging.getLogger(__name__)


@cache
def code_version() -> str:
    """Return a hash of the code that a serialized search depends on."""
    package = Path(__file__).parents[1]
    others = package / "types.py", package / "prompts" / "request.py", package / "analysis" / "scores.py"
    files = [*sorted(package.glob("search/**/*.py")), *others]
    return content_id(*(file.read_text(encoding="utf-8") for file in files))


def snapshot_of(search: SearchState) -> Snapshot:
    """Return a snapshot of a search, to be stored."""
    body = dump(search)
    return Snapshot(search.run_id, len(search.tickets), search.tells, code_version() + seal(body), body)


class SnapshotKeeper:
    """Stores a snapshot of a search and the summary of its run at regular intervals of tells."""

    def __init__(self, store: Store, search: SearchState, every: int = EVERY) -> None:
        self._store, self._search, self._every = store, search, every
        self._kept_at = self._summed_at = search.tells

    def look(self, is_at_end: bool = False) -> None:
        """Store a snapshot and a summary if due; all asks and tells must be stored already."""
        if self._search.tells - self._kept_at >= (self._every // 5 if is_at_end else self._every):
            self._store.keep_snapshot(snapshot_of(self._search))
            self._kept_at = self._search.tells
        if self._search.tells - self._summed_at >= self._every // 5:
            self._store.keep_summary(self._search.run_id)
            self._summed_at = self._search.tells


def kept_search(store: Store, run_id: str, made_as: Callable[[Snapshot], SearchState]) -> SearchState | None:
    """Return the search in the latest snapshot of a run, or None without a usable one.

    `made_as` returns a new search with the settings of all parts up to the snapshot.
    """
    kept = store.snapshot(run_id)
    if kept is None:
        return None
    try:
        if kept.version != code_version() + seal(kept.body):
            raise ValueError("another version of evovpo, or another user or machine, wrote it")
        search = load(kept.body, made_as(kept))
        place = search.run_id, len(search.tickets), search.tells
        if place != kept[:3] or search.tells > store.last_tell(run_id) + 1:
            raise ValueError(f"it is of run {place[0]} after {place[1]} asks and {place[2]} tells")
    except ValueError as error:
        leave_aside(run_id, error)
        return None
    return search


def leave_aside(run_id: str, why: Exception) -> None:
    """Log that the snapshot of a run is not used."""
    _log.warning("the snapshot of run %s is not used (%.200s); all its rows are replayed", run_id, why)
