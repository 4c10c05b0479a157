"""Joint coverage of the objectives: how well all programs of a run together reach high rewards."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evovpo.analysis.statistics import Array

_POINTS = 20_000
"""Number of random points for the hypervolume. Its standard error is then at most 0.0036."""


class Coverage(NamedTuple):
    """How well all programs of a run together cover the objectives, after `evaluations` evaluations."""

    evaluations: int
    expected_best: float
    """Expected reward of the best program over random weightings, E_w max w·r."""
    hypervolume: float
    """Share of the unit cube that lies below at least one reward vector, estimated on fixed random points."""


def coverage_curve(vectors: Sequence[tuple[int, Sequence[float]]], weights_K_D: Array) -> list[Coverage]:
    """Return each new joint coverage. `vectors` lists (evaluations, rewards), sorted by evaluations."""
    points_P_D = np.random.default_rng(0).random((_POINTS, weights_K_D.shape[1]))
    reached = np.zeros(len(weights_K_D))
    curve: dict[int, Coverage] = {}
    front_F_D = np.empty((0, weights_K_D.shape[1]))
    for evaluations, vector in vectors:
        if (front_F_D >= vector).all(axis=1).any():
            continue
        front_F_D = np.vstack([front_F_D[~(front_F_D <= vector).all(axis=1)], vector])
        reached = np.maximum(reached, weights_K_D @ np.asarray(vector))
        is_below = (points_P_D <= vector).all(axis=1)
        if is_below.any():
            points_P_D = points_P_D[~is_below]  # keep only points that lie below no vector
        point = Coverage(evaluations, float(reached.mean()), 1.0 - len(points_P_D) / _POINTS)
        if not curve or point[1:] != next(reversed(curve.values()))[1:]:
            curve[evaluations] = point
    return list(curve.values())


def coverage(vectors_N_D: Array, weights_K_D: Array) -> Coverage:
    count = len(vectors_N_D)
    return coverage_curve([(count, vector) for vector in vectors_N_D], weights_K_D)[-1]
