"""Runs the table of attacks against a sandbox and measures the cost of an evaluation."""

import contextlib
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from evovpo.sandbox.evaluators import ProxySandbox, WholeJob, WholeSandbox
from evovpo.sandbox.local import Sandbox
from evovpo.sandbox.openings import Openings, read_openings
from evovpo.sandbox.probe import Level
from evovpo.sandbox.result import Result, WholeResult
from evovpo.sandbox.selftest.attacks import (
    QUICK,
    Attack,
    AttackTarget,
    attacks,
    controls,
    proxy_attacks,
    whole_attacks,
)
from evovpo.sandbox.selftest.reach import HIDDEN_ANSWER, OTHER_CANDIDATE
from evovpo.sandbox.worker import ForkServer
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
"""The evaluator that calls the attacking program in the modes `whole` and `proxy`."""
TRIVIAL = "def f(x):\n    return x + 1\n"
HIDDEN_FILE = contextlib.__file__
WITH_NUMPY = "import numpy as np\ndef f(x):\n    return np.arange(10) * x\n"

_answers: list[str] = []


@dataclass(frozen=True, slots=True)
class AttackOutcome:
    """Outcome of one attack; `is_held` is true if the sandbox withstood it."""

    name: str
    is_held: bool
    status: Status = Status.OK
    outputs: Sequence[Json] = ()
    detail: str = ""
    cpu_ms: float = 0.0


@contextlib.contextmanager
def exposed_target() -> Iterator[AttackTarget]:
    """Yield targets for the attacks: a home folder with a key, an open port, a key in the environment."""
    with (
        mock.patch.dict(os.environ, {"OPENAI_API_KEY": "sk-secret"}),
        tempfile.TemporaryDirectory(prefix="evovpo-selftest-") as home,
        socket.socket() as listener,
    ):
        Path(home, ".ssh").mkdir()
        Path(home, ".ssh", "id_rsa").write_text("PRIVATE")
        Path(home, ".bashrc").write_text("#\n")
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        yield AttackTarget(home, os.getpid(), listener.getsockname()[1], HIDDEN_FILE)


def _is_untouched(home: str) -> bool:
    names = sorted(path.name for path in Path(home).iterdir())
    return names == [".bashrc", ".ssh"] and Path(home, ".bashrc").read_text() == "#\n"


def run_attacks(
    runner: Sandbox | ForkServer, target: AttackTarget, table: Sequence[Attack] | None = None
) -> Iterator[AttackOutcome]:
    """Run the attacks and yield the outcomes. The last outcome says whether the home folder is unchanged."""
    plant_secrets(runner)
    for attack in attacks(target) if table is None else table:
        yield run_attack(runner, attack)
    yield AttackOutcome("home untouched", _is_untouched(target.home))


def plant_secrets(runner: Sandbox | ForkServer) -> None:
    """Put secrets into memory for attacks to look for: one in this process, one in another program."""
    _answers.append(HIDDEN_ANSWER + secrets.token_hex(8))
    code = f"X = {OTHER_CANDIDATE!r}\ndef f(x):\n    print(x)\n    return x + X"
    runner.run(code, "f", [[OTHER_CANDIDATE]], Limits(), False)


def run_attack(runner: Sandbox | ForkServer, attack: Attack) -> AttackOutcome:
    result = runner.run(attack.code, "f", [[1]], attack.limits, False)
    return _outcome(attack.name, attack, result, result.outputs)


def _outcome(
    name: str, attack: Attack, result: Result | WholeResult, outputs: Sequence[Json]
) -> AttackOutcome:
    is_held = result.status in attack.expected and (result.status is not Status.OK or outputs == [[]])
    return AttackOutcome(name, is_held, result.status, outputs, result.detail, result.cpu_ms)


@contextlib.contextmanager
def _evaluator_sandboxes(level: Level, openings: Openings | None = None) -> Iterator[dict[str, WholeSandbox]]:
    with tempfile.TemporaryDirectory(prefix="evovpo-selftest-") as folder:
        Path(folder, "evaluator.py").write_text(EVALUATOR)
        opened = openings or Openings()
        with (
            WholeSandbox(folder, workers=1, level=level, retries=0, openings=opened) as whole,
            ProxySandbox(folder, workers=1, level=level, retries=0, preload=()) as proxy,
        ):
            yield {"whole": whole, "proxy": proxy}


def run_evaluator(sandbox: WholeSandbox, code: str, limits: Limits = QUICK) -> WholeResult:
    return sandbox.run(WholeJob({"program.py": code}, "program.py", "evaluator.py"), limits)


def run_mode_attacks(level: Level, target: AttackTarget) -> Iterator[AttackOutcome]:
    """Yield outcomes of attacks on `WholeSandbox` and `ProxySandbox`, which must still work afterwards."""
    with _evaluator_sandboxes(level) as modes:
        for mode, table in (("whole", whole_attacks(target)), ("proxy", proxy_attacks(target))):
            for attack in table:
                found = run_evaluator(modes[mode], attack.code, attack.limits)
                outputs = [dict(found.metrics).get("done")]
                outcome = _outcome(f"{mode}: {attack.name}", attack, found, outputs)
                goes_on = run_evaluator(modes[mode], TRIVIAL).status is Status.OK
                yield replace(outcome, is_held=outcome.is_held and goes_on)
    yield AttackOutcome("whole, proxy: home untouched", _is_untouched(target.home))


def run_controls(level: Level, target: AttackTarget) -> Iterator[AttackOutcome]:
    """Yield an outcome per permission: the attack must succeed with the permission and fail without it."""
    for word, attack in controls(target):
        done = []
        for openings in (None, read_openings([word], Path(target.home))):
            with _evaluator_sandboxes(level, openings) as modes:
                found = run_evaluator(modes["whole"], attack.code, attack.limits)
                done.append(dict(found.metrics).get("done") or [])
        tried = attack.code.count("done.append")
        is_held = [len(one) if isinstance(one, list) else None for one in done] == [0, tried]
        yield AttackOutcome(f"only with {word}", is_held, found.status, done, cpu_ms=found.cpu_ms)


def measure_costs(level: Level) -> dict[str, float | None]:
    """Return the CPU milliseconds of one evaluation by kind, or None for kinds that `level` cannot run."""
    costs: dict[str, float | None] = dict.fromkeys(("trivial", "numpy", "whole", "proxy"))
    costs |= {"trivial": _cost(level, (), TRIVIAL), "numpy": _cost(level, ("numpy",), WITH_NUMPY)}
    if level.has_landlock:
        with _evaluator_sandboxes(level) as modes:
            for mode, sandbox in modes.items():
                found = [_cpu_ms(run_evaluator(sandbox, TRIVIAL)) for _ in range(MODE_EVALUATIONS + 1)]
                costs[mode] = sum(found[1:]) / MODE_EVALUATIONS
    return costs


def _cost(level: Level, preload: tuple[str, ...], code: str) -> float:
    with Sandbox(workers=1, preload=preload, level=level, minimum_level=level) as sandbox:
        sandbox.run(code, "f", [[1]])
        (server,) = sandbox.workers
        before = time.process_time() + server.cpu_seconds()
        for number in range(COST_EVALUATIONS):
            _cpu_ms(sandbox.run(code, "f", [[number]]))
        return (time.process_time() + server.cpu_seconds() - before) / COST_EVALUATIONS * 1e3


def _cpu_ms(result: Result | WholeResult) -> float:
    if result.status is not Status.OK:
        raise AssertionError(f"a harmless program ended with {result.status}: {result.detail}")
    return result.cpu_ms
