"""The `evovpo` command: reads arguments, calls the parts, prints. No logic of its own.

Everything but typer is imported inside the commands, so that `--help` is instant and no command loads
more than it uses. Exit codes: 0 done as asked, 2 bad input, 3 nothing could be evaluated, 4 a run was cut off
by a server or the machine (its store, a full disk) and can be resumed, 130 Ctrl-C.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from evovpo.cli.terminal import (
    BAD_INPUT,
    CUT_OFF,
    NOTHING_EVALUATED,
    STOPPED,
    AsJson,
    ConfigFile,
    Overrides,
    RunName,
    StoreUrl,
    console,
    fail,
    open_store,
    print_json,
    say,
    show_answer,
    store_option,
)
from evovpo.errors import ConfigError, EvovpoError, ReplayError, SandboxError, ServerError, StoreError

if TYPE_CHECKING:
    from evovpo.config import Config
    from evovpo.problem.openevolve.opening import Opened
    from evovpo.reports.live import LiveProgress
    from evovpo.runs.outcome import Outcome
    from evovpo.runs.request import RunRequest
    from evovpo.store import Store

_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    name="evovpo",
    help="""Evolve programs: any that can be scored, written by any model.

A small model for functions of text comes with the package;
an instruction model behind a server writes all others.

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
    OPENAI = "openai"
    RANDOM = "random"


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


# ---------------------------------------------------------------- problems


@app.command("problems", rich_help_panel="Problems")
def list_problems() -> None:
    """List the problems and suites that come with the package.

    [dim]Example:[/dim]  evovpo problems
    """
    from evovpo.builtin.strings.format import expression_fault
    from evovpo.problem.folder import load_problem
    from evovpo.problem.suites import bundled_problems, bundled_suites, resolve_problem
    from evovpo.reports.problems import problems_table

    problems = [load_problem(resolve_problem(name)) for name in bundled_problems()]
    show_answer(problems_table(problems))
    suites = bundled_suites()
    if suites:
        say("\nsuites: " + ", ".join(f"{name} ({len(entries)})" for name, entries in suites.items()))
    easy = {str(entry.path) for entries in suites.values() for entry in entries if entry.difficulty == 0}
    fitting = [problem for problem in problems if not expression_fault(problem)]
    if fitting:
        # One that every measured run solved: a first try should end well.
        first = next((problem for problem in fitting if problem.folder in easy), fitting[0])
        say(f"\nrows: training + held-out examples.  Try one:  evovpo evolve {first.id}")


@app.command("new", rich_help_panel="Problems")
def new(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="Folder to make.")],
    kind: Annotated[
        Kind,
        typer.Option(
            help="Judge programs by [bold]examples[/bold] of what goes in and comes out, or by a "
            "[bold]score[/bold] that your own Python file gives their outputs: the built-in model writes "
            "formulas of numbers for it, a model behind a server (--base-url URL --model NAME of evovpo "
            "evolve) any program."
        ),
    ] = Kind.EXAMPLES,
) -> None:
    """Make a folder with a small working problem, to change into your own.

    [dim]Example:[/dim]  evovpo new invoices && evovpo check invoices && evovpo evolve invoices
    """
    from evovpo.problem.new import new_problem

    folder = new_problem(name, kind.value)
    files = ", ".join(sorted(path.name for path in folder.iterdir()))
    say(f"{folder} is ready: {files}")
    say(f"Change the files to your problem, then see what is wrong with them:  evovpo check {name}")
    if kind is Kind.SCORE:
        say(
            "For programs that are no formula of numbers, with an instruction model behind a server:  "
            f"evovpo evolve {name} --base-url URL --model NAME"
        )


@app.command("check", rich_help_panel="Problems")
def check(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="Folder of a problem or of an OpenEvolve project, or the name of a bundled problem.",
        ),
    ],
    store_url: StoreUrl = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    openevolve_config: OpenEvolveConfig = None,
    metrics: MetricsFile = None,
) -> None:
    """Say what is wrong with a problem folder, or how its starting programs do.

    Of an OpenEvolve project it also says what each key of its config.yaml does here.

    [dim]Example:[/dim]  evovpo check invoices
    """
    from evovpo.builtin.choice import built_in_fault
    from evovpo.judging.check import check_problem, check_project
    from evovpo.problem.suites import resolve_problem
    from evovpo.reports.problems import check_view, settings_table
    from evovpo.runs.request import open_request

    given = {"store.url": store_url, "evaluator.metrics": None if metrics is None else metrics.resolve()}
    changes = [*(overrides or ()), *(f"{key}={value}" for key, value in given.items() if value is not None)]
    named = open_request(path, config_file, changes, openevolve_config)
    if named.project is None:
        report = check_problem(resolve_problem(path), named.config)
    else:
        report = check_project(named.project.loaded, named.config)
        if named.project.settings.keys:
            show_answer(settings_table(named.project.settings))
    show_answer(check_view(report))
    needs_server = report.problem.evaluator is not None or built_in_fault(report.problem)
    say(f"\nNext:  evovpo evolve {path}" + " --base-url URL --model NAME" * bool(needs_server))


