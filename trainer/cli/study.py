"""The command that compares objectives, mounted by `trainer/cli/__init__.py`: wiring and progress only."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evovpo.cli.terminal import CUT_OFF, STOPPED, AsJson, console, fail, print_json, say, show_answer
from trainer.cli.options import check_installed

_SOME_FAILED = 1
"""Exit code when searches failed and the others did not."""


class DomainName(StrEnum):
    """What a study without a file trains on."""

    STRINGS = "strings"
    MAZE = "maze"


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
            help="Of a file: keeps models and the store.  [dim]\\[default: work, beside the file][/dim]",
            show_default=False,
        ),
    ] = None,
    report_only: Annotated[
        bool,
        typer.Option(
            "--report-only", help="Of a file: write the report from the rows at hand and run nothing."
        ),
    ] = False,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Of a domain: keeps trainings, tables and pictures."),
    ] = Path("study"),
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Start model of all arms instead of the domain's own.",
            show_default=False,
        ),
    ] = None,
    tokens: Annotated[
        int, typer.Option(min=1, metavar="N", help="Tokens that every training generates.")
    ] = 120_000,
    prompts: Annotated[int, typer.Option(min=1, metavar="P", help="Prompts in a training step.")] = 8,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Trainings of each tuned arm.")] = 3,
    learning_rates: Annotated[
        str, typer.Option(metavar="A,B,...", help="Learning rates of the grid.")
    ] = "1e-4,3e-4",
    kls: Annotated[str, typer.Option(metavar="A,B,...", help="KL coefficients of the grid.")] = "0,0.03,0.1",
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Only these arms.  Further ones: grpo-entropy, vpo-entropy, vpo-mixed, vpo-at-c-mixed, "
            "vpo-reuse.  [dim]\\[default: the six objectives][/dim]",
            show_default=False,
        ),
    ] = None,
    validation_tasks: Annotated[int, typer.Option(min=2, metavar="N", help="Tasks to tune on.")] = 60,
    test_tasks: Annotated[int, typer.Option(min=2, metavar="N", help="Tasks to report on.")] = 80,
    largest_k: Annotated[int, typer.Option(min=1, metavar="K", help="Answers measured on a test task.")] = 96,
    processes: Annotated[int, typer.Option(min=1, metavar="N", help="Trainings at a time.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Compare trained proposers at equal tokens and equal evaluations, each tuned alike.

    A study FILE names arms and search strategies: arms are tuned on validation tasks, trained under several
    seeds, and searched with; the report and a verdict lie beside the file (docs/studies.md).
    A DOMAIN compares objectives on held-out tasks without a search; its options are --out and those below it.
    Stopped at any time, the same command goes on.

    [dim]Examples:[/dim]  evovpo study study.toml
               evovpo study study.toml --report-only --json
               evovpo study strings --out study-strings
    """
    if target.endswith(".toml"):
        _refuse_others(context, ("target", "work", "report_only", "processes", "as_json"))
        _study_file(Path(target), work, report_only, processes, as_json)
        return
    domain = _domain(target)
    if work is not None or report_only:
        raise typer.BadParameter("--work and --report-only belong to a study file; leave them out")
    check_installed()
    from rich.markdown import Markdown
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from evovpo.errors import ConfigError, nearest_hint
    from trainer.experiments.arms import TrainingBudget
    from trainer.experiments.study import ARMS, KS, VARIANTS, StudySettings, run_study
    from trainer.reports.study_report import report_markdown, write_pictures

    wanted = [arm.name for arm in ARMS] if arms is None else arms.split(",")
    known = {arm.name: arm for arm in (*ARMS, *VARIANTS)}
    for name in wanted:
        if name not in known:
            raise ConfigError(f"--arms: unknown arm {name!r}; {nearest_hint(name, known)}")
    settings = StudySettings(
        budget=TrainingBudget(tokens, prompts),
        learning_rates=_numbers("--learning-rates", learning_rates),
        kls=_numbers("--kls", kls),
        seeds=seeds,
        validation_tasks=validation_tasks,
        test_tasks=test_tasks,
        start="" if model is None else str(model.resolve()),
        ks=(*(k for k in KS if k < largest_k), largest_k),
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True)) as bar:
        shown = bar.add_task(f"study of {domain}", total=None)
        try:
            results = run_study(
                domain,
                out,
                settings,
                [known[name] for name in wanted],
                processes,
                on_job=lambda name, done, total: bar.update(
                    shown, description=name, completed=done, total=total
                ),
            )
        except KeyboardInterrupt:
            say("Stopped. Finished trainings are kept; the same command goes on.", stderr=True)
            raise typer.Exit(STOPPED) from None
    text = report_markdown(results)
    (out / "report.md").write_text(text)
    pictures = write_pictures(out, results, domain)
    if as_json:
        print_json(results)
        return
    show_answer(Markdown(text))
    say(f"Tables and pictures: {', '.join(str(path) for path in [out / 'report.md', *pictures])}")


