"""The folder of a policy version: where it lies, whose it is, and writing it whole."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from evovpo.errors import PublishError
from evovpo.files import PARTIAL, written_whole
from evovpo.proposers.policies import ADAPTER_FILE, POLICY_FILE, WarmUp
from evovpo.store import Store
from trainer.learning.policies import save_model

_FOLDER = "v{:04d}"
_OWN = re.compile(rf"v\d{{4,}}({re.escape(PARTIAL)})?")


def _owner(store: Store) -> str:
    return str(store.file.resolve()) if store.file else store.name


def place(store: Store, policies: Path, number: int) -> Path:
    """Return the folder for a version, after removing what killed publications of this store left.

    Raises `PublishError` if the folder is taken by something else.
    """
    folder = policies / _FOLDER.format(number)
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


def _owner_of(folder: Path) -> str:
    """Return which store a folder was written for; empty for one that was begun and holds nothing yet."""
    try:
        return str(json.loads((folder / POLICY_FILE).read_text(encoding="utf-8"))["store"])
    except (OSError, ValueError, KeyError, TypeError):
        return "" if folder.name.endswith(PARTIAL) else "something else"


def write_folder(folder: Path, model: Any, tokenizer: Any, store: Store, warm_up: WarmUp) -> None:
    """Write a policy folder beside its place and rename it; what exists under its name is whole.

    Raises `PublishError`, leaving nothing, if it cannot be written.
    """
    try:
        with written_whole(folder) as partial:
            partial.mkdir()
            about = {"store": _owner(store), "warm_up": warm_up._asdict()}
            (partial / POLICY_FILE).write_text(json.dumps(about), encoding="utf-8")
            save_model(partial, model, tokenizer)
            if (partial / ADAPTER_FILE).exists():
                _name_base(partial / ADAPTER_FILE)
            for file in partial.iterdir():
                file.chmod(0o644)  # safetensors writes for its user alone; servers may run as another
    except (OSError, SafetensorError) as error:
        raise PublishError(
            f"{folder} cannot be written ({error}); nothing was stored, and searches go on with the version "
            "served before: make room, then publish again"
        ) from error


def _name_base(file: Path) -> None:
    """Make the base of an adapter a full path; raises `PublishError` if it is no folder."""
    config = json.loads(file.read_text(encoding="utf-8"))
    base = config.get("base_model_name_or_path")
    if not base or not Path(base).is_dir():
        raise PublishError(
            f"the adapter stands on the model {base!r}, which is no folder here; load the base model from a "
            "folder before training, so that searches and servers find the same one"
        )
    config["base_model_name_or_path"] = str(Path(base).resolve())
    file.write_text(json.dumps(config, indent=2), encoding="utf-8")
