"""Chooses where programs are evaluated: in a sandbox on this machine or on a Ray cluster."""

import contextlib
from collections.abc import Iterator

from evovpo.config import Config
from evovpo.errors import ConfigError
from evovpo.judging.evaluator import Judge, Scorer, open_evaluator
from evovpo.types import Problem


@contextlib.contextmanager
def open_executor(problem: Problem, config: Config, scorer: Scorer | None = None) -> Iterator[Judge]:
    """Yield a judge that evaluates programs on the executor named by the setting `sandbox.executor`.

    Raises `ConfigError` if `scorer` is given and the executor is not `local`. Also raises the errors of
    `open_evaluator` and `connected`.
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
