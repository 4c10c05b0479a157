"""The commands `evovpo retrain`, `policies` and `rollback`, and shared options of the trainer's commands."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evovpo.cli import options
from evovpo.cli.options import argument, option, settings
from evovpo.cli.terminal import Exit, leave, open_store, print_json, say, show_answer, store_option
from evovpo.errors import ConfigError

if TYPE_CHECKING:
    from evovpo.proposers.policy_server import VLLMServer
    from trainer.loop.training_plan import TrainingPlan

_NEEDED = ("torch", "transformers", "peft")

Objective = Annotated[
    str | None, option("NAME", "Training objective: how rewards become advantages.", default="vpo-at-k")
]
Imitate = Annotated[
    int | None,
    option(
        "0|1", "1: imitate the best programs of the runs; 0: learn from rewards.", min=0, max=1, default="0"
    ),
]
Policies = Annotated[
    Path | None, option("FOLDER", "Folder of the policy versions.", default="policies, next to the database")
]
Servers = Annotated[
    list[str] | None,
    option(
        "URL",
        "Load the version into this vLLM server, given as [bold]MODEL@URL[/bold] (name of its base model, "
        "address ending in /v1); repeatable.",
        "--server",
    ),
]
TrainConfigFile = Annotated[
    Path | None,
    option(
        "FILE", "TOML file with settings; [bold]evovpo retrain --show-config[/bold] prints one.", "--config"
    ),
]


def check_installed() -> None:
    """Raise `ConfigError` with the install command if a package of the trainer is missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"training needs {', '.join(missing)}; run: pip install 'evovpo[train]'")


def targets_of(servers: list[str] | None) -> list[VLLMServer]:
    """Return the servers given with `--server`. Raises `ConfigError` if a text is not MODEL@URL."""
    from evovpo.proposers.policy_server import VLLMServer

    found: list[VLLMServer] = []
    for text in servers or ():
        model, at, url = text.partition("@")
        if not (model and at and url):
            raise ConfigError(
                f"--server {text!r}: expected MODEL@URL, for example strings@http://127.0.0.1:8000/v1"
            )
        found.append(VLLMServer(url, model))
    return found


def retrain(
    runs: Annotated[
        list[str] | None,
        argument("RUN...", "Runs to train on: ids, prefixes of ids, or [bold]latest[/bold]."),
    ] = None,
    objective: Objective = None,
    imitate: Imitate = None,
    store_url: options.StoreUrl = None,
    policies: Policies = None,
    servers: Servers = None,
    config_file: TrainConfigFile = None,
    overrides: options.Overrides = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only show which groups would be trained on, and why others would not."
        ),
    ] = False,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print all settings as a TOML file and exit.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Train the model on stored runs, and serve the new version to searches unless it is clearly worse.

    After Ctrl-C or a crash the same command continues from the last checkpoint.

    [dim]Examples:[/dim]  evovpo retrain latest --dry-run
               evovpo retrain 3f2a 81c0 --objective max-at-k --set update.passes=2
               evovpo retrain 3f2a 81c0 --imitate 1
               evovpo evolve invoices --set proposer.policy=served
    """
    from trainer.config import TrainConfig

    config = TrainConfig.load(
        config_file, settings(overrides, {"objective.name": objective, "imitate.share": imitate}, TrainConfig)
    )
    if show_config:
        say(config.to_toml().rstrip("\n"))
        return
    if not runs:
        raise ConfigError("name the runs to train on: evovpo retrain latest; evovpo runs lists them all")
    check_installed()
    import time

    from transformers.utils import logging

    from evovpo.runs.stored import find_run
    from trainer.cli.progress import TrainingBar
    from trainer.loop import retrain as training
    from trainer.loop.guard import uncompared
    from trainer.loop.training_plan import TrainingCallbacks, make_plan
    from trainer.reports.training import plan_line, plan_table, steps_table

    logging.disable_progress_bar()  # our own bar is enough
    began = time.monotonic()

    def warn_uncompared(plan: TrainingPlan) -> None:
        why = uncompared(store, plan) if config.probe.problems else ""
        if why:
            say(f"The new version is served without being compared with its parent: {why}", stderr=True)

    with open_store(store_url) as store:
        found = [find_run(store, run) for run in runs]
        if dry_run:
            plan = make_plan(store, found, config)
            if as_json:
                print_json(training.preview(plan, time.monotonic() - began)._asdict())
            else:
                show_answer(plan_table(plan))
                say(f"Would make {plan_line(plan)}.")
                warn_uncompared(plan)
            return
        bar = TrainingBar()

        def planned(plan: TrainingPlan, done: int) -> None:
            if not as_json:
                show_answer(plan_table(plan))
            if plan.published is not None:
                say(f"This training was made before: policy version {plan.published.number}.", stderr=True)
            else:
                say(plan_line(plan) + (f"; {done} are done" if done else ""), stderr=True)
                warn_uncompared(plan)
            bar.show("training", done, len(plan.steps))

        try:
            with bar:
                result = training.retrain(
                    store,
                    found,
                    config,
                    policies or training.default_policies(store),
                    targets=targets_of(servers),
                    watch=TrainingCallbacks(planned, bar.stepped, bar.guarded),
                )
        except KeyboardInterrupt:
            leave(Exit.STOPPED, "Stopped. The same command continues from the last checkpoint.")
        if as_json:
            print_json(result._asdict())
            return
        number = result.policy_version
        assert number is not None  # not a dry run
        show_answer(steps_table(store.training_steps(store.policy_version(number).config_hash)))
        if isinstance(result.probe, dict) and isinstance(verdict := result.probe["verdict"], dict):
            say(f"Compared with its parent: {verdict['reason']}")
        served, where = store.served(), store_option(store)
        if served is not None and served.number == number:
            say(f"Policy version {number} is served.")
            say(f"Search with it:      evovpo evolve PROBLEM --set proposer.policy=served{where}")
            say(f"Back to its parent:  evovpo rollback{where}")
        else:
            reason = [event.detail for event in store.policy_events() if event.number == number][-1]
            say(f"Policy version {number} is stored but not served. The last reason: {reason}")
            say(f"Serve it anyway:  evovpo rollback {number}{where}")


def list_policies(store_url: options.StoreUrl = None, as_json: options.AsJson = False) -> None:
    """List the policy versions and which one is served.

    [dim]Example:[/dim]  evovpo policies
    """
    from trainer.reports.training import policies_json, policies_table

    with open_store(store_url) as store:
        rows = policies_json(store)
    if as_json:
        print_json(rows)
    elif rows:
        show_answer(policies_table(rows))
    else:
        say("No policy versions yet. Make one from a run:  evovpo retrain latest")


def rollback(
    number: Annotated[
        int | None,
        argument("[VERSION]", "The version to serve instead.", "the parent of the served one", min=0),
    ] = None,
    servers: Servers = None,
    store_url: options.StoreUrl = None,
) -> None:
    """Go back to another policy version, by default the parent of the current one.

    [dim]Example:[/dim]  evovpo rollback
    """
    check_installed()
    from trainer.loop.publish import roll_back

    with open_store(store_url) as store:
        version = roll_back(store, number, targets_of(servers))
    say(f"Policy version {version.number} is served.")
