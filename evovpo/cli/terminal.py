"""What the commands of evovpo and of the trainer share: options, printing, and exit codes.

Everything but typer is imported inside the functions, so that `--help` is instant. Exit codes: 0 done as
asked, 2 bad input, 3 nothing could be evaluated, 4 a run was cut off by a server or the machine and can be
resumed, 130 Ctrl-C.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from evovpo.store import Store

BAD_INPUT, NOTHING_EVALUATED, CUT_OFF, STOPPED = 2, 3, 4, 130


def option(metavar: str, help_text: str, *names: str, default: str = "", **limits: Any) -> Any:
    """Return an option with a value; `default` says what holds where the option has no value of its own."""
    return typer.Option(*names, metavar=metavar, help=_with_default(help_text, default), **limits)


def argument(metavar: str, help_text: str, default: str = "", **limits: Any) -> Any:
    """Return an argument; `default` as in `option`."""
    return typer.Argument(metavar=metavar, help=_with_default(help_text, default), **limits)


def _with_default(help_text: str, default: str) -> str:
    return f"{help_text}  [dim]\\[default: {default}][/dim]" if default else help_text


RunName = Annotated[str, argument("RUN", "Id of a run, the beginning of one, or [bold]latest[/bold].")]
StoreUrl = Annotated[
    str | None,
    option("URL", "Database: a file or an SQLAlchemy URL.", "--store", default="sqlite:///evovpo.db"),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one line of JSON, for machines; all else goes to standard error."),
]
ConfigFile = Annotated[
    Path | None,
    option("FILE", "TOML file; [bold]evovpo config[/bold] prints one to start from.", "--config"),
]
Overrides = Annotated[
    list[str] | None,
    option("SECTION.KEY=VALUE", "Change one setting; may be given several times.", "--set"),
]
OpenEvolveConfig = Annotated[
    Path | None,
    option(
        "FILE", "Of an OpenEvolve project, YAML in place of its config.yaml; [bold]none[/bold] reads none."
    ),
]
MetricsFile = Annotated[
    Path | None,
    option(
        "FILE",
        "Of an OpenEvolve project, bounds of its metrics; [bold]evovpo bounds[/bold] suggests some.",
        resolve_path=True,
    ),
]


def settings(overrides: Iterable[str] | None, given: Mapping[str, object]) -> list[str]:
    """Return the settings of `--set`, and after them those of options that were `given`."""
    return [*(overrides or ()), *(f"{key}={value}" for key, value in given.items() if value is not None)]


def open_store(url: str | None, *, create: bool = False) -> Store:
    """Return the open store at `url`, which must exist unless it may be created; raises `StoreError`."""
    from evovpo.store import Store

    return Store.open(url, create=create)


def store_option(store: Store) -> str:
    """Return the option that names this store in a command to type, empty for the default one."""
    from evovpo.store import DEFAULT_URL

    return "" if store.name == DEFAULT_URL else f" --store {shlex.quote(store.name)}"


def console(*, stderr: bool = False) -> Console:
    """Return where a command prints to."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def show_answer(answer: RenderableType) -> None:
    """Print tables and programs; a line of a program that is wider than the terminal is left to it."""
    console().print(answer, crop=False)


def say(text: str, *, stderr: bool = False) -> None:
    """Print text as it is, without markup and without wrapping, so that commands in it can be copied."""
    from evovpo.reports.text import printable

    print(printable(text), file=sys.stderr if stderr else sys.stdout, flush=True)


def print_json(value: object) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value), flush=True)


def fail(message: object, code: int) -> NoReturn:
    """Print an error and end the process with an exit code."""
    say(f"error: {message}", stderr=True)
    raise SystemExit(code)
