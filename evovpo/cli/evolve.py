"""The commands `evovpo evolve` and `evovpo resume`, with their progress and final report."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from evovpo.cli import options, terminal
from evovpo.cli.apply import say_new_forms
from evovpo.cli.options import argument, option, settings
from evovpo.cli.page import Serve, page_beside
from evovpo.cli.terminal import (
    Exit,
    console,
    granting,
    leave,
    open_store,
    print_json,
    say,
    show_answer,
    shown_opening,
    store_option,
)
from evovpo.errors import ConfigError, EvovpoError, ProblemError, ServerError, StoreError

if TYPE_CHECKING:
    from evovpo.reports.live import LiveProgress
    from evovpo.runs.request import RunRequest
    from evovpo.runs.stored import Outcome, RunView
    from evovpo.store import Store

app = typer.Typer()
_BUDGET = ("--evaluations", "-n", "--iterations", "-i")


@app.command("evolve", rich_help_panel="Runs")
def evolve(
    problem_name: Annotated[
        str,
        argument(
            "PROBLEM",
            "Folder of a problem or of an OpenEvolve project, the name of a bundled problem, or a table "
            "(CSV, Excel, JSON Lines) of examples.",
        ),
    ],
    evaluator: options.EvaluatorFile = None,
    evaluations: Annotated[
        int | None,
        option(
            "N",
            "Number of programs to propose, including duplicates and unusable ones.",
            *_BUDGET,
            default="1000",
            min=1,
        ),
    ] = None,
    seed: Annotated[
        int | None, option("S", "Random seed; exact repetition needs search.in_flight=1.", default="0", min=0)
    ] = None,
    store_url: options.StoreUrl = None,
    config_file: options.ConfigFile = None,
    overrides: options.Overrides = None,
    proposer: Annotated[
        Literal["local", "openai", "random"] | None,
        typer.Option(
            help="[bold]local[/bold]: a model in this process, by default the built-in one; "
            "[bold]openai[/bold]: any model behind a server; [bold]random[/bold]: random programs in the "
            "built-in model's language, a baseline.  "
            "[dim]\\[default: local; openai with --base-url][/dim]"
        ),
    ] = None,
    model: options.ModelName = None,
    secondary_model: Annotated[str | None, typer.Option(hidden=True)] = None,
    base_url: options.BaseUrl = None,
    target: Annotated[
        float | None, option("SCORE", "Stop at this mean reward, or combined_score.", "--target-score", "-t")
    ] = None,
    output_dir: options.OutputDir = None,
    allow: options.Allow = None,
    output: options.OutputColumn = None,
    columns: options.InputColumns = None,
    origin: Annotated[
        str | None,
        option(
            "RUN|CHECKPOINT",
            "Also start from the best programs of another run or of OpenEvolve's output folder.",
            *("--from", "--checkpoint"),
        ),
    ] = None,
    serve: Serve = False,
    as_json: options.AsJson = False,
) -> None:
    """Search for a program that solves a problem, and show the best one found.

    All results are stored during the run: Ctrl-C stops it, evovpo resume continues it.

    [dim]Examples:[/dim]
    evovpo evolve strings/name-short-form
    evovpo evolve invoices -n 5000 --seed 1 --set search.islands=8
    evovpo evolve names.csv --output short
    evovpo evolve openevolve_project --base-url http://localhost:8000/v1 --model NAME
    """
    from evovpo.problem.importers.tables import is_table
    from evovpo.reports.live import loading_message
    from evovpo.runs.choices import check_proposer
    from evovpo.runs.request import open_request, with_origin
    from evovpo.runs.start_resume import start

    if output_dir is not None and is_table(output_dir):
        raise ConfigError(f"-o: expected a folder, found {output_dir}; evovpo apply fills a table afterwards")
    if origin is not None and "/" in origin and not Path(origin).is_dir():
        raise ConfigError(
            f"--from, --checkpoint: expected a run or a checkpoint's folder, found nothing at {origin}"
        )
    models = None
    if secondary_model is not None:  # with OpenEvolve's default weights
        if model is None:
            raise ConfigError("--secondary-model: expected --primary-model too, found none; give both")
        models, model = [{"name": model}, {"name": secondary_model, "weight": 0.2}], None
    initial_program = None
    if evaluator is not None:
        initial_program, problem_name = problem_name, str(evaluator)
    given = {
        "search.evaluations": evaluations,
        "run.seed": seed,
        "store.url": store_url,
        "proposer.name": proposer,
        "proposer.model": model,
        "proposer.base_url": base_url,
        "models": models,
        "evaluator.initial_program": initial_program,
        "run.origin": None if origin is None else [origin],
        "search.target": target,
    }
    changes = settings(overrides, given)
    request = granting(
        lambda words: shown_opening(
            problem_name, lambda: open_request(problem_name, config_file, changes, words, output, columns)
        ),
        allow,
    )
    for remark in request.remarks:
        say(f"note: {remark}", stderr=True)
    check_proposer(request.problem, request.config)
    if not as_json:
        _ask_about_mean(request)
    waiting = loading_message(request.config)
    beside = page_beside(request.config.store.url) if serve else nullcontext()
    with open_store(request.config.store.url, create=True) as store, beside:
        if origin is not None:
            if Path(origin).is_dir():
                from evovpo.integrations.import_checkpoint import bring_in

                run = {"origin": [bring_in(store, Path(origin)).run]}
                request = replace(request, config=request.config.changed(run=run))
            request, note = with_origin(request, store)
            say(f"note: {note}", stderr=True)
        outcome = _with_live_view(store, waiting, partial(start, request, store), output_dir)
        _finish(store, as_json, outcome, output_dir)


@app.command("resume", rich_help_panel="Runs")
def resume(
    run: options.RunName,
    evaluations: Annotated[
        int | None,
        option("N", "New total budget, larger than before; also continues a finished run.", *_BUDGET, min=1),
    ] = None,
    overrides: options.Overrides = None,
    config_file: Annotated[
        Path | None,
        option("FILE", "TOML file of changed settings, such as other models.", "--config", "-c"),
    ] = None,
    allow: options.Allow = None,
    output_dir: options.OutputDir = None,
    store_url: options.StoreUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Resume a stopped or killed run after its last stored evaluation.

    Budget, seed and settings are kept; give --output-dir again. --allow grants permissions that another
    user's run requests. To continue, a finished run needs a larger budget or changed settings; a solved run
    also needs search.stop_when_solved=false. Without these, only the result is shown.

    [dim]Examples:[/dim]  evovpo resume latest
               evovpo resume 3f2a --evaluations 5000 --set search.rollouts=4
    """
    from evovpo.config import Config
    from evovpo.config_tree import read_toml
    from evovpo.reports.live import loading_message
    from evovpo.reports.run_report import finished_text
    from evovpo.runs.request import is_yaml
    from evovpo.runs.start_resume import resume as take_up
    from evovpo.runs.stored import find_run

    with open_store(store_url) as store:
        run_id = find_run(store, run)
        row = store.run(run_id)
        config = Config.from_json(row.config_json)
        end = "" if config.proposer.name == "imported" else finished_text(row)
        if is_yaml(config_file):
            raise ConfigError(f"--config: expected TOML, found {config_file}; use --set KEY=VALUE instead")
        changes = {} if config_file is None else read_toml(config_file)
        changes |= settings(overrides, {"search.evaluations": evaluations})
        if end and not changes:
            say(f"Run {run_id} is finished ({end}): nothing to resume, here is its result.", stderr=True)
        waiting = "reading the run" if end or config.proposer.name == "random" else loading_message(config)
        work = partial(take_up, run_id, store, changes=changes)
        outcome = granting(
            lambda words: _with_live_view(store, waiting, partial(work, allow=words), output_dir), allow
        )
        if changes and not outcome.seconds:
            more = "add --set search.stop_when_solved=false" if outcome.solved else "add another --target"
            more = "evolve again with another --seed" if outcome.is_memorised else more
            say(f"Run {run_id} stays as it is: {outcome.status}. To search on, {more}", stderr=True)
        _finish(store, as_json, outcome, output_dir)


