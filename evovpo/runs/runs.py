"""Whole runs: start one, take an interrupted one up again, check a stored one by replaying it.

Joins the parts that the command line, benchmarks and the trainer use together; holds no state.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evovpo.builtin import BUILT_IN_MODEL, FORMULA_MODEL
from evovpo.builtin.choice import built_in_fault, built_in_format, built_in_model
from evovpo.builtin.expression_prompts import AlignmentFormat, alignment_fault
from evovpo.builtin.formula_prompts import FormulaFormat, formula_fault
from evovpo.builtin.joining import join_language
from evovpo.config import BudgetConfig, Config, StoreConfig
from evovpo.errors import ConfigError, ProblemError, ReplayError, ServerError, StoreError
from evovpo.judging.evaluator import Judge, open_evaluator
from evovpo.judging.executors import open_executor
from evovpo.problem.folder import load_problem
from evovpo.problem.openevolve.folder import is_project
from evovpo.problem.openevolve.loading import Opened, is_unchanged, open_project
from evovpo.problem.openevolve.scores import best_combined, read_scores
from evovpo.problem.suites import resolve_problem
from evovpo.prompts import (
    DiffFormat,
    PromptFormat,
    Request,
    RewriteFormat,
    Shown,
    choose_rows,
    load_templates,
)
from evovpo.proposers import Checked, Learner, Proposer
from evovpo.proposers.limits import Spent
from evovpo.runs.driver import Driver, Progress, replay
from evovpo.runs.run_lock import only_searcher
from evovpo.search.search import Search
from evovpo.store import Store, unescape_text
from evovpo.types import (
    Evaluation,
    Message,
    ParentRole,
    PolicyVersion,
    Problem,
    Program,
    PromptKind,
    Run,
    RunStatus,
    Tell,
    Trust,
)

if TYPE_CHECKING:
    from evovpo.proposers.embeddings import OpenAIEmbedder

_LONG_PROGRAM = 2000
"""Characters of a starting program from which on models are asked for edits of it."""


class Outcome(NamedTuple):
    """What a run came to; `evovpo evolve --json` prints these fields."""

    run: str
    solved: bool
    """Every training row (or objective) at full reward, by the program with the best mean reward."""
    solved_unseen: bool
    """Solved, and every held-out row too; false where there are none."""
    best_mean_reward: float
    """What the search looks for: of the program `best_mean_program_id`, not always of `program`."""
    train_passed: int
    """By the program with the best mean reward, as `train_total` rows or objectives allow."""
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
    """Source of the best program: by `combined_score` where there is one, else by mean reward."""
    stopped: str = ""
    """Why it ended before its evaluations were used, other than by being solved; empty if it did not."""
    trust: str = str(Trust.HIGH)
    """`high`, or `low` where candidate and evaluator shared a process."""
    combined_score: float | None = None
    """The highest of the run, and then `program` is the one that has it; none without such a metric."""
    program_id: str = ""
    program_mean_reward: float = 0.0
    """Of `program`; below `best_mean_reward` where another program has that."""
    best_mean_program_id: str = ""
    """Of the program with the best mean reward."""

    @property
    def is_by_score(self) -> bool:
        """True if `program` is the best by `combined_score`, and another one has the best mean reward."""
        return self.combined_score is not None and self.program_id != self.best_mean_program_id


class Named(NamedTuple):
    """A problem that was asked for by name, with all that a run of it needs."""

    problem: Problem
    config: Config
    project: Opened | None = None
    """Of an OpenEvolve project: what was found when it was opened."""

    @property
    def judged(self) -> tuple[Evaluation, ...]:
        """Judgements that a run need not make again: not where a threshold might have ended one earlier."""
        initial = None if self.project is None else self.project.loaded.initial
        evaluator = self.problem.evaluator
        return () if initial is None or evaluator is None or evaluator.thresholds else (initial,)


def open_named(
    name: str, config_file: Path | None = None, overrides: Sequence[str] = (), yaml: Path | None = None
) -> Named:
    """Return the problem that `name` names (folder, OpenEvolve project, bundled problem) and its settings.

    `yaml` is an OpenEvolve configuration to use instead of the project's own. Raises `ProblemError`,
    `ConfigError` and `SandboxError`.
    """
    path = resolve_problem(name)
    if is_project(path):
        stored = functools.partial(_stored_problems, path)
        opened = open_project(path, config_file, overrides, yaml, stored)
        return Named(opened.loaded.problem, opened.config, opened)
    if yaml is not None:
        raise ConfigError(f"--openevolve-config is for OpenEvolve projects, and {name} is none; leave it out")
    return Named(load_problem(path), Config.load(config_file, overrides))


def _stored_problems(path: Path, config: Config) -> list[Problem]:
    """Return the problems of a project that the store holds, oldest first; none without a store."""
    folder = path.parent if path.is_file() else path
    try:
        with Store.open(config.store.url, create=False) as store:
            rows = store.query(
                "SELECT r.problem_version AS version, MIN(e.number) AS first FROM runs r JOIN run_events e "
                "ON e.run_id = r.id WHERE r.problem_id = :id GROUP BY r.problem_version ORDER BY first",
                id=folder.name,
            )
            return [store.problem(folder.name, str(row["version"])) for row in rows]
    except StoreError:  # there is none yet, or opening it for the run says what is wrong with it
        return []


def check_proposer(problem: Problem, config: Config) -> None:
    """Raise `ConfigError` if the configured proposer cannot write programs for the problem, by its kind."""
    if problem.evaluator is not None and config.proposer.name in ("local", "random"):
        raise ConfigError(
            f"'{problem.id}' is an OpenEvolve project, for which the built-in model cannot write; expected "
            "an instruction model behind a server: give --base-url URL --model NAME, or llm.api_base and "
            "llm.models in its config.yaml"
        )
    faults = {"auto": built_in_fault, "alignment": alignment_fault, "formula": formula_fault}
    fault = faults.get(config.prompt.style, lambda _: "")(problem)
    if fault and config.proposer.name in ("local", "random"):
        raise ConfigError(
            f"the built-in model cannot write for '{problem.id}': {fault}; expected an instruction model "
            "behind a server: give --base-url URL --model NAME"
        )


def open_proposer(problem: Problem, config: Config, store: Store | None = None) -> Proposer:
    """Return the proposer that the configuration names, sampling from the policy version that it names.

    Without a store the only policy is `start`. Raises `PolicyError` for a model folder that is not one or is
    gone, `StoreError` for a policy version that the store does not hold, `ConfigError` for a name without a
    proposer of its own (`scripted` is built by tests) and for a server without an address.
    """
    settings = config.proposer
    if settings.name != "openai" and (config.models or config.budget != BudgetConfig()):
        raise ConfigError(
            f"proposer.name is '{settings.name}', and [[models]] and [budget] are for servers; set "
            "proposer.name=openai, or leave them out"
        )
    if settings.name == "random":
        from evovpo.builtin.random_proposer import RandomFormulaProposer, RandomProposer

        return RandomProposer(problem) if formula_fault(problem) else RandomFormulaProposer(problem)
    if settings.name == "local":
        from evovpo.proposers.local import LocalProposer

        start = PolicyVersion(0, None, settings.model or str(built_in_model(problem)))
        if store is not None and not settings.model and settings.policy != "start":
            _check_start_model(problem, store)
        version, follow = _choose_policy(settings.policy, start, store)
        return LocalProposer(version, threads=settings.threads or 1, follow=follow)
    if settings.name == "openai":
        if not settings.model and not config.models:
            raise ConfigError(
                "proposer.model is empty; expected the name under which the server offers its model (its "
                "/v1/models lists them)"
            )
        from evovpo.proposers.openai import OpenAIProposer

        own = PolicyVersion(0, None, settings.model or config.models[0].name)
        version, follow = _choose_policy(settings.policy, own, store)
        return OpenAIProposer(
            settings.base_url,
            settings.model,
            models=config.models,
            ensemble=settings.ensemble,
            endpoint=settings.endpoint,
            version=None if version == own else version,
            follow=follow,
            timeout_seconds=settings.timeout_seconds,
            attempts=settings.attempts,
            concurrency=settings.concurrency,
            requests_per_minute=settings.requests_per_minute,
            tokens_per_minute=settings.tokens_per_minute,
            budget=config.budget,
            record=(lambda call: None) if store is None else store.add_call,
            spent_before=(lambda run_id: Spent()) if store is None else partial(_spent, store),
            tolerance=settings.tolerance,
        )
    raise ConfigError(f"proposer.name is '{settings.name}'; expected local, openai or random; change it")


def _spent(store: Store, run_id: str) -> Spent:
    """Return what the stored requests of a run took."""
    totals = store.call_totals(run_id)
    return Spent(totals.prompt_tokens + totals.completion_tokens, totals.cost or 0.0)


def _check_server(proposer: Proposer) -> None:
    """Raise what is wrong with the server of a proposer that has one, before anything is spent."""
    if isinstance(proposer, Checked):
        asyncio.run(proposer.check())


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


def _check_start_model(problem: Problem, store: Store) -> None:
    """Raise `ConfigError` if a store's versions come from a built-in model that writes something else."""
    fitting = built_in_model(problem)
    for version in store.policy_versions():
        others = {BUILT_IN_MODEL, FORMULA_MODEL} - {fitting}
        if version.number == 0 and Path(version.path).resolve() in {folder.resolve() for folder in others}:
            raise ConfigError(
                f"the policy versions in {store.name} come from the built-in model in {version.path}, and "
                f"for '{problem.id}' the one in {fitting} writes; give it a store of its own (--store)"
            )


