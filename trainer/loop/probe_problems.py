"""The problems that versions are compared on: set aside from a suite, or generated."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from evovpo.errors import ConfigError
from evovpo.types import Example, Limits, Objective, Problem, Program, content_id
from trainer.domains.strings.tasks import sample_task

_TRAIN_ROWS = 4
_HELDOUT_ROWS = 2


class Split(NamedTuple):
    """A suite cut in two."""

    searched: tuple[Problem, ...]
    """What search and training may use."""
    held_out: tuple[Problem, ...]
    """For probes only."""


def split_problems(problems: Sequence[Problem], held_out: int, seed: int = 0) -> Split:
    """Return the problems in their order, `held_out` of them set aside by a hash of the seed and their ids.

    The hash ranks the problems whatever their order, so a problem more in the suite moves at most one over.
    Raises `ConfigError` unless some are left on the searched side.
    """
    if not 0 <= held_out < len(problems):
        raise ConfigError(
            f"{held_out} of {len(problems)} problems were to be held out; expected 0 to {len(problems) - 1}:"
            " hold fewer out or use a larger suite"
        )
    ranked = sorted(problems, key=lambda problem: content_id("held out", str(seed), problem.id))
    chosen = {problem.id for problem in ranked[:held_out]}
    return Split(
        tuple(problem for problem in problems if problem.id not in chosen),
        tuple(problem for problem in problems if problem.id in chosen),
    )


def generated_problems(count: int, seed: int = 0) -> tuple[Problem, ...]:
    """Return `count` problems on strings made by the generator of the pretraining tasks.

    For probes around a single problem, which leaves nothing to hold out. Each has four or five training
    rows and two held-out ones. Problem i follows from the seed and i alone; pretraining draws from other
    seeds of the same endless supply.
    """
    return tuple(_generated_problem(seed, number) for number in range(count))


def _generated_problem(seed: int, number: int) -> Problem:
    rng = Random(f"probe:{seed}:{number}")
    task = sample_task(rng)
    while len(task.rows) < _TRAIN_ROWS + _HELDOUT_ROWS:
        task = sample_task(rng)
    examples = tuple(Example(row, output) for row, output in zip(task.rows, task.outputs, strict=True))
    train, heldout = examples[:-_HELDOUT_ROWS], examples[-_HELDOUT_ROWS:]
    parameters = tuple(f"text{index + 1}" for index in range(len(task.rows[0])))
    return Problem(
        id=f"generated/{seed}-{number}",
        version=content_id(repr(examples)),
        statement="",
        entry="solve",
        parameters=parameters,
        objectives=tuple(Objective(f"row-{row}") for row in range(1, len(train) + 1)),
        seeds=(Program(f"def solve({', '.join(parameters)}):\n    return {parameters[0]}\n"),),
        limits=Limits(cpu_seconds=2),  # not the wall clock, which a busy machine makes short
        train=train,
        heldout=heldout,
    )
