"""Converts the tasks of a file, in a named format, to problem folders and a suite file."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from evovpo.config_values import toml_value
from evovpo.errors import ProblemError
from evovpo.files import write_errors
from evovpo.problem.importers import psb2, score, tasks
from evovpo.problem.importers.humaneval import HumanEvalRecord
from evovpo.problem.importers.livecodebench import LiveCodeBenchRecord
from evovpo.problem.importers.mbpp import MbppRecord

MOST_COMPONENTS = 16
"""More tests than this are dealt out to as many components (see `evovpo/analysis/grouping.py` for why)."""
HELDOUT_EVERY, FEWEST_TO_HOLD_OUT = 4, 8
"""From this number of equality tests on, every fourth is held out if the file holds out none."""
_WALL_SECONDS, _CPU_SECONDS = 10, 6
"""For all tests of a task together: what the benchmarks allow for a task or less."""


class TaskImport(NamedTuple):
    """Result of importing a file of tasks."""

    folders: tuple[Path, ...]
    skipped: tuple[tasks.SkippedTask, ...]
    tests: int
    heldout: int
    left_out: Counter[str]
    """Tests of written tasks that could not be used, by reason."""


def suite_text(name: str, description: str, paths: Iterable[str]) -> str:
    """Return a `suite.toml` that lists these problem folders."""
    head = f"[suite]\nname = {toml_value(name)}\ndescription = {toml_value(description)}\n"
    return head + "".join(f"\n[[problems]]\npath = {toml_value(path)}\n" for path in paths)


def check_empty(out: Path) -> None:
    """Raise `ProblemError` unless `out` is an empty folder or nothing."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ProblemError(f"{out}: expected a new or empty folder, found something; choose another")


def _held_out(task: tasks.ImportedTask) -> tasks.ImportedTask:
    """Return the task with some of its tests held out, where that can be done and the file did not do it.

    A problem with a scorer has no held-out rows: there those of the file are left out, and counted.
    """
    if not _is_by_example(task):
        reasons = ("held out by the file, which a scorer has no place for",) * len(task.heldout)
        return task._replace(heldout=(), left_out=(*task.left_out, *reasons))
    if task.heldout or len(task.tests) < FEWEST_TO_HOLD_OUT:
        return task
    chosen = range(HELDOUT_EVERY - 1, len(task.tests), HELDOUT_EVERY)
    return task._replace(
        tests=[test for index, test in enumerate(task.tests) if index not in chosen],
        heldout=[task.tests[index] for index in chosen],
    )


def _is_by_example(task: tasks.ImportedTask) -> bool:
    """True if all tests of a task compare by equality, so that rows alone say what is right."""
    return all(test.comparison is tasks.OutputComparison.EQUAL for test in (*task.tests, *task.heldout))


def write_problem(folder: Path, task: tasks.ImportedTask) -> None:
    """Write one problem: by example if all its tests compare by equality, else with a scorer."""
    folder.mkdir(exist_ok=True)
    (folder / "seed.py").write_text(task.seed, encoding="utf-8")
    toml = [
        "[problem]",
        f"statement = {toml_value(task.statement)}",
        f"entry = {toml_value(task.entry)}",
        f"inputs = [{', '.join(map(toml_value, task.parameters))}]",
        "",
        "[limits]",
        f"wall_seconds = {_WALL_SECONDS}",
        f"cpu_seconds = {_CPU_SECONDS}",
    ]
    groups = dealt(len(task.tests))
    if _is_by_example(task):
        train, heldout = (
            _listed({"inputs": test.arguments, "output": test.expected} for test in tests)
            for tests in (task.tests, task.heldout)
        )
        rows = f'{{\n"train": {train},\n"heldout": {heldout}\n}}\n'
        (folder / "examples.json").write_text(rows, encoding="utf-8")
        if len(groups) < len(task.tests):
            lists = [json.dumps([f"row-{index + 1}" for index in group]) for group in groups]
            toml += ["", "[grouping]", "groups = [", *(f"  {group}," for group in lists), "]"]
    else:
        for number, group in enumerate(groups, start=1):
            what = f"{len(group)} of {len(task.tests)} tests right"
            toml += ["", "[[objectives]]", f'name = "tests-{number}"', f'description = "{what}"']
        (folder / "data").mkdir()
        found = _listed(_row(test, index % len(groups) + 1) for index, test in enumerate(task.tests))
        (folder / "data" / "tests.json").write_text(found + "\n", encoding="utf-8")
        shutil.copyfile(score.__file__, folder / "score.py")
    (folder / "problem.toml").write_text("\n".join(toml) + "\n", encoding="utf-8")


