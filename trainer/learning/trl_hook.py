"""The only file that uses TRL's internals.

Check this file at every minor release of TRL; `tests/contract/test_trl_hook.py` shows changes.
"""

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy.typing as npt
import torch
from trl import GRPOTrainer  # type: ignore[attr-defined]
from trl.models import unwrap_model_for_generation  # type: ignore[attr-defined]

from evovpo.errors import TrainingError

HOOK = "_generate_and_score_completions"
"""Method of `GRPOTrainer` after which the advantages are replaced."""
Batch = dict[str, Any]
"""Return value of TRL's hook: tensors of this process's rows, by name."""
Mode = Literal["train", "eval"]


class HookedTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer`, changed so that a subclass can replace the advantages of each batch."""

    _tag_names = ["trl", "vpo"]  # noqa: RUF012
    _name = "VPO"
    _paper = {}  # noqa: RUF012

    def with_advantages(self, inputs: Sequence[Any], generate: Callable[[], Batch]) -> Batch:
        """Return the batch that `generate` makes, with other advantages; subclasses implement this."""
        raise NotImplementedError

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> Batch:
        return self.with_advantages(
            inputs, lambda: super(HookedTrainer, self)._generate_and_score_completions(inputs)
        )

    @property
    def mode(self) -> Mode:
        model: Any = self.model
        return "train" if model.training else "eval"

    @property
    def group_size(self) -> int:
        size: Any = self.num_generations if self.mode == "train" else self.num_generations_eval
        return int(size)

    @contextmanager
    def model_for_generation(self) -> Iterator[Any]:
        """Yield the current model for sampling during the training, unsharded and with key-value caches."""
        args: Any = self.args
        unwrapped = unwrap_model_for_generation(
            self.model_wrapped, self.accelerator, gather_deepspeed3_params=args.ds3_gather_for_generation
        )
        with unwrapped as model, self._dist.summon_full_params(self.model_wrapped, recurse=False):
            yield model

    def leave_out(self, out: Batch, is_valid: npt.NDArray[Any]) -> None:
        """Exclude the rollouts for which `is_valid` is false from the loss and from its token count."""
        mask = out["completion_mask"]
        kept = torch.as_tensor(is_valid, device=mask.device, dtype=mask.dtype)[:, None]
        out["tool_mask"] = out.get("tool_mask", torch.ones_like(mask)) * kept
        out["num_items_in_batch"] = self.accelerator.gather((mask * out["tool_mask"]).sum()).sum()

    def log_figures(self, figures: Mapping[str, float], advantages: Sequence[float]) -> None:
        """Add a batch's statistics to TRL's log, and replace the advantages in TRL's table of completions."""
        for name, value in figures.items():
            self._metrics[self.mode][name].append(value)
        shown: Any = self._logs["advantages"]
        for _ in range(min(len(advantages), len(shown))):
            shown.pop()
        shown.extend(advantages)


def check_output(out: Any, completion_ids: Sequence[Sequence[int]], rows: int) -> None:
    """Raise `TrainingError` unless TRL's batch `out` holds the `rows` judged completions, in order."""
    for key in ("advantages", "completion_ids", "completion_mask", "num_items_in_batch"):
        if not isinstance(out, dict) or not isinstance(out.get(key), torch.Tensor):
            raise changed(f"a batch has no tensor {key!r}")
    kept = out["completion_ids"].tolist()
    same = [row[: len(ids)] == list(ids) for row, ids in zip(kept, completion_ids, strict=False)]
    if not (len(kept) == len(completion_ids) == len(out["advantages"]) == rows and all(same)):
        raise changed("a batch holds other completions than were judged, or in another order")


def changed(what: str) -> TrainingError:
    """Return a `TrainingError` that reports an unexpected behaviour of the installed version of TRL."""
    return TrainingError(
        f"TRL {importlib.metadata.version('trl')} does not work as vpo_trainer.py expects: {what}; "
        "install a version that pyproject.toml allows"
    )
