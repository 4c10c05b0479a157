"""The command `evovpo apply`: runs the best program of a run on a table."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from evovpo.cli import options
from evovpo.cli.options import argument, flag, option
from evovpo.cli.terminal import Exit, console, leave, open_store, print_json, say, writing
from evovpo.errors import ProblemError, nearest_hint

app = typer.Typer()
_FORMS_SHOWN = 5


def say_new_forms(forms: Mapping[str, Sequence[int]], column: str) -> None:
    """Print the rows that have an empty `column` and resemble no example, from the result of `new_forms`."""
    from evovpo.reports.text import counted

    if forms:
        count, kinds = counted(sum(map(len, forms.values())), "row"), counted(len(forms), "form")
        say(f"\n{count} without {column!r}, like no example ({kinds}); fill one of each:")
    for inputs, rows in sorted(forms.items(), key=lambda form: -len(form[1]))[:_FORMS_SHOWN]:
        say(f"  row {rows[0]}" + f" and {len(rows) - 1} more" * (len(rows) > 1) + f": {inputs}")


def _cells_to_change(
    rows: Sequence[Mapping[str, Any]], column: str, mark: str | None
) -> dict[str, Collection[int]]:
    if column not in rows[0]:
        say(f"note: {column!r} is a new column ({nearest_hint(column, rows[0])})", stderr=True)
    empty = {number for number, row in enumerate(rows, start=1) if row.get(column) in (None, "")}
    return {column: empty, **({} if mark is None else {mark: range(1, len(rows) + 1)})}


@app.command("apply", rich_help_panel="Runs")
def apply(
    run: options.RunName,
    table: Annotated[Path, argument("TABLE", "CSV, Excel or JSON Lines file with the input columns.")],
    column: Annotated[str, option("NAME", "Column to fill: new or existing; filled cells are kept.")],
    out: Annotated[
        Path,
        option(
            "FILE",
            "Output file: .csv, .tsv, .xlsx or .jsonl; any other name gets the format of TABLE.",
            "--out",
            "-o",
        ),
    ],
    anyway: Annotated[
        bool, flag("--anyway", "Also use a program that fails training rows, and mark the rows to trust.")
    ] = False,
    store_url: options.StoreUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Apply the best program of a run to every row of a table.

    A program that is wrong on a training row is refused. --anyway applies it and adds a column that marks the
    rows to trust: those that resemble training rows on which the program is mostly right.

    Three lists are printed: rows on which the program failed, rows with a filled cell that differs from the
    program's result (the cell is kept), and rows that resemble no example. Rows are numbered from 1, without
    the header. Exit code 1: some rows failed.

    [dim]Example:[/dim]  evovpo apply latest names.csv --column short -o out.csv
    """
    from rich.progress import Progress

    from evovpo.problem.importers.tables import (
        arguments_of,
        cell_value,
        form_of,
        new_forms,
        read_table,
        texts_of,
        write_rows,
    )
    from evovpo.runs.apply import run_rows
    from evovpo.runs.stored import example_rows, find_run, stored_run, to_run

    with open_store(store_url) as store:
        view = stored_run(store, find_run(store, run))
        problem, config = to_run(view, store)
    if view.best is None or not view.problem.entry or view.problem.evaluator is not None:
        raise ProblemError(f"run {view.run.id}: expected a best program that is a function, found none")
    outcome = view.outcome(0.0)
    if not outcome.solved and not anyway:
        raise ProblemError(
            f"run {view.run.id}: its program is right on {outcome.train_passed} of {outcome.train_total} "
            f"training rows, and would write wrong cells; search on (evovpo resume {view.run.id} -n "
            f"{2 * view.run.evaluations}), or give --anyway for a column that says which rows to trust"
        )
    rows = read_table(table)
    if out.exists() and out.samefile(table):
        raise ProblemError(f"{out}: expected another file than the table itself; give one with -o")
    try:
        arguments = arguments_of(rows, texts_of(view.problem))
        forms = new_forms(view.problem, rows, column)
        right = {tuple(one.inputs): one.passed for one in example_rows(view.problem, view.evaluation)}
    except ValueError as error:
        raise ProblemError(f"{table}: {error}") from error
    mark, doubtful = f"{column} trusted", 0
    changed = _cells_to_change(rows, column, None if outcome.solved else mark)
    failed: list[dict[str, Any]] = []
    different: list[dict[str, Any]] = []
    with writing(out) as file, Progress(console=console(stderr=True), transient=True) as progress:
        bar = progress.add_task("rows", total=len(rows))
        found = run_rows(problem, view.best, config, arguments, lambda n: progress.advance(bar, n))
        done = list(zip(rows, arguments, found, strict=True))
        for row, values, (value, _) in done:
            if (before := row.get(column)) not in (None, ""):
                right[tuple(values)] = value in (before, cell_value(before))
        lead: Counter[str] = Counter()  # right rows minus wrong rows of each form
        for inputs, is_right in right.items():
            lead[form_of(inputs)] += 1 if is_right else -1
        for number, (row, values, (value, reason)) in enumerate(done, start=1):
            before = row.get(column)
            if not outcome.solved:
                row[mark] = "yes" if lead[form_of(values)] > 0 and reason is None else "no"
                doubtful += row[mark] == "no"
            row[column] = value if before in (None, "") else before
            if reason is not None:
                failed.append({"row": number, "error": reason})
            elif before not in (None, "", value) and cell_value(before) != value:
                different.append({"row": number, "given": before, "found": value})
        write_rows(file, out, table, rows, changed)
    if as_json:
        counts = {"rows": len(rows), "failed": len(failed), "different": len(different), "doubtful": doubtful}
        lists = {"failures": failed, "differences": different, "new_forms": forms}
        print_json({"run": view.run.id, **counts, "out": out, **lists})
    else:
        say(
            f"{out}: run {view.run.id} of {view.problem.id}; rows: {len(rows)}, failed: {len(failed)}, "
            f"filled cells that differ (kept): {len(different)}"
        )
        if not outcome.solved:
            say(f"  not to be trusted ({mark!r} is no): {doubtful}")
        for line in [*failed[:10], *different[:10]]:
            say("  " + ", ".join(f"{name} {value!r}" for name, value in line.items()))
        say_new_forms(forms, column)
    if failed:
        leave(Exit.SOME_FAILED)