def choose_format(problem: Problem, config: Config) -> PromptFormat:
    """Return the prompt format that `prompt.style` names, or that fits the proposer and the problem.

    By itself: the format of the built-in model that fits the problem, behind a server only that for strings
    and not where chat is asked for; else edits for a long or partly fixed starting program, and whole
    programs for any other. Raises `ProblemError` for a problem that does not fit, and `ConfigError` for
    templates that cannot be used and a proposer that knows one format only.
    """
    style, proposer = config.prompt.style, config.proposer
    if proposer.name == "random" and style not in ("auto", "alignment", "formula"):
        raise ConfigError(
            f"prompt.style is '{style}' and proposer.name 'random', which writes expressions as the built-in "
            "model does; expected style auto, or another proposer"
        )
    if style == "auto":
        is_chat = proposer.name == "openai" and proposer.endpoint == "chat"
        if proposer.name in ("local", "random"):
            return built_in_format(problem)
        if not (alignment_fault(problem) or is_chat):
            style = "alignment"
        else:
            style = "diff" if any(map(_is_for_edits, problem.seeds[:1])) else "rewrite"
    if style == "alignment":
        return AlignmentFormat(problem)
    if style == "formula":
        return FormulaFormat(problem)
    templates = load_templates(config.prompt.templates)
    return (DiffFormat if style == "diff" else RewriteFormat)(config.prompt, templates)


