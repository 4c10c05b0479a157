"""What a run is asked to do: a problem and its settings, opened by name or given as records."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evovpo.config import Config
from evovpo.errors import ConfigError, StoreError
from evovpo.judging.evaluator import Scorer
from evovpo.problem.folder import load_problem
from evovpo.problem.importers.tables import is_table, write_table
from evovpo.problem.openevolve.folder import is_project
from evovpo.problem.openevolve.loading import Loaded
from evovpo.problem.openevolve.opening import open_project
from evovpo.problem.suites import resolve_problem
from evovpo.sandbox.openings import split_words
from evovpo.store import Store
from evovpo.types import Evaluation, Problem


@dataclass(frozen=True)
class RunRequest:
    """All that a run follows from, and how far this process takes it."""

    problem: Problem
    config: Config
    judged: tuple[Evaluation, ...] = ()
    """Judgements on this problem version that need not be made again."""
    run_id: str = ""
    """Id of the run; empty for a new one."""
    pause_at: int | None = None
    """Evaluations from which on nothing more is asked, and the run is left for `resume`; None for the whole
    budget. With one ask in flight at a time the run comes to what it would have."""
    scorer: Scorer | None = None
    """A function of this process that judges, in place of the problem's own scorer."""
    project: Loaded | None = None
    """Of an OpenEvolve project: what was found when it was opened."""
    remarks: tuple[str, ...] = ()
    """What is doubtful about it, or what became of the rows of a table."""


def open_request(
    name: str,
    config_file: Path | None = None,
    overrides: Sequence[str] = (),
    yaml: Path | None = None,
    allow: Sequence[str] = (),
    output: str | None = None,
    columns: str | None = None,
) -> RunRequest:
    """Return the problem that `name` names (folder, OpenEvolve project, table, bundled one) and its settings.

    `yaml` is an OpenEvolve configuration to use instead of the project's own, and `allow` is what its
    evaluator may have besides; `output` and `columns` (commas between them) are what `table_task` takes.
    Raises `ProblemError`, `ConfigError` and `SandboxError`.
    """
    remarks: tuple[str, ...] = ()
    if is_table(name):
        folder, said = write_table(Path(name), output, split_words(columns or ""))
        name, remarks = str(folder), (f"{said}. The problem is in {folder}",)
    elif output is not None or columns is not None:
        raise ConfigError(f"--output and --columns are for tables, and {name} is none; leave them out")
    path = resolve_problem(name)
    if is_project(path):
        stored = partial(_stored_problems, path)
        opened = open_project(path, config_file, overrides, yaml, stored, allow=allow)
        problem, initial = opened.problem, opened.initial
        # A threshold might have ended the judgement of the initial program earlier.
        judges = opened.config.evaluator.judges
        is_whole = problem.evaluator is not None and not problem.evaluator.thresholds and not judges
        judged = (initial,) if initial is not None and is_whole else ()
        remarks = (*opened.settings.remarks(name), *opened.remarks)
        return RunRequest(problem, opened.config, judged, project=opened, remarks=remarks)
    config = Config.load(config_file, overrides)
    if yaml or config.evaluator.initial_program or allow or config.evaluator.allow:
        option = "--openevolve-config" if yaml else "--allow (evaluator.allow)"
        option = "--initial-program" if config.evaluator.initial_program else option
        raise ConfigError(f"{option} is for OpenEvolve projects, and {name} is none; leave it out")
    return RunRequest(load_problem(path), config, remarks=remarks)


def _stored_problems(path: Path, config: Config) -> list[Problem]:
    """Return the problems of a project that the store holds, oldest first; none without a store."""
    try:
        with Store.open(config.store.url, create=False) as store:
            return store.problem_versions((path.parent if path.is_file() else path).name)
    except StoreError:  # there is none yet, or opening it for the run says what is wrong with it
        return []
