"""Converts a program's outputs to rewards. Programs never see this file: it runs outside the sandbox."""

import math

SMALL = [0.01, 0.05, 0.2, 0.6]
LARGE = [2.0, 10.0, 300.0, 7000.0]


def cases():
    """Argument lists: one call of the program for each."""
    return [[x] for x in SMALL + LARGE]


def closeness(output, x):
    """From 1.0 (exact) towards 0.0. An output may be any JSON value, so check its type first."""
    if isinstance(output, bool) or not isinstance(output, (int, float)):
        return 0.0
    return 1.0 / (1.0 + abs(output - math.sqrt(x)) / math.sqrt(x))


def score(outputs):
    """One reward in [0, 1] for each objective of problem.toml; higher is better.

    Or return a pair (rewards, text): the text is shown to a model that improves the program.
    """
    values = [closeness(output, x) for output, x in zip(outputs, SMALL + LARGE)]
    return {
        "small": sum(values[: len(SMALL)]) / len(SMALL),
        "large": sum(values[len(SMALL) :]) / len(LARGE),
    }
