"""The file formats by name, and what their suites are called."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from evovpo.problem.importers import humaneval, livecodebench, mbpp, psb2
from evovpo.problem.importers.tasks import Loaded, TaskFormat
from evovpo.problem.importers.writing import Written, check_empty, write_suite


class _About(NamedTuple):
    load: Callable[[Path, int | None], list[Loaded]]
    description: str


_FORMATS: dict[TaskFormat, _About] = {
    TaskFormat.HUMANEVAL: _About(humaneval.load, "Tasks of HumanEval."),
    TaskFormat.MBPP: _About(mbpp.load, "Tasks of MBPP."),
    TaskFormat.LIVECODEBENCH: _About(livecodebench.load, "Tasks of LiveCodeBench."),
    TaskFormat.PSB2: _About(psb2.load, "Problems of PSB2."),
}


def import_tasks(task_format: TaskFormat, file: Path, out: Path, limit: int | None = None) -> Written:
    """Write the first `limit` tasks of a file as a suite into a new or empty folder.

    Raises `ProblemError`, having written nothing, for a file that is not of the format, a folder that holds
    anything, or a file of which no task can be used.
    """
    check_empty(out)
    about = _FORMATS[task_format]
    return write_suite(out, task_format.value, about.description, about.load(file, limit))