# ---------------------------------------------------------------- running


@app.command("evolve", rich_help_panel="Runs")
def evolve(
    problem_name: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM",
            help="Folder of a problem or of an OpenEvolve project, or the name of a bundled problem.",
        ),
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
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="S-T", help="Repeat the run for these seeds, as 0-4 or 0,3,7; ends with a table of them."
        ),
    ] = None,
    store_url: StoreUrl = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    proposer: Annotated[
        ProposerName | None,
        typer.Option(
            help="[bold]local[/bold]: a model in this process, the built-in one for functions of text; "
            "[bold]openai[/bold]: any model behind a server; [bold]random[/bold]: programs of the built-in "
            "model's language without a model, as a baseline.  "
            "[dim]\\[default: local; openai with --base-url][/dim]",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Model folder of your own instead of the built-in one; of a server, the name it has there.",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Ask the OpenAI-compatible server at this address, such as http://localhost:8000/v1; its "
            "key is read from the environment.",
        ),
    ] = None,
    openevolve_config: OpenEvolveConfig = None,
    metrics: MetricsFile = None,
    as_json: AsJson = False,
) -> None:
    """Search for a program that solves a problem, and show the best one found.

    Everything is stored on the way: Ctrl-C stops the run, evovpo resume takes it up again.

    [dim]Examples:[/dim]

    evovpo evolve strings/phone-with-hyphens

    evovpo evolve invoices -n 5000 --seed 1 --set search.islands=8

    evovpo evolve openevolve_project --base-url http://localhost:8000/v1 --model NAME
    """
    from evovpo.experiments.reading import parse_seeds
    from evovpo.reports.repeats import with_seed
    from evovpo.runs.proposer import check_proposer
    from evovpo.runs.request import open_request
    from evovpo.runs.run import start

    if seed is not None and seeds is not None:
        raise ConfigError("--seed and --seeds are both given; expected one of them: leave one out")
    numbers = () if seeds is None else parse_seeds(seeds)
    given = {
        "search.evaluations": evaluations,
        "run.seed": seed,
        "store.url": store_url,
        "proposer.name": "openai" if proposer is None and base_url is not None else proposer,
        "proposer.model": model,
        "proposer.base_url": base_url,
        "evaluator.metrics": None if metrics is None else metrics.resolve(),
    }
    changes = [*(overrides or ()), *(f"{key}={value}" for key, value in given.items() if value is not None)]
    request = open_request(problem_name, config_file, changes, openevolve_config)
    check_proposer(request.problem, request.config)
    if request.project is not None:
        _show_project(request.project, problem_name)
    with open_store(request.config.store.url, create=True) as store:
        if numbers:
            _repeat(store, as_json, [with_seed(request, number) for number in numbers])
            return
        _finish(
            store,
            as_json,
            _loading(request.config),
            lambda live: start(request, store, None, live.started, live.told),
        )


@app.command("resume", rich_help_panel="Runs")
def resume(run: RunName, store_url: StoreUrl = None, as_json: AsJson = False) -> None:
    """Take up a run that was stopped or killed, where its last stored judgement left it.

    Budget, seed and settings are those it was started with. A finished run only shows its result.

    [dim]Example:[/dim]  evovpo resume latest
    """
    from evovpo.config import Config
    from evovpo.reports.run_report import finished_text
    from evovpo.runs.run import resume as take_up
    from evovpo.runs.stored import find_run

    with open_store(store_url) as store:
        run_id = find_run(store, run)
        row = store.run(run_id)
        config = Config.from_json(row.config_json)
        end = "" if config.proposer.name == "imported" else finished_text(row)
        if end:
            say(f"Run {run_id} is finished ({end}): nothing to resume, here is its result.", stderr=True)
        _finish(
            store,
            as_json,
            "reading the run" if end or config.proposer.name == "random" else _loading(config),
            lambda live: take_up(run_id, store, on_start=live.started, on_tell=live.told),
        )


