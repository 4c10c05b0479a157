"""What a training would do: the groups that it reads, the steps that it makes of them, and its id.

The id hashes all that the weights follow from: the configuration, the start version and the groups.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from evovpo.builtin.choice import built_in_model
from evovpo.config import Config
from evovpo.errors import ConfigError, NothingToTrainError, TrainingError
from evovpo.store import Store
from evovpo.types import PolicyEventKind, PolicyVersion, Problem, Run, Sampling, Training, content_id
from trainer.config import TrainConfig
from trainer.learning.data import Reader, RunData, Skip, nothing_left, read_run
from trainer.learning.policies import load_tokenizer
from trainer.learning.step_data import StepData, plan_steps


class Plan(NamedTuple):
    """What a training would do."""

    training: Training
    config: TrainConfig
    start: PolicyVersion
    """Whose weights it begins with."""
    start_model: PolicyVersion
    """Number 0: what the KL term holds on to."""
    data: tuple[RunData, ...]
    steps: tuple[StepData, ...]
    sampling: Sampling
    """That the rollouts were sampled with."""
    published: PolicyVersion | None
    """The version that this very training made before, or none."""

    @property
    def groups_used(self) -> int:
        """Different groups trained on."""
        return sum(len(data.groups) for data in self.data)

    @property
    def groups_skipped(self) -> int:
        """Groups read and not trained on."""
        return sum(data.total - len(data.groups) for data in self.data)

    @property
    def tokens(self) -> int:
        """Completion tokens trained on, each as often as it is."""
        return sum(group.tokens for step in self.steps for group in step.groups)


def make_plan(
    store: Store,
    runs: Sequence[str],
    config: TrainConfig,
    *,
    after: Mapping[str, str] | None = None,
    through: Mapping[str, str] | None = None,
) -> Plan:
    """Return what a training would do; changes nothing. For the arguments and errors see `retrain`."""
    if not runs or len(set(runs)) < len(runs):
        raise ConfigError(f"runs to train on: expected different ones, found {list(runs)}; name each once")
    stored = [store.run(run_id) for run_id in runs]
    versions = {version.number: version for version in store.policy_versions()}
    if 0 not in versions:
        versions[0] = _start_model(store, stored, config)
    elif config.run.model and resolved(config.run.model) != resolved(versions[0].path):
        raise ConfigError(
            f"run.model is {config.run.model}, and version 0 of this store is {versions[0].path}; leave it "
            "out, or keep runs of different start models in stores of their own"
        )
    for run in stored:
        _check_model(store, run, versions[0])
    start = store.served() or versions[0]
    tokenizer = load_tokenizer(start)
    reader = Reader(
        objective=config.objective,
        encode=lambda text: list(tokenizer(text)["input_ids"]),
        vocabulary=1 + max(tokenizer.get_vocab().values()),
        versions=versions,
        start_version=start.number,
        staleness_limit=config.data.staleness_limit,
    )
    data = tuple(
        read_run(store, run.id, reader, after=(after or {}).get(run.id), through=(through or {}).get(run.id))
        for run in stored
    )
    groups = [group for one in data for group in one.groups]
    if not groups:
        skipped = sum((Counter(one.skipped) for one in data), Counter[Skip]())
        why = nothing_left(sum(one.total for one in data), skipped)
        raise NothingToTrainError(f"there is nothing to train on in {', '.join(runs)}: {why}")
    steps = plan_steps(
        groups,
        [group for one in data for group in one.alike],
        groups_per_step=config.update.groups_per_step,
        passes=config.update.passes,
        seed=config.run.seed,
    )
    training = _training(stored, start, config, data, after or {})
    # A publication that was cut short between its row and its event is finished by publishing again.
    whole = {event.number for event in store.policy_events() if event.kind is PolicyEventKind.PUBLISHED}
    made = [one for one in versions.values() if one.config_hash == training.id and one.number in whole]
    return Plan(
        training=training,
        config=config,
        start=start,
        start_model=versions[0],
        data=data,
        steps=tuple(steps),
        sampling=_sampling(data),
        published=made[0] if made else None,
    )


def start_version(folder: str, problem: Problem) -> PolicyVersion:
    """Return the model folder of a run's settings (empty: the built-in model for `problem`) as version 0."""
    return PolicyVersion(0, None, str(resolved(folder or built_in_model(problem))))


def resolved(folder: str | Path) -> Path:
    """Return the full path of a folder that a person may have named."""
    return Path(folder).expanduser().resolve()


def _start_model(store: Store, runs: Sequence[Run], config: TrainConfig) -> PolicyVersion:
    """Return version 0 of a store that has none: the model that the first run was sampled from."""
    folder = config.run.model
    if not folder:
        settings = Config.from_json(runs[0].config_json).proposer
        if settings.name == "openai":
            raise ConfigError(
                f"run {runs[0].id} was sampled from a server, by the name {settings.model!r}; say in which "
                "folder that model lies: run.model=FOLDER"
            )
        folder = settings.model
    return start_version(folder, store.problem(runs[0].problem_id, runs[0].problem_version))


def _check_model(store: Store, run: Run, start_model: PolicyVersion) -> None:
    """Raise `TrainingError` if a run was sampled from another start model than the store's."""
    settings = Config.from_json(run.config_json).proposer
    if settings.name != "local" or settings.policy != "start":
        return
    problem = store.problem(run.problem_id, run.problem_version)
    folder = start_version(settings.model, problem).path
    if resolved(folder) != resolved(start_model.path):
        raise TrainingError(
            f"run {run.id} was sampled from the model in {folder}, and version 0 of this store is the one in "
            f"{start_model.path}; keep runs of different start models in stores of their own"
        )


def _sampling(data: Sequence[RunData]) -> Sampling:
    """Return the sampling of the rollouts. Raises `TrainingError` if their temperatures differ."""
    rollouts = [(rollout, one.run_id) for one in data for group in one.groups for rollout in group.rollouts]
    found: dict[float, str] = {}
    for rollout, run_id in rollouts:
        found.setdefault(rollout.sampling.temperature, run_id)
    if len(found) > 1:
        listed = ", ".join(f"{temperature:g} (run {run})" for temperature, run in found.items())
        raise TrainingError(
            f"the answers were sampled at different temperatures: {listed}; one training computes one "
            "distribution: train on runs of one temperature"
        )
    return rollouts[-1][0].sampling


def _training(
    runs: Sequence[Run],
    start: PolicyVersion,
    config: TrainConfig,
    data: Sequence[RunData],
    after: Mapping[str, str],
) -> Training:
    """Return the record of a training; its id hashes all that its weights follow from."""
    groups = [
        (group.prompt_id, [rows.shape for rows in group.rewards]) for one in data for group in one.groups
    ]
    return Training(
        id=content_id(config.to_json(), str(start), json.dumps(groups), *(run.id for run in runs)),
        objective=config.objective.name,
        config_json=config.to_json(),
        start_version=start.number,
        runs=tuple(run.id for run in runs),
        after=tuple(after.get(run.id) for run in runs),
        through=tuple(one.through for one in data),
        seed=config.run.seed,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
