"""The command `evovpo study`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evovpo.cli import options
from evovpo.cli.options import argument, option
from evovpo.cli.terminal import Exit, console, leave, print_json, say, show_answer
from evovpo.errors import ConfigError, EvovpoError, StoreError, nearest_hint
from evovpo.files import write_errors
from trainer.cli.policies import check_installed
from trainer.cli.train import settings_of

if TYPE_CHECKING:
    from evovpo.experiments.pool import FailedTask
    from trainer.experiments.study import Study
    from trainer.experiments.study_export import Export

_OF_ANY = ("target", "work", "report_only", "processes", "executor", "as_json")
_OF_A_RECIPE = ("target", "out", "model", "seeds", "arms", "changes", "dry_run", "report_only", "as_json")


def study(
    context: typer.Context,
    target: Annotated[
        str,
        argument(
            "FILE|DOMAIN",
            "A study file, a recipe (a file, or [bold]paper/NAME[/bold] of docs/reproduce.md), or a domain: "
            "[bold]strings[/bold] (generated tasks with conflicting examples), [bold]maze[/bold] (the mazes "
            "of the VPO paper) or [bold]maze-conflict[/bold] (with only gold and diamonds as rewards).",
        ),
    ],
    work: Annotated[
        Path | None, option("FOLDER", "Folder of models and the store.", default="work, next to the report")
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Only write the report of the stored results.")
    ] = False,
    out: Annotated[Path, option("FOLDER", "For a domain or recipe: folder of the results.")] = Path("study"),
    model: Annotated[
        str | None,
        option("FOLDER", "Start model of all arms; for a recipe also a hub name."),
    ] = None,
    seeds: Annotated[int | None, option("N", "Trainings per tuned arm.", min=1)] = None,
    arms: Annotated[
        str | None,
        option("A,B,...", "Arms to run.", default="all"),
    ] = None,
    processes: Annotated[
        int | None,
        option("N", "Parallel trainings and searches.", min=1, default="2; on a cluster its number of cores"),
    ] = None,
    executor: options.Executor = None,
    changes: Annotated[
        list[str] | None,
        option(
            "KEY=VALUE",
            "For a domain or recipe: change a key of its file, such as training.tokens or settings.k.",
            "--set",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="For a recipe: only show the largest possible cost.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare training objectives at equal budgets of tokens and evaluations.

    A study FILE lists arms and search strategies. Each arm is tuned on validation tasks, trained with
    several seeds, and used in searches; the report is written next to the file (docs/studies.md).
    A recipe FILE trains any model on a domain with several objectives and prints a table.
    For a DOMAIN, a bundled study compares objectives on held-out tasks without a search.
    After Ctrl-C or a crash the same command continues.

    [dim]Examples:[/dim]  evovpo study study.toml
               evovpo study study.toml --report-only --json
               evovpo study strings --out study-strings --set training.tokens=60000
               evovpo study paper/musique --model Qwen/Qwen3-1.7B --dry-run
    """
    from rich.markdown import Markdown

    from trainer.experiments.recipe import find_recipe

    given, only = settings_of(changes), None if arms is None else arms.split(",")
    if (recipe := find_recipe(target)) is not None:
        given |= {key: value for key, value in (("model", model), ("seeds", seeds)) if value}
        _refuse_others(context, _OF_A_RECIPE)
        _recipe(recipe, given, only, out, dry_run=dry_run, report_only=report_only, as_json=as_json)
        return
    if dry_run:
        raise ConfigError(f"--dry-run is for recipes (docs/reproduce.md), and {target} is not one")
    from trainer.experiments.study_export import Export
    from trainer.experiments.study_file import bundled_studies, read_bundled, read_study
    from trainer.experiments.study_results import StudyResults
    from trainer.reports.study_report import report_json, write_report

    if target.endswith(".toml"):
        _refuse_others(context, _OF_ANY)
        folder = work or Path(target).parent / "work"
        found = read_study(Path(target), runs=not report_only, work=None if report_only else folder)
    else:
        if target not in bundled_studies():
            hint = nearest_hint(target, bundled_studies())
            raise ConfigError(f"{target!r} is neither a study file (*.toml) nor a domain; {hint}")
        folder = work or out / "work"
        start = {} if model is None else {"start": str(Path(model).resolve())}
        found = read_bundled(target, out, given | start | ({} if seeds is None else {"seeds": seeds}), only)
    export = Export(found.folder / "export")
    failures = [] if report_only else _run(found, export, folder, processes, executor)
    with console(stderr=True).status("resampling rows for intervals"):
        results = StudyResults(found, export)
        text, files = write_report(results)
    if as_json:
        print_json(report_json(results))
    else:
        show_answer(Markdown(text))
        say(f"Report, pictures and figures: {', '.join(str(file) for file in files)}")
    for one in failures:
        say(f"failed: run {one.name}: {one.reason}", stderr=True)
        say(f"  evovpo show {one.name} --store {folder / 'study.db'}", stderr=True)
    if failures:
        leave(Exit.SOME_FAILED, f"{len(failures)} searches failed; the same command tries them again.")


