"""Runs the table of attacks against a sandbox and measures what an evaluation costs."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import resource
import secrets
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from evovpo.sandbox.attacks import (
    HIDDEN_ANSWER,
    OTHER_CANDIDATE,
    Attack,
    Target,
    attacks,
    is_untouched,
    pretend_secrets,
)
from evovpo.sandbox.local import Sandbox
from evovpo.sandbox.probe import Level
from evovpo.sandbox.result import Result
from evovpo.types import Json, Limits, Status

COST_EVALUATIONS = 300
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


def measure_costs(level: Level) -> Costs:
    """Return what an evaluation costs at a level."""
    has_numpy = importlib.util.find_spec("numpy") is not None
    return Costs(_cost(level, (), TRIVIAL), _cost(level, ("numpy",), WITH_NUMPY) if has_numpy else None)


def _cost(level: Level, preload: tuple[str, ...], code: str) -> float:
    with Sandbox(workers=1, preload=preload, level=level) as sandbox:
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
