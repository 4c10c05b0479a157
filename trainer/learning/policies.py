"""A policy version ready to be trained: its model, its tokenizer, and what the KL term holds on to."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoTokenizer

from evovpo.errors import ConfigError, PolicyError
from evovpo.proposers.local import load_model, no_progress_bar
from evovpo.proposers.policies import base_version, is_adapter, require_folder
from evovpo.types import PolicyVersion


class Trainable(NamedTuple):
    """What an `Updater` works on."""

    model: Any
    """A transformers causal language model, or a PEFT model around one; in float32."""
    reference: Any | None
    """The start model, or none where that is the model without its adapter."""
    tokenizer: Any


def load_trainable(
    version: PolicyVersion, start_model: PolicyVersion, *, lora_rank: int, seed: int, with_reference: bool
) -> Trainable:
    """Return a version to train, all weights (rank 0) or a LoRA adapter on top of it.

    An adapter version is trained on as it is, at its own rank, or merged into its base if all weights are to
    be trained. `seed` gives a new adapter its first weights. Without a KL term no reference is loaded.

    Raises `PolicyError` if a folder is gone or cannot be loaded, `ConfigError` for another rank than an
    adapter has.
    """
    for needed in (version, start_model) if with_reference else (version,):
        require_folder(needed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    base = base_version(version)
    model, tokenizer, _ = load_model(version if lora_rank == 0 else base)
    if device == "cpu":
        # There the backward pass of fused attention costs more than the plain one.
        model.set_attn_implementation("eager")
    stands_on_start = False
    if lora_rank == 0:
        model.requires_grad_(True)  # merging an adapter leaves them frozen
    else:
        stands_on_start = Path(base.path).resolve() == Path(start_model.path).resolve()
        model = _with_adapter(model, version, lora_rank, seed)
    reference = None
    if with_reference and not stands_on_start:
        reference = load_model(start_model).model.requires_grad_(False).to(device)
    return Trainable(model.to(device), reference, tokenizer)


def load_tokenizer(version: PolicyVersion) -> Any:
    """Return the tokenizer of a version, without its model. Raises `PolicyError` if its folder is gone."""
    require_folder(version)
    folder = base_version(version).path
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise PolicyError(
            f"the tokenizer in {folder} cannot be loaded ({error}); write it again with save_pretrained"
        ) from error


def save_model(folder: Path, model: Any, tokenizer: Any) -> None:
    """Write a model with its tokenizer into a folder; of a PEFT model only the adapter."""
    with no_progress_bar():
        if hasattr(model, "peft_config"):
            # Otherwise peft asks the network whether the base model had another vocabulary.
            model.save_pretrained(folder, save_embedding_layers=False)
        else:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)


def _with_adapter(model: Any, version: PolicyVersion, rank: int, seed: int) -> Any:
    from peft import LoraConfig, PeftModel, TaskType, get_peft_model

    if is_adapter(version):
        model = PeftModel.from_pretrained(model, version.path, is_trainable=True, local_files_only=True)
        found = model.active_peft_config.r
        if found != rank:
            raise ConfigError(
                f"update.lora_rank is {rank}, and policy version {version.number} is an adapter of rank "
                f"{found}; set update.lora_rank={found}, or 0 to merge it and train all weights"
            )
        return model
    torch.manual_seed(seed)
    return get_peft_model(
        model,
        LoraConfig(
            r=rank,
            lora_alpha=2 * rank,
            lora_dropout=0.0,
            target_modules="all-linear",
            task_type=TaskType.CAUSAL_LM,
        ),
    )
