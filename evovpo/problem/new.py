"""Makes a new problem folder, which works as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from evovpo.errors import ProblemError, nearest_hint

_EXAMPLES_TOML = """\
[problem]
# What is wanted, in words. A model reads it, and so do people.
statement = "Turn 'Last, First' into 'First Last'; leave a name without a comma as it is."
# The function that every program defines, and the names of its parameters.
entry = "solve"
inputs = ["name"]

# What one program may use on all rows together; these are the defaults.
# [limits]
# wall_seconds = 2.0
# cpu_seconds = 2
# memory_mb = 512

# Axes of the grid that keeps different programs alive: "length" (characters) or "reward:row-1".
# Give edges (ascending), or a number of bins whose edges are learned once.
# [[features]]
# name = "length"
# bins = 8
"""

_EXAMPLES_SEED = '''\
"""A starting program: it must run, it need not be right."""


def solve(name):
    return name
'''

_EXAMPLES_JSON = """\
{
  "train": [
    {"inputs": ["Lovelace, Ada"], "output": "Ada Lovelace"},
    {"inputs": ["Turing, Alan"], "output": "Alan Turing"},
    {"inputs": ["Hopper, Grace"], "output": "Grace Hopper"},
    {"inputs": ["Plato"], "output": "Plato"},
    {"inputs": ["Hypatia"], "output": "Hypatia"}
  ],
  "heldout": [
    {"inputs": ["Noether, Emmy"], "output": "Emmy Noether"},
    {"inputs": ["Euclid"], "output": "Euclid"}
  ]
}
"""

_SCORE_TOML = """\
# Where a starting program is one formula of numbers, as here, the built-in model writes more of them. For any
# other program an instruction model does: evovpo evolve FOLDER --base-url URL --model NAME
[problem]
# What is wanted, in words. A model reads it, and so do people.
statement = "Approximate the square root of x without importing anything."
# The function that every program defines, and the names of its parameters.
entry = "solve"
inputs = ["x"]

# One section for each component of the reward vector; score.py returns exactly these names.
[[objectives]]
name = "small"
description = "closeness for x below 1"

[[objectives]]
name = "large"
description = "closeness for x above 1"

# What one program may use on all cases together; these are the defaults.
# [limits]
# wall_seconds = 10.0
# cpu_seconds = 10
# memory_mb = 512

# Axes of the grid that keeps different programs alive: "length" (characters) or "reward:OBJECTIVE".
# Give edges (ascending), or a number of bins whose edges are learned once.
# [[features]]
# name = "length"
# bins = 8
"""

_SCORE_SEED = '''\
"""A starting program: it must run, it need not be good."""


def solve(x):
    return (x + 1) / 2
'''

_SCORE_PY = '''\
"""Turns a program's outputs into rewards. Programs never see this file: it runs outside the sandbox."""

import math

SMALL = [0.01, 0.05, 0.2, 0.6]
LARGE = [2.0, 10.0, 300.0, 7000.0]


def cases():
    """Argument lists: one call of the program for each."""
    return [[x] for x in SMALL + LARGE]


def closeness(output, x):
    """From 1.0 (exact) towards 0.0. An output may be any JSON value, so look before using it."""
    if isinstance(output, bool) or not isinstance(output, (int, float)):
        return 0.0
    return 1.0 / (1.0 + abs(output - math.sqrt(x)) / math.sqrt(x))


def score(outputs):
    """One reward in [0, 1] for each objective of problem.toml; higher is better.

    A pair of that and a text may be returned too: a model that improves the program is shown the text.
    """
    values = [closeness(output, x) for output, x in zip(outputs, SMALL + LARGE)]
    return {
        "small": sum(values[: len(SMALL)]) / len(SMALL),
        "large": sum(values[len(SMALL) :]) / len(LARGE),
    }
'''

_SKELETONS: dict[str, dict[str, str]] = {
    "examples": {
        "problem.toml": _EXAMPLES_TOML,
        "seed.py": _EXAMPLES_SEED,
        "examples.json": _EXAMPLES_JSON,
    },
    "score": {"problem.toml": _SCORE_TOML, "seed.py": _SCORE_SEED, "score.py": _SCORE_PY},
}
"""Kind of problem -> file name -> text."""


def new_problem(folder: Path | str, kind: Literal["examples", "score"] = "examples") -> Path:
    """Write a working problem to start from into `folder` and return its path.

    The folder is made if it is missing. Raises `ProblemError`, having written nothing, if it holds
    anything already or cannot be made.
    """
    path = Path(folder)
    if kind not in _SKELETONS:
        raise ProblemError(f"kind of problem: found {kind!r}; {nearest_hint(kind, _SKELETONS)}")
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise ProblemError(
                f"{path}: expected a new or empty folder, found files in it; choose another name"
            )
        for name, text in _SKELETONS[kind].items():
            (path / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ProblemError(
            f"{path}: the folder cannot be written: {error.strerror}; choose another place"
        ) from error
    return path
