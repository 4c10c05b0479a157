"""Functions for all commands: printing, opening the store, exit codes."""

from __future__ import annotations

import contextlib
import json
import os
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
    """Some runs of a batch or study, or some rows of a table, failed."""
    BAD_INPUT = 2
    NOTHING_EVALUATED = 3
    CUT_OFF = 4
    """Interrupted by a failing server, store or disk; the run can be resumed."""
    MEMORISED = 5
    """The run is right on every training row and wrong on a held-out one."""
    STOPPED = 130


def open_store(url: str | None, *, create: bool = False) -> Store:
    from evovpo.store import Store

    return Store.open(url, create=create)


def store_option(store: Store) -> str:
    """Return ` --store NAME`, to append to a command that is printed; empty for the default store."""
    from evovpo.store import DEFAULT_URL

    return "" if store.name == DEFAULT_URL else f" --store {shlex.quote(store.name)}"


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def show_answer(answer: RenderableType) -> None:
    """Print tables and programs. Long lines are wrapped on a terminal only; programs are never wrapped."""
    out = console()
    if not out.is_terminal and "COLUMNS" not in os.environ:
        out.width = 120
    out.print(answer, crop=False, soft_wrap=not out.is_terminal)


def say(text: str, *, stderr: bool = False) -> None:
    """Print text without markup or wrapping, so that commands in it can be copied."""
    from evovpo.reports.text import printable

    print(printable(text), file=sys.stderr if stderr else sys.stdout, flush=True)


def print_json(value: object) -> None:
    print(json.dumps(value, default=str), flush=True)


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[TextIO]:
    """Open a file to be written atomically. Raises `ConfigError` if the file cannot be written."""
    from evovpo.files import write_errors, written_whole

    with (
        write_errors(f"{path}:"),
        written_whole(path) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):
        yield file


def shown_opening(name: str, work: Callable[[], T]) -> T:
    """Return `work()`. For an OpenEvolve project, show that the initial program is being evaluated."""
    from evovpo.problem.openevolve.folder import is_project
    from evovpo.reports.live import LiveProgress

    if not is_project(Path(name)):
        return work()
    with LiveProgress(console(stderr=True)) as live:
        live.waiting("judging the initial program")
        return work()


def granting(work: Callable[[Sequence[str]], T], allow: Iterable[str] | None) -> T:
    """Return `work(allow)`. If permissions are missing, ask the user at a terminal and call `work` again."""
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
    for line in lines:
        say(line, stderr=True)
    raise SystemExit(code)
