"""Chooses where programs are evaluated: in the sandbox of this machine or on a Ray cluster.

An executor is a `Judge` that several threads call. Ray is imported only if it is used.
"""

import contextlib
from collections.abc import Iterator

from evovpo.config import Config
from evovpo.errors import ConfigError
from evovpo.judging.evaluator import Judge, Scorer, open_evaluator
from evovpo.types import Problem


@contextlib.contextmanager
def open_executor(problem: Problem, config: Config, scorer: Scorer | None = None) -> Iterator[Judge]:
    """Yield the judge chosen by `sandbox.executor`. Raises the errors of `open_evaluator` and `connected`.

    `scorer` runs in this process. Raises `ConfigError` if `scorer` is given and the executor is not `local`.
    """
    executor = config.sandbox.executor
    if executor == "local":
        with open_evaluator(problem, config, scorer) as judge:
            yield judge
        return
    if scorer is not None:
        raise ConfigError(
            f"sandbox.executor is {executor}, and a score function runs in this process; set it to local"
        )
    from evovpo.judging.ray import RayJudge, connected

    with connected(executor):
        yield RayJudge(problem, config)
