"""The command `evovpo train`: training on a domain."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evovpo.cli import options
from evovpo.cli.options import option
from evovpo.cli.terminal import Exit, leave, print_json, say, show_answer
from evovpo.errors import ConfigError
from trainer.cli.policies import Objective, check_installed

if TYPE_CHECKING:
    from trainer.domains.training import TrainingRequest

_DOMAIN = option(
    "NAME",
    "A domain or your own Python file (docs/domains.md). [bold]maze[/bold], [bold]maze-conflict[/bold] and "
    "[bold]strings[/bold] have tasks and a start model, [bold]maze-words[/bold] has only tasks; others "
    "need --data.",
    "--domain",
)
DomainName = Annotated[str, _DOMAIN]
Data = Annotated[
    str | None,
    option("FILE", "Prompts in the format of the domain's data set; several files as FILE,FILE."),
]
Dates = Annotated[
    str,
    option(
        "FROM..TO", "Only rows with a date in this range, for example 2024-08-01..2025-02-28 (LiveCodeBench)."
    ),
]
Ks = Annotated[str, option("K,K", "Values of k for which best@k is reported.", "--k")]


def train(
    context: typer.Context,
    domain: Annotated[str | None, _DOMAIN] = None,
    config: Annotated[
        Path | None,
        option("FILE", "Recipe (docs/reproduce.md); command-line options override it.", "--config"),
    ] = None,
    arm: Annotated[str | None, option("NAME", "For a recipe: the arm to train.")] = None,
    output: Annotated[
        Path, option("FOLDER", "Folder of the trained model and its checkpoints.", "--output", "-o")
    ] = Path("trained"),
    data: Data = None,
    model: Annotated[
        str | None,
        option(
            "FOLDER", "Start model: a folder or a name on the Hugging Face hub.", default="the domain's own"
        ),
    ] = None,
    objective: Objective = None,
    answers: Annotated[
        int | None,
        option("M", "Answers in one completion.", min=1, default="1; 3 with objective vpo or multi-rlvr"),
    ] = None,
    goals: Annotated[
        bool,
        typer.Option(
            "--goals",
            help="With grpo: each prompt shows random component weights, and the reward is the weighted sum.",
        ),
    ] = False,
    steps: Annotated[int, option("N", "Optimiser steps.", min=1)] = 100,
    prompts: Annotated[int, option("P", "Prompts per step.", min=1)] = 8,
    rollouts: Annotated[
        int, option("G", "Completions per prompt; must exceed the objective's k.", min=2)
    ] = 8,
    lora: Annotated[
        int, option("RANK", "Train a LoRA adapter of this rank; 0 trains all weights.", min=0)
    ] = 0,
    test: Annotated[int, option("N", "Held-out prompts, answered before and after training.", min=0)] = 32,
    test_data: Annotated[
        str | None, option("FILE", "Held-out prompts.", default="a tenth of the rows of --data")
    ] = None,
    ks: Ks = "1,3,6,12,24",
    dates: Dates = "",
    test_dates: Annotated[str, option("FROM..TO", "Use only held-out rows with a date in this range.")] = "",
    seed: Annotated[int, option("S", "Random seed.", min=0)] = 0,
    changes: Annotated[
        list[str] | None,
        option("KEY=VALUE", "Change one setting of TRL's GRPOConfig or of VPOConfig.", "--set"),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only show prompts, sampled rewards, and the expected benefit and cost of training.",
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Train any model on-policy with a domain's reward vectors, and measure the gain.

    After Ctrl-C or a crash the same command continues from the last checkpoint. On several GPUs,
    run [bold]accelerate launch -m evovpo train[/bold]; to sample with vLLM, add
    [bold]--set use_vllm=true[/bold].

    [dim]Examples:[/dim]  evovpo train --domain maze-conflict --dry-run
               evovpo train --domain maze-conflict --rollouts 24 --set k=8 --output trained
               evovpo train --domain own.py --data rows.jsonl --model Qwen/Qwen3-0.6B --lora 16
               evovpo train --config recipe.toml --arm vpo-at-k --seed 1 --output vpo-1
               evovpo measure --domain maze-conflict --model trained
    """
    check_installed()
    from trainer.domains.training import TrainingRequest

    if domain is None and config is None:
        raise ConfigError("name a domain with --domain, or a recipe with --config")
    asked = TrainingRequest(
        domain=domain or "", output=str(output), data=data, test_data=test_data, model=model,
        objective=objective or "vpo-at-k", answers=answers, steps=steps, prompts=prompts, rollouts=rollouts,
        lora=lora, seed=seed, test=test, ks=numbers("--k", ks), settings=settings_of(changes),
        dates=dates, test_dates=test_dates, goals=goals,
    )  # fmt: skip
    if config is not None:
        asked = _of_recipe(context, config, arm, asked)
    if not dry_run:
        _train(asked, as_json=as_json)
        return
    from trainer.cli.progress import quiet
    from trainer.domains.preview import preview
    from trainer.reports.domains import preview_view

    with quiet():
        found = preview(asked)
    if as_json:
        print_json(found)
    else:
        show_answer(preview_view(found))


