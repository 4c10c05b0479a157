"""Writes imported tasks as problem folders, and the suite file that lists them."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from evovpo.config_values import toml_value
from evovpo.errors import ProblemError
from evovpo.files import write_errors
from evovpo.problem.importers import score
from evovpo.problem.importers.tasks import ImportedTask, SkippedTask

MOST_COMPONENTS = 16
"""Maximum number of reward components of a task. With more tests, a component averages several tests."""
HELDOUT_EVERY, FEWEST_TO_HOLD_OUT = 4, 8
"""Every fourth test is held out in a by-example problem that has at least eight tests."""
_WALL_SECONDS, _CPU_SECONDS = 10, 6
"""Time limits for all tests of a task together; no longer than the limits of the benchmarks."""


class TaskImport(NamedTuple):
    folders: tuple[Path, ...]
    skipped: tuple[SkippedTask, ...]
    tests: int
    heldout: int
    left_out: Counter[str]
    """Reason -> number of unusable tests, in the tasks that were written."""


def check_empty(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ProblemError(f"{out}: expected a new or empty folder, found something; choose another")


def _held_out(task: ImportedTask) -> ImportedTask:
    if task.compares_words or len(task.tests) < FEWEST_TO_HOLD_OUT:
        return task
    chosen = range(HELDOUT_EVERY - 1, len(task.tests), HELDOUT_EVERY)
    return task._replace(
        tests=[test for index, test in enumerate(task.tests) if index not in chosen],
        heldout=[task.tests[index] for index in chosen],
    )


def write_problem(folder: Path, task: ImportedTask) -> None:
    """Write a task as a problem folder: with examples, or with a scorer if outputs are compared by words."""
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
    if not task.compares_words:
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
        found = _listed(
            {**test._asdict(), "objective": f"tests-{index % len(groups) + 1}"}
            for index, test in enumerate(task.tests)
        )
        (folder / "data" / "tests.json").write_text(found + "\n", encoding="utf-8")
        shutil.copyfile(score.__file__, folder / "score.py")
    (folder / "problem.toml").write_text("\n".join(toml) + "\n", encoding="utf-8")


def folder_name(task: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", task.lower()).strip("-") or "task"


def dealt(count: int) -> list[list[int]]:
    """Distribute `count` tests over at most 16 reward components; return each component's test indices."""
    hands = min(count, MOST_COMPONENTS)
    return [list(range(hand, count, hands)) for hand in range(hands)]


def _listed(rows: Iterable[dict[str, object]]) -> str:
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]"


def write_suite(loaded: Sequence[ImportedTask | SkippedTask], name: str, out: Path) -> TaskImport:
    """Write `suite.toml`, and a problem folder for each usable task, to the new or empty folder `out`.

    Raises `ProblemError`, and writes nothing, if `out` is not empty or no task is usable.
    """
    check_empty(out)
    kept = [_held_out(task) for task in loaded if isinstance(task, ImportedTask)]
    skipped = tuple(task for task in loaded if isinstance(task, SkippedTask))
    if not kept:
        reasons = "; ".join(f"{task.name}: {task.reason}" for task in skipped[:3])
        raise ProblemError(
            f"none of {len(skipped)} tasks can be turned into a problem ({reasons}); is it the right file?"
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
        listing = f'[suite]\nname = "{name}"\ndescription = "Tasks of {name}."\n'
        listing += "".join(f'\n[[problems]]\npath = "{folder.name}"\n' for folder in folders)
        (out / "suite.toml").write_text(listing, encoding="utf-8")
    return TaskImport(
        tuple(folders),
        skipped,
        tests=sum(len(task.tests) for task in kept),
        heldout=sum(len(task.heldout) for task in kept),
        left_out=Counter(reason for task in kept for reason in task.left_out),
    )