def folder_name(task: str) -> str:
    """Return what the folder of a task is called, unless another one is called so."""
    return re.sub(r"[^a-z0-9]+", "-", task.lower()).strip("-") or "task"


def dealt(count: int) -> list[list[int]]:
    """Return the indices of `count` tests dealt out evenly, one after the other, to at most 16 hands."""
    hands = min(count, MOST_COMPONENTS)
    return [list(range(hand, count, hands)) for hand in range(hands)]


def _row(test: tasks.Case, hand: int) -> dict[str, object]:
    row: dict[str, object] = test._asdict() | {"objective": f"tests-{hand}"}
    tolerance = row.pop("tolerance")
    return row | ({"tolerance": tolerance} if test.comparison is tasks.OutputComparison.CLOSE else {})


def _listed(rows: Iterable[dict[str, object]]) -> str:
    """Return a JSON list, each row on a line of its own."""
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]"


_FORMATS: dict[tasks.TaskFormat, tuple[type[tasks.Record] | None, str]] = {
    tasks.TaskFormat.HUMANEVAL: (HumanEvalRecord, "Tasks of HumanEval."),
    tasks.TaskFormat.MBPP: (MbppRecord, "Tasks of MBPP."),
    tasks.TaskFormat.LIVECODEBENCH: (LiveCodeBenchRecord, "Tasks of LiveCodeBench."),
    tasks.TaskFormat.PSB2: (None, "Problems of PSB2."),
}
"""What a file of a format holds, none for one whose tasks are folders, and what its suite is called."""


def load_tasks(
    task_format: tasks.TaskFormat, path: Path, limit: int | None = None
) -> list[tasks.ImportedTask | tasks.SkippedTask]:
    """Return the first `limit` tasks of a file; raises `ProblemError` for one that is not of the format."""
    loaded: list[tasks.ImportedTask | tasks.SkippedTask] = []
    kind, _ = _FORMATS[task_format]
    for record in psb2.read_problems(path, limit) if kind is None else tasks.read_records(path, kind, limit):
        try:
            loaded.append(tasks.usable(record.task()))
        except tasks.UnusableTaskError as error:
            loaded.append(tasks.SkippedTask(record.name, str(error)))
    return loaded


def import_tasks(
    task_format: tasks.TaskFormat, file: Path, out: Path, limit: int | None = None
) -> TaskImport:
    """Write a problem folder for each of the first `limit` tasks of a file, and `suite.toml`.

    `out` is a new or empty folder. Raises `ProblemError`, having written nothing, for a file that is not of
    the format, a folder that holds anything, or a file of which no task can be used.
    """
    check_empty(out)
    loaded = load_tasks(task_format, file, limit)
    kept = [_held_out(task) for task in loaded if isinstance(task, tasks.ImportedTask)]
    skipped = tuple(task for task in loaded if isinstance(task, tasks.SkippedTask))
    if not kept:
        reasons = "; ".join(f"{task.name}: {task.reason}" for task in skipped[:3])
        raise ProblemError(
            f"none of {len(skipped)} tasks can be turned into a problem ({reasons}); is it the right format?"
        )
    folders: list[Path] = []
    taken: Counter[str] = Counter()
    with write_errors(f"{out}: the suite", kind=ProblemError):
        out.mkdir(parents=True, exist_ok=True)
        for task in kept:
            words = folder_name(task.name)
            taken[words] += 1
            folders.append(out / (words if taken[words] == 1 else f"{words}-{taken[words]}"))
            write_problem(folders[-1], task)
        listing = suite_text(task_format.value, _FORMATS[task_format][1], [folder.name for folder in folders])
        (out / "suite.toml").write_text(listing, encoding="utf-8")
    return TaskImport(
        tuple(folders),
        skipped,
        tests=sum(len(task.tests) for task in kept),
        heldout=sum(len(task.heldout) for task in kept),
        left_out=Counter(reason for task in kept for reason in task.left_out),
    )
