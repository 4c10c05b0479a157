"""The plan of a training: its groups, steps and id.

The id is a hash of everything that determines the weights: the configuration, start version and groups.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.config import Config
from evovpo.errors import ConfigError, NothingToTrainError, TrainingError
from evovpo.store import Store
from evovpo.types import (
    PolicyEventKind,
    PolicyVersion,
    Run,
    Sampling,
    Training,
    TrainingStep,
    content_id,
)
from trainer.config import TrainConfig
from trainer.learning.imitation import Targets, read_targets
from trainer.learning.policy_models import load_tokenizer
from trainer.learning.step_data import StepData, imitation_steps, plan_steps
from trainer.learning.stored_groups import GroupReader, RunData, Skip, nothing_left, read_run


class TrainingPlan(NamedTuple):
    training: Training
    config: TrainConfig
    start: PolicyVersion
    start_model: PolicyVersion
    """Version 0, the reference of the KL term."""
    data: tuple[RunData, ...]
    steps: tuple[StepData, ...]
    sampling: Sampling
    published: PolicyVersion | None
    """The version that this training has already made, or None."""
    targets: Targets = Targets((), {})

    @property
    def groups_used(self) -> int:
        """Number of groups to train on; a group counts once, even if several passes train on it."""
        return sum(len(data.groups) for data in self.data)

    @property
    def groups_skipped(self) -> int:
        return sum(data.total - len(data.groups) for data in self.data)

    @property
    def tokens(self) -> int:
        """Number of completion tokens to train on, counted in every pass and without pretraining data."""
        groups = (group for step in self.steps for group in step.groups)
        texts = (len(text.completion_ids) for step in self.steps for text in step.texts)
        return sum(len(one.token_ids or ()) for group in groups for one in group.rollouts) + sum(texts)


def ignore(*_: object) -> None:
    """Do nothing: the default callback."""


@dataclass(frozen=True)
class TrainingCallbacks:
    planned: Callable[[TrainingPlan, int], None] = ignore
    """Called with the plan and the number of its finished steps."""
    stepped: Callable[[TrainingStep], None] = ignore
    probed: Callable[[int, int], None] = ignore
    """Called with the number of problems probed so far and the total, both counted over all versions."""


def make_plan(store: Store, ids: Sequence[str], config: TrainConfig) -> TrainingPlan:
    """Return the plan of a training on the runs `ids`, changing nothing. Raises the errors of `retrain`."""
    if not ids or len(set(ids)) < len(ids):
        raise ConfigError(f"runs to train on: expected different ones, found {ids}; name each once")
    runs = [store.run(run_id) for run_id in ids]
    versions = {version.number: version for version in store.policy_versions()}
    if 0 not in versions:
        versions[0] = _start_model(store, runs[0], config)
    elif config.run.model and resolved(config.run.model) != resolved(versions[0].path):
        raise ConfigError(
            f"run.model is {config.run.model}, and version 0 of this store is {versions[0].path}; leave it "
            "out, or keep runs of different start models in stores of their own"
        )
    for run in runs:
        _check_model(store, run, versions[0])
    imitate = config.imitate.share
    # Imitation restarts from version 0 with all programs found, not from a version trained on fewer.
    start = versions[0] if imitate else store.served() or versions[0]
    tokenizer = load_tokenizer(start)
    reader = GroupReader(
        objective=config.objective,
        encode=lambda text: list(tokenizer(text)["input_ids"]),
        vocabulary=1 + max(tokenizer.get_vocab().values()),
        versions=versions,
        start_version=start.number,
        staleness_limit=config.data.staleness_limit,
    )
    data = () if imitate else tuple(read_run(store, run_id, reader) for run_id in ids)
    groups = [group for one in data for group in one.groups]
    targets = read_targets(store, ids, config, tokenizer) if imitate else Targets((), {})
    if not groups and not targets.found:
        skipped = sum((Counter(one.skipped) for one in data), Counter[Skip]())
        why = nothing_left(sum(one.total for one in data), skipped)
        if imitate:
            why = f"{targets}: search more, or learn from rewards (--imitate 0)"
        raise NothingToTrainError(f"there is nothing to train on in {', '.join(ids)}: {why}")
    found: dict[float, str] = {}
    for group in groups:
        for rollout in group.judged.rollouts:
            found.setdefault(rollout.sampling.temperature, group.judged.prompt.run_id)
    if len(found) > 1:
        listed = ", ".join(f"{temperature:g} (run {run})" for temperature, run in found.items())
        raise TrainingError(
            f"the answers were sampled at different temperatures: {listed}; one training computes one "
            "distribution: train on runs of one temperature"
        )
    shapes = [(group.judged.prompt.id, [rows.shape for rows in group.rewards]) for group in groups]
    taught = [f"{target.run_id} {target.program_id} {target.source}" for target in targets.found]
    alike = [group for one in data for group in one.alike]
    steps = imitation_steps(targets, config) if imitate else plan_steps(groups, alike, config)
    settings = Config.from_json(runs[-1].config_json)
    training = Training(
        id=content_id(config.to_json(), str(start), json.dumps(shapes), *ids, *taught),
        objective=config.objective.name,
        config_json=config.to_json(),
        start_version=start.number,
        runs=tuple(ids),
        after=(None,) * len(ids),
        through=tuple(one.through for one in data) or (None,) * len(ids),
        seed=config.run.seed,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    # A publication interrupted between its row and its event is completed by publishing again.
    whole = {event.number for event in store.policy_events() if event.kind is PolicyEventKind.PUBLISHED}
    made = [one for one in versions.values() if one.config_hash == training.id and one.number in whole]
    return TrainingPlan(
        training=training,
        config=config,
        start=start,
        start_model=versions[0],
        data=data,
        steps=tuple(steps),
        sampling=groups[-1].judged.rollouts[-1].sampling
        if groups
        else Sampling(settings.sampling.temperature, settings.sampling.max_tokens or Sampling().max_tokens),
        published=made[0] if made else None,
        targets=targets,
    )


def start_version(folder: str | None) -> PolicyVersion:
    """Return policy version 0 with the model in `folder`; None means the built-in model."""
    return PolicyVersion(0, None, str(resolved(folder or BUILT_IN_MODEL)))


def resolved(folder: str | Path) -> Path:
    return Path(folder).expanduser().resolve()


def _start_model(store: Store, run: Run, config: TrainConfig) -> PolicyVersion:
    settings = Config.from_json(run.config_json).proposer
    if not config.run.model and settings.name == "openai":
        raise ConfigError(
            f"run {run.id} was sampled from a server, by the name {settings.model!r}; say in which "
            "folder that model lies: run.model=FOLDER"
        )
    return start_version(config.run.model or settings.model)


def _check_model(store: Store, run: Run, start_model: PolicyVersion) -> None:
    settings = Config.from_json(run.config_json).proposer
    if settings.name != "local" or settings.policy != "start":
        return
    folder = start_version(settings.model).path
    if resolved(folder) != resolved(start_model.path):
        raise TrainingError(
            f"run {run.id} was sampled from the model in {folder}, and version 0 of this store is the one in "
            f"{start_model.path}; keep runs of different start models in stores of their own"
        )
