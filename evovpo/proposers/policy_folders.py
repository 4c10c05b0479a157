"""Reads the folders of policy versions: full weights or an adapter, and reference log-probabilities.

Published folders never change. Server, trainer and search use the same path.
"""

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evovpo.errors import PolicyError
from evovpo.types import PolicyVersion

POLICY_FILE = "policy.json"
"""Name of the file next to the weights, with the version's identity and its `WarmUp`."""
ADAPTER_FILE = "adapter_config.json"
SERVED = "policy-v"
"""Prefix of the names of our adapters on model servers."""


class WarmUp(NamedTuple):
    """Reference log-probabilities of a policy at the last N positions of a fixed text of T tokens."""

    text_ids: tuple[int, ...]
    next_ids: tuple[int, ...]
    """The policy's likeliest token after each of the last N positions of the text (N)."""
    logprobs: tuple[float, ...]
    """Natural-log probabilities of `next_ids` at temperature 1 (N)."""

    def difference(self, logprobs: Sequence[float]) -> float:
        """Return the maximum difference to `logprobs` in nats; infinite if any is missing or not finite."""
        if len(logprobs) != len(self.logprobs) or not all(map(math.isfinite, logprobs)):
            return math.inf
        return max(abs(a - b) for a, b in zip(self.logprobs, logprobs, strict=True))


def is_adapter(version: PolicyVersion) -> bool:
    """True if the version's folder has a PEFT adapter; False for full weights or a missing folder."""
    return (Path(version.path) / ADAPTER_FILE).is_file()


def base_version(version: PolicyVersion) -> PolicyVersion:
    """Return an adapter's base model, or full weights unchanged. Raises `PolicyError` without a base."""
    if not is_adapter(version):
        return version
    file = Path(version.path) / ADAPTER_FILE
    try:
        base = json.loads(file.read_text(encoding="utf-8"))["base_model_name_or_path"]
        found = Path(version.path, base)  # an absolute path stays absolute
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PolicyError(
            f"{file} names no base model ({type(error).__name__}: {error}); write the adapter again"
        ) from error
    if not found.is_dir():
        raise PolicyError(
            f"the adapter in {version.path} stands on the model in {base}, which is no folder here; put it "
            f"back, or change base_model_name_or_path in {file}"
        )
    return dataclasses.replace(version, path=str(found))


def served_name(version: PolicyVersion, model: str) -> str:
    """Return the name of a version on a server; `model` is the name of the server's own weights.

    Adapters are named `policy-vNUMBER-DIGEST`. Two versions can have the same number, after a failed
    publication or in two stores. The digest of the files distinguishes these versions in a server's cache
    (vLLM issue 42125). Raises `PolicyError` if the folder of a trained version is gone.
    """
    if version.number > 0:
        require_folder(version)
    return f"{SERVED}{version.number}-{_digest(version.path)}" if is_adapter(version) else model


def require_folder(version: PolicyVersion) -> None:
    if not Path(version.path).is_dir():
        raise PolicyError(
            f"policy version {version.number} is gone: {version.path} does not exist or is no folder; put it "
            "back, or use another version (proposer.policy=NUMBER, evovpo rollback NUMBER)"
        )


@functools.lru_cache(maxsize=256)
def _digest(folder: str) -> str:
    digest = hashlib.sha256()
    for file in sorted(Path(folder).glob("adapter_*")):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:8]


def read_warm_up(folder: Path) -> WarmUp | None:
    """Return a policy folder's `WarmUp`, or None if there is none. Raises `PolicyError` if it is damaged."""
    file = folder / POLICY_FILE
    if not file.is_file():
        return None
    try:
        data = json.loads(file.read_text(encoding="utf-8"))["warm_up"]
        return WarmUp(*(tuple(data[name]) for name in WarmUp._fields))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PolicyError(
            f"{file} cannot be read ({type(error).__name__}: {error}); publish the version again"
        ) from error
