"""Runs or resumes a whole search in one call, for a named problem or for Python values."""

import asyncio
import inspect
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from evovpo.analysis.scores import combined_curve
from evovpo.api.evaluators import EvaluatorFunction, project_of
from evovpo.api.notebook import curve_html, program_html
from evovpo.api.problems import Examples, ScoreFunction, problem_of_examples, problem_of_score
from evovpo.config import Config
from evovpo.errors import ConfigError, EvovpoError, ProblemError
from evovpo.problem.examples import repeated_rows
from evovpo.proposers import check_ticket, text_rollout
from evovpo.reports.live import LiveProgress
from evovpo.reports.run_report import nothing_judged
from evovpo.runs.choices import check_proposer
from evovpo.runs.driver import Progress
from evovpo.runs.request import RunRequest, open_request
from evovpo.runs.start_resume import resume as resume_run
from evovpo.runs.start_resume import start
from evovpo.runs.stored import Outcome, find_run, stored_run
from evovpo.sandbox import Sandbox
from evovpo.store import Store
from evovpo.types import Json, Prompt, Rollout, Run, Sampling, Status

Proposing = Callable[[list[dict[str, str]], int], "Sequence[str] | Awaitable[Sequence[str]]"]
"""A function (messages, n) -> n texts, sync or async. A message has `role` and `content`, as in chat APIs."""
_T = TypeVar("_T")
OnStart = Callable[[Run], None]
OnTell = Callable[[Progress], None]


@dataclass(frozen=True)
class Best:
    """The best program of a run."""

    id: str
    source: str
    rewards: dict[str, float]
    """Component -> reward in [0, 1]."""
    mean_reward: float
    metrics: dict[str, Json]
    """Raw metrics, if the evaluator returns any."""
    entry: str = ""
    """Name of the function that the program defines; empty if an OpenEvolve evaluator runs the program."""

    def __call__(self, *arguments: Json) -> Json:
        """Run the program in the sandbox. Raises `ProblemError` if the program fails or is not a function."""
        if not self.entry:
            raise ProblemError("the best program is no function: its evaluator runs it; save best.source")
        with Sandbox(workers=1) as sandbox:
            result = sandbox.run(self.source, self.entry, [arguments], per_case=True)
        if result.status is not Status.OK or result.errors[0] is not None:
            raise ProblemError(f"{self.entry}{arguments!r}: {result.detail or result.errors[0]}")
        return result.outputs[0]

    def _repr_html_(self) -> str:
        return program_html(self.source, self.metrics or self.rewards)


@dataclass(frozen=True)
class EvolveResult:
    """Result of a run; `evovpo.read_run(result.id, result.store)` returns all details."""

    id: str
    solved_train: bool
    """True if every example or component has full reward."""
    solved_heldout: bool | None
    """True if every held-out example passes too; None without held-out examples."""
    best: Best
    evaluations: int
    """Number of candidate programs that the run proposed."""
    store: str
    stopped: str
    """Why an unsolved run ended early or judged no program; else empty."""
    score_name: str = "mean reward"
    """Name of the score that ranks programs; the curve shows this score."""
    curve: tuple[tuple[int, float], ...] = ()
    """(evaluations, best score so far) for each improvement."""

    def _repr_html_(self) -> str:
        solved = "solved" if self.solved_train else self.stopped or "not solved"
        head = f"<b>run {self.id}</b>: {escape(solved)}, {self.evaluations} evaluations"
        return f"{head}{self.best._repr_html_()}{curve_html(self.curve, self.score_name)}"


