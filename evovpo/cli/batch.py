"""The command `evovpo batch`, which makes and compares many runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evovpo.cli import options
from evovpo.cli.options import argument, flag, option
from evovpo.cli.page import Serve, page_beside
from evovpo.cli.terminal import Exit, console, leave, open_store, print_json, say, show_answer, store_option
from evovpo.errors import StoreError

if TYPE_CHECKING:
    from evovpo.experiments.results import Results

app = typer.Typer()

BatchName = Annotated[
    str, argument("FILE|SUITE", "Batch file (TOML), or a suite: each of its problems is run once.")
]
Limit = Annotated[int | None, option("N", "Run only the first N problems.", min=1)]


@app.command("batch", rich_help_panel="Batches")
def batch(
    name: BatchName,
    store_url: options.StoreUrl = None,
    jobs: Annotated[
        int | None,
        option(
            "N",
            "Parallel runs, each in its own process.",
            *("--jobs", "-j"),
            default="number of cores",
            min=1,
            max=256,
        ),
    ] = None,
    limit: Limit = None,
    executor: options.Executor = None,
    report_only: Annotated[
        bool, flag("--report-only", "Write a report of the stored results without running anything.")
    ] = False,
    out: Annotated[
        Path | None, option("FOLDER", "Folder of the report.", default="evovpo-out/report-NAME")
    ] = None,
    serve: Serve = False,
    as_json: options.AsJson = False,
) -> None:
    """Run every combination of problems, proposers, strategies, budgets and seeds.

    After an interruption, repeat the command: it continues from the store and retries failed runs.

    [dim]Examples:[/dim]  evovpo batch strings --limit 5
               evovpo batch comparison.toml --jobs 4 --store comparison.db
               evovpo batch comparison.toml --store comparison.db --report-only --out comparison
    """
    if report_only or out is not None:
        _report(name, store_url, out, limit, as_json)
        return
    from contextlib import nullcontext
    from functools import partial

    from evovpo.experiments.batch_plan import plan
    from evovpo.experiments.cell_runs import only_batch, sized
    from evovpo.experiments.cluster import on_cluster
    from evovpo.experiments.pool import run_all
    from evovpo.experiments.results import read_results
    from evovpo.page.batch_report import batch_report, results_json
    from evovpo.reports.batch_progress import BatchProgress

    found, works = plan(name, store_url, limit)
    beside = page_beside(store_url, partial(batch_report, name, store_url, limit)) if serve else nullcontext()
    with open_store(store_url, create=True) as store, only_batch(store_url), beside:
        stored = {row.run: row for row in store.runs()}
        progress = BatchProgress(console(stderr=True), works, stored, store.call_totals)
        is_here = executor in (None, "local")
        unfinished = [work for work in works if not work.is_finished]
        left = sized(unfinished, jobs if is_here else None, executor and "local")
        clusters = {work.config.sandbox.executor for work in left}
        try:
            with on_cluster(executor, store_url, clusters), progress:
                failed = run_all(left, jobs, progress.take, progress.pause)
        except KeyboardInterrupt:
            leave(Exit.STOPPED, f"Stopped: {progress.status()}.", "The same command continues from here.")
        except StoreError as error:
            leave(
                Exit.CUT_OFF,
                f"The store failed, and the batch stopped: {progress.status()}.",
                "All judgements so far are stored; the same command continues from here.",
                f"error: {error}",
            )
        results = read_results(found, store)
    cells = {work.cell.run_id: work.cell for work in works}
    looks = {one.name: f"evovpo show {one.name}{store_option(store)}" for one in failed}
    if as_json:
        rows = [
            {"run": one.name, "problem": cells[one.name].problem_id, "error": one.reason}
            | {"look": looks[one.name]}
            for one in failed
        ]
        print_json(results_json(results) | {"failed": rows})
    else:
        _show(results)
        limited = "" if limit is None else f" --limit {limit}"
        again = f"evovpo batch {name}{limited}{store_option(store)} --report-only"
        say(f"\nCurves, heat maps, tables:  {again}")
    for one in failed:
        cell = cells[one.name]
        label = f"{cell.problem_id} ({cell.arm.label}, seed {cell.seed})"
        say(f"failed: {label}: {one.reason}\n  {looks[one.name]}", stderr=True)
    if failed:
        count = f"{len(failed)} of {len(works)} runs failed"
        leave(Exit.SOME_FAILED, f"{count}; the same command tries them again.")


def _report(name: str, store_url: str | None, out: Path | None, limit: int | None, as_json: bool) -> None:
    from evovpo.experiments.batch_file import read_batch
    from evovpo.experiments.results import read_results
    from evovpo.page.batch_report import results_json, write_report

    found = read_batch(name, limit)
    with open_store(store_url) as store:
        results = read_results(found, store)
        folder = options.written_to(out, "report-" + re.sub(r"\W", "-", found.name))
        page, tables = write_report(store, results, folder)
    if as_json:
        print_json({**results_json(results), "page": page, "tables": tables})
        return
    _show(results)
    say(f"\nReport written to {page}, with tables for machines next to it")


def _show(results: Results) -> None:
    from evovpo.page.batch_report import arms_table

    show_answer(arms_table(results))
    say("\n" + "\n".join(results.verdict()))
