"""Imported tasks to problem folders and a suite file."""

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evovpo.errors import ProblemError
from evovpo.problem.importers import score
from evovpo.problem.importers.tasks import Case, Comparison, Loaded, Skipped, Task

MOST_COMPONENTS = 16
"""More tests than this are dealt out to as many components (see `evovpo/analysis/grouping.py` for why)."""
HELDOUT_EVERY, FEWEST_TO_HOLD_OUT = 4, 8
"""Of a task with so many equality tests and none held out by its file, every fourth test is held out."""
_WALL_SECONDS, _CPU_SECONDS = 10, 6
"""For all tests of a task together: what the benchmarks allow for a task or less."""


class Written(NamedTuple):
    """What became of the tasks of a file."""

    folders: tuple[Path, ...]
    skipped: tuple[Skipped, ...]
    tests: int
    heldout: int
    left_out: Counter[str]
    """Tests of written tasks that could not be used, by reason."""


def write_suite(out: Path, name: str, description: str, loaded: Sequence[Loaded]) -> Written:
    """Write a problem folder for each task, and `suite.toml`, into a new or empty folder.

    Raises `ProblemError`, having written nothing, if the folder holds anything or no task can be used.
    """
    tasks = [task for task in loaded if isinstance(task, Task)]
    skipped = tuple(task for task in loaded if isinstance(task, Skipped))
    check_empty(out)
    if not tasks:
        reasons = "; ".join(f"{task.name}: {task.reason}" for task in skipped[:3])
        raise ProblemError(
            f"none of {len(skipped)} tasks can be turned into a problem ({reasons}); is it the right format?"
        )
    folders: list[Path] = []
    names: set[str] = set()
    tests = heldout = 0
    left_out: Counter[str] = Counter()
    try:
        out.mkdir(parents=True, exist_ok=True)
        for task in tasks:
            folder = out / _free_name(folder_name(task.name), names)
            split = hold_out(task)
            write_problem(folder, split)
            folders.append(folder)
            tests, heldout = tests + len(split.tests), heldout + len(split.heldout)
            left_out.update(split.left_out)
        lines = ["[suite]", f"name = {_text(name)}", f"description = {_text(description)}"]
        for folder in folders:
            lines += ["", "[[problems]]", f"path = {_text(folder.name)}"]
        (out / "suite.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise ProblemError(
            f"{out}: the suite cannot be written: {error.strerror}; choose another place"
        ) from error
    return Written(tuple(folders), skipped, tests, heldout, left_out)


def check_empty(out: Path) -> None:
    """Raise `ProblemError` unless `out` is an empty folder or nothing."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ProblemError(f"{out}: expected a new or empty folder, found something; choose another")


def folder_name(name: str) -> str:
    """Return a task's name as a folder's: lower-case words joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "task"


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free)
    return free


def hold_out(task: Task) -> Task:
    """Return the task with some of its tests held out, where that can be done and the file did not do it.

    A problem with a scorer has no held-out rows: there those of the file are left out, and counted.
    """
    if not is_by_example(task):
        reasons = ("held out by the file, which a scorer has no place for",) * len(task.heldout)
        return dataclasses.replace(task, heldout=(), left_out=(*task.left_out, *reasons))
    if task.heldout or len(task.tests) < FEWEST_TO_HOLD_OUT:
        return task
    chosen = range(HELDOUT_EVERY - 1, len(task.tests), HELDOUT_EVERY)
    return dataclasses.replace(
        task,
        tests=tuple(test for index, test in enumerate(task.tests) if index not in chosen),
        heldout=tuple(task.tests[index] for index in chosen),
    )


def is_by_example(task: Task) -> bool:
    """True if all tests of a task compare by equality, so that rows alone say what is right."""
    return all(test.comparison is Comparison.EQUAL for test in (*task.tests, *task.heldout))


def write_problem(folder: Path, task: Task) -> None:
    """Write one problem: by example if all its tests compare by equality, else with a scorer."""
    folder.mkdir()
    (folder / "seed.py").write_text(task.seed, encoding="utf-8")
    names = ", ".join(map(_text, task.parameters))
    toml = [
        "[problem]",
        f"statement = {_text(task.statement)}",
        f"entry = {_text(task.entry)}",
        f"inputs = [{names}]",
        "",
        "[limits]",
        f"wall_seconds = {_WALL_SECONDS}",
        f"cpu_seconds = {_CPU_SECONDS}",
    ]
    if is_by_example(task):
        rows: dict[str, list[dict[str, object]]] = {
            part: [{"inputs": list(test.arguments), "output": test.expected} for test in chosen]
            for part, chosen in (("train", task.tests), ("heldout", task.heldout))
        }
        _write_json(folder / "examples.json", rows)
        groups = dealt(len(task.tests))
        if len(groups) < len(task.tests):
            lists = [json.dumps([f"row-{index + 1}" for index in group]) for group in groups]
            toml += ["", "[grouping]", "groups = [", *(f"  {group}," for group in lists), "]"]
    else:
        groups = dealt(len(task.tests))
        objective = {index: f"tests-{number}" for number, group in enumerate(groups, 1) for index in group}
        for number, group in enumerate(groups, start=1):
            what = f"{len(group)} of {len(task.tests)} tests right"
            toml += ["", "[[objectives]]", f'name = "tests-{number}"', f"description = {_text(what)}"]
        (folder / "data").mkdir()
        found = [_as_row(test, objective[index]) for index, test in enumerate(task.tests)]
        (folder / "data" / "tests.json").write_text(
            "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in found) + "\n]\n", "utf-8"
        )
        source = Path(score.__file__).read_text(encoding="utf-8")
        (folder / "score.py").write_text(source, encoding="utf-8")
    (folder / "problem.toml").write_text("\n".join(toml) + "\n", encoding="utf-8")


def dealt(count: int) -> list[list[int]]:
    """Return the indices of `count` tests dealt out evenly, one after the other, to at most 16 hands."""
    hands = min(count, MOST_COMPONENTS)
    return [list(range(hand, count, hands)) for hand in range(hands)]


def _as_row(test: Case, objective: str) -> dict[str, object]:
    row: dict[str, object] = {
        "arguments": list(test.arguments),
        "expected": test.expected,
        "comparison": test.comparison.value,
        "objective": objective,
    }
    return row | ({"tolerance": test.tolerance} if test.comparison is Comparison.CLOSE else {})


def _write_json(path: Path, parts: dict[str, list[dict[str, object]]]) -> None:
    texts = []
    for name, rows in parts.items():
        lines = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in rows)
        texts.append(f'  "{name}": [\n{lines}\n  ]' if rows else f'  "{name}": []')
    path.write_text("{\n" + ",\n".join(texts) + "\n}\n", encoding="utf-8")


def _text(text: str) -> str:
    """Return a text as TOML: a basic string, whose escapes are JSON's but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
