"""Runs or resumes a whole search in one call, for a named problem or for Python values."""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from evovpo.api.best import Best, best_of
from evovpo.api.evaluators import EvaluatorFunction, project_of
from evovpo.api.frames import frame_rows, is_frame
from evovpo.api.interrupts import in_python, outside_loop, short_errors
from evovpo.api.notebook import curve_html, curve_of, ending
from evovpo.api.own_proposer import Proposing, proposer_of
from evovpo.api.problems import Examples, ScoreFunction, problem_of_examples, problem_of_score, scorer_of
from evovpo.config import Config
from evovpo.errors import ConfigError, EvovpoError, ProblemError
from evovpo.files import write_errors
from evovpo.problem.examples import repeated_rows
from evovpo.reports.advice import common_fault, stored_advice
from evovpo.reports.live import LiveProgress, loading_message
from evovpo.reports.run_report import nothing_judged
from evovpo.reports.text import counted
from evovpo.runs.choices import check_proposer
from evovpo.runs.driver import Progress
from evovpo.runs.request import RunRequest, open_request
from evovpo.runs.start_resume import resume as resume_run
from evovpo.runs.start_resume import start
from evovpo.runs.stored import Outcome, find_run, stored_run
from evovpo.store import Store
from evovpo.types import Json, ParseStatus, Run, Status, content_id

DEFAULT_STORE = "sqlite:///evovpo.db"
_IN_MEMORY = (":memory:", "sqlite://", "sqlite:///:memory:", "sqlite:///%3Amemory%3A")
OnStart = Callable[[Run], None]
OnTell = Callable[[Progress], None]


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
    store: str
    stopped: str
    """Why an unsolved run ended early or judged no program; else empty."""
    ending: str = ""
    """Status and result on held-out rows, such as `memorised, right on 3 of 8 held-out rows`."""
    score_name: str = "mean reward"
    """Name of the score that ranks programs; the curve shows this score."""
    curve: tuple[tuple[int, float], ...] = field(default=(), repr=False)
    """(evaluations, best score so far) for each improvement, and for the end of the run."""
    advice: tuple[str, ...] = ()
    """Suggestions for an unsolved run, the most useful first."""

    def _repr_html_(self) -> str:
        reason = f" ({self.stopped})" * bool(self.stopped)
        head = (
            f"<b>run {self.id}</b>: {escape(self.ending + reason)}, {counted(self.evaluations, 'evaluation')}"
        )
        advice = "".join(f"<li>{escape(line)}</li>" for line in self.advice)
        curve = curve_html(self.curve, self.score_name)
        return f"{head}{self.best._repr_html_()}{curve}<ul>{advice}</ul>"