def evolve(
    problem: str | Path | Any = None,
    *,
    examples: Examples | None = None,
    heldout: Examples = (),
    score: ScoreFunction | None = None,
    inputs: Sequence[Sequence[Json]] = (),
    seed_program: str | None = None,
    evaluator: str | Path | EvaluatorFunction | None = None,
    initial_program: str | Path | Sequence[str] | None = None,
    config: str | Path | None = None,
    entry: str = "solve",
    statement: str = "",
    proposer: Proposing | None = None,
    base_url: str = "",
    model: str = "",
    evaluations: int | None = None,
    seed: int = 0,
    store: str | Path = "sqlite:///evovpo.db",
    settings: Mapping[str, object] | None = None,
    progress: bool | None = None,
) -> EvolveResult:
    """Search for a program and return the result of the run.

    Give exactly one of these problems:

    - `problem`: the name of a bundled problem, a folder, or a table (CSV, Excel, JSON Lines).
    - `examples`: rows (arguments, result), or a DataFrame whose last column is the result. The search
      does not see the rows in `heldout`; only their results are reported.
    - `score`: a function that gets the candidate's outputs for `inputs` and runs in this process. Where the
      candidate raises, the output is `evovpo.Failed`. `seed_program` must define the function `entry`.
    - `evaluator`, as in OpenEvolve: a file, or a function that takes the path of a program. It runs in
      the sandbox. `initial_program` is a file or source text.

    The programs come from `proposer`, from `model` on the server at `base_url`, or by default from the
    built-in model. `config` is a TOML file, or a YAML file for an OpenEvolve project. `settings` maps names
    to values, such as `{"search.islands": 2}`. By default, progress is shown on a terminal and in a notebook.

    Raises `ConfigError` or `ProblemError` for invalid arguments, or if `score` raises on `seed_program`.
    """
    if hasattr(problem, "to_dict"):  # a DataFrame
        problem, examples = None, problem
    if sum(given is not None for given in (problem, examples, score, evaluator)) != 1:
        raise ConfigError("expected one of problem, examples, score and evaluator; give exactly one of them")
    if proposer is not None and (base_url or model):
        raise ConfigError("expected proposer or a model behind base_url, found both; give one of them")
    given: dict[str, object] = {"run.seed": seed, "store.url": store}
    if evaluations is not None:
        given["search.evaluations"] = evaluations
    if proposer is not None:
        given |= {"proposer.name": "own", "search.in_flight": 1}
    elif model:
        given |= {"proposer.name": "openai", "proposer.model": model, "proposer.base_url": base_url}
    changes = {**given, **(settings or {})}

    file = None if config is None else Path(config)
    doubts: list[str] = []

    def run() -> EvolveResult:
        if problem is not None:
            request = open_request(str(problem), file, changes)
        elif evaluator is not None:
            name, initial = project_of(evaluator, initial_program)
            own = {"evaluator.initial_program": initial} if initial else {}
            request = open_request(name, file, changes | own)
        elif examples is not None:
            made = problem_of_examples(examples, heldout, seed_program, entry, statement)
            request = RunRequest(made, Config.load(file, changes))
        else:
            assert score is not None
            if seed_program is None or not inputs:
                raise ConfigError("score needs seed_program, and inputs to run it on; give both")
            loaded = Config.load(file, changes)
            scored, scorer = problem_of_score(score, inputs, seed_program, entry, statement, loaded)
            request = RunRequest(scored, loaded, scorer=scorer)
        if proposer is None:
            check_proposer(request.problem, request.config)

        def search(opened: Store, on_start: OnStart, on_tell: OnTell) -> Outcome:
            own = None if proposer is None else FunctionProposer(proposer)
            return start(request, opened, own, on_start, on_tell)

        doubts.extend(repeated_rows(request.problem))
        return _watched(request.config.store.url, search, progress, doubts)

    result = outside_loop(run)
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=2)
    return result


def resume(
    run: str = "latest",
    *,
    proposer: Proposing | None = None,
    evaluations: int | None = None,
    store: str | Path = "sqlite:///evovpo.db",
    settings: Mapping[str, object] | None = None,
    progress: bool | None = None,
) -> EvolveResult:
    """Resume a stopped run after its last stored reply, and return the result of the run.

    `run` is the run's id or its first characters, its problem, or `latest`. If the run was started with
    `proposer`, pass it again. `evaluations` is the new total budget. Other arguments are as for `evolve`.
    Raises `StoreError` for an unknown run, `ConfigError` for invalid settings, and `ProblemError` if the
    problem has changed or was given as a `score` function.
    """
    changes = {**(settings or {}), **({} if evaluations is None else {"search.evaluations": evaluations})}

    def search(opened: Store, on_start: OnStart, on_tell: OnTell) -> Outcome:
        own = None if proposer is None else FunctionProposer(proposer)
        found = find_run(opened, run)
        return resume_run(found, opened, own, on_start, on_tell, changes=changes or None)

    url, doubts = Config.load(None, {"store.url": store}).store.url, list[str]()
    result = outside_loop(lambda: _watched(url, search, progress, doubts, create=False))
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=2)
    return result


