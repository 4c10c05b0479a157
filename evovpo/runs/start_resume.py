"""Starts or resumes a run, and searches until it ends or is stopped."""

import asyncio
import contextlib
import logging
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from evovpo.config import Config, StoreConfig
from evovpo.errors import ConfigError, FileHeldError, ProblemError, RunHeldError, ServerError, StoreError
from evovpo.files import hold
from evovpo.judging.evaluator import Judge, Scorer, open_evaluator
from evovpo.judging.executors import open_executor
from evovpo.problem.folder import load_problem
from evovpo.problem.openevolve.folder import own_settings
from evovpo.problem.openevolve.loading import changed_files
from evovpo.proposers import Proposer, interruptible
from evovpo.runs.choices import checked_proposer, with_models, with_style
from evovpo.runs.driver import Driver, Progress
from evovpo.runs.replay import build_search, rebuild
from evovpo.runs.request import CONNECTION, RunRequest, next_part, with_origin, with_originals
from evovpo.runs.stored import Outcome, stored_run
from evovpo.search.search import SearchState
from evovpo.store import Store
from evovpo.trust import NOT_OPENINGS, asked_for, is_marked, mark, require, state_folder
from evovpo.types import Problem, Run, RunPart, RunStatus, content_id

_log = logging.getLogger(__name__)


