"""The command `evovpo loop`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from evovpo.cli import options
from evovpo.cli.options import argument, option, settings
from evovpo.cli.terminal import Exit, leave, open_store, print_json, say, show_answer, store_option
from evovpo.errors import ProblemError
from trainer.cli.policies import Objective, Policies, check_installed

if TYPE_CHECKING:
    from evovpo.problem.suites import SuiteEntry


_SEARCHES = 4


def loop(
    target: Annotated[
        str,
        argument("FAMILY", "Suite, folder of problem folders, or one problem."),
    ],
    rounds: Annotated[
        int, option("N", "Number of rounds of search and training.", "--rounds", "-r", min=1)
    ] = 1,
    limit: Annotated[int | None, option("TASKS", "Number of problems to search.", min=1)] = None,
    searches: Annotated[
        int | None,
        option(
            "N",
            "Searches per problem and round, each with its own seed.",
            min=1,
            default="4; 1 with --imitate 0",
        ),
    ] = None,
    evaluations: Annotated[
        int, option("N", "Programs that one search proposes.", "--evaluations", "-n", min=1)
    ] = 150,
    objective: Objective = None,
    imitate: Annotated[
        int | None,
        option(
            "0|1",
            "1: imitate the best programs of all searches so far; 0: learn from rewards.",
            min=0,
            max=1,
            default="1; 0 with scorers",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        option(
            "N",
            "Parallel searches, each in its own process.",
            "--jobs",
            "-j",
            min=1,
            default="number of cores",
        ),
    ] = None,
    executor: options.Executor = None,
    seed: Annotated[int, option("S", "Random seed.", min=0)] = 0,
    store_url: options.StoreUrl = None,
    policies: Policies = None,
    config_file: options.ConfigFile = None,
    overrides: options.Overrides = None,
    train_overrides: Annotated[
        list[str] | None,
        option(
            "SECTION.KEY=VALUE",
            "Change a setting of the trainer ([bold]evovpo retrain --show-config[/bold] lists all).",
            "--train-set",
        ),
    ] = None,
    png: options.Png = None,
    as_json: options.AsJson = False,
) -> None:
    """Alternate between searching related problems and training the model on the results.

    At the end, the start model and the trained model search held-out problems. The report compares their
    results and costs. A version that is clearly worse than its parent is not used.
    Problems with a scorer are all searched, none is held out, and the report compares the rounds.
    After Ctrl-C or a crash the same command continues.

    [dim]Examples:[/dim]  evovpo loop strings
               evovpo loop strings --rounds 3 --limit 12
               evovpo loop strings --rounds 10 --imitate 0 --objective max-at-k
    """
    check_installed()
    from evovpo.config import Config
    from evovpo.experiments.cluster import on_cluster
    from evovpo.experiments.pool import kept_processes
    from evovpo.problem.folder import load_problem
    from trainer.cli.progress import LoopBar
    from trainer.config import TrainConfig
    from trainer.learning.policy_models import check_place
    from trainer.loop.loop import plan_loop
    from trainer.loop.retrain import default_policies
    from trainer.loop.turns import Turns
    from trainer.loop.worth import best_by_round, compare
    from trainer.objectives import find_objective
    from trainer.reports.training import before_after_table, write_before_after_png, write_costs

    entries = _entries(target)
    problems = [load_problem(entry.path) for entry in entries]
    if imitate is None:
        imitate = int(all(problem.is_by_example for problem in problems))
    # Pretraining data keep the model near its start; a KL term would add a third to the time.
    alone = {"update.kl": 0.0, "update.learning_rate": 6e-4} if imitate else {}
    options_of_training = {"objective.name": objective, "imitate.share": imitate}
    changes = settings(train_overrides, options_of_training, TrainConfig)
    train = TrainConfig.load(None, {"run.seed": seed, **alone, **changes})
    usual: dict[str, object] = {
        "search.answers": 1 if imitate else find_objective(train.objective.name).usual_answers,
        "search.evaluations": evaluations,
        "run.seed": seed,
        "proposer.policy": "served",
    }
    # With an executor, programs are judged on the machine that runs the search.
    given = {"store.url": store_url, "sandbox.executor": executor and "local"}
    search = Config.load(config_file, usual | settings(overrides, given))
    searches = searches or (_SEARCHES if imitate else 1)
    plan = plan_loop(problems, search, train, limit=limit, searches=searches, entries=entries)
    with open_store(search.store.url, create=True) as store:
        bar = LoopBar(plan, rounds)
        workers = jobs or ((os.cpu_count() or 1) if executor in (None, "local") else sys.maxsize)
        url = search.store.url
        policies = policies or default_policies(store)
        check_place(store, policies)
        turns = Turns(plan, store, policies, bar.watch(), workers, url)
        say(
            f"loop {plan.id}: rounds: {rounds}, problems: {len(plan.searched) // searches}, searches of each "
            f"in a round: {searches}, evaluations: {plan.search.search.evaluations}, "
            f"held out: {len(plan.held_out)}, "
            + ("imitating" if imitate else f"objective {plan.train.objective.name}"),
            stderr=True,
        )
        try:
            with on_cluster(executor, search.store.url), bar, kept_processes():
                turns.take(rounds)
                result, comparison = compare(turns, rounds)
        except KeyboardInterrupt:
            leave(Exit.STOPPED, "Stopped. Searches and trainings are stored; the same command continues.")
        picture = options.written_to(png, f"loop-{plan.id}.png")
        if comparison is not None:
            write_before_after_png(picture, comparison.before, comparison.after)
            if comparison.spent:
                write_costs(picture.with_stem(f"{picture.stem}-cost"), comparison.spent)
        if as_json:
            print_json(result._asdict())
            return
        if comparison is None:
            by_round = ", ".join(f"{value:.3f}" for value in best_by_round(plan, store, rounds))
            say(f"Best mean reward that each round found: {by_round} (no problem was held out)")
            say("To separate the effect of training from that of longer search, use evovpo study.")
        else:
            show_answer(before_after_table(comparison.before, comparison.after))
            say(f"\n{result.verdict}")
            for one in comparison.break_even():
                unit = one.unit.replace("_", " ")
                say(f"Problems until it has paid for itself, by {unit}: {one}")
        say(f"{result.policy_versions} policy versions were trained; version {result.served} is served.")
        if comparison is not None:
            say(f"Picture written to {picture}")
        say(f"Versions and their comparisons:  evovpo policies{store_option(store)}")
        say(f"More rounds:                     the same command with --rounds {rounds + 3}")


def _entries(target: str) -> list[SuiteEntry]:
    from evovpo.problem.suites import SuiteEntry, load_suite, resolve_problem

    try:
        return load_suite(target)
    except ProblemError as no_suite:
        inside = sorted(file.parent for file in Path(target).glob("*/problem.toml"))
        try:
            return [SuiteEntry(folder, None) for folder in inside or [resolve_problem(target)]]
        except ProblemError as no_problem:
            raise ProblemError(f"{no_problem} (as a suite: {no_suite})") from no_problem
