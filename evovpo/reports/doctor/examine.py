"""Reads or makes the sample of a run or problem, and diagnoses it."""

from collections.abc import Callable
from typing import NamedTuple

from evovpo.analysis.doctor.findings import Diagnosis, diagnose
from evovpo.analysis.doctor.sample_figures import take_sample
from evovpo.config import Config
from evovpo.errors import ProblemError, StoreError
from evovpo.problem.folder import load_problem, with_folder_grouping
from evovpo.problem.suites import resolve_problem
from evovpo.runs.driver import Progress
from evovpo.runs.request import RunRequest
from evovpo.runs.run import start
from evovpo.runs.stored import find_run
from evovpo.store import Store
from evovpo.types import Problem, Run

SAMPLING: dict[str, object] = {
    "search.evaluations": 240,
    "search.answers": 3,
    "search.joins": False,
    "search.stop_when_solved": False,
}
"""How a sample of a problem without runs is made: by an ordinary search whose candidates are all the model's,
in chains as VPO trains on them. 240 answers are ten prompts."""


class DoctorReport(NamedTuple):
    """A diagnosis and the source of its sample."""

    problem: Problem
    """With the grouping that it has now."""
    run: Run
    diagnosis: Diagnosis
    others: int = 0
    """Further runs that the problem was found to have, and that were not looked at."""
    is_new: bool = False
    """True if the run was made for this report."""


def named_problem(target: str) -> Problem | None:
    """Return the problem that a target names (a folder or a bundled one), or None if it can only be a run.

    Raises `ProblemError` for a problem that cannot be used, and for a path that names none.
    """
    try:
        folder = resolve_problem(target)
    except ProblemError:
        if "/" in target:
            raise
        return None
    return load_problem(folder) if (folder / "problem.toml").is_file() else None


def examine_run(store: Store, target: str) -> DoctorReport:
    """Return the report on a run, given by its id, the beginning of one, or as `latest`.

    Raises `StoreError` if it is not there or empty, and `ProblemError` if its problem's folder cannot be
    used.
    """
    try:
        run = store.run(find_run(store, target))
    except StoreError as error:
        try:
            resolve_problem(target)
        except ProblemError as other:
            raise StoreError(f"{target} is neither a run nor a problem. {error}. {other}") from None
        raise
    problem = with_folder_grouping(store.problem(run.problem_id, run.problem_version))
    report = _report(store, run, problem)
    if report is None:
        raise StoreError(
            f"run {run.id} has no prompt whose completions are all judged and hold a program; let it go on"
            f" (`evovpo resume {run.id}`), or name another run"
        )
    return report


def examine_problem(
    store: Store,
    problem: Problem,
    config: Config,
    on_start: Callable[[Run], None] = lambda run: None,
    on_tell: Callable[[Progress], None] = lambda progress: None,
) -> DoctorReport:
    """Return the report on the newest run of this version of a problem, after making one if there is none.

    Raises `StoreError` if the new run has nothing to look at; otherwise as `evovpo.runs.run.start`.
    """
    runs = runs_of(store, problem)
    for run in runs:
        report = _report(store, run, problem)
        if report is not None:
            return report._replace(others=len(runs) - 1)
    run_id = start(RunRequest(problem, config), store, on_start=on_start, on_tell=on_tell).run
    report = _report(store, store.run(run_id), problem)
    if report is None:
        raise StoreError(
            f"run {run_id} was made to look at, and none of its {config.search.evaluations} candidates holds"
            " a program: the proposer does not write what this problem asks for; use another one"
        )
    return report._replace(others=len(runs), is_new=True)


def runs_of(store: Store, problem: Problem) -> list[Run]:
    """Return the runs of this version of a problem, newest first."""
    runs = [store.run(row.run) for row in store.runs() if row.problem == problem.id]
    return [run for run in runs if run.problem_version == problem.version]


def _report(store: Store, run: Run, problem: Problem) -> DoctorReport | None:
    """Return the report on a run, or None if no complete group of it holds a program."""
    sample = take_sample(problem, store.groups(run.id))
    return DoctorReport(problem, run, diagnose(sample)) if len(sample.different_N_D) else None
