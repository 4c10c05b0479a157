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
"""Statistics by k in a study's rows, with their titles. Rows of old studies lack the last one or two."""
START = "start"
"""Value of an arm's `model` that means the start model of the study."""
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
    """An arm of a study: a model to train or to use unchanged, and how the study uses the model."""

    name: str
    model: str = ""
    """`start`, or a model folder; empty for an arm that is trained."""
    objective: str = ""
    """Training objective; empty for an untrained arm. The fields down to `parent_share` are for training."""
    settings: dict[str, Any] = Field({}, title="a table")
    answers: Positive = 1
    rollouts: Annotated[int, Field(ge=2)] = 24
    single_share: Share = 0.0
    parent_share: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    search_answers: Positive = 1
    """M, answers per completion in a search or on a test task."""
    tokens: Any = None
    """If given, this must equal `training.tokens` of the study."""
    seeds: Positive = 1
    """Number of models to train; for an untrained arm, number of repetitions of its searches."""
    tuned_as: str = ""
    """Arm whose tuned learning rate and KL coefficient this arm uses; empty if this arm is tuned itself."""
    kl: Annotated[float | None, Field(ge=0)] = None
    """KL coefficient instead of those in the tuning grid; None: use the grid."""
    strategies: tuple[str, ...] = ()
    evaluations: Positive = 1
    """Evaluations per search. Set this key only to give the arm the same compute as another arm."""
    references: _Names = ()
    """Arms to compare with, in addition to the study's references."""

    @property
    def arm(self) -> TrainingArm | None:
        """The training settings without learning rate and KL coefficient; None for an untrained arm."""
        chosen = ("answers", "rollouts", "settings", "single_share", "parent_share")
        values = {key: getattr(self, key) for key in chosen}
        return TrainingArm(self.objective, **values) if self.objective else None


class StudyStrategy(Part):
    name: str
    answers_per_ask: Positive = 12
    """M·G, answers per prompt, the same for all arms."""
    arms: _Names = ()
    """Names of the arms that use the strategy; empty for all arms."""
    seeds: Count = 0
    """Maximum number of an arm's seeds that use the strategy; 0 for all seeds."""
    settings: Mapping[str, object] = Field({}, exclude=True)
    """Configuration sections of a search: the keys of the strategy's table without a field here."""

    @property
    def is_independent(self) -> bool:
        """True if the answers are independent samples, from which best@k can be estimated."""
        search = self.settings.get("search")
        return isinstance(search, Mapping) and search.get("strategy") == "iid"

    def settings_for(self, arm: StudyArm) -> dict[str, object]:
        """Return the settings of an arm's runs. All arms get the same number of answers per prompt."""
        # Independent samples are not joined and continue after the first solution: best@k needs them all.
        search = self.settings.get("search", {})
        assert isinstance(search, Mapping)
        shape = {"answers": arm.search_answers, "rollouts": self.answers_per_ask // arm.search_answers}
        if self.is_independent:
            shape |= {"joins": False, "stop_when_solved": False}
        return {**self.settings, "search": {**search, **shape}}


class Tuning(Part):
    """The grid of training settings to try for each tuned arm, and how to choose the best grid point."""

    learning_rates: _Rates = (1e-4, 3e-4)
    kls: _Rates = (0.0, 0.05, 0.2)
    tasks: Positive = 60
    temperatures: _Temperatures = (1.0,)
    """Sampling temperatures to try. The best one is chosen for each arm, also for untrained arms."""
    figure: Literal["best_at_k", "pass_at_k", "expected_at_k", "pair_at_k"] = "best_at_k"
    """Statistic to choose by: the best grid point has the highest mean over `ks` and validation tasks."""
    ks: Numbers = (1, 3, 6, 12, 24, 48)


class Test(Part):
    """The test tasks that every model answers."""

    tasks: Count = 0
    """Number of test tasks; 0 in a study of searches."""
    seed: Count = 0
    """Seed of the test tasks. A new seed gives tasks that no earlier study used."""
    evaluations: Count = 0
    """Evaluations in the search of a test task; 0: no search, the model samples independent answers."""
    answers_per_ask: Positive = 12
    """Answers per prompt in the search of a test task."""
    joins: bool = True
    """Whether the search of a test task joins complementary programs; maze routes cannot be joined."""


class Study(Part):
    """The contents of a study file. The models of a study either search problems or answer test tasks."""

    path: Path = Field(exclude=True)
    folder: Path = Field(exclude=True)
    name: str
    description: Any = ""
    primary: str = Field("", title="the figure that decides, in a sentence")
    """The result that decides the study, in words, fixed before the first row; old studies have none."""
    domain: str = "strings"
    start: Path
    problems: tuple[Path, ...] = ()
    evaluations: Positive = 600
    ks: Numbers = (1, 3, 10, 30, 96)
    references: tuple[str, ...] = ()
    """Arms that all others are compared with. Problems that the first reference solves are not `unlocked`."""
    training: Annotated[TrainingBudget, Field(title="a [training] table")] = TrainingBudget()
    tuning: Annotated[Tuning, Field(title="a [tuning] table")] = Tuning()
    test: Annotated[Test, Field(title="a [test] table")] = Test()
    seeds: Positive = 3
    strategies: tuple[StudyStrategy, ...] = ()
    """Strategies; empty with test tasks. In the report, `solved_by_search` and `unlocked` use the first."""
    arms: tuple[StudyArm, ...] = ()

    def arm(self, name: str) -> StudyArm:
        return next(arm for arm in self.arms if arm.name == name)

    def strategy(self, name: str) -> StudyStrategy:
        return next(strategy for strategy in self.strategies if strategy.name == name)

    def strategies_of(self, arm: StudyArm) -> tuple[str, ...]:
        """Return the strategy names in an arm's rows: only `TEST` if the study has test tasks."""
        return (TEST,) if self.test.tasks else arm.strategies

    def seeds_of(self, arm: StudyArm, strategy: str) -> range:
        most = 0 if strategy == TEST else self.strategy(strategy).seeds
        return range(min(arm.seeds, most or arm.seeds))

    def resolved(self) -> dict[str, Json]:
        """Return the settings that the study's rows depend on, grouped by part of the study file."""
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
                **({} if arm.kl is None else {"kl": arm.kl}),  # older rows were written without a `kl`
            }
        return found


def recipe(arm: TrainingArm) -> str:
    """Return a short name for an arm's training settings without learning rate and KL coefficient."""
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
    return f"sqlite:///{(work / 'study.db').resolve()}"
