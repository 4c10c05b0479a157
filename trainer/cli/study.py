"""The command `evovpo study`: wiring and progress only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evovpo.cli.terminal import CUT_OFF, STOPPED, AsJson, console, fail, print_json, say, show_answer
from trainer.cli.options import check_installed

if TYPE_CHECKING:
    from evovpo.experiments.pool import Failed
    from trainer.experiments.export import Export
    from trainer.experiments.records import Study

_SOME_FAILED = 1
"""Exit code when searches failed and the others did not."""
_OF_ANY = ("target", "work", "report_only", "processes", "as_json")
"""Options that go with a file too; it says all others itself."""
_KEYS = {
    "model": "start", "seeds": "seeds", "tokens": "training.tokens", "prompts": "training.prompts",
    "learning_rates": "tuning.learning_rates", "kls": "tuning.kls", "validation_tasks": "tuning.tasks",
    "test_tasks": "test.tasks",
}  # fmt: skip
"""What options of a bundled study change in its file."""


def _changes(help_text: str, metavar: str = "N", least: int | None = 1) -> Any:
    return typer.Option(min=least, metavar=metavar, help=help_text, show_default=False)


def study(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|DOMAIN",
            help="A study file, or a domain to compare objectives on: [bold]strings[/bold], generated tasks "
            "whose examples conflict, or [bold]maze[/bold], the maze of the VPO paper.",
        ),
    ],
    work: Annotated[
        Path | None,
        typer.Option(
            "--work",
            metavar="FOLDER",
            help="Keeps models and the store.  [dim]\\[default: work, beside the report][/dim]",
            show_default=False,
        ),
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Write the report from the rows at hand and run nothing.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Of a domain: keeps rows, tables and pictures.")
    ] = Path("study"),
    model: Annotated[
        Path | None, _changes("Start model of all arms instead of the domain's own.", "FOLDER", None)
    ] = None,
    tokens: Annotated[int | None, _changes("Tokens that every training generates.")] = None,
    prompts: Annotated[int | None, _changes("Prompts in a training step.", "P")] = None,
    seeds: Annotated[int | None, _changes("Trainings of each tuned arm.")] = None,
    learning_rates: Annotated[str | None, _changes("Learning rates of the grid.", "A,B,...", None)] = None,
    kls: Annotated[str | None, _changes("KL coefficients of the grid.", "A,B,...", None)] = None,
    arms: Annotated[
        str | None,
        _changes(
            "Only these arms.  Further ones: grpo-entropy, vpo-entropy, vpo-mixed, vpo-at-c-mixed, "
            "vpo-reuse.  [dim]\\[default: the six objectives][/dim]",
            "A,B,...",
            None,
        ),
    ] = None,
    validation_tasks: Annotated[int | None, _changes("Tasks to tune on.", least=2)] = None,
    test_tasks: Annotated[int | None, _changes("Tasks to report on.", least=2)] = None,
    largest_k: Annotated[int | None, _changes("Answers measured on a test task.", "K")] = None,
    processes: Annotated[int, typer.Option(min=1, metavar="N", help="Trainings at a time.")] = 2,
    as_json: AsJson = False,
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
    from trainer.experiments.results import summarise
    from trainer.experiments.study_file import read_study
    from trainer.reports.study_report import report_json, write_report

    if target.endswith(".toml"):
        _refuse_others(context)
        folder = work or Path(target).parent / "work"
        found = read_study(Path(target), runs=not report_only, work=None if report_only else folder)
    else:
        folder = work or out / "work"
        found = _bundled(target, out, context.params)
    export = Export(found.folder / "export")
    failures = [] if report_only else _run(found, export, folder, processes)
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
        say(f"{len(failures)} searches failed; the same command tries them again.", stderr=True)
        raise typer.Exit(_SOME_FAILED)


def _run(found: Study, export: Export, work: Path, processes: int) -> Sequence[Failed]:
    """Run what is missing, with a bar; return the searches that failed."""
    check_installed()
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from evovpo.errors import EvovpoError, StoreError
    from trainer.experiments.run import Stage, check, run_study

    check(found, work)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True)) as bar:
        shown = bar.add_task(f"study {found.name}", total=None)

        def on_stage(stage: Stage) -> None:
            bar.update(shown, description=stage.name, completed=stage.done, total=stage.total or None)

        try:
            return run_study(found, export, work, processes, on_stage)
        except KeyboardInterrupt:
            say("Stopped. Finished rows are kept; the same command goes on.", stderr=True)
            raise typer.Exit(STOPPED) from None
        except (EvovpoError, OSError) as error:
            say("The study stopped. Finished rows are kept; the same command goes on.", stderr=True)
            if isinstance(error, StoreError):
                fail(error, CUT_OFF)
            raise


def _bundled(name: str, out: Path, given: dict[str, Any]) -> Study:
    """Return a study that comes with the package, with what options change."""
    from evovpo.errors import ConfigError, nearest_hint
    from trainer.experiments.study_file import bundled_studies, read_bundled

    if name not in bundled_studies():
        hint = nearest_hint(name, bundled_studies())
        raise ConfigError(f"{name!r} is neither a study file (*.toml) nor a domain; {hint}")
    changes = {key: given[option] for option, key in _KEYS.items() if given[option] is not None}
    for option in ("learning_rates", "kls"):
        if given[option] is not None:
            changes[_KEYS[option]] = _numbers("--" + option.replace("_", "-"), given[option])
    if given["model"] is not None:
        changes["start"] = str(given["model"].resolve())
    arms = None if given["arms"] is None else given["arms"].split(",")
    return read_bundled(name, out, changes, arms, given["largest_k"])


def _refuse_others(context: typer.Context) -> None:
    """Raise `ConfigError` for an option that a study file has as a key."""
    from evovpo.errors import ConfigError

    given = [
        parameter
        for parameter in context.params
        if parameter not in _OF_ANY and str(context.get_parameter_source(parameter)).endswith("COMMANDLINE")
    ]
    if given:
        options = ", ".join("--" + parameter.replace("_", "-") for parameter in given)
        raise ConfigError(f"{options}: a study file says this itself; change it there")


def _numbers(option: str, text: str) -> list[float]:
    from evovpo.errors import ConfigError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"{option}: expected numbers with commas between them, found {text!r}") from error