def _is_for_edits(program: Program) -> bool:
    """True for a program of which an answer had better be edits: a long one, or one with fixed parts."""
    return len(program.source) > _LONG_PROGRAM or "EVOLVE-BLOCK-START" in program.source


def example_prompts(problem: Problem, config: Config) -> dict[PromptKind, tuple[Message, ...]]:
    """Return what a run would ask first: without a parent, and to improve the first starting program.

    That program is judged for it, in the sandbox. Raises what `choose_format` and `open_evaluator` raise.
    """
    made_by = choose_format(problem, config)
    rows = choose_rows(len(problem.train), made_by.max_rows, np.random.default_rng(config.run.seed))
    requests = []
    if config.search.root_share > 0.0:
        requests.append(Request(config.search.answers, rows=rows))
    for seed in problem.seeds[:1]:
        if made_by.can_show(problem, seed, ParentRole.PARENT):
            with open_evaluator(problem, config) as judge:
                parent = Shown(seed, judge.evaluate(seed))
            requests.append(Request(config.search.answers, PromptKind.MUTATE, parent, rows=rows))
    return {request.kind: made_by.messages(problem, request) for request in requests}


def build_search(problem: Problem, config: Config, run: Run) -> Search:
    """Return the search of a run before its first ask."""
    settings = config.search.changed(evaluations=run.evaluations)
    made_by, language = choose_format(problem, config), join_language(problem)
    return Search(problem, settings, made_by, run.id, run.seed, language)


