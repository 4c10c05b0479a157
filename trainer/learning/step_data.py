"""Which groups share an optimiser step, the rows of a step with their advantages, and its figures."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trainer.config import ObjectiveConfig
from trainer.learning.data import TrainingGroup
from trainer.learning.offline import spread_advantages
from trainer.learning.packing import TrainingRow
from trainer.learning.step_figures import GroupFigures, group_figures, mean_figures
from trainer.objectives import batch_advantages, draw_weights


class StepData(NamedTuple):
    """The groups of one optimiser step."""

    groups: tuple[TrainingGroup, ...]
    alike: tuple[TrainingGroup, ...]
    """Without spread: they count in the figures only."""


def plan_steps(
    groups: Sequence[TrainingGroup],
    alike: Sequence[TrainingGroup],
    *,
    groups_per_step: int,
    passes: int,
    seed: int,
) -> list[StepData]:
    """Return the steps of a training: each pass takes all groups once, in an order of its own.

    The steps of a pass are as equal as can be, about `groups_per_step` groups each; the groups without
    spread are dealt out among them in the same way. The same arguments give the same steps.
    """
    rng = np.random.default_rng([seed, 0])
    steps: list[StepData] = []
    for _ in range(passes):
        count = max(1, round(len(groups) / groups_per_step))
        parts = np.array_split(rng.permutation(len(groups)), count)
        others = np.array_split(rng.permutation(len(alike)), count)
        steps += [
            StepData(tuple(groups[i] for i in part), tuple(alike[i] for i in other))
            for part, other in zip(parts, others, strict=True)
        ]
    return steps


def training_rows(
    step: StepData, objective: ObjectiveConfig, *, seed: int, number: int
) -> list[list[TrainingRow]]:
    """Return the rows of each group of step `number`, with advantages drawn anew for that step.

    Rollouts that a sandbox fault took out, and those without a token, are no rows.
    """
    found = batch_advantages(
        objective.name,
        [group.rewards for group in step.groups],
        rng=np.random.default_rng([seed, 1, number]),
        valid=[group.valid_G for group in step.groups],
        **objective.settings,
    )
    batch: list[list[TrainingRow]] = []
    for group, values in zip(step.groups, found, strict=True):
        lengths = [len(rollout.token_ids or ()) for rollout in group.rollouts]
        spread = spread_advantages(values, group.spans_G_M, lengths)
        batch.append(
            [
                TrainingRow(group.prompt_ids, rollout.token_ids, rollout.logprobs, per_token)
                for rollout, per_token, is_valid in zip(group.rollouts, spread, group.valid_G, strict=True)
                if is_valid and rollout.token_ids and rollout.logprobs
            ]
        )
    return batch


class StepFigures(NamedTuple):
    """What the groups of a step say about the policies that wrote them; see `TrainingStep`."""

    of_groups: GroupFigures
    """Means over the groups, those without spread included."""
    zero_spread_share: float
    staleness: float


def step_figures(step: StepData, objective: ObjectiveConfig) -> StepFigures:
    """Return the figures of a step's groups.

    The weightings of the two scores are the same in every step, so that steps compare.
    """
    groups = [*step.groups, *step.alike]
    found = []
    for group in groups:
        weights = draw_weights(
            group.rewards[0].shape[1],
            objective.draws,
            np.random.default_rng(0),
            alpha=objective.alpha,
            sampler=objective.sampler,
        )
        found.append(
            group_figures(
                [rows for rows, is_valid in zip(group.rewards, group.valid_G, strict=True) if is_valid],
                [ids for ids, is_valid in zip(group.programs_G_M, group.valid_G, strict=True) if is_valid],
                weights,
            )
        )
    rollouts = [sum(group.valid_G) for group in groups]
    return StepFigures(
        mean_figures(found),
        len(step.alike) / len(groups),
        float(np.average([group.staleness for group in groups], weights=rollouts)),
    )