@short_errors
def evolve(
    problem: str | Path | Any = None,
    *,
    examples: Examples | None = None,
    heldout: Examples = (),
    score: ScoreFunction | None = None,
    inputs: Sequence[Sequence[Json]] | Any = (),
    output: str | None = None,
    seed_program: str | None = None,
    evaluator: str | Path | EvaluatorFunction | None = None,
    initial_program: str | Path | Sequence[str] | None = None,
    config: str | Path | None = None,
    entry: str = "solve",
    statement: str = "",
    limits: Mapping[str, float] | None = None,
    proposer: Proposing | None = None,
    base_url: str = "",
    model: str = "",
    evaluations: int | None = None,
    seed: int = 0,
    store: str | Path = DEFAULT_STORE,
    settings: Mapping[str, object] | None = None,
    progress: bool | None = None,
) -> EvolveResult:
    """Search for a program and return the result of the run.

    Give exactly one of these problems:

    - `problem`: the name of a bundled problem, a folder, or a table (CSV, Excel, JSON Lines, DataFrame). Up
      to 16 rows are for training, the next rows are held out.
    - `examples`: rows (arguments, result), or a DataFrame. The search does not see the rows in `heldout`;
      only their results are reported. A DataFrame that is given as `problem` with `heldout`, `seed_program`,
      `entry` or `statement` is used as `examples`.
    - `score`: a function of the candidate's outputs for `inputs`; it runs in this process. If the candidate
      raises an exception, the output is `evovpo.Failed`. `seed_program` must define the function `entry`.
      `inputs` are lists of arguments, a NumPy array or a DataFrame.
    - `evaluator`, as in OpenEvolve: a file, or a function that takes the path of a program. The evaluator
      runs in the sandbox. `initial_program` is a file or source text.

    `output` is the result column of a table or DataFrame, by default the last.

    `limits` of `examples` and `score` are those of `[limits]` in problem.toml: `{"wall_seconds": 20}`.

    The programs come from `proposer`, from `model` on the server at `base_url`, or by default from the
    built-in model. A proposer is called once at a time; `search.in_flight` allows more calls. `config` is a
    TOML file, or a YAML file for an OpenEvolve project. `settings` maps names to values, such as
    `{"search.in_flight": 8}`. By default, progress is shown on a terminal and in a notebook. A `seed` repeats
    a search exactly if `search.in_flight` is 1.

    Raises `ConfigError` or `ProblemError` for invalid arguments, or if `score` raises on `seed_program`. If
    `proposer` raises, its exception is the cause of a `ConfigError`. After an error or an interrupt (Ctrl-C,
    or stop in a notebook), `resume` continues the run.
    """
    if sum(given is not None for given in (problem, examples, score, evaluator)) != 1:
        raise ConfigError("expected one of problem, examples, score and evaluator; give exactly one of them")
    if proposer is not None and (base_url or model):
        raise ConfigError("expected proposer or a model behind base_url, found both; give one of them")
    if is_frame(problem) and (len(heldout) or seed_program or statement or entry != "solve"):
        problem, examples = None, problem
    columns = [*map(str, getattr(examples, "columns", ()))]
    if output is not None and examples is not None:
        if output not in columns:
            raise ConfigError(f"output: expected a column of a DataFrame, found {output!r:.40}; correct it")
        columns.append(columns.pop(columns.index(output)))
        examples = cast("Any", examples)[columns]
    given: dict[str, object] = {"run.seed": seed, "store.url": store}
    if evaluations is not None:
        given["search.evaluations"] = evaluations
    if proposer is not None:
        given |= {"proposer.name": "own", "search.in_flight": 1}
    elif base_url or model:
        server = {"name": "openai", "model": model, "base_url": base_url}
        given |= {f"proposer.{key}": value for key, value in server.items() if value}
    changes = merged_settings(given, settings)

    file = None if config is None else Path(config)
    doubts: list[str] = []
    faults: list[str] = []

    def run() -> EvolveResult:
        if problem is not None:
            request = open_request(_name_of(problem), file, changes, output=output)
        elif evaluator is not None:
            name, initial = project_of(evaluator, initial_program)
            own = {"evaluator.initial_program": initial} if initial else {}
            request = open_request(name, file, changes | own)
        elif examples is not None:
            made = problem_of_examples(examples, heldout, seed_program, entry, statement, doubts, limits)
            said = (f"the result is the column {columns[-1]!r}",) if columns and output is None else ()
            request = RunRequest(made, Config.load(file, changes), remarks=said)
        else:
            assert score is not None
            if seed_program is None or len(inputs) == 0:
                lacks = "seed_program" if seed_program is None else "inputs to run programs on"
                raise ConfigError(f"score: expected seed_program and inputs, found no {lacks}; give it too")
            loaded = Config.load(file, changes)
            scorer = scorer_of(score, inputs, faults)
            made = problem_of_score(scorer, seed_program, entry, statement, loaded, limits)
            request = RunRequest(made, loaded, scorer=scorer)
        if proposer is None:
            check_proposer(request.problem, request.config)

        def search(opened: Store, on_start: OnStart, on_tell: OnTell) -> Outcome:
            return start(request, opened, proposer_of(proposer), on_start, on_tell)

        doubts.extend(repeated_rows(request.problem))
        url, remarks = request.config.store.url, request.remarks
        return _watched(url, search, progress, doubts, faults, loading_message(request.config), remarks)

    return _warned(outside_loop(run), doubts)


@short_errors
def resume(
    run: str | EvolveResult | Any = "latest",
    *,
    proposer: Proposing | None = None,
    score: ScoreFunction | None = None,
    inputs: Sequence[Sequence[Json]] | Any = (),
    evaluations: int | None = None,
    store: str | Path = DEFAULT_STORE,
    settings: Mapping[str, object] | None = None,
    progress: bool | None = None,
) -> EvolveResult:
    """Resume a stopped run after its last stored reply, and return the result of the run.

    `run` is a run id, the start of a run id, the name of a problem, `latest`, or a result of `evolve` or
    `read_run`, which also names its store. If the run was started with `proposer`, or with `score` and
    `inputs`, pass them again. `evaluations` is the new total budget. Other arguments are as for `evolve`.
    Raises `StoreError` for an unknown run, `ConfigError` for invalid arguments, and `ProblemError` if the
    problem has changed, or `score` gives other rewards for `seed_program` than before.
    """
    if score is not None and len(inputs) == 0:
        raise ConfigError("score needs the inputs that the run began with; give inputs= too")
    changes = merged_settings({} if evaluations is None else {"search.evaluations": evaluations}, settings)
    name, url = stored_at(run, store)

    def search(opened: Store, on_start: OnStart, on_tell: OnTell) -> Outcome:
        found, own = find_run(opened, name), proposer_of(proposer)
        scorer = None if score is None else scorer_of(score, inputs, faults)
        outcome = resume_run(found, opened, own, on_start, on_tell, changes=changes or None, scorer=scorer)
        if not outcome.seconds:
            more = (
                "settings={'search.stop_when_solved': False}" if outcome.solved else "a larger evaluations="
            )
            doubts.append(f"nothing was searched: the run is {outcome.status}; to go on, give {more}")
        return outcome

    doubts, faults = list[str](), list[str]()
    return _warned(outside_loop(lambda: _watched(url, search, progress, doubts, faults)), doubts)


