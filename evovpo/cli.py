"""The `evovpo` command: reads arguments, calls the parts, prints. No logic of its own.

Everything but typer is imported inside the commands, so that `--help` is instant and no command loads
more than it uses. Exit codes: 0 done as asked, 2 bad input, 3 nothing could be evaluated, 130 Ctrl-C.
"""

from __future__ import annotations

import io
import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from evovpo.errors import EvovpoError, ReplayError, SandboxError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from evovpo.config import Config
    from evovpo.live import LiveProgress
    from evovpo.runs import Outcome
    from evovpo.store import Store

BAD_INPUT, NOTHING_EVALUATED, STOPPED = 2, 3, 130

app = typer.Typer(
    name="evovpo",
    help="""Evolve Python functions from examples, with a small model that came with the package.

[bold]Start here:[/bold]  evovpo evolve strings/phone-with-hyphens

Then look at it with [bold]evovpo show latest[/bold], see what else can be evolved with
[bold]evovpo problems[/bold], and write a problem of your own with [bold]evovpo new[/bold].
Every command explains itself: evovpo COMMAND --help.""",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
store_app = typer.Typer(help="Look after the database that runs are kept in.", no_args_is_help=True)
app.add_typer(store_app, name="store", rich_help_panel="Setting up")


class Kind(StrEnum):
    """What a new problem is judged by."""

    EXAMPLES = "examples"
    SCORE = "score"


class ProposerName(StrEnum):
    """Who writes the programs."""

    LOCAL = "local"
    RANDOM = "random"


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


# ---------------------------------------------------------------- problems


@app.command("problems", rich_help_panel="Problems")
def list_problems() -> None:
    """List the problems that come with the package.

    [dim]Example:[/dim]  evovpo problems
    """
    from evovpo.problem import bundled_problems, load_problem, resolve_problem
    from evovpo.report import problems_table

    problems = [load_problem(resolve_problem(name)) for name in bundled_problems()]
    _show(problems_table(problems))
    if problems:
        _print(f"\nrows: training + held-out examples.  Try one:  evovpo evolve {problems[0].id}")


@app.command("new", rich_help_panel="Problems")
def new(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="Folder to make.")],
    kind: Annotated[
        Kind,
        typer.Option(
            help="Judge programs by [bold]examples[/bold] of what goes in and comes out, or by a "
            "[bold]score[/bold] that your own Python file gives their outputs."
        ),
    ] = Kind.EXAMPLES,
) -> None:
    """Make a folder with a small working problem, to change into your own.

    [dim]Example:[/dim]  evovpo new invoices && evovpo check invoices && evovpo evolve invoices
    """
    from evovpo.problem import new_problem

    folder = new_problem(name, kind.value)
    files = ", ".join(sorted(path.name for path in folder.iterdir()))
    _print(f"{folder} is ready: {files}")
    _print(f"Change the files to your problem, then see what is wrong with them:  evovpo check {name}")


@app.command("check", rich_help_panel="Problems")
def check(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Folder of a problem, or the name of a bundled one.")
    ],
) -> None:
    """Say what is wrong with a problem folder, or how its starting programs do.

    [dim]Example:[/dim]  evovpo check invoices
    """
    from evovpo.problem import check_problem, resolve_problem
    from evovpo.prompts import alignment_fault
    from evovpo.report import check_view

    report = check_problem(resolve_problem(path))
    _show(check_view(report))
    if not alignment_fault(report.problem):
        _print(f"\nNext:  evovpo evolve {path}")


# ---------------------------------------------------------------- running


