"""Whole runs: start one, take an interrupted one up again, check a stored one by replaying it.

Joins the parts that the command line, benchmarks and the trainer use together; holds no state.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from evovpo.config import Config, StoreConfig
from evovpo.driver import Driver, Progress, replay
from evovpo.errors import ConfigError, ProblemError, ReplayError, StoreError
from evovpo.evaluator import Evaluator, open_sandbox
from evovpo.models import BUILT_IN_MODEL
from evovpo.problem import load_problem
from evovpo.prompts import AlignmentFormat, PromptFormat, RewriteFormat, alignment_fault
from evovpo.proposers import Proposer
from evovpo.search import Search
from evovpo.store import Store
from evovpo.types import PolicyVersion, Problem, Run, RunStatus


class Outcome(NamedTuple):
    """What a run came to; `evovpo evolve --json` prints these fields."""

    run: str
    solved: bool
    """Every training row (or objective) at full reward."""
    solved_unseen: bool
    """Solved, and every held-out row too; false where there are none."""
    best_mean_reward: float
    train_passed: int
    train_total: int
    heldout_passed: int
    heldout_total: int
    evaluations: int
    """Candidates proposed and judged over the whole run."""
    executed: int
    """Of these and the starting programs, how many the sandbox ran."""
    joins: int
    seconds: float
    """Wall-clock seconds of this process's part of the run."""
    program: str
    """Source of the best program."""


def open_proposer(problem: Problem, config: Config, store: Store | None = None) -> Proposer:
    """Return the proposer that the configuration names, sampling from the policy version that it names.

    Without a store the only policy is `start`. Raises `PolicyError` for a model folder that is not one or is
    gone, `StoreError` for a policy version that the store does not hold, `ConfigError` for a name without a
    proposer of its own (`scripted` is built by tests) and for a server without an address.
    """
    settings = config.proposer
    if settings.name == "random":
        from evovpo.proposers.random import RandomProposer

        return RandomProposer(problem)
    if settings.name == "local":
        from evovpo.proposers.local import LocalProposer

        start = PolicyVersion(0, None, settings.model or str(BUILT_IN_MODEL))
        version, follow = _choose_policy(settings.policy, start, store)
        return LocalProposer(version, threads=settings.threads or 1, follow=follow)
    if settings.name == "openai":
        if not settings.model:
            raise ConfigError(
                "proposer.model is empty; expected the name under which the server offers its model (its "
                "/v1/models lists them)"
            )
        from evovpo.proposers.openai import OpenAIProposer

        version, follow = _choose_policy(settings.policy, PolicyVersion(0, None, settings.model), store)
        return OpenAIProposer(
            settings.base_url,
            settings.model,
            version=version,
            follow=follow,
            timeout_seconds=settings.timeout_seconds,
            attempts=settings.attempts,
            tolerance=settings.tolerance,
        )
    raise ConfigError(f"proposer.name is '{settings.name}'; expected local, openai or random; change it")


def _choose_policy(
    policy: str, start: PolicyVersion, store: Store | None
) -> tuple[PolicyVersion, Callable[[], PolicyVersion] | None]:
    """Return the version to sample from, and for `served` what says before each request which it is now."""
    if policy == "start":
        return start, None
    if store is None:
        raise ConfigError(f"proposer.policy is {policy}, and there is no store here; change it to start")
    if policy == "served":

        def follow() -> PolicyVersion:
            return store.served() or start

        return follow(), follow
    if int(policy) == 0 and not any(version.number == 0 for version in store.policy_versions()):
        return start, None
    return store.policy_version(int(policy)), None


def choose_format(problem: Problem, config: Config) -> PromptFormat:
    """Return the prompt format that fits the proposer and the problem."""
    if config.proposer.name == "scripted" and alignment_fault(problem):
        return RewriteFormat()
    return AlignmentFormat(problem)


def build_search(problem: Problem, config: Config, run: Run) -> Search:
    """Return the search of a run before its first ask."""
    settings = dataclasses.replace(config.search, evaluations=run.evaluations)
    return Search(problem, settings, choose_format(problem, config), run.id, run.seed)


