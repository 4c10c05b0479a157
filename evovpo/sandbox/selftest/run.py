"""Runs the table of attacks against a sandbox and measures what an evaluation costs."""

import contextlib
import importlib.util
import os
import resource
import secrets
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from evovpo.sandbox.evaluator_result import WholeResult
from evovpo.sandbox.evaluators import WholeJob, WholeSandbox
from evovpo.sandbox.local import Sandbox
from evovpo.sandbox.probe import Level
from evovpo.sandbox.proxy import ProxySandbox
from evovpo.sandbox.result import Result
from evovpo.sandbox.selftest.attack import HIDDEN_ANSWER, OTHER_CANDIDATE, QUICK, Attack, Target
from evovpo.sandbox.selftest.attacks import (
    attacks,
    is_untouched,
    pretend_secrets,
    proxy_attacks,
    whole_attacks,
)
from evovpo.types import Json, Limits, Status

COST_EVALUATIONS = 300
MODE_EVALUATIONS = 10
EVALUATOR = """
import importlib.util

def evaluate(program_path):
    spec = importlib.util.spec_from_file_location("program", program_path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return {"done": program.f(1)}
"""
"""What the attacks of the other modes are run by."""
TRIVIAL = "def f(x):\n    return x + 1\n"
WITH_NUMPY = "import numpy as np\ndef f(x):\n    return np.arange(10) * x\n"

_KEY = "OPENAI_API_KEY"
_answers: list[str] = []


class Runner(Protocol):
    """What the attacks run in: a `Sandbox` or one of its fork-servers."""

    def run(
        self, code: str, entry: str, cases: Sequence[Sequence[Json]], limits: Limits, per_case: bool
    ) -> Result: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attack ended."""

    name: str
    is_held: bool
    result: Result


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU milliseconds of one evaluation: supervisor, fork-server and child together."""

    trivial: float
    """A one-line program, fork-server without numpy."""
    numpy: float | None
    """A program that uses numpy, preloaded; None if it is not installed."""
    whole: float | None = None
    """A trivial evaluator with its candidate in one fresh process; None at a level without this mode."""
    proxy: float | None = None
    """The same with the candidate in another process."""


def hidden_file() -> str:
    """Return a file below the Python installation that the attacks expect to be hidden."""
    return contextlib.__file__


@contextlib.contextmanager
def exposed_target() -> Iterator[Target]:
    """Set up what the attacks look for: a home with a key, an open port, a key in the environment."""
    before = os.environ.get(_KEY)
    os.environ[_KEY] = "sk-secret"
    try:
        with tempfile.TemporaryDirectory(prefix="evovpo-selftest-") as home, socket.socket() as listener:
            pretend_secrets(home)
            listener.bind(("127.0.0.1", 0))
            listener.listen(5)
            yield Target(home, os.getpid(), listener.getsockname()[1], hidden_file())
    finally:
        os.environ.pop(_KEY)
        if before is not None:
            os.environ[_KEY] = before


def run_attacks(runner: Runner, target: Target, table: Sequence[Attack] | None = None) -> Iterator[Outcome]:
    """Run the attacks and yield how each ended, and last whether the home is untouched."""
    plant_secrets(runner)
    for attack in attacks(target) if table is None else table:
        yield run_attack(runner, attack)
    yield Outcome("home untouched", is_untouched(target.home), Result(Status.OK, [[]]))


def plant_secrets(runner: Runner) -> None:
    """Put in place what later programs search memory for: an answer here, data in another program."""
    _answers.append(HIDDEN_ANSWER + secrets.token_hex(8))
    code = f"X = {OTHER_CANDIDATE!r}\ndef f(x):\n    print(x)\n    return x + X"
    runner.run(code, "f", [[OTHER_CANDIDATE]], Limits(), False)


def run_attack(runner: Runner, attack: Attack) -> Outcome:
    """Return how one attack ended."""
    result = runner.run(attack.code, "f", [[1]], attack.limits, False)
    is_held = result.status in attack.expected and (result.status is not Status.OK or result.outputs == [[]])
    return Outcome(attack.name, is_held, result)