def _domain(name: str) -> DomainName:
    from evovpo.errors import ConfigError, nearest_hint

    try:
        return DomainName(name)
    except ValueError:
        hint = nearest_hint(name, [*DomainName])
        raise ConfigError(f"{name!r} is neither a study file (*.toml) nor a domain; {hint}") from None


def _refuse_others(context: typer.Context, known: Sequence[str]) -> None:
    """Raise `ConfigError` for an option that a study file has as a key."""
    from evovpo.errors import ConfigError

    given = [
        parameter
        for parameter in context.params
        if parameter not in known and str(context.get_parameter_source(parameter)).endswith("COMMANDLINE")
    ]
    if given:
        options = ", ".join("--" + parameter.replace("_", "-") for parameter in given)
        raise ConfigError(f"{options}: a study file says this itself; change it there")


def _study_file(path: Path, work: Path | None, report_only: bool, processes: int, as_json: bool) -> None:
    from rich.markdown import Markdown
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from evovpo.errors import EvovpoError, StoreError
    from trainer.experiments.export import Export
    from trainer.experiments.plan import read_study
    from trainer.experiments.results import summarise
    from trainer.reports.study_file import report_json, write_report

    folder = work or path.parent / "work"
    found = read_study(path, runs=not report_only, work=None if report_only else folder)
    export = Export(path.parent / "export")
    failures: Sequence[tuple[str, str]] = ()
    if not report_only:
        check_installed()
        from trainer.experiments.run import Stage, check, run_study_file

        check(found, folder)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console(stderr=True)) as bar:
            shown = bar.add_task(f"study {found.name}", total=None)

            def on_stage(stage: Stage) -> None:
                bar.update(shown, description=stage.name, completed=stage.done, total=stage.total or None)

            try:
                failures = run_study_file(found, export, folder, processes, on_stage)
            except KeyboardInterrupt:
                say("Stopped. Finished rows are kept; the same command goes on.", stderr=True)
                raise typer.Exit(STOPPED) from None
            except (EvovpoError, OSError) as error:
                say("The study stopped. Finished rows are kept; the same command goes on.", stderr=True)
                if isinstance(error, StoreError):
                    fail(error, CUT_OFF)
                raise
    with console(stderr=True).status("resampling rows for intervals"):
        results = summarise(found, export)
        text, files = write_report(found, results)
    if as_json:
        print_json(report_json(results))
    else:
        show_answer(Markdown(text))
        say(f"Report, pictures and figures: {', '.join(str(file) for file in files)}")
    for run, reason in failures:
        say(f"failed: run {run}: {reason}", stderr=True)
        say(f"  evovpo show {run} --store {folder / 'study.db'}", stderr=True)
    if failures:
        say(f"{len(failures)} searches failed; the same command tries them again.", stderr=True)
        raise typer.Exit(_SOME_FAILED)


def _numbers(option: str, text: str) -> tuple[float, ...]:
    from evovpo.errors import ConfigError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"{option}: expected numbers with commas between them, found {text!r}") from error
