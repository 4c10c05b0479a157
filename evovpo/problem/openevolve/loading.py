"""Loads an OpenEvolve project as a `Problem`, and evaluates its initial program once in the sandbox."""

import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from evovpo.analysis.scores import COMBINED, counted_metrics, failure, number
from evovpo.config import Config
from evovpo.errors import InitialProgramError, ProblemError, SandboxError, nearest_hint
from evovpo.problem.openevolve.config_file import NO_SETTINGS, OpenEvolveSettings
from evovpo.problem.openevolve.evaluator import STOPPED, OpenEvolveEvaluator, open_openevolve
from evovpo.problem.openevolve.folder import Project, content_digest, input_files, read_project, unnamed_texts
from evovpo.problem.openevolve.metrics import (
    MetricDeclaration,
    describe,
    learn,
    objectives_of,
    read_metrics,
    read_rewards,
    suggests_lower,
)
from evovpo.sandbox.openings import read_openings, what_is_missing
from evovpo.types import (
    Evaluation,
    EvaluatorFolder,
    EvaluatorMode,
    Limits,
    Metric,
    Objective,
    Problem,
    Status,
    Trust,
    content_id,
)

_OPEN_FILES = 256
_RESULT_BYTES = 1 << 20
_RELATIVE = re.compile(r"No such file or directory: '([^/'][^']*/[^']*)'")


class LoadedProject(NamedTuple):
    problem: Problem
    initial: Evaluation | None
    """Evaluation of the initial program by all stages, without thresholds; None if the problem is stored."""
    remarks: tuple[str, ...]
    config: Config
    settings: OpenEvolveSettings
    judged: tuple[Evaluation, ...] = ()
    """The initial program's evaluation with thresholds, for the run; empty if the problem is stored."""


OpenEvaluator: TypeAlias = Callable[[Problem, Config], AbstractContextManager[OpenEvolveEvaluator]]


def changed_files(problem: Problem, config: Config, since: float) -> list[str] | None:
    """Return the names of files newer than `since`, a Unix time; None if the problem is the same.

    It is the same if its settings and files are as stored. Files that were added after `since` do not count.
    """
    assert problem.folder is not None
    assert problem.evaluator is not None
    project = read_project(Path(problem.folder, problem.evaluator.file), config.evaluator.initial_program)
    declared, _ = read_metrics(config.evaluator.metrics or project.metrics)
    newer = {path for path in input_files(project) if path.stat().st_mtime > since}
    none, texts = frozenset[Path](), unnamed_texts(project)
    for is_old, unnamed, added in itertools.product((False, True), (texts, none), (none, newer)):
        if _version(problem, _content(project, declared, config, is_old, unnamed | added)) == problem.version:
            return None
    newer -= texts
    newer |= {path for path in [project.metrics] if path and path.stat().st_mtime > since}
    return sorted(str(path.relative_to(project.folder)) for path in newer)


def load_openevolve(
    path: Path,
    config: Config | None = None,
    settings: OpenEvolveSettings = NO_SETTINGS,
    frozen: Iterable[Problem] = (),
    open_evaluator: OpenEvaluator = open_openevolve,
    known: Callable[[Problem], Evaluation | None] | None = None,
) -> LoadedProject:
    """Return the problem of the OpenEvolve directory (or evaluator file) `path`.

    The objectives are the metrics declared in `metrics.toml`, or in the file named by `evaluator.metrics`.
    Without declarations, `combined_score` is the only objective, as in OpenEvolve. Undeclared bounds are
    derived from an evaluation of the initial program. If a problem in `frozen` (stored problems, oldest
    first) has the same files and objectives, its bounds are reused, because metrics may be noisy. `known`
    returns the stored evaluation of a problem's initial program.

    Raises `ProblemError` for an invalid directory, `SandboxError` if the initial program cannot be run here,
    and `InitialProgramError` if the initial program fails or has no numeric metric.
    """
    config = config or Config()
    project = read_project(path, config.evaluator.initial_program)
    declared, _ = read_metrics(config.evaluator.metrics or project.metrics)
    names, axes = objectives_of(declared), tuple(name for name, _ in settings.axes)
    left_out = None if names else axes or ("complexity", "diversity")
    draft = _draft(project, config, settings, left_out)
    content = _content(project, declared, config, left_out=unnamed_texts(project))
    learned: tuple[Metric, ...] = ()
    for kept in frozen:
        if not _is_same(kept, content, names) or kept.evaluator is None:
            continue
        problem = _with_metrics(draft, settings, kept.evaluator.metrics, content)
        stored = known(problem) if known else None
        if stored is not None and initial_fault(stored, config, project.folder):
            continue  # its bounds mean nothing, and the cause, such as a missing package, may be gone
        learned = learned or kept.evaluator.metrics
        if problem.version == kept.version:
            return LoadedProject(problem, None, tuple(_remarks(problem, declared, stored)), config, settings)
    with open_evaluator(draft, config) as evaluator:
        first = initial = evaluator.evaluate(project.initial)
        if first.feedback.startswith(STOPPED):
            initial = evaluator.evaluate(project.initial, every_stage=True)
        remarks = evaluator.remarks
        if initial is not first:
            remarks += (f"in a run, the initial program is {first.feedback.splitlines()[0]}",)
    metrics = dict(initial.metrics or ())
    _check_initial(project, initial, config)
    learned = learned or learn(metrics, declared, left_out or ())
    if not learned:
        found = ", ".join(f"{name} = {json.dumps(value)[:40]}" for name, value in metrics.items())
        said = f"it said: {initial.feedback}; " if initial.feedback else ""
        raise InitialProgramError(
            f"{project.folder / project.evaluator}: expected at least one finite number for the initial "
            f"program {project.initial_name}, found {found or 'nothing'}; {said}return a number that is "
            "higher for a better program, or declare one in metrics.toml",
            metrics,
        )
    problem = _with_metrics(draft, settings, learned, content)
    assert problem.evaluator is not None
    first, initial = (
        dataclasses.replace(
            found,
            problem_version=problem.version,
            rewards=read_rewards(problem.evaluator, dict(found.metrics or ()))[0],
        )
        for found in (first, initial)
    )
    remarks = (*_remarks(problem, declared, initial), *remarks)
    return LoadedProject(problem, initial, remarks, config, settings, (first,))


