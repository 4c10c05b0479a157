"""From the groups of stored runs to a new policy version: read, train, compare, publish, serve.

What is trained follows from the configuration, the start version and the groups, and so does the id of a
training. Given again after a kill, anywhere, the same call goes on from the last checkpoint and ends with
the weights that it would have had (on one CPU thread); given again after it ended, it returns the version
that it made. One process trains into a policies folder at a time.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from evovpo.builtin.choice import built_in_model
from evovpo.builtin.strings.format import expression_fault
from evovpo.config import Config, StoreConfig
from evovpo.errors import ConfigError, DivergedError, NothingToTrainError, TrainingError
from evovpo.files import write_json
from evovpo.problem.folder import with_folder_grouping
from evovpo.proposers.local import no_progress_bar
from evovpo.proposers.server import PolicyServer
from evovpo.store import Store
from evovpo.types import (
    Json,
    PolicyEvent,
    PolicyEventKind,
    PolicyVersion,
    Problem,
    Run,
    Sampling,
    Training,
    TrainingStep,
    content_id,
)
from trainer.config import TrainConfig
from trainer.learning.checkpoints import Checkpoint, latest_checkpoint, only_trainer, save_checkpoint, writing
from trainer.learning.data import (
    Reader,
    RunData,
    Skip,
    StepData,
    nothing_left,
    plan_steps,
    read_run,
    step_figures,
    training_rows,
)
from trainer.learning.offline import TrainingRow, Updater, UpdateSettings, token_logprobs
from trainer.learning.policies import Trainable, load_tokenizer, load_trainable
from trainer.loop.guard import clearly_worse
from trainer.loop.probe import ProbeResult, probe
from trainer.loop.probe_problems import generated_problems
from trainer.loop.publish import publish_policy, serve_policy

LOGPROB_TOLERANCE = 0.05
"""Mean difference, in nats a token, up to which logged log-probabilities count as those of their version:
far above what bfloat16 servers differ by, far below another temperature or model."""
_CHECKED_ROWS = 16
_IS_WORSE = "probe.is_worse"
_PROBE_FILE = "probe.json"


class RetrainResult(NamedTuple):
    """What a training came to; `evovpo retrain --json` prints these fields."""

    policy_version: int
    objective: str
    groups_used: int
    """Different groups trained on."""
    groups_skipped: int
    steps: int
    tokens: int
    """Completion tokens trained on, each as often as it was."""
    seconds: float
    """Wall-clock seconds of this process's part."""
    probe: Json
    """Best@k and pass@k of the version and its parent, and the verdict; none if nothing was probed."""


class RetrainPreview(NamedTuple):
    """The fields of `RetrainResult` for a training that is only planned."""

    policy_version: None
    objective: str
    groups_used: int
    groups_skipped: int
    steps: int
    tokens: int
    seconds: float
    """Wall-clock seconds that planning took."""
    probe: None


class Plan(NamedTuple):
    """What a training would do."""

    training: Training
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

    def preview(self, seconds: float) -> RetrainPreview:
        """Return what a result would hold, as far as it is known before."""
        return RetrainPreview(
            policy_version=None,
            objective=self.training.objective,
            groups_used=self.groups_used,
            groups_skipped=self.groups_skipped,
            steps=len(self.steps),
            tokens=self.tokens,
            seconds=round(seconds, 3),
            probe=None,
        )


def _ignore(*_: object) -> None:
    """Watch nothing."""


@dataclass(frozen=True)
class Watch:
    """What a caller wants to be told on the way."""

    planned: Callable[[Plan, int], None] = _ignore
    """The plan, and how many of its steps are done already."""
    stepped: Callable[[TrainingStep], None] = _ignore
    probed: Callable[[int, int], None] = _ignore
    """Problems probed, of how many; both versions count."""


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
    elif (
        config.run.model and Path(config.run.model).expanduser().resolve() != Path(versions[0].path).resolve()
    ):
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
        skipped: Counter[Skip] = Counter()
        for one in data:
            skipped.update(one.skipped)
        names = ", ".join(run.id for run in stored)
        total = sum(one.total for one in data)
        raise NothingToTrainError(f"there is nothing to train on in {names}: {nothing_left(total, skipped)}")
    steps = plan_steps(
        groups,
        [group for one in data for group in one.alike],
        groups_per_step=config.update.groups_per_step,
        passes=config.update.passes,
        seed=config.run.seed,
    )
    training = _training(stored, start, config, data, after or {})
    made = [version for version in versions.values() if version.config_hash == training.id]
    return Plan(
        training=training,
        start=start,
        start_model=versions[0],
        data=data,
        steps=tuple(steps),
        sampling=_sampling(data),
        published=made[0] if made else None,
    )


