"""The trainer's configuration: one typed tree, read from a TOML file and `section.key=value` overrides.

Its resolved form is stored with every training and is part of the training's id. What is read (runs, store)
and where it goes (policies folder) are arguments of the command, not settings.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from evovpo.config_tree import AboveZero, Count, NotNegative, Section, Share, Tree

ObjectiveName = Literal[
    "grpo", "max-at-k", "multi-rlvr", "random-weight", "vpo", "vpo-at-k", "rosa", "join-at-k",
]  # fmt: skip
"""The objectives of `trainer/objectives.py`; a test holds the two lists together."""


_LISTED = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
"""Files have lists where settings are tuples."""


class ObjectiveConfig(Section):
    """What is rewarded."""

    name: ObjectiveName = "vpo-at-k"
    """How advantages follow from reward vectors; for those who compare methods."""
    draws: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """K, weightings drawn for a group; more for many components, at little cost."""
    alpha: AboveZero = 1.0
    """Concentration of the weightings; below 1 for a problem of many components."""
    k: Count = 0
    """Search budget in answers of those called -at-k; 0 is half of a group, but for max-at-k at most 8."""
    scalar: Annotated[tuple[NotNegative, ...], _LISTED, "a list of numbers, 0 or more"] = ()
    """Weights of the components in the one number of grpo, max-at-k and multi-rlvr; empty for their mean."""

    @property
    def settings(self) -> dict[str, Any]:
        """What `trainer.objectives` is told beside the name."""
        return self.model_dump(exclude={"name"})


class UpdateConfig(Section):
    """How the weights are changed."""

    learning_rate: Annotated[float, Field(gt=0.0, le=1e30)] = 3e-4
    """AdamW's constant learning rate; about 1e-5 to train all weights of a billion-parameter model."""
    kl: NotNegative = 0.05
    """Weight of the KL term to the start model; raise it if answers grow alike."""
    clip: AboveZero = 0.2
    """The importance ratio counts within 1 ± this; lower for stale data."""
    bf16: bool = False
    """Compute in bfloat16; for models of billions of parameters on a GPU."""
    lora_rank: Annotated[int, Field(ge=0, le=4096)] = 0
    """Rank of a LoRA adapter to train instead of all weights; 0 trains all weights."""
    groups_per_step: Annotated[int, Field(ge=1, le=100_000)] = 8
    """Groups in one optimiser step; more for steadier and fewer steps."""
    passes: Annotated[int, Field(ge=1, le=1000)] = 1
    """How often each group is used; more for few groups, at the cost of staler ones."""


class DataConfig(Section):
    """Which groups are trained on."""

    rollouts: Annotated[int, Field(ge=0, le=1024)] = 0
    """Join groups of one prompt up to so many rollouts; for runs of few rollouts a prompt."""
    staleness_limit: Count = 4
    """Most policy versions between the one that wrote a group and the one trained; 0 uses only its own."""


class ImitateConfig(Section):
    """What is learned from programs that the searches hold, whoever wrote them."""

    share: Share = 0.0
    """Share of the loss; 0 learns from rewards alone, 1 imitates alone. Above 0 it begins at version 0."""
    passes: Annotated[int, Field(ge=1, le=1000)] = 4
    """How often each target is shown on average where it is imitated alone."""
    targets_per_step: Annotated[int, Field(ge=1, le=10_000)] = 16
    """Targets in a step; more for steadier and fewer steps."""
    replay: Annotated[float, Field(ge=0.0, le=0.9)] = 0.5
    """Share of pretraining data beside targets; other models than the built-in one have update.kl alone."""


class ProbeConfig(Section):
    """How a new version is compared with its parent before it is served."""

    problems: Annotated[int, Field(ge=0, le=10_000)] = 24
    """Held-out problems; more for a finer comparison, 0 for none at all."""
    answers: Annotated[int, Field(ge=2, le=10_000)] = 48
    """Answers sampled for each problem; at least the budget of the search that matters."""
    evaluations: Count = 60
    """Budget of the search of each of these problems, beside the answers; 0 leaves searches out."""
    serve_worse: bool = False
    """Serve a version even if it is clearly worse than its parent; for those who judge for themselves."""


class TrainingRunConfig(Section):
    """What tells one training from another with the same settings, and where it begins."""

    seed: Count = 0
    """Source of all randomness; change it for an independent repetition."""
    model: str = ""
    """Folder of the start model; for runs sampled from a server, whose model name is no folder."""


class TrainConfig(Tree):
    """The whole configuration of a training, resolved and checked."""

    objective: ObjectiveConfig = ObjectiveConfig()
    update: UpdateConfig = UpdateConfig()
    data: DataConfig = DataConfig()
    imitate: ImitateConfig = ImitateConfig()
    probe: ProbeConfig = ProbeConfig()
    run: TrainingRunConfig = TrainingRunConfig()
