"""Runs the searches of a batch, from the start or from their last stored evaluation."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from evovpo.config import Config
from evovpo.errors import FileHeldError, RunHeldError, StoreError, UnreachableError
from evovpo.experiments.batch_file import Cell
from evovpo.experiments.pool import FatalError
from evovpo.files import hold
from evovpo.runs.driver import Progress
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import start_or_resume
from evovpo.store import Store
from evovpo.store.database import parse_url
from evovpo.types import Evaluation, Problem, RunStatus

_PAUSE_SECONDS = 3.0


class CellProgress(NamedTuple):
    proposed: int = 0
    solved: bool = False
    waits: str = ""
    cpu_seconds: float = 0.0
    """CPU seconds of the process and its sandbox from the run's latest start to its end; 0 before the end."""


@dataclass(frozen=True, slots=True)
class Work:
    """A run of a batch, with all data that another process needs for it."""

    cell: Cell
    problem: Problem
    config: Config
    judged: tuple[Evaluation, ...]
    status: RunStatus | None
    store_url: str | None

    @property
    def name(self) -> str:
        return self.cell.run_id

    @property
    def is_finished(self) -> bool:
        return self.status is not None and self.status.is_finished

    def run(self, tell: Callable[[Any], None]) -> CellProgress:
        """Run the search. `tell` gets progress. Raises `EvovpoError`, or `FatalError` if the store fails."""

        def told(progress: Progress) -> None:
            tell(CellProgress(progress.search.standing.proposed, waits=progress.waits))

        began, end = sum(os.times()[:4]), time.monotonic() + self.config.proposer.patience_seconds
        request = RunRequest(self.problem, self.config, self.judged, self.name)
        try:
            while True:
                try:
                    outcome = start_or_resume(request, _open(self.store_url), on_tell=told)
                    break
                except UnreachableError as error:
                    if time.monotonic() > end:
                        raise
                    store = _open(self.store_url)
                    done = store.run_summary(self.name).proposed if store.has_run(self.name) else 0
                    tell(CellProgress(done, waits=f"waiting: {error}"))
                    time.sleep(_PAUSE_SECONDS)
        except RunHeldError:
            raise
        except StoreError as error:
            raise FatalError(error) from error
        spent = sum(os.times()[:4]) - began
        return CellProgress(outcome.evaluations, outcome.status == "solved", cpu_seconds=spent)


@lru_cache(maxsize=1)
def _open(store_url: str | None) -> Store:
    return Store.open(store_url, create=False)


def sized(works: Sequence[Work], jobs: int | None, executor: str | None = None) -> list[Work]:
    """Return `works` with the cores divided among `jobs` parallel runs.

    A run keeps the number of workers in its settings, if any. `executor`, if given, applies to all runs.
    """
    cores = os.cpu_count() or 1
    share = max(1, cores // (jobs or cores))
    found = []
    for work in works:
        chosen = work.config.sandbox
        sandbox = {"workers": chosen.workers or share, "executor": executor or chosen.executor}
        found.append(replace(work, config=work.config.changed(sandbox=sandbox)))
    return found


@contextlib.contextmanager
def only_batch(store_url: str | None) -> Iterator[None]:
    """Let no other batch use the SQLite file of a store until the `with` block or the process ends.

    Raises `StoreError` if another batch uses the file. On a database server, several batches may run.
    """
    address = parse_url(store_url)
    if address.get_backend_name() != "sqlite":
        yield
        return
    path = Path(f"{address.database}.batch")
    try:
        held = hold(path)
    except FileHeldError:
        raise StoreError(
            f"another batch works on {address.database}; wait for it or end it, or give another --store"
        ) from None
    except OSError as error:
        raise StoreError(f"{path}: the store cannot be held ({error.strerror}); give another") from error
    with held:
        yield