def start(
    problem: Problem,
    config: Config,
    store: Store,
    proposer: Proposer | None = None,
    on_start: Callable[[Run], None] = lambda run: None,
    on_tell: Callable[[Progress], None] = lambda progress: None,
    run_id: str | None = None,
    judged: Sequence[Evaluation] = (),
    pause_at: int | None = None,
) -> Outcome:
    """Start a new run of `problem`, search until it is solved, stopped or the budget is used, and report.

    `judged` are judgements on this problem version that need not be made again. After `pause_at` evaluations
    (the ask that reaches them is the last) the run is left for `resume`; with one ask in flight at a time it
    comes to what it would have.
    """
    stored = config.changed(store=StoreConfig(url=store.name))
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
    embedder = _open_embedder(config)
    _check_server(proposer)
    with _only_searcher(store, run.id):
        store.add_problem(problem)
        store.add_run(run)
        on_start(run)
        return _drive(search, problem, config, store, proposer, embedder, on_tell, judged, pause_at)


def resume(
    run_id: str,
    store: Store,
    proposer: Proposer | None = None,
    on_start: Callable[[Run], None] = lambda run: None,
    on_tell: Callable[[Progress], None] = lambda progress: None,
    executor: str | None = None,
    pause_at: int | None = None,
) -> Outcome:
    """Take a run up where its last stored tell left it; a finished run only reports.

    The problem and the configuration come from the store, as they were when the run started; `executor`, if
    given, says in place of `sandbox.executor` where programs run from now on, and `pause_at` is that of
    `start`. Raises `ProblemError` if a scorer, which is not in the store, is gone or has changed since, and
    `StoreError` if another process of this machine searches the run; otherwise as `rebuild`.
    """
    with _only_searcher(store, store.run(run_id).id):
        return _take_up(run_id, store, proposer, on_start, on_tell, executor, pause_at)


def _only_searcher(store: Store, run_id: str) -> AbstractContextManager[None]:
    """Hold a run; one in memory has no other process."""
    if store.file is None and store.name.startswith("sqlite"):
        return contextlib.nullcontext()
    return only_searcher(store.name if store.file is None else str(store.file.resolve()), run_id)


def _take_up(
    run_id: str,
    store: Store,
    proposer: Proposer | None,
    on_start: Callable[[Run], None],
    on_tell: Callable[[Progress], None],
    executor: str | None,
    pause_at: int | None,
) -> Outcome:
    search, problem, config, run = rebuild(run_id, store)
    if executor is not None:
        config = config.changed(sandbox={"executor": executor})
    _check_scorer(problem, config)
    if run.status.is_finished:
        on_start(run)
        with open_evaluator(problem, config) as evaluator:
            return _outcome(search, evaluator, store, 0.0)
    proposer = proposer or open_proposer(problem, config, store)
    embedder = _open_embedder(config)
    _check_server(proposer)
    store.set_run_status(run.id, RunStatus.RUNNING)
    on_start(run)
    return _drive(search, problem, config, store, proposer, embedder, on_tell, pause_at=pause_at)


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
    if config.proposer.name == "imported":
        raise ReplayError(
            f"run {run.id} was imported from another system, whose choices are not stored: it cannot be "
            f"replayed or resumed; look at it with `evovpo show {run.id}`"
        )
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
    if run.status is RunStatus.STOPPED and search.is_solved:
        raise ReplayError(f"run {run.id} ended as {run.status}, and replay solves it; its rows were changed")
    if run.status is RunStatus.EXHAUSTED and search.proposed != run.evaluations:
        raise ReplayError(
            f"run {run.id} used its budget of {run.evaluations}, and replay applied {search.proposed} "
            "candidates; tells are missing"
        )
    return search, len(events)


def mean_reward(evaluation: Evaluation | None) -> float:
    """Return the mean of a judgement's rewards; 0 where there is none."""
    rewards = (evaluation.rewards if evaluation else None) or (0.0,)
    return sum(rewards) / len(rewards)