def _name_of(problem: Any) -> str:
    """Return the name or path of a problem. The rows of a DataFrame are first written to `evovpo-out`."""
    if isinstance(problem, str | Path):
        return str(problem)
    if not is_frame(problem):
        raise ConfigError(f"problem: expected a name, found {problem!r:.70}; give rows as examples=")
    text = "".join(json.dumps(row) + "\n" for row in frame_rows(problem, "problem"))
    if not text:
        raise ProblemError("problem: expected a DataFrame of examples, found one without rows; give some")
    path = Path("evovpo-out", f"rows-{content_id(text)[:8]}", "dataframe.jsonl")
    with write_errors(f"{path}:", kind=ProblemError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(path)


def merged_settings(given: Mapping[str, object], settings: Any) -> dict[str, object]:
    """Return `given`, changed by the user's `settings`. Raises `ConfigError` if they are no mapping."""
    if not isinstance(settings, Mapping | None):
        raise ConfigError(f"settings: expected names and values, found {settings!r:.60}; give a dictionary")
    return {**given, **(settings or {})}


def stored_at(run: Any, store: Any) -> tuple[str, str]:
    """Return the name of a run and its store. `run` may be a result, which names both."""
    if isinstance(getattr(run, "store", None), str):
        run, store = run.id, run.store if store == DEFAULT_STORE else store
    if not isinstance(run, str):
        raise ConfigError(f"run: expected an id or a result of evolve, found {run!r:.70}; give one of them")
    if "://" in run or run.endswith(".db"):
        raise ConfigError(f"run: expected an id or a problem, found {run!r}; give a store as store=")
    if not isinstance(store, str | Path) or str(store) in _IN_MEMORY:
        raise ConfigError(
            f"store: expected a file or a lasting database, found {store!r:.60}; name that of runs"
        )
    return run, str(store)


def _warned(result: EvolveResult, doubts: Sequence[str]) -> EvolveResult:
    for doubt in doubts:  # level 4 is the line that called `evolve` or `resume`
        warnings.warn(doubt.removeprefix("examples.json: "), stacklevel=4)
    return result


def _watched(
    url: str,
    search: Callable[[Store, OnStart, OnTell], Outcome],
    progress: bool | None,
    doubts: list[str],
    faults: Sequence[str],
    waiting: str = "",
    remarks: Sequence[str] = (),
) -> EvolveResult:
    console = Console(stderr=True)
    is_shown = console.is_terminal or console.is_jupyter if progress is None else progress
    console.quiet = not is_shown
    with Store.open(url, create=bool(waiting)) as opened:
        with LiveProgress(console, opened.call_totals) as live:
            live.waiting(waiting or "reading the run")
            for remark in [one for one in remarks if one not in doubts]:
                live.line(f"note: {in_python(remark)}")
            try:
                outcome = search(opened, live.started, live.told)
            except EvovpoError as error:
                if live.run is not None and "evovpo.resume" not in str(error):
                    error.args = (f"{error}; then evovpo.resume continues run {live.run.id}, with its store",)
                raise
            except KeyboardInterrupt:
                if live.run is None:
                    raise
                where = f"evovpo.resume({live.run.id!r}, store={opened.name!r})"
                again = "with the same proposer, score and inputs, if any"
                raise KeyboardInterrupt(f"stopped; to continue: {where}, {again}") from None
            score = f"best {outcome.score_name or 'mean reward'} {outcome.best:.6g}"
            live.line(f"run {outcome.run}: {ending(outcome)}; {score}, evaluations: {outcome.evaluations}")
        view = stored_run(opened, outcome.run)
        found, best, name = view.summary.by_status, best_of(view, opened), opened.name
        reason = nothing_judged(outcome, view.summary)
        if reason and (unread := opened.answers(outcome.run, 0, 1, ParseStatus.UNPARSED, 0)):
            reason += f" ({unread[0]['reason']})"
        if found and Status.OK not in found:
            status = max(found, key=found.__getitem__)
            fault = common_fault(opened, view.problem.version, status)
            reason = reason or f"every program failed, most often with {fault or status}"
        advice = tuple(map(in_python, stored_advice(opened, view, is_failed=bool(reason))))
    if advice:
        said = "\n".join(["Suggestions:", *(f"- {line}" for line in advice)])
        console.print(said, markup=False, highlight=False, soft_wrap=True)
    if faults:
        count = f"{len(faults)} of {outcome.executed} programs"
        doubts.append(f"score raised on {count}, the first: {faults[0]}; they got zeros")
    doubts += [reason] * bool(reason)
    return EvolveResult(
        id=outcome.run,
        solved_train=outcome.solved,
        solved_heldout=outcome.solved_heldout,
        best=best,
        evaluations=outcome.evaluations,
        store=name,
        stopped=outcome.stopped or reason,
        ending=ending(outcome),
        score_name=outcome.score_name or "mean reward",
        curve=curve_of(view),
        advice=advice,
    )
