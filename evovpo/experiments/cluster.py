"""Runs the tasks of `run_all` on a Ray cluster, and restarts the tasks of machines that are lost.

Every machine needs the same version of this package, and the tasks' files under the same paths.
"""

import contextlib
import os
import socket
from collections import deque
from collections.abc import Collection, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from evovpo.errors import ConfigError
from evovpo.experiments import pool
from evovpo.experiments.pool import FailedTask, Message, PoolTask, TaskDone
from evovpo.store.database import parse_url

_BEGUN = 10


@contextlib.contextmanager
def on_cluster(executor: str | None, store_url: str | None, judging: Collection[str] = ()) -> Iterator[None]:
    """If `executor` names a Ray cluster, let `run_all` run its tasks there within the `with` block.

    A cluster is named `ray` or `ray://HOST:PORT`. `judging` lists the clusters that evaluate programs. A
    cluster that the block starts ends with the block. Raises `ConfigError` if Ray is missing, or if the store
    is a file and the cluster has other machines. Raises `SandboxError` if a cluster cannot be reached.
    """
    is_here = executor in (None, "local")
    addresses = sorted({*judging, executor or "local"} - {"local"})
    with contextlib.ExitStack() as stack:
        if addresses:
            from evovpo.judging.ray import connected

            for address in addresses:
                stack.enter_context(connected(address))
        if not is_here:
            import ray

            others = {str(one["NodeManagerHostname"]) for one in ray.nodes()} - {socket.gethostname()}
            if others and parse_url(store_url).get_backend_name() == "sqlite":
                raise ConfigError(
                    f"the store is a file of this machine, and the cluster has others, as {min(others)}; "
                    "give a database server: --store postgresql+psycopg://USER@HOST/NAME"
                )
            pool.elsewhere = _do_there
        try:
            yield
        finally:
            pool.elsewhere = None


def _do(task: PoolTask, folder: Path, mailbox: Any) -> TaskDone | FailedTask:
    os.chdir(folder)
    return pool.attempt(task, mailbox.actor.put_nowait.remote)


def _do_there(tasks: Sequence[PoolTask], jobs: int | None) -> Generator[Message | None]:
    import ray
    from ray.exceptions import RayError
    from ray.util.queue import Queue

    from evovpo.judging.ray import first_line, options

    do, mailbox = ray.remote(max_retries=_BEGUN - 1)(_do), Queue(actor_options={"num_cpus": 0})
    waiting, under_way = deque(tasks), dict[Any, str]()
    try:
        while waiting or under_way:
            while waiting and len(under_way) < (jobs or len(tasks)):
                task = waiting.popleft()
                config = getattr(task, "config", None)  # tasks with settings run programs
                there = do.options(**options(config.sandbox)) if config else do
                under_way[there.remote(task, Path.cwd(), mailbox)] = task.name
            ended, _ = ray.wait(list(under_way), timeout=pool.TELL_SECONDS)
            with contextlib.suppress(RayError):  # the machine was lost with its progress messages
                said = mailbox.get_nowait_batch(mailbox.qsize())
                yield from (one for one in said if one.name in under_way.values())
            for one in ended:
                name = under_way.pop(one)
                try:
                    yield ray.get(one)
                except RayError as error:
                    yield FailedTask(name, f"Ray began it {_BEGUN} times: {first_line(error)}")
            yield None
    finally:
        for one in under_way:  # a cancelled task stores its progress
            ray.cancel(one)
        if under_way:
            ray.wait(list(under_way), num_returns=len(under_way), timeout=pool.STOP_SECONDS)
        mailbox.shutdown(force=True)
