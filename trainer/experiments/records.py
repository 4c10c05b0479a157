"""What a study consists of: arms, strategies of search, and what is spent on them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evovpo.errors import ConfigError
from evovpo.types import Json
from trainer.domains.on_policy import Arm, TrainingBudget

START = "start"
"""What `model` of an arm says for the start model of the study."""
TEST = "test tasks"
"""What rows of answers to test tasks have in the place of a strategy of search."""


@dataclass(frozen=True)
class StudyArm:
    """One way to get a proposer, with what the study does with it."""

    name: str
    arm: Arm | None
    """What is trained, without learning rate and KL; None for a given model."""
    model: str
    """`start`, or a model folder; empty for an arm that is trained."""
    search_answers: int
    """M, answers asked for in one completion of a search or on a test task."""
    seeds: int
    """Trainings, each searched with once a strategy; of a given model, searches a strategy."""
    tuned_as: str
    """Another arm, whose learning rate and KL this one takes; empty for one that is tuned itself."""
    rounds: int
    """Trainings while it searches; 0 for an arm that is trained before."""
    strategies: tuple[str, ...]
    """In the order of the file."""
    evaluations: int
    """Of one search; other than the study's only to give an arm the compute of another."""
    references: tuple[str, ...]
    """Arms that it is compared with besides the study's references."""

    @property
    def is_trained_before(self) -> bool:
        """True if its model comes of a training on the domain's tasks."""
        return self.arm is not None and not self.rounds


@dataclass(frozen=True)
class Strategy:
    """One way to search."""

    name: str
    answers_per_ask: int
    """M·G of every ask, the same for all arms."""
    settings: Mapping[str, object]
    """Sections with keys, as in a configuration file."""
    arms: tuple[str, ...]
    """Those that search with it; empty for all."""
    seeds: int
    """Most seeds of an arm that search with it; 0 for all."""

    @property
    def is_independent(self) -> bool:
        """True if its evaluations are independent draws, from which best@k can be estimated."""
        search = self.settings.get("search")
        return isinstance(search, Mapping) and search.get("strategy") == "iid"


@dataclass(frozen=True)
class Study:
    """A study as its file says. Its models search problems, or they answer test tasks of the domain."""

    path: Path
    folder: Path
    """Where the rows and the report lie."""
    name: str
    domain: str
    start: Path
    problems: tuple[Path, ...]
    evaluations: int
    ks: tuple[int, ...]
    references: tuple[str, ...]
    """Arms that others are compared with; of the first one it is said what others unlock against it."""
    budget: TrainingBudget
    learning_rates: tuple[float, ...]
    kls: tuple[float, ...]
    tuning_tasks: int
    test_tasks: int
    """Test tasks that every model answers; 0 in a study that searches."""
    seeds: int
    strategies: tuple[Strategy, ...]
    """The first is the one that `solved_by_search` and `unlocked` speak of; none where tasks are answered."""
    arms: tuple[StudyArm, ...]

    @property
    def figures(self) -> dict[str, str]:
        """The figures by k that rows hold, with their titles."""
        found = {"best_at_k": "best@k", "pass_at_k": "pass@k"}
        if self.test_tasks:
            found["expected_at_k"] = "E_w best@k under random weightings"
        return found

    def arm(self, name: str) -> StudyArm:
        """Return an arm by name."""
        return next(arm for arm in self.arms if arm.name == name)

    def strategy(self, name: str) -> Strategy:
        """Return a strategy by name."""
        return next(strategy for strategy in self.strategies if strategy.name == name)

    def sampled_by(self, arm: StudyArm) -> list[str]:
        """Return by what independent answers of an arm are drawn."""
        if self.test_tasks:
            return [TEST]
        return [one.name for one in self.strategies if one.is_independent and one.name in arm.strategies]

    def seeds_of(self, arm: StudyArm, strategy: str) -> range:
        """Return the seeds of an arm that search with a strategy, or answer test tasks."""
        most = 0 if strategy == TEST else self.strategy(strategy).seeds
        return range(min(arm.seeds, most or arm.seeds))

    def resolved(self) -> dict[str, Json]:
        """Return what rows of the export depend on, by what they belong to: the same names, the same rows."""
        found: dict[str, Json] = {
            "training": {
                "domain": self.domain,
                "start": start_digest(self.start),
                **self.budget._asdict(),
                "tuning_tasks": self.tuning_tasks,
            },
        }
        if self.test_tasks:
            found["test"] = {"tasks": self.test_tasks, "ks": list(self.ks)}
        for strategy in self.strategies:
            settings = {section: dict(values) for section, values in strategy.settings.items()}  # type: ignore[call-overload]
            found[f"strategy {strategy.name}"] = {"answers_per_ask": strategy.answers_per_ask, **settings}
        for arm in self.arms:
            found[f"arm {arm.name}"] = {
                "trained": recipe(arm.arm) if arm.arm is not None else "",
                "model": arm.model if arm.model in ("", START) else start_digest(Path(arm.model)),
                "tuned_as": arm.tuned_as,
                "while_searching": arm.rounds,
                "search_answers": arm.search_answers,
                "evaluations": arm.evaluations,
            }
        return found


def recipe(arm: Arm) -> str:
    """Return in a word what an arm chooses for its training but learning rate and KL, without defaults."""
    parts = [f"{arm.objective}-m{arm.answers}x{arm.rollouts}"]
    parts += [f"{name}{value:g}" for name, value in sorted(arm.settings.items())]
    for field, plain in (("single_share", 0.0), ("parent_share", 0.0), ("entropy", 0.0), ("passes", 1)):
        value = getattr(arm, field)
        if value != plain:
            parts.append(f"{field.replace('_', '-')}{value:g}")
    return "-".join(parts)


def start_digest(folder: Path) -> str:
    """Return a hash of a model's weights. Raises `ConfigError` if there are none."""
    weights = folder / "model.safetensors"
    try:
        return hashlib.sha256(weights.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise ConfigError(
            f"start: {folder}: expected a model folder with model.safetensors ({error.strerror}); make it, "
            "or name another"
        ) from error


def store_url(work: Path) -> str:
    """Return the store of a study's searches."""
    return f"sqlite:///{(work / 'study.db').resolve()}"