def start(
    request: RunRequest,
    store: Store,
    proposer: Proposer | None = None,
    on_start: Callable[[Run], None] = lambda run: None,
    on_tell: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Start a new run and return its outcome. `proposer` replaces the configured proposer."""
    if len(request.config.run.origin) == 1:
        request = with_origin(request, store)[0]
    problem, config = request.problem, with_style(request.problem, request.config, store)
    request = replace(request, config=config)
    run = Run(
        id=request.run_id or uuid.uuid4().hex[:12],
        problem_id=problem.id,
        problem_version=problem.version,
        seed=config.run.seed,
        evaluations=config.search.evaluations,
        config_json=config.changed(store=StoreConfig(url=store.name)).to_json(),
        status=RunStatus.RUNNING,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    search = build_search(with_originals(problem, config, store), config, run)
    proposer = checked_proposer(problem, config, store, proposer)
    with _only_searcher(store, run.id):
        store.add_problem(problem)
        store.add_run(run)
        mark(run.id, asked_for(config, problem))
        on_start(run)
        return _drive(search, request, store, proposer, on_tell)


def resume(
    run_id: str,
    store: Store,
    proposer: Proposer | None = None,
    on_start: Callable[[Run], None] = lambda run: None,
    on_tell: Callable[[Progress], None] = lambda progress: None,
    executor: str | None = None,
    changes: Mapping[str, object] | None = None,
    allow: Sequence[str] = (),
    scorer: Scorer | None = None,
) -> Outcome:
    """Resume a run after its last stored reply, search until it ends, and return the outcome.

    Problem and settings come from the store. `allow` grants the permissions that a run of another user asks
    for (docs/security.md). `executor` replaces the setting `sandbox.executor`. `changes` maps settings
    (`section.key`) to new values. Without `changes`, a finished run is not continued. `scorer` is for a run
    that was started with one. Raises the errors of `next_part` and `rebuild`, `NotAllowedError` for a
    permission that is not granted, `ProblemError` if a scorer is missing or has changed, and `RunHeldError`
    if another process is working on the run.
    """
    with _only_searcher(store, store.run(run_id).id):
        search, problem, config, run, _, is_older = rebuild(run_id, store)
        if executor is not None:
            config = config.changed(sandbox={"executor": executor})
        known = asked_for(config, problem)
        if new := [word for word in allow if word not in known and not word.startswith(NOT_OPENINGS)]:
            raise ConfigError(
                f"--allow {new[0]}: run {run.id} began without it, so judgements would not compare; "
                f"start a new run with it: evovpo evolve PROBLEM --from {run.id}"
            )
        granted = {*allow, *asked_for(Config.load(None, changes))}
        granted.update(known if is_marked(run.id, known) else ())
        config = config.changed(store=StoreConfig(url=store.name))
        part = None
        if changes:
            config, part = next_part(search, problem, run, config, changes, store)
        require(f"run {run.id} of {store.name}", asked_for(config, problem), granted)
        mark(run.id, asked_for(config, problem))
        problem = _checked(problem, config, run, store, scorer)
        if is_older and part is None and not run.status.is_finished:
            part = RunPart(len(search.tickets), search.standing.tells, config.to_json())
        if is_older and part is not None:
            _log.warning(
                "run %s was begun by an earlier version's search; it goes on from its best programs as a new "
                "part, which alone can be replayed exactly",
                run.id,
            )
        if run.status.is_finished and part is None:
            on_start(run)
            with open_evaluator(problem, config, scorer) as judge:
                stopped = "" if search.standing.is_solved else search.standing.stop_reason
                return _outcome(store, run.id, judge, 0.0, stopped, run.status)
        request = RunRequest(problem, config, run_id=run.id, scorer=scorer)
        proposer = checked_proposer(problem, config, store, proposer)
        store.set_run_status(run.id, RunStatus.RUNNING, None, part)
        on_start(store.run(run.id))
        return _drive(search, request, store, proposer, on_tell)


def start_or_resume(
    request: RunRequest,
    store: Store,
    on_start: Callable[[Run], None] = lambda run: None,
    on_tell: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    if not store.has_run(request.run_id):
        return start(request, store, None, on_start, on_tell)
    executor, allow = request.config.sandbox.executor, asked_for(request.config, request.problem)
    latest, changes = Config.from_json(store.parts(request.run_id)[-1].config_json), dict[str, object]()
    for name, (old, new) in latest.differences(request.config).items():
        is_more = name.startswith("budget.") and old is not None and (new is None or new > old)  # type: ignore[operator]
        if is_more or name.removeprefix("proposer.") in CONNECTION:
            changes[name] = new
    return resume(request.run_id, store, None, on_start, on_tell, executor, changes or None, allow)


def _only_searcher(store: Store, run_id: str) -> contextlib.AbstractContextManager[None]:
    """Lock a run, unless its store is in memory, where no other process can use it."""
    if store.file is None and store.name.startswith("sqlite"):
        return contextlib.nullcontext()
    return only_searcher(store.name if store.file is None else str(store.file.resolve()), run_id)


def _checked(problem: Problem, config: Config, run: Run, store: Store, scorer: Scorer | None) -> Problem:
    """Return the problem, read again if it has a scorer. Raises `ProblemError` if the problem has changed."""
    newer = ""
    is_function = problem.scorer_path is not None and problem.folder is None
    if is_function != (scorer is not None):
        raise ProblemError(
            f"run {run.id} has a score function of Python; resume it there, with the same score= and inputs="
            if is_function
            else f"run {run.id} has no score function; leave score and inputs out"
        )
    if problem.evaluator is not None:
        since = datetime.fromisoformat(run.created_at).timestamp() + 1.0  # it has whole seconds
        changed = changed_files(problem, config, since) if problem.folder else []
        is_same, newer = changed is None, ", ".join((changed or [])[:5])
        file = own_settings(Path(problem.folder)) if problem.folder else None
        if file is not None and file.stat().st_mtime > since:
            _log.warning("%s changed; run %s keeps its settings: use --set", file, run.id)
    elif scorer is not None:
        before = store.known_evaluation(problem.version, problem.seeds[0].id)
        with open_evaluator(problem, config, scorer) as judge:
            now = judge.evaluate(problem.seeds[0])
        is_same = before is None or before.rewards == now.rewards
    elif problem.scorer_path is not None and problem.folder is not None:
        found = load_problem(problem.folder)
        is_same = found.version == problem.version
        problem = replace(found, id=problem.id)
    else:
        is_same = True
    if not is_same:
        raise ProblemError(
            f"{problem.folder or problem.scorer_path}: the problem changed since the run started"
            + f" (newer files: {newer})" * bool(newer)
            + ", and old and new judgements do not compare; start a new run with the best programs of this "
            f"one (--from {run.id}), or put the folder back as it was"
        )
    return problem


def _drive(
    search: SearchState,
    request: RunRequest,
    store: Store,
    proposer: Proposer,
    on_tell: Callable[[Progress], None],
) -> Outcome:
    # The store may have moved since the run started; programs must not read it at its new address.
    config = request.config.changed(store=StoreConfig(url=store.name))
    problem = request.problem
    started = time.monotonic()
    status, heldout = RunStatus.FAILED, None
    try:
        judged = {item.program_id: item for item in request.judged}
        with open_executor(problem, config, request.scorer) as judge:
            driver = Driver(
                search=search,
                config=config,
                proposer=proposer,
                judge=with_models(judge, problem, config, store, search.run_id),
                journal=store,
                known=judged | store.known_evaluations(problem.version, but=search.standing.programs),
                on_tell=on_tell,
                workers=config.sandbox.workers or os.cpu_count() or 1,
            )
            status = interruptible.run(_search(driver, proposer))
            seconds = time.monotonic() - started
            outcome = _outcome(store, search.run_id, judge, seconds, driver.stop_reason, status)
            if status.is_finished:
                heldout = outcome.heldout_passed, outcome.heldout_total
            return outcome
    except (KeyboardInterrupt, asyncio.CancelledError, ServerError):  # a server may be back later
        status = RunStatus.INTERRUPTED
        raise
    finally:
        # After a store error this fails too, but the first error is the one to show.
        try:
            store.set_run_status(search.run_id, status, heldout)
        except StoreError:
            if status is not RunStatus.FAILED:
                raise


def _outcome(
    store: Store, run_id: str, judge: Judge, seconds: float, stopped: str, status: RunStatus
) -> Outcome:
    view = stored_run(store, run_id)
    view = replace(view, run=replace(view.run, status=status))
    heldout = () if view.best is None else judge.evaluate_heldout(view.best)
    return view.outcome(seconds, heldout, stopped)


async def _search(driver: Driver, proposer: Proposer) -> RunStatus:
    async with contextlib.aclosing(proposer):
        return await driver.run()


@contextlib.contextmanager
def only_searcher(store: str, run_id: str) -> Iterator[None]:
    """Lock a run of the store named `store` against other processes of this user on this machine.

    Raises `RunHeldError` if another process has the lock.
    """
    folder = Path(tempfile.gettempdir()) / f"evovpo-{os.getuid()}"
    if folder.exists() and folder.lstat().st_uid != os.getuid():  # created by another user
        folder = state_folder() / "held"
    path = folder / content_id(store, run_id)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = hold(path)
    except FileHeldError as error:
        raise RunHeldError(
            f"run {run_id} is being searched by process {error}; wait for it or end it, then resume"
        ) from None
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be used ({error.strerror}); runs are held there while they are searched: make "
            "it writable, or set TMPDIR"
        ) from error
    with held:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
