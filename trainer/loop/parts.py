"""The folder of searches that train as they go: what each part cost, and what all of it came to.

Beside the store and the policies it holds a file for each part that is done, because the store knows no CPU
time.
"""

import dataclasses
import json
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from evovpo.errors import ConfigError
from evovpo.files import write_json
from evovpo.store import Store, solved_at
from evovpo.types import Problem

_Part = TypeVar("_Part", "SearchPart", "TrainingPart")


@dataclass(frozen=True)
class SearchPart:
    """One round of one run."""

    run: str
    problem: str
    round: int
    evaluations: int
    """Of the run so far."""
    solved: bool
    is_ended: bool
    """True if there is nothing left for later rounds."""
    cpu_seconds: float = 0.0
    """Of the process that sampled, and of the sandbox."""
    seconds: float = 0.0


@dataclass(frozen=True)
class TrainingPart:
    """The training after a round."""

    round: int
    version: int | None
    """The policy version that it made; none if it made none."""
    why_not: str
    """Why it made none: nothing to train on, or diverged; else empty."""
    through: dict[str, str]
    """The prompt of the last group that it read, by run."""
    steps: int
    groups: int
    """Trained on, each as often as it was."""
    tokens: int
    """Completion tokens trained on, likewise."""
    cpu_seconds: float = 0.0
    """Reading the groups, training, writing and checking the version."""
    seconds: float = 0.0


@dataclass(frozen=True)
class ProblemResult:
    """What the search of one problem came to."""

    problem: str
    run: str
    evaluations: int
    solved_after: int | None
    """Evaluations up to the first program that is right on all training rows; none if there is none."""
    curve: tuple[tuple[int, float], ...]
    """Evaluations and best mean reward, wherever that rises."""
    tokens: int
    """Completion tokens sampled."""
    cpu_seconds: float
    """Of the search alone."""


@dataclass(frozen=True)
class SearchTrainingResult:
    """What all of it came to; `result.json` in the folder holds the same."""

    problems: tuple[ProblemResult, ...]
    trainings: tuple[TrainingPart, ...]
    search_cpu_seconds: float
    training_cpu_seconds: float

    @property
    def compute_ratio(self) -> float:
        """Return all CPU seconds by those of the searches alone: what a frozen search may use as well."""
        return 1.0 + self.training_cpu_seconds / self.search_cpu_seconds


def claim(folder: Path, plan_id: str, about: Mapping[str, object]) -> None:
    """Make a folder the plan's own. Raises `ConfigError` if it is another's."""
    path = folder / "plan.json"
    (folder / "parts").mkdir(parents=True, exist_ok=True)
    if path.exists():
        if json.loads(path.read_text())["id"] != plan_id:
            raise ConfigError(
                f"{folder} holds searches that train with other settings, problems or rounds ({path}); "
                "finish them with those, or give another folder"
            )
        return
    write_json(path, {"id": plan_id, **about})


def store_url(folder: Path) -> str:
    """Return the store in a folder."""
    return f"sqlite:///{(folder / 'runs.db').resolve()}"


def done_once(kind: type[_Part], folder: Path, name: str, work: Callable[[Store], _Part]) -> _Part:
    """Return a part from its file, or else do it and write it there with the time that it took."""
    file = folder / "parts" / f"{name}.json"
    if file.exists():
        return kind(**json.loads(file.read_text()))
    cpu, began = _cpu_seconds(), time.monotonic()
    with Store.open(store_url(folder), create=False) as store:
        found = work(store)
    cpu, seconds = _cpu_seconds() - cpu, time.monotonic() - began
    part = dataclasses.replace(found, cpu_seconds=round(cpu, 3), seconds=round(seconds, 3))
    write_json(file, dataclasses.asdict(part))
    return part


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of the children that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def sum_up(
    folder: Path,
    problems: Sequence[Problem],
    searches: Sequence[SearchPart],
    trainings: Sequence[TrainingPart],
) -> SearchTrainingResult:
    """Return what the parts of all problems came to, and write it to `result.json`."""
    found = []
    with Store.open(store_url(folder), create=False) as store:
        for problem in problems:
            parts = [part for part in searches if part.problem == problem.id]
            summary = store.run_summary(parts[0].run)
            curve: list[tuple[int, float]] = []
            for point in summary.curve:
                if not curve or point.best_mean_reward > curve[-1][1]:
                    curve.append((point.evaluations, point.best_mean_reward))
            found.append(
                ProblemResult(
                    problem=problem.id,
                    run=parts[0].run,
                    evaluations=summary.proposed,
                    solved_after=solved_at(summary.curve, len(problem.objectives)),
                    curve=tuple(curve),
                    tokens=summary.tokens,
                    cpu_seconds=round(sum(part.cpu_seconds for part in parts), 3),
                )
            )
    result = SearchTrainingResult(
        tuple(found),
        tuple(trainings),
        round(sum(part.cpu_seconds for part in searches), 3),
        round(sum(part.cpu_seconds for part in trainings), 3),
    )
    shown = dataclasses.asdict(result) | {"compute_ratio": round(result.compute_ratio, 4)}
    write_json(folder / "result.json", shown)
    return result
