"""What a batch consists of: its TOML file or the name of a suite, its cells, and all that is wrong with them.

A cell is an ordinary run whose id follows from the batch's name, the problem, proposer, strategy, budget and
seed. So the same batch over the same store finds its own runs again, and nothing else needs to be kept.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from evovpo.config import STRATEGIES, Config, SandboxConfig, StoreConfig
from evovpo.errors import ConfigError, EvovpoError, ProblemError, StoreError, nearest_hint
from evovpo.problem.folder import load_problem
from evovpo.problem.openevolve.folder import is_project
from evovpo.problem.suites import load_suite, problem_id, resolve_problem
from evovpo.proposers import Checked
from evovpo.reports.repeats import parse_seeds
from evovpo.runs.prompt_format import choose_format
from evovpo.runs.proposer import check_proposer, open_proposer
from evovpo.runs.request import RunRequest, open_request
from evovpo.store import Store
from evovpo.store.database import parse_url
from evovpo.types import Evaluation, Problem, RunStatus, content_id

_KEYS = ("name", "description", "problems", "evaluations", "seeds", "proposers", "strategies", "settings")
_SHORT_PROPOSERS = ("local", "random")
_GIVEN_ELSEWHERE = {
    ("search", "evaluations"): "evaluations = [...]",
    ("run", "seed"): "seeds = [...]",
    ("store", "url"): "--store",
}
_BASE: dict[str, object] = {"search": {"in_flight": 1}}
"""What batches change of the defaults: one ask at a time makes a run repeatable; cells run side by side."""
_MOST_CELLS = 100_000
_FAULTS_SHOWN = 30


class Variant(NamedTuple):
    """A named set of settings: a proposer or a strategy."""

    name: str
    settings: Mapping[str, object]
    """Sections with keys, as in a configuration file."""


class Arm(NamedTuple):
    """What is compared: everything of a cell but problem and seed."""

    proposer: str
    strategy: str
    evaluations: int

    @property
    def label(self) -> str:
        """The arm in words."""
        return f"{self.proposer}, {self.strategy}, {self.evaluations}"


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as its file says, before any problem is loaded."""

    name: str
    problems: tuple[Path, ...]
    """Folders, each with an id of its own."""
    evaluations: tuple[int, ...]
    seeds: tuple[int, ...]
    proposers: tuple[Variant, ...]
    strategies: tuple[Variant, ...]
    settings: Mapping[str, object]
    """Of all cells; a proposer's and then a strategy's own win over them."""
    origin: str
    """What errors call the file."""

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All arms, in the order of the file; the first one is what others are compared with."""
        return tuple(
            Arm(proposer.name, strategy.name, evaluations)
            for proposer, strategy, evaluations in itertools.product(
                self.proposers, self.strategies, self.evaluations
            )
        )

    def run_id(self, problem: str, arm: Arm, seed: int) -> str:
        """Return the id of the run of a cell."""
        return content_id(
            "batch", self.name, problem, arm.proposer, arm.strategy, str(arm.evaluations), str(seed)
        )


class Cell(NamedTuple):
    """One run of a batch."""

    run_id: str
    problem_id: str
    arm: Arm
    seed: int


@dataclass(frozen=True, slots=True)
class Work:
    """A cell with all that its run needs."""

    cell: Cell
    problem: Problem
    config: Config
    judged: tuple[Evaluation, ...]
    """Judgements that need not be made again."""
    status: RunStatus | None
    """As stored when the plan was made; none for a run that is not stored."""

    @property
    def is_finished(self) -> bool:
        """True if there is nothing left to do."""
        return self.status is not None and self.status.is_finished


# ---------------------------------------------------------------- reading


def read_batch(name: str, limit: int | None = None) -> Batch:
    """Return the batch that `name` names: a TOML file, or a suite (file, folder, bundled name) with defaults.

    With `limit` only the first so many problems. Raises `ConfigError` naming everything that is wrong.
    """
    faults: list[str] = []
    batch = _read(name, faults)
    raise_faults(faults)
    return dataclasses.replace(batch, problems=batch.problems[:limit])


def cells(batch: Batch) -> Iterator[Cell]:
    """Yield the cells of a batch, all arms of a problem together, so that early results compare them."""
    for seed, path, arm in itertools.product(batch.seeds, batch.problems, batch.arms):
        problem = problem_id(path)
        yield Cell(batch.run_id(problem, arm, seed), problem, arm, seed)


def _read(name: str, faults: list[str]) -> Batch:
    """Return what could be read, after adding what is wrong."""
    path = Path(name)
    data = _toml(path, faults) if path.suffix == ".toml" and path.is_file() else None
    if data is None or "suite" in data:
        return _default_batch(name, faults)
    origin = str(path)
    faults += [
        f"{origin}: unknown key {key!r}; {nearest_hint(key, _KEYS)}" for key in data if key not in _KEYS
    ]
    title = data.get("name")
    if not (isinstance(title, str) and title.strip() and title.isprintable() and len(title) <= 100):
        faults.append(f"{origin}: name: expected a short text, found {title!r:.80}; it tells runs apart")
        title = ""
    if not isinstance(data.get("description", ""), str):
        faults.append(f"{origin}: description: expected a text, found {data['description']!r:.80}")
    settings = read_settings(data.get("settings", {}), f"{origin}: [settings]", faults)
    batch = Batch(
        name=title,
        problems=read_problems(data.get("problems"), path, faults),
        evaluations=read_numbers(data.get("evaluations", [1000]), f"{origin}: evaluations", 1, faults),
        seeds=_seeds(data.get("seeds", [0]), f"{origin}: seeds", faults),
        proposers=_variants(data, "proposers", path, faults),
        strategies=_variants(data, "strategies", path, faults),
        settings=settings,
        origin=origin,
    )
    count = len(batch.problems) * len(batch.arms) * len(batch.seeds)
    if count > _MOST_CELLS:
        faults.append(f"{origin}: {count} cells; expected at most {_MOST_CELLS}: make several batches of it")
    return batch


def _default_batch(name: str, faults: list[str]) -> Batch:
    """Return the batch of a suite: its problems, each once, with the defaults of everything."""
    problems: tuple[Path, ...] = ()
    try:
        problems = tuple(entry.path for entry in load_suite(name))
    except ProblemError as error:
        faults.append(f"{name}: expected a batch file or a suite; {error}")
    return Batch(
        name=Path(name).resolve().parent.name if name.endswith(".toml") else Path(name).name,
        problems=problems,
        evaluations=(1000,),
        seeds=(0,),
        proposers=(Variant("local", {}),),
        strategies=(Variant("islands", {}),),
        settings={},
        origin=name,
    )


def _toml(path: Path, faults: list[str]) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        faults.append(f"{path}: expected a file that can be read: {error.strerror}")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        faults.append(f"{path}: expected TOML in UTF-8: {error}")
    raise_faults(faults)
    raise AssertionError("unreachable")


def read_problems(value: object, file: Path, faults: list[str]) -> tuple[Path, ...]:
    """Return the folders that problems and suites name, relative to the file or bundled."""
    if not (isinstance(value, list) and value and all(isinstance(entry, str) for entry in value)):
        faults.append(f"{file}: problems: expected a list of problems and suites, found {value!r:.80}")
        return ()
    folders: dict[str, Path] = {}
    for entry in value:
        near = file.parent / entry
        try:
            found = _folders(str(near) if near.exists() else entry)
        except ProblemError as error:
            faults.append(f"{file}: problems: {error}")
            continue
        for folder in found:
            other = folders.setdefault(problem_id(folder), folder)
            if other != folder:
                faults.append(
                    f"{file}: problems: {other} and {folder} have the same name, by which runs are told "
                    "apart; rename one of the folders"
                )
    return tuple(folders.values())


def _folders(name: str) -> list[Path]:
    """Return the folder of a problem, or those of a suite."""
    try:
        return [resolve_problem(name)]
    except ProblemError as no_problem:
        try:
            return [entry.path for entry in load_suite(name)]
        except ProblemError as no_suite:
            is_suite = "found a suite" in str(no_problem)
            raise (no_suite if is_suite else no_problem) from None


def read_numbers(value: object, where: str, least: int, faults: list[str]) -> tuple[int, ...]:
    """Return one or several different whole numbers."""
    found = value if isinstance(value, list) else [value]
    if found and all(type(number) is int and number >= least for number in found):
        if len(set(found)) == len(found):
            return tuple(found)
        faults.append(f"{where}: {value!r:.80} names a number twice; name each once")
        return ()
    faults.append(f"{where}: expected whole numbers, {least} or more, found {value!r:.80}; change it")
    return ()


def _seeds(value: object, where: str, faults: list[str]) -> tuple[int, ...]:
    if not isinstance(value, str):
        return read_numbers(value, where, 0, faults)
    try:
        return parse_seeds(value)
    except ConfigError as error:
        faults.append(f"{where}: {str(error).removeprefix('--seeds: ')}")
        return ()


def _variants(data: Mapping[str, Any], key: str, file: Path, faults: list[str]) -> tuple[Variant, ...]:
    """Return the proposers or strategies: names of built-in ones, or tables with a name and settings."""
    known = _SHORT_PROPOSERS if key == "proposers" else STRATEGIES
    section, field = ("proposer", "name") if key == "proposers" else ("search", "strategy")
    value = data.get(key, [known[0]])
    if not (isinstance(value, list) and value):
        faults.append(f"{file}: {key}: expected names or [[{key}]] tables, found {value!r:.80}")
        return ()
    variants: list[Variant] = []
    for number, entry in enumerate(value, 1):
        where = f"{file}: {key} {number}"
        if isinstance(entry, str):
            if entry not in known:
                hint = nearest_hint(entry, known)
                faults.append(f"{where}: {entry!r} is none; {hint}, or give a [[{key}]] table with settings")
                continue
            variants.append(Variant(entry, {section: {field: entry}}))
            continue
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not (isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= 100):
            faults.append(f"{where}: name: expected a short text, found {name!r:.80}; name it")
            continue
        rest = {section: values for section, values in entry.items() if section != "name"}
        variants.append(Variant(name, read_settings(rest, f"{where} ({name})", faults)))
    names = [variant.name for variant in variants]
    faults += [
        f"{file}: {key}: {name!r} is there twice; runs are told apart by it: rename one"
        for name in sorted(set(names))
        if names.count(name) > 1
    ]
    return tuple(_with_near_model(variant, file) for variant in variants)


def _with_near_model(variant: Variant, file: Path) -> Variant:
    """Return the variant with the path of a model folder beside the file made absolute."""
    proposer = variant.settings.get("proposer")
    if not isinstance(proposer, Mapping) or proposer.get("name", "local") != "local":
        return variant
    model = proposer.get("model")
    if not (isinstance(model, str) and model):
        return variant
    absolute = {**proposer, "model": str((file.parent / model).resolve())}
    return Variant(variant.name, {**variant.settings, "proposer": absolute})


def read_settings(value: object, origin: str, faults: list[str]) -> Mapping[str, object]:
    """Return sections of settings, after adding what is wrong with each key by itself."""
    if not isinstance(value, Mapping):
        faults.append(f"{origin}: expected sections with keys, found {value!r:.80}")
        return {}
    faults += Config.key_faults(value, origin)
    for (section, key), place in _GIVEN_ELSEWHERE.items():
        table = value.get(section)
        if isinstance(table, Mapping) and key in table:
            faults.append(f"{origin}: {section}.{key}: a batch has it as {place}; remove it here")
    return value


# ---------------------------------------------------------------- planning


def plan(name: str, store_url: str | None, limit: int | None = None) -> tuple[Batch, list[Work]]:
    """Return the batch and the work of all its cells, in order, after checking everything.

    Nothing is spent or written, but the projects in OpenEvolve's format have their initial program judged.
    Raises `ConfigError` naming all that is wrong: with the file, problems, settings, models and servers,
    the store, and runs of an earlier batch of the same name that had other settings.
    """
    faults: list[str] = []
    batch = _read(name, faults)
    batch = dataclasses.replace(batch, problems=batch.problems[:limit])
    works = plan_cells([batch], store_url, faults)
    raise_faults(faults)
    return batch, works


def plan_cells(batches: Sequence[Batch], store_url: str | None, faults: list[str]) -> list[Work]:
    """Return the work of all cells of batches that were read before, after adding all that is wrong."""
    stored: dict[str, _Stored] = {}
    store: Store | None = None
    works: list[Work] = []
    try:
        store = _existing_store(store_url)
        stored = {} if store is None else _stored_runs(store)
    except StoreError as error:
        faults.append(str(error))
    try:
        for batch in batches:
            works += _works(batch, store, stored, faults)
    finally:
        if store is not None:
            store.close()
    return works


class _Stored(NamedTuple):
    problem_version: str
    config_json: str
    status: RunStatus


def _existing_store(url: str | None) -> Store | None:
    """Return the open store, or none if there is none yet; raises `StoreError` for an unusable one."""
    address = parse_url(url)
    if address.get_backend_name() == "sqlite":
        if address.database in (None, "", ":memory:"):
            raise StoreError("a batch works in several processes; give --store a file or a database server")
        file = Path(str(address.database))
        if not file.exists():
            if not file.absolute().parent.is_dir():
                raise StoreError(f"{url}: the folder of the store does not exist; make it, or give another")
            return None
    return Store.open(url)


def _stored_runs(store: Store) -> dict[str, _Stored]:
    rows = store.query(
        "SELECT runs.id, runs.problem_version, runs.config, run_events.status "
        "FROM runs JOIN run_events ON run_events.run_id = runs.id "
        "WHERE run_events.number IN (SELECT max(number) FROM run_events GROUP BY run_id)"
    )
    return {
        row["id"]: _Stored(row["problem_version"], row["config"], RunStatus(row["status"])) for row in rows
    }


def _works(
    batch: Batch, store: Store | None, stored: Mapping[str, _Stored], faults: list[str]
) -> Iterator[Work]:
    """Yield the work of each cell that could be set up, after adding all that is wrong."""
    variants = _checked_variants(batch, faults)
    asked: set[str] = set()
    ready: dict[tuple[str, str, str], RunRequest] = {}
    for path in batch.problems:
        try:
            loaded = None if is_project(path) else load_problem(path)
        except ProblemError as error:
            _add(faults, str(error))
            continue
        for (proposer, strategy), settings in variants.items():
            try:
                named = _open(path, loaded, settings)
                check_proposer(named.problem, named.config)
                choose_format(named.problem, named.config)
                if proposer not in asked:
                    asked.add(proposer)
                    _check_proposer(named, store)
            except EvovpoError as error:
                _add(faults, f"{problem_id(path)} with proposer {proposer}, strategy {strategy}: {error}")
                continue
            ready[problem_id(path), proposer, strategy] = named
    for cell in cells(batch):
        found = ready.get((cell.problem_id, cell.arm.proposer, cell.arm.strategy))
        if found is None:
            continue
        config = found.config.changed(search={"evaluations": cell.arm.evaluations}, run={"seed": cell.seed})
        earlier = stored.get(cell.run_id)
        if earlier is not None:
            for difference in _differences(found.problem, config, earlier):
                _add(
                    faults,
                    f"run {cell.run_id} ({cell.problem_id}, {cell.arm.label}, seed {cell.seed}) is stored "
                    f"with {difference}; give the batch another name, or put it back as it was",
                )
        status = None if earlier is None else earlier.status
        yield Work(cell, found.problem, config, found.judged, status)


def _checked_variants(batch: Batch, faults: list[str]) -> dict[tuple[str, str], Mapping[str, object]]:
    """Return the settings of each proposer with each strategy that are usable together."""
    usable: dict[tuple[str, str], Mapping[str, object]] = {}
    for proposer, strategy in itertools.product(batch.proposers, batch.strategies):
        parts = (_BASE, batch.settings, proposer.settings, strategy.settings)
        if _has_faults(parts):
            continue  # said already
        settings = _merged(parts)
        origin = f"{batch.origin}: proposer {proposer.name}, strategy {strategy.name}"
        try:
            config = Config.load(None, (), settings, origin)
        except ConfigError as error:
            _add(faults, str(error))
            continue
        if config.proposer.name in ("scripted", "imported"):
            _add(faults, f"{origin}: proposer.name: expected local, openai or random")
            continue
        usable[proposer.name, strategy.name] = settings
    return usable


def _has_faults(parts: Sequence[Mapping[str, object]]) -> bool:
    """True if a key of some settings is wrong by itself."""
    return any(Config.key_faults(part, "") for part in parts)


def _merged(parts: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return sections of settings where a later part wins key by key; lists of tables replace each other."""
    merged: dict[str, object] = {}
    for part in parts:
        for section, values in part.items():
            before = merged.get(section)
            both = isinstance(before, Mapping) and isinstance(values, Mapping)
            merged[section] = {**before, **values} if both else values  # type: ignore[dict-item]
    return merged


