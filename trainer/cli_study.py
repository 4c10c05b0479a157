"""The command that compares objectives, mounted by `trainer/cli.py`: wiring and progress only."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evovpo.terminal import STOPPED, AsJson, console, print_json, say, show_answer
from trainer.cli_options import check_installed


class DomainName(StrEnum):
    """What a study trains on."""

    STRINGS = "strings"
    MAZE = "maze"


def study(
    domain: Annotated[
        DomainName,
        typer.Argument(
            help="[bold]strings[/bold]: generated tasks whose examples conflict; [bold]maze[/bold]: the maze "
            "of the VPO paper.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Keeps every training, tables and pictures.")
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
    """Compare training objectives, each tuned alike, at equal generated tokens on held-out tasks.

    Learning rate and KL of each arm are chosen from one grid on validation tasks.
    Then it is trained anew under other seeds and measured on test tasks.
    Stopped at any time, the same command goes on; two hours or so on two cores.

    [dim]Example:[/dim]  evovpo study strings --out study-strings
    """
    check_installed()
    from rich.markdown import Markdown
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from evovpo.errors import ConfigError, nearest_hint
    from trainer.arms import TrainingBudget
    from trainer.study import ARMS, KS, VARIANTS, StudySettings, run_study
    from trainer.study_report import report_markdown, write_pictures

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
        work = bar.add_task(f"study of {domain}", total=None)
        try:
            results = run_study(
                domain,
                out,
                settings,
                [known[name] for name in wanted],
                processes,
                on_job=lambda name, done, total: bar.update(
                    work, description=name, completed=done, total=total
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


def _numbers(option: str, text: str) -> tuple[float, ...]:
    from evovpo.errors import ConfigError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"{option}: expected numbers with commas between them, found {text!r}") from error
