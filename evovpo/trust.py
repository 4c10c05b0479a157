"""Checks which permissions a store or project requires, and whether the user granted them.

A file outside the store, called a mark, records that this user created a run or granted its permissions. See
`docs/security.md`.
"""

import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from evovpo.config import Config, ModelConfig, SandboxConfig, SandboxLevel
from evovpo.errors import NotAllowedError
from evovpo.types import Problem, content_id

NOT_OPENINGS = ("server=", "key=", "code=", "executor=", "level=")
"""Prefixes of permissions that give an evaluator no further access from its sandbox."""
_USUAL_KEY = ModelConfig.model_fields["key_variable"].default


def asked_for(config: Config, problem: Problem | None = None) -> tuple[str, ...]:
    """Return the `--allow` values (permissions) that the settings and the problem require."""
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
    """Raise `NotAllowedError` if `origin` requires permissions (`words`) that the user has not granted."""
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
    """Record outside the store that this user created a run, or granted its permissions (`words`)."""
    path = _mark(run_id, words)
    with contextlib.suppress(OSError):  # without the mark a resumed run asks again
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch()


def is_marked(run_id: str, words: Iterable[str]) -> bool:
    """Return whether `mark` was called for this run with exactly these permissions, in any order."""
    return _mark(run_id, words).exists()


def _mark(run_id: str, words: Iterable[str]) -> Path:
    return state_folder() / "runs" / content_id(run_id, *sorted(set(words)))


def state_folder() -> Path:
    """Return the user's state folder on this machine, for data that must not come from a store."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "evovpo")
