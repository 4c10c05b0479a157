"""Runs a program on the rows of a table, in batches in the sandbox."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from evovpo.config import Config
from evovpo.errors import SandboxError
from evovpo.judging.evaluator import open_sandbox
from evovpo.types import Json, Problem, Program, Status

_BATCH = 250


def run_rows(
    problem: Problem,
    program: Program,
    config: Config,
    rows: Sequence[Sequence[Json]],
    on_rows: Callable[[int], None],
) -> list[tuple[Json, str | None]]:
    """Return the program's result for each argument list in `rows`: (output, None) or (None, error).

    `on_rows` is called with the size of each finished batch. Raises `SandboxError` if the sandbox fails.
    """
    workers = config.sandbox.workers or os.cpu_count() or 1
    with open_sandbox(problem, config) as sandbox, ThreadPoolExecutor(workers) as pool:

        def run(cases: Sequence[Sequence[Json]]) -> list[tuple[Json, str | None]]:
            result = sandbox.run(program.source, problem.entry, cases, problem.limits, per_case=True)
            if result.status is Status.SANDBOX_ERROR:
                raise SandboxError(result.detail)
            if result.status is Status.OK:
                return list(zip(result.outputs, result.errors, strict=True))
            if len(cases) == 1:
                return [(None, f"{result.status}: {result.detail}")]
            half = len(cases) // 2
            return run(cases[:half]) + run(cases[half:])

        found = []
        for part in pool.map(run, [rows[at : at + _BATCH] for at in range(0, len(rows), _BATCH)]):
            found += part
            on_rows(len(part))
    return found
