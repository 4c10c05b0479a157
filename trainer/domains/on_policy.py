"""One arm of a study: train the start model on policy with one objective, then measure it.

Sampling, judging and the update of one step run one after the other in this process; everything follows
from the arm, its seed and the domain.
"""

import copy
import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from evovpo.errors import ConfigError, DivergedError, PolicyError
from evovpo.judging.measure import JudgedAnswer, Measure, without_faults
from evovpo.judging.measure import measure as measure_answers
from evovpo.proposers.sampler import Completion, Request, Weights, sample
from evovpo.search.selection import lexicase
from trainer.domains.domain import Domain
from trainer.learning.offline import Updater, UpdateSettings, spread_advantages
from trainer.learning.packing import TrainingRow
from trainer.learning.step_figures import group_figures, mean_figures
from trainer.objectives import batch_advantages, draw_weights, find_objective

_PROMPTS_AT_ONCE = 12
"""Prompts sampled in one batch when measuring."""
_WEIGHTINGS = 64
"""Of `expected_at_k`, the same for all models."""


@dataclass(frozen=True)
class Arm:
    """An objective with everything that an arm may choose for itself."""

    name: str
    objective: str
    answers: int
    """m, answers a completion."""
    rollouts: int
    """G, completions a prompt. Arms of one study get the same answers a prompt, m·G."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the objective."""
    learning_rate: float = 3e-4
    kl: float = 0.0
    entropy: float = 0.0
    single_share: float = 0.0
    """Share of prompts that ask for single answers, m·G of them, and are trained by `grpo`."""
    passes: int = 1
    """Optimiser steps on the rollouts of a step; more reuse them off policy."""
    parent_share: float = 0.0
    """Share of prompts, at most a half, that show a parent with its vector, as a search does. The parent is
    an answer of the same step to the same task; `_sample_step` has the rule."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.parent_share <= 0.5:
            raise ConfigError(
                f"arm {self.name}: parent_share is {self.parent_share:g}; expected 0 to 0.5, because each "
                "parent is an answer to another prompt of the same step; lower it"
            )


class TrainingBudget(NamedTuple):
    """What every arm of a study gets."""

    tokens: int
    """Completion tokens to sample; the step that reaches them is the last."""
    prompts: int = 12
    """P, prompts in a step."""
    tasks: int = 1000
    """Training tasks that steps draw from, in a seeded order without repetition until all were used."""


class TaskMeasure(NamedTuple):
    """What one task's answers are worth, and the completion tokens that they took."""

    measure: Measure
    tokens: int


