"""Plans a batch: loads the problem and the settings of every run, and collects all errors."""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evovpo.config import BudgetConfig, Config, ProposerConfig, SandboxConfig, StoreConfig
from evovpo.config_tree import merged
from evovpo.errors import ConfigError, EvovpoError, ProblemError, StoreError, raise_faults
from evovpo.experiments.batch_file import Batch, cells, read_batch
from evovpo.experiments.cell_runs import Work
from evovpo.problem.folder import load_problem
from evovpo.problem.openevolve.folder import is_project
from evovpo.problem.suites import problem_id
from evovpo.proposers import CheckedProposer
from evovpo.proposers.policy_folders import ADAPTER_FILE
from evovpo.runs.choices import check_proposer, choose_format, open_proposer, with_style
from evovpo.runs.request import CONNECTION, RunRequest, open_request
from evovpo.store import Store
from evovpo.store.database import parse_url
from evovpo.types import Problem, Run, RunStatus

_BASE: dict[str, object] = {"search": {"in_flight": 1}}


def plan(name: str, store_url: str | None, limit: int | None = None) -> tuple[Batch, list[Work]]:
    """Check a batch. Return it, and a `Work` (a task that another process can do) for each of its runs.

    Nothing is written, but the initial programs of OpenEvolve projects are evaluated. Raises one
    `ConfigError` with all errors. It is an error if the store has one of these runs with different settings.
    """
    faults: list[str] = []
    batch = read_batch(name, limit, faults)
    works = plan_cells([batch], store_url, faults)
    raise_faults(faults)
    return batch, works


def plan_cells(batches: Sequence[Batch], store_url: str | None, faults: list[str]) -> list[Work]:
    """Return a task (`Work`) for each valid run of the batches, and append all errors to `faults`."""
    store, stored = None, dict[str, Run]()
    try:
        store = _existing_store(store_url)
        stored = {} if store is None else {run.id: run for run in store.runs_in_full()}
    except StoreError as error:
        faults.append(str(error))
    with store or contextlib.nullcontext():
        return [one for batch in batches for one in _works(batch, store_url, store, stored, faults)]


def _existing_store(url: str | None) -> Store | None:
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


def _works(
    batch: Batch, store_url: str | None, store: Store | None, stored: Mapping[str, Run], faults: list[str]
) -> Iterator[Work]:
    variants = _checked_variants(batch, faults)
    asked: set[str] = set()
    ready: dict[tuple[str, str, str], RunRequest] = {}
    opened: dict[str, RunRequest] = {}  # a noisy evaluator would give each arm a version of its own
    for path in batch.problems:
        try:
            loaded = None if is_project(path) else load_problem(path)
        except ProblemError as error:
            faults.append(str(error))
            continue
        for (proposer, strategy), settings in variants.items():
            try:
                named = _open(path, loaded, settings, store_url)
                first = opened.setdefault(f"{path} {named.config.evaluator}", named)
                named = replace(named, problem=first.problem, judged=first.judged)
                check_proposer(named.problem, named.config)
                choose_format(named.problem, with_style(named.problem, named.config))
                if proposer not in asked:
                    asked.add(proposer)
                    _check_proposer(named, store)
            except EvovpoError as error:
                faults.append(f"{problem_id(path)} with proposer {proposer}, strategy {strategy}: {error}")
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
                faults.append(
                    f"run {cell.run_id} ({cell.problem_id}, {cell.arm.label}, seed {cell.seed}) is stored "
                    f"with {difference}; put it back as it was, give the batch another name, or remove the "
                    f"run: evovpo store prune {cell.run_id} --yes"
                    + f" --store {store_url}"
                    * bool(store_url),
                )
        status = None if earlier is None else earlier.status
        if earlier and status is RunStatus.STOPPED:
            is_as_before = Config.from_json(earlier.config_json).budget == config.budget
            status = status if is_as_before else RunStatus.INTERRUPTED
        yield Work(cell, found.problem, config, found.judged, status, store_url)


def _checked_variants(batch: Batch, faults: list[str]) -> dict[tuple[str, str], Mapping[str, object]]:
    usable: dict[tuple[str, str], Mapping[str, object]] = {}
    for proposer, strategy in itertools.product(batch.proposers, batch.strategies):
        parts = (_BASE, batch.settings, proposer.settings, strategy.settings)
        if any(Config.key_faults(part, "") for part in parts):
            continue  # reported already
        settings = merged(parts)
        origin = f"{batch.origin}: proposer {proposer.name}, strategy {strategy.name}"
        try:
            config = Config.load(base=settings, origin=origin)
        except ConfigError as error:
            faults.append(str(error))
            continue
        if config.proposer.name in ("scripted", "imported"):
            faults.append(f"{origin}: proposer.name: expected local, openai or random")
            continue
        usable[proposer.name, strategy.name] = settings
    return usable


def _open(
    path: Path, loaded: Problem | None, settings: Mapping[str, object], store_url: str | None
) -> RunRequest:
    if loaded is not None:
        return RunRequest(loaded, Config.load(base=settings))
    place = {"store": {"url": store_url}} if store_url else {}  # for the bounds of stored problems
    found = open_request(str(path), changes={**settings, **place})
    return replace(found, config=found.config.changed(store=Config().store))


def _check_proposer(named: RunRequest, store: Store | None) -> None:
    settings = named.config.proposer
    if settings.name == "local":
        folder = Path(settings.model) if settings.model else None
        if settings.policy.isdecimal() and int(settings.policy):
            if store is None:
                raise StoreError(f"proposer.policy is {settings.policy}, and the store holds no policy yet")
            folder = Path(store.policy_version(int(settings.policy)).path)
        files = ("config.json", ADAPTER_FILE)
        if folder is not None and not any((folder / file).is_file() for file in files):
            raise ConfigError(
                f"{folder}: expected a model folder with config.json or adapter_config.json, found none; "
                "correct proposer.model"
            )
    elif settings.name == "openai":
        asyncio.run(_ask_server(named, store))


async def _ask_server(named: RunRequest, store: Store | None) -> None:
    async with contextlib.aclosing(open_proposer(named.problem, named.config, store)) as proposer:
        if isinstance(proposer, CheckedProposer):
            await proposer.check()


def _differences(problem: Problem, config: Config, stored: Run) -> Iterator[str]:
    if stored.problem_version != problem.version:
        yield "another version of the problem"
    earlier = Config.from_json(stored.config_json)
    if config.prompt.style == "auto":  # the resolved style is stored
        config = config.changed(prompt={"style": earlier.prompt.style})
    for name, (was, now) in _comparable(earlier).differences(_comparable(config)).items():
        yield f"{name} = {was!r}, here it is {now!r}" if "." in name else f"other [[{name}]]"


def _comparable(config: Config) -> Config:
    sandbox = SandboxConfig(minimum_level=config.sandbox.minimum_level)
    # A run may go on with a larger budget of tokens or money, or another address.
    connection = {name: getattr(ProposerConfig(), name) for name in CONNECTION}
    found = config.changed(store=StoreConfig(), sandbox=sandbox, budget=BudgetConfig(), proposer=connection)
    return found.changed(run={"origin": config.run.origin[:1]})
