"""The steps of a planned training, from the last checkpoint on, and the check that its data fit its model."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evovpo.errors import DivergedError, TrainingError
from evovpo.store import Store
from evovpo.types import Sampling, TrainingStep, content_id
from trainer.learning.checkpoints import Checkpoint, latest_checkpoint, save_checkpoint, writing
from trainer.learning.offline import Updater, UpdateSettings, token_logprobs
from trainer.learning.packing import TrainingRow
from trainer.learning.policies import Trainable
from trainer.learning.step_data import step_figures, training_rows
from trainer.loop.training_plan import Plan

LOGPROB_TOLERANCE = 0.05
"""Mean difference, in nats a token, up to which logged log-probabilities count as those of their version:
far above what bfloat16 servers differ by, far below another temperature or model."""
_CHECKED_ROWS = 16


def make_steps(
    store: Store,
    plan: Plan,
    trained: Trainable,
    folder: Path,
    planned: Callable[[Plan, int], None],
    stepped: Callable[[TrainingStep], None],
) -> None:
    """Make the steps that are left, each with its row, its curves and, now and then, a checkpoint.

    `planned` is told how many are done, and `stepped` each. Raises `TrainingError` if the logged
    log-probabilities are not those of the version that they name, `DivergedError` if the loss is not finite.
    """
    from torch.utils.tensorboard import SummaryWriter

    _check_logprobs(plan, trained.model)
    settings = plan.config.update
    update = UpdateSettings(**dict(settings), temperature=plan.sampling.temperature)
    updater = Updater(trained.model, update, trained.reference)
    checkpoint = latest_checkpoint(folder / "checkpoints")
    done = 0
    if checkpoint is not None:
        updater.load_state_dict(checkpoint.state)
        done = checkpoint.steps
    planned(plan, done)
    curves = folder / "tensorboard"
    with writing(curves, is_kept=True), SummaryWriter(curves, purge_step=done) as writer:
        for number in range(done, len(plan.steps)):
            step = _make_step(updater, plan, number)
            store.add_training_step(step)
            for name in TrainingStep.__dataclass_fields__:
                if name not in ("training_id", "step"):
                    writer.add_scalar(name, getattr(step, name), number)
            if (number + 1) % settings.checkpoint_steps == 0 or number + 1 == len(plan.steps):
                save_checkpoint(folder / "checkpoints", Checkpoint(number + 1, updater.state_dict()))
            stepped(step)
    rows = _rows(plan)[:_CHECKED_ROWS]
    behind = _logged(rows) - _computed(trained.model, rows, plan.sampling)
    if not (behind.exp() - behind - 1).mean().isfinite():  # the KL term, and nan where a log-probability is
        raise DivergedError(
            "training diverged: after its last step the loss is not finite any more; lower the learning rate "
            f"(it is {settings.learning_rate:g})"
        )


def _make_step(updater: Updater, plan: Plan, number: int) -> TrainingStep:
    began = time.perf_counter()
    data, objective, seed = plan.steps[number], plan.config.objective, plan.config.run.seed
    torch.manual_seed(int(content_id(str(seed), str(number)), 16) >> 1)  # dropout, where a model has any
    figures = updater.update(training_rows(data, objective, seed=seed, number=number))
    read = step_figures(data, objective)
    of_groups = read.of_groups._asdict()
    return TrainingStep(
        training_id=plan.training.id,
        step=number,
        distinct_programs=of_groups.pop("distinct"),
        **of_groups,
        zero_spread_share=read.zero_spread_share,
        staleness=read.staleness,
        **{name: figures[name] for name in ("entropy", "kl", "clip_share", "loss", "grad_norm")},
        groups=len(data.groups),
        tokens=int(figures["tokens"]),
        seconds=time.perf_counter() - began,
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
