"""Loads the model of a policy version for training, and writes the folder of a new version atomically."""

import json
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from transformers import AutoTokenizer

from evovpo.errors import ConfigError, PolicyError, PublishError
from evovpo.files import PARTIAL, written_whole
from evovpo.proposers.local import load_model, no_progress_bar
from evovpo.proposers.policy_folders import (
    ADAPTER_FILE,
    POLICY_FILE,
    WarmUp,
    base_version,
    is_adapter,
    require_folder,
)
from evovpo.store import Store
from evovpo.types import PolicyVersion
from trainer.config import TrainConfig


class TrainableModel(NamedTuple):
    """A model to train, the reference model of the KL term, and the tokenizer that the two models share."""

    model: Any
    """A transformers causal language model, or a PEFT model around one; in float32."""
    reference: Any | None
    """The start model; None without a KL term, or if the reference is `model` without its adapter."""
    tokenizer: Any


def load_trainable(version: PolicyVersion, start_model: PolicyVersion, config: TrainConfig) -> TrainableModel:
    """Return the model of `version`, ready to train all weights or, with a LoRA rank, only an adapter.

    With a LoRA rank, the adapter of `version` is trained further; if there is none, a new adapter is
    initialised from the seed. Without a LoRA rank, an adapter is merged into its base. `start_model` is the
    reference of the KL term; without a KL term, no reference is loaded.

    Raises `PolicyError` if a folder is missing or cannot be loaded, and `ConfigError` if the LoRA rank
    differs from the rank of the version's adapter.
    """
    lora_rank, with_reference = config.update.lora_rank, config.update.kl > 0
    for needed in (version, start_model) if with_reference else (version,):
        require_folder(needed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    base = base_version(version)
    model, tokenizer, _ = load_model(version if lora_rank is None else base)
    if device == "cpu":
        # On a CPU the backward pass of fused attention is slower than the plain one.
        model.set_attn_implementation("eager")
    if lora_rank is None:
        model.requires_grad_(True)  # merging an adapter leaves the weights frozen
    else:
        model = _with_adapter(model, version, lora_rank, config.run.seed)
    reference = None
    is_start = Path(base.path).resolve() == Path(start_model.path).resolve()
    if with_reference and (lora_rank is None or not is_start):
        reference = load_model(start_model).model.requires_grad_(False).to(device)
    return TrainableModel(model.to(device), reference, tokenizer)


def load_tokenizer(version: PolicyVersion) -> Any:
    """Return a version's tokenizer. Raises `PolicyError` if the tokenizer is missing or damaged."""
    require_folder(version)
    folder = base_version(version).path
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise PolicyError(
            f"the tokenizer in {folder} cannot be loaded ({error}); write it again with save_pretrained"
        ) from error


def save_model(folder: Path, trained: TrainableModel) -> None:
    """Write a model and its tokenizer into a folder; for a PEFT model, write only the adapter."""
    with no_progress_bar():
        if hasattr(trained.model, "peft_config"):
            # Otherwise peft looks up the base model's vocabulary on the network.
            trained.model.save_pretrained(folder, save_embedding_layers=False)
        else:
            trained.model.save_pretrained(folder)
            trained.tokenizer.save_pretrained(folder)


def _with_adapter(model: Any, version: PolicyVersion, rank: int, seed: int) -> Any:
    from peft import LoraConfig, PeftModel, TaskType, get_peft_model

    if is_adapter(version):
        model = PeftModel.from_pretrained(model, version.path, is_trainable=True, local_files_only=True)
        found = model.active_peft_config.r
        if found != rank:
            raise ConfigError(
                f"update.lora_rank is {rank}, and policy version {version.number} is an adapter of rank "
                f"{found}; set update.lora_rank={found}, or leave it out to merge it and train all weights"
            )
        return model
    torch.manual_seed(seed)
    task = TaskType.CAUSAL_LM
    lora = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type=task)
    return get_peft_model(model, lora)


_OWN = re.compile(rf"v\d{{4,}}({re.escape(PARTIAL)})?")


def _owner(store: Store) -> str:
    return str(store.file.resolve()) if store.file else store.name


def _place(store: Store, policies: Path, number: int) -> Path:
    """Return the path for a new version. Leftovers of this store's interrupted publications are deleted."""
    folder = policies / f"v{number:04d}"
    known = {Path(version.path) for version in store.policy_versions()}
    try:
        policies.mkdir(parents=True, exist_ok=True)
        for entry in policies.iterdir():
            if entry not in known and _OWN.fullmatch(entry.name) and _owner_of(entry) in ("", _owner(store)):
                shutil.rmtree(entry)
    except OSError as error:
        raise PublishError(
            f"{policies} cannot be used as the folder of policies ({error}); nothing was stored"
        ) from error
    if folder.exists():
        raise PublishError(
            f"{folder} exists and is not of this store (it belongs to {_owner_of(folder)}); give every store "
            "a policies folder of its own, or remove it"
        )
    return folder


def check_place(store: Store, policies: Path) -> None:
    """Raise `PublishError` if a store has no versions and another store uses the folder `policies`."""
    first = policies / "v0001"
    if not store.policy_versions() and first.exists() and _owner_of(first) not in ("", _owner(store)):
        raise PublishError(
            f"{first} is of another store ({_owner_of(first)}); give --policies another folder"
        )


def _owner_of(folder: Path) -> str:
    try:
        return str(json.loads((folder / POLICY_FILE).read_text(encoding="utf-8"))["store"])
    except (OSError, ValueError, KeyError, TypeError):
        return "" if folder.name.endswith(PARTIAL) else "something else"


def write_folder(store: Store, policies: Path, number: int, trained: TrainableModel, warm_up: WarmUp) -> Path:
    """Write the folder of version `number` atomically, and return its path.

    Raises `PublishError` and leaves nothing behind if the folder cannot be written or its name is taken.
    """
    folder = _place(store, policies, number)
    try:
        with written_whole(folder) as partial:
            partial.mkdir()
            about = {"store": _owner(store), "warm_up": warm_up._asdict()}
            (partial / POLICY_FILE).write_text(json.dumps(about), encoding="utf-8")
            save_model(partial, trained)
            if (partial / ADAPTER_FILE).exists():
                _name_base(partial / ADAPTER_FILE)
            for file in partial.iterdir():
                file.chmod(0o644)  # safetensors files are private to their user; servers may run as another
    except (OSError, SafetensorError) as error:
        raise PublishError(
            f"{folder} cannot be written ({error}); nothing was stored, and searches go on with the version "
            "served before: make room, then publish again"
        ) from error
    return folder


def _name_base(file: Path) -> None:
    config = json.loads(file.read_text(encoding="utf-8"))
    base = config.get("base_model_name_or_path")
    if not base or not Path(base).is_dir():
        raise PublishError(
            f"the adapter stands on the model {base!r}, which is no folder here; load the base model from a "
            "folder before training, so that searches and servers find the same one"
        )
    config["base_model_name_or_path"] = str(Path(base).resolve())
    file.write_text(json.dumps(config, indent=2), encoding="utf-8")
