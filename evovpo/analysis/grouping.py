"""Groups of reward components: their mean, and a clustering of similar components.

Over many components a random weighting is nearly even, and VPO rewards the mean; groups keep what differs.
They are a setting of the problem (`[grouping]` in `problem.toml`) that only the trainer and the doctor apply.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evovpo.types import Problem

Floats = npt.NDArray[np.float64]
Groups = tuple[tuple[int, ...], ...]
"""Indices of components, each in one group."""

MOST_COMPONENTS = 16
"""More components than this are grouped: weights of Dirichlet(1) over 16 have a standard deviation of 0.06,
and VPO's authors too cap the tests that they take as components at 16 (their release, `ryanboldi/vpo`)."""
ALIKE = 0.95
"""Components this correlated are taken as one: the mean correlation of the one task on which VPO's authors
report no gain (UltraFeedback with five reward models, arXiv 2605.22817)."""
FEWEST_MOVES = 5
"""A component is merged for its likeness only if it has another value than its most frequent one in this many
answers: two that moved in one answer are perfectly correlated by what one program does."""

_DECIMALS = 9
"""Correlations are rounded before they are compared, so that ties break alike on every machine."""


def grouped(problem: Problem, rewards: npt.ArrayLike) -> Floats:
    """Return rewards `[..., D]` as a trainer takes them, `[..., C]`; without groups they stay as they are."""
    values = np.asarray(rewards, dtype=np.float64)
    return group_rewards(values, problem.groups) if problem.groups else values


def group_rewards(rewards: npt.ArrayLike, groups: Sequence[Sequence[int]]) -> Floats:
    """Return the mean of each of C groups of components, in [0, 1]: rewards `[..., D]` to `[..., C]`."""
    values = np.asarray(rewards, dtype=np.float64)
    return np.stack([values[..., list(group)].mean(axis=-1) for group in groups], axis=-1)


def component_names(problem: Problem) -> tuple[str, ...]:
    """Return the names (C) of the components that `grouped` gives: `row-1`, `row-2+row-3`, `row-4+5 more`."""
    names = [objective.name for objective in problem.objectives]
    groups = problem.groups or tuple((index,) for index in range(len(names)))
    members = [[names[index] for index in group] for group in groups]
    return tuple("+".join(one) if len(one) < 3 else f"{one[0]}+{len(one) - 1} more" for one in members)


def correlations(answers_N_D: Floats) -> Floats:
    """Return the Pearson correlations `[D, D]` of components over N answers; NaN where one is constant."""
    centred = answers_N_D - answers_N_D.mean(axis=0)
    norms = np.sqrt((centred**2).sum(axis=0))
    # A constant column differs from its mean by rounding only.
    norms[np.ptp(answers_N_D, axis=0) == 0] = np.nan
    unit = centred / norms
    found: Floats = np.clip(unit.T @ unit, -1.0, 1.0)
    return found


def behavioural_groups(
    answers_N_D: Floats,
    most: int = MOST_COMPONENTS,
    alike: float = ALIKE,
) -> Groups:
    """Return a grouping of D components into at most `most` (3 or more) by how they vary over N answers.

    Components at least `alike` correlated are one, if both moved (`FEWEST_MOVES`); beyond that only as many
    merge as it takes. A constant component stays on its own, but above `most` components those never above 0
    are one group and the other constant ones another. Members and groups ascend.
    """
    count = answers_N_D.shape[1]
    most_frequent = [np.unique(column, return_counts=True)[1].max() for column in answers_N_D.T]
    moves_D = len(answers_N_D) - np.array(most_frequent)
    is_dead = answers_N_D.max(axis=0) == 0
    groups: list[tuple[int, ...]] = []
    if count <= most:
        moving = np.flatnonzero(moves_D >= FEWEST_MOVES)
        groups += [(index,) for index in range(count) if moves_D[index] < FEWEST_MOVES]
    else:
        moving = np.flatnonzero(moves_D > 0)
        constant = (np.flatnonzero(is_dead), np.flatnonzero((moves_D == 0) & ~is_dead))
        groups += [tuple(map(int, chosen)) for chosen in constant if chosen.size]
    # Complete linkage: clusters are as close as their two least correlated members. A cluster lives in the
    # row of its lowest member, so of equally close pairs the first maximum is the lowest.
    closeness = np.round(correlations(answers_N_D[:, moving]), _DECIMALS)
    np.fill_diagonal(closeness, -np.inf)
    clusters: dict[int, tuple[int, ...]] = {row: (int(index),) for row, index in enumerate(moving)}
    while len(clusters) > 1:
        left, right = divmod(int(closeness.argmax()), len(closeness))
        if closeness[left, right] < alike and len(clusters) + len(groups) <= most:
            break
        clusters[left] += clusters.pop(right)
        closeness[left, :] = closeness[:, left] = np.minimum(closeness[left], closeness[right])
        closeness[right, :] = closeness[:, right] = -np.inf
        closeness[left, left] = -np.inf
    groups += [tuple(sorted(cluster)) for cluster in clusters.values()]
    return tuple(sorted(groups))
