"""The request for a run: problem, settings, later changes of settings, and starting programs."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from evovpo.config import Config, EvaluatorConfig, RunConfig, StoreConfig
from evovpo.errors import ConfigError, InitialProgramError, ProblemError, StoreError
from evovpo.judging.evaluator import Scorer
from evovpo.judging.executors import open_executor
from evovpo.problem.examples import repeated_rows
from evovpo.problem.folder import load_problem
from evovpo.problem.importers.tables import is_table, write_table
from evovpo.problem.openevolve.folder import is_project
from evovpo.problem.openevolve.loading import LoadedProject, initial_fault
from evovpo.problem.openevolve.opening import open_project
from evovpo.problem.suites import resolve_problem
from evovpo.prompts.extract_programs import defined_names
from evovpo.runs.choices import check_proposer, choose_format, with_style
from evovpo.runs.stored import find_run, stored_run
from evovpo.sandbox.openings import split_words, what_is_missing
from evovpo.search.search import SearchState
from evovpo.store import Store
from evovpo.types import Evaluation, Problem, Run, RunPart, Status


@dataclass(frozen=True)
class RunRequest:
    problem: Problem
    config: Config
    judged: tuple[Evaluation, ...] = ()
    run_id: str = ""
    scorer: Scorer | None = None
    project: LoadedProject | None = None
    remarks: tuple[str, ...] = ()


def is_yaml(config_file: Path | None) -> bool:
    """Return whether the option `--config` names a YAML file (for OpenEvolve) or is the word `none`."""
    return config_file is not None and (config_file.suffix in (".yaml", ".yml") or str(config_file) == "none")


def open_request(
    name: str,
    config_file: Path | None = None,
    changes: Mapping[str, object] | None = None,
    allow: Sequence[str] = (),
    output: str | None = None,
    columns: str | None = None,
    is_run: bool = True,
) -> RunRequest:
    """Return the request for a run on a problem folder, an OpenEvolve project, a table or a bundled problem.

    A `config_file` in YAML replaces the configuration of an OpenEvolve project; `none` means an empty file.
    `allow` are the permissions granted to a project. `is_run` is true if a run will follow. In this case,
    servers in the project's own YAML also need permission. For `output` and `columns` (comma-separated) of
    tables, see `table_task`. Raises `ProblemError`, `ConfigError` and `SandboxError`.
    """
    remarks: tuple[str, ...] = ()
    if is_table(name):
        folder, said = write_table(Path(name), output, split_words(columns or ""))
        name, remarks = str(folder), (f"{said}. The problem is in {folder}",)
    elif output is not None or columns is not None:
        raise ConfigError(
            f"--output and --columns are for tables, and {name} is none; leave them out, or give the folder "
            "for results as --output-dir"
        )
    yaml = None
    if is_yaml(config_file):
        yaml, config_file = config_file, None
    path = resolve_problem(name)
    if is_project(path):
        stored = partial(_stored_problems, path)
        opened = open_project(
            path, config_file, changes, yaml, stored, allow=allow, is_run=is_run, known=_stored_initial
        )
        problem, initial = opened.problem, opened.initial
        judged = () if opened.config.evaluator.judges else opened.judged
        fault = "" if initial is None else initial_fault(initial, opened.config, Path(str(problem.folder)))
        lacks = what_is_missing(initial.feedback, opened.config.evaluator.allow) if initial else ""
        is_broken = problem.suffix == ".py" and defined_names(problem.seeds[0].source) is None
        if initial and fault and is_run and (lacks or is_broken):
            raise InitialProgramError(f"not usable: {fault}", dict(initial.metrics or ()))
        doubts = [f"not usable: {fault}. If all programs fail alike, the run ends"] if fault else []
        shown = name + f" --config {yaml}" * bool(yaml)
        remarks = (*opened.settings.remarks(shown), *doubts, *opened.remarks)
        return RunRequest(problem, opened.config, judged, project=opened, remarks=remarks)
    config = Config.load(config_file, changes)
    if yaml or config.evaluator.initial_program or allow or config.evaluator.allow:
        option = f"--config {yaml}" if yaml else "--allow (evaluator.allow)"
        option = "evaluator.initial_program" if config.evaluator.initial_program else option
        raise ConfigError(f"{option} is for OpenEvolve projects, and {name} is none; leave it out")
    problem = load_problem(path)
    return RunRequest(problem, config, remarks=(*remarks, *repeated_rows(problem)))


def _stored_problems(path: Path, config: Config) -> list[Problem]:
    try:
        with Store.open(config.store.url, create=False) as store:
            return store.problem_versions((path.parent if path.is_file() else path).name)
    except StoreError:  # no store yet, or the run will report the error when it opens the store
        return []


def _stored_initial(config: Config, problem: Problem) -> Evaluation | None:
    with contextlib.suppress(StoreError), Store.open(config.store.url, create=False) as store:
        return store.known_evaluation(problem.version, problem.seeds[0].id)
    return None


FIXED = {
    **{kind.section(): tuple(kind.model_fields) for kind in (EvaluatorConfig, RunConfig, StoreConfig)},
    "search": ("strategy", "islands", "elites", "attempts", "ways"),
}
"""Names of the settings, by section, that cannot change within a run."""
CONNECTION = ("base_url", "timeout_seconds", "patience_seconds", "attempts", "concurrency")
ORIGINALS = 8
"""Maximum number of programs taken over from another run, no two with the same rewards and score."""


def next_part(
    search: SearchState,
    problem: Problem,
    run: Run,
    config: Config,
    changes: Mapping[str, object],
    store: Store,
) -> tuple[Config, RunPart | None]:
    """Apply `changes` to a search. Return the new settings, and a `RunPart` that records them, or None.

    `changes` maps `section.key` to values. There is no `RunPart` if the search is over for another reason
    than its budget. Raises `ConfigError` if a setting cannot change in a run, or if the budget is used up.
    """
    found = Config.load(None, changes, json.loads(config.to_json()), f"settings of run {run.id}")
    for name, section, key in [(f"{name}.{key}", name, key) for name, keys in FIXED.items() for key in keys]:
        old, new = getattr(getattr(config, section), key), getattr(getattr(found, section), key)
        if old != new:
            raise ConfigError(
                f"{name} is {old!r} for all of run {run.id}, found {new!r}; leave it out, or start a new run "
                f"from its best programs: evovpo evolve PROBLEM --from {run.id} --set {name}={new}"
            )
    found = with_style(problem, found, store)
    check_proposer(problem, found)
    done, used = search.standing.proposed, search.tickets.reserved
    if done < found.search.evaluations < used:  # the prompts under way count
        found = found.changed(search={"evaluations": used})
    search.go_on(found.search, choose_format(search.standing.problem, found))
    if search.standing.is_over:
        return found, None
    budget = found.search.evaluations
    if budget < used or (budget == used and not search.tickets.open):
        raise ConfigError(
            f"search.evaluations (--evaluations) is {budget}, and run {run.id} has proposed "
            f"{done} programs already; it counts those of the whole run: give more"
        )
    return found, RunPart(len(search.tickets), search.standing.tells, found.to_json())


def with_originals(problem: Problem, config: Config, store: Store) -> Problem:
    """Return the problem with the programs in the setting `run.origin` as additional starting programs."""
    return replace(problem, seeds=(*problem.seeds, *map(store.program, config.run.origin[1:])))


def with_origin(request: RunRequest, store: Store) -> tuple[RunRequest, str]:
    """Return the request with starting programs from another run, and a remark on them.

    The setting `run.origin` contains the id of that run; the ids of its best programs are added. Programs
    that fail on the problem of the request are left out. Raises `ProblemError` if all of them fail.
    """
    problem, config = request.problem, request.config
    origin = find_run(store, config.run.origin[0])
    scores = stored_run(store, origin).scores
    scored = {one.program_id: one.combined for one in scores if one.combined is not None}
    ranked = store.vectors([origin])
    if scored:
        ranked.sort(key=lambda item: -scored.get(item[0], float("-inf")))
    originals: dict[object, str] = {}
    for program_id, rewards in ranked:
        if any(rewards):
            originals.setdefault((rewards, scored.get(program_id)), program_id)
    wanted = list(originals.values())[:ORIGINALS]
    known, fitting, faults = {item.program_id: item for item in request.judged}, [], []
    with open_executor(problem, config, request.scorer) as judge:
        for program in map(store.program, wanted):
            before = known.get(program.id) or store.known_evaluation(problem.version, program.id)
            found = known[program.id] = before or judge.evaluate(program)
            if found.status is Status.OK:
                fitting.append(program.id)
            else:
                faults.append(f"{program.id} ({found.status}: {' '.join(found.feedback.split())[:60]})")
    said = f"; left out: {', '.join(faults)}" if faults else ""
    if not fitting:
        none = f"none of the {len(wanted)} best programs of run {origin} can be used for {problem.id}{said}"
        raise ProblemError(
            f"--from {origin}: {none if wanted else f'no program of run {origin} has a reward'}; "
            "give a run whose programs this problem can judge"
        )
    own = {seed.id for seed in problem.seeds}
    programs = (program_id for program_id in fitting if program_id not in own)
    config = config.changed(run={"origin": (origin, *programs)})
    text = f"starts from {len(fitting)} of the {len(wanted)} best programs of run {origin}{said}"
    return replace(request, config=config, judged=tuple(known.values())), text
