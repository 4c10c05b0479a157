"""Reads stored groups for training. Every skipped group is counted under one reason (`Skip`)."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import compress
from typing import NamedTuple

import numpy as np

from evovpo.analysis.grouping import grouped
from evovpo.errors import PolicyError, TrainingError
from evovpo.problem.folder import with_folder_grouping
from evovpo.store import Store
from evovpo.types import Group, PolicyVersion, Rollout
from trainer.config import ObjectiveConfig
from trainer.objectives import EPSILON, ONE_ANSWER_ADVICE, Floats, advantages, find_objective


class Skip(StrEnum):
    """The reason why a group is not used for training. If several apply, the first in this list counts."""

    ONE_ROLLOUT = "one rollout"
    FEW_ROLLOUTS = "too few rollouts for k"
    ANSWERS = "several answers a rollout"
    ONE_ANSWER = "one answer a rollout"
    NO_LOGPROBS = "no log-probabilities"
    SANDBOX_FAULT = "sandbox fault"
    """Sandbox faults left fewer than two judged rollouts."""
    STALE = "stale"
    NO_SPREAD = "no spread"
    """All rollouts have equal scores. Such groups still count in the statistics of a step."""


_NOT_OF_RUN = {Skip.SANDBOX_FAULT, Skip.STALE, Skip.NO_SPREAD}
"""Reasons that do not lie in the run's settings."""
_REMEDIES = {
    Skip.ONE_ROLLOUT: "search with search.rollouts of 2 or more (8 is usual)",
    Skip.FEW_ROLLOUTS: "lower objective.k, or search with more search.rollouts",
    Skip.ANSWERS: "choose an objective of sets, such as vpo-at-k, or search with search.answers=1",
    Skip.ONE_ANSWER: f"the objective {ONE_ANSWER_ADVICE}",
    Skip.NO_LOGPROBS: "sample with a proposer that gives token ids and log-probabilities, such as local",
    Skip.SANDBOX_FAULT: "see `evovpo show` for what failed, and search again",
    Skip.STALE: "raise data.staleness_limit, or search with the version that is served now",
    Skip.NO_SPREAD: "search a problem that is neither solved nor hopeless for the model",
}


class TrainingGroup(NamedTuple):
    """A stored group for training or, if all rollouts score the same, for the statistics alone."""

    judged: Group
    """The group; its valid rollouts have tokens and log-probabilities."""
    rewards: tuple[Floats, ...]
    """G arrays `[m_g, D]`; D counts the objectives or, if the problem groups objectives, their groups."""
    staleness: float
    """Mean number of trainings between the start version and the versions that wrote the valid rollouts."""

    @property
    def rollouts(self) -> list[Rollout]:
        return list(compress(self.judged.rollouts, self.judged.valid_G))


class RunData(NamedTuple):
    run_id: str
    through: str | None
    """Id of the prompt of the last complete group, or None without groups."""
    total: int
    """Number of complete groups."""
    groups: tuple[TrainingGroup, ...]
    alike: tuple[TrainingGroup, ...]
    """Groups whose rollouts all score the same, for the statistics; they are also counted in `skipped`."""
    skipped: Mapping[Skip, int]
    faulty_rollouts: int
    """Rollouts excluded from training groups after a sandbox fault."""


class GroupReader(NamedTuple):
    """Everything needed to read groups: the objective, the model's tokens and the policy versions."""

    objective: ObjectiveConfig
    encode: Callable[[str], Sequence[int]]
    """Returns the token ids of a text, by the start model's tokenizer."""
    vocabulary: int
    versions: Mapping[int, PolicyVersion]
    start_version: int
    staleness_limit: int


def read_run(store: Store, run_id: str, reader: GroupReader) -> RunData:
    """Return the training data of a run, from its complete groups.

    Raises `TrainingError` if the settings of the run rule out training, or if the stored tokens are not in
    the start model's format.
    """
    run = store.run(run_id)
    problem = with_folder_grouping(store.problem(run.problem_id, run.problem_version))
    groups: list[TrainingGroup] = []
    alike: list[TrainingGroup] = []
    skipped: Counter[Skip] = Counter()
    found = list(store.groups(run_id))
    total = len(found)
    for group in found:
        reason = skip_reason(group, reader)
        if reason is None:
            rewards = tuple(grouped(problem, np.asarray(rows)) for rows in group.rewards_G_M_D)
            read = TrainingGroup(group, rewards, float(np.mean(_version_distances(group, reader))))
            if has_spread(read, reader.objective):
                groups.append(read)
            else:
                reason = Skip.NO_SPREAD
                alike.append(read)
        if reason is not None:
            skipped[reason] += 1
    if total and skipped.total() == total and not skipped.keys() & _NOT_OF_RUN:
        raise TrainingError(f"run {run_id} cannot be trained on: {nothing_left(total, skipped)}")
    faulty = sum(not is_valid for read in groups for is_valid in read.judged.valid_G)
    through = found[-1].prompt.id if found else None
    return RunData(run_id, through, total, tuple(groups), tuple(alike), skipped, faulty)


