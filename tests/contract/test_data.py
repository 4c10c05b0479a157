"""From stored groups to training steps: what is left out and why, and what a step trains on."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from logged_runs import PROBLEM, without_logprobs, write_run

from evovpo.errors import ConfigError, PolicyError, TrainingError
from evovpo.store import Store
from evovpo.types import Group, Message, PolicyVersion, Prompt, PromptKind, Rewards, Rollout, Sampling
from trainer.config import ObjectiveConfig, ObjectiveName, TrainConfig, TrainingRunConfig, UpdateConfig
from trainer.learning.policy_update import UpdateSettings
from trainer.learning.step_data import StepData, plan_steps, step_figures, training_rows
from trainer.learning.stored_groups import (
    GroupReader,
    Skip,
    TrainingGroup,
    has_spread,
    read_run,
    skip_reason,
    version_distance,
)
from trainer.objectives import OBJECTIVES, batch_advantages

VERSIONS = {
    0: PolicyVersion(0, None, "start"),
    1: PolicyVersion(1, 0, "one"),
    2: PolicyVersion(2, 1, "two"),
    3: PolicyVersion(3, 1, "three"),
}
"""0 → 1 → 2, and 3 from 1 after a roll back."""
ONES, HALF, ZEROS = (1.0, 1.0), (1.0, 0.0), (0.0, 0.0)


def config(objective: ObjectiveConfig = ObjectiveConfig(), seed: int = 0, **update: int) -> TrainConfig:  # noqa: B008
    return TrainConfig(objective=objective, update=UpdateConfig(**update), run=TrainingRunConfig(seed=seed))


def reader(name: str = "vpo", start: int = 0, limit: int = 4) -> GroupReader:
    """Return a reader whose tokenizer gives one token a character."""
    return GroupReader(
        ObjectiveConfig(name=name), lambda text: [ord(c) for c in text], 128, VERSIONS, start, limit
    )


def rollout(index: int, *, version: int = 0, length: int = 4) -> Rollout:
    """Return reply `index` to the prompt `ab`, with tokens and log-probabilities."""
    return Rollout(
        id=f"r{index}",
        prompt_id="p",
        index=index,
        policy_version=version,
        text="",
        token_ids=tuple(range(10, 10 + length)),
        logprobs=(-0.5,) * length,
        prompt_token_ids=(97, 98),
        sampling=Sampling(),
        finish_reason="stop",
        seconds=0.0,
    )


def group(
    rewards_G_M_D: Sequence[Sequence[Rewards]] = ((HALF, ZEROS), (ONES, HALF)),
    *,
    versions: Sequence[int] = (0, 0),
    valid: Sequence[bool] | None = None,
) -> Group:
    """Return a group of two-answer rollouts of four tokens, two for each answer."""
    size = len(rewards_G_M_D)
    prompt = Prompt("p", "run", 0, 0, PromptKind.ROOT, 0, (), (Message("user", "ab"),), size, 2, 0)
    return Group(
        prompt=prompt,
        rollouts=tuple(rollout(index, version=versions[index]) for index in range(size)),
        rewards_G_M_D=tuple(tuple(rows) for rows in rewards_G_M_D),
        valid_G=tuple(valid or (True,) * size),
        programs_G_M=tuple(
            tuple(f"{index}-{slot}" for slot in range(len(rows))) for index, rows in enumerate(rewards_G_M_D)
        ),
    )


def training_group(
    rewards_G_M_D: Sequence[Sequence[Rewards]] = ((HALF, ZEROS), (ONES, HALF)),
    *,
    prompt_id: str = "p",
    valid: Sequence[bool] | None = None,
    staleness: float = 0.0,
) -> TrainingGroup:
    """Return a group as `read_run` gives it."""
    found = group(rewards_G_M_D, versions=[0] * len(rewards_G_M_D), valid=valid)
    found = dataclasses.replace(found, prompt=dataclasses.replace(found.prompt, id=prompt_id))
    return TrainingGroup(found, tuple(np.array(rows) for rows in found.rewards_G_M_D), staleness)


# Configuration


def test_the_configuration_knows_the_objectives_and_the_settings_that_they_read() -> None:
    assert set(get_args(ObjectiveName)) == set(OBJECTIVES)
    read = {name for objective in OBJECTIVES.values() for name in objective.settings}
    assert read == set(ObjectiveConfig().settings)


def test_the_defaults_of_an_update_are_those_of_the_updater() -> None:
    assert UpdateSettings(**dict(TrainConfig().update)) == UpdateSettings()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("objective.name=vpoo", "expected one of grpo, .*found 'vpoo'; did you mean 'vpo'"),
        ("update.learning_rate=0", "expected a number above 0 and at most 1e\\+30, found 0.0"),
        ("objective.alpha=-1", "expected a number above 0, found -1.0"),
        ("search.islands=2", r"unknown section \[search\]"),
        ("kl=0", "expected section.key=value, for example objective.name=vpo"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        TrainConfig.load(None, TrainConfig.read_changes([override]))


def test_every_setting_says_who_changes_it_and_comes_back_from_its_printed_form(tmp_path: Path) -> None:
    wanted = TrainConfig.load(None, {"objective.name": "grpo", "update.bf16": True, "run.seed": 7})
    (tmp_path / "train.toml").write_text(wanted.to_toml())
    assert TrainConfig.load(tmp_path / "train.toml") == TrainConfig.from_json(wanted.to_json()) == wanted
    lines = wanted.to_toml().splitlines()
    for number, line in enumerate(lines):
        if " = " in line and not line.startswith("#"):
            assert lines[number - 1].startswith("# "), line


# What is left out


def changed(found: Group, **changes: object) -> Group:
    last = dataclasses.replace(found.rollouts[-1], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(found, rollouts=(*found.rollouts[:-1], last))


THREE = [[HALF, ZEROS], [ONES, HALF], [ONES, ONES]]


@pytest.mark.parametrize(
    ("found", "objective", "reason"),
    [
        (group(), "vpo", None),
        (group([[HALF], [ONES]]), ObjectiveConfig().name, None),
        # A rollout with a sandbox fault does not take its group along.
        (changed(group(THREE, versions=[0] * 3, valid=[True, True, False]), logprobs=None), "vpo", None),
        (group([[HALF, ONES]], versions=[0]), "vpo", Skip.ONE_ROLLOUT),
        (group(), "grpo", Skip.ANSWERS),
        (group([[HALF], [ONES]]), "vpo", Skip.ONE_ANSWER),
        (changed(group(), logprobs=None), "vpo", Skip.NO_LOGPROBS),
        (changed(group(), token_ids=None), "vpo", Skip.NO_LOGPROBS),
        (changed(group(), prompt_token_ids=None), "vpo", Skip.NO_LOGPROBS),
        (changed(group(), logprobs=(-0.5,)), "vpo", Skip.NO_LOGPROBS),
        (group(valid=[True, False]), "vpo", Skip.SANDBOX_FAULT),
    ],
)
def test_a_group_that_cannot_be_trained_on_is_left_out_with_its_reason(
    found: Group, objective: str, reason: Skip | None
) -> None:
    assert skip_reason(found, reader(objective)) is reason


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [(0, 0, 0), (0, 2, 2), (2, 0, 2), (2, 3, 2), (1, 3, 1)],
)
def test_staleness_counts_the_trainings_between_two_versions(first: int, second: int, distance: int) -> None:
    assert version_distance(VERSIONS, first, second) == distance


def test_a_version_that_is_not_stored_is_one_clear_error() -> None:
    with pytest.raises(PolicyError, match=r"policy version 7.* is not stored \(known: 0, 1, 2, 3\)"):
        skip_reason(group(versions=[7, 7]), reader())


@pytest.mark.parametrize(("limit", "reason"), [(2, None), (1, Skip.STALE)])
def test_a_group_is_as_stale_as_its_stalest_rollout(limit: int, reason: Skip | None) -> None:
    assert skip_reason(group(versions=[2, 0]), reader(start=2, limit=limit)) is reason


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"token_ids": (10, 128, 12, 13)}, "token 128 is stored, and the model has 128"),
        ({"prompt_token_ids": (97, 99)}, "prompt p was stored as 2 tokens, and the model reads it as 2"),
        ({"prompt_token_ids": (97,)}, "prompt p was stored as 1 tokens"),
    ],
)
def test_answers_of_another_format_version_are_an_error_of_the_run(
    change: dict[str, object], words: str
) -> None:
    with pytest.raises(TrainingError, match=f"run run holds answers of another format version: .*{words}"):
        skip_reason(changed(group(), **change), reader())


@pytest.mark.parametrize(
    ("rewards", "valid", "vpo", "mean"),
    [
        ([[HALF, ZEROS], [ZEROS, HALF]], None, False, False),
        ([[(1.0, 0.0), (1.0, 0.0)], [(1.0, 0.0), (0.0, 1.0)]], None, True, False),
        ([[HALF, ZEROS], [ONES, ZEROS]], None, True, True),
        ([[HALF, ZEROS], [HALF, ZEROS], [ONES, ONES]], [True, True, False], False, False),
    ],
)
def test_spread_is_in_the_eye_of_the_objective(
    rewards: Sequence[Sequence[Rewards]], valid: list[bool] | None, vpo: bool, mean: bool
) -> None:
    found = training_group(rewards, valid=valid)
    assert has_spread(found, ObjectiveConfig(name="vpo")) is vpo
    assert has_spread(found, ObjectiveConfig(name="multi-rlvr")) is mean


# Reading a run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "runs.db")) as opened:
        yield opened


def tiny_reader(name: str = "vpo", **settings: object) -> GroupReader:
    from tiny_models import VOCABULARY

    objective = ObjectiveConfig(name=name, **settings)  # type: ignore[arg-type]
    return GroupReader(
        objective, lambda text: [VOCABULARY.get(c, 1) for c in text], len(VOCABULARY), VERSIONS, 0, 0
    )


def test_every_group_of_a_run_is_used_or_counted_under_one_reason(store: Store, tmp_path: Path) -> None:
    def judge(tokens: Sequence[int], rng: object) -> Rewards | None:
        first = tokens[0] if tokens else 0
        return None if first % 5 == 0 else (float(first % 2), float(first % 3 == 0), 0.0)

    run = write_run(store, tmp_path / "model", groups=24, rollouts=3, judge=judge)
    found = read_run(store, run, tiny_reader())
    assert found.total == 24
    assert len(found.groups) + sum(found.skipped.values()) == 24
    assert found.skipped[Skip.NO_SPREAD] == len(found.alike) > 0
    assert found.skipped[Skip.SANDBOX_FAULT] > 0
    assert (
        found.faulty_rollouts == sum(not is_valid for g in found.groups for is_valid in g.judged.valid_G) > 0
    )
    assert found.through == f"{run}-23"
    ids = [g.judged.prompt.id for g in found.groups]
    assert ids == sorted(ids, key=lambda prompt_id: int(prompt_id.rsplit("-", 1)[1]))


def test_the_grouping_of_the_problem_is_applied_when_a_run_is_read(store: Store, tmp_path: Path) -> None:
    store.add_problem(dataclasses.replace(PROBLEM, groups=((0, 2), (1,))))
    run = write_run(store, tmp_path / "model", groups=3)
    raw = {g.prompt.id: g.rewards_G_M_D for g in store.groups(run)}
    found = read_run(store, run, tiny_reader())
    for read in (*found.groups, *found.alike):
        for rows, expected in zip(read.rewards, raw[read.judged.prompt.id], strict=True):
            assert rows.tolist() == [[(a + c) / 2, b] for a, b, c in expected]


@pytest.mark.parametrize(
    ("options", "objective", "words"),
    [
        ({"edit": without_logprobs}, "vpo", r"none is left \(3 no log-probabilities\); sample with"),
        ({"rollouts": 1}, "vpo", r"none is left \(3 one rollout\); search with search.rollouts of 2"),
        ({}, "grpo", r"none is left \(3 several answers a rollout\); choose an objective of sets"),
    ],
)
def test_a_run_that_was_made_so_that_nothing_can_be_learned_from_it_is_one_clear_error(
    store: Store, tmp_path: Path, options: dict[str, object], objective: str, words: str
) -> None:
    run = write_run(store, tmp_path / "model", groups=3, **options)  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match=f"run {run} cannot be trained on: of 3 groups {words}"):
        read_run(store, run, tiny_reader(objective))


def test_groups_too_small_for_the_budget_are_left_out_and_a_run_of_such_is_refused(
    store: Store, tmp_path: Path
) -> None:
    run = write_run(store, tmp_path / "model", groups=2, rollouts=4)
    with pytest.raises(TrainingError, match=r"2 too few rollouts for k\); lower objective.k, or search"):
        read_run(store, run, tiny_reader("vpo-at-k", k=9))
    found = read_run(store, run, tiny_reader("vpo-at-k", k=8))
    assert Skip.FEW_ROLLOUTS not in found.skipped


# Steps


def named(count: int, prefix: str = "g") -> list[TrainingGroup]:
    return [training_group(prompt_id=f"{prefix}{index}") for index in range(count)]


def used(steps: Sequence[StepData]) -> Counter[str]:
    return Counter(g.judged.prompt.id for step in steps for g in step.groups)


def test_each_pass_takes_every_group_once_in_steps_of_nearly_equal_size() -> None:
    assert [len(step.groups) for step in plan_steps(named(3), [], config(groups_per_step=8))] == [3]
    steps = plan_steps(named(19), named(7, "alike"), config(groups_per_step=8, passes=3))
    assert len(steps) == 6
    assert {len(step.groups) for step in steps} == {9, 10}
    assert used(steps) == {f"g{index}": 3 for index in range(19)}
    assert Counter(g.judged.prompt.id for step in steps for g in step.alike) == {
        f"alike{i}": 3 for i in range(7)
    }
    for first in (0, 2, 4):
        assert set(used(steps[first : first + 2]).values()) == {1}
    order, again, other = (
        [*used(plan_steps(named(19), [], config(seed=seed, groups_per_step=8)))] for seed in (0, 0, 1)
    )
    assert order == again != other


def test_rows_carry_the_advantage_of_their_rollout_on_every_token() -> None:
    step = StepData((training_group(), training_group([[ONES, ZEROS], [ZEROS, ZEROS]])), ())
    objective = ObjectiveConfig(name="multi-rlvr")
    batch = training_rows(step, config(objective, seed=3), 5)
    expected = batch_advantages("multi-rlvr", [g.rewards for g in step.groups], rng=np.random.default_rng(0))
    for rows, values in zip(batch, expected, strict=True):
        assert [row.advantages.tolist() for row in rows] == [[value] * 4 for value in values]
        assert [row.completion_ids for row in rows] == [(10, 11, 12, 13)] * 2
        assert {row.prompt_ids for row in rows} == {(97, 98)}


def test_a_rollout_that_is_not_valid_is_no_row_and_counts_in_no_mean() -> None:
    rewards = [[HALF, ZEROS], [ONES, HALF], [ONES, ONES]]
    objective = ObjectiveConfig(name="multi-rlvr")
    whole = training_rows(StepData((training_group(rewards[:2]),), ()), config(objective), 0)
    third_out = training_group(rewards, valid=[True, True, False])
    found = training_rows(StepData((third_out,), ()), config(objective), 0)
    assert [row.advantages.tolist() for row in found[0]] == [row.advantages.tolist() for row in whole[0]]


def test_weightings_are_drawn_anew_for_every_step_and_follow_from_seed_and_step() -> None:
    spread = training_group([[(1.0, 0.0)], [(0.0, 1.0)], [(0.4, 0.4)]])
    objective = ObjectiveConfig(name="vpo-at-k", k=2, draws=3)

    def drawn(seed: int, number: int) -> list[float]:
        (rows,) = training_rows(StepData((spread,), ()), config(objective, seed), number)
        return [float(row.advantages[0]) for row in rows]

    assert drawn(0, 0) == drawn(0, 0)
    assert len({tuple(drawn(seed, number)) for seed in (0, 1) for number in (0, 1)}) == 4


def test_the_figures_of_a_step_are_those_worked_out_by_hand() -> None:
    """With D = 1 weightings are all 1: a set score is the best answer."""
    first = training_group([[(1.0,), (0.0,)], [(0.5,), (0.5,)]], staleness=2.0)
    second = training_group([[(0.0,), (0.0,)], [(0.0,), (0.0,)], [(1.0,), (1.0,)]], valid=[True, True, False])
    found = step_figures(StepData((first,), (second,)), ObjectiveConfig())
    assert found["set_score"] == pytest.approx((0.75 + 0.0) / 2)
    assert found["pool_score"] == pytest.approx((1.0 + 0.0) / 2)
    assert found["mean_reward"] == pytest.approx((0.5 + 0.0) / 2)
    assert found["pass_rate"] == pytest.approx((0.25 + 0.0) / 2)
    assert found["distinct_programs"] == pytest.approx(4.0)
    # Pairs of 1, 0, .5, .5: 1 + .5 + .5 + .5 + .5 + 0 over 6.
    assert found["diversity"] == pytest.approx((3.0 / 6 + 0.0) / 2)
    assert found["zero_spread_share"] == 0.5
    assert found["staleness"] == pytest.approx(2.0 * 2 / 4)
