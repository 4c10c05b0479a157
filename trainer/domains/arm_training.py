"""Trains a study's start model on-policy with the objective of one arm, and measures models.

An arm is one of the trainings that a study compares. The arm, the domain, the budget and the seed determine
the result.
"""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from evovpo.errors import ConfigError, DivergedError, PolicyError
from evovpo.experiments.toml_reader import Part, Positive
from evovpo.judging.measure import JudgedAnswer, Measure, without_faults, without_repeats
from evovpo.judging.measure import measure as measure_answers
from evovpo.proposers.sampler import Completion, SampleRequest, Weights, sample
from evovpo.types import Rewards
from trainer.config import ObjectiveConfig
from trainer.domains.domain import TaskFamily
from trainer.learning.packing import TrainingRow
from trainer.learning.policy_update import Updater, UpdateSettings
from trainer.learning.step_data import group_figures, mean_figures
from trainer.objectives import batch_advantages, draw_weights

_PROMPTS_AT_ONCE = 12


@dataclass(frozen=True)
class TrainingArm:
    """The settings of one arm (one of the trainings that a study compares)."""

    objective: str
    answers: int
    """m, answers per completion."""
    rollouts: int
    """G, completions per prompt. By default a study file sets G = 24 // m, about 24 answers in every arm."""
    settings: dict[str, Any] = field(default_factory=dict)
    learning_rate: float = 3e-4
    kl: float = 0.0
    single_share: float = 0.0
    """Share of prompts that ask for one answer. Such a prompt has m·G completions and objective `grpo`."""
    parent_share: float = 0.0
    """Share of prompts that show an earlier answer (a parent) with its reward vector; at most 0.5."""


class TrainingBudget(Part):
    """The training budget. It is the same for all arms (compared trainings) of a study."""

    tokens: Positive = 120_000
    """Completion tokens to sample. The step that reaches this number is the last step."""
    prompts: Positive = 8
    """P, prompts per step."""
    tasks: Positive = 1000
    """Number of training tasks, used in a seeded random order. All are used before one is repeated."""


def sampler_of(model: Any) -> Callable[[Sequence[SampleRequest]], list[list[Completion]]]:
    """Return a function that samples completions for requests, with the current weights of `model`."""
    weights, ends = Weights(model), model.generation_config.eos_token_id
    end_ids = (ends,) if isinstance(ends, int) else tuple(ends)
    return lambda requests: sample(weights, requests, end_ids)


class TaskMeasure(NamedTuple):
    measure: Measure
    tokens: int


