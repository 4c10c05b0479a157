"""The searches of arms that train while they search: rounds over all problems, with a training between two.

The model starts from the study's start model, and learns from nothing but the problems that are searched.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from evovpo.config import Config
from evovpo.errors import ConfigError
from evovpo.problem.folder import load_problem
from evovpo.runs.choices import check_proposer, choose_format
from evovpo.store import Store
from evovpo.types import Problem
from trainer.config import ObjectiveConfig, RunConfig, TrainConfig, UpdateConfig
from trainer.domains.on_policy import Arm
from trainer.experiments.export import Export
from trainer.experiments.records import Study, StudyArm
from trainer.experiments.searches import search_row, settings_of
from trainer.experiments.trainings import chosen
from trainer.loop.loop import SearchTraining
from trainer.loop.search_training import SearchPart, TrainingPart, search_while_training, store_url
from trainer.objectives import find_objective


def check_while_searching(study: Study, faults: list[str]) -> None:
    """Add what is wrong with the arms that train while they search."""
    for arm in study.arms:
        if arm.while_searching and arm.arm is not None:
            for strategy in arm.strategies:
                try:
                    _plan(study, arm, strategy, dataclasses.replace(arm.arm, learning_rate=1e-4, kl=0.0), 0)
                except ConfigError as error:
                    faults.append(f"{study.path}: arm {arm.name}, strategy {strategy}: {error}")


def run_while_searching(
    study: Study, export: Export, work: Path, processes: int, on_part: Callable[[str], None]
) -> None:
    """Make the searches of these arms that have no row, and export a row for each problem.

    `on_part` is told what ends on the way. What is done of a seed is kept in its folder below `work`.
    """
    for arm in (one for one in study.arms if one.while_searching):
        settings = chosen(study, arm, export)
        assert settings is not None  # what it is tuned as was tuned before
        for strategy, seed in sorted({(key.strategy, key.seed) for key in export.missing(study, arm)}):
            name = f"{arm.name}, {strategy}, seed {seed}"
            plan = _plan(study, arm, strategy, settings, seed)
            folder = work / "while-searching" / name.replace(", ", "-").replace(" ", "-")

            def told(part: SearchPart | TrainingPart, name: str = name) -> None:
                what = f"searched {part.problem}" if isinstance(part, SearchPart) else "trained"
                on_part(f"{name}: round {part.round}, {what}")

            result = search_while_training(plan, folder, processes, told)
            share = result.training_cpu_seconds / len(result.problems)
            with Store.open(store_url(folder)) as store:
                for problem, found in zip(plan.searched, result.problems, strict=True):
                    key = {"arm": arm.name, "strategy": strategy, "seed": seed, "problem": problem.id}
                    row = search_row(store, found.run, problem, ())
                    cost = {"cpu_seconds": found.cpu_seconds, "training_seconds": round(share, 3)}
                    export.add_searches([key | row | cost])


def _plan(study: Study, arm: StudyArm, strategy: str, settings: Arm, seed: int) -> SearchTraining:
    problems = [load_problem(path) for path in study.problems]
    searched = settings_of(study.strategy(strategy), arm)
    spent = {"evaluations": arm.evaluations, "rounds": arm.while_searching, "seed": seed}
    return plan_search_training(problems, searched, settings, study.start, **spent)


def plan_search_training(
    problems: Sequence[Problem],
    settings: Mapping[str, object],
    arm: Arm,
    start_model: Path,
    *,
    evaluations: int,
    rounds: int,
    seed: int,
    groups_per_step: int = 8,
) -> SearchTraining:
    """Return the searches of these problems that train by an arm's objective, learning rate, KL and passes.

    `settings` are sections as in a configuration file, the strategy of the searches: `search.answers` must
    be the arm's. Raises `ConfigError` naming all that does not go together, `ProblemError` for a problem
    that the model cannot write for.
    """
    search = settings.get("search", {})
    assert isinstance(search, Mapping)
    model = {"name": "local", "model": str(start_model.resolve()), "policy": "served", "threads": 1}
    sections = {
        **settings,
        # One ask at a time, so that runs repeat.
        "search": {"in_flight": 1, **search, "evaluations": evaluations},
        "proposer": model,
        "sandbox": {"workers": 1},
        "run": {"seed": seed},
    }
    config = Config.load(None, (), sections)
    asked = config.search
    faults = []
    if not problems:
        faults.append("no problem to search; name at least one")
    if not 1 <= rounds <= evaluations // (asked.answers * asked.rollouts):
        faults.append(
            f"{rounds} rounds of {evaluations} evaluations, {asked.answers * asked.rollouts} an ask; "
            "expected 1 round or more with at least one ask in each"
        )
    if asked.answers != arm.answers:
        faults.append(
            f"search.answers is {asked.answers}, and the arm trains on {arm.answers} answers a completion; "
            "give both the same"
        )
    if asked.rollouts < 2:
        faults.append(f"search.rollouts is {asked.rollouts}; a group to train on needs 2 or more")
    faults += [
        f"{name} is {getattr(arm, name):g}; what prompts ask for is the search's: leave it out"
        for name in ("single_share", "parent_share")
        if getattr(arm, name)
    ]
    objective = ObjectiveConfig(**{"name": arm.objective, **arm.settings})
    faults += [
        f"{name} of the objective is {getattr(objective, name)}; expected less than search.rollouts, "
        f"{asked.rollouts}"
        for name in {"k", "c"} & set(find_objective(arm.objective).settings)
        if getattr(objective, name) >= asked.rollouts
    ]
    if faults:
        raise ConfigError(f"arm {arm.name}, training while it searches: " + "; ".join(faults))
    for problem in problems:
        check_proposer(problem, config)
        choose_format(problem, config)
    of_arm = {name: getattr(arm, name) for name in ("learning_rate", "kl", "entropy", "passes")}
    update = UpdateConfig(**of_arm, groups_per_step=groups_per_step)
    train = TrainConfig(objective=objective, update=update, run=RunConfig(seed=seed))
    return SearchTraining(tuple(problems), (), config, train, rounds)
