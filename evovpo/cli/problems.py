"""The commands on problems: list, create, check and import them."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from evovpo.cli import options
from evovpo.cli.options import argument, flag, option, settings
from evovpo.cli.terminal import Exit, granting, leave, open_store, print_json, say, show_answer, shown_opening
from evovpo.errors import ConfigError

if TYPE_CHECKING:
    from evovpo.runs.request import RunRequest

app = typer.Typer()


@app.command("problems", rich_help_panel="Problems")
def list_problems(
    suite: Annotated[
        str | None, argument("[SUITE]", "Suite: bundled name, folder or file.", "all of them")
    ] = None,
) -> None:
    """List the bundled suites of problems, or the problems of one suite.

    [dim]Examples:[/dim]  evovpo problems
               evovpo problems strings
    """
    from evovpo.problem.folder import load_problem
    from evovpo.problem.suites import bundled_suites, load_suite
    from evovpo.reports.runs_table import problems_table
    from evovpo.reports.text import plain_table, right

    if suite is None:
        rows = [(name, len(load_suite(name)), about) for name, about in bundled_suites().items()]
        table = plain_table("suite", right("problems"), "what they are")
        for name, count, about in rows:
            table.add_row(name, str(count), about)
        show_answer(table)
        say("\nThe problems of a suite:  evovpo problems strings")
        return
    entries = load_suite(suite)
    problems = [load_problem(entry.path) for entry in entries]
    show_answer(problems_table(problems))
    # The problem with the lowest difficulty, because a first try should succeed.
    easiest = min(range(len(entries)), key=lambda index: entries[index].difficulty or 0.0)
    server = "" if problems[easiest].is_by_example else " --base-url URL --model NAME"
    say(f"\nrows: training + held-out examples.  Try one:  evovpo evolve {problems[easiest].id}{server}")


@app.command("new", rich_help_panel="Problems")
def new(
    name: Annotated[Path, argument("NAME", "Folder to create.")],
    kind: Annotated[
        Literal["examples", "score"],
        typer.Option(
            help="Judge programs by [bold]examples[/bold] of inputs and outputs, or by a "
            "[bold]score[/bold] that your Python file computes from a program's outputs. The built-in "
            "model cannot write programs for a score; a model behind a server can."
        ),
    ] = "examples",
    table: Annotated[
        Path | None, option("TABLE", "Read the examples from a CSV, Excel or JSON Lines file.", "--from")
    ] = None,
    output: options.OutputColumn = None,
    columns: options.InputColumns = None,
) -> None:
    """Create a problem folder to edit, from a small example or from a table.

    [dim]Examples:[/dim]
    evovpo new invoices && evovpo check invoices && evovpo evolve invoices
    evovpo new names --from names.xlsx --output short
    """
    from evovpo.problem.importers.tables import write_table
    from evovpo.problem.suites import new_problem
    from evovpo.sandbox.openings import split_words

    if (table is None and (output or columns)) or (kind == "score" and table is not None):
        raise ConfigError(
            "expected --from TABLE with --output and --columns, and without --kind score; change one of them"
        )
    if table is None:
        folder = new_problem(name, kind)
    else:
        folder, said = write_table(table, output, split_words(columns or ""), name)
        say(said)
    files = ", ".join(sorted(path.name for path in folder.iterdir()))
    say(f"{folder} is ready: {files}")
    path = shlex.quote(str(name))
    say(f"Change the files to your problem, then see what is wrong with them:  evovpo check {path}")
    if kind == "score":
        say(f"With an instruction model behind a server:  evovpo evolve {path} --base-url URL --model NAME")


@app.command("check", rich_help_panel="Problems")
def check(
    path: Annotated[
        str | None,
        argument(
            "PATH",
            "Folder of a problem or of an OpenEvolve project, a table, or the name of a bundled problem.",
        ),
    ] = None,
    evaluator: options.EvaluatorFile = None,
    prompts: Annotated[bool, flag("--prompts", "Only show the prompts that a run would send first.")] = False,
    write_prompts: Annotated[
        Path | None, option("FOLDER", "Write the prompt templates to this folder, for editing.")
    ] = None,
    bounds: Annotated[
        str | None,
        option(
            "RUN", "Print a metrics.toml with the range of every metric in this run of an OpenEvolve project."
        ),
    ] = None,
    store_url: options.StoreUrl = None,
    config_file: options.ConfigFile = None,
    overrides: options.Overrides = None,
    allow: options.Allow = None,
    output: options.OutputColumn = None,
    columns: options.InputColumns = None,
    model: options.ModelName = None,
    base_url: options.BaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Check a problem folder and run its starting programs.

    For an OpenEvolve project it also explains the effect of each key of its config.yaml, and exits with 3 if
    the initial program fails.

    [dim]Examples:[/dim]
    evovpo check invoices
    evovpo check strings/phone-with-hyphens --prompts --set prompt.style=rewrite
    evovpo check --bounds latest > circle_packing/metrics.toml
    """
    if write_prompts is not None:
        from evovpo.prompts.templates import write_templates

        files = write_templates(write_prompts)
        say(f"{write_prompts} holds {len(files)} templates; delete those that you do not change.")
        say(f"To use the others:  --set prompt.templates={write_prompts.resolve()}")
    if bounds is not None:
        from evovpo.reports.runs_table import bounds_text
        from evovpo.runs.stored import find_run

        with open_store(store_url) as store:
            say(bounds_text(store, find_run(store, bounds)).rstrip("\n"))
    if path is None:
        if write_prompts is None and bounds is None:
            raise ConfigError("expected PATH, --write-prompts FOLDER or --bounds RUN, found none; name one")
        return
    from evovpo.builtin.strings.format import expression_fault
    from evovpo.config import Config
    from evovpo.errors import InitialProgramError
    from evovpo.judging.check import check_problem, check_project
    from evovpo.reports.runs_table import check_json, check_view, settings_table
    from evovpo.runs.request import is_yaml, open_request
    from evovpo.trust import asked_for

    words, initial_program = [path], None
    if evaluator is not None:
        initial_program, path = path, str(evaluator)
        words = [initial_program, os.path.relpath(evaluator)]
    server = {"proposer.base_url": base_url, "proposer.model": model}
    program = {"evaluator.initial_program": initial_program}
    changes = settings(overrides, {"store.url": store_url, **server, **program})
    if prompts:
        _show_prompts(open_request(path, config_file, changes, allow or (), output, columns, is_run=False))
        return
    try:
        named = granting(
            lambda words: shown_opening(
                path, lambda: open_request(path, config_file, changes, words, output, columns, is_run=False)
            ),
            allow,
        )
    except InitialProgramError as error:
        if as_json:
            about = {"id": Path(path).resolve().name, "objectives": []}
            print_json({"usable": False, "initial": error.metrics, "problem": about, "feedback": str(error)})
        raise
    if named.project is None:
        report = check_problem(str(named.problem.folder), named.config)
        for remark in (one for one in named.remarks if one not in report.warnings):
            say(f"note: {remark}", stderr=True)
    else:
        report = check_project(named.project, named.config)
        if named.project.settings.keys and not as_json:
            show_answer(settings_table(named.project.settings))
    if as_json:
        print_json(check_json(report))
    else:
        show_answer(check_view(report))
    if report.fault:
        leave(Exit.NOTHING_EVALUATED, f"error: not usable: {report.fault}")
    if as_json:
        return
    needs_server = named.config.proposer.name != "openai" and (
        report.problem.evaluator is not None or expression_fault(report.problem)
    )
    granted = asked_for(Config.load(None if is_yaml(config_file) else config_file, changes))
    asked = () if named.project is None else asked_for(named.config)
    named_by_yaml = ("server=", "key=") if is_yaml(config_file) else ()
    wanted = [word for word in asked if word not in granted and not word.startswith(named_by_yaml)]
    given = [("output", output), ("columns", columns), ("base-url", base_url), ("model", model)]
    given += [("config", str(config_file or "")), *(("set", one) for one in overrides or ())]
    chosen = "".join(f" --{name} {shlex.quote(value)}" for name, value in given if value)
    chosen += "".join(f" --allow {shlex.quote(word)}" for word in wanted)
    missing = " --base-url URL --model NAME" * bool(needs_server)
    say(f"\nNext:  evovpo evolve {shlex.join(words)}{chosen}{missing}")