# ---------------------------------------------------------------- looking


@app.command("runs", rich_help_panel="Runs")
def list_runs(store_url: StoreUrl = None, as_json: AsJson = False) -> None:
    """List all runs, newest first.

    A run that says running although no process works on it was killed; resume takes it up.

    [dim]Example:[/dim]  evovpo runs
    """
    with open_store(store_url) as store:
        rows, option = store.runs(), store_option(store)
    if as_json:
        print_json([row._asdict() for row in rows])
    elif rows:
        from evovpo.reports.tables import runs_table
        from evovpo.types import RunStatus

        show_answer(runs_table(rows))
        running = [row.run for row in rows if row.status is RunStatus.RUNNING]
        if running:
            name = running[0] if len(running) == 1 else "RUN"
            say(f"\nrunning: if no process works on it, it was killed:  evovpo resume {name}{option}")
    else:
        say("No runs yet. Start one:  evovpo evolve strings/phone-with-hyphens")


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
    from evovpo.reports.curve import write_curve_png
    from evovpo.reports.run_json import run_json
    from evovpo.reports.run_report import finished_text, run_report
    from evovpo.runs.stored import find_run, lineage, read_run

    with open_store(store_url) as store:
        view = read_run(store, find_run(store, run))
        ancestors = [] if view.best is None else lineage(store, view.run.id, view.problem, view.best)
        picture = None if no_png else png or Path(f"evovpo-{view.run.id}.png")
        if picture is not None:
            write_curve_png(view, picture)
        if as_json:
            print_json(run_json(view, ancestors) | {"png": None if picture is None else str(picture)})
            return
        show_answer(run_report(view, ancestors))
        if picture is not None:
            say(f"Curve written to {picture}")
        if not finished_text(view.run):
            is_running = view.run.status.value == "running"
            lead = "If no process works on it, it was killed; to go on" if is_running else "To go on"
            say(f"{lead}:  evovpo resume {view.run.id}{store_option(store)}")


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
    from evovpo.reports.run_json import outcome_json, population_json
    from evovpo.reports.tables import population_table
    from evovpo.runs.replay import rebuild
    from evovpo.runs.replay import verify as verify_run
    from evovpo.runs.stored import find_run, read_run

    began = time.monotonic()
    with open_store(store_url) as store:
        run_id = find_run(store, run)
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
            seconds = time.monotonic() - began
            found: dict[str, Any] = outcome_json(read_run(store, run_id).outcome(seconds))
            if verify:
                found["identical"] = difference is None
            if search is not None:
                found["islands"] = population_json(search)
            print_json(found)
    if difference is not None:
        raise difference
    if not as_json and search is not None:
        if verify:
            say(f"Identical: all {compared} asks and tells of run {run_id} come out as stored.\n")
        else:
            say(f"Run {run_id} rebuilt: {search.proposed} evaluations in {search.tells} tells.\n")
        show_answer(population_table(search))


