"""Opens the page's store at the first request, and again after a failure or if its file was replaced."""

import threading
import time
from collections import OrderedDict

from evovpo.page.figures import RunFigures
from evovpo.store import Store
from evovpo.store.database import file_identity, parse_url
from evovpo.types import Problem, Run

_TIMEOUTS = {
    "sqlite": {"timeout": "5"},
    "postgresql": {"connect_timeout": "5", "options": "-c statement_timeout=5000"},
}
UPDATE_SECONDS = 0.04
"""Approximate seconds for reading new evaluated replies in one request. Later requests go on."""
_MOST_CACHED_PROGRAMS = 400_000


class Source:
    """A thread-safe store with cached statistics of its runs. Call `close` at the end."""

    def __init__(self, url: str | None, update_seconds: float = UPDATE_SECONDS) -> None:
        """Parse the URL without opening the store. Raises `StoreError` if `url` is not a database URL."""
        parsed = parse_url(url)
        patience = {**_TIMEOUTS.get(parsed.get_backend_name(), {}), **parsed.query}
        self.url = parsed.update_query_dict(patience).render_as_string(hide_password=False)
        """The store's URL with its password and timeouts."""
        self._update_seconds = update_seconds
        self._lock = threading.RLock()
        self._store: Store | None = None
        self._identity: tuple[int, int] | None = None
        self._figures: OrderedDict[str, tuple[threading.Lock, RunFigures]] = OrderedDict()
        self._problems: dict[tuple[str, str], Problem] = {}

    def store(self) -> Store:
        """Return the open store, reopened if its file was replaced."""
        with self._lock:
            if self._store is not None and file_identity(self._store.file) != self._identity:
                self.close()
            if self._store is None:
                opened = Store.open(self.url, create=False)
                self._store, self._identity = opened, file_identity(opened.file)
            return self._store

    def figures(self, run: Run, until: float | None = None) -> RunFigures:
        """Return a run's statistics. New replies are read first, until `until` (default: `deadline()`)."""
        store = self.store()
        with self._lock:
            if run.id not in self._figures:
                self._figures[run.id] = threading.Lock(), RunFigures(run.id, self.problem(run))
            self._figures.move_to_end(run.id)
            while (
                len(self._figures) > 1
                and sum(len(one.lines) for _, one in self._figures.values()) > _MOST_CACHED_PROGRAMS
            ):
                self._figures.popitem(last=False)
            lock, figures = self._figures[run.id]
        with lock:
            if until is not None and time.monotonic() > until:
                figures.last = max(figures.last, 0)  # read later; incomplete until then
            elif not (run.status.is_finished and figures.has_all):
                figures.update(store, self.deadline() if until is None else until)
                figures.has_all = run.status.is_finished and figures.is_whole
        return figures

    def deadline(self) -> float:
        return time.monotonic() + self._update_seconds

    def problem(self, run: Run) -> Problem:
        key = (run.problem_id, run.problem_version)
        if key not in self._problems:
            self._problems[key] = self.store().problem(*key)
        return self._problems[key]

    def close(self) -> None:
        """Close the store and clear the caches. The next request reopens the store."""
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = None
            self._figures.clear()
            self._problems.clear()
