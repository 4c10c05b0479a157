"""The contents of a study file: arms, search strategies and budgets."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from evovpo.errors import ConfigError
from evovpo.experiments.toml_reader import Count, Numbers, Part, Positive, Share, several
from evovpo.types import Json
from trainer.domains.arm_training import TrainingArm, TrainingBudget

FIGURES = {
    "best_at_k": "best@k", "pass_at_k": "pass@k", "expected_at_k": "E_w best@k under random weightings",
    "pair_at_k": "pair@k: two of k are together right on every component",
}  # fmt: skip
"""Figures that rows have by k, with their titles; older rows lack the last one or two."""
START = "start"
"""Value of an arm's `model` for the start model of the study."""
TEST = "test tasks"
"""Value of `strategy` in rows of answers to test tasks."""


_Names = Annotated[
    tuple[str, ...],
    Field(title="names of arms"),
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]
_Rates = Annotated[
    tuple[Annotated[float, Field(ge=0)], ...],
    Field(title="different numbers, 0 or more", min_length=1),
    BeforeValidator(several),
]
_Temperatures = Annotated[
    tuple[Annotated[float, Field(gt=0)], ...],
    Field(title="different numbers above 0", min_length=1),
    BeforeValidator(several),
]


class StudyArm(Part):
    """One way to get a proposer, and its use in the study."""

    name: str
    model: str = ""
    """`start`, or a model folder; empty for an arm that is trained."""
    objective: str = ""
    """Training objective; the arm's own training settings follow. Empty for a given model."""
    settings: dict[str, Any] = Field({}, title="a table")
    answers: Positive = 1
    rollouts: Annotated[int, Field(ge=2)] = 24
    single_share: Share = 0.0
    parent_share: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    search_answers: Positive = 1
    """M, answers per completion in a search or on a test task."""
    tokens: Any = None
    """Must equal `training.tokens` of the study if given."""
    seeds: Positive = 1
    """Trainings, each used in one search per strategy; for a given model, searches per strategy."""
    tuned_as: str = ""
    """Arm whose tuned learning rate and KL coefficient this one uses; empty if it is tuned itself."""
    kl: Annotated[float | None, Field(ge=0)] = None
    """KL coefficient that replaces those of the grid; None uses the grid."""
    strategies: tuple[str, ...] = ()
    """Search strategies, in the order of the file."""
    evaluations: Positive = 1
    """Evaluations per search; set only to give an arm the compute of another one."""
    references: _Names = ()
    """Arms to compare with, in addition to the study's references."""

    @property
    def arm(self) -> TrainingArm | None:
        """The training settings without learning rate and KL; None for a given model."""
        chosen = ("answers", "rollouts", "settings", "single_share", "parent_share")
        values = {key: getattr(self, key) for key in chosen}
        return TrainingArm(self.objective, **values) if self.objective else None


