"""Where a training is between two steps, on disk; and the lock that keeps a second trainer out.

A checkpoint is written beside its place, flushed, and renamed: what has a final name is whole. It holds the
number of steps made and what `Updater.state_dict` gives; all other state (order of groups, weightings, noise)
derives from the seed and the step. The store needs nothing from here: what is lost is time.
"""

import io
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError

from evovpo.errors import FileHeldError, TrainingError
from evovpo.files import hold, written_whole

_NAME = re.compile(r"step-(\d{8})\.pt")


class Checkpoint(NamedTuple):
    """The state after some steps."""

    steps: int
    """Steps made."""
    state: dict[str, Any]
    """Of the `Updater`."""


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint into `folder`, then remove the older ones there.

    Raises `TrainingError` if it cannot be written, for example on a full disk; then the older ones stay.
    """
    final = folder / f"step-{checkpoint.steps:08d}.pt"
    # Into memory first: where a write fails, torch says neither which nor why.
    whole = io.BytesIO()
    torch.save(checkpoint._asdict(), whole)
    with writing(final):
        folder.mkdir(parents=True, exist_ok=True)
        with written_whole(final) as partial:
            partial.write_bytes(whole.getbuffer())
    for path in folder.iterdir():
        if path != final:
            path.unlink()


def latest_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the newest checkpoint in `folder`, or none if there is none.

    Raises `TrainingError` if it cannot be read.
    """
    names = sorted(path.name for path in folder.glob("*") if _NAME.fullmatch(path.name))
    if not names:
        return None
    path = folder / names[-1]
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        return Checkpoint(**found)
    except Exception as error:  # torch raises whatever its unpickler trips over in a damaged file
        raise TrainingError(
            f"checkpoint {path} cannot be read ({error}); remove it, and the training begins anew"
        ) from error


@contextmanager
def writing(path: Path, *, is_kept: bool = False) -> Iterator[None]:
    """Turn a failure to write a file or folder into one `TrainingError`; what is there of it is removed.

    Unless it `is_kept`: then what was written before stays.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        if not is_kept:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        raise TrainingError(
            f"{path} cannot be written ({error}): make room, or mend what else it is, and give the same "
            "command again; the training goes on from its last checkpoint"
        ) from error


@contextmanager
def only_trainer(policies: Path) -> Iterator[None]:
    """Hold the policies folder, made if need be, for this process.

    Raises `TrainingError` if another process holds it, or if it cannot be made. The lock ends with the
    process, however that ends.
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
