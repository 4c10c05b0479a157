"""The command `evovpo apply`: what a run found, on a user's table."""

from pathlib import Path
from typing import Annotated, Any

import typer

from evovpo.cli import options
from evovpo.cli.options import argument, option
from evovpo.cli.terminal import Exit, console, leave, open_store, print_json, say, writing
from evovpo.errors import ProblemError

app = typer.Typer()


@app.command("apply", rich_help_panel="Runs")
def apply(
    run: options.RunName,
    table: Annotated[Path, argument("TABLE", "CSV, Excel or JSON Lines, with a column for each parameter.")],
    column: Annotated[str, option("NAME", "Column to fill: a new one, or one whose filled cells stay.")],
    out: Annotated[Path, option("FILE", "CSV file to write.", "--out", "-o")],
    store_url: options.StoreUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Run the best program of a run on every row of a table, and write the table with its results.

    Listed are rows that failed, and rows whose cell of NAME, which stays, says something else. Exit code 1:
    some failed.

    [dim]Example:[/dim]  evovpo apply latest names.csv --column short -o out.csv
    """
    from rich.progress import Progress

    from evovpo.config import Config, StoreConfig
    from evovpo.problem.importers.table_script import table_arguments, table_value, table_write
    from evovpo.problem.importers.tables import read_table, texts_of
    from evovpo.runs.apply import run_rows
    from evovpo.runs.stored import find_run, stored_run

    with open_store(store_url) as store:
        view = stored_run(store, find_run(store, run))
        config = Config.from_json(view.run.config_json).changed(store=StoreConfig(url=store.name))
    if view.best is None or not view.problem.entry or view.problem.evaluator is not None:
        raise ProblemError(f"run {view.run.id}: expected a best program that is a function, found none")
    outcome = view.outcome(0.0)
    if not outcome.solved:
        count = f"{outcome.train_passed} of {outcome.train_total}"
        say(f"note: the program is right on {count} training rows or objectives", stderr=True)
    if out.exists() and out.samefile(table):
        raise ProblemError(f"{out}: expected another file than the table itself; give one with -o")
    rows = read_table(table)
    try:
        arguments = table_arguments(rows, texts_of(view.problem))
    except ValueError as error:
        raise ProblemError(f"{table}: {error}") from error
    failed: list[dict[str, Any]] = []
    different: list[dict[str, Any]] = []
    with writing(out) as file, Progress(console=console(stderr=True), transient=True) as progress:
        bar = progress.add_task("rows", total=len(rows))
        found = run_rows(view.problem, view.best, config, arguments, lambda n: progress.advance(bar, n))
        for number, (row, (value, reason)) in enumerate(zip(rows, found, strict=True), start=1):
            before = row.get(column)
            row[column] = value if before in (None, "") else before
            if reason is not None:
                failed.append({"row": number, "error": reason})
            elif before not in (None, "", value) and table_value(before) != value:
                different.append({"row": number, "given": before, "found": value})
        table_write(file, rows)
    if as_json:
        counts = {"rows": len(rows), "failed": len(failed), "different": len(different)}
        print_json({"run": view.run.id, **counts, "out": out, "failures": failed, "differences": different})
    else:
        say(
            f"{out}: {len(rows)} rows by run {view.run.id} of {view.problem.id}, {len(failed)} failed, "
            f"{len(different)} whose {column!r} said something else and stays"
        )
        for line in [*failed[:10], *different[:10]]:
            say("  " + ", ".join(f"{name} {value!r}" for name, value in line.items()))
    if failed:
        leave(Exit.SOME_FAILED)