def _recipe(
    path: Path,
    given: dict[str, Any],
    only: list[str] | None,
    out: Path,
    *,
    dry_run: bool,
    report_only: bool,
    as_json: bool,
) -> None:
    from rich.markdown import Markdown

    from trainer.experiments.recipe import cost_of, read_recipe, rows_of, run_recipe, table_of

    recipe = read_recipe(path, given, only)
    if dry_run:
        costs = cost_of(recipe)
        if as_json:
            print_json(costs)
            return
        for one in costs:
            hours = "" if one["gpu_hours"] is None else f", about {one['gpu_hours']:.0f} GPU hours"
            memory = f", {one['memory_bytes'] / 2**30:.0f} GiB a GPU" if one["memory_bytes"] else ""
            say(f"{one['arm']}: at most {one['tokens']:,} completion tokens{hours}{memory}")
        return
    check_installed()
    from evovpo.reports.live import WorkBar
    from trainer.cli.progress import quiet

    if not report_only:
        bar = WorkBar()

        def told(name: str, done: int, total: int, figures: str) -> None:
            bar.show(name, done, total, figures) if total else bar.line(name)

        try:
            with bar, quiet():
                run_recipe(recipe, out, told)
        except KeyboardInterrupt:
            leave(Exit.STOPPED, "Stopped. The same command continues from the last checkpoint.")
    rows = rows_of(recipe, out)
    text = table_of(recipe, rows)
    with write_errors(f"{out}:"):
        (out / "report.md").write_text(text, encoding="utf-8")
    if as_json:
        print_json({"name": recipe.name, "rows": rows})
        return
    show_answer(Markdown(text))
    say(f"Written to {out / 'report.md'}")


def _run(
    found: Study, export: Export, work: Path, processes: int | None, executor: str | None
) -> Sequence[FailedTask]:
    check_installed()
    from evovpo.experiments.cluster import on_cluster
    from evovpo.reports.live import WorkBar
    from trainer.experiments.study import store_url
    from trainer.experiments.study_run import check, run_study

    processes = processes or (2 if executor in (None, "local") else sys.maxsize)
    check(found, work)
    with on_cluster(executor, store_url(work)), WorkBar() as bar:
        try:
            return run_study(found, export, work, processes, bar.show)
        except KeyboardInterrupt:
            leave(Exit.STOPPED, "Stopped. Finished rows are kept; the same command continues.")
        except (EvovpoError, OSError) as error:
            say("The study stopped. Finished rows are kept; the same command continues.", stderr=True)
            if isinstance(error, StoreError):
                leave(Exit.CUT_OFF, f"error: {error}")
            raise


def _refuse_others(context: typer.Context, allowed: Sequence[str]) -> None:
    given = [
        parameter
        for parameter in context.params
        if parameter not in allowed and str(context.get_parameter_source(parameter)).endswith("COMMANDLINE")
    ]
    if given:
        names = {"changes": "set"}
        options = ", ".join("--" + names.get(one, one).replace("_", "-") for one in given)
        raise ConfigError(
            f"{options}: the file says this itself; change it there, or a recipe's key with --set"
        )