def retrain(
    store: Store,
    runs: Sequence[str],
    config: TrainConfig,
    *,
    policies: Path,
    after: Mapping[str, str] | None = None,
    through: Mapping[str, str] | None = None,
    problems: Sequence[Problem] | None = None,
    targets: Sequence[PolicyServer] = (),
    watch: Watch = Watch(),  # frozen
) -> RetrainResult:
    """Train the served version (or the start model) on the groups of these runs, publish it, and serve it.

    `after` and `through` limit the groups of a run to those completed after one prompt and up to another.
    The new version is compared with its parent on `problems` (by default `config.probe.problems` generated
    ones, where the built-in format fits the runs), and is not served if it is clearly worse. `targets` are
    servers that must offer it. Files go into `policies`, a folder that one trainer uses at a time.

    Raises, with what was served before still served: `TrainingError` if there is nothing to train on, the
    data do not fit the model, a file cannot be written, or another trainer is at work; `DivergedError` if
    the loss is not finite; `PolicyError` if a policy folder is gone; `ConfigError` for settings that do not
    go together; `PublishError` if the version cannot be published.
    """
    began = time.monotonic()
    with only_trainer(policies):
        plan = make_plan(store, runs, config, after=after, through=through)
        folder = policies.resolve() / "trainings" / plan.training.id
        version = plan.published
        if version is None:
            serve_start_model(store, plan.start_model)
            store.add_training(plan.training)
            version = _train_and_publish(store, plan, config, policies, folder, problems, targets, watch)
        else:
            watch.planned(plan, len(plan.steps))
        found = _read_probe(folder)
        _serve(store, version, found, targets)
        for leftover in ("checkpoints", "candidate"):
            shutil.rmtree(folder / leftover, ignore_errors=True)
    steps = store.training_steps(plan.training.id)
    return RetrainResult(
        policy_version=version.number,
        objective=config.objective.name,
        groups_used=plan.groups_used,
        groups_skipped=plan.groups_skipped,
        steps=len(steps),
        tokens=sum(step.tokens for step in steps),
        seconds=round(time.monotonic() - began, 3),
        probe=found,
    )


def start_version(folder: str, problem: Problem) -> PolicyVersion:
    """Return the model folder of a run's settings (empty: the built-in model for `problem`) as version 0."""
    return PolicyVersion(0, None, str(Path(folder or built_in_model(problem)).expanduser().resolve()))


def serve_start_model(store: Store, start_model: PolicyVersion) -> None:
    """Store version 0 and serve it, unless something is served already."""
    if store.served() is None:
        store.add_policy_version(start_model)
        store.serve(0, "the start model")


def default_policies(store: Store) -> Path:
    """Return the policies folder of a store: beside its file, or in the current directory for a server."""
    return Path("evovpo-policies") if store.file is None else store.file.resolve().parent / "policies"


# ---------------------------------------------------------------- what is trained on


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
    folder = Path(start_version(settings.model, problem).path)
    if folder != Path(start_model.path).resolve():
        raise TrainingError(
            f"run {run.id} was sampled from the model in {folder}, and version 0 of this store is the one in "
            f"{start_model.path}; keep runs of different start models in stores of their own"
        )


def _sampling(data: Sequence[RunData]) -> Sampling:
    """Return the sampling of the rollouts. Raises `TrainingError` if their temperatures differ."""
    found: dict[float, str] = {}
    sampling = Sampling()
    for one in data:
        for group in one.groups:
            for rollout in group.rollouts:
                sampling = rollout.sampling
                found.setdefault(sampling.temperature, one.run_id)
    if len(found) > 1:
        listed = ", ".join(f"{temperature:g} (run {run})" for temperature, run in found.items())
        raise TrainingError(
            f"the answers were sampled at different temperatures: {listed}; one training computes one "
            "distribution: train on runs of one temperature"
        )
    return sampling


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


# ---------------------------------------------------------------- training


def _train_and_publish(
    store: Store,
    plan: Plan,
    config: TrainConfig,
    policies: Path,
    folder: Path,
    problems: Sequence[Problem] | None,
    targets: Sequence[PolicyServer],
    watch: Watch,
) -> PolicyVersion:
    trained = load_trainable(
        plan.start,
        plan.start_model,
        lora_rank=config.update.lora_rank,
        seed=config.run.seed,
        with_reference=config.update.kl > 0,
    )
    try:
        _check_logprobs(plan, trained.model)
        _make_steps(store, plan, config, trained, folder, watch)
    except DivergedError as error:
        detail = f"training {plan.training.id}: {error}"
        event = PolicyEvent(None, PolicyEventKind.FAILED, detail, training_id=plan.training.id)
        store.add_policy_event(event)
        raise DivergedError(f"{error}. Policy version {plan.start.number} is still served") from error
    model = trained.model.cpu()
    metrics = _metrics(store, plan)
    if problems is None:
        problems = _generated(store, plan, config)
    if problems:
        metrics |= _compare(store, plan, config, trained, folder, problems, watch)
    return publish_policy(
        store,
        model,
        trained.tokenizer,
        policies=policies,
        parent=plan.start,
        trained_through=next((last for last in reversed(plan.training.through) if last), None),
        config_hash=plan.training.id,
        metrics=metrics,
        targets=targets,
        serve=False,
    )


