"""The export of a study: a row (one line of JSON) for every finished training and search.

An answered test task counts as a search with the strategy `test tasks`. A continued study runs no training or
search that has a row. `study.json` has the settings of all rows. A study with other settings is refused.
"""

import bz2
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evovpo.analysis.statistics import Array
from evovpo.errors import ConfigError
from evovpo.experiments.results import run_row
from evovpo.files import write_json
from evovpo.judging.measure import measure_groups
from evovpo.problem.suites import problem_id
from evovpo.store import Store
from evovpo.types import Problem
from trainer.experiments.study import Study, StudyArm


class SearchKey(NamedTuple):
    """Identifies the row of one search or of one answered test task."""

    arm: str
    strategy: str
    seed: int
    problem: str


def _key(row: Mapping[str, Any]) -> SearchKey:
    return SearchKey(*(row[name] for name in SearchKey._fields))


def by_name(figures: Mapping[str, Array], ks: Sequence[int], digits: int) -> dict[str, dict[str, float]]:
    """Return rounded statistics in the form that rows store: `{name: {k: value}}`, with k as a string."""
    return {
        name: dict(zip(map(str, ks), np.round(values, digits).tolist(), strict=True))
        for name, values in figures.items()
    }


def task_name(number: int) -> str:
    return f"test {number:04d}"


class Export:
    """The exported rows of one study, and the folder with their files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.trainings = {row["training"]: row for row in self._rows("trainings")}
        self.searches = {_key(row): row for row in self._rows("searches")}

    def hold(self, study: Study) -> None:
        """Store the settings of `study`. Raises `ConfigError` if existing rows have other settings."""
        path = self._folder / "study.json"
        before: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        for part in before.values():
            if part.get("while_searching") == 0:  # older exports wrote this default
                del part["while_searching"]
        now = json.loads(json.dumps(study.resolved()))
        changed = [
            f"- {part}: {key} was {before[part].get(key)!r} and is {now[part].get(key)!r}"
            for part in now
            if part in before
            for key in sorted({*before[part], *now[part]})
            if before[part].get(key) != now[part].get(key)
        ]
        if changed:
            raise ConfigError(
                f"{self._folder} holds rows that were made with other settings; give the arm or strategy "
                "another name, put the settings back, or move the folder away:\n" + "\n".join(changed)
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        write_json(path, before | now, indent=2)

    def missing(self, study: Study, arm: StudyArm) -> list[SearchKey]:
        """Return the keys of an arm's searches or test tasks that have no row yet."""
        problems = [problem_id(path) for path in study.problems]
        if study.test.tasks:
            problems = [task_name(number) for number in range(study.test.tasks)]
        return [
            key
            for strategy in study.strategies_of(arm)
            for seed in study.seeds_of(arm, strategy)
            for problem in problems
            if (key := SearchKey(arm.name, strategy, seed, problem)) not in self.searches
        ]

    def add_training(self, row: dict[str, Any]) -> None:
        """Append the row of a finished training. Raises `OSError` if the disk is full."""
        self._append("trainings", [row])
        self.trainings[row["training"]] = row

    def add_searches(self, rows: Sequence[dict[str, Any]]) -> None:
        """Append the rows of finished searches. Raises `OSError` if the disk is full."""
        self._append("searches", rows)
        self.searches |= {_key(row): row for row in rows}

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.jsonl"

    def _rows(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield all stored rows. An incomplete last row, left by a crash, is removed from its file."""
        path, packed = self._path(name), self._folder / f"{name}.jsonl.bz2"
        before = bz2.decompress(packed.read_bytes()) if packed.exists() else b""
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(path, len(whole))
        for number, line in enumerate((before + whole).splitlines(), 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ConfigError(
                    f"{path}, line {number}: expected a JSON row ({error}); remove the line"
                ) from error

    def _append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        lines = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        try:
            with self._path(name).open("ab", buffering=0) as file:
                file.write(lines.encode())
                os.fsync(file.fileno())
        except PermissionError as error:
            raise ConfigError(
                f"{self._path(name)}: a finished row cannot be written ({error.strerror}); allow it: the "
                "same command goes on"
            ) from error


def search_row(store: Store, run_id: str, problem: Problem, ks: tuple[int, ...]) -> dict[str, Any]:
    """Return the row of a finished run. If `ks` is not empty, the row also has statistics by k."""
    summary = store.run_summary(run_id)
    seconds = round(summary.sampling_seconds + summary.evaluation_seconds, 3)
    row = {"run": run_id, **run_row(problem, summary), "seconds": seconds}
    if ks:
        found = measure_groups(store.groups(run_id))
        row |= by_name(found.by_k(ks), ks, 6) | {
            "distinct_share": round(found.distinct_share, 4),
            "diversity": round(found.diversity, 4),
            "hypervolume": round(found.hypervolume, 4),
            "full_reward_answers": int(found.right_C_m.sum()),
            "faulty_completions": found.faults,
        }
    return row
