"""The file formats by name, and what their suites are called."""

from pathlib import Path

from evovpo.problem.importers import psb2
from evovpo.problem.importers.humaneval import HumanEvalRecord
from evovpo.problem.importers.livecodebench import LiveCodeBenchRecord
from evovpo.problem.importers.mbpp import MbppRecord
from evovpo.problem.importers.reading import Record, read_records
from evovpo.problem.importers.tasks import Loaded, Skipped, TaskFormat, UnusableError, usable
from evovpo.problem.importers.writing import Written, check_empty, write_suite

_RECORDS: dict[TaskFormat, type[Record]] = {
    TaskFormat.HUMANEVAL: HumanEvalRecord,
    TaskFormat.MBPP: MbppRecord,
    TaskFormat.LIVECODEBENCH: LiveCodeBenchRecord,
}
_DESCRIPTIONS = {
    TaskFormat.HUMANEVAL: "Tasks of HumanEval.",
    TaskFormat.MBPP: "Tasks of MBPP.",
    TaskFormat.LIVECODEBENCH: "Tasks of LiveCodeBench.",
    TaskFormat.PSB2: "Problems of PSB2.",
}


def load_tasks(task_format: TaskFormat, path: Path, limit: int | None = None) -> list[Loaded]:
    """Return the first `limit` tasks of a file; raises `ProblemError` for one that is not of the format."""
    loaded: list[Loaded] = []
    is_psb2 = task_format is TaskFormat.PSB2
    for record in (
        psb2.read_problems(path, limit) if is_psb2 else read_records(path, _RECORDS[task_format], limit)
    ):
        try:
            loaded.append(usable(record.task()))
        except UnusableError as error:
            loaded.append(Skipped(record.name, str(error)))
    return loaded


def import_tasks(task_format: TaskFormat, file: Path, out: Path, limit: int | None = None) -> Written:
    """Write the first `limit` tasks of a file as a suite into a new or empty folder.

    Raises `ProblemError`, having written nothing, for a file that is not of the format, a folder that holds
    anything, or a file of which no task can be used.
    """
    check_empty(out)
    loaded = load_tasks(task_format, file, limit)
    return write_suite(out, task_format.value, _DESCRIPTIONS[task_format], loaded)
