"""Folders of policy versions: full weights or an adapter, reference log-probabilities, names.

Published folders do not change, and have the same path for server, trainer and search.
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
"""File next to the weights: the version's identity and its `WarmUp`."""
ADAPTER_FILE = "adapter_config.json"
SERVED = "policy-v"
"""Beginning of the names under which servers offer adapters of ours."""


class WarmUp(NamedTuple):
    """Reference log-probabilities of a policy on a fixed text of T tokens, at its last N positions."""

    text_ids: tuple[int, ...]
    """(T)"""
    next_ids: tuple[int, ...]
    """The policy's likeliest token behind each of the last N prefixes, the whole text being the last (N)."""
    logprobs: tuple[float, ...]
    """Their natural-log probabilities at temperature 1 (N)."""

    def difference(self, logprobs: Sequence[float]) -> float:
        """Return the largest absolute difference in nats; infinite if one of them is not finite."""
        if len(logprobs) != len(self.logprobs) or not all(map(math.isfinite, logprobs)):
            return math.inf
        return max(abs(a - b) for a, b in zip(self.logprobs, logprobs, strict=True))


def is_adapter(version: PolicyVersion) -> bool:
    """True if the version's folder holds a PEFT adapter, false for full weights (or no folder here)."""
    return (Path(version.path) / ADAPTER_FILE).is_file()


def base_version(version: PolicyVersion) -> PolicyVersion:
    """Return the version itself, or for an adapter its base model under its number; raises `PolicyError`."""
    if not is_adapter(version):
        return version
    file = Path(version.path) / ADAPTER_FILE
    try:
        base = json.loads(file.read_text(encoding="utf-8"))["base_model_name_or_path"]
        found = Path(version.path, base)  # an absolute path stays one
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
    """Return the name under which a server offers a version, `model` being that of its own weights.

    For an adapter `policy-vNUMBER-DIGEST`: the digest of its files tells apart versions of one number, from
    two stores or a failed publication, which a server's cache would mix up (vLLM issue 42125). Raises
    `PolicyError` if the folder of a trained version is gone.
    """
    if version.number > 0:
        require_folder(version)
    return f"{SERVED}{version.number}-{_digest(version.path)}" if is_adapter(version) else model


def require_folder(version: PolicyVersion) -> None:
    """Raise `PolicyError` if the folder of a version is gone."""
    if not Path(version.path).is_dir():
        raise PolicyError(
            f"policy version {version.number} is gone: {version.path} does not exist or is no folder; put it "
            "back, or use another version (proposer.policy=NUMBER, evovpo rollback NUMBER)"
        )


@functools.lru_cache(maxsize=256)
def _digest(folder: str) -> str:
    """Return 8 hex digits of an adapter's files; published folders do not change."""
    digest = hashlib.sha256()
    for file in sorted(Path(folder).glob("adapter_*")):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:8]


def read_warm_up(folder: Path) -> WarmUp | None:
    """Return what was written beside the weights, or None. Raises `PolicyError` for a damaged file."""
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