def _check_logprobs(plan: Plan, model: Any) -> None:
    """Raise `TrainingError` unless the logged log-probabilities are those of the version that they name."""
    number = plan.start.number
    rows = _rows(plan, written_by=number)[:_CHECKED_ROWS]
    if not rows:
        return
    difference = float((_computed(model, rows, plan.sampling) - _logged(rows)).abs().mean())
    if not difference <= LOGPROB_TOLERANCE:
        raise TrainingError(
            f"the logged log-probabilities are not those of policy version {number} at temperature "
            f"{plan.sampling.temperature:g}: they differ by {difference:.3g} nats a token (allowed: "
            f"{LOGPROB_TOLERANCE}); {plan.start.path} holds other weights than the run was sampled from, or "
            "its server sampled otherwise than it said"
        )


def _rows(plan: Plan, written_by: int | None = None) -> list[TrainingRow]:
    """Return the rollouts that are trained on (only those of one version, if it is given), without credit."""
    return [
        TrainingRow(group.prompt_ids, rollout.token_ids, rollout.logprobs, np.zeros(len(rollout.token_ids)))
        for one in plan.data
        for group in one.groups
        for rollout, is_valid in zip(group.rollouts, group.valid_G, strict=True)
        if is_valid and rollout.token_ids and rollout.logprobs
        if written_by in (None, rollout.policy_version)
    ]


def _logged(rows: Sequence[TrainingRow]) -> torch.Tensor:
    return torch.tensor([value for row in rows for value in row.logprobs])


def _computed(model: Any, rows: Sequence[TrainingRow], sampling: Sampling) -> torch.Tensor:
    model.eval()
    return torch.cat(token_logprobs(model, rows, sampling.temperature))


def _make_steps(
    store: Store, plan: Plan, config: TrainConfig, trained: Trainable, folder: Path, watch: Watch
) -> None:
    """Make the steps that are left, each with its row, its curves and, now and then, a checkpoint."""
    from torch.utils.tensorboard import SummaryWriter

    settings = config.update
    update = UpdateSettings(**dict(settings), temperature=plan.sampling.temperature)
    updater = Updater(trained.model, update, trained.reference)
    checkpoint = latest_checkpoint(folder / "checkpoints")
    done = 0
    if checkpoint is not None:
        updater.load_state_dict(checkpoint.state)
        done = checkpoint.steps
    watch.planned(plan, done)
    curves = folder / "tensorboard"
    with writing(curves, is_kept=True), SummaryWriter(curves, purge_step=done) as writer:
        for number in range(done, len(plan.steps)):
            step = _make_step(updater, plan, config, number)
            store.add_training_step(step)
            for name in TrainingStep.__dataclass_fields__:
                if name not in ("training_id", "step"):
                    writer.add_scalar(name, getattr(step, name), number)
            if (number + 1) % settings.checkpoint_steps == 0 or number + 1 == len(plan.steps):
                save_checkpoint(folder / "checkpoints", Checkpoint(number + 1, updater.state_dict()))
            watch.stepped(step)
    rows = _rows(plan)[:_CHECKED_ROWS]
    behind = _logged(rows) - _computed(trained.model, rows, plan.sampling)
    if not (behind.exp() - behind - 1).mean().isfinite():  # the KL term, and nan where a log-probability is
        raise DivergedError(
            "training diverged: after its last step the loss is not finite any more; lower the learning rate "
            f"(it is {settings.learning_rate:g})"
        )


def _make_step(updater: Updater, plan: Plan, config: TrainConfig, number: int) -> TrainingStep:
    began = time.perf_counter()
    data, seed = plan.steps[number], config.run.seed
    torch.manual_seed(int(content_id(str(seed), str(number)), 16) >> 1)  # dropout, where a model has any
    figures = updater.update(training_rows(data, config.objective, seed=seed, number=number))
    read = step_figures(data, config.objective)
    return TrainingStep(
        training_id=plan.training.id,
        step=number,
        set_score=read.of_groups.set_score,
        pool_score=read.of_groups.pool_score,
        mean_reward=read.of_groups.mean_reward,
        pass_rate=read.of_groups.pass_rate,
        diversity=read.of_groups.diversity,
        distinct_programs=read.of_groups.distinct,
        zero_spread_share=read.zero_spread_share,
        staleness=read.staleness,
        entropy=figures["entropy"],
        kl=figures["kl"],
        clip_share=figures["clip_share"],
        loss=figures["loss"],
        grad_norm=figures["grad_norm"],
        groups=len(data.groups),
        tokens=int(figures["tokens"]),
        seconds=time.perf_counter() - began,
    )