def _write_files(store: Store, view: RunView, folder: Path | None) -> None:
    from evovpo.integrations.export_checkpoint import write_best, write_checkpoint

    if folder is None and view.problem.evaluator is None:
        return
    best = write_best(store, view, folder or Path("evovpo-out", view.run.id))
    if best is not None:
        say(f"Best program written to {best}", stderr=True)
    if folder is not None:
        say(f"Checkpoint written to {write_checkpoint(store, view, folder)}", stderr=True)


def _ask_about_mean(request: RunRequest) -> None:
    from evovpo.problem.openevolve.metrics import draft

    problem, initial = request.problem, request.project and request.project.initial
    if not (problem.has_one_score and initial and terminal.is_interactive()):
        return
    name = problem.objectives[0].name
    if not name.startswith("mean of ") or problem.evaluator is None:
        return
    if not typer.confirm(f"Search for the highest {name}?", default=True, err=True):
        say(draft(dict(initial.metrics or ()), problem.evaluator.left_out or ()))
        file = Path(problem.folder or ".", "metrics.toml")
        leave(Exit.BAD_INPUT, f"Nothing was started. Edit these lines and save them as {file}")


def _finish(
    store: Store,
    as_json: bool,
    outcome: Outcome,
    output_dir: Path | None = None,
) -> None:
    from evovpo.problem.importers.tables import new_forms, source_of
    from evovpo.reports.run_report import nothing_judged, outcome_json, result
    from evovpo.reports.text import calls_text
    from evovpo.runs.stored import read_run, stored_run

    view = (stored_run if as_json else read_run)(store, outcome.run)
    _write_files(store, view, output_dir)
    forms: dict[str, list[int]] = {}
    table, column, rows = source_of(view.problem) or (None, "", [])
    with suppress(ValueError):  # the table may have other columns now
        forms = new_forms(view.problem, rows, column) if rows else {}

    def feedback_of(program_id: str) -> str:
        judged = store.known_evaluation(view.problem.version, program_id)
        return judged.feedback if judged else ""

    reason = nothing_judged(outcome, view.summary, view.scores, feedback_of)
    if as_json:
        print_json({**outcome_json(outcome), "new_forms": forms, "calls": view.summary.calls._asdict()})
    else:
        where = store_option(store)
        show_answer(result(view, outcome))
        if view.summary.calls.calls:
            say(calls_text(view.summary.calls))
        show_advice(store, view, bool(reason), output_dir)
        if table is not None:
            say_new_forms(forms, column)
            paths = [os.path.relpath(path) for path in (table, table.with_stem(f"{table.stem}-filled"))]
            words = [paths[0], "--column", column, "-o", paths[1]]
            if outcome.is_right:
                say(f"\nFill the table:     evovpo apply {outcome.run} {shlex.join(words)}{where}")
                say(f"As a program:       evovpo show {outcome.run} --out solve.py{where}")
            else:
                more = f" Search on:  evovpo resume {outcome.run} -n {2 * view.run.evaluations}{where}"
                say(f"\nNot right on all rows yet, so not to be used.{more * (not outcome.solved)}")
                filled = f"evovpo apply {outcome.run} {shlex.join(words)} --anyway{where}"
                say(f"Fill the table anyway, with a column that marks rows to trust:  {filled}")
        elif outcome.is_right and view.problem.is_by_example:
            say(f"\nFill a table:       evovpo apply {outcome.run} TABLE --column NAME -o FILE{where}")
        say("\n" * (table is None) + f"Lineage and curve:  evovpo show {outcome.run}{where}")
        say(f"All runs:           evovpo runs{where}")

    if reason:
        leave(Exit.NOTHING_EVALUATED, f"error: {reason}")
    if outcome.is_memorised:
        leave(Exit.MEMORISED)


