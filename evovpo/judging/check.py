"""Checks a problem folder by running its starting programs in the sandbox."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evovpo.config import Config
from evovpo.judging.evaluator import open_evaluator
from evovpo.problem.examples import repeated_rows
from evovpo.problem.folder import load_problem
from evovpo.problem.openevolve.evaluator import open_openevolve
from evovpo.problem.openevolve.folder import is_project
from evovpo.problem.openevolve.loading import LoadedProject, initial_fault
from evovpo.problem.openevolve.opening import open_project
from evovpo.problem.programs import seed_paths
from evovpo.types import Evaluation, Problem, Status

_MANY_OBJECTIVES = 16
_FEW_ROWS = 4


@dataclass(frozen=True, slots=True)
class SeedReport:
    name: str
    evaluation: Evaluation
    heldout_passed: int = 0


@dataclass(frozen=True, slots=True)
class CheckReport:
    problem: Problem
    seeds: tuple[SeedReport, ...]
    warnings: tuple[str, ...]
    fault: str = ""
    """Why an OpenEvolve project is unusable: the initial program fails, or the metrics report an error."""


def check_problem(path: Path | str, config: Config | None = None) -> CheckReport:
    """Evaluate the starting programs of a folder and return a report with warnings about the problem.

    Raises `ProblemError` for an invalid folder, and `SandboxError` if programs cannot be run.
    """
    if is_project(Path(path)):
        return check_project(open_project(Path(path)), config)
    problem = load_problem(path)
    seeds: list[SeedReport] = []
    with open_evaluator(problem, config or Config()) as evaluator:
        for file, program in zip(seed_paths(Path(str(problem.folder))), problem.seeds, strict=True):
            evaluation = evaluator.evaluate(program)
            seeds.append(SeedReport(file.name, evaluation, sum(evaluator.evaluate_heldout(program))))
    return CheckReport(problem, tuple(seeds), tuple(_doubts(problem, seeds)))


def check_project(loaded: LoadedProject, config: Config | None = None) -> CheckReport:
    """Return a report on an OpenEvolve project, after evaluating its initial program if necessary."""
    problem = loaded.problem
    assert problem.evaluator is not None
    evaluation = loaded.initial
    if evaluation is None:
        with open_openevolve(problem, config or Config()) as evaluator:
            evaluation = evaluator.evaluate(problem.seeds[0], every_stage=True)
    fault = initial_fault(evaluation, loaded.config, Path(str(problem.folder)))
    return CheckReport(problem, (SeedReport("the initial program", evaluation),), loaded.remarks, fault)


def _doubts(problem: Problem, seeds: Sequence[SeedReport]) -> Iterator[str]:
    if problem.is_by_example:
        if len(problem.train) < _FEW_ROWS:
            yield (
                f"examples.json: {len(problem.train)} training rows; a program can memorise so few, give at "
                f"least {_FEW_ROWS}"
            )
        if not problem.heldout:
            yield "examples.json: no held-out rows; a memorised answer then looks like a solved problem"
        yield from repeated_rows(problem)
    count = len(problem.objectives)
    components = len(problem.groups) or count
    if components > _MANY_OBJECTIVES:
        what = f"{components} groups of objectives" if problem.groups else f"{count} objectives"
        yield (
            f"{what}; above {_MANY_OBJECTIVES} random weightings are nearly even, and training rewards little"
            " but the mean: group what is alike in [grouping] (`evovpo doctor` suggests how), or train with"
            " alpha below 1"
        )
    if components == 1:
        yield "one objective only; search and training then see one number, not a vector"
    programs: dict[str, str] = {}
    for seed in seeds:
        evaluation = seed.evaluation
        twin = programs.setdefault(evaluation.program_id, seed.name)
        if twin != seed.name:
            yield f"{seed.name}: the same program as {twin}; remove one"
        if evaluation.status is not Status.OK:
            yield f"{seed.name}: fails ({evaluation.feedback}); search starts better from a program that runs"
        elif evaluation.passed == count:
            yield f"{seed.name}: already has the full reward; there is nothing to search for"
