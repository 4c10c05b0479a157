"""Reads stored runs and their programs, as records and as table rows."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evovpo.api.best import Best, best_of
from evovpo.api.evolve import DEFAULT_STORE, stored_at
from evovpo.api.interrupts import short_errors
from evovpo.api.notebook import curve_html, curve_of, ending
from evovpo.reports.text import counted
from evovpo.runs.stored import find_run, stored_run
from evovpo.runs.stored import list_runs as runs_of
from evovpo.store import Store
from evovpo.store.summary import RunRow
from evovpo.types import Json, ParentRole, ParseStatus, Prompt, PromptKind, Run, RunStatus, Status


@dataclass(frozen=True)
class ProgramRecord:
    """A program of a run, with the data of its first proposal."""

    id: str
    source: str
    order: int
    kind: PromptKind
    """Kind of the prompt; `seed` for a starting program, `join` for a program joined without a model."""
    island: int
    parents: tuple[tuple[ParentRole, str], ...]
    """(role, program id) of each program from which this program was made."""
    status: Status
    rewards: dict[str, float]
    """Component -> reward; zeros if the program failed, empty if the sandbox failed."""
    feedback: str
    metrics: dict[str, Json]
    """Raw metrics, if the evaluator returns any."""


@dataclass(frozen=True)
class StoredRun:
    """A stored run and its programs."""

    id: str
    problem: str
    status: RunStatus
    run: Run = field(repr=False)
    programs: tuple[ProgramRecord, ...] = field(repr=False)
    """In the order of proposal."""
    best: Best = field(repr=False)
    """The best program, as `evovpo show` gives it."""
    store: str
    ending: str
    """The status (`memorised` if solved, but not on held-out rows), with the result on held-out rows."""
    evaluations: int = field(repr=False)
    score_name: str = field(repr=False)
    curve: tuple[tuple[int, float], ...] = field(repr=False)
    """(evaluations, best score so far) for each improvement, and for the end of the run."""

    def _repr_html_(self) -> str:
        head = f"<b>run {self.id}</b>: {self.ending}, {counted(self.evaluations, 'evaluation')}"
        return f"{head}{self.best._repr_html_()}{curve_html(self.curve, self.score_name)}"

    def lineage(self, program_id: str) -> list[ProgramRecord]:
        """Return a program and its ancestors, newest first. Programs shown as inspiration are left out."""
        by_id = {program.id: program for program in self.programs}
        found, wanted = {program_id: by_id[program_id]}, [program_id]
        while wanted:
            for role, parent in by_id[wanted.pop()].parents:
                if role is not ParentRole.INSPIRATION and parent not in found:
                    found[parent] = by_id[parent]
                    wanted.append(parent)
        return sorted(found.values(), key=lambda program: -program.order)

    def rows(self) -> list[dict[str, object]]:
        """Return one flat dictionary per program, for pandas.DataFrame(rows) or polars.DataFrame(rows)."""
        return [
            {
                "run": self.id,
                "program": program.id,
                "order": program.order,
                "kind": str(program.kind),
                "island": program.island,
                "parents": ",".join(parent for _, parent in program.parents),
                "status": str(program.status),
                "mean_reward": sum(program.rewards.values()) / max(1, len(program.rewards)),
                **{f"reward:{name}": reward for name, reward in program.rewards.items()},
                **{f"metric:{name}": value for name, value in program.metrics.items()},
                "source": program.source,
            }
            for program in self.programs
        ]


@short_errors
def list_runs(store: str | Path = DEFAULT_STORE) -> list[RunRow]:
    """Return the runs of a store (path or SQLAlchemy URL), newest first."""
    with Store.open(stored_at("latest", store)[1], create=False) as opened:
        return runs_of(opened)


@short_errors
def read_run(run: str | Any = "latest", store: str | Path = DEFAULT_STORE) -> StoredRun:
    """Return a run by id, unique prefix of the id, problem, `latest`, or a result of `evolve`.

    A result also names its store. Raises `StoreError` if the run is not found.
    """
    name, url = stored_at(run, store)
    with Store.open(url, create=False) as opened:
        view = stored_run(opened, find_run(opened, name))
        found, problem = view.run, view.problem
        names = [objective.name for objective in problem.objectives]
        prompts: dict[str, Prompt] = {}
        programs: dict[str, ProgramRecord] = {}
        for event in opened.history(found.id):
            if isinstance(event, Prompt):
                prompts[event.id] = event
                continue
            for judged in event.judged:
                candidate, evaluation = judged.candidate, judged.evaluation
                program = candidate.program
                if candidate.parse_status is not ParseStatus.PARSED or program is None or evaluation is None:
                    continue
                record = ProgramRecord(
                    id=program.id,
                    source=program.source,
                    order=len(programs),
                    kind=prompts[candidate.prompt_id].kind,
                    island=prompts[candidate.prompt_id].island,
                    parents=tuple((parent.role, parent.program_id) for parent in candidate.parents),
                    status=evaluation.status,
                    rewards=dict(zip(names, evaluation.rewards or (), strict=False)),
                    feedback=evaluation.feedback,
                    metrics=dict(evaluation.metrics or ()),
                )
                programs.setdefault(program.id, record)
        outcome = view.outcome(0.0)
        return StoredRun(
            id=found.id,
            problem=problem.id,
            status=found.status,
            run=found,
            programs=tuple(programs.values()),
            best=best_of(view, opened),
            store=opened.name,
            ending=ending(outcome),
            evaluations=outcome.evaluations,
            score_name=outcome.score_name or "mean reward",
            curve=curve_of(view),
        )