@app.command("evolve", rich_help_panel="Runs")
def evolve(
    problem_name: Annotated[
        str, typer.Argument(metavar="PROBLEM", help="Folder of a problem, or the name of a bundled one.")
    ],
    evaluations: Annotated[
        int | None,
        typer.Option(
            "--evaluations",
            "-n",
            min=1,
            metavar="N",
            help="Budget in proposed programs, duplicates and unusable ones included.  "
            "[dim]\\[default: 1000][/dim]",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="S",
            help="Source of all randomness.  [dim]\\[default: 0][/dim]",
            show_default=False,
        ),
    ] = None,
    store_url: StoreUrl = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    proposer: Annotated[
        ProposerName | None,
        typer.Option(
            help="[bold]local[/bold]: a model in this process; [bold]random[/bold]: programs of the same "
            "language without a model, as a baseline.  [dim]\\[default: local][/dim]",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Model folder of your own instead of the built-in one."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Search for a program that solves a problem, and show the best one found.

    Everything is stored on the way: Ctrl-C stops the run, evovpo resume takes it up again.

    [dim]Examples:[/dim]

    evovpo evolve strings/phone-with-hyphens

    evovpo evolve invoices -n 5000 --seed 1 --set search.islands=8
    """
    from evovpo.config import load_config
    from evovpo.problem import load_problem, resolve_problem
    from evovpo.runs import start

    given = {
        "search.evaluations": evaluations,
        "run.seed": seed,
        "store.url": store_url,
        "proposer.name": proposer,
        "proposer.model": model,
    }
    config = load_config(
        config_file,
        [*(overrides or ()), *(f"{key}={value}" for key, value in given.items() if value is not None)],
    )
    problem = load_problem(resolve_problem(problem_name))
    with _open_store(config.store.url, create=True) as store:
        _finish(
            store,
            as_json,
            _loading(config),
            lambda live: start(problem, config, store, on_start=live.started, on_tell=live.told),
        )


@app.command("resume", rich_help_panel="Runs")
def resume(run: RunName, store_url: StoreUrl = None, as_json: AsJson = False) -> None:
    """Take up a run that was stopped or killed, where its last stored judgement left it.

    Budget, seed and settings are those it was started with. A finished run only shows its result.

    [dim]Example:[/dim]  evovpo resume latest
    """
    from evovpo.config import Config
    from evovpo.report import find_run
    from evovpo.runs import resume as take_up

    with _open_store(store_url) as store:
        run_id = find_run(store, run)
        config = Config.from_json(store.run(run_id).config_json)
        _finish(
            store,
            as_json,
            "reading the run" if config.proposer.name == "random" else _loading(config),
            lambda live: take_up(run_id, store, on_start=live.started, on_tell=live.told),
        )


# ---------------------------------------------------------------- looking


@app.command("runs", rich_help_panel="Runs")
def list_runs(store_url: StoreUrl = None, as_json: AsJson = False) -> None:
    """List all runs, newest first.

    A run that says running although no process works on it was killed; resume takes it up.

    [dim]Example:[/dim]  evovpo runs
    """
    with _open_store(store_url) as store:
        rows = store.runs()
    if as_json:
        _print_json([row._asdict() for row in rows])
    elif rows:
        from evovpo.report import runs_table

        _show(runs_table(rows))
    else:
        _print("No runs yet. Start one:  evovpo evolve strings/phone-with-hyphens")


@app.command("show", rich_help_panel="Runs")
def show(
    run: RunName,
    store_url: StoreUrl = None,
    png: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where to write the curve.  [dim]\\[default: evovpo-RUN.png][/dim]",
            show_default=False,
        ),
    ] = None,
    no_png: Annotated[bool, typer.Option("--no-png", help="Write no picture.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the best program of a run, where it came from, and the curve of the search.

    The curve is also written as a picture.

    [dim]Examples:[/dim]

    evovpo show latest

    evovpo show 3f2a --png curve.png
    """
    from evovpo import report

    with _open_store(store_url) as store:
        view = report.read_run(store, report.find_run(store, run))
        ancestors = [] if view.best is None else report.lineage(store, view.run.id, view.problem, view.best)
        picture = None if no_png else png or Path(f"evovpo-{view.run.id}.png")
        if picture is not None:
            report.write_curve_png(view, picture)
        if as_json:
            _print_json(report.run_json(view, ancestors) | {"png": None if picture is None else str(picture)})
            return
        _show(report.run_report(view, ancestors))
        if picture is not None:
            _print(f"Curve written to {picture}")
        if view.run.status.value not in ("solved", "exhausted"):
            _print(f"To go on:  evovpo resume {view.run.id}{_store_option(store)}")


@app.command("replay", rich_help_panel="Runs")
def replay(
    run: RunName,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Also read every answer and the outcome again, and say whether all is identical."
        ),
    ] = False,
    store_url: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild the population of a run from the store, without a model and without running programs.

    Every prompt is made again and must come out as it was sent. Exit code 0 says that it did.

    [dim]Example:[/dim]  evovpo replay latest --verify
    """
    from evovpo import report
    from evovpo.runs import rebuild
    from evovpo.runs import verify as verify_run

    began = time.monotonic()
    with _open_store(store_url) as store:
        run_id = report.find_run(store, run)
        difference: ReplayError | None = None
        search, compared = None, 0
        try:
            if verify:
                search, compared = verify_run(run_id, store)
            else:
                search = rebuild(run_id, store)[0]
        except ReplayError as error:
            if not verify:
                raise
            difference = error
        if as_json:
            found: dict[str, Any] = report.read_run(store, run_id).outcome(time.monotonic() - began)._asdict()
            if verify:
                found["identical"] = difference is None
            if search is not None:
                found["islands"] = report.population_json(search)
            _print_json(found)
    if difference is not None:
        raise difference
    if not as_json and search is not None:
        if verify:
            _print(f"Identical: all {compared} asks and tells of run {run_id} come out as stored.\n")
        else:
            _print(f"Run {run_id} rebuilt: {search.proposed} evaluations in {search.tells} tells.\n")
        _show(report.population_table(search))


# ---------------------------------------------------------------- setting up


@app.command("config", rich_help_panel="Setting up")
def show_config(config_file: ConfigFile = None, overrides: Overrides = None) -> None:
    """Print all settings with their values and what they are for, as a TOML file.

    [dim]Example:[/dim]  evovpo config --set search.islands=8 > mine.toml
    """
    from evovpo.config import load_config

    _print(load_config(config_file, overrides or ()).to_toml().rstrip("\n"))


@store_app.command("upgrade")
def upgrade_store(
    store_url: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="Database.  [dim]\\[default: sqlite:///evovpo.db][/dim]"),
    ] = None,
) -> None:
    """Bring a database of an older version to the one of this package; all its rows are kept.

    [dim]Example:[/dim]  evovpo store upgrade sqlite:///evovpo.db
    """
    from evovpo.store import upgrade

    _print(f"The store has schema version {upgrade(store_url)}.")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        _print(f"evovpo {version('evovpo')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Take the options that stand before a command; the help text is that of `app`."""


# ---------------------------------------------------------------- shared by the commands


def _finish(store: Store, as_json: bool, waiting: str, work: Callable[[LiveProgress], Outcome]) -> None:
    """Do a run's work under a live view, print what it came to, and exit with 3 if nothing was judged."""
    from evovpo import report
    from evovpo.live import LiveProgress

    live = LiveProgress(_console(stderr=True))
    try:
        with live:
            live.waiting(waiting)
            outcome = work(live)
    except KeyboardInterrupt:
        _stopped(live, store)
    except EvovpoError:
        if live.run is not None:
            hint = f"evovpo resume {live.run.id}{_store_option(store)}"
            _print(f"What was judged is stored. Once the cause is mended:  {hint}", stderr=True)
        raise
    if as_json:
        _print_json(outcome._asdict())
    else:
        _show(report.result(report.read_run(store, outcome.run), outcome))
        option = _store_option(store)
        if not outcome.solved:
            _print("\nTo search on: start again with more --evaluations, or with another --seed.")
        _print(f"\nLineage and curve:  evovpo show {outcome.run}{option}")
        _print(f"All runs:           evovpo runs{option}")
    reason = report.nothing_judged(outcome, store.run_summary(outcome.run))
    if reason:
        _fail(reason, NOTHING_EVALUATED)


def _stopped(live: LiveProgress, store: Store) -> NoReturn:
    if live.run is None:
        _print("Stopped before the run began; nothing was stored.", stderr=True)
    else:
        _print(f"Stopped. {live.proposed} of {live.run.evaluations} evaluations are stored.", stderr=True)
        _print(f"To go on:  evovpo resume {live.run.id}{_store_option(store)}", stderr=True)
    raise typer.Exit(STOPPED)


def _loading(config: Config) -> str:
    return "getting ready" if config.proposer.name == "random" else "loading the model (a few seconds)"


def _open_store(url: str | None, *, create: bool = False) -> Store:
    from evovpo.store import Store

    return Store.open(url, create=create)


def _store_option(store: Store) -> str:
    """Return the option that names this store in a command to type, empty for the default one."""
    from evovpo.store import DEFAULT_URL

    return "" if store.name == DEFAULT_URL else f" --store {shlex.quote(store.name)}"


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def _show(answer: RenderableType) -> None:
    """Print tables and programs; a line of a program that is wider than the terminal is left to it."""
    _console().print(answer, crop=False)


def _print(text: str, *, stderr: bool = False) -> None:
    """Print text as it is, without markup and without wrapping, so that commands in it can be copied."""
    from evovpo.report import printable

    print(printable(text), file=sys.stderr if stderr else sys.stdout, flush=True)


def _print_json(value: object) -> None:
    print(json.dumps(value), flush=True)


def _fail(message: object, code: int) -> NoReturn:
    _print(f"error: {message}", stderr=True)
    raise SystemExit(code)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (by default that of the process) and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Not every terminal can show every character of an example; that must not end a run.
            stream.reconfigure(errors="backslashreplace")
    try:
        app(args=None if arguments is None else list(arguments), prog_name="evovpo")
    except SandboxError as error:
        _fail(error, NOTHING_EVALUATED)
    except EvovpoError as error:
        _fail(error, BAD_INPUT)
    raise SystemExit(0)


if __name__ == "__main__":
    main()
