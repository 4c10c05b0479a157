"""The commands of the panel Setting up: settings, prompts, and the store."""

from pathlib import Path
from typing import Annotated

import typer

from evovpo.cli import options
from evovpo.cli.options import argument, option
from evovpo.cli.terminal import say
from evovpo.errors import ConfigError

app = typer.Typer()
store_app = typer.Typer(help="Look after the database that runs are kept in.", no_args_is_help=True)


@app.command("config", rich_help_panel="Setting up")
def show_config(config_file: options.ConfigFile = None, overrides: options.Overrides = None) -> None:
    """Print all settings with their values and what they are for, as a TOML file.

    [dim]Example:[/dim]  evovpo config --set search.islands=8 > mine.toml
    """
    from evovpo.config import Config

    say(Config.load(config_file, overrides or ()).to_toml().rstrip("\n"))


@app.command("prompts", rich_help_panel="Setting up")
def show_prompts(
    problem_name: Annotated[
        str | None, argument("PROBLEM", "Folder of a problem, or the name of a bundled one.")
    ] = None,
    write: Annotated[
        Path | None, option("FOLDER", "Write the prompt templates there, to be changed and used.")
    ] = None,
    config_file: options.ConfigFile = None,
    overrides: options.Overrides = None,
) -> None:
    """Show what a run would first ask a model about a problem, or write the prompt templates.

    [dim]Examples:[/dim]

    evovpo prompts strings/phone-with-hyphens --set prompt.style=rewrite

    evovpo prompts --write mine
    """
    from evovpo.prompts.templates import write_templates
    from evovpo.runs.choices import example_prompts
    from evovpo.runs.request import open_request

    if write is not None:
        files = write_templates(write)
        say(f"{write} holds {len(files)} templates; delete those that you do not change.")
        say(f"To use the others:  --set prompt.templates={write.resolve()}")
    if problem_name is not None:
        named = open_request(problem_name, config_file, overrides or ())
        for kind, messages in example_prompts(named.problem, named.config).items():
            for message in messages:
                say(f"----- {kind}, {message.role} -----\n{message.content}\n")
    elif write is None:
        raise ConfigError("expected a PROBLEM, or --write FOLDER, found neither; name one of the two")


@store_app.command("upgrade")
def upgrade_store(
    store_url: Annotated[str | None, argument("URL", "Database.", "sqlite:///evovpo.db")] = None,
) -> None:
    """Bring a database of an older version to the one of this package; all its rows are kept.

    [dim]Example:[/dim]  evovpo store upgrade sqlite:///evovpo.db
    """
    from evovpo.store import upgrade

    say(f"The store has schema version {upgrade(store_url)}.")
