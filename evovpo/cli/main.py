"""The `evovpo` command: its panels, `evovpo config`, and the exit codes of errors."""

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from evovpo import logs
from evovpo.cli import apply, batch, evolve, options, page, problems, runs, store
from evovpo.cli.removed import refuse_removed
from evovpo.cli.terminal import Exit, leave, say
from evovpo.errors import EvovpoError, InitialProgramError, SandboxError

_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    name="evovpo",
    help="""Evolve programs that can be scored, with any language model.

A small model for functions of text is included; other programs
are written by an instruction model behind a server.

[bold]Start here:[/bold]  evovpo evolve strings/phone-with-hyphens

Then show the run with [bold]evovpo show latest[/bold], list the bundled problems with
[bold]evovpo problems[/bold], and write your own problem with [bold]evovpo new[/bold].
Help on a command: evovpo COMMAND --help.""",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
setting_up = typer.Typer()


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"evovpo {version('evovpo')}")
        raise typer.Exit


@app.callback()
def before_commands(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    log_json: Annotated[
        bool,
        typer.Option(
            "--log-json", envvar=logs.VARIABLE, help="Write log messages to standard error as JSON lines."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command; the help text is that of `app`."""
    if log_json:
        logs.as_json()


@setting_up.command("config", rich_help_panel="Setting up")
def show_config(config_file: options.ConfigFile = None, overrides: options.Overrides = None) -> None:
    """Print all settings with values and explanations as a TOML file.

    [dim]Example:[/dim]  evovpo config --set search.islands=8 > mine.toml
    """
    from evovpo.config import Config

    say(Config.load(config_file, overrides or ()).to_toml().rstrip("\n"))


for _panel in (problems.app, evolve.app, runs.app, page.app, apply.app, setting_up, batch.app):
    app.registered_commands += _panel.registered_commands
app.add_typer(store.app, name="store", rich_help_panel="Setting up")


def mount_commands() -> None:
    """Add the commands that installed packages offer: the trainer's.

    An entry point of `evovpo.commands` names a typer app that imports nothing heavy; doing it twice changes
    nothing.
    """
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group="evovpo.commands")):
        known = {command.name for command in app.registered_commands}
        offered = point.load().registered_commands
        app.registered_commands += [command for command in offered if command.name not in known]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (by default that of the process) and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Not every terminal can show every character of an example; that must not end a run.
            stream.reconfigure(errors="backslashreplace")
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores one
            signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    mount_commands()
    try:
        refuse_removed(sys.argv[1:] if arguments is None else arguments)
        app(args=None if arguments is None else list(arguments), prog_name="evovpo")
    except (SandboxError, InitialProgramError) as error:
        leave(Exit.NOTHING_EVALUATED, f"error: {error}")
    except EvovpoError as error:
        leave(Exit.BAD_INPUT, f"error: {error}")
    except OSError as error:
        if error.errno not in _FULL_DISK:
            raise
        with contextlib.suppress(OSError):
            say(f"error: {error}; make room, then give the same command again", stderr=True)
        # What is printed may go to the full disk too: where nothing can be said, the exit code still says it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        raise SystemExit(Exit.CUT_OFF) from None
    raise SystemExit(0)
