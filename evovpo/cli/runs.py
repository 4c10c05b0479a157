"""The commands on runs: list, show, replay, doctor, and import from OpenEvolve."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evovpo.cli import options
from evovpo.cli.evolve import show_advice, stopped
from evovpo.cli.options import argument, flag, option, settings
from evovpo.cli.terminal import console, open_store, print_json, say, show_answer, store_option, writing
from evovpo.errors import ConfigError, ReplayError

app = typer.Typer()


@app.command("runs", rich_help_panel="Runs")
def list_runs(store_url: options.StoreUrl = None, as_json: options.AsJson = False) -> None:
    """List all runs, newest first.

    Solved: right on every training and held-out row. Solved (unchecked): no held-out row was tested.
    Memorised: right on every training row, wrong on a held-out row. Running: still searching, or killed;
    evovpo resume continues a killed run. Best: mean reward, or combined_score of an OpenEvolve project.
    The runs of a loop are one row; --json lists each of them.

    [dim]Example:[/dim]  evovpo runs
    """
    from evovpo.reports.runs_table import row_json, runs_table
    from evovpo.runs.stored import list_runs

    with open_store(store_url) as store:
        rows, option = list_runs(store), store_option(store)
    if as_json:
        print_json([row_json(row) for row in rows])
    elif rows:
        from evovpo.types import RunStatus

        show_answer(runs_table(rows))
        running = [row.run for row in rows if row.status is RunStatus.RUNNING]
        if running:
            name = running[0] if len(running) == 1 else "RUN"
            say(f"\nrunning: if no process works on it, it was killed:  evovpo resume {name}{option}")
    else:
        say("No runs yet. Start one:  evovpo evolve strings/name-short-form")


@app.command("show", rich_help_panel="Runs")
def show(
    run: options.RunName = "latest",
    store_url: options.StoreUrl = None,
    png: options.Png = None,
    no_png: options.NoPng = False,
    out: Annotated[Path | None, option("FILE", "Write the best program.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the best program of a run, its ancestors and the curve of the search.

    The curve is also written as a picture.

    [dim]Examples:[/dim]  evovpo show latest
               evovpo show 3f2a --png curve.png
    """
    from evovpo.reports.run_curve import write_curve_png
    from evovpo.reports.run_report import finished_text, run_json, run_report
    from evovpo.runs.stored import find_run, lineage, read_run

    with open_store(store_url) as store:
        view = read_run(store, find_run(store, run))
        ancestors = [] if view.best is None else lineage(store, view.run.id, view.problem, view.best)
        picture = None if no_png else options.written_to(png, f"{view.run.id}.png")
        if picture is not None:
            try:
                write_curve_png(view, picture)
            except ConfigError as error:
                if png is not None:
                    raise
                picture = None
                say(f"note: no picture: {error}", stderr=True)
        if out is not None and view.best is not None:
            replaced = " in place of the file that was there" * out.exists()
            with writing(out) as file:
                file.write(view.best.source)
            say(f"Best program written to {out}{replaced}", stderr=True)
        if as_json:
            print_json({**run_json(view, ancestors), "png": picture})
            return
        show_answer(run_report(view, ancestors))
        if picture is not None:
            say(f"Curve written to {picture}")
        if finished_text(view.run):
            show_advice(store, view)
        else:
            is_running = view.run.status.value == "running"
            lead = "If no process works on it, it was killed; to continue" if is_running else "To continue"
            say(f"{lead}:  evovpo resume {view.run.id}{store_option(store)}")


@app.command("replay", rich_help_panel="Runs")
def replay(
    run: options.RunName,
    verify: Annotated[
        bool, flag("--verify", "Also parse every answer again and compare the outcomes.")
    ] = False,
    store_url: options.StoreUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Rebuild the population of a run from the store, without calling a model or running programs.

    Every prompt is made again and compared with the prompt sent. Exit code 0: all are identical.

    [dim]Example:[/dim]  evovpo replay latest --verify
    """
    from evovpo.runs.replay import rebuild
    from evovpo.runs.replay import verify as verify_run
    from evovpo.runs.stored import find_run

    with open_store(store_url) as store:
        run_id = find_run(store, run)
        try:
            search, events = verify_run(run_id, store) if verify else (rebuild(run_id, store).search, 0)
        except ReplayError:
            if verify and as_json:
                print_json({"run": run_id, "identical": False})
            raise
    standing = search.standing
    said = f"Run {run_id} rebuilt: {standing.proposed} evaluations in {standing.tells} tells."
    found = {"run": run_id, "evaluations": standing.proposed, "solved": standing.is_solved}
    if verify:
        said = f"Identical: all {events} asks and tells of run {run_id} come out as stored."
        found["identical"] = True
    if as_json:
        print_json(found)
    else:
        say(said)


@app.command("doctor", rich_help_panel="Runs")
def doctor(
    target: Annotated[str, argument("RUN|PROBLEM", "A run, or a problem whose newest run is examined.")],
    store_url: options.StoreUrl = None,
    config_file: options.ConfigFile = None,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Diagnose whether training with VPO on a problem's reward vector is worthwhile.

    If the problem has no run, 240 answers are sampled first, by a search that uses --config and --set.

    [dim]Examples:[/dim]  evovpo doctor latest
               evovpo doctor strings/name-short-form
    """
    from evovpo.config import Config
    from evovpo.reports import doctor as doctors
    from evovpo.reports.live import LiveProgress

    config = Config.load(config_file, doctors.SAMPLING | settings(overrides, {"store.url": store_url}))
    problem = doctors.named_problem(target)
    with open_store(config.store.url, create=problem is not None) as store:
        live = LiveProgress(console(stderr=True), store.call_totals)
        try:
            if problem is None:
                report = doctors.examine_run(store, target)
            else:
                with live:
                    live.waiting("reading runs or sampling answers")
                    report = doctors.examine_problem(
                        store, problem, config, on_start=live.started, on_tell=live.told
                    )
        except KeyboardInterrupt:
            stopped(live, store)
    if as_json:
        print_json(doctors.report_json(report))
    else:
        show_answer(doctors.report_view(report))


@app.command("import-openevolve", rich_help_panel="Runs")
def import_openevolve(
    checkpoint: Annotated[Path, argument("CHECKPOINT", "OpenEvolve checkpoint or output folder.")],
    problem: Annotated[
        str | None, option("DIR", "OpenEvolve project of the checkpoint, which defines the metrics.")
    ] = None,
    store_url: options.StoreUrl = None,
    config_file: options.ConfigFile = None,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Import an OpenEvolve checkpoint into the store as a finished run.

    [dim]Example:[/dim]  evovpo import-openevolve openevolve_output --problem circle_packing
    """
    from evovpo.config import Config
    from evovpo.integrations.import_checkpoint import bring_in
    from evovpo.runs.request import open_request

    changes = settings(overrides, {"store.url": store_url})
    named = None if problem is None else open_request(problem, config_file, changes, is_run=False)
    config = Config.load(config_file, changes) if named is None else named.config
    with open_store(config.store.url, create=True) as store:
        found = bring_in(store, checkpoint, named)
        option = store_option(store)
    for fault in found.faults:
        say(f"left out: {fault}", stderr=True)
    if as_json:
        print_json(asdict(found))
        return
    before = "" if found.is_new else " before"
    say(f"Imported{before} as run {found.run}: {found.programs} programs")
    say(f"\nLook at it:  evovpo show {found.run}{option}")
