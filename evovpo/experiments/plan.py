"""What is to be done for a batch: every cell with its problem and settings, and all that is wrong there."""

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evovpo.config import Config, SandboxConfig, StoreConfig
from evovpo.errors import ConfigError, EvovpoError, ProblemError, StoreError
from evovpo.experiments.batch import Batch, Cell, cells, read_batch
from evovpo.experiments.reading import raise_faults
from evovpo.problem.folder import load_problem
from evovpo.problem.openevolve.folder import is_project
from evovpo.problem.suites import problem_id
from evovpo.proposers import Checked
from evovpo.runs.prompt_format import choose_format
from evovpo.runs.proposer import check_proposer, open_proposer
from evovpo.runs.request import RunRequest, open_request
from evovpo.store import Store
from evovpo.store.database import parse_url
from evovpo.types import Evaluation, Problem, Run, RunStatus

_BASE: dict[str, object] = {"search": {"in_flight": 1}}
"""What batches change of the defaults: one ask at a time makes a run repeatable; cells run side by side."""


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


def plan(name: str, store_url: str | None, limit: int | None = None) -> tuple[Batch, list[Work]]:
    """Return the batch and the work of all its cells, in order, after checking everything.

    Nothing is spent or written, but the projects in OpenEvolve's format have their initial program judged.
    Raises `ConfigError` naming all that is wrong: with the file, problems, settings, models and servers,
    the store, and runs of an earlier batch of the same name that had other settings.
    """
    faults: list[str] = []
    batch = read_batch(name, limit, faults)
    works = plan_cells([batch], store_url, faults)
    raise_faults(faults)
    return batch, works


def plan_cells(batches: Sequence[Batch], store_url: str | None, faults: list[str]) -> list[Work]:
    """Return the work of all cells of batches that were read before, after adding all that is wrong."""
    stored: dict[str, Run] = {}
    store: Store | None = None
    works: list[Work] = []
    try:
        store = _existing_store(store_url)
        stored = {} if store is None else {run.id: run for run in store.runs_in_full()}
    except StoreError as error:
        faults.append(str(error))
    try:
        for batch in batches:
            works += _works(batch, store, stored, faults)
    finally:
        if store is not None:
            store.close()
    return works


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


def _works(batch: Batch, store: Store | None, stored: Mapping[str, Run], faults: list[str]) -> Iterator[Work]:
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


def _differences(problem: Problem, config: Config, stored: Run) -> Iterator[str]:
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
