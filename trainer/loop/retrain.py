"""Makes a new policy version from stored runs: read, train, compare, publish, serve.

If the process is killed, the same call continues from the last checkpoint and ends with the same weights (on
one CPU thread). If the training has ended, the call returns its version. The policies folder is locked.
"""

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from evovpo.errors import DivergedError, FileHeldError, TrainingError
from evovpo.files import hold
from evovpo.proposers.policy_server import VLLMServer
from evovpo.store import Store
from evovpo.types import Json, PolicyEvent, PolicyEventKind, PolicyVersion, Problem
from trainer.config import TrainConfig
from trainer.learning.policy_models import TrainableModel, load_trainable
from trainer.loop.guard import IS_WORSE, PROBE_FILE, compare_with_earlier
from trainer.loop.probe import cpu_seconds
from trainer.loop.publish import publish_policy, serve_policy
from trainer.loop.steps import make_steps
from trainer.loop.training_plan import TrainingCallbacks, TrainingPlan, make_plan


class RetrainResult(NamedTuple):
    """Result of a training; `evovpo retrain --json` prints these fields."""

    policy_version: int | None
    objective: str
    groups_used: int
    """Number of groups trained on; a group counts once, even if several passes train on it."""
    groups_skipped: int
    steps: int
    tokens: int
    """Completion tokens trained on; a repeated token counts again."""
    seconds: float
    """Wall-clock seconds in this process."""
    probe: Json
    """Statistics of the version and its parent, and the guard's verdict; None if nothing was probed."""
    targets: int
    """Number of imitated programs."""
    targets_by_source: dict[str, int]
    targets_left_out: dict[str, int]


def retrain(
    store: Store,
    runs: Sequence[str],
    config: TrainConfig,
    policies: Path,
    *,
    problems: Sequence[Problem] | None = None,
    targets: Sequence[VLLMServer] = (),
    watch: TrainingCallbacks = TrainingCallbacks(),  # noqa: B008  # frozen
) -> RetrainResult:
    """Train the served version on these runs, publish the result and, unless it is clearly worse, serve it.

    If the training imitates programs, it starts from the start model instead. The new version is compared
    with earlier versions on `problems`. By default, generated problems are used if the runs have the built-in
    model's format. `targets` are servers that must load the new version. Files go into the folder `policies`.

    An error leaves the served version unchanged. Raises `TrainingError` if there is nothing to train on, the
    data do not fit the model, a file cannot be written, or another trainer is running. Raises `PolicyError`
    if a policy folder is missing. Also raises `DivergedError`, `ConfigError` and `PublishError`.
    """
    began = time.monotonic()
    with only_trainer(policies):
        plan = make_plan(store, runs, config)
        folder = policies.resolve() / "trainings" / plan.training.id
        version = plan.published
        if version is None:
            serve_start_model(store, plan.start_model)
            store.add_training(plan.training)
            cpu = time.process_time()
            trained = _train(store, plan, folder, watch)
            cpu = time.process_time() - cpu
            steps = store.training_steps(plan.training.id)
            metrics = {
                "steps": float(len(steps)),
                "groups": float(plan.groups_used),
                "targets": float(len(plan.targets.found)),
                "tokens": float(sum(step.tokens for step in steps)),
                "kl": steps[-1].kl,
                "entropy": steps[-1].entropy,
                "cpu_seconds": cpu,  # of this process only: too low for a resumed training
            }
            cpu = cpu_seconds()
            metrics |= compare_with_earlier(store, plan, trained, folder, problems, watch.probed)
            metrics["guard_cpu_seconds"] = cpu_seconds() - cpu
            through = [last for last in plan.training.through if last]
            made = PolicyVersion(
                number=-1,
                parent=plan.start.number,
                path="",
                trained_through=through[-1] if through else None,
                config_hash=plan.training.id,
                metrics=tuple(metrics.items()),
            )
            version = publish_policy(store, trained, made, policies, targets)
        else:
            watch.planned(plan, len(plan.steps))
        file = folder / PROBE_FILE
        found = json.loads(file.read_text()) if file.is_file() else None
        _serve(store, version, found, targets)
        for leftover in ("checkpoints", "candidate"):
            shutil.rmtree(folder / leftover, ignore_errors=True)
    steps = store.training_steps(plan.training.id)
    return preview(plan, time.monotonic() - began)._replace(
        policy_version=version.number,
        steps=len(steps),
        tokens=sum(step.tokens for step in steps),
        probe=found,
    )


def preview(plan: TrainingPlan, seconds: float) -> RetrainResult:
    """Return the part of a training's result that `plan` determines. `seconds` is the time spent so far."""
    return RetrainResult(
        policy_version=None,
        objective=plan.training.objective,
        groups_used=plan.groups_used,
        groups_skipped=plan.groups_skipped,
        steps=len(plan.steps),
        tokens=plan.tokens,
        targets=len(plan.targets.found),
        targets_by_source=plan.targets.by_source(),
        targets_left_out={str(reason): count for reason, count in plan.targets.left_out.items()},
        seconds=round(seconds, 3),
        probe=None,
    )


def serve_start_model(store: Store, start_model: PolicyVersion) -> None:
    """Store the start model as version 0 and serve it, unless the store serves a version already."""
    if store.served() is None:
        store.add_policy_version(start_model)
        store.serve(0, "the start model")


def default_policies(store: Store) -> Path:
    """Return the default policies folder: next to the store's file or, without one, in the current folder."""
    return Path("evovpo-policies") if store.file is None else store.file.resolve().parent / "policies"


@contextmanager
def only_trainer(policies: Path) -> Iterator[None]:
    """Create the policies folder if needed, and lock it for this process.

    Raises `TrainingError` if another process has locked the folder, or if the folder cannot be created.
    """
    try:
        policies.mkdir(parents=True, exist_ok=True)
        held = hold(policies / ".lock")
    except FileHeldError as error:
        raise TrainingError(
            f"another trainer (process {error}) works in {policies}; wait for it or end it, or give another "
            "folder with --policies"
        ) from None
    except OSError as error:
        raise TrainingError(
            f"the policies folder {policies} cannot be used ({error.strerror}); give another with --policies"
        ) from error
    with held:
        yield


def _train(store: Store, plan: TrainingPlan, folder: Path, watch: TrainingCallbacks) -> TrainableModel:
    trained = load_trainable(plan.start, plan.start_model, plan.config)
    try:
        make_steps(store, plan, trained, folder, watch)
    except DivergedError as error:
        detail = f"training {plan.training.id}: {error}"
        event = PolicyEvent(None, PolicyEventKind.FAILED, detail, training_id=plan.training.id)
        store.add_policy_event(event)
        raise DivergedError(f"{error}. Policy version {plan.start.number} is still served") from error
    return trained._replace(model=trained.model.cpu())


def _serve(
    store: Store, version: PolicyVersion, found: dict[str, Any] | None, targets: Sequence[VLLMServer]
) -> None:
    said = (PolicyEventKind.SERVED, PolicyEventKind.REFUSED)
    if any(event.number == version.number and event.kind in said for event in store.policy_events()):
        return
    if dict(version.metrics).get(IS_WORSE):
        reason = found["verdict"]["reason"] if found else "clearly worse than its parent"
        store.add_policy_event(PolicyEvent(version.number, PolicyEventKind.REFUSED, reason))
    else:
        serve_policy(store, version.number, f"trained from version {version.parent}", targets)
