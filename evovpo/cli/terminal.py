"""Shared by all commands: printing, opening the store, exit codes.

Only Python's library is imported outside the functions, so that `--help` is instant.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO, TypeVar

from evovpo.errors import NotAllowedError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from evovpo.store import Store


T = TypeVar("T")


class Exit(IntEnum):
    """Exit codes of commands; 0 is success."""

    SOME_FAILED = 1
    """Runs of a batch or a study, or rows of a table; the others did not."""
    BAD_INPUT = 2
    NOTHING_EVALUATED = 3
    CUT_OFF = 4
    """By a server or the machine (its store, a full disk); the run can be resumed."""
    MEMORISED = 5
    """The run is right on every training row and wrong on a held-out one."""
    STOPPED = 130
    """Ctrl-C."""


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
    """Print tables and programs; a line of a program, and without a terminal any other, is never broken."""
    out = console()
    out.print(answer, crop=False, soft_wrap=not out.is_terminal)


def say(text: str, *, stderr: bool = False) -> None:
    """Print text as it is, without markup and without wrapping, so that commands in it can be copied."""
    from evovpo.reports.text import printable

    print(printable(text), file=sys.stderr if stderr else sys.stdout, flush=True)


def print_json(value: object) -> None:
    """Print a value as one line of JSON; a path is a text there."""
    print(json.dumps(value, default=str), flush=True)


def is_interactive() -> bool:
    """True if somebody sits at a terminal who can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[TextIO]:
    """Give a file to write, whole or not at all; raises `ConfigError`, at once, where there can be none."""
    from evovpo.files import write_errors, written_whole

    with (
        write_errors(f"{path}:"),
        written_whole(path) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):
        yield file


def shown_opening(name: str, work: Callable[[], T]) -> T:
    """Do the work of opening what `name` is; where a program is judged for it, say so while that lasts."""
    from evovpo.problem.openevolve.folder import is_project
    from evovpo.reports.live import LiveProgress

    if not is_project(Path(name)):
        return work()
    with LiveProgress(console(stderr=True)) as live:
        live.waiting("judging the initial program")
        return work()


def granting(work: Callable[[Sequence[str]], T], allow: Iterable[str] | None) -> T:
    """Do work with what the user allows; at a terminal a yes allows what else is asked for."""
    import typer

    granted = tuple(allow or ())
    while True:
        try:
            return work(granted)
        except NotAllowedError as error:
            if not is_interactive():
                raise
            say(str(error), stderr=True)
            if not typer.confirm("Grant it for this command?", err=True):
                raise
            granted += error.words


def leave(code: int, *lines: str) -> NoReturn:
    """Print lines on standard error and end the process with an exit code."""
    for line in lines:
        say(line, stderr=True)
    raise SystemExit(code)
