"""Reads a batch of searches from a TOML file or a suite.

An arm combines a proposer, a strategy and a budget. A cell is one run of an arm on one problem with one seed.
The id of a run is a hash of batch name, problem, arm and seed: a repeated batch finds its stored runs.
"""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from evovpo.config import STRATEGIES
from evovpo.config_tree import read_toml
from evovpo.errors import ProblemError, nearest_hint, raise_faults
from evovpo.experiments.toml_reader import Numbers, Part, PartReader, Seeds
from evovpo.problem.suites import load_suite, problem_id
from evovpo.types import content_id

_SHORT_PROPOSERS = ("local", "random")


class Variant(NamedTuple):
    """A proposer or a strategy, as a named set of settings."""

    name: str
    settings: Mapping[str, object]


class Arm(NamedTuple):
    """A combination of proposer, strategy and number of evaluations; a batch compares its arms."""

    proposer: str
    strategy: str
    evaluations: int

    @property
    def label(self) -> str:
        return f"{self.proposer}, {self.strategy}, {self.evaluations}"


class Batch(Part):
    """A parsed batch file; its problems are not loaded yet."""

    name: str
    description: str = ""
    problems: tuple[Path, ...]
    evaluations: Numbers = (1000,)
    seeds: Seeds = (0,)
    proposers: tuple[Variant, ...] = (Variant("local", {}),)
    strategies: tuple[Variant, ...] = (Variant("islands", {}),)
    settings: Mapping[str, object] = {}
    """Settings of all cells, overridden by those of a proposer. A strategy's settings override all others."""
    origin: str = Field(exclude=True)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All arms, in the order of the file. Every arm is compared with the first arm."""
        grid = itertools.product(self.proposers, self.strategies, self.evaluations)
        return tuple(Arm(proposer.name, strategy.name, most) for proposer, strategy, most in grid)

    def run_id(self, problem: str, arm: Arm, seed: int) -> str:
        return content_id("batch", self.name, problem, *map(str, arm), str(seed))


class Cell(NamedTuple):
    run_id: str
    problem_id: str
    arm: Arm
    seed: int


def read_batch(name: str, limit: int | None = None, faults: list[str] | None = None) -> Batch:
    """Return a batch from a TOML file, or a batch with all problems of a suite and default settings.

    `name` is a batch file, a suite's file or folder, or the name of a bundled suite. Problems after the first
    `limit` are left out. Errors are appended to `faults`; if it is None, one `ConfigError` with all errors is
    raised. A file with invalid TOML always raises `ConfigError`.
    """
    path, found = Path(name), list[str]() if faults is None else faults
    data = read_toml(path) if path.suffix == ".toml" and path.is_file() else None
    if data is None or "suite" in data:  # each problem once with default settings
        problems: tuple[Path, ...] = ()
        try:
            problems = tuple(entry.path for entry in load_suite(name))
        except ProblemError as error:
            found.append(f"{name}: expected a batch file or a suite; {error}")
        title = path.resolve().parent.name if name.endswith(".toml") else path.name
        batch = Batch(name=title, problems=problems, origin=name)
    else:
        reader = PartReader(path, found)
        batch = reader.part(
            Batch,
            data,
            name=reader.name(data),
            problems=reader.problems(data),
            proposers=_variants(reader, data, "proposers"),
            strategies=_variants(reader, data, "strategies"),
            settings=reader.settings(data.get("settings", {}), "[settings]"),
            origin=name,
        )
    if faults is None:
        raise_faults(found)
    return batch.model_copy(update={"problems": batch.problems[:limit]})


def cells(batch: Batch) -> Iterator[Cell]:
    """Yield the runs of a batch, sorted by seed, problem and arm, so that early results include all arms."""
    for seed, path, arm in itertools.product(batch.seeds, batch.problems, batch.arms):
        problem = problem_id(path)
        yield Cell(batch.run_id(problem, arm, seed), problem, arm, seed)


def _variants(reader: PartReader, data: Mapping[str, Any], key: str) -> tuple[Variant, ...]:
    known = _SHORT_PROPOSERS if key == "proposers" else STRATEGIES
    section, field = ("proposer", "name") if key == "proposers" else ("search", "strategy")
    settings = data.get("settings")
    of_section = settings.get(section) if isinstance(settings, Mapping) else None
    given = of_section if isinstance(of_section, Mapping) else {}
    usual = given.get(field, "openai" if given.get("base_url") else known[0])
    value = data.get(key, [usual])
    if not (isinstance(value, list) and value):
        reader.add(f"{key}: expected names or [[{key}]] tables, found {value!r:.80}")
        return ()
    variants: list[Variant] = []
    for number, entry in enumerate(value, 1):
        where = f"{key} {number}"
        if isinstance(entry, Mapping):
            name = reader.name(entry, where)
            settings = {part: values for part, values in entry.items() if part != "name"}
            checked = dict(reader.settings(settings, f"{where} ({name})"))
            match checked.get("proposer"):  # relative to the file
                case {"model": str(model), **others} if model and others.get("name", "local") == "local":
                    checked["proposer"] = {**others, "model": str((reader.path.parent / model).resolve())}
            variants.append(Variant(name, checked))
        elif entry in known or key not in data:
            variants.append(Variant(entry, {section: {field: entry}}))
        else:
            hint = nearest_hint(str(entry), known)
            reader.add(f"{entry!r} is none; {hint}, or give a [[{key}]] table with settings", where)
    reader.different([variant.name for variant in variants], key)
    return tuple(variants)