def _content(
    project: Project,
    declared: dict[str, MetricDeclaration],
    config: Config,
    is_old: bool = False,
    left_out: Collection[Path] = (),
) -> tuple[str, ...]:
    """Return the texts for the hash of a problem, without the files in `left_out`.

    With `is_old`, the rules of old evovpo versions are followed.
    """
    whole = {
        name: (said.low, said.high, bool(said.lower_is_better), said.ignore)
        for name, said in declared.items()
    }
    allow, judges, arguments = config.evaluator.allow, config.evaluator.judges, config.evaluator.arguments
    settings = [", ".join(allow)] * bool(allow) + [json.dumps(judges, sort_keys=True)] * bool(judges)
    settings += ["arguments", json.dumps(arguments, sort_keys=True)] * bool(arguments)
    paths = [] if is_old else [Path(path) for path in read_openings(allow, project.folder).writable]
    writable = [*paths, *(path.resolve() for path in paths)]
    files = [path for path in input_files(project, writable) if path not in left_out]
    return content_digest(project, files), json.dumps(whole, sort_keys=True), *settings


def _draft(
    project: Project, config: Config, settings: OpenEvolveSettings, left_out: tuple[str, ...] | None
) -> Problem:
    wanted = config.evaluator
    thresholds = wanted.thresholds[: max(0, len(project.stages) - 1)]
    if not thresholds and not project.has_evaluate:
        raise ProblemError(
            f"{project.folder / project.evaluator}: expected a function evaluate(program_path), found only "
            f"{', '.join(project.stages)}; define it, or give evaluator.thresholds for the stages"
        )
    kind = "the files of the program" if project.suffix == "/" else f"the program {project.initial_name}"
    usual = (
        f"Improve {kind}, which an evaluator runs and measures. Keep the names that it defines and what they "
        "take and return."
    )
    return Problem(
        id=project.folder.name,
        version="",
        statement=settings.statement or usual,
        entry="",
        parameters=(),
        objectives=(),
        seeds=(project.initial,),
        limits=Limits(
            wall_seconds=wanted.timeout_seconds,
            # Per process, over all its threads; the wall-clock limit ends the evaluation anyway.
            cpu_seconds=int(4 * wanted.timeout_seconds) + 1,
            memory_mb=wanted.memory_mb,
            result_bytes=_RESULT_BYTES,
            open_files=_OPEN_FILES,
            processes=wanted.processes,
        ),
        folder=str(project.folder),
        suffix=project.suffix,
        evaluator=EvaluatorFolder(
            project.evaluator, EvaluatorMode(wanted.mode), (), thresholds, wanted.artifacts, left_out
        ),
    )


def _with_metrics(
    draft: Problem, settings: OpenEvolveSettings, metrics: tuple[Metric, ...], content: tuple[str, ...]
) -> Problem:
    assert draft.evaluator is not None
    is_reward = draft.evaluator.left_out is None
    problem = dataclasses.replace(
        draft,
        objectives=tuple(Objective(metric.name, describe(metric, is_reward)) for metric in metrics),
        features=settings.features(tuple(metric.name for metric in metrics)),
        evaluator=dataclasses.replace(draft.evaluator, metrics=metrics),
    )
    return dataclasses.replace(problem, version=_version(problem, content))


def imported_version(version: str) -> str:
    """Return the version under which OpenEvolve's own evaluations are stored. No search reuses these."""
    return content_id("imported", version)


def _is_same(problem: Problem, content: tuple[str, ...], names: list[str]) -> bool:
    found, version = {objective.name for objective in problem.objectives}, _version(problem, content)
    is_searched_so = found <= {*names} if names else problem.has_one_score
    return is_searched_so and problem.version in (version, imported_version(version))


