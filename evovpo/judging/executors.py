"""Chooses where programs are evaluated: in this machine's sandbox, or in sandboxes on a Ray cluster.

An executor is a `Judge`, called from several threads. Ray is imported only where it is used.
"""

import contextlib

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
