"""A recipe: a file with one domain, one model and several objectives, each trained with several seeds.

`evovpo train --config FILE --arm NAME` runs one training of a recipe. `evovpo study FILE` runs all missing
trainings and shows a table. The recipes of the VPO paper are in `trainer/recipes/paper/`.
"""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from evovpo.analysis.statistics import Interval
from evovpo.config_tree import read_toml
from evovpo.errors import ConfigError, TrainingError, nearest_hint, raise_faults
from evovpo.experiments.intervals import Difference, difference
from evovpo.experiments.toml_reader import Count, Numbers, Part, PartReader, Positive
from evovpo.files import write_json
from evovpo.reports.text import markdown_table
from trainer.domains.catalogue import FILE_DOMAINS, GENERATED
from trainer.objectives import OBJECTIVES

PAPER = Path(__file__).parents[1] / "recipes" / "paper"
RECIPE_FILE = "recipe.json"
_BY_K = {"best_at_k": "best@k", "expected_best_at_k": "E_w best@k", "pass_at_k": "pass@k"}


class RecipeArm(Part):
    name: str
    objective: str = "vpo-at-k"
    answers: Count = 0
    """m, answers per completion; 0 for the objective's usual number."""
    goals: bool = False
    """Whether the training is goal-conditioned (`trainer.domains.goals`); this needs the objective grpo."""
    settings: Mapping[str, Any] = {}


class Machine(Part):
    """Hardware for the estimates of `--dry-run`. Rates are completion tokens per second over all GPUs."""

    gpus: Positive = 1
    parameters: float = 0.0
    sampled_per_second: float = 0.0
    trained_per_second: float = 0.0


class Recipe(Part):
    name: str
    domain: str
    model: str | None = None
    data: str | None = None
    test_data: str | None = None
    data_sha256: str = ""
    test_data_sha256: str = ""
    """Expected SHA-256 of the concatenated test files (`cat ONE OTHER | sha256sum`); empty: not checked."""
    dates: str = ""
    test_dates: str = ""
    steps: Positive = 100
    prompts: Positive = 8
    rollouts: Positive = 8
    lora: Count = 0
    test: Positive = 32
    ks: Numbers = (1, 3, 10, 30)
    seeds: Positive = 1
    reference: str = ""
    """Name of the arm that all other arms are compared with, in addition to the start model."""
    accelerate: str = ""
    """Configuration file of `accelerate launch`, next to the recipe; empty to train in this process."""
    settings: Mapping[str, Any] = {}
    sampling: Mapping[str, Any] = {}
    """Sampling settings for measuring: temperature, top_p, top_k, repetition_penalty."""
    paper: Mapping[str, Any] = {}
    """Results that the paper reports, printed below the measured ones."""
    machine: Machine = Machine()
    arms: tuple[RecipeArm, ...] = Field((), strict=False)

    def arm(self, name: str) -> RecipeArm:
        names = [one.name for one in self.arms]
        if name not in names:
            raise ConfigError(f"{self.name}: unknown arm {name!r}; {nearest_hint(name, names)}")
        return self.arms[names.index(name)]

    def options(self, arm: RecipeArm, seed: int) -> dict[str, Any]:
        """Return the fields of the `TrainingRequest` for an arm and a seed, except `output`."""
        others = {"name", "seeds", "reference", "accelerate", "paper", "machine", "arms"}
        return self.model_dump(exclude=others) | {
            "objective": arm.objective, "answers": arm.answers or None, "seed": seed, "goals": arm.goals,
            "settings": {**self.settings, **arm.settings},
        }  # fmt: skip


def find_recipe(target: str) -> Path | None:
    """Return the file of a recipe, given its path or (if bundled) `paper/NAME`; None if not found."""
    for path in (Path(target), PAPER.parent / f"{target}.toml"):
        if path.is_file() and path.suffix == ".toml" and {"domain", "steps"} <= read_toml(path).keys():
            return path
    return None