@contextlib.contextmanager
def evaluator_folder() -> Iterator[Path]:
    """Make a folder with an evaluator for the time of a block."""
    with tempfile.TemporaryDirectory(prefix="evovpo-selftest-") as folder:
        Path(folder, "evaluator.py").write_text(EVALUATOR)
        yield Path(folder)


def run_evaluator(sandbox: WholeSandbox | ProxySandbox, code: str, limits: Limits = QUICK) -> WholeResult:
    """Return what the evaluator of `evaluator_folder` says of a program."""
    return sandbox.run(WholeJob({"program.py": code}, "program.py", "evaluator.py"), limits)


def run_mode_attacks(level: Level, target: Target) -> Iterator[Outcome]:
    """Run the attacks on evaluators that import their candidate, in both modes, and yield how each ended."""
    with evaluator_folder() as folder:
        with WholeSandbox(folder, workers=1, level=level, retries=0) as whole:
            for attack in whole_attacks(target):
                yield _mode_outcome("whole", whole, attack)
        with ProxySandbox(folder, workers=1, level=level, retries=0, preload=()) as proxy:
            for attack in proxy_attacks(target):
                yield _mode_outcome("proxy", proxy, attack)
    yield Outcome("whole, proxy: home untouched", is_untouched(target.home), Result(Status.OK, [[]]))


def _mode_outcome(mode: str, sandbox: WholeSandbox | ProxySandbox, attack: Attack) -> Outcome:
    """Return how an attack ended, and that the next program runs."""
    found = run_evaluator(sandbox, attack.code, attack.limits)
    following = run_evaluator(sandbox, TRIVIAL)
    outputs = [dict(found.metrics).get("done")]
    is_held = found.status in attack.expected and (found.status is not Status.OK or outputs == [[]])
    result = Result(found.status, outputs, found.detail, cpu_ms=found.cpu_ms, isolation=found.isolation)
    return Outcome(f"{mode}: {attack.name}", is_held and following.status is Status.OK, result)


def measure_costs(level: Level) -> Costs:
    """Return what an evaluation costs at a level."""
    has_numpy = importlib.util.find_spec("numpy") is not None
    trivial = _cost(level, (), TRIVIAL)
    numpy = _cost(level, ("numpy",), WITH_NUMPY) if has_numpy else None
    if not level.has_landlock:
        return Costs(trivial, numpy)
    with evaluator_folder() as folder:
        with WholeSandbox(folder, workers=1, level=level) as whole:
            whole_cost = _cost_of_mode(whole)
        with ProxySandbox(folder, workers=1, level=level, preload=()) as proxy:
            return Costs(trivial, numpy, whole_cost, _cost_of_mode(proxy))


def _cost_of_mode(sandbox: WholeSandbox | ProxySandbox) -> float:
    """Return CPU milliseconds of an evaluation; without those of this process, which are few."""
    results = [run_evaluator(sandbox, TRIVIAL) for _ in range(MODE_EVALUATIONS + 1)][1:]
    for result in results:
        if result.status is not Status.OK:
            raise AssertionError(f"a harmless program ended with {result.status}: {result.detail}")
    return sum(result.cpu_ms for result in results) / MODE_EVALUATIONS


def _cost(level: Level, preload: tuple[str, ...], code: str) -> float:
    with Sandbox(workers=1, preload=preload, level=level, minimum_level=level) as sandbox:
        sandbox.run(code, "f", [[1]])
        before = _own_cpu_seconds() + sandbox.cpu_seconds()
        for number in range(COST_EVALUATIONS):
            result = sandbox.run(code, "f", [[number]])
            if result.status is not Status.OK:
                raise AssertionError(f"a harmless program ended with {result.status}: {result.detail}")
        return (_own_cpu_seconds() + sandbox.cpu_seconds() - before) / COST_EVALUATIONS * 1e3


def _own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
