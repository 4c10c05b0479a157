"""Evaluates programs in tasks on a Ray cluster.

Every machine needs the same version of this package, and the problem's scorer or evaluator at the same path.
A task is run again if its process or machine is lost.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from evovpo.config import Config, SandboxConfig
from evovpo.errors import ConfigError, EvovpoError, SandboxError
from evovpo.judging.evaluator import Judge, open_evaluator
from evovpo.types import Evaluation, Problem, Program, Status

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError as missing:
    raise ConfigError(
        f"sandbox.executor names Ray, which is not installed ({missing}); run: pip install 'evovpo[ray]', or "
        "use executor local"
    ) from missing

_RETRIES = 5
_MOST_HELD = 4
_OBJECT_STORE_BYTES = 100 << 20


class RayJob(NamedTuple):
    problem: Problem
    config: Config
    """The settings for evaluations; all others have default values, so that runs can share an evaluator."""


_held: list[tuple[RayJob, Judge, contextlib.ExitStack]] = []


def held_judge(job: RayJob) -> Judge:
    """Return an evaluator for `job`. The four evaluators used last stay open for later calls."""
    place = next((place for place, held in enumerate(_held) if held[0] == job), None)
    if place is not None:
        _held.append(_held.pop(place))
    else:
        if len(_held) == _MOST_HELD:
            _held.pop(0)[2].close()
        stack = contextlib.ExitStack()
        _held.append((job, stack.enter_context(open_evaluator(*job)), stack))
    return _held[-1][1]


def _evaluate(job: RayJob, method: str, program: Program) -> Any:
    return getattr(held_judge(job), method)(program)


class RayJudge:
    """A judge that evaluates each program in a task of the connected Ray cluster."""

    def __init__(self, problem: Problem, config: Config) -> None:
        self._problem = problem
        one_at_a_time = config.sandbox.changed(workers=1)
        judging = Config(sandbox=one_at_a_time, store=config.store, evaluator=config.evaluator)
        self._job = ray.put(RayJob(problem, judging))
        self._evaluate = ray.remote(**options(config.sandbox), max_retries=_RETRIES)(_evaluate)

    def evaluate(self, program: Program) -> Evaluation:
        """Return the evaluation of `program`; the status is `sandbox_error` if the cluster cannot run it."""
        try:
            found: Evaluation = self._result("evaluate", program)
            return found
        except RayError as error:
            return Evaluation(
                program_id=program.id,
                problem_version=self._problem.version,
                status=Status.SANDBOX_ERROR,
                rewards=None,
                feedback=f"Ray could not run it in {1 + _RETRIES} tries: {first_line(error)}",
                seconds=0.0,
                isolation="none",
            )

    def evaluate_heldout(self, program: Program) -> tuple[bool, ...]:
        """Call `Evaluator.evaluate_heldout` in a task. Raises `SandboxError` if the sandbox or Ray fails."""
        try:
            return tuple(self._result("evaluate_heldout", program))
        except RayError as error:
            raise SandboxError(
                f"the held-out rows of {self._problem.id} could not be run on Ray: {first_line(error)}"
            ) from error

    def _result(self, method: str, program: Program) -> Any:
        try:
            return ray.get(self._evaluate.remote(self._job, method, program))
        except RayTaskError as error:
            if isinstance(error.cause, EvovpoError):
                raise error.cause from error
            raise


def options(sandbox: SandboxConfig) -> dict[str, Any]:
    """Return the options of a Ray task that reserve the configured `resources` for the task."""
    taken: dict[str, Any] = dict(sandbox.resources)
    own: dict[str, Any] = {name: taken.pop(name) for name in ("num_cpus", "num_gpus") if name in taken}
    if "memory" in taken:
        own["memory"] = int(taken.pop("memory"))
    return {**own, "resources": taken}


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextlib.contextmanager
def connected(executor: str) -> Iterator[None]:
    """Connect to a Ray cluster for a `with` block, unless this process is already connected.

    `executor` is the cluster's address, or `ray` for the address in RAY_ADDRESS. Without RAY_ADDRESS, `ray`
    starts a cluster and sets RAY_ADDRESS in the `with` block. Raises `SandboxError` if connecting fails.
    """
    if ray.is_initialized():
        yield
        return
    _connect(None if executor == "ray" else executor)
    is_ours = executor == "ray" and "RAY_ADDRESS" not in os.environ
    if is_ours:
        os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    try:
        yield
    finally:
        if is_ours:
            del os.environ["RAY_ADDRESS"]
        ray.shutdown()


def _connect(address: str | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None and "RAY_ADDRESS" not in os.environ:
        # Programs have time limits: with Ray's default niceness of 15 everything else would run first.
        os.environ.setdefault("RAY_worker_niceness", "0")
        options |= {"include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
    try:
        ray.init(address=address, **options)
    except Exception as error:  # Ray raises a plain Exception if its processes do not start in time
        raise SandboxError(
            f"the Ray cluster at {address or os.environ.get('RAY_ADDRESS', 'this machine')} cannot be used: "
            f"{first_line(error)}; start it, correct --executor, or use executor local"
        ) from error
