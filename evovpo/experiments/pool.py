"""Runs tasks in a limited number of processes, one task at a time in each.

If a process dies, another process restarts its task, which continues from the stored progress.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple, Protocol, TypeAlias

TELL_SECONDS = 0.25
"""Minimum seconds between progress messages of a task, and maximum seconds between calls of `on_wait`."""
STOP_SECONDS = 20.0
_BEGUN = 3
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # processes share the cores
    # Returning large blocks to the system after every matrix product costs a fifth of the time.
    "MALLOC_MMAP_THRESHOLD_": str(1 << 33),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 33),
}


class PoolTask(Protocol):
    """A task for `run_all`. It must be picklable, because another process runs it."""

    @property
    def name(self) -> str:
        """Unique name of the task."""

    def run(self, tell: Callable[[Any], None]) -> Any:
        """Run the task, report progress to `tell`, and return the result. A `FatalError` ends all tasks."""


class FatalError(Exception):
    """An error that would also occur in all other tasks."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class TaskStarted(NamedTuple):
    name: str


class TaskProgress(NamedTuple):
    name: str
    value: Any


class TaskDone(NamedTuple):
    name: str
    value: Any


class FailedTask(NamedTuple):
    """A message: the task failed for `reason`. The stored progress of the task is kept."""

    name: str
    reason: str
    fatal: Exception | None = None


Message: TypeAlias = TaskStarted | TaskProgress | TaskDone | FailedTask


def serve(pipe: Connection) -> None:
    """Run the tasks received from `pipe` until None is received. This is the main function of a worker."""
    os.setpgid(0, 0)  # Ctrl-C in a terminal reaches only the parent, which stops this process
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while (task := pipe.recv()) is not None:
            pipe.send(attempt(task, pipe.send))


def end_with_parent() -> None:
    """Exit as soon as the parent process ends, so that no orphaned process continues a task."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def attempt(task: PoolTask, send: Callable[[Message], None]) -> TaskDone | FailedTask:
    from evovpo.errors import EvovpoError

    told_at = float("-inf")

    def tell(value: Any) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= TELL_SECONDS:
            told_at = time.monotonic()
            send(TaskProgress(task.name, value))

    send(TaskStarted(task.name))
    try:
        return TaskDone(task.name, task.run(tell))
    except FatalError as fatal:
        return FailedTask(task.name, str(fatal), fatal.error)
    except EvovpoError as error:
        return FailedTask(task.name, str(error))
    except Exception as error:  # a bug in one task is shown, and does not stop the others
        traceback.print_exc(file=sys.stderr)
        return FailedTask(task.name, f"{type(error).__name__}: {error}")


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    task: PoolTask | None = None


_kept: list[_Worker] | None = None


elsewhere: Callable[[Sequence[PoolTask], int | None], Generator[Message | None]] | None = None
"""A function that `run_all` calls instead of `_do_here`; None to run tasks on this machine."""


@contextlib.contextmanager
def kept_processes() -> Iterator[None]:
    """Let all calls of `run_all` in the `with` block share processes, which the outermost block ends."""
    global _kept
    if _kept is not None:
        yield
        return
    _kept = []
    try:
        yield
    finally:
        workers, _kept = _kept, None
        _stop(workers)


def run_all(
    tasks: Sequence[PoolTask],
    jobs: int | None,
    on_message: Callable[[Message], None],
    on_wait: Callable[[], None] = lambda: None,
) -> list[FailedTask]:
    """Run tasks in `jobs` processes, by default one per core, and return the failed tasks.

    A task whose process is killed is restarted up to twice. `on_wait` is called several times per second.
    After Ctrl-C or a `FatalError`, all processes are interrupted and store their progress; then
    `KeyboardInterrupt` or the task's error is raised.
    """
    failed: list[FailedTask] = []
    with contextlib.closing((elsewhere or _do_here)(tasks, jobs)) as messages:
        for message in messages:
            if message is None:
                on_wait()
                continue
            if isinstance(message, FailedTask):
                if message.fatal is not None:
                    raise message.fatal
                failed.append(message)
            on_message(message)
    return failed


def _do_here(tasks: Sequence[PoolTask], jobs: int | None) -> Generator[Message | None]:
    jobs = jobs or os.cpu_count() or 1
    waiting = deque(tasks)
    begun: dict[str, int] = {}
    workers = [] if _kept is None else _kept
    try:
        while waiting or any(worker.task for worker in workers):
            while waiting and sum(worker.task is not None for worker in workers) < jobs:
                worker = next((one for one in workers if one.task is None), None)
                if worker is None:
                    worker = _start()
                    workers.append(worker)
                worker.task = waiting.popleft()
                begun[worker.task.name] = begun.get(worker.task.name, 0) + 1
                with contextlib.suppress(BrokenPipeError):  # the process has died, which is handled below
                    worker.pipe.send(worker.task)
            ready = wait([worker.pipe for worker in workers], TELL_SECONDS)
            for worker in [one for one in workers if one.pipe in ready]:
                try:
                    message: Message = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    workers.remove(worker)
                    worker.process.join()
                    if worker.task is None:
                        continue
                    if begun[worker.task.name] < _BEGUN:
                        waiting.appendleft(worker.task)
                        continue
                    message = FailedTask(worker.task.name, _end_of(worker.process))
                if isinstance(message, FailedTask | TaskDone):
                    worker.task = None
                yield message
            yield None
    finally:
        if _kept is None or any(worker.task for worker in workers):
            _stop(workers)
            workers.clear()


def _end_of(process: SpawnProcess) -> str:
    code = process.exitcode or 0
    how = f"by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"with code {code}"
    return f"its process ended {how} each of {_BEGUN} times; if memory was short, use fewer --jobs"


def _start() -> _Worker:
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    # Ctrl-C must not end the process during its imports, before it sets its own handler.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)
    theirs.close()
    return _Worker(process, ours)


def _stop(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        with contextlib.suppress(BrokenPipeError, ProcessLookupError):
            if worker.task is not None and worker.process.pid is not None:
                os.kill(worker.process.pid, signal.SIGINT)
            worker.pipe.send(None)
    end = time.monotonic() + STOP_SECONDS
    try:
        for worker in workers:
            while worker.process.is_alive() and time.monotonic() < end:
                with contextlib.suppress(EOFError, OSError):
                    if wait([worker.pipe, worker.process.sentinel], 0.1) == [worker.pipe]:
                        worker.pipe.recv()  # so that no process blocks on a full pipe
    finally:
        for worker in workers:
            if worker.process.is_alive():
                worker.process.kill()
            worker.process.join()
            worker.pipe.close()