def stored_program(store: Store, program_id: str) -> Program:
    """Return a program by its id. Raises `StoreError` if it is not stored."""
    rows = store.query("SELECT source FROM programs WHERE id = :id", id=program_id)
    if not rows:
        raise StoreError(f"{store.name} holds no program {program_id}")
    return Program(unescape_text(str(rows[0]["source"])), program_id)


def _check_scorer(problem: Problem, config: Config) -> None:
    if problem.evaluator is not None:
        is_same = problem.folder is not None and is_unchanged(problem, config)
    elif problem.scorer_path is not None:
        is_same = problem.folder is not None and load_problem(problem.folder).version == problem.version
    else:
        is_same = True
    if not is_same:
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
    embedder: OpenAIEmbedder | None,
    on_tell: Callable[[Progress], None],
    judged: Sequence[Evaluation] = (),
    pause_at: int | None = None,
) -> Outcome:
    # The store may be named otherwise than when the run was made; programs must not read it under any name.
    config = config.changed(store=StoreConfig(url=store.name))
    started = time.monotonic()
    status = RunStatus.FAILED
    try:
        _tell_again(proposer, search, store)
        with open_executor(problem, config) as evaluator:
            driver = Driver(
                search=search,
                problem=problem,
                config=config,
                prompt_format=choose_format(problem, config),
                proposer=proposer,
                judge=evaluator,
                journal=store,
                known={item.program_id: item for item in judged} | store.known_evaluations(problem.version),
                on_tell=on_tell,
                workers=config.sandbox.workers or os.cpu_count() or 1,
                embedder=embedder,
                pause_at=pause_at,
            )
            status = asyncio.run(_run_and_close(driver, proposer, embedder))
            outcome = _outcome(search, evaluator, store, time.monotonic() - started)
            return outcome._replace(stopped=driver.stop_reason)
    except (KeyboardInterrupt, asyncio.CancelledError, ServerError):  # a server may be back later
        status = RunStatus.INTERRUPTED
        raise
    finally:
        # A store that failed cannot take the status either; the first error is the one to show.
        try:
            store.set_run_status(search.run_id, status)
        except StoreError:
            if status is not RunStatus.FAILED:
                raise


async def _run_and_close(driver: Driver, proposer: Proposer, embedder: OpenAIEmbedder | None) -> RunStatus:
    try:
        return await driver.run()
    finally:
        await proposer.aclose()
        if embedder is not None:
            await embedder.aclose()


def _open_embedder(config: Config) -> OpenAIEmbedder | None:
    if not config.search.novelty_model:
        return None
    from evovpo.proposers.embeddings import OpenAIEmbedder

    settings = config.proposer
    return OpenAIEmbedder(
        settings.base_url,
        config.search.novelty_model,
        timeout_seconds=settings.timeout_seconds,
        attempts=settings.attempts,
    )


def _tell_again(proposer: Proposer, search: Search, store: Store) -> None:
    """Tell a proposer that learns what the stored replies of a run were good for."""
    if isinstance(proposer, Learner) and search.tells:
        tells = (event for event in store.history(search.run_id) if isinstance(event, Tell))
        for tell, gain in zip(tells, search.gains, strict=True):
            if tell.rollout is not None:
                proposer.learned([tell.rollout], [gain])


def _outcome(search: Search, evaluator: Judge, store: Store, seconds: float) -> Outcome:
    best = search.best
    assert best is not None, "a run starts by judging the problem's starting programs"
    heldout = evaluator.evaluate_heldout(best.program) if search.problem.heldout else ()
    summary = store.run_summary(search.run_id)
    scored = best_combined(read_scores(store, search.run_id)) if search.problem.evaluator else None
    program, mean = best.program, best.mean_reward
    if scored is not None:
        program = stored_program(store, scored.program_id)
        mean = mean_reward(store.known_evaluation(search.problem.version, program.id))
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
        program=program.source,
        stopped=search.stop_reason if not search.is_solved else "",
        trust=str(search.problem.trust),
        combined_score=None if scored is None else scored.combined,
        program_id=program.id,
        program_mean_reward=mean,
        best_mean_program_id=best.program.id,
    )
