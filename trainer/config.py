"""The trainer's settings, read from a TOML file and changed by `SECTION.KEY=VALUE` options.

The settings in effect are stored with every training, and the training's id depends on these settings.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from evovpo.config_tree import AboveZero, Count, NotNegative, Positive, Section, Tree

ObjectiveName = Literal[
    "grpo", "max-at-k", "multi-rlvr", "random-weight", "vpo", "vpo-at-k", "rosa", "join-at-k",
]  # fmt: skip
"""The objectives of `trainer/objectives.py`; a test checks that the two lists agree."""


class ObjectiveConfig(Section):
    """The training objective, which turns rewards into advantages."""

    name: ObjectiveName = "vpo-at-k"
    """Training objective; change it to compare methods."""
    draws: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """K, number of weightings per group; raise it for many components, at little cost."""
    alpha: AboveZero = 1.0
    """Dirichlet concentration of the weightings; set it below 1 for many components."""
    k: Positive | None = None
    """k of the -at-k objectives. None: half of the group, but at most 8 (max-at-k: without this limit)."""
    scalar: Annotated[tuple[NotNegative, ...], "a list of numbers, 0 or more"] = ()
    """Component weights of the scalar reward in grpo, max-at-k and multi-rlvr; empty for the mean."""

    @property
    def settings(self) -> dict[str, Any]:
        return self.model_dump(exclude={"name"})


class UpdateConfig(Section):
    """The optimiser and the loss."""

    gone: ClassVar[Mapping[str, str]] = {"clip": "it is 0.2; leave it out"}

    learning_rate: Annotated[float, Field(gt=0.0, le=1e30)] = 3e-4
    """AdamW's constant learning rate; about 1e-5 to train all weights of a billion-parameter model."""
    kl: NotNegative = 0.05
    """Weight of the KL term to the start model; raise it if answers become too similar."""
    bf16: bool = False
    """Compute in bfloat16; for billion-parameter models on a GPU."""
    lora_rank: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Rank of a LoRA adapter to train instead of all weights; None: all weights."""
    groups_per_step: Annotated[int, Field(ge=1, le=100_000)] = 8
    """Groups per optimiser step; raise it for fewer, steadier steps."""
    passes: Annotated[int, Field(ge=1, le=1000)] = 1
    """Passes over each group; raise it if groups are few, at the price of staleness."""


class DataConfig(Section):
    """The selection of the groups (rollouts of one prompt each) to train on."""

    gone: ClassVar[Mapping[str, str]] = {"rollouts": "search with search.rollouts=8 instead"}

    staleness_limit: Count = 4
    """Maximum age of a group, in policy versions; 0 uses only groups of the version being trained."""


class ImitateConfig(Section):
    """Imitation of the best programs of the searches."""

    gone: ClassVar[Mapping[str, str]] = {
        "replay": "it is 0.5; leave it out",
        "targets_per_step": "it is 16; leave it out",
    }

    share: Annotated[int, Field(ge=0, le=1)] = 0
    """0: learn from rewards; 1: imitate the best programs, always starting from version 0."""
    passes: Annotated[int, Field(ge=1, le=1000)] = 4
    """Number of passes over the programs to imitate."""


class ProbeConfig(Section):
    """The comparison of a new version with its parent, before searches use the new version."""

    problems: Annotated[int, Field(ge=0, le=10_000)] = 24
    """Held-out problems; raise it for a finer comparison; 0: no comparison."""
    answers: Annotated[int, Field(ge=2, le=10_000)] = 48
    """Answers sampled per problem; raise it to the budget of your later searches."""
    evaluations: Count = 60
    """Budget of an additional search of each problem; 0 for none."""
    serve_worse: bool = False
    """Serve a version even if it is clearly worse than its parent."""


class TrainingRunConfig(Section):
    """Seed and start model of a training."""

    seed: Count = 0
    """Source of all randomness; change it for an independent repetition."""
    model: str | None = None
    """Folder of the start model; needed if the runs were sampled from a server."""


class TrainConfig(Tree):
    """The whole configuration of a training."""

    objective: ObjectiveConfig = ObjectiveConfig()
    update: UpdateConfig = UpdateConfig()
    data: DataConfig = DataConfig()
    imitate: ImitateConfig = ImitateConfig()
    probe: ProbeConfig = ProbeConfig()
    run: TrainingRunConfig = TrainingRunConfig()