def _version(problem: Problem, content: tuple[str, ...]) -> str:
    values = dataclasses.asdict(problem)
    for outside in ("id", "version", "folder", "groups"):
        del values[outside]
    if not problem.has_one_score:  # to keep older versions unchanged
        del values["evaluator"]["left_out"]
    return content_id(json.dumps(values, sort_keys=True), *content)


def _check_initial(project: Project, initial: Evaluation, config: Config) -> None:
    if initial.status is Status.SANDBOX_ERROR:
        raise SandboxError(
            f"the initial program {project.initial_name} could not be run: {initial.feedback}; run "
            "`python -m evovpo.sandbox --selftest` to see what this machine refuses"
        )
    if initial.status is not Status.OK:
        lacks = _what_it_lacks(initial, config, project.folder)
        raise InitialProgramError(
            f"{project.folder / project.evaluator}: expected a judgement of its own initial program "
            f"{project.initial_name}, found a failure: {initial.feedback}; "
            + (
                lacks
                or "correct the evaluator or the program (the sandbox has no network, nothing outside the "
                "folder and the Python installation, and the limits evaluator.timeout_seconds and "
                "evaluator.memory_mb)"
            ),
            dict(initial.metrics or ()),
        )


def _what_it_lacks(initial: Evaluation, config: Config, folder: Path) -> str:
    if "IsADirectoryError" in initial.feedback or "Is a directory" in initial.feedback:
        return (
            "the folder initial_program/ is taken for a program of several files, and the evaluator takes "
            "one file: name that with --set evaluator.initial_program=FILE"
        )
    for name in _RELATIVE.findall(initial.feedback):
        for base in (Path.cwd(), folder.absolute()):
            if (path := base / name).exists():
                return f"{name} is left out: open it with --allow cwd={base} --allow read={path.resolve()}"
    if lacks := what_is_missing(initial.feedback, config.evaluator.allow):
        return lacks
    names = [path.name for path in folder.glob(".*") if path.is_file() and not path.name.startswith(".git")]
    return f"hidden files are left out: open one with --allow read={names[0]}" if names else ""


def initial_fault(initial: Evaluation, config: Config, folder: Path) -> str:
    """Return why the initial program failed, with advice; empty if the initial program did not fail."""
    said = failure(dict(initial.metrics or ()), initial.feedback)
    if initial.status is not Status.OK:
        said = initial.feedback or str(initial.status)
    lacks = _what_it_lacks(initial, config, folder)
    if not lacks and re.search("No such file|not found|does not exist", initial.feedback):
        lacks = "files outside of its folder are left out: open one with --allow read=PATH"
    return said and f"the initial program fails ({said[:300]}); {lacks or 'correct it, or its evaluator'}"


def _remarks(
    problem: Problem, declared: dict[str, MetricDeclaration], initial: Evaluation | None
) -> Iterable[str]:
    assert problem.evaluator is not None
    metrics = dict((initial.metrics if initial else None) or ())
    names = [metric.name for metric in problem.evaluator.metrics]
    if problem.has_one_score and names == [COMBINED]:
        yield (
            f"searched for {COMBINED} alone, as OpenEvolve does; other numbers are shown."
            " A metrics.toml makes objectives of them (`evovpo check --bounds RUN` writes one)"
        )
    elif problem.has_one_score and not (initial and failure(metrics, initial.feedback)):
        counted = counted_metrics(metrics, problem.evaluator.left_out or ())
        listed = ", ".join(f"{name} = {value:.4g}" for name, value in counted.items())
        yield (
            f"the evaluator returns no {COMBINED}: programs are ranked by the {names[0]}, as OpenEvolve does"
            f"{f' ({listed})' * bool(listed)}. A metrics.toml says which of them count, and which way"
        )
        names = [*counted]
    for feature in problem.features if initial is not None else ():
        name = feature.name.removeprefix("metric:")
        if feature.name != name and number(metrics.get(name)) is None:
            yield f"feature dimension {name!r}: the initial program scores no such number; all share one cell"
    doubtful = [
        name
        for name in names
        if suggests_lower(name) and declared.get(name, MetricDeclaration()).lower_is_better is None
    ]
    if doubtful:
        yield (
            f"HIGHER is taken as better for {', '.join(doubtful)}, and the names read as if lower were: say "
            "lower_is_better = true, or false, in metrics.toml"
        )
    if initial is not None:
        known = [*metrics, *(metric.name for metric in problem.evaluator.metrics)]
        for name in declared:
            if name not in metrics:
                yield (
                    f"metrics.toml declares {name!r}, which the initial program does not score"
                    f" ({nearest_hint(name, [other for other in known if other != name] or [name])})"
                )
    soft = [metric.name for metric in problem.evaluator.metrics if metric.is_soft]
    if soft and not problem.has_one_score:
        yield (
            f"bounds of {', '.join(soft)} were learned from the initial program; declare them in metrics.toml"
            " (`evovpo check --bounds RUN` suggests some)"
        )
    if problem.trust is Trust.LOW:
        yield (
            "low trust: evaluator and candidate share a process, so a program can forge its metrics; check"
            " what wins. If candidates take and return only JSON values: --set evaluator.mode=proxy"
        )