def _metrics(store: Store, plan: Plan) -> dict[str, float]:
    """Return what a version's row says of its training."""
    steps = store.training_steps(plan.training.id)
    return {
        "steps": float(len(steps)),
        "groups": float(plan.groups_used),
        "tokens": float(sum(step.tokens for step in steps)),
        "kl": steps[-1].kl,
        "entropy": steps[-1].entropy,
    }


# ---------------------------------------------------------------- the guard


def _generated(store: Store, plan: Plan, config: TrainConfig) -> tuple[Problem, ...]:
    """Return generated problems to probe on, or none where the built-in format does not fit the runs."""
    stored = [store.run(run_id) for run_id in plan.training.runs]
    of_runs = [with_folder_grouping(store.problem(run.problem_id, run.problem_version)) for run in stored]
    if config.probe.problems == 0 or any(expression_fault(problem) for problem in of_runs):
        return ()
    return generated_problems(config.probe.problems)


def _compare(
    store: Store,
    plan: Plan,
    config: TrainConfig,
    trained: Trainable,
    folder: Path,
    problems: Sequence[Problem],
    watch: Watch,
) -> dict[str, float]:
    """Probe the trained model and its parent, keep the comparison in a file, and return its figures."""
    candidate = folder / "candidate"
    shutil.rmtree(candidate, ignore_errors=True)
    with writing(candidate), no_progress_bar():
        if hasattr(trained.model, "peft_config"):
            trained.model.save_pretrained(candidate, save_embedding_layers=False)
        else:
            trained.model.save_pretrained(candidate)
            trained.tokenizer.save_pretrained(candidate)
    lengths = Counter(len(rows) for one in plan.data for group in one.groups for rows in group.rewards)
    budget = max(store.run(run_id).evaluations for run_id in plan.training.runs)

    def probed(version: PolicyVersion, before: int) -> ProbeResult:
        return probe(
            version,
            problems,
            answers=lengths.most_common(1)[0][0],
            k_max=config.probe.answers,
            seed=config.run.seed,
            sampling=plan.sampling,
            config=Config(store=StoreConfig(url=store.name)),
            on_problem=lambda done, total: watch.probed(before + done, 2 * total),
        )

    parent = probed(plan.start, 0)
    new = probed(PolicyVersion(plan.start.number + 1, plan.start.number, str(candidate)), len(problems))
    verdict = clearly_worse(new, parent, budget=budget)
    summaries = {"version": new.summary(), "parent": parent.summary()}
    for summary in summaries.values():
        summary.pop("policy_version")
    found: dict[str, Json] = {**summaries, "verdict": verdict.summary()}
    is_refused = verdict.is_worse and not config.probe.serve_worse
    with writing(folder / _PROBE_FILE):
        write_json(folder / _PROBE_FILE, found)
    return {
        _IS_WORSE: float(is_refused),
        **{f"probe.best_at_{k}": value for k, value in new.best_at_k.items()},
        **{f"probe.pass_at_{k}": value for k, value in new.pass_at_k.items()},
        **{f"probe.parent.best_at_{k}": value for k, value in parent.best_at_k.items()},
        **{f"probe.parent.pass_at_{k}": value for k, value in parent.pass_at_k.items()},
    }


def _read_probe(folder: Path) -> dict[str, Json] | None:
    """Return the comparison of a training, or none if it made none."""
    file = folder / _PROBE_FILE
    if not file.is_file():
        return None
    found: dict[str, Json] = json.loads(file.read_text())
    return found


def _serve(
    store: Store, version: PolicyVersion, found: dict[str, Json] | None, targets: Sequence[PolicyServer]
) -> None:
    """Serve a new version, or say why not; a version about which that was said once is left alone."""
    said = (PolicyEventKind.SERVED, PolicyEventKind.REFUSED)
    if any(event.number == version.number and event.kind in said for event in store.policy_events()):
        return
    if dict(version.metrics).get(_IS_WORSE):
        verdict = (found or {}).get("verdict")
        reason = verdict["reason"] if isinstance(verdict, dict) else "clearly worse than its parent"
        store.add_policy_event(PolicyEvent(version.number, PolicyEventKind.REFUSED, str(reason)))
        return
    serve_policy(store, version.number, f"trained from version {version.parent}", targets)
