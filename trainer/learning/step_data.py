"""Assigns groups to optimiser steps, and computes the training rows and statistics of each step."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evovpo.analysis.statistics import diversity
from evovpo.types import Rollout
from trainer.config import ObjectiveConfig, TrainConfig
from trainer.learning.imitation import Targets
from trainer.learning.packing import TrainingRow
from trainer.learning.stored_groups import TrainingGroup
from trainer.objectives import Floats, batch_advantages, draw_weights, set_scores

TARGETS_PER_STEP = 16


class StepData(NamedTuple):
    """The groups, or the texts to imitate, of one optimiser step."""

    groups: tuple[TrainingGroup, ...]
    alike: tuple[TrainingGroup, ...]
    """Groups whose rollouts all score the same; they are used only in the statistics."""
    texts: tuple[TrainingRow, ...] = ()


def plan_steps(
    groups: Sequence[TrainingGroup], alike: Sequence[TrainingGroup], config: TrainConfig
) -> list[StepData]:
    """Return the steps, the same for equal arguments; each pass uses all groups once, in a random order."""
    rng = np.random.default_rng([config.run.seed, 0])
    steps: list[StepData] = []
    for _ in range(config.update.passes):
        count = max(1, round(len(groups) / config.update.groups_per_step))
        parts = np.array_split(rng.permutation(len(groups)), count)
        others = np.array_split(rng.permutation(len(alike)), count)
        steps += [
            StepData(tuple(groups[i] for i in part), tuple(alike[i] for i in other))
            for part, other in zip(parts, others, strict=True)
        ]
    return steps


def imitation_steps(targets: Targets, config: TrainConfig) -> list[StepData]:
    """Return imitation steps with randomly drawn targets, balanced by source and by length."""
    found = targets.found
    steps = -(-len(found) * config.imitate.passes // TARGETS_PER_STEP)
    rng = np.random.default_rng([config.run.seed, 3])
    order = np.argsort([len(target.rows[0].completion_ids) for target in found], kind="stable")
    classes = defaultdict(list)
    for rank, place in enumerate(order.tolist()):
        classes[found[place].source, 3 * rank // len(found)].append(place)
    weights: Floats = np.zeros(len(found))
    for places in classes.values():
        weights[places] = len(places) ** -0.5
    drawn = rng.choice(len(found), (steps, TARGETS_PER_STEP), p=weights / weights.sum()).tolist()
    turns = [itertools.cycle(target.rows) for target in found]
    return [StepData((), (), tuple(next(turns[place]) for place in places)) for places in drawn]


def training_rows(step: StepData, config: TrainConfig, number: int) -> list[list[TrainingRow]]:
    """Return the training rows of each group of a step.

    The step's `number` seeds the random weightings. Rollouts without tokens or with a sandbox fault get no
    row.
    """
    found = batch_advantages(
        config.objective.name,
        [group.rewards for group in step.groups],
        rng=np.random.default_rng([config.run.seed, 1, number]),
        valid=[group.judged.valid_G for group in step.groups],
        **config.objective.settings,
    )
    batch: list[list[TrainingRow]] = []
    for group, values in zip(step.groups, found, strict=True):
        rows = compress(map(row_of, group.judged.rollouts, values.tolist()), group.judged.valid_G)
        batch.append([row for row in rows if row.completion_ids])
    return batch


def row_of(rollout: Rollout, advantage: float = 0.0) -> TrainingRow:
    """Return a rollout as a training row in which every completion token has the `advantage`."""
    tokens = rollout.token_ids or ()
    given = np.full(len(tokens), advantage)
    return TrainingRow(rollout.prompt_token_ids or (), tokens, rollout.logprobs or (), given)


_OF_STEP = ("zero_spread_share", "staleness")


class GroupFigures(NamedTuple):
    """Statistics of one group; `mean_figures` averages them over a step."""

    set_score: float
    """Mean over rollouts of the score of a rollout's set of answers (`set_scores`)."""
    pool_score: float
    """Score of the set of all answers of the group."""
    mean_reward: float
    pass_rate: float
    diversity: float
    """Mean pairwise L1 distance of the reward vectors of the answers."""
    distinct: float


def group_figures(
    rewards_G_M_D: Sequence[npt.ArrayLike],
    keys_G_M: Sequence[Sequence[str | None]],
    weights_K_D: Floats,
) -> GroupFigures:
    """Return the statistics of a group. `keys_G_M` has a key for each answer, None for an unreadable one."""
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
    return GroupFigures(*(float(value) for value in np.mean(groups, axis=0)))


def step_figures(step: StepData, objective: ObjectiveConfig) -> dict[str, float]:
    """Return the statistics of a step's groups, as fields of `TrainingStep`."""
    groups = [*step.groups, *step.alike]
    if not groups:
        return dict.fromkeys((*GroupFigures._fields[:-1], "distinct_programs", *_OF_STEP), 0.0)
    found = []
    for group in groups:
        weights = draw_weights(group.rewards[0].shape[1], objective, np.random.default_rng(0))
        rewards = list(compress(group.rewards, group.judged.valid_G))
        programs = list(compress(group.judged.programs_G_M, group.judged.valid_G))
        found.append(group_figures(rewards, programs, weights))
    figures = mean_figures(found)._asdict()
    rollouts = [len(group.rollouts) for group in groups]
    return {
        "distinct_programs": figures.pop("distinct"),
        **figures,
        "zero_spread_share": len(step.alike) / len(groups),
        "staleness": float(np.average([group.staleness for group in groups], weights=rollouts)),
    }
