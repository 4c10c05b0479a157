"""How a run goes on under other settings, and how one begins with the best programs of another."""

import json
from collections.abc import Sequence
from dataclasses import replace

from evovpo.config import Config, EvaluatorConfig, RunConfig, StoreConfig
from evovpo.errors import ConfigError, ProblemError
from evovpo.judging.executors import open_executor
from evovpo.runs.choices import check_proposer, choose_format, with_style
from evovpo.runs.request import RunRequest
from evovpo.runs.stored import find_run, stored_run
from evovpo.search.search import Search
from evovpo.store import Store
from evovpo.types import Problem, Run, RunPart, Status

FIXED = {
    **{kind.section(): tuple(kind.model_fields) for kind in (EvaluatorConfig, RunConfig, StoreConfig)},
    "search": ("strategy", "islands", "elites", "beam", "exploration", "attempts"),
}
"""Settings that hold for a whole run: of the problem, of what tells runs apart, and of the population."""
ORIGINALS = 8
"""Most programs of another run that one begins with; each has rewards that no better one has."""


def next_part(
    search: Search, problem: Problem, run: Run, config: Config, changes: Sequence[str], store: Store
) -> tuple[Config, RunPart | None]:
    """Go on with a search under `section.key=value` changes; return its settings, and the part to be stored.

    There is no part where the search is over under these settings too: it is solved, or its target reached.
    Raises `ConfigError` for a change that cannot be made, at all or within a run, and for a budget used up.
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
    search.go_on(found.search, choose_format(search.problem, found))
    if search.is_over:
        return found, None
    budget, used = found.search.evaluations, search.tickets.reserved
    if budget < used or (budget == used and not search.tickets.open):
        raise ConfigError(
            f"search.evaluations (--evaluations) is {budget}, and run {run.id} has proposed "
            f"{used} programs already; it counts those of the whole run: give more"
        )
    return found, RunPart(len(search.tickets), search.tells, found.to_json())


def with_originals(problem: Problem, config: Config, store: Store) -> Problem:
    """Return the problem as a search begins it: with the programs of another run that it starts from."""
    ids = [name for name in config.run.programs.split(",") if name]
    return replace(problem, seeds=(*problem.seeds, *map(store.program, ids)))


def with_origin(request: RunRequest, store: Store) -> tuple[RunRequest, str]:
    """Return a request whose run begins also with the best programs of `run.origin`, and what to say of it.

    They are judged on the problem of the request; those that fail are left out. Raises `StoreError` for an
    unknown run, and `ProblemError` if none of its programs can be used.
    """
    problem, config = request.problem, request.config
    origin = find_run(store, config.run.origin)
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
            f"--from {config.run.origin}: {none if wanted else f'no program of run {origin} has a reward'}; "
            "give a run whose programs this problem can judge"
        )
    own = {seed.id for seed in problem.seeds}
    programs = ",".join(program_id for program_id in fitting if program_id not in own)
    config = config.changed(run={"origin": origin, "programs": programs})
    text = f"starts from {len(fitting)} of the {len(wanted)} best programs of run {origin}{said}"
    return replace(request, config=config, judged=tuple(known.values())), text