def _open(path: Path, loaded: Problem | None, settings: Mapping[str, object]) -> RunRequest:
    """Return a problem with its configuration; settings win over those of an OpenEvolve project."""
    if loaded is not None:
        return RunRequest(loaded, Config.load(None, (), settings))
    overrides = [
        f"{section}.{key}={str(value).lower() if isinstance(value, bool) else value}"
        for section, values in settings.items()
        if isinstance(values, Mapping)
        for key, value in values.items()
    ]
    return open_request(str(path), overrides=overrides)


def _check_proposer(named: RunRequest, store: Store | None) -> None:
    """Raise what is wrong with the model folder, policy version or server of a proposer; loads no model."""
    settings = named.config.proposer
    if settings.name == "local":
        folder = Path(settings.model) if settings.model else None
        if settings.policy.isdecimal() and int(settings.policy):
            if store is None:
                raise StoreError(f"proposer.policy is {settings.policy}, and the store holds no policy yet")
            folder = Path(store.policy_version(int(settings.policy)).path)
        if folder is not None and not any(
            (folder / file).is_file() for file in ("config.json", "adapter_config.json")
        ):
            raise ConfigError(
                f"{folder}: expected a model folder with config.json or adapter_config.json, found none; "
                "correct proposer.model"
            )
    elif settings.name == "openai":
        asyncio.run(_ask_server(named, store))


