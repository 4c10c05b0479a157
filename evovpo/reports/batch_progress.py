"""Progress of a batch: a bar for all of it and one for each run under way."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console
from rich.progress import TaskID

from evovpo.experiments.cell_runs import CellProgress, Work
from evovpo.experiments.pool import FailedTask, Message, TaskDone, TaskProgress, TaskStarted
from evovpo.reports.live import WorkBar
from evovpo.reports.text import calls_text, printable, reward_text
from evovpo.store import CallTotals, RunRow

_READ_SECONDS = 5.0
"""Time between two looks into the store."""


@dataclass
class _Cell:
    problem: str
    budget: int
    at: CellProgress = field(default_factory=CellProgress)
    is_ended: bool = False
    bar: TaskID | None = None
    """`None` if it is not under way."""


class BatchProgress(WorkBar):
    """Shows the progress of a batch; `take` is called with every message.

    `stored` are the runs already in the store, by id; `totals` returns the sums over requests to servers.
    """

    unit = "evaluations"

    def __init__(
        self,
        console: Console,
        works: Sequence[Work],
        stored: Mapping[str, RunRow],
        totals: Callable[..., CallTotals] | None = None,
    ) -> None:
        super().__init__(console)
        self._cells = {one.name: _Cell(one.cell.problem_id, one.cell.arm.evaluations) for one in works}
        self._totals, self._read_at, self._calls, self._failed = totals, float("-inf"), "", 0
        for run_id, cell in self._cells.items():
            if run_id in stored:
                row = stored[run_id]
                cell.at = CellProgress(row.evaluations, row.best_mean_reward, row.ending == "solved")
                cell.is_ended = row.status.is_finished
        self._show_all()

    def __enter__(self) -> Self:
        self._line(self.status())
        return super().__enter__()

    def take(self, message: Message) -> None:
        """Take note of what a process says about its cell."""
        cell = self._cells[message.name]
        match message:
            case TaskStarted():
                if cell.bar is None:
                    name = printable(cell.problem)
                    cell.bar = self._bars.add_task(name, total=cell.budget, figures="")
            case TaskProgress() | TaskDone():
                cell.at, cell.is_ended = message.value, isinstance(message, TaskDone)
            case FailedTask():
                self._failed += 1
                self._line(f"failed: {cell.problem}, run {message.name}: {message.reason}")
        if cell.bar is not None and isinstance(message, TaskDone | FailedTask):
            self._bars.remove_task(cell.bar)
            cell.bar = None
        if cell.bar is not None:
            mean = cell.at.best_mean_reward
            best = "" if mean is None else f"best {reward_text(mean)}"
            self._bars.update(cell.bar, completed=cell.at.proposed, figures=best)
        self._show_all()

    def pause(self) -> None:
        """Read the sums over the running runs' requests at intervals."""
        if self._totals is not None and time.monotonic() - self._read_at >= _READ_SECONDS:
            self._read_at = time.monotonic()
            totals = self._totals(*(run for run, cell in self._cells.items() if cell.bar is not None))
            self._calls = calls_text(totals) if totals.calls else ""

    def _show_all(self) -> None:
        cells = self._cells.values()
        work = self._bars.tasks[0]
        ended, solved = sum(one.is_ended for one in cells), sum(one.at.solved for one in cells)
        work.description = f"{ended} of {len(cells)} runs ended, {solved} solved"
        work.description += f", {self._failed} failed" * bool(self._failed)
        waits = [one.at.waits for one in cells if one.bar is not None and one.at.waits][:1]
        total = sum(one.at.proposed if one.is_ended else one.budget for one in cells)
        figures = ", ".join(filter(None, (self._calls, *waits)))
        self.show(work.description, sum(one.at.proposed for one in cells), total, figures)
