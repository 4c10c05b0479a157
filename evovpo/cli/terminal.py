"""What the commands of evovpo and of the trainer share: options, printing, and exit codes.

Everything but typer is imported inside the functions, so that `--help` is instant. Exit codes: 0 done as
asked, 2 bad input, 3 nothing could be evaluated, 4 a run was cut off by a server or the machine and can be
resumed, 130 Ctrl-C.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from evovpo.store import Store

BAD_INPUT, NOTHING_EVALUATED, CUT_OFF, STOPPED = 2, 3, 4, 130

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="Id of a run, the beginning of one, or [bold]latest[/bold].")
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Database: a file or an SQLAlchemy URL.  [dim]\\[default: sqlite:///evovpo.db][/dim]",
        show_default=False,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one line of JSON, for machines; all else goes to standard error."),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="TOML file; [bold]evovpo config[/bold] prints one to start from."
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SECTION.KEY=VALUE", help="Change one setting; may be given several times."
    ),
]
OpenEvolveConfig = Annotated[
    Path | None,
    typer.Option(
        "--openevolve-config",
        metavar="FILE",
        help="Of an OpenEvolve project, YAML in place of its config.yaml; [bold]none[/bold] reads none.",
    ),
]
MetricsFile = Annotated[
    Path | None,
    typer.Option(
        "--metrics",
        metavar="FILE",
        help="Of an OpenEvolve project, bounds of its metrics; [bold]evovpo bounds[/bold] suggests some.",
    ),
]


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