def start(
    problem: Problem,
    config: Config,
    store: Store,
    proposer: Proposer | None = None,
    on_start: Callable[[Run], None] = lambda run: None,
    on_tell: Callable[[Progress], None] = lambda progress: None,
    run_id: str | None = None,
) -> Outcome:
    """Start a new run of `problem`, search until it is solved or the budget is used, and report."""
    stored = dataclasses.replace(config, store=StoreConfig(url=store.name))
    run = Run(
        id=run_id or uuid.uuid4().hex[:12],
        problem_id=problem.id,
        problem_version=problem.version,
        seed=config.run.seed,
        evaluations=config.search.evaluations,
        config_json=stored.to_json(),
        status=RunStatus.RUNNING,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    search = build_search(problem, config, run)
    proposer = proposer or open_proposer(problem, config, store)
    store.add_problem(problem)
    store.add_run(run)
    on_start(run)
    return _drive(search, problem, config, store, proposer, on_tell)


def resume(
    run_id: str,
    store: Store,
    proposer: Proposer | None = None,
    on_start: Callable[[Run], None] = lambda run: None,
    on_tell: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Take a run up where its last stored tell left it; a finished run only reports.

    The problem and the configuration come from the store, as they were when the run started. Raises
    `ProblemError` if a scorer, which is not in the store, is gone or has changed since; otherwise as
    `rebuild`.
    """
    search, problem, config, run = rebuild(run_id, store)
    _check_scorer(problem)
    if run.status in (RunStatus.SOLVED, RunStatus.EXHAUSTED):
        on_start(run)
        with open_sandbox(problem, config) as sandbox:
            return _outcome(search, Evaluator(problem, sandbox), store, 0.0)
    proposer = proposer or open_proposer(problem, config, store)
    store.set_run_status(run.id, RunStatus.RUNNING)
    on_start(run)
    return _drive(search, problem, config, store, proposer, on_tell)


def rebuild(run_id: str, store: Store) -> tuple[Search, Problem, Config, Run]:
    """Return the search of a stored run as its rows leave it, with its problem, configuration and row.

    Every ask is derived again and compared with the stored one; raises `ReplayError` at the first
    difference and `StoreError` for an unknown run.
    """
    search, problem, config, run = _before_first_ask(run_id, store)
    replay(search, list(store.history(run.id)))
    return search, problem, config, run


def _before_first_ask(run_id: str, store: Store) -> tuple[Search, Problem, Config, Run]:
    run = store.run(run_id)
    problem = store.problem(run.problem_id, run.problem_version)
    config = Config.from_json(run.config_json)
    return build_search(problem, config, run), problem, config, run


def verify(run_id: str, store: Store) -> tuple[Search, int]:
    """Return the rebuilt search and the number of asks and tells compared.

    Beyond what `rebuild` compares (every prompt, byte for byte), the answers are read from every
    completion again, and the outcome must be the recorded one. Raises `ReplayError` or `StoreError` at
    what differs. What it cannot notice: tells missing from the end of a run that never ended, and changed
    tokens, log-probabilities and times, which no decision depends on.
    """
    search, problem, config, run = _before_first_ask(run_id, store)
    events = list(store.history(run.id))
    replay(search, events, choose_format(problem, config))
    proposed = store.run_summary(run.id).proposed
    if search.proposed != proposed:
        raise ReplayError(
            f"run {run.id} holds {proposed} candidates, and replay applied {search.proposed}; its rows were "
            "changed"
        )
    half_told = [prompt for prompt, missing in search.open_tickets if len(missing) < prompt.rollouts]
    if run.status in (RunStatus.SOLVED, RunStatus.EXHAUSTED) and (
        half_told or (run.status is RunStatus.SOLVED) != search.is_solved
    ):
        raise ReplayError(
            f"run {run.id} ended as {run.status}, which replay does not reach; tells are missing"
        )
    if run.status is RunStatus.EXHAUSTED and search.proposed != run.evaluations:
        raise ReplayError(
            f"run {run.id} used its budget of {run.evaluations}, and replay applied {search.proposed} "
            "candidates; tells are missing"
        )
    return search, len(events)


def _check_scorer(problem: Problem) -> None:
    if problem.scorer_path is None:
        return
    if problem.folder is None or load_problem(problem.folder).version != problem.version:
        raise ProblemError(
            f"{problem.folder}: the problem changed since the run started, and old and new judgements do not "
            "compare; start a new run, or put the folder back as it was"
        )


def _drive(
    search: Search,
    problem: Problem,
    config: Config,
    store: Store,
    proposer: Proposer,
    on_tell: Callable[[Progress], None],
) -> Outcome:
    # The store may be named otherwise than when the run was made; programs must not read it under any name.
    config = dataclasses.replace(config, store=StoreConfig(url=store.name))
    started = time.monotonic()
    status = RunStatus.FAILED
    try:
        with open_sandbox(problem, config) as sandbox:
            evaluator = Evaluator(problem, sandbox)
            driver = Driver(
                search=search,
                problem=problem,
                config=config,
                prompt_format=choose_format(problem, config),
                proposer=proposer,
                judge=evaluator,
                journal=store,
                known=store.known_evaluations(problem.version),
                on_tell=on_tell,
                workers=config.sandbox.workers or os.cpu_count() or 1,
            )
            status = asyncio.run(_run_and_close(driver, proposer))
            return _outcome(search, evaluator, store, time.monotonic() - started)
    except (KeyboardInterrupt, asyncio.CancelledError):
        status = RunStatus.INTERRUPTED
        raise
    finally:
        # A store that failed cannot take the status either; the first error is the one to show.
        try:
            store.set_run_status(search.run_id, status)
        except StoreError:
            if status is not RunStatus.FAILED:
                raise


async def _run_and_close(driver: Driver, proposer: Proposer) -> RunStatus:
    try:
        return await driver.run()
    finally:
        await proposer.aclose()


def _outcome(search: Search, evaluator: Evaluator, store: Store, seconds: float) -> Outcome:
    best = search.best
    assert best is not None, "a run starts by judging the problem's starting programs"
    heldout = evaluator.evaluate_heldout(best.program) if search.problem.heldout else ()
    summary = store.run_summary(search.run_id)
    return Outcome(
        run=search.run_id,
        solved=search.is_solved,
        solved_unseen=search.is_solved and bool(heldout) and all(heldout),
        best_mean_reward=best.mean_reward,
        train_passed=best.passed,
        train_total=len(search.problem.objectives),
        heldout_passed=sum(heldout),
        heldout_total=len(heldout),
        evaluations=search.proposed,
        executed=summary.executed,
        joins=search.joined,
        seconds=round(seconds, 3),
        program=best.program.source,
    )
