"""The trainer's commands, mounted into `evovpo` by an entry point: wiring only.

Nothing heavy is imported here, so that `evovpo --help` stays instant; what the commands need comes with
`pip install 'evovpo[train]'`, and they say so where it is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evovpo.cli.terminal import (
    STOPPED,
    AsJson,
    Overrides,
    StoreUrl,
    console,
    open_store,
    print_json,
    say,
    show_answer,
    store_option,
)
from evovpo.errors import ConfigError
from trainer.cli.loop import loop
from trainer.cli.options import Objective, Policies, check_installed
from trainer.cli.study import study

if TYPE_CHECKING:
    from evovpo.proposers.server import PolicyServer
    from evovpo.types import TrainingStep
    from trainer.loop.training_plan import Plan

app = typer.Typer(rich_markup_mode="rich")
_PANEL = "Training"

TrainConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file; [bold]evovpo retrain --show-config[/bold] prints one to start from.",
    ),
]
Servers = Annotated[
    list[str] | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="A running vLLM that must offer the version before it is served, as [bold]MODEL@URL[/bold]: the "
        "name of its own weights and its address, which ends in /v1. May be given several times.",
    ),
]


@app.command("retrain", rich_help_panel=_PANEL)
def retrain(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN...",
            help="Ids of runs, their beginnings, or [bold]latest[/bold]: what to train on.",
            show_default=False,
        ),
    ] = None,
    objective: Objective = None,
    store_url: StoreUrl = None,
    policies: Policies = None,
    servers: Servers = None,
    config_file: TrainConfigFile = None,
    overrides: Overrides = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be trained on, and what not and why.")
    ] = False,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print all settings as a TOML file, and exit.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train the model on what searches logged, and serve the new version if it is not clearly worse.

    Ctrl-C or a crash loses nothing: the same command goes on from the last checkpoint.

    [dim]Examples:[/dim]

    evovpo retrain latest --dry-run

    evovpo retrain 3f2a 81c0 --objective vpo --set update.passes=2

    evovpo evolve invoices --set proposer.policy=served
    """
    from trainer.config import TrainConfig

    given = [] if objective is None else [f"objective.name={objective}"]
    config = TrainConfig.load(config_file, [*(overrides or ()), *given])
    if show_config:
        say(config.to_toml().rstrip("\n"))
        return
    if not runs:
        raise ConfigError("name the runs to train on: evovpo retrain latest; evovpo runs lists them all")
    check_installed()
    import time

    from transformers.utils import logging

    from evovpo.reports.report import find_run
    from trainer.loop import retrain as training
    from trainer.loop.training_plan import make_plan
    from trainer.reports.training import plan_line, plan_table, probe_table, steps_table

    logging.disable_progress_bar()  # one bar, ours, is enough
    began = time.monotonic()
    with open_store(store_url) as store:
        found = [find_run(store, run) for run in runs]
        if dry_run:
            plan = make_plan(store, found, config)
            if as_json:
                print_json(training.preview(plan, time.monotonic() - began)._asdict())
            else:
                show_answer(plan_table(plan))
                say(f"Would make {plan_line(plan)}.")
            return
        progress = _Progress(quiet_table=as_json)
        folder = policies or training.default_policies(store)
        try:
            with progress:
                result = training.retrain(
                    store,
                    found,
                    config,
                    policies=folder,
                    targets=_targets(servers),
                    watch=training.Watch(progress.planned, progress.stepped, progress.probed),
                )
        except KeyboardInterrupt:
            say("Stopped. The same command goes on from the last checkpoint.", stderr=True)
            raise typer.Exit(STOPPED) from None
        if as_json:
            print_json(result._asdict())
            return
        if progress.plan is not None:
            show_answer(steps_table(store.training_steps(progress.plan.training.id)))
        if isinstance(result.probe, dict):
            show_answer(probe_table(result.probe))
        served = store.served()
        number = result.policy_version
        if served is not None and served.number == number:
            option = store_option(store)
            say(f"Policy version {number} is served.")
            say(f"Search with it:      evovpo evolve PROBLEM --set proposer.policy=served{option}")
            say(f"Back to its parent:  evovpo rollback{option}")
        else:
            reason = [event.detail for event in store.policy_events() if event.number == number][-1]
            say(f"Policy version {number} is stored and not served. The last that was said of it: {reason}")
            say(f"Serve it all the same:  evovpo rollback {number}{store_option(store)}")