def read_recipe(
    path: Path, changes: Mapping[str, Any] | None = None, only: Sequence[str] | None = None
) -> Recipe:
    """Return the recipe in a file, changed by `changes`, with the arms named in `only` (default: all).

    `changes` maps keys to new values; the key `settings.beta` means `beta` in the table `settings`. If `only`
    leaves out the reference arm, `reference` becomes empty. Raises a `ConfigError` that lists all errors.
    """
    data = json.loads(path.read_text(encoding="utf-8")) if path.suffix == ".json" else read_toml(path)
    for key, value in (changes or {}).items():
        table, _, field = key.rpartition(".")
        (data.setdefault(table, {}) if table else data)[field] = value
    faults: list[str] = []
    reader = PartReader(path, faults)
    arms = tuple(
        reader.part(RecipeArm, one, f"arms {place}", name=reader.name(one, f"arms {place}"))
        for place, one in enumerate(reader.tables(data, "arms"), 1)
    )
    values = {key: value for key, value in data.items() if key not in ("arms", "name")}
    recipe = reader.part(Recipe, values, name=reader.name(data), domain=str(data.get("domain")), arms=arms)
    names = [arm.name for arm in arms]
    reader.different(names, "arms")
    known = (*GENERATED, *FILE_DOMAINS)
    if recipe.domain not in known and not recipe.domain.endswith(".py"):
        reader.add(f"domain: unknown {recipe.domain!r}; {nearest_hint(recipe.domain, known)}")
    for arm in arms:
        if arm.objective not in OBJECTIVES:
            hint = nearest_hint(arm.objective, OBJECTIVES)
            reader.add(f"arm {arm.name}: objective: {arm.objective!r} is none; {hint}")
    if recipe.reference and recipe.reference not in names:
        reader.add(f"reference: {recipe.reference!r} is no arm; {nearest_hint(recipe.reference, names)}")
    if recipe.accelerate:
        file = (path.parent / recipe.accelerate).resolve()
        recipe = recipe.model_copy(update={"accelerate": str(file)})
        if not file.is_file():
            reader.add(f"accelerate: {file}: expected a configuration of accelerate, found none")
    raise_faults(faults)
    if only is None:
        return recipe
    reference = recipe.reference if recipe.reference in only else ""
    return recipe.model_copy(update={"arms": tuple(map(recipe.arm, only)), "reference": reference})


def _check_machine(recipe: Recipe) -> None:
    import torch

    config = yaml.safe_load(Path(recipe.accelerate).read_text(encoding="utf-8"))
    wanted, found = config.get("num_processes", 1), torch.accelerator.device_count()
    if wanted > found and not config.get("use_cpu"):
        raise ConfigError(
            f"{recipe.accelerate}: expected {wanted} GPUs, found {found}; name another file with --set "
            "accelerate=FILE (one-gpu.yaml lies next to the recipes), or train in this process with "
            "--set accelerate="
        )


def run_recipe(recipe: Recipe, out: Path, watch: Callable[..., None]) -> None:
    """Run a recipe's missing trainings, each in the folder `out/ARM-SEED`. Raises the errors of `train`."""
    from trainer.domains.training import TrainingRequest, check_vllm, train

    check_vllm(recipe.settings)
    if recipe.accelerate:
        _check_machine(recipe)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / RECIPE_FILE, recipe.model_dump(mode="json"), indent=1)
    for arm in recipe.arms:
        for seed in range(recipe.seeds):
            folder = str(out / f"{arm.name}-{seed}")
            named = f"{arm.name}, seed {seed}"
            if not recipe.accelerate:
                asked = TrainingRequest(**recipe.options(arm, seed), output=folder)
                train(asked, lambda said, *amounts, named=named: watch(f"{named}: {said}", *amounts))
                continue
            watch(f"{named}: training with accelerate launch", 0, 0, "")
            command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", recipe.accelerate]
            command += ["-m", "evovpo", "train", "--config", str(out / RECIPE_FILE), "--arm", arm.name]
            command += ["--seed", str(seed), "--output", folder]
            environment = {**os.environ, "EVOVPO_PARENT": str(os.getpid())}
            done = subprocess.run(command, check=False, env=environment)
            if done.returncode:
                raise TrainingError(f"{named}: accelerate launch ended with {done.returncode}; see above")


