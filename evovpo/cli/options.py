"""Arguments and options that several commands share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from evovpo.config_tree import Tree


def option(metavar: str, help_text: str, *names: str, default: str = "", **limits: Any) -> Any:
    """Return an option with a value; `default` says what holds where the option has no value of its own."""
    return typer.Option(*names, metavar=metavar, help=_with_default(help_text, default), **limits)


def flag(name: str, help_text: str) -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=help_text)


def argument(metavar: str, help_text: str, default: str = "", **limits: Any) -> Any:
    """Return an argument; `default` as in `option`."""
    return typer.Argument(metavar=metavar, help=_with_default(help_text, default), **limits)


def _with_default(help_text: str, default: str) -> str:
    return f"{help_text}  [dim]\\[default: {default}][/dim]" if default else help_text


RunName = Annotated[str, argument("RUN", "Id of a run, the beginning of one, or [bold]latest[/bold].")]
StoreUrl = Annotated[
    str | None,
    option(
        "URL",
        "Database: a file or an SQLAlchemy URL.",
        "--store",
        default="sqlite:///evovpo.db",
        envvar="EVOVPO_STORE",
    ),
]
AsJson = Annotated[
    bool,
    flag("--json", "Print one line of JSON, for machines; all else goes to standard error."),
]
Png = Annotated[Path | None, option("FILE", "Picture file.", default="a file in evovpo-out, named after it")]
NoPng = Annotated[bool, flag("--no-png", "Write no picture.")]
ModelName = Annotated[
    str | None,
    option(
        "MODEL",
        "Model folder of your own instead of the built-in one; of a server, the name it has there.",
        *("--model", "--primary-model"),
    ),
]
BaseUrl = Annotated[
    str | None,
    option(
        "URL",
        "Ask the OpenAI-compatible server at this address, such as http://localhost:8000/v1; its "
        "key is read from the environment.",
        *("--base-url", "--api-base"),
    ),
]
ConfigFile = Annotated[
    Path | None,
    option(
        "FILE",
        "TOML file, as [bold]evovpo config[/bold] prints one; for an OpenEvolve project also a YAML file, or "
        "[bold]none[/bold] to ignore its own.",
        *("--config", "-c"),
    ),
]
Overrides = Annotated[
    list[str] | None, option("SECTION.KEY=VALUE", "Change one setting; may be given several times.", "--set")
]
Allow = Annotated[
    list[str] | None,
    option(
        "WHAT",
        "Grant what a project or somebody else's run asks for, or an evaluator needs: env=NAME, read=PATH, "
        "write=PATH, path=FOLDER, cwd=FOLDER, network, gpu, sandbox=off, server=URL, key=NAME; may be given "
        "several times.",
    ),
]
OutputDir = Annotated[
    Path | None,
    option(
        "DIR",
        "Write best/best_program.EXT and best_program_info.json, and a checkpoint, into this folder, as "
        "OpenEvolve does.",
        *("--output-dir", "-o"),
        default="of an OpenEvolve project evovpo-out/RUN, no checkpoint",
    ),
]
OutputColumn = Annotated[
    str | None, option("COLUMN", "For a table: the column to compute.", default="the last")
]
InputColumns = Annotated[str | None, option("A,B", "For a table: the input columns.", default="all others")]


def _known_executor(name: str | None) -> str | None:
    """Return the name as it is; raises `ConfigError` for one that is none, before anything is begun."""
    if name is not None:
        from evovpo.config import SandboxConfig

        SandboxConfig(executor=name)
    return name


Executor = Annotated[
    str | None,
    option(
        "WHERE",
        "Where runs are searched: [bold]local[/bold], [bold]ray[/bold] (a cluster on this machine, or "
        "that of RAY_ADDRESS) or [bold]ray://HOST:PORT[/bold].",
        default="local",
        callback=_known_executor,
    ),
]


def settings(
    overrides: Iterable[str] | None, given: Mapping[str, object], tree: type[Tree] | None = None
) -> dict[str, object]:
    """Return values by `section.key`: those of `--set`, and after them those of options that were `given`."""
    from evovpo.config import Config

    changes = (tree or Config).read_changes(overrides or ())
    return changes | {name: value for name, value in given.items() if value is not None}


def written_to(given: Path | None, name: str) -> Path:
    """Return where a command writes: where the user said, else `name` in `evovpo-out`, made if need be."""
    with contextlib.suppress(OSError):  # writing into it says so
        if given is None:
            Path("evovpo-out").mkdir(exist_ok=True)
    return given or Path("evovpo-out", name)