def _show_prompts(named: RunRequest) -> None:
    from evovpo.runs.choices import example_prompts

    for kind, messages in example_prompts(named.problem, named.config).items():
        for message in messages:
            say(f"----- {kind}, {message.role} -----\n{message.content}\n")


@app.command("import-tasks", rich_help_panel="Problems")
def import_tasks(
    benchmark: Annotated[Literal["livecodebench"], argument("BENCHMARK", "Format of the file.")],
    file: Annotated[Path, argument("FILE", "Your copy of the benchmark's file.")],
    out: Annotated[Path, option("FOLDER", "New folder for the suite.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Number of tasks to convert.")] = None,
) -> None:
    """Convert tasks of LiveCodeBench to a suite of problems; no code in the file is executed.

    [dim]Example:[/dim]  evovpo import-tasks livecodebench test6.jsonl --out lcb --limit 50
    """
    from evovpo.problem.folder import load_problem
    from evovpo.problem.importers.livecodebench import load_tasks
    from evovpo.problem.importers.problem_writer import write_suite

    written = write_suite(load_tasks(file, limit), benchmark, out)
    for folder in written.folders:
        load_problem(folder)
    reasons = Counter(task.reason for task in written.skipped)
    say(f"{out}: {len(written.folders)} problems, {written.tests} tests and {written.heldout} held-out ones")
    for reason, count in reasons.most_common():
        say(f"  {count} tasks skipped: {reason}")
    for reason, count in written.left_out.most_common():
        say(f"  {count} tests of the problems left out: {reason}")
    say(f"\nLook at one:  evovpo check {written.folders[0]}")