async def _ask_server(named: RunRequest, store: Store | None) -> None:
    proposer = open_proposer(named.problem, named.config, store)
    try:
        if isinstance(proposer, Checked):
            await proposer.check()
    finally:
        await proposer.aclose()


def _differences(problem: Problem, config: Config, stored: _Stored) -> Iterator[str]:
    """Yield in what a stored run differs from a cell; how many programs run at a time, and where, is not."""
    if stored.problem_version != problem.version:
        yield "another version of the problem"
    old, new = (_comparable(one) for one in (Config.from_json(stored.config_json), config))
    for section, before in old:
        now = getattr(new, section)
        if before == now:
            continue
        if isinstance(before, tuple):
            yield f"other [[{section}]]"
            continue
        for key, was in before:
            becomes = getattr(now, key)
            if was != becomes:
                yield f"{section}.{key} = {was!r}, here it is {becomes!r}"


def _comparable(config: Config) -> Config:
    return config.changed(
        store=StoreConfig(),
        sandbox=SandboxConfig(minimum_level=config.sandbox.minimum_level),
        proposer={"threads": 0},
    )


def _add(faults: list[str], fault: str) -> None:
    if fault not in faults:
        faults.append(fault)


def raise_faults(faults: Collection[str]) -> None:
    """Raise `ConfigError` if there is a fault."""
    listed = list(faults)
    if len(listed) == 1:
        raise ConfigError(listed[0])
    if listed:
        shown = listed[:_FAULTS_SHOWN]
        more = [f"... and {len(listed) - len(shown)} more"] if len(listed) > len(shown) else []
        lines = "\n".join(f"- {fault}" for fault in [*shown, *more])
        raise ConfigError(f"{len(listed)} things are wrong:\n{lines}")
