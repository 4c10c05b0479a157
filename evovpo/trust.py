"""Permissions that a store or a project asks for, and whether the user granted them (docs/security.md).

A mark outside the store tells which runs this user made.
"""

import contextlib
import hmac
import os
import secrets
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import get_args

from evovpo.config import Config, ModelConfig, SandboxConfig, SandboxLevel
from evovpo.errors import NotAllowedError
from evovpo.types import Problem, content_id

NOT_OPENINGS = ("server=", "key=", "code=", "executor=", "level=")
"""Beginnings of words that say something else than what the sandbox is opened for."""
_USUAL_KEY = ModelConfig.model_fields["key_variable"].default


def asked_for(config: Config, problem: Problem | None = None) -> tuple[str, ...]:
    """Return what settings ask for, and a problem whose own code runs, in the words of `--allow`."""
    return tuple(dict.fromkeys(_asked(config, problem)))


def _asked(config: Config, problem: Problem | None) -> Iterator[str]:
    if problem is not None and problem.scorer_path is not None and problem.folder is not None:
        yield f"code={problem.folder}"
    if config.sandbox.executor != "local":
        yield f"executor={config.sandbox.executor}"
    levels = get_args(SandboxLevel)
    if levels.index(config.sandbox.minimum_level) < levels.index(SandboxConfig().minimum_level):
        yield f"level={config.sandbox.minimum_level}"
    yield from config.evaluator.allow
    judges = config.evaluator.judges.get("models", [])
    for model in (*config.models, *(ModelConfig(**table) for table in judges)):
        yield from (f"server={model.base_url}" for _ in [1] if model.base_url)
        yield from (f"key={model.key_variable}" for _ in [1] if model.key_variable != _USUAL_KEY)
    if config.proposer.base_url:
        yield f"server={config.proposer.base_url}"


def require(origin: str, words: Iterable[str], granted: Iterable[str]) -> None:
    """Raise `NotAllowedError` where something is asked for that was not granted; `origin` is who asks."""
    granted = set(granted)
    missing = [word for word in words if word not in granted]
    if missing:
        options = " ".join(f"--allow {shlex.quote(word)}" for word in missing)
        raise NotAllowedError(
            f"{origin} asks for {', '.join(missing)}, which only you can grant (docs/security.md); if you "
            f"know who made it and want this, add {options}",
            tuple(missing),
        )


def mark(run_id: str, words: Iterable[str]) -> None:
    """Note outside of the store that this user made a run, or granted what it asks for."""
    path = _mark(run_id, words)
    with contextlib.suppress(OSError):  # without the mark a resumed run asks again
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch()


def is_marked(run_id: str, words: Iterable[str]) -> bool:
    """Return whether this user made a run that asks for just these words, or granted them."""
    return _mark(run_id, words).exists()


def _mark(run_id: str, words: Iterable[str]) -> Path:
    return state_folder() / "runs" / content_id(run_id, *sorted(set(words)))


def state_folder() -> Path:
    """Return the folder of this user on this machine for what no store may say."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "evovpo")


def seal(body: bytes) -> str:
    """Return 16 hex digits by which this user knows bytes again that were written here, and no others."""
    return hmac.digest(_key(str(state_folder())), body, "sha256").hex()[:16]


@cache
def _key(folder: str) -> bytes:
    """Return the key of this user, made if need be; one of this process where it cannot be kept."""
    path, new = Path(folder, "key"), secrets.token_bytes(32)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = path.with_name(f"key-{new.hex()[:16]}")
        made.touch(mode=0o600)
        made.write_bytes(new)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(made)  # whole at once, and of several processes one is the first
        made.unlink()
        return path.read_bytes()
    return new