def rows_of(recipe: Recipe, out: Path) -> list[dict[str, Any]]:
    """Return a JSON row for each statistic, k and arm, over the arm's finished trainings.

    A row has the arm's paired differences from the reference arm and from the start model. The start model
    is asked for as many answers per completion as the arm. A difference has `mean`, `low`, `high`, `p` and
    `clear`, which is true if the difference is statistically significant.
    """
    import numpy as np

    from trainer.domains.policy_figures import by_prompt, ends
    from trainer.domains.training import TRAINING_FILE

    done: dict[str, list[Any]] = {}
    for arm in recipe.arms:
        files = (out / f"{arm.name}-{seed}" / TRAINING_FILE for seed in range(recipe.seeds))
        found = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
        if measured := [one for one in found if one.get("after")]:
            done[arm.name] = measured

    def values(arm: str, when: str, figure: str, k: str) -> Any:
        return np.concatenate([by_prompt(one[when], figure, k) for one in done[arm]])

    def row(arm: str, figure: str, k: str) -> dict[str, Any]:
        ours, others = values(arm, "after", figure, k), {"minus_start": values(arm, "before", figure, k)}
        if recipe.reference in done and recipe.reference != arm:
            others["minus_reference"] = values(recipe.reference, "after", figure, k)
        beside = {name: difference(ours, theirs) for name, theirs in others.items()}
        differences: dict[str, Any] = {
            name: {**ends(one.interval), "p": one.p, "clear": one.is_clear} for name, one in beside.items()
        }
        about = {"arm": arm, "figure": figure, "k": k, "mean": float(ours.mean()), "minus_reference": None}
        return about | differences

    return [row(arm, figure, str(k)) for figure in _BY_K for k in recipe.ks for arm in done]


def table_of(recipe: Recipe, rows: list[dict[str, Any]]) -> str:
    """Return the rows of `rows_of` as Markdown tables, with the paper's results below."""
    lines = [f"# {recipe.name}", ""]
    against = {"minus_start": "minus start"}
    against |= {"minus_reference": f"minus {recipe.reference}"} if recipe.reference else {}
    for figure, title in _BY_K.items():
        cells = [
            [row["arm"], row["k"], f"{row['mean']:.3f}", *(_cell(row[name]) for name in against)]
            for row in rows
            if row["figure"] == figure
        ]
        lines.append(markdown_table([title, "k", "mean", *against.values()], cells))
    seeds = f"{recipe.seeds} seed" + "s" * (recipe.seeds > 1)
    lines.append(f"{seeds}; 95 % intervals over prompts and seeds, paired; bold where there is a winner.")
    lines += ["", "The paper reports:", ""] * bool(recipe.paper)
    lines += [f"- {name}: {said}" for name, said in recipe.paper.items()]
    return "\n".join(lines) + "\n"


def _cell(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    return f"{Difference(Interval(found['mean'], found['low'], found['high'], 0), found['p']):.3f}"


def cost_of(recipe: Recipe) -> list[dict[str, Any]]:
    """Return each arm's estimated tokens and GPU hours for all seeds, and memory per GPU for one training.

    Tokens and hours are upper bounds that assume completions of maximum length. The memory excludes
    activations.
    """
    from trainer.domains.catalogue import longest
    from trainer.domains.preview import memory_bytes
    from trainer.objectives import find_objective

    machine, found = recipe.machine, []
    for arm in recipe.arms:
        answers = arm.answers or find_objective(arm.objective).usual_answers
        length = {**recipe.settings, **arm.settings}.get("max_completion_length") or longest(
            recipe.domain, answers
        )
        trained = recipe.steps * recipe.prompts * recipe.rollouts * length * recipe.seeds
        measured = 2 * recipe.test * -(-max(recipe.ks) // answers) * length * recipe.seeds
        rates = (machine.sampled_per_second, machine.trained_per_second)
        hours = ((trained + measured) / rates[0] + trained / rates[1]) / 3600 if all(rates) else None
        beta = float(recipe.settings.get("beta", 1e-3))
        held = memory_bytes(machine.parameters, lora=bool(recipe.lora), has_reference=beta > 0)
        found.append(
            {
                "arm": arm.name,
                "tokens": trained + measured,
                "gpu_hours": None if hours is None else hours * machine.gpus,
                "memory_bytes": held / machine.gpus if machine.parameters else None,
            }
        )
    return found


def asked_of(recipe: Recipe, arm: str, seed: int, output: str, given: Mapping[str, Any]) -> Any:
    """Return the request for training an arm of a recipe with a seed; `given` overrides its options."""
    from trainer.domains.training import TrainingRequest

    options = recipe.options(recipe.arm(arm), seed)
    settings = {**options["settings"], **given.get("settings", {})}
    return dataclasses.replace(TrainingRequest(**options, output=output), **{**given, "settings": settings})
