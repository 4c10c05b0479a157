"""Runs the cells of a batch: each starts, or goes on where its last stored judgement left it."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from evovpo.errors import FileHeldError, RunHeldError, StoreError
from evovpo.experiments.plan import Work
from evovpo.experiments.pool import Failed, FatalError, Message, run_all
from evovpo.files import hold
from evovpo.runs.driver import Progress
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start_or_resume
from evovpo.store import Store
from evovpo.store.database import parse_url


class Standing(NamedTuple):
    """Where the run of a cell stands."""

    proposed: int
    best_mean_reward: float
    solved: bool = False


@dataclass(frozen=True)
class CellRun:
    """A cell to be run in a process of its own."""

    work: Work
    store_url: str | None

    @property
    def name(self) -> str:
        """Return the id of the run."""
        return self.work.cell.run_id

    def run(self, tell: Callable[[Any], None]) -> Standing:
        """Run it to its end. Raises `EvovpoError`, and `FatalError` if the store fails."""

        def told(progress: Progress) -> None:
            if progress.search.best is not None:
                tell(Standing(progress.search.proposed, progress.search.best.mean_reward))

        work = self.work
        try:
            request = RunRequest(work.problem, work.config, work.judged, self.name)
            outcome = start_or_resume(request, _open(self.store_url), on_tell=told)
        except RunHeldError:
            raise
        except StoreError as error:
            raise FatalError(error) from error
        return Standing(outcome.evaluations, outcome.best_mean_reward, outcome.solved)


@lru_cache(maxsize=1)
def _open(store_url: str | None) -> Store:
    """Return the store of this process, which is open until it ends."""
    return Store.open(store_url, create=False)


def run_cells(
    works: Sequence[Work],
    store_url: str | None,
    jobs: int | None,
    on_message: Callable[[Message], None],
    on_wait: Callable[[], None] = lambda: None,
) -> list[Failed]:
    """Run cells as `run_all`; what is told and what they end with is their `Standing`.

    Raises `StoreError` as soon as the store fails.
    """
    return run_all([CellRun(work, store_url) for work in works], jobs, on_message, on_wait)


def sized(works: Sequence[Work], jobs: int | None, executor: str | None = None) -> list[Work]:
    """Return the work with the cores shared out between cells that run side by side, where nobody chose.

    With `executor` programs run there, in place of what the settings say.
    """
    share = max(1, (os.cpu_count() or 1) // (jobs or os.cpu_count() or 1))
    return [
        dataclasses.replace(
            work,
            config=work.config.changed(
                sandbox={
                    "workers": work.config.sandbox.workers or share,
                    "executor": executor or work.config.sandbox.executor,
                }
            ),
        )
        for work in works
    ]


@contextlib.contextmanager
def only_batch(store_url: str | None) -> Iterator[None]:
    """Hold the SQLite file of a store against a second batch; the hold ends with the process.

    A database server is not held: of two batches with the same cells one fails there. Raises `StoreError`.
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
