"""The trainer's configuration: one typed tree, read from a TOML file and `section.key=value` overrides.

Its resolved form is stored with every training and is part of the training's id. What is read (runs, store)
and where it goes (policies folder) are arguments of the command, not settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evovpo.options import LARGEST, Section, Tree, option

OBJECTIVE_NAMES = (
    "grpo", "max-at-k", "multi-rlvr", "random-weight", "gdpo", "maxrl", "vpo", "vpo-at-c", "vpo-to-go",
)  # fmt: skip
"""The objectives of `trainer/objectives.py`, which needs numpy; a test holds the two lists together."""


@dataclass(frozen=True, slots=True)
class ObjectiveConfig(Section):
    """What is rewarded."""

    section: ClassVar[str] = "objective"

    name: str = option(
        "vpo",
        "How advantages follow from reward vectors; for those who compare methods.",
        choices=OBJECTIVE_NAMES,
    )
    draws: int = option(
        100,
        "K, weightings drawn for a group; more for many components, at little cost.",
        low=1,
        high=1_000_000,
    )
    alpha: float = option(
        1.0, "Concentration of the weightings; below 1 for a problem of many components.", above=0.0
    )
    k: int = option(0, "Search budget in answers for max-at-k; 0 is half of a group.", low=0, high=LARGEST)
    c: int = option(
        4, "Search budget in chains for vpo-at-c; below the rollouts of a prompt.", low=1, high=LARGEST
    )
    reading: str = option(
        "max", "How multi-rlvr scores a chain: its best answer or their sum.", choices=("max", "sum")
    )
    sampler: str = option(
        "dirichlet",
        "Independent weightings or a scrambled Sobol sequence; for those who study the estimate's noise.",
        choices=("dirichlet", "sobol"),
    )


@dataclass(frozen=True, slots=True)
class UpdateConfig(Section):
    """How the weights are changed."""

    section: ClassVar[str] = "update"

    learning_rate: float = option(
        3e-4,
        "Of AdamW, constant; about 1e-5 for full weights of models of billions of parameters.",
        above=0.0,
        high=1e30,
    )
    kl: float = option(
        0.05, "Weight of the KL term to the start model; raise it if answers grow alike.", low=0.0
    )
    clip: float = option(0.2, "The importance ratio counts within 1 ± this; lower for stale data.", above=0.0)
    dual_clip: float = option(
        3.0, "Most that a negative advantage counts; 0 switches it off, as plain PPO does.", low=0.0
    )
    importance: str = option(
        "clip",
        "PPO's clipped ratio, or the ratio truncated from above as a weight; truncate for stale data.",
        choices=("clip", "truncate"),
    )
    truncate_at: float = option(2.0, "Largest weight where importance is truncate.", above=0.0)
    entropy: float = option(0.0, "Weight of an entropy bonus; above 0 if answers grow alike.", low=0.0)
    max_grad_norm: float = option(
        1.0, "Longer gradients are shortened to this; lower it if steps jump.", above=0.0
    )
    bf16: bool = option(False, "Compute in bfloat16; for models of billions of parameters on a GPU.")
    lora_rank: int = option(
        0, "Rank of a LoRA adapter to train instead of all weights; 0 trains all weights.", low=0, high=4096
    )
    groups_per_step: int = option(
        8, "Groups in one optimiser step; more for steadier and fewer steps.", low=1, high=100_000
    )
    passes: int = option(
        1, "How often each group is used; more for few groups, at the cost of staler ones.", low=1, high=1000
    )
    checkpoint_steps: int = option(
        10, "Steps between checkpoints; raise it for a large model on a slow disk.", low=1, high=LARGEST
    )


@dataclass(frozen=True, slots=True)
class DataConfig(Section):
    """Which groups are trained on."""

    section: ClassVar[str] = "data"

    staleness_limit: int = option(
        4,
        "Most policy versions between the one that wrote a group and the one trained; 0 uses only its own.",
        low=0,
        high=LARGEST,
    )


@dataclass(frozen=True, slots=True)
class ProbeConfig(Section):
    """How a new version is compared with its parent before it is served."""

    section: ClassVar[str] = "probe"

    problems: int = option(
        24, "Held-out problems; more for a finer comparison, 0 for none at all.", low=0, high=10_000
    )
    answers: int = option(
        48,
        "Answers sampled for each problem; at least the budget of the search that matters.",
        low=2,
        high=10_000,
    )
    serve_worse: bool = option(
        False,
        "Serve a version even if it is clearly worse than its parent; for those who judge for themselves.",
    )


@dataclass(frozen=True, slots=True)
class RunConfig(Section):
    """What tells one training from another with the same settings, and where it begins."""

    section: ClassVar[str] = "run"

    seed: int = option(
        0, "Source of all randomness; change it for an independent repetition.", low=0, high=LARGEST
    )
    model: str = option(
        "", "Folder of the start model; for runs sampled from a server, whose model name is no folder."
    )


@dataclass(frozen=True, slots=True)
class TrainConfig(Tree):
    """The whole configuration of a training, resolved and checked."""

    objective: ObjectiveConfig = ObjectiveConfig()
    update: UpdateConfig = UpdateConfig()
    data: DataConfig = DataConfig()
    probe: ProbeConfig = ProbeConfig()
    run: RunConfig = RunConfig()
