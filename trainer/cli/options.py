"""What the trainer's commands share: options, and whether its packages are there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from evovpo.errors import ConfigError

_NEEDED = ("torch", "transformers", "peft", "tensorboard")

Objective = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="NAME",
        help="How advantages follow from reward vectors.  [dim]\\[default: vpo][/dim]",
        show_default=False,
    ),
]
Policies = Annotated[
    Path | None,
    typer.Option(
        "--policies",
        metavar="FOLDER",
        help="Where policy versions go.  [dim]\\[default: policies, beside the database][/dim]",
        show_default=False,
    ),
]


def check_installed() -> None:
    """Raise `ConfigError`, saying what to install, where the trainer's packages are missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"training needs {', '.join(missing)}; run: pip install 'evovpo[train]'")
