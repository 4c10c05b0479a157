"""What the trainer's commands share: options, servers, and whether the trainer's packages are there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from evovpo.cli.options import option
from evovpo.errors import ConfigError

if TYPE_CHECKING:
    from evovpo.proposers.server import VLLMServer

_NEEDED = ("torch", "transformers", "peft", "tensorboard")

Objective = Annotated[str | None, option("NAME", "How advantages follow from reward vectors.", default="vpo")]
Policies = Annotated[
    Path | None,
    option("FOLDER", "Where policy versions go.", default="policies, beside the database"),
]
Servers = Annotated[
    list[str] | None,
    option(
        "URL",
        "A running vLLM that must offer the version before it is served, as [bold]MODEL@URL[/bold]: the "
        "name of its own weights and its address, which ends in /v1. May be given several times.",
        "--server",
    ),
]


def check_installed() -> None:
    """Raise `ConfigError`, saying what to install, where the trainer's packages are missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"training needs {', '.join(missing)}; run: pip install 'evovpo[train]'")


def targets_of(servers: list[str] | None) -> list[VLLMServer]:
    """Return the servers that were named. Raises `ConfigError` for one that is not MODEL@URL."""
    from evovpo.proposers.server import VLLMServer

    found: list[VLLMServer] = []
    for text in servers or ():
        model, at, url = text.partition("@")
        if not (model and at and url):
            raise ConfigError(
                f"--server {text!r}: expected MODEL@URL, for example strings@http://127.0.0.1:8000/v1"
            )
        found.append(VLLMServer(url, model))
    return found
