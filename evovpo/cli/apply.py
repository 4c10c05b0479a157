"""The command `evovpo apply`: runs the best program of a run on a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evovpo.cli import options
from evovpo.cli.options import argument, flag, option
from evovpo.cli.terminal import Exit, console, leave, open_store, print_json, say, writing
from evovpo.errors import ProblemError

if TYPE_CHECKING:
    from evovpo.runs.stored import Outcome

app = typer.Typer()
_FORMS_SHOWN = 5
_LINES_SHOWN = 10


def say_new_forms(forms: Mapping[str, Sequence[int]], column: str) -> None:
    """Print `forms`, the result of `new_forms`: rows with an empty `column` that resemble no example."""
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
        say(f"note: {column!r} is a new column", stderr=True)
    empty = {number for number, row in enumerate(rows, start=1) if row.get(column) in (None, "")}
    return {column: empty, **({} if mark is None else {mark: range(1, len(rows) + 1)})}


def _refusal(outcome: Outcome, more: str, better: Sequence[str]) -> str:
    passed = f"{outcome.train_passed} of {outcome.train_total} training rows"
    more = f"search on (evovpo resume {outcome.run}{more})"
    if outcome.is_memorised:
        passed = f"{outcome.heldout_passed} of {outcome.heldout_total} held-out rows"
        more = "correct the wrong ones, or fill more cells, and evolve again"
    if better:
        more = f"use run {better[0]}, which is right"
    return (
        f"run {outcome.run}: its program is right on {passed}, and would write wrong cells; {more}, or give "
        "--anyway for a column that says which rows to trust"
    )


def _say_first(lines: Sequence[Mapping[str, object]]) -> None:
    for line in lines[:_LINES_SHOWN]:
        say("  " + ", ".join(f"{name} {value!r}" for name, value in line.items()))
    if len(lines) > _LINES_SHOWN:
        say(f"  and {len(lines) - _LINES_SHOWN} more")


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
        bool,
        flag("--anyway", "Also use a program that is wrong on some examples, and mark the rows to trust."),
    ] = False,
    store_url: options.StoreUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Apply the best program of a run to every row of a table.

    A program that is wrong on a training or held-out row is refused. --anyway applies it and adds a column
    that marks the rows to trust: those that resemble examples on which the program is mostly right.

    Three lists are printed: rows on which the program failed, rows with a filled cell that differs from the
    program's result (the cell is kept), and rows that resemble no example. Rows are numbered from 1, without
    the header. Exit code 1: some rows failed.

    [dim]Example:[/dim]  evovpo apply latest names.csv --column short -o out.csv
    """
    from rich.progress import Progress

    from evovpo.problem.examples import same_value
    from evovpo.problem.importers import tables
    from evovpo.runs.apply import run_rows
    from evovpo.runs.stored import example_rows, find_run, stored_run, to_run

    with open_store(store_url) as store:
        view = stored_run(store, find_run(store, run))
        problem, config = to_run(view, store.name)
        is_refused = not (anyway or view.outcome(0.0).is_right)
        alike = [row for row in store.runs() if row.problem == view.problem.id] if is_refused else []
    if view.best is None or not view.problem.entry or view.problem.evaluator is not None:
        raise ProblemError(f"run {view.run.id}: expected a best program that is a function, found none")
    outcome = view.outcome(0.0)
    is_right = outcome.is_right
    if not is_right and not anyway:
        right_ones = [row.run for row in alike if row.ending == "solved"]
        more = f" -n {2 * view.run.evaluations}" * view.run.status.is_finished
        raise ProblemError(_refusal(outcome, more, right_ones))
    rows = tables.read_table(table)
    if out.exists() and out.samefile(table):
        raise ProblemError(f"{out}: expected another file than the table itself; give one with -o")
    try:
        arguments = tables.arguments_of(rows, tables.texts_of(view.problem))
        forms = tables.new_forms(view.problem, rows, column)
        right = {tuple(one.inputs): one.passed for one in example_rows(view.problem, view.evaluation)}
    except ValueError as error:
        raise ProblemError(f"{table}: {error}") from error
    mark, doubtful, new = f"{column} trusted", 0, {*chain(*forms.values())}
    changed = _cells_to_change(rows, column, None if is_right else mark)
    replaced = " (in place of the file that was there)" * out.exists()
    failed: list[dict[str, Any]] = []
    different: list[dict[str, Any]] = []
    with writing(out) as file, Progress(console=console(stderr=True), transient=True) as progress:
        bar = progress.add_task("rows", total=len(rows))
        found = run_rows(problem, view.best, config, arguments, lambda n: progress.advance(bar, n))
        done = list(zip(rows, arguments, found, strict=True))
        for row, values, (value, _) in done:
            if (before := row.get(column)) not in (None, ""):
                right[tuple(values)] = value == before or same_value(value, tables.cell_value(before))
        lead: Counter[str] = Counter()  # right rows minus wrong rows of each form
        for inputs, agrees in right.items():
            lead[tables.form_of(inputs)] += 1 if agrees else -1
        for number, (row, values, (value, reason)) in enumerate(done, start=1):
            if tables.is_sum(row):
                row |= {name: row.get(name, "") for name in changed}
                continue
            before = row.get(column)
            row[column] = value if before in (None, "") else before
            is_other = before not in (None, "", value) and not same_value(value, tables.cell_value(before))
            if reason is not None:
                failed.append({"row": number, "error": reason})
            elif is_other:
                different.append({"row": number, "given": before, "found": value})
            if not is_right:
                is_like = lead[tables.form_of(values)] > 0 and number not in new
                is_trusted = is_like and reason is None and not is_other
                row[mark] = "yes" if is_trusted else "no"
                doubtful += not is_trusted
        tables.write_rows(file, out, table, rows, changed)
    if as_json:
        counts = {"rows": len(rows), "failed": len(failed), "different": len(different), "doubtful": doubtful}
        lists = {"failures": failed, "differences": different, "new_forms": forms}
        print_json({"run": view.run.id, **counts, "out": out, **lists})
    else:
        say(
            f"{out}{replaced}: run {view.run.id} of {view.problem.id}; rows: {len(rows)}, "
            f"failed: {len(failed)}, filled cells that differ (kept): {len(different)}"
        )
        if not is_right:
            say(f"  not to be trusted ({mark!r} is no): {doubtful}")
        _say_first(failed)
        _say_first(different)
        say_new_forms(forms, column)
    if failed:
        leave(Exit.SOME_FAILED)
