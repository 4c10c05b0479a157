"""What the groups of one training step say about the policy that wrote them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evovpo.analysis.estimators import diversity
from trainer.objectives import Floats, set_scores


class GroupFigures(NamedTuple):
    """Figures of one group; `mean_figures` averages them over a step."""

    set_score: float
    """Mean set score of its chains."""
    pool_score: float
    """Set score of all its answers together."""
    mean_reward: float
    """Over answers and components."""
    pass_rate: float
    """Share of answers with every component at 1."""
    diversity: float
    """Mean pairwise L1 distance of the reward vectors of its answers."""
    distinct: float
    """Number of different answers that could be read."""


def group_figures(
    rewards_G_M_D: Sequence[npt.ArrayLike],  # noqa: N803
    keys_G_M: Sequence[Sequence[str | None]],  # noqa: N803
    weights_K_D: Floats,  # noqa: N803
) -> GroupFigures:
    """Return the figures of a group's valid rollouts; `keys_G_M` tell answers apart, none is unreadable."""
    chains = [np.asarray(chain, dtype=np.float64) for chain in rewards_G_M_D]
    pool = np.concatenate(chains)
    return GroupFigures(
        set_score=float(set_scores(chains, weights_K_D).mean()),
        pool_score=float(set_scores([pool], weights_K_D)[0]),
        mean_reward=float(pool.mean()),
        pass_rate=float((pool >= 1.0).all(axis=1).mean()),
        diversity=diversity(pool),
        distinct=float(len({key for keys in keys_G_M for key in keys if key is not None})),
    )


def mean_figures(groups: Sequence[GroupFigures]) -> GroupFigures:
    """Return the means over the groups of a step."""
    return GroupFigures(*(float(value) for value in np.mean(groups, axis=0)))