def skip_reason(group: Group, reader: GroupReader) -> Skip | None:
    """Return why a group cannot be used for training, or None if it can. `NO_SPREAD` is not checked here.

    Raises `TrainingError` if the group's tokens are not in the start model's format, and `PolicyError` if a
    policy version that sampled the group, or an ancestor of that version, is not stored.
    """
    objective = find_objective(reader.objective.name)
    judged = list(compress(group.rollouts, group.valid_G))
    answers = max((len(rows) for rows in group.rewards_G_M_D), default=1)
    if len(group.rollouts) < 2:
        return Skip.ONE_ROLLOUT
    if len(group.rollouts) < objective.least_rollouts(reader.objective, answers):
        return Skip.FEW_ROLLOUTS
    if objective.answers == "one" and answers > 1:
        return Skip.ANSWERS
    if answers < objective.least_answers:
        return Skip.ONE_ANSWER
    if any(
        rollout.prompt_token_ids is None
        or rollout.token_ids is None
        or rollout.logprobs is None
        or len(rollout.token_ids) != len(rollout.logprobs)
        for rollout in judged
    ):
        return Skip.NO_LOGPROBS
    if len(judged) < 2:
        return Skip.SANDBOX_FAULT
    _check_format(group, judged, reader)
    if max(_version_distances(group, reader)) > reader.staleness_limit:
        return Skip.STALE
    return None


def has_spread(group: TrainingGroup, objective: ObjectiveConfig) -> bool:
    """True if the objective gives the rollouts different advantages."""
    found = advantages(
        objective.name,
        group.rewards,
        rng=np.random.default_rng(0),
        valid=group.judged.valid_G,
        **objective.settings,
    )
    return bool(np.abs(found).max() > EPSILON)


def version_distance(versions: Mapping[int, PolicyVersion], first: int, second: int) -> int:
    """Return the number of trainings on the path between two versions in the tree of versions.

    Raises `PolicyError` for a version that is not stored.
    """
    lines: list[list[int]] = [[], []]
    for line, number in zip(lines, (first, second), strict=True):
        ancestor: int | None = number
        while ancestor is not None:
            if ancestor not in versions:
                known = ", ".join(map(str, versions)) or "none"
                raise PolicyError(
                    f"policy version {ancestor}, which wrote answers or stands between versions that did, is "
                    f"not stored (known: {known}); restore the database that the run was made with"
                )
            line.append(ancestor)
            ancestor = versions[ancestor].parent
    ups, downs = lines
    common = (ups.index(number) + downs.index(number) for number in ups if number in downs)
    return min(common, default=len(ups))


def nothing_left(total: int, skipped: Mapping[Skip, int]) -> str:
    """Return the end of an error message: why no group can be used, with counts, and what to do."""
    if not total:
        return "it has no complete group yet; let the search continue, or name another run"
    ordered = sorted(skipped.items(), key=lambda item: -item[1])
    counts = ", ".join(f"{count} {reason}" for reason, count in ordered)
    return f"of {total} groups none is left ({counts}); {_REMEDIES[ordered[0][0]]}"


def _version_distances(group: Group, reader: GroupReader) -> list[int]:
    valid = compress(group.rollouts, group.valid_G)
    written_by = (rollout.policy_version for rollout in valid)
    return [version_distance(reader.versions, reader.start_version, number) for number in written_by]


def _check_format(group: Group, judged: Sequence[Rollout], reader: GroupReader) -> None:
    expected = tuple(reader.encode("".join(message.content for message in group.prompt.messages)))
    fault = ""
    for rollout in judged:
        highest = max((*(rollout.token_ids or ()), *(rollout.prompt_token_ids or ())), default=0)
        if highest >= reader.vocabulary:
            fault = f"token {highest} is stored, and the model has {reader.vocabulary}"
        elif rollout.prompt_token_ids != expected:
            fault = (
                f"prompt {group.prompt.id} was stored as {len(rollout.prompt_token_ids or ())} tokens, and "
                f"the model reads it as {len(expected)} others"
            )
    if fault:
        raise TrainingError(
            f"run {group.prompt.run_id} holds answers of another format version: {fault}; train the model "
            "that the run was sampled from, or search again with this one"
        )
