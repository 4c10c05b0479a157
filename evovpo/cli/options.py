"""Arguments and options shared by several commands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from evovpo.config_tree import Tree


def option(metavar: str, help_text: str, *names: str, default: str = "", **limits: Any) -> Any:
    """Return a Typer option that takes a value. `default` is only shown in the help and sets nothing."""
    return typer.Option(*names, metavar=metavar, help=_with_default(help_text, default), **limits)


def flag(name: str, help_text: str) -> Any:
    return typer.Option(name, help=help_text)


def argument(metavar: str, help_text: str, default: str = "", **limits: Any) -> Any:
    """Return a Typer argument. `default` is only shown in the help and sets nothing."""
    return typer.Argument(metavar=metavar, help=_with_default(help_text, default), **limits)


def _with_default(help_text: str, default: str) -> str:
    return f"{help_text}  [dim]\\[default: {default}][/dim]" if default else help_text


RunName = Annotated[
    str, argument("RUN", "Run id or its first characters, problem (its newest run), or [bold]latest[/bold].")
]
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
AsJson = Annotated[bool, flag("--json", "Print one line of JSON; everything else goes to standard error.")]
Png = Annotated[Path | None, option("FILE", "Picture file.", default="a file in evovpo-out")]
NoPng = Annotated[bool, flag("--no-png", "Write no picture.")]
ModelName = Annotated[
    str | None,
    option(
        "MODEL",
        "Folder of a model to use instead of the built-in one; with a server, the model's name there.",
        *("--model", "--primary-model"),
    ),
]
BaseUrl = Annotated[
    str | None,
    option(
        "URL",
        "Address of an OpenAI-compatible server, such as http://localhost:8000/v1; its key is read from "
        "the environment.",
        *("--base-url", "--api-base"),
    ),
]
ConfigFile = Annotated[
    Path | None,
    option(
        "FILE",
        "TOML file in the format of [bold]evovpo config[/bold], or YAML for an OpenEvolve project. The word "
        "[bold]none[/bold] means: ignore the project's config.yaml.",
        *("--config", "-c"),
    ),
]
Overrides = Annotated[list[str] | None, option("SECTION.KEY=VALUE", "Change a setting; repeatable.", "--set")]
Allow = Annotated[
    list[str] | None,
    option(
        "WHAT",
        "Permission for an evaluator, project or somebody else's run (docs/sandbox.md): env=NAME, read=PATH, "
        "write=PATH, path=FOLDER, cwd=FOLDER, network, gpu, sandbox=off, server=URL, key=NAME; repeatable.",
    ),
]
OutputDir = Annotated[
    Path | None,
    option(
        "DIR",
        "Folder for OpenEvolve's files: best/best_program.EXT, best_program_info.json and a checkpoint.",
        *("--output-dir", "-o"),
        default="for OpenEvolve projects evovpo-out/RUN, else none",
    ),
]
EvaluatorFile = Annotated[
    Path | None,
    argument(
        "[EVALUATOR]",
        "OpenEvolve evaluator; the first argument is then the initial program.",
        resolve_path=True,
        exists=True,
    ),
]
OutputColumn = Annotated[
    str | None, option("COLUMN", "For a table: the column to compute.", default="the last one")
]
InputColumns = Annotated[str | None, option("A,B", "For a table: the input columns.", default="all others")]


def _known_executor(name: str | None) -> str | None:
    if name is not None:
        from evovpo.config import SandboxConfig

        SandboxConfig(executor=name)
    return name


Executor = Annotated[
    str | None,
    option(
        "WHERE",
        "Where runs are executed: [bold]local[/bold], [bold]ray[/bold] (a cluster on this machine, or "
        "that of RAY_ADDRESS) or [bold]ray://HOST:PORT[/bold].",
        default="local",
        callback=_known_executor,
    ),
]


def settings(
    overrides: Iterable[str] | None, given: Mapping[str, object], tree: type[Tree] | None = None
) -> dict[str, object]:
    """Return {`section.key`: value} from the texts of `--set`, overridden by the options in `given`."""
    from evovpo.config import Config

    changes = (tree or Config).read_changes(overrides or ())
    return changes | {name: value for name, value in given.items() if value is not None}


def written_to(given: Path | None, name: str) -> Path:
    """Return `given`. If it is None, return the path of `name` in `evovpo-out`, and create this folder."""
    with contextlib.suppress(OSError):  # writing the file reports the error
        if given is None:
            Path("evovpo-out").mkdir(exist_ok=True)
    return given or Path("evovpo-out", name)