def measure(
    model: Any, domain: Domain, tasks: Sequence[Any], answers: int, per_task: int, seed: int
) -> list[TaskMeasure]:
    """Return what `per_task` answers a task, in chains of `answers` at temperature 1, are worth.

    Raises `SandboxError` for a task none of whose completions can be judged.
    """
    weights = Weights(model)
    ends = _end_ids(model)
    chains = -(-per_task // answers)
    found = []
    for first in range(0, len(tasks), _PROMPTS_AT_ONCE):
        part = tasks[first : first + _PROMPTS_AT_ONCE]
        requests = [
            Request(domain.prompt_ids(task, answers), _seed(seed, first + index), tuple(range(chains)), 1.0,
                    domain.max_tokens(answers))
            for index, task in enumerate(part)
        ]  # fmt: skip
        for task, completions in zip(part, sample(weights, requests, ends), strict=True):
            judged = [domain.judge(task, completion.token_ids, answers) for completion in completions]
            tokens = sum(len(completion.token_ids) for completion in completions)
            found.append(TaskMeasure(measure_answers(judged), tokens))
    return found


class Curves(NamedTuple):
    """Figures of each task by k, (tasks, len(ks)) each."""

    best_at_k: list[list[float]]
    """Expected best mean reward of k answers."""
    pass_at_k: list[list[float]]
    """Probability that one of k answers is right."""
    expected_at_k: list[list[float]]
    """Expected best weighted reward of k answers, averaged over random weightings: what VPO trains for."""


def curves(measured: Sequence[TaskMeasure], ks: Sequence[int]) -> Curves:
    """Return the figures of each measured task by k, all exact but for the weightings, which are fixed."""
    found = Curves([], [], [])
    for task in measured:
        components = task.measure.rewards_C_m_D.shape[2]
        weights = draw_weights(components, _WEIGHTINGS, np.random.default_rng(0))
        found.best_at_k.append(task.measure.best_at_k(ks).tolist())
        found.pass_at_k.append(task.measure.pass_at_k(ks).tolist())
        found.expected_at_k.append(task.measure.expected_at_k(ks, weights).tolist())
    return found


def check_arm(arm: Arm, domain: Domain) -> None:
    """Raise `ConfigError` if an arm asks for prompts that the domain does not have."""
    if arm.parent_share > 0 and not domain.shows_parents:
        raise ConfigError(
            f"arm {arm.name}: parent_share is {arm.parent_share:g}, and prompts of the domain {domain.name} "
            "show no parents; set it to 0, or choose another domain"
        )


def load_start_model(domain: Domain) -> Any:
    """Return the start model, ready to be trained on a CPU."""
    return AutoModelForCausalLM.from_pretrained(domain.model_folder, attn_implementation="eager")


def train(
    arm: Arm,
    domain: Domain,
    budget: TrainingBudget,
    seed: int,
    on_step: Callable[[dict[str, float]], None] = lambda figures: None,
) -> tuple[Any, list[dict[str, float]]]:
    """Return the trained model and the figures of its steps.

    Each step samples P prompts, judges the answers, and makes the arm's updates. Raises `DivergedError` if
    a step is not finite, and `ConfigError`, before anything is spent, as `check_arm`.
    """
    check_arm(arm, domain)
    torch.manual_seed(seed)
    model = load_start_model(domain)
    reference = copy.deepcopy(model).eval() if arm.kl > 0 else None
    settings = UpdateSettings(learning_rate=arm.learning_rate, kl=arm.kl, entropy=arm.entropy)
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
        for _ in range(arm.passes):
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
    """One prompt's completions, judged."""

    objective: str
    prompt_ids: tuple[int, ...]
    completions: list[Completion]
    answers_G_M: list[list[JudgedAnswer]]  # noqa: N815
    rewards_G_M_D: list[list[tuple[float, ...]]]  # noqa: N815
    """With a repeated answer of a chain as zeros."""
    has_parent: bool
    """Whether the prompt showed one."""
    tokens: int
    """Of all completions, also of those left out."""
    faults: int
    """Completions left out because the sandbox failed on them."""


class _Ask(NamedTuple):
    """A task to be asked about, and the key of the answer to show as parent, or none."""

    task: Any
    parent: str | None = None


def _sample_step(
    arm: Arm, model: Any, domain: Domain, tasks: Sequence[Any], rng: np.random.Generator
) -> list[_Group]:
    """Return the judged groups of a step, one for each of P tasks unless parents are shown.

    With n prompts that show a parent, the first P - n tasks are asked about without one. Of these, the first
    n that have a parent to show (`_choose_parent`) are asked about again, with it; where fewer have one, the
    last tasks are asked about instead, without a parent. So a step has P groups with any share.
    """
    weights, end_ids = Weights(model), _end_ids(model)
    again = round(len(tasks) * arm.parent_share)
    asks = [_Ask(task) for task in tasks[: len(tasks) - again]]
    groups = _sample(arm, weights, end_ids, domain, asks, rng)
    if again:
        shown = []
        for ask, group in zip(asks, groups, strict=True):
            parent = _choose_parent(group.answers_G_M, rng)
            if parent is None:
                continue
            # A long answer to a long task may not fit into the model's context.
            if len(domain.prompt_ids(ask.task, arm.answers, parent)) < weights.context:
                shown.append(_Ask(ask.task, parent))
        rest = [_Ask(task) for task in tasks[len(asks) :][: max(0, again - len(shown))]]
        groups += _sample(arm, weights, end_ids, domain, [*shown[:again], *rest], rng)
    return groups


def _choose_parent(answers_G_M: Sequence[Sequence[JudgedAnswer]], rng: np.random.Generator) -> str | None:  # noqa: N803
    """Return the key of one of the different readable answers of a group, chosen as a search does by default.

    None if an answer is right, as a search would have ended, or none can be read.
    """
    pool = {answer.key: answer for chain in answers_G_M for answer in chain if answer.key is not None}
    if not pool or any(answer.is_right for answer in pool.values()):
        return None
    rewards_N_D = np.array([answer.rewards for answer in pool.values()])  # noqa: N806
    return list(pool)[lexicase(rewards_N_D, [0] * len(pool), rng)]


def _sample(
    arm: Arm,
    weights: Weights,
    end_ids: tuple[int, ...],
    domain: Domain,
    asks: Sequence[_Ask],
    rng: np.random.Generator,
) -> list[_Group]:
    is_single = rng.random(len(asks)) < arm.single_share
    requests, shapes = [], []
    for ask, single in zip(asks, is_single, strict=True):
        answers, rollouts = (1, arm.rollouts * arm.answers) if single else (arm.answers, arm.rollouts)
        shapes.append(("grpo" if single else arm.objective, answers))
        requests.append(
            Request(domain.prompt_ids(ask.task, answers, ask.parent), int(rng.integers(2**62)),
                    tuple(range(rollouts)), 1.0, domain.max_tokens(answers))
        )  # fmt: skip
    groups = []
    for ask, request, (objective, answers), completions in zip(
        asks, requests, shapes, sample(weights, requests, end_ids), strict=True
    ):
        judged = [domain.judge(ask.task, completion.token_ids, answers) for completion in completions]
        left = without_faults(judged)
        groups.append(
            _Group(
                objective=objective,
                prompt_ids=request.prompt_ids,
                completions=[completions[place] for place in left],
                answers_G_M=[judged[place] for place in left],
                rewards_G_M_D=[_blanked(judged[place]) for place in left],
                has_parent=ask.parent is not None,
                tokens=sum(len(completion.token_ids) for completion in completions),
                faults=len(judged) - len(left),
            )
        )
    return groups


def _blanked(chain: Sequence[JudgedAnswer]) -> list[tuple[float, ...]]:
    """Return the rewards of a chain, with zeros for an answer that repeats one before it."""
    seen: set[str | None] = set()
    rewards = []
    for answer in chain:
        assert answer.rewards is not None, "completions that the sandbox failed on are left out before"
        rewards.append((0.0,) * len(answer.rewards) if answer.key in seen else answer.rewards)
        seen.add(answer.key)
    return rewards


def _training_rows(
    arm: Arm, groups: Sequence[_Group], rng: np.random.Generator
) -> tuple[list[list[TrainingRow]], float]:
    """Return the rows of each group, and the share of groups with spread."""
    rows: list[list[TrainingRow]] = [[] for _ in groups]
    with_spread = 0
    for objective in dict.fromkeys(group.objective for group in groups):
        places = [index for index, group in enumerate(groups) if group.objective == objective]
        reads = find_objective(objective).settings
        settings = {name: value for name, value in arm.settings.items() if name in reads}
        found = batch_advantages(
            objective, [groups[index].rewards_G_M_D for index in places], rng=rng, **settings
        )
        for index, values in zip(places, found, strict=True):
            group = groups[index]
            with_spread += bool(values.any())
            spans = [[answer.span for answer in chain] for chain in group.answers_G_M]
            lengths = [len(completion.token_ids) for completion in group.completions]
            rows[index] = [
                TrainingRow(group.prompt_ids, completion.token_ids, completion.logprobs, advantages)
                for completion, advantages in zip(
                    group.completions, spread_advantages(values, spans, lengths), strict=True
                )
            ]
    return rows, with_spread / len(groups)


def _step_figures(groups: Sequence[_Group], with_spread: float) -> dict[str, float]:
    figures = []
    for group in groups:
        components = len(group.rewards_G_M_D[0][0])
        weights = draw_weights(components, 100, np.random.default_rng(0))
        keys = [[answer.key for answer in chain] for chain in group.answers_G_M]
        figures.append(group_figures([np.array(chain) for chain in group.rewards_G_M_D], keys, weights))
    return mean_figures(figures)._asdict() | {
        "zero_spread_share": 1 - with_spread,
        "faults": float(sum(group.faults for group in groups)),
    }


def _chosen_tasks(tasks: int, step: int, prompts: int, seed: int) -> list[int]:
    """Return the tasks of a step: an endless sequence of seeded permutations, cut into steps."""
    places = range(step * prompts, (step + 1) * prompts)
    orders = {
        epoch: np.random.default_rng([seed, epoch, 1]).permutation(tasks)
        for epoch in {p // tasks for p in places}
    }
    return [int(orders[place // tasks][place % tasks]) for place in places]


def _seed(seed: int, index: int) -> int:
    return int(np.random.default_rng([seed, index, 2]).integers(2**62))


def _end_ids(model: Any) -> tuple[int, ...]:
    found = model.generation_config.eos_token_id
    return (found,) if isinstance(found, int) else tuple(found)


def with_settings(arm: Arm, learning_rate: float, kl: float) -> Arm:
    """Return the arm with the two settings that are tuned."""
    return dataclasses.replace(arm, learning_rate=learning_rate, kl=kl)
