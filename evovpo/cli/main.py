"""The `evovpo` command: its subcommands, `evovpo config`, and the exit codes of errors."""

import contextlib
import errno
import io
import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, NoReturn

import typer

from evovpo.cli import apply, batch, evolve, options, page, problems, runs, store
from evovpo.cli.hints import refuse_unknown
from evovpo.cli.terminal import Exit, leave, say
from evovpo.errors import ConfigError, EvovpoError, InitialProgramError, SandboxError

_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_TOO_FEW = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_FEWEST_FILES, _ENOUGH_FILES = 128, 4096
PARENT_VARIABLE = "EVOVPO_PARENT"
"""Environment variable: id of a process. The command exits when the process with this id ends."""

app = typer.Typer(
    name="evovpo",
    help="""Evolve programs that can be scored, with any language model.

The included small model writes text functions. For other
programs, use an instruction model behind a server.

[bold]Start here:[/bold]  evovpo evolve strings/name-short-form

Show that run:  evovpo show latest

Other problems:  evovpo problems

Your own problem:  evovpo new

Help on a command:  evovpo COMMAND --help""",
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
) -> None:
    """Accept options that precede the command. This docstring is not shown; `app` has the help text."""


@setting_up.command("config", rich_help_panel="Setting up")
def show_config(config_file: options.ConfigFile = None, overrides: options.Overrides = None) -> None:
    """Print all settings with values and explanations as a TOML file.

    [dim]Example:[/dim]  evovpo config --set search.islands=8 > mine.toml
    """
    from evovpo.config import Config

    say(Config.load(config_file, options.settings(overrides, {})).to_toml().rstrip("\n"))


for _panel in (problems.app, evolve.app, runs.app, page.app, apply.app, setting_up, batch.app):
    app.registered_commands += _panel.registered_commands
app.add_typer(store.app, name="store", rich_help_panel="Setting up")


def mount_commands() -> None:
    """Add the commands of installed packages, such as the trainer, from entry points in `evovpo.commands`."""
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group="evovpo.commands")):
        known = {command.name for command in app.registered_commands}
        offered = point.load().registered_commands
        app.registered_commands += [command for command in offered if command.name not in known]


def _interrupt(number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)  # asyncio's own while a search runs
    (handler if callable(handler) else signal.default_int_handler)(number, frame)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line, by default the arguments of this process, and exit with the command's exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the terminal cannot show must not end a run.
            stream.reconfigure(errors="backslashreplace")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a process that a script starts with `&`
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _interrupt)
    mount_commands()
    try:
        _open_more_files()
        if parent := os.environ.pop(PARENT_VARIABLE, ""):
            threading.Thread(target=_end_with, args=(int(parent),), daemon=True).start()
        refuse_unknown(sys.argv[1:] if arguments is None else arguments)
        app(args=None if arguments is None else list(arguments), prog_name="evovpo")
    except (SandboxError, InitialProgramError) as error:
        leave(Exit.NOTHING_EVALUATED, f"error: {error}")
    except EvovpoError as error:
        leave(Exit.BAD_INPUT, f"error: {error}")
    except OSError as error:
        if error.errno in _TOO_FEW:
            leave(Exit.CUT_OFF, _too_few(error))
        if error.errno not in _FULL_DISK:
            raise
        with contextlib.suppress(OSError):
            say(f"error: {error}; make room, then give the same command again", stderr=True)
        # Output may go to the full disk too; the exit code is returned even if nothing can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        raise SystemExit(Exit.CUT_OFF) from None
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        leave(Exit.CUT_OFF, _too_few(error))
    raise SystemExit(0)


def _end_with(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        select.select([os.pidfd_open(process)], [], [])
    os._exit(1)


def _open_more_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_FILES)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < _FEWEST_FILES:
        raise ConfigError(
            f"a process may have {allowed} open files here; expected at least {_FEWEST_FILES}: raise the "
            "limit (ulimit -Hn)"
        )


def _too_few(error: Exception) -> str:
    return (
        f"error: {error}; this user may not have more processes, open files or memory: end other programs or "
        "raise the limits (ulimit -u, ulimit -n), then give the same command again"
    )