@app.command("doctor", rich_help_panel="Runs")
def doctor(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN|PROBLEM", help="A run, or a problem, of which the newest run is taken, or one made."
        ),
    ],
    store_url: StoreUrl = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    png: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where to write the picture.  [dim]\\[default: evovpo-doctor-RUN.png][/dim]",
            show_default=False,
        ),
    ] = None,
    no_png: Annotated[bool, typer.Option("--no-png", help="Write no picture.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say whether a problem's reward vector is worth training on with VPO, and what to change if not.

    Of a problem without runs, 240 answers are sampled by a search first; --config and --set change it.

    [dim]Examples:[/dim]

    evovpo doctor latest

    evovpo doctor strings/name-short-form --png vector.png
    """
    from evovpo.config import Config
    from evovpo.reports.doctor.as_json import report_json
    from evovpo.reports.doctor.examine import SAMPLING, examine_problem, examine_run, named_problem
    from evovpo.reports.doctor.picture import write_png
    from evovpo.reports.doctor.text import report_view
    from evovpo.reports.live import LiveProgress

    given = [] if store_url is None else [f"store.url={store_url}"]
    config = Config.load(config_file, [*SAMPLING, *(overrides or ()), *given])
    problem = named_problem(target)
    with open_store(config.store.url, create=problem is not None) as store:
        live = LiveProgress(console(stderr=True))
        try:
            if problem is None:
                report = examine_run(store, target)
            else:
                with live:
                    live.waiting("looking for runs, or sampling answers")
                    report = examine_problem(store, problem, config, on_start=live.started, on_tell=live.told)
        except KeyboardInterrupt:
            _stopped(live, store)
    picture = None if no_png else png or Path(f"evovpo-doctor-{report.run.id}.png")
    if picture is not None:
        write_png(report, picture)
    if as_json:
        print_json(report_json(report) | {"png": None if picture is None else str(picture)})
        return
    show_answer(report_view(report))
    if picture is not None:
        say(f"\nPicture written to {picture}")


@app.command("bounds", rich_help_panel="Problems")
def bounds(run: RunName, store_url: StoreUrl = None) -> None:
    """Print bounds for the metrics of an OpenEvolve project, learned from all programs that a run judged.

    [dim]Example:[/dim]  evovpo bounds latest > circle_packing/metrics.toml
    """
    from evovpo.reports.problems import bounds_text
    from evovpo.runs.stored import find_run

    with open_store(store_url) as store:
        say(bounds_text(store, find_run(store, run)).rstrip("\n"))


@app.command("import-openevolve", rich_help_panel="Runs")
def import_openevolve(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="A checkpoint of OpenEvolve, or its output folder.")
    ],
    problem: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="The project that it ran for: its metrics and bounds, and its evaluator for answers that "
            "were logged but not judged.",
        ),
    ] = None,
    store_url: StoreUrl = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Bring the programs of an OpenEvolve checkpoint into the store, as a finished run to look at.

    Model calls that evovpo.integrations.openevolve logged in the same store are joined to their programs.

    [dim]Example:[/dim]  evovpo import-openevolve openevolve_output --problem circle_packing
    """
    from evovpo.config import Config
    from evovpo.integrations.importing import bring_in
    from evovpo.runs.request import open_request

    changes = [*(overrides or ()), *([] if store_url is None else [f"store.url={store_url}"])]
    named = None if problem is None else open_request(problem, config_file, changes)
    config = Config.load(config_file, changes) if named is None else named.config
    with open_store(config.store.url, create=True) as store:
        found = bring_in(store, checkpoint, named)
        option = store_option(store)
    for fault in found.faults:
        say(f"left out: {fault}", stderr=True)
    if as_json:
        print_json(found._asdict())
        return
    before = "" if found.is_new else " before"
    say(f"Imported{before} as run {found.run}: {found.programs} programs")
    say(f"  {found.parents_gone} without parent; {found.copies} copies, {len(found.faults)} files left out")
    say(
        f"  {found.prompts} with their prompt, {found.joined} of them joined to a logged call; "
        f"{found.judged} further answers judged, {found.unclaimed} calls of no program here"
    )
    say(f"\nLook at it:  evovpo show {found.run}{option}")


# ---------------------------------------------------------------- setting up


@app.command("config", rich_help_panel="Setting up")
def show_config(config_file: ConfigFile = None, overrides: Overrides = None) -> None:
    """Print all settings with their values and what they are for, as a TOML file.

    [dim]Example:[/dim]  evovpo config --set search.islands=8 > mine.toml
    """
    from evovpo.config import Config

    say(Config.load(config_file, overrides or ()).to_toml().rstrip("\n"))


@app.command("prompts", rich_help_panel="Setting up")
def show_prompts(
    problem_name: Annotated[
        str | None,
        typer.Argument(metavar="PROBLEM", help="Folder of a problem, or the name of a bundled one."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write the prompt templates there, to be changed and used."),
    ] = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Show what a run would first ask a model about a problem, or write the prompt templates.

    [dim]Examples:[/dim]

    evovpo prompts strings/phone-with-hyphens --set prompt.style=rewrite

    evovpo prompts --write mine
    """
    from evovpo.prompts import write_templates
    from evovpo.runs.prompt_format import example_prompts
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
        fail("expected a PROBLEM, or --write FOLDER, found neither; name one of the two", BAD_INPUT)


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

    say(f"The store has schema version {upgrade(store_url)}.")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"evovpo {version('evovpo')}")
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


def _show_project(project: Opened, name: str) -> None:
    """Say once, before a run, which keys of an OpenEvolve configuration do nothing, and what is doubtful."""
    from evovpo.reports.problems import settings_note

    if project.settings.keys:
        console(stderr=True).print(settings_note(project.settings, name), crop=False, soft_wrap=True)
    for remark in project.loaded.remarks:
        say(f"note: {remark}", stderr=True)


def _finish(store: Store, as_json: bool, waiting: str, work: Callable[[LiveProgress], Outcome]) -> None:
    """Do a run's work under a live view, print what it came to, and exit with 3 if nothing was judged."""
    from evovpo.reports.run_json import outcome_json
    from evovpo.reports.run_report import nothing_judged, result
    from evovpo.runs.stored import read_run

    outcome = _watched(store, waiting, work)
    if as_json:
        print_json(outcome_json(outcome))
    else:
        show_answer(result(read_run(store, outcome.run), outcome))
        option = store_option(store)
        if not outcome.solved:
            say("\nTo search on: start again with more --evaluations, or with another --seed.")
        say(f"\nLineage and curve:  evovpo show {outcome.run}{option}")
        say(f"All runs:           evovpo runs{option}")
    reason = nothing_judged(outcome, store.run_summary(outcome.run))
    if reason:
        fail(reason, NOTHING_EVALUATED)


def _watched(store: Store, waiting: str, work: Callable[[LiveProgress], Outcome]) -> Outcome:
    """Do a run's work under a live view and return what it came to; one cut off says how to go on."""
    from evovpo.reports.live import LiveProgress

    live = LiveProgress(console(stderr=True), store.call_totals)
    try:
        with live:
            live.waiting(waiting)
            return work(live)
    except KeyboardInterrupt:
        _stopped(live, store)
    except EvovpoError as error:
        if live.run is not None:
            hint = f"evovpo resume {live.run.id}{store_option(store)}"
            say(f"What was judged is stored. Once the cause is mended:  {hint}", stderr=True)
            if isinstance(error, (ServerError, StoreError)):
                fail(error, CUT_OFF)
        raise


def _repeat(store: Store, as_json: bool, requests: Sequence[RunRequest]) -> None:
    """Make the runs one after another, and print what they came to."""
    from evovpo.reports.repeats import Repeat, repeats_json, repeats_table
    from evovpo.runs.run import start

    def work(request: RunRequest, live: LiveProgress) -> Outcome:
        return start(request, store, None, live.started, live.told)

    found: list[Repeat] = []
    for request in requests:
        outcome = _watched(store, _loading(request.config), partial(work, request))
        found.append(Repeat(request.config.run.seed, outcome))
    if as_json:
        print_json(repeats_json(found))
    else:
        show_answer(repeats_table(found))
        say(f"\nLineage and curve:  evovpo show RUN{store_option(store)}")


def _stopped(live: LiveProgress, store: Store) -> NoReturn:
    if live.run is None:
        say("Stopped before the run began; nothing was stored.", stderr=True)
    else:
        say(f"Stopped. {live.proposed} of {live.run.evaluations} evaluations are stored.", stderr=True)
        say(f"To go on:  evovpo resume {live.run.id}{store_option(store)}", stderr=True)
    raise typer.Exit(STOPPED)


def _loading(config: Config) -> str:
    """Return what takes time before a run with this configuration begins."""
    waits = {"random": "getting ready", "openai": "asking the server"}
    return waits.get(config.proposer.name, "loading the model (a few seconds)")


def mount_commands() -> None:
    """Add the commands of other files, and those that installed packages offer: the trainer's.

    An entry point of `evovpo.commands` names a typer app that imports nothing heavy; doing it twice changes
    nothing.
    """
    from importlib.metadata import entry_points

    from evovpo.cli import batch as cli_batch
    from evovpo.cli import imports as cli_import

    points = sorted(entry_points(group="evovpo.commands"))
    offers: list[typer.Typer] = [cli_import.app, cli_batch.app, *(point.load() for point in points)]
    for offered in offers:
        known = {command.name for command in app.registered_commands}
        app.registered_commands += [
            command for command in offered.registered_commands if command.name not in known
        ]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (by default that of the process) and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Not every terminal can show every character of an example; that must not end a run.
            stream.reconfigure(errors="backslashreplace")
    mount_commands()
    try:
        app(args=None if arguments is None else list(arguments), prog_name="evovpo")
    except SandboxError as error:
        fail(error, NOTHING_EVALUATED)
    except EvovpoError as error:
        fail(error, BAD_INPUT)
    except OSError as error:
        if error.errno not in _FULL_DISK:
            raise
        with contextlib.suppress(OSError):
            say(f"error: {error}; make room, then give the same command again", stderr=True)
        # What is printed may go to the full disk too: where nothing can be said, the exit code still says it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        raise SystemExit(CUT_OFF) from None
    raise SystemExit(0)


if __name__ == "__main__":
    main()
