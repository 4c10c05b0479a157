"""Where evaluations happen: in this machine's sandbox, or in the same sandbox on Ray's machines.

An executor is a `Judge`, called from several threads. Ray is imported only where it is used.
"""

import contextlib
from collections.abc import Collection, Iterator

from evovpo.config import Config
from evovpo.errors import ConfigError
from evovpo.judging.evaluator import Judge, Scorer, open_evaluator
from evovpo.types import Problem


def open_executor(
    problem: Problem, config: Config, scorer: Scorer | None = None
) -> contextlib.AbstractContextManager[Judge]:
    """Give what judges programs where `sandbox.executor` says; raises as `open_evaluator` and `open_ray`.

    A `scorer` that is a function of this process judges here alone; elsewhere it is a `ConfigError`.
    """
    if config.sandbox.executor == "local":
        return open_evaluator(problem, config, scorer)
    if scorer is not None:
        raise ConfigError(
            f"sandbox.executor is {config.sandbox.executor}, and a score function runs in this process; set "
            "it to local"
        )
    from evovpo.judging.ray import open_ray

    return open_ray(problem, config)


@contextlib.contextmanager
def open_cluster(executors: Collection[str]) -> Iterator[None]:
    """Check that clusters can be reached, and hold one here for processes started meanwhile if it is needed.

    That is where an executor is `ray` and the environment variable RAY_ADDRESS names none. Raises
    `ConfigError` without Ray and `SandboxError` for a cluster that cannot be reached.
    """
    addresses = sorted(set(executors) - {"local"})
    with contextlib.ExitStack() as held:
        if addresses:
            from evovpo.judging.ray import hold_cluster

            for address in addresses:
                held.enter_context(hold_cluster(address))
        yield