def show_advice(store: Store, view: RunView, is_failed: bool = False, output_dir: Path | None = None) -> None:
    from evovpo.reports.advice import stored_advice

    if found := stored_advice(store, view, store_option(store) + _folder_option(output_dir), is_failed):
        say("\n".join(["\nSuggestions:", *(f"- {line}" for line in found)]))


def _with_live_view(
    store: Store, waiting: str, work: Callable[..., Outcome], output_dir: Path | None
) -> Outcome:
    from evovpo.reports.live import LiveProgress

    live = LiveProgress(console(stderr=True), store.call_totals)
    try:
        with live:
            live.waiting(waiting)
            return work(on_start=live.started, on_tell=live.told)
    except KeyboardInterrupt:
        stopped(live, store, output_dir)
    except EvovpoError as error:
        if live.run is not None:
            hint = f"After fixing the cause:  evovpo resume {live.run.id}{store_option(store)}"
            if isinstance(error, ProblemError):
                hint = f"A changed problem needs a new run: evovpo evolve PROBLEM --from {live.run.id}"
            say(f"All judgements so far are stored. {hint}", stderr=True)
            if isinstance(error, (ServerError, StoreError)):
                leave(Exit.CUT_OFF, f"error: {error}")
        raise


def stopped(live: LiveProgress, store: Store, output_dir: Path | None = None) -> NoReturn:
    """Print that a run was stopped and how to resume it; then exit with the code for Ctrl-C."""
    if live.run is None:
        leave(Exit.STOPPED, "Stopped before the search began; nothing new was stored.")
    from evovpo.runs.stored import stored_run

    view = stored_run(store, live.run.id)
    proposed = view.summary.proposed
    if view.best is not None:
        _write_files(store, view, output_dir)
    leave(
        Exit.STOPPED,
        f"Stopped. {proposed} of {live.run.evaluations} evaluations are stored; replies that were not "
        "judged are asked for again.",
        f"To continue:  evovpo resume {live.run.id}{store_option(store)}{_folder_option(output_dir)}",
    )


def _folder_option(output_dir: Path | None) -> str:
    return f" -o {shlex.quote(str(output_dir))}" if output_dir else ""