class StudyStrategy(Part):
    """One search strategy."""

    name: str
    answers_per_ask: Positive = 12
    """M·G, answers per prompt, the same for all arms."""
    arms: _Names = ()
    """Arms that use it; empty for all."""
    seeds: Count = 0
    """Maximum number of an arm's seeds that use it; 0: all."""
    settings: Mapping[str, object] = Field({}, exclude=True)
    """Configuration sections: all other keys of its table."""

    @property
    def is_independent(self) -> bool:
        """True if its evaluations are independent draws, from which best@k can be estimated."""
        search = self.settings.get("search")
        return isinstance(search, Mapping) and search.get("strategy") == "iid"

    def settings_for(self, arm: StudyArm) -> dict[str, object]:
        """Return the settings of its runs with an arm's model; every arm has the same answers per prompt."""
        # Independent samples are not joined and continue after the first solution: best@k needs them all.
        search = self.settings.get("search", {})
        assert isinstance(search, Mapping)
        shape = {"answers": arm.search_answers, "rollouts": self.answers_per_ask // arm.search_answers}
        if self.is_independent:
            shape |= {"joins": False, "stop_when_solved": False}
        return {**self.settings, "search": {**search, **shape}}


class Tuning(Part):
    """The tuning grid, shared by all tuned arms, and the validation tasks that choose the best point."""

    learning_rates: _Rates = (1e-4, 3e-4)
    kls: _Rates = (0.0, 0.05, 0.2)
    tasks: Positive = 60
    temperatures: _Temperatures = (1.0,)
    """Sampling temperatures; each arm, given models included, uses its own best one."""
    figure: Literal["best_at_k", "pass_at_k", "expected_at_k", "pair_at_k"] = "best_at_k"
    """The best point has the highest mean of this figure over `ks`."""
    ks: Numbers = (1, 3, 6, 12, 24, 48)


class Test(Part):
    """The test tasks that every model answers."""

    tasks: Count = 0
    """Number of test tasks; 0 in a study of searches."""
    seed: Count = 0
    """Another seed gives new tasks, unseen by earlier studies."""
    evaluations: Count = 0
    """Evaluations of a search of each task, for figures of its first k answers; 0: independent answers."""
    answers_per_ask: Positive = 12
    """Answers per prompt of such a search."""
    joins: bool = True
    """Join complementary programs in such a search; routes through mazes cannot be joined."""


class Study(Part):
    """The contents of a study file. Its models search problems, or answer test tasks of the domain."""

    path: Path = Field(exclude=True)
    folder: Path = Field(exclude=True)
    """Folder of the rows and the report."""
    name: str
    description: Any = ""
    primary: str = Field("", title="the figure that decides, in a sentence")
    """The primary figure, fixed before the first row; older studies have none."""
    domain: str = "strings"
    start: Path
    problems: tuple[Path, ...] = ()
    evaluations: Positive = 600
    ks: Numbers = (1, 3, 10, 30, 96)
    references: tuple[str, ...] = ()
    """Arms that all others are compared with; `unlocked` problems are counted against the first."""
    training: Annotated[TrainingBudget, Field(title="a [training] table")] = TrainingBudget()
    tuning: Annotated[Tuning, Field(title="a [tuning] table")] = Tuning()
    test: Annotated[Test, Field(title="a [test] table")] = Test()
    seeds: Positive = 3
    strategies: tuple[StudyStrategy, ...] = ()
    """Empty if models answer test tasks; `solved_by_search` and `unlocked` refer to the first one."""
    arms: tuple[StudyArm, ...] = ()

    def arm(self, name: str) -> StudyArm:
        """Return an arm by name."""
        return next(arm for arm in self.arms if arm.name == name)

    def strategy(self, name: str) -> StudyStrategy:
        """Return a strategy by name."""
        return next(strategy for strategy in self.strategies if strategy.name == name)

    def strategies_of(self, arm: StudyArm) -> tuple[str, ...]:
        """Return the values of `strategy` in the rows of an arm."""
        return (TEST,) if self.test.tasks else arm.strategies

    def seeds_of(self, arm: StudyArm, strategy: str) -> range:
        """Return the seeds of an arm that use a strategy or answer test tasks."""
        most = 0 if strategy == TEST else self.strategy(strategy).seeds
        return range(min(arm.seeds, most or arm.seeds))

    def resolved(self) -> dict[str, Json]:
        """Return the settings that the exported rows depend on, grouped by the part of the study."""
        found: dict[str, Json] = {
            "training": {
                "domain": self.domain,
                "start": start_digest(self.start),
                **dict(self.training),
                "tuning_tasks": self.tuning.tasks,
            },
        }
        # Older rows were written without default values.
        if tuning := self.tuning.model_dump(include={"temperatures", "figure", "ks"}, exclude_defaults=True):
            found["tuning"] = tuning
        if self.test.tasks:
            found["test"] = self.test.model_dump(exclude_defaults=True) | {"ks": list(self.ks)}
        for strategy in self.strategies:
            settings = {section: dict(values) for section, values in strategy.settings.items()}  # type: ignore[call-overload]
            found[f"strategy {strategy.name}"] = {"answers_per_ask": strategy.answers_per_ask, **settings}
        for arm in self.arms:
            found[f"arm {arm.name}"] = {
                "trained": recipe(arm.arm) if arm.arm is not None else "",
                "model": arm.model if arm.model in ("", START) else start_digest(Path(arm.model)),
                **arm.model_dump(include={"tuned_as", "search_answers", "evaluations"}),
                **({} if arm.kl is None else {"kl": arm.kl}),  # older rows were written without one
            }
        return found


def recipe(arm: TrainingArm) -> str:
    """Return an arm's non-default training settings, without learning rate and KL, as one word."""
    parts = [f"{arm.objective}-m{arm.answers}x{arm.rollouts}"]
    plain = {name: value if isinstance(value, str) else f"{value:g}" for name, value in arm.settings.items()}
    parts += [f"{name}{value}" for name, value in sorted(plain.items())]
    for field in ("single_share", "parent_share"):
        if value := getattr(arm, field):
            parts.append(f"{field.replace('_', '-')}{value:g}")
    return "-".join(parts)


def start_digest(folder: Path) -> str:
    """Return a hash of a model's weights. Raises `ConfigError` if there are none."""
    try:
        return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise ConfigError(
            f"start: {folder}: expected a model folder with model.safetensors ({error.strerror}); make it, "
            "or name another"
        ) from error


def store_url(work: Path) -> str:
    """Return the store of a study's searches."""
    return f"sqlite:///{(work / 'study.db').resolve()}"