def _watched(
    url: str,
    search: Callable[[Store, OnStart, OnTell], Outcome],
    progress: bool | None,
    doubts: list[str],
    create: bool = True,
) -> EvolveResult:
    console = Console(stderr=True)
    is_shown = console.is_terminal or console.is_jupyter if progress is None else progress
    with Store.open(url, create=create) as opened:
        if is_shown:
            with LiveProgress(console, opened.call_totals) as live:
                outcome = search(opened, live.started, live.told)
        else:
            outcome = search(opened, lambda run: None, lambda told: None)
        view = stored_run(opened, outcome.run)
        problem, found = view.problem, view.summary.by_status
        judged = opened.known_evaluation(problem.version, outcome.program_id)
        name = opened.name
    scores = [(point.evaluations, point.combined or 0.0) for point in combined_curve(view.scores)]
    means = [(point.evaluations, point.best_mean_reward) for point in view.summary.curve]
    names = [objective.name for objective in problem.objectives]
    rewards = (judged.rewards if judged else None) or (0.0,) * len(names)
    reason = nothing_judged(outcome, view.summary)
    if found and Status.OK not in found:
        reason = reason or f"every program failed, most often with {max(found, key=found.__getitem__)}"
    doubts += [reason] * bool(reason)
    return EvolveResult(
        id=outcome.run,
        solved_train=outcome.solved_train,
        solved_heldout=outcome.solved_heldout,
        best=Best(
            id=outcome.program_id,
            source=outcome.program,
            rewards=dict(zip(names, rewards, strict=True)),
            mean_reward=outcome.program_mean_reward,
            metrics=dict(outcome.best_metrics),
            entry=problem.entry,
        ),
        evaluations=outcome.evaluations,
        store=name,
        stopped=outcome.stopped or reason,
        score_name=outcome.score_name or "mean reward",
        curve=tuple(scores if outcome.score_name else means),
    )


def outside_loop(function: Callable[[], _T]) -> _T:
    """Return `function()`. If this thread runs an event loop, call `function` in another thread."""
    try:
        asyncio.get_running_loop()
        is_inside = True
    except RuntimeError:
        is_inside = False
    try:
        if not is_inside:
            return function()
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(function).result()
    except EvovpoError as error:
        raise error.with_traceback(None) from None


@dataclass(frozen=True)
class FunctionProposer:
    """A proposer that calls a user's function. Its replies have no token ids, so training cannot use them."""

    function: Proposing
    policy_version: int = 0

    async def propose(self, prompt: Prompt, indices: Sequence[int], sampling: Sampling) -> list[Rollout]:
        """Return one rollout for each index. Raises `ConfigError` unless there is one text for each index."""
        check_ticket(prompt, indices)
        messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
        texts = await asyncio.to_thread(self.function, messages, len(indices))
        if inspect.isawaitable(texts):
            texts = await texts
        return make_rollouts(prompt, indices, texts, sampling)

    async def aclose(self) -> None:
        """Do nothing: there are no resources to release."""


def make_rollouts(prompt: Prompt, indices: Sequence[int], texts: Any, sampling: Sampling) -> list[Rollout]:
    """Return one rollout for each index and its text. Raises `ConfigError` unless each index has one text."""
    is_listed = isinstance(texts, list | tuple) and len(texts) == len(indices)
    if not (is_listed and all(isinstance(text, str) for text in texts)):
        raise ConfigError(
            f"replies to prompt {prompt.id}: expected a list of {len(indices)} texts, found {texts!r:.80}; "
            "return one text for each completion that is asked for"
        )
    return [text_rollout(prompt, index, text, sampling) for index, text in zip(indices, texts, strict=True)]
