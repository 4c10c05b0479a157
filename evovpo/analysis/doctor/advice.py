"""The settings to train with: which components to group, alpha, and how many answers and rollouts."""

import math
from typing import NamedTuple

import numpy as np

from evovpo.analysis.doctor.sample_figures import (
    SET_SIZE,
    Figures,
    Sample,
    Scores,
    effective_rank,
    score_sets,
)
from evovpo.analysis.grouping import Floats, Groups, behavioural_groups, group_rewards

GROUP_SIZE = 8
"""G, completions of a prompt: what VPO uses for models of up to four billion parameters."""
MOST_ROLLOUTS = 64
"""More completions of one prompt than this are not advised."""


class Advice(NamedTuple):
    """Settings to train with."""

    groups: Groups
    """Of the sample's components: each is in one group. As many as components: nothing to group."""
    alpha: float
    """With these groups."""
    ungrouped_alpha: float
    """For whoever leaves the components as they are."""
    answers: int
    """m, in a chain."""
    rollouts: int
    """G, rollouts per prompt."""
    scores: Scores
    """With these groups and this alpha."""


def fitting_alpha(answers_N_D: Floats) -> float:
    """Return the alpha whose weightings spread as those of Dirichlet(1) over `effective_rank` components do.

    The variance of a weighted difference is Var_i(r_i - r'_i) / (D alpha + 1), so D alpha is to be the
    effective rank; at most 1, rounded to one digit. D counts the components that vary.
    """
    varying = int((np.ptp(answers_N_D, axis=0) > 0).sum())
    alpha = effective_rank(answers_N_D) / varying if varying else 1.0
    return round(alpha, 1) if alpha >= 0.1 else float(f"{alpha:.1g}")


def advise(sample: Sample, figures: Figures) -> Advice:
    groups = behavioural_groups(sample.different_N_D)
    answers_N_C = group_rewards(sample.different_N_D, groups)
    alpha = fitting_alpha(answers_N_C)
    rollouts = max(len(pool) for pool in sample.pools)
    if rollouts == 1:
        rollouts = GROUP_SIZE
    if figures.flat_at_zero > 0.5 and 0 < figures.rewarded_chains < 1:
        # A chain earns something with probability p; (1 - p)^G = 1/4 leaves one group in four without any.
        needed = math.log(0.25) / math.log(1 - figures.rewarded_chains)
        rollouts = min(MOST_ROLLOUTS, max(rollouts, math.ceil(needed)))
    # n specialists cover n behaviours; a larger set has nothing to add.
    answers = min(SET_SIZE, max(2, math.ceil(effective_rank(answers_N_C) - 0.5)))
    if sample.answers == 1:
        answers = 1  # sets are drawn from the answers to a prompt
    return Advice(
        groups=groups,
        alpha=alpha,
        ungrouped_alpha=fitting_alpha(sample.different_N_D),
        answers=answers,
        rollouts=rollouts,
        scores=score_sets(sample, groups, alpha),
    )