def measure(
    model: Any,
    domain: TaskFamily,
    tasks: Sequence[Any],
    answers: int,
    per_task: int,
    seed: int,
    temperature: float = 1.0,
) -> list[TaskMeasure]:
    """Return statistics of at least `per_task` answers to each task. A completion has `answers` answers.

    Raises `SandboxError` if no completion of a task can be judged.
    """
    chains, most = tuple(range(-(-per_task // answers))), domain.max_tokens(answers)
    seeds = [int(np.random.default_rng([seed, number, 2]).integers(2**62)) for number in range(len(tasks))]
    requests = [
        SampleRequest(domain.prompt_ids(task, answers), own, chains, temperature, most)
        for task, own in zip(tasks, seeds, strict=True)
    ]
    found, complete = [], sampler_of(model)
    for first in range(0, len(tasks), _PROMPTS_AT_ONCE):
        part = slice(first, first + _PROMPTS_AT_ONCE)
        for task, completions in zip(tasks[part], complete(requests[part]), strict=True):
            judged = [domain.judge(task, completion.token_ids, answers) for completion in completions]
            tokens = sum(len(completion.token_ids) for completion in completions)
            found.append(TaskMeasure(measure_answers(judged), tokens))
    return found


def load_start_model(domain: TaskFamily) -> Any:
    return AutoModelForCausalLM.from_pretrained(
        domain.model_folder, attn_implementation="eager", trust_remote_code=False
    )


def train(
    arm: TrainingArm,
    domain: TaskFamily,
    budget: TrainingBudget,
    seed: int,
    on_step: Callable[[dict[str, float]], None] = lambda figures: None,
) -> tuple[Any, list[dict[str, float]]]:
    """Train the start model of `domain`. Return the trained model and the statistics of each step.

    Raises `DivergedError` if the training diverges. Raises `ConfigError` if `arm.parent_share` is above 0 and
    the domain's prompts cannot show an earlier answer (a parent).
    """
    if arm.parent_share > 0 and not domain.shows_parents:
        raise ConfigError(
            f"parent_share is {arm.parent_share:g}, and prompts of the domain {domain.name} show no parents; "
            "set it to 0, or choose another domain"
        )
    torch.manual_seed(seed)
    model = load_start_model(domain)
    reference = copy.deepcopy(model).eval() if arm.kl > 0 else None
    settings = UpdateSettings(learning_rate=arm.learning_rate, kl=arm.kl)
    updater = Updater(model, settings, reference)
    tasks = domain.tasks("train", budget.tasks)
    log: list[dict[str, float]] = []
    tokens = 0
    while tokens < budget.tokens:
        started = time.process_time()
        step = len(log)
        rng = np.random.default_rng([seed, step])
        chosen = _chosen_tasks(len(tasks), step, budget.prompts, seed)
        try:
            groups = _sample_step(arm, model, domain, [tasks[index] for index in chosen], rng)
        except PolicyError as error:
            raise DivergedError(f"training diverged before step {step}: {error}") from error
        rows, spread = _training_rows(arm, groups, rng)
        figures = updater.update(rows)
        tokens += sum(group.tokens for group in groups)
        log.append(_step_figures(groups, spread) | figures | {
            "step": float(step), "tokens": float(tokens), "cpu_seconds": time.process_time() - started
        })  # fmt: skip
        if arm.parent_share > 0:
            log[-1]["parent_share"] = sum(group.has_parent for group in groups) / len(groups)
        on_step(log[-1])
    return model, log


class _Group(NamedTuple):
    """The judged completions of one prompt. `faults` counts those left out because the sandbox failed."""

    objective: str
    prompt_ids: tuple[int, ...]
    completions: list[Completion]
    answers_G_M: list[list[JudgedAnswer]]
    has_parent: bool
    tokens: int
    faults: int

    @property
    def rewards_G_M_D(self) -> list[list[Rewards]]:
        """The rewards of all answers, of shape (G, M, D). Repeats in a completion have zeros."""
        return [
            [answer.rewards for answer in without_repeats(chain) if answer.rewards is not None]
            for chain in self.answers_G_M
        ]


def _sample_step(
    arm: TrainingArm, model: Any, domain: TaskFamily, tasks: Sequence[Any], rng: np.random.Generator
) -> list[_Group]:
    """Return the judged completions of each of the P prompts of a training step."""
    again = round(len(tasks) * arm.parent_share)
    first, context = len(tasks) - again, model.config.max_position_embeddings
    groups = _sample(arm, model, domain, [(task, None) for task in tasks[:first]], rng)
    if again:
        shown = []
        for task, group in zip(tasks, groups, strict=False):
            parent = _choose_parent(group.answers_G_M, rng)
            # A long answer to a long task may not fit into the model's context.
            if parent is not None and len(domain.prompt_ids(task, arm.answers, parent)) < context:
                shown.append((task, parent))
        rest = [(task, None) for task in tasks[first:][: max(0, again - len(shown))]]
        groups += _sample(arm, model, domain, [*shown[:again], *rest], rng)
    return groups


def _choose_parent(answers_G_M: Sequence[Sequence[JudgedAnswer]], rng: np.random.Generator) -> str | None:
    """Return the key of a readable answer to a prompt, chosen by lexicase selection (Spector 2012), or None.

    The result is None if no answer is readable, or if any answer is right (a search would then stop).
    """
    pool = {answer.key: answer for chain in answers_G_M for answer in chain if answer.key is not None}
    if not pool or any(answer.is_right for answer in pool.values()):
        return None
    rewards_N_D = np.array([answer.rewards for answer in pool.values()])
    alive = np.arange(len(rewards_N_D))
    for objective in rng.permutation(rewards_N_D.shape[1]):
        if len(alive) == 1:
            break
        column = rewards_N_D[alive, objective]
        alive = alive[column == column.max()]
    return list(pool)[int(alive[rng.integers(len(alive))])]


def _sample(
    arm: TrainingArm,
    model: Any,
    domain: TaskFamily,
    tasks: Sequence[tuple[Any, str | None]],
    rng: np.random.Generator,
) -> list[_Group]:
    is_single = rng.random(len(tasks)) < arm.single_share
    answers = [1 if single else arm.answers for single in is_single]
    requests = [
        SampleRequest(
            domain.prompt_ids(task, wanted, parent), int(rng.integers(2**62)),
            tuple(range(arm.rollouts * arm.answers // wanted)), 1.0, domain.max_tokens(wanted),
        )
        for (task, parent), wanted in zip(tasks, answers, strict=True)
    ]  # fmt: skip
    groups = []
    for index, completions in enumerate(sampler_of(model)(requests)):
        task, parent = tasks[index]
        judged = [domain.judge(task, completion.token_ids, answers[index]) for completion in completions]
        left = without_faults(judged)
        groups.append(
            _Group(
                objective="grpo" if is_single[index] else arm.objective,
                prompt_ids=requests[index].prompt_ids,
                completions=[completions[place] for place in left],
                answers_G_M=[judged[place] for place in left],
                has_parent=parent is not None,
                tokens=sum(len(completion.token_ids) for completion in completions),
                faults=len(judged) - len(left),
            )
        )
    return groups


def _training_rows(
    arm: TrainingArm, groups: Sequence[_Group], rng: np.random.Generator
) -> tuple[list[list[TrainingRow]], float]:
    rows: list[list[TrainingRow]] = [[] for _ in groups]
    with_spread = 0
    for objective in dict.fromkeys(group.objective for group in groups):
        places = [index for index, group in enumerate(groups) if group.objective == objective]
        rewards = [groups[index].rewards_G_M_D for index in places]
        found = batch_advantages(objective, rewards, rng=rng, **arm.settings)
        for index, values in zip(places, found, strict=True):
            group = groups[index]
            with_spread += bool(values.any())
            rows[index] = [
                TrainingRow(group.prompt_ids, one.token_ids, one.logprobs, np.full(len(one.token_ids), value))
                for one, value in zip(group.completions, values, strict=True)
            ]
    return rows, with_spread / len(groups)


def _step_figures(groups: Sequence[_Group], with_spread: float) -> dict[str, float]:
    figures = []
    for group in groups:
        rewards = [np.array(chain) for chain in group.rewards_G_M_D]
        weights = draw_weights(rewards[0].shape[1], ObjectiveConfig(), np.random.default_rng(0))
        keys = [[answer.key for answer in chain] for chain in group.answers_G_M]
        figures.append(group_figures(rewards, keys, weights))
    faults = float(sum(group.faults for group in groups))
    return mean_figures(figures)._asdict() | {"zero_spread_share": 1 - with_spread, "faults": faults}


def _chosen_tasks(tasks: int, step: int, prompts: int, seed: int) -> list[int]:
    return [
        int(np.random.default_rng([seed, place // tasks, 1]).permutation(tasks)[place % tasks])
        for place in range(step * prompts, (step + 1) * prompts)
    ]
