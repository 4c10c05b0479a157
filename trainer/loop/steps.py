"""Runs the steps of a planned training from the last checkpoint, and checks that the data fit the model."""

import io
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors import SafetensorError

from evovpo.builtin.strings.format import PROMPT_END
from evovpo.errors import DivergedError, TrainingError
from evovpo.files import written_whole
from evovpo.store import Store
from evovpo.types import TrainingStep, content_id
from trainer.config import TrainConfig
from trainer.domains.strings.tasks import sample_sequence
from trainer.learning.imitation import text_row
from trainer.learning.packing import TrainingRow
from trainer.learning.policy_models import TrainableModel
from trainer.learning.policy_update import Updater, UpdateSettings, token_logprobs
from trainer.learning.step_data import StepData, row_of, step_figures, training_rows
from trainer.loop.training_plan import TrainingCallbacks, TrainingPlan

LOGPROB_TOLERANCE = 0.05
"""Maximum mean error of stored log-probabilities, in nats per token; bfloat16 servers stay far below it."""
_CHECKED_ROWS = 16
_WARMUP_STEPS = 3
CHECKPOINT_STEPS = 10


def make_steps(
    store: Store, plan: TrainingPlan, trained: TrainableModel, folder: Path, watch: TrainingCallbacks
) -> None:
    """Run the remaining steps of a training, store a `TrainingStep` for each, and write regular checkpoints.

    Raises `TrainingError` if the start version does not reproduce the log-probabilities that are stored with
    its rollouts, and `DivergedError` if the loss is not finite.
    """
    _check_logprobs(plan, trained.model)
    settings = plan.config.update
    update = UpdateSettings(
        **dict(settings), temperature=plan.sampling.temperature, warmup_steps=_WARMUP_STEPS
    )
    updater = Updater(trained.model, update, trained.reference)
    checkpoint = latest_checkpoint(folder / "checkpoints")
    done = 0
    if checkpoint is not None:
        done, state = checkpoint
        updater.load_state_dict(state)
    watch.planned(plan, done)
    for number in range(done, len(plan.steps)):
        step = _make_step(updater, plan, number, trained.tokenizer)
        store.add_training_step(step)
        if (number + 1) % CHECKPOINT_STEPS == 0 or number + 1 == len(plan.steps):
            save_checkpoint(folder / "checkpoints", number + 1, updater.state_dict())
        watch.stepped(step)
    ends = _rows(plan) or [text for step in plan.steps for text in step.texts][:_CHECKED_ROWS]
    behind = -_differences(plan, trained.model, ends)
    if not (behind.exp() - behind - 1).mean().isfinite():  # the KL term; nan if any log-probability is
        raise DivergedError(
            "training diverged: after its last step the loss is not finite any more; lower the learning rate "
            f"(it is {settings.learning_rate:g})"
        )


def _make_step(updater: Updater, plan: TrainingPlan, number: int, tokenizer: Any) -> TrainingStep:
    began = time.perf_counter()
    data, config = plan.steps[number], plan.config
    torch.manual_seed(int(content_id(str(config.run.seed), str(number)), 16) >> 1)  # dropout, if there is any
    rows = training_rows(data, config, number)
    if data.texts:
        rows = [[text] for text in (*data.texts, *_replayed(data, config, number, tokenizer))]
    figures = updater.update(rows, are_texts=bool(data.texts))
    return TrainingStep(
        training_id=plan.training.id,
        step=number,
        **step_figures(data, config.objective),
        **{name: figures[name] for name in ("entropy", "kl", "clip_share", "loss", "grad_norm")},
        groups=len(data.groups),
        tokens=int(figures["tokens"]),
        seconds=time.perf_counter() - began,
    )


def _replayed(step: StepData, config: TrainConfig, number: int, tokenizer: Any) -> list[TrainingRow]:
    """Return new pretraining rows, as many as the step has texts, so that the model forgets less."""
    count = len(step.texts) if PROMPT_END in tokenizer.get_vocab() else 0
    rng = Random(f"replay:{config.run.seed}:{number}")
    pairs = [sample_sequence(rng) for _ in range(count)]
    return [text_row(*(tokenizer(text)["input_ids"] for text in pair)) for pair in pairs]


def _check_logprobs(plan: TrainingPlan, model: Any) -> None:
    number = plan.start.number
    rows = _rows(plan, written_by=number)
    difference = float(_differences(plan, model, rows).abs().mean()) if rows else 0.0
    if not difference <= LOGPROB_TOLERANCE:
        raise TrainingError(
            f"the logged log-probabilities are not those of policy version {number} at temperature "
            f"{plan.sampling.temperature:g}: they differ by {difference:.3g} nats a token (allowed: "
            f"{LOGPROB_TOLERANCE}); {plan.start.path} holds other weights than the run was sampled from, or "
            "its server sampled otherwise than it said"
        )


def _rows(plan: TrainingPlan, written_by: int | None = None) -> list[TrainingRow]:
    groups = (group for one in plan.data for group in one.groups)
    return [
        row_of(rollout)
        for group in groups
        for rollout in group.rollouts
        if rollout.token_ids and written_by in (None, rollout.policy_version)
    ][:_CHECKED_ROWS]


def _differences(plan: TrainingPlan, model: Any, rows: Sequence[TrainingRow]) -> torch.Tensor:
    """Return each token's log-probability under the model minus its stored log-probability, in nats."""
    model.eval()
    computed = torch.cat(token_logprobs(model, rows, plan.sampling.temperature))
    return computed - torch.tensor([value for row in rows for value in row.logprobs])


def save_checkpoint(folder: Path, steps: int, state: dict[str, Any]) -> None:
    """Write the state of an `Updater` after `steps` steps into `folder`, then remove older checkpoints.

    If writing fails, for example on a full disk, the older checkpoints stay and `TrainingError` is raised.
    """
    final = folder / f"step-{steps:08d}.pt"
    # Into memory first: on a failed write, torch reports neither the file nor the cause.
    whole = io.BytesIO()
    torch.save({"steps": steps, "state": state}, whole)
    with writing(final):
        folder.mkdir(parents=True, exist_ok=True)
        with written_whole(final) as partial:
            partial.write_bytes(whole.getbuffer())
    for path in folder.iterdir():
        if path != final:
            path.unlink()


def latest_checkpoint(folder: Path) -> tuple[int, dict[str, Any]] | None:
    """Return the number of steps and the state of the newest checkpoint in `folder`, or None.

    Raises `TrainingError` if the checkpoint cannot be read.
    """
    path = max(folder.glob("step-*.pt"), default=None)
    if path is None:
        return None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        return found["steps"], found["state"]
    except Exception as error:  # torch raises any exception for a damaged file
        raise TrainingError(
            f"checkpoint {path} cannot be read ({error}); remove it, and the training begins anew"
        ) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert a failure to write the file or folder `path` to a `TrainingError`, and remove `path`."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        raise TrainingError(
            f"{path} cannot be written ({error}): make room, or fix the cause, and give the same "
            "command again; the training continues from its last checkpoint"
        ) from error
