"""Finds groups of similar reward components, and computes the mean reward of each group.

With many components, random weights are nearly equal, so VPO's reward of a set of answers hardly exceeds the
highest mean reward of one answer. Section `[grouping]` of `problem.toml` defines a problem's groups.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evovpo.types import Problem

Floats = npt.NDArray[np.float64]
Groups = tuple[tuple[int, ...], ...]
"""Groups of component indices; each component is in one group."""

MOST_COMPONENTS = 16
"""Maximum number of components without grouping. Dirichlet(1) weights over 16 components have a standard
deviation of 0.06. VPO's authors also use at most 16 tests as components (their release, `ryanboldi/vpo`)."""
ALIKE = 0.95
"""Minimum correlation at which components are merged. This is the mean correlation in the only task on which
VPO's authors report no gain (UltraFeedback with five reward models, arXiv 2605.22817)."""
FEWEST_MOVES = 5
"""A component that leaves its most frequent value in fewer answers is not merged, if D is at most `most`.
Otherwise a single answer could make two components perfectly correlated. See `behavioural_groups`."""

_DECIMALS = 9


def grouped(problem: Problem, rewards: npt.ArrayLike) -> Floats:
    """Return the mean rewards of C groups, of shape (..., C), or `rewards` if the problem has no groups."""
    values = np.asarray(rewards, dtype=np.float64)
    return group_rewards(values, problem.groups) if problem.groups else values


def group_rewards(rewards: npt.ArrayLike, groups: Sequence[Sequence[int]]) -> Floats:
    """Return the mean rewards of C groups, of shape (..., C), from component rewards of shape (..., D)."""
    values = np.asarray(rewards, dtype=np.float64)
    return np.stack([values[..., list(group)].mean(axis=-1) for group in groups], axis=-1)


def component_names(problem: Problem) -> tuple[str, ...]:
    """Return the component names, such as `row-1`, `row-2+row-3`, or `row-4+5 more` (row-4 and 5 others)."""
    names = [objective.name for objective in problem.objectives]
    groups = problem.groups or tuple((index,) for index in range(len(names)))
    members = [[names[index] for index in group] for group in groups]
    return tuple("+".join(one) if len(one) < 3 else f"{one[0]}+{len(one) - 1} more" for one in members)


def correlations(answers_N_D: Floats) -> Floats:
    """Return the (D, D) Pearson correlations of components over N answers; NaN for a constant component."""
    centred = answers_N_D - answers_N_D.mean(axis=0)
    norms = np.sqrt((centred**2).sum(axis=0))
    # A constant column differs from its mean only by rounding.
    norms[np.ptp(answers_N_D, axis=0) == 0] = np.nan
    unit = centred / norms
    found: Floats = np.clip(unit.T @ unit, -1.0, 1.0)
    return found


def behavioural_groups(answers_N_D: Floats, most: int = MOST_COMPONENTS, alike: float = ALIKE) -> Groups:
    """Return groups of correlated components. `most` is the maximum number of groups (3 or more).

    The most correlated components are merged first, until all correlations are below `alike` and at most
    `most` groups are left. If D <= `most`, components that rarely vary are not merged. If D > `most`, the
    components that are always 0 form one group, and all other constant components form another.
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
    # Complete linkage: clusters are as close as their two least correlated members. A cluster is kept in the
    # row of its lowest member, so ties go to the pair with the lowest members.
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