def _of_recipe(
    context: typer.Context, config: Path, arm: str | None, asked: TrainingRequest
) -> TrainingRequest:
    from dataclasses import fields

    from trainer.experiments.recipe import asked_of, read_recipe

    recipe = read_recipe(config)
    if arm is None:
        raise ConfigError(f"--arm: name one of {', '.join(one.name for one in recipe.arms)}")
    given = {
        one.name: getattr(asked, one.name)
        for one in fields(asked)
        if str(context.get_parameter_source(one.name)).endswith("COMMANDLINE") or one.name == "settings"
    }
    found: TrainingRequest = asked_of(recipe, arm, asked.seed, asked.output, given)
    return found


def _train(asked: TrainingRequest, *, as_json: bool) -> None:
    from evovpo.reports.live import WorkBar
    from trainer.cli.progress import quiet
    from trainer.domains.training import train as run
    from trainer.reports.domains import trained_view

    is_main, bar = int(os.environ.get("RANK", "0")) == 0, WorkBar()

    def told(name: str, done: int, total: int, figures: str) -> None:
        if is_main:
            bar.show(name, done, total, figures) if total else bar.line(name)

    try:
        with bar if is_main else contextlib.nullcontext(), quiet():
            found = run(asked, told)
    except KeyboardInterrupt:
        leave(Exit.STOPPED, "Stopped. The same command continues from the last checkpoint.")
    if not is_main:
        return
    if as_json:
        print_json(found._asdict())
        return
    if found.before is not None:
        show_answer(trained_view(found))
    say(f"The trained model is in {found.output}.")
    more = f" --answers {asked.answers_per_chain}" if asked.answers_per_chain > 1 else ""
    more += f" --data {asked.test_data or asked.data}" if asked.data else ""
    say(f"Measure it:   evovpo measure --domain {asked.domain} --model {found.output}{more}")
    say(f"Serve it:     vllm serve {found.output}")


def settings_of(changes: list[str] | None, name: str = "--set") -> dict[str, Any]:
    """Return `KEY=VALUE` texts as a dictionary of JSON values. Raises `ConfigError` if a text has no `=`."""
    found: dict[str, Any] = {}
    for text in changes or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{name} {text!r}: expected KEY=VALUE, for example learning_rate=1e-5")
        try:
            found[key.strip()] = json.loads(value)
        except ValueError:
            found[key.strip()] = value
    return found


def numbers(name: str, text: str) -> tuple[int, ...]:
    """Return the whole numbers in a text such as `1,3,6`, sorted. Raises `ConfigError` if one is below 1."""
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1:
        raise ConfigError(f"{name}: expected whole numbers from 1 with commas between them, found {text!r}")
    return tuple(found)
