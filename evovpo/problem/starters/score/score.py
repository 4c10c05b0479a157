"""Converts a program's outputs to rewards. Programs never see this file: it runs outside the sandbox."""

import math

SMALL = [0.01, 0.05, 0.2, 0.6]
LARGE = [2.0, 10.0, 300.0, 7000.0]


def cases():
    """Return lists of arguments; the program is called once with each list."""
    return [[x] for x in SMALL + LARGE]


def closeness(output, x):
    """Return 1.0 for an exact output, else less. An output can be any JSON value, so check its type."""
    if isinstance(output, bool) or not isinstance(output, (int, float)):
        return 0.0
    return 1.0 / (1.0 + abs(output - math.sqrt(x)) / math.sqrt(x))


def score(outputs):
    """Return a reward from 0 to 1 for each objective in problem.toml; higher is better.

    You can also return a pair (rewards, text). The text is shown to the model that improves the program.
    """
    values = [closeness(output, x) for output, x in zip(outputs, SMALL + LARGE)]
    return {
        "small": sum(values[: len(SMALL)]) / len(SMALL),
        "large": sum(values[len(SMALL) :]) / len(LARGE),
    }
