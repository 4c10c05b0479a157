"""What random weightings are drawn over: groups of components, and how much of the weight each gets.

VPO draws weightings w ~ Dirichlet(alpha, ..., alpha) over D components. Copies of one component then count as
often as there are copies, and a component that nothing trades off against, noise above all, takes its share
of the weight from those that do. Both are seen in judged answers alone:

- components that behave alike are one group (`evovpo.analysis.grouping`), worth the mean of its members;
- two groups *conflict* if the answers to a prompt are paid in both less often than if one had nothing to do
  with the other: 1 - E[g h] / (E[g] E[h]), with the expectations over the answers to a prompt. It is 1 for
  groups of which no answer has both, and 0 for independent ones and for those that come together.

A group's concentration grows with its largest conflict. It never falls below `LEAST` of an even share, and
the concentrations sum to what they would be evenly. The method is ours.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evovpo.analysis.grouping import Floats, Groups, behavioural_groups, group_rewards

LEAST = 0.25
"""Smallest concentration of a group, in even ones."""
_EVIDENCE = 1.0
"""Answers paid in both that must be missing for half of a full conflict to count: few answers say little."""


class Weighting(NamedTuple):
    """Groups of D components, with the parameters of the Dirichlet distribution over the groups."""

    groups: Groups
    concentrations: tuple[float, ...]


def find_weighting(pools: Sequence[Floats], alpha: float, *, adapts: bool) -> Weighting:
    """Return the weighting for the answers `[N, D]` to each of P prompts.

    Every concentration is `alpha` unless it `adapts`.
    """
    groups = behavioural_groups(np.concatenate(pools))
    if not adapts:
        return Weighting(groups, (alpha,) * len(groups))
    return Weighting(groups, concentrations([group_rewards(pool, groups) for pool in pools], alpha))


def concentrations(pools: Sequence[Floats], alpha: float) -> tuple[float, ...]:
    """Return the concentration of each of C groups from their rewards `[N, C]` for each prompt.

    At least `LEAST * alpha` each and C * alpha together; all equal where nothing conflicts.
    """
    conflict_C = conflicts(pools).max(axis=1)
    count = len(conflict_C)
    if not conflict_C.any():
        return (alpha,) * count
    moved = (1 - LEAST) * conflict_C.max()
    shares = (1 - moved) / count + moved * conflict_C / conflict_C.sum()
    return tuple((alpha * count * shares).tolist())


def conflicts(pools: Sequence[Floats]) -> Floats:
    """Return how much each two of C groups conflict, `[C, C]` in [0, 1), zeros on the diagonal."""
    observed = sum(pool.T @ pool for pool in pools)
    expected = sum(len(pool) * np.outer(pool.mean(axis=0), pool.mean(axis=0)) for pool in pools if len(pool))
    found: Floats = np.clip((expected - observed) / (np.asarray(expected) + _EVIDENCE), 0.0, None)
    np.fill_diagonal(found, 0.0)
    return found