@app.command("policies", rich_help_panel=_PANEL)
def list_policies(store_url: StoreUrl = None, as_json: AsJson = False) -> None:
    """List the policy versions, and say which one searches follow.

    [dim]Example:[/dim]  evovpo policies
    """
    from trainer.reports.training import policies_json, policies_table

    with open_store(store_url) as store:
        rows = policies_json(
            store.policy_versions(), store.served(), store.trainings(), store.policy_events()
        )
    if as_json:
        print_json(rows)
    elif rows:
        show_answer(policies_table([row for row in rows if isinstance(row, dict)]))
    else:
        say("No policy versions yet. Make one from a run:  evovpo retrain latest")


@app.command("rollback", rich_help_panel=_PANEL)
def rollback(
    number: Annotated[
        int | None,
        typer.Argument(
            metavar="[VERSION]",
            min=0,
            help="The version to serve instead.  [dim]\\[default: the parent of the served one][/dim]",
            show_default=False,
        ),
    ] = None,
    servers: Servers = None,
    store_url: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Serve another policy version, by default the one before; searches that follow go on with it.

    [dim]Example:[/dim]  evovpo rollback
    """
    check_installed()
    from trainer.loop.publish import roll_back

    with open_store(store_url) as store:
        version = roll_back(store, number, _targets(servers))
    if as_json:
        print_json({"policy_version": version.number, "path": version.path})
    else:
        say(f"Policy version {version.number} is served.")


# ---------------------------------------------------------------- shared by the commands


def _targets(servers: list[str] | None) -> list[PolicyServer]:
    from evovpo.proposers.server import VLLMServer

    found: list[PolicyServer] = []
    for text in servers or ():
        model, at, url = text.partition("@")
        if not (model and at and url):
            raise ConfigError(
                f"--server {text!r}: expected MODEL@URL, for example strings@http://127.0.0.1:8000/v1"
            )
        found.append(VLLMServer(url, model))
    return found


class _Progress:
    """Shows the plan and a bar over the steps and the probe, on standard error."""

    def __init__(self, *, quiet_table: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.plan: Plan | None = None
        self._is_quiet = quiet_table
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=console(stderr=True),
            transient=True,
        )
        self._steps: Any = None
        self._probe: Any = None

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def planned(self, plan: Plan, done: int) -> None:
        """Show the plan; some steps may be done already."""
        from trainer.reports.training import plan_line, plan_table

        self.plan = plan
        if not self._is_quiet:
            show_answer(plan_table(plan))
        if plan.published is not None:
            say(f"This training was made before: policy version {plan.published.number}.", stderr=True)
        elif done:
            say(f"{plan_line(plan)}; {done} are done", stderr=True)
        else:
            say(plan_line(plan), stderr=True)
        self._steps = self._bar.add_task("training", total=len(plan.steps), completed=done, figures="")

    def stepped(self, step: TrainingStep) -> None:
        """Show a step's figures."""
        figures = f"set score {step.set_score:.3f}  KL {step.kl:.4f}  entropy {step.entropy:.3f}"
        self._bar.update(self._steps, advance=1, figures=figures)

    def probed(self, done: int, total: int) -> None:
        """Show how far the comparison with the parent is."""
        if self._probe is None:
            self._probe = self._bar.add_task("comparing with the parent", total=total, figures="")
        self._bar.update(self._probe, completed=done)


app.command("loop", rich_help_panel=_PANEL)(loop)
app.command("study", rich_help_panel=_PANEL)(study)
