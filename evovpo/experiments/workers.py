"""Runs the cells of a batch in a bounded number of processes, each one cell after another.

A process keeps what is dear to load (torch above all) from cell to cell. All that a cell does is in the
store, so a process may end anywhere: its cell is taken up again, by another process or later. Messages are
for people and for counting; nothing depends on their arrival.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from evovpo.experiments.plan import Work
    from evovpo.runs.driver import Progress
    from evovpo.runs.request import RunRequest
    from evovpo.store import Store

TELL_SECONDS = 0.25
"""Shortest time between two messages about one cell."""
STOP_SECONDS = 20.0
"""How long processes that are told to stop may take to store where they are."""
_TAKEN_UP = 3
"""How often a cell is begun whose process was ended from outside."""


class Started(NamedTuple):
    """A process began with a cell, or took it up."""

    run_id: str


class Told(NamedTuple):
    """Where a cell stands."""

    run_id: str
    proposed: int
    best_mean_reward: float


class Ended(NamedTuple):
    """A cell came to its end."""

    run_id: str
    proposed: int
    best_mean_reward: float
    solved: bool


class Failed(NamedTuple):
    """A cell could not go on; what it stored stays."""

    run_id: str
    reason: str
    is_store: bool = False
    """True where the store failed, which ends the whole batch."""


Message: TypeAlias = Started | Told | Ended | Failed


# ---------------------------------------------------------------- in a process of its own


def serve(pipe: Connection, store_url: str | None) -> None:
    """Run the cells that come through `pipe` until none comes any more; for a fresh process."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch: processes share the cores
    os.setpgid(0, 0)  # Ctrl-C in a terminal goes to the parent alone, which says when to stop
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from evovpo.errors import EvovpoError
    from evovpo.store import Store

    with contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        try:
            store = Store.open(store_url, create=False)
        except EvovpoError as error:
            pipe.send(Failed("", str(error), is_store=True))
            return
        with store:
            while (work := pipe.recv()) is not None:
                pipe.send(_run(work, store, pipe))


def _end_with_parent() -> None:
    """Leave at once when the parent is gone: a later batch may take the same cell up."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run(work: Work, store: Store, pipe: Connection) -> Ended | Failed:
    """Start a cell, or take it up where its last stored judgement left it."""
    from evovpo.errors import EvovpoError, RunHeldError, StoreError
    from evovpo.runs.run import start_or_resume

    run_id = work.cell.run_id
    shown_at = float("-inf")

    def told(progress: Progress) -> None:
        nonlocal shown_at
        best = progress.search.best
        if time.monotonic() - shown_at >= TELL_SECONDS and best is not None:
            shown_at = time.monotonic()
            pipe.send(Told(run_id, progress.search.proposed, best.mean_reward))

    pipe.send(Started(run_id))
    try:
        request = RunRequest(work.problem, work.config, work.judged, run_id)
        outcome = start_or_resume(request, store, on_tell=told)
    except EvovpoError as error:
        is_store = isinstance(error, StoreError) and not isinstance(error, RunHeldError)
        return Failed(run_id, str(error), is_store)
    except Exception as error:  # a fault of ours in one cell is shown, and leaves the others their turn
        traceback.print_exc(file=sys.stderr)
        return Failed(run_id, f"{type(error).__name__}: {error}")
    return Ended(run_id, outcome.evaluations, outcome.best_mean_reward, outcome.solved)


# ---------------------------------------------------------------- in the parent


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    work: Work | None = None


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


def run_all(
    works: Sequence[Work],
    store_url: str | None,
    jobs: int | None,
    on_message: Callable[[Message], None],
    on_wait: Callable[[], None] = lambda: None,
) -> list[Failed]:
    """Run cells in `jobs` processes, by default one a core, and return those that failed; the others ended.

    A cell whose process is ended from outside is taken up twice more. `on_wait` is called several times a
    second. Raises `StoreError` as soon as the store fails, and `KeyboardInterrupt`; in both cases the other
    processes store where they are and end first.
    """
    from evovpo.errors import StoreError

    jobs = jobs or os.cpu_count() or 1
    waiting = deque(works)
    begun: dict[str, int] = {}
    failed: list[Failed] = []
    workers: list[_Worker] = []
    try:
        while waiting or any(worker.work for worker in workers):
            while waiting and sum(worker.work is not None for worker in workers) < jobs:
                worker = next((one for one in workers if one.work is None), None)
                if worker is None:
                    worker = _start(store_url)
                    workers.append(worker)
                worker.work = waiting.popleft()
                begun[worker.work.cell.run_id] = begun.get(worker.work.cell.run_id, 0) + 1
                with contextlib.suppress(BrokenPipeError):  # it is gone, which is seen below
                    worker.pipe.send(worker.work)
            ready = wait([worker.pipe for worker in workers], TELL_SECONDS)
            for worker in [one for one in workers if one.pipe in ready]:
                try:
                    message: Message = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    workers.remove(worker)
                    worker.process.join()
                    if worker.work is None:
                        continue
                    if begun[worker.work.cell.run_id] < _TAKEN_UP:
                        waiting.appendleft(worker.work)
                        continue
                    message = Failed(worker.work.cell.run_id, _end_of(worker.process))
                if isinstance(message, Failed) and message.is_store:
                    raise StoreError(message.reason)
                if isinstance(message, Failed):
                    failed.append(message)
                if isinstance(message, Failed | Ended):
                    worker.work = None
                on_message(message)
            on_wait()
    finally:
        _stop(workers)
    return failed


@contextlib.contextmanager
def only_batch(store_url: str | None) -> Iterator[None]:
    """Hold the SQLite file of a store against a second batch; the hold ends with the process.

    A database server is not held: of two batches with the same cells one fails there. Raises `StoreError`.
    """
    from evovpo.errors import FileHeldError, StoreError
    from evovpo.files import hold
    from evovpo.store.database import parse_url

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


def _end_of(process: SpawnProcess) -> str:
    code = process.exitcode or 0
    how = f"by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"with code {code}"
    return f"its process ended {how} each of {_TAKEN_UP} times; if memory was short, use fewer --jobs"


def _start(store_url: str | None) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, store_url), daemon=True)
    # Until the process takes Ctrl-C into its own hands it must not end by it, half imported.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)
    theirs.close()
    return _Worker(process, ours)


def _stop(workers: Sequence[_Worker]) -> None:
    """End processes: idle ones at once, busy ones after they stored where they are."""
    for worker in workers:
        with contextlib.suppress(BrokenPipeError, ProcessLookupError):
            if worker.work is not None and worker.process.pid is not None:
                os.kill(worker.process.pid, signal.SIGINT)
            worker.pipe.send(None)
    end = time.monotonic() + STOP_SECONDS
    try:
        for worker in workers:
            while worker.process.is_alive() and time.monotonic() < end:
                with contextlib.suppress(EOFError, OSError):
                    if wait([worker.pipe, worker.process.sentinel], 0.1) == [worker.pipe]:
                        worker.pipe.recv()  # so that none waits for a full pipe
    finally:
        for worker in workers:
            if worker.process.is_alive():
                worker.process.kill()
            worker.process.join()
            worker.pipe.close()
