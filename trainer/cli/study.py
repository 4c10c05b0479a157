"""The command `evovpo study`: wiring and progress only."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evovpo.cli import options
from evovpo.cli.options import argument, option
from evovpo.cli.page import Serve, page_beside
from evovpo.cli.terminal import Exit, console, leave, print_json, say, show_answer
from evovpo.errors import ConfigError, EvovpoError, StoreError, nearest_hint
from trainer.cli.policies import check_installed

if TYPE_CHECKING:
    from evovpo.experiments.pool import Failed
    from trainer.experiments.export import Export
    from trainer.experiments.records import Study

_OF_ANY = ("target", "work", "report_only", "processes", "executor", "serve", "as_json")
"""Options that go with a file too; it says all others itself."""
_KEYS = {
    "model": "start", "seeds": "seeds", "tokens": "training.tokens", "prompts": "training.prompts",
    "learning_rates": "tuning.learning_rates", "kls": "tuning.kls", "validation_tasks": "tuning.tasks",
    "test_tasks": "test.tasks",
}  # fmt: skip
"""What options of a bundled study change in its file."""


def study(
    context: typer.Context,
    target: Annotated[
        str,
        argument(
            "FILE|DOMAIN",
            "A study file, or a domain to compare objectives on: [bold]strings[/bold], generated tasks "
            "whose examples conflict, [bold]maze[/bold], the maze of the VPO paper, or "
            "[bold]maze-conflict[/bold], the same mazes for gold and diamonds alone.",
        ),
    ],
    work: Annotated[
        Path | None, option("FOLDER", "Keeps models and the store.", default="work, beside the report")
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Write the report from the rows at hand and run nothing.")
    ] = False,
    out: Annotated[Path, option("FOLDER", "Of a domain: keeps rows, tables and pictures.")] = Path("study"),
    model: Annotated[
        Path | None,
        option("FOLDER", "Start model of all arms instead of the domain's own.", resolve_path=True),
    ] = None,
    tokens: Annotated[int | None, option("N", "Tokens that every training generates.", min=1)] = None,
    prompts: Annotated[int | None, option("P", "Prompts in a training step.", min=1)] = None,
    seeds: Annotated[int | None, option("N", "Trainings of each tuned arm.", min=1)] = None,
    learning_rates: Annotated[str | None, option("A,B,...", "Learning rates of the grid.")] = None,
    kls: Annotated[str | None, option("A,B,...", "KL coefficients of the grid.")] = None,
    arms: Annotated[
        str | None,
        option(
            "A,B,...",
            "Only these arms.  Further ones: vpo-mixed, vpo-reuse.",
            default="the objectives",
        ),
    ] = None,
    validation_tasks: Annotated[int | None, option("N", "Tasks to tune on.", min=2)] = None,
    test_tasks: Annotated[int | None, option("N", "Tasks to report on.", min=2)] = None,
    largest_k: Annotated[int | None, option("K", "Answers measured on a test task.", min=1)] = None,
    processes: Annotated[
        int | None,
        option("N", "Trainings and searches at a time.", min=1, default="2; the cores of a cluster"),
    ] = None,
    executor: options.Executor = None,
    serve: Serve = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare trained proposers at equal tokens and equal evaluations, each tuned alike.

    A study FILE names arms and search strategies: arms are tuned on validation tasks, trained under several
    seeds, and searched with; the report and a verdict lie beside the file (docs/studies.md).
    A DOMAIN is a study that comes with the package: it compares objectives on held-out tasks without a
    search; its options are --out and those below it, by default as its file says.
    Stopped at any time, the same command goes on.

    [dim]Examples:[/dim]  evovpo study study.toml
               evovpo study study.toml --report-only --json
               evovpo study strings --out study-strings
    """
    from rich.markdown import Markdown

    from trainer.experiments.export import Export
    from trainer.experiments.records import store_url
    from trainer.experiments.results import summarise
    from trainer.experiments.study_file import read_study
    from trainer.reports.study_report import report_json, report_record, write_report

    if target.endswith(".toml"):
        _refuse_others(context)
        folder = work or Path(target).parent / "work"
        found = read_study(Path(target), runs=not report_only, work=None if report_only else folder)
    else:
        folder = work or out / "work"
        found = _bundled(target, out, context.params)
    export = Export(found.folder / "export")
    beside = page_beside(store_url(folder), partial(report_record, found)) if serve else nullcontext()
    with beside:
        failures = [] if report_only else _run(found, export, folder, processes, executor)
    with console(stderr=True).status("resampling rows for intervals"):
        results = summarise(found, export)
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


def _run(
    found: Study, export: Export, work: Path, processes: int | None, executor: str | None
) -> Sequence[Failed]:
    """Run what is missing, with a bar; return the searches that failed."""
    check_installed()
    from evovpo.experiments.cluster import on_cluster
    from trainer.cli.progress import WorkBar
    from trainer.experiments.records import store_url
    from trainer.experiments.run import check, run_study

    processes = processes or (2 if executor in (None, "local") else sys.maxsize)
    check(found, work)
    with on_cluster(executor, store_url(work)), WorkBar() as bar:
        try:
            return run_study(found, export, work, processes, bar.show)
        except KeyboardInterrupt:
            leave(Exit.STOPPED, "Stopped. Finished rows are kept; the same command goes on.")
        except (EvovpoError, OSError) as error:
            say("The study stopped. Finished rows are kept; the same command goes on.", stderr=True)
            if isinstance(error, StoreError):
                leave(Exit.CUT_OFF, f"error: {error}")
            raise


def _bundled(name: str, out: Path, given: dict[str, Any]) -> Study:
    from trainer.experiments.study_file import bundled_studies, read_bundled

    if name not in bundled_studies():
        hint = nearest_hint(name, bundled_studies())
        raise ConfigError(f"{name!r} is neither a study file (*.toml) nor a domain; {hint}")
    changes = {key: given[named] for named, key in _KEYS.items() if given[named] is not None}
    for named in ("learning_rates", "kls"):
        if given[named] is not None:
            changes[_KEYS[named]] = _numbers("--" + named.replace("_", "-"), given[named])
    if given["model"] is not None:
        changes["start"] = str(given["model"])
    arms = None if given["arms"] is None else given["arms"].split(",")
    return read_bundled(name, out, changes, arms, given["largest_k"])


def _refuse_others(context: typer.Context) -> None:
    """Raise `ConfigError` for an option that a study file has as a key."""
    given = [
        parameter
        for parameter in context.params
        if parameter not in _OF_ANY and str(context.get_parameter_source(parameter)).endswith("COMMANDLINE")
    ]
    if given:
        options = ", ".join("--" + parameter.replace("_", "-") for parameter in given)
        raise ConfigError(f"{options}: a study file says this itself; change it there")


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"{option}: expected numbers with commas between them, found {text!r}") from error
