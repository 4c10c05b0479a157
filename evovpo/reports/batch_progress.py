"""Shows the progress of a batch of runs."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console

from evovpo.experiments.cell_runs import CellProgress, Work
from evovpo.experiments.pool import FailedTask, Message, TaskDone, TaskProgress, TaskStarted
from evovpo.reports.live import WorkBar
from evovpo.reports.text import calls_text
from evovpo.store import CallTotals, RunRow

_READ_EVERY_SECONDS = 5.0


@dataclass
class _Cell:
    problem: str
    budget: int
    at: CellProgress = field(default_factory=CellProgress)
    is_ended: bool = False
    is_under_way: bool = False


class BatchProgress(WorkBar):
    unit = "evaluations"

    def __init__(
        self,
        console: Console,
        works: Sequence[Work],
        stored: Mapping[str, RunRow],
        totals: Callable[..., CallTotals] | None = None,
    ) -> None:
        super().__init__(console)
        self._cells = {
            one.name: _Cell(one.cell.problem_id, one.cell.arm.evaluations, is_ended=one.is_finished)
            for one in works
        }
        self._totals, self._read_at, self._calls, self._failed = totals, float("-inf"), "", 0
        for run_id, cell in self._cells.items():
            if run_id in stored:
                row = stored[run_id]
                cell.at = CellProgress(row.evaluations, row.ending == "solved")
        self._show_all()

    def __enter__(self) -> Self:
        self._line(self.status())
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        self._read_at = float("-inf")
        self.pause()
        self._show_all()
        super().__exit__()

    def take(self, message: Message) -> None:
        cell = self._cells[message.name]
        match message:
            case TaskStarted():
                cell.is_under_way = True
            case TaskProgress():
                cell.at = message.value
            case TaskDone():
                cell.at, cell.is_ended, cell.is_under_way = message.value, True, False
            case FailedTask():
                cell.is_under_way = False
                self._failed += 1
                self._line(f"failed: {cell.problem}, run {message.name}: {message.reason}")
        self._show_all()

    def pause(self) -> None:
        if self._totals is not None and time.monotonic() - self._read_at >= _READ_EVERY_SECONDS:
            self._read_at = time.monotonic()
            begun = (run for run, cell in self._cells.items() if cell.is_under_way or cell.is_ended)
            totals = self._totals(*begun)
            self._calls = calls_text(totals) if totals.calls else ""

    def _show_all(self) -> None:
        cells = self._cells.values()
        ended, solved = sum(one.is_ended for one in cells), sum(one.at.solved for one in cells)
        name = f"{ended} of {len(cells)} runs ended, {solved} solved"
        name += f", {self._failed} failed" * bool(self._failed)
        self._bars.tasks[0].description = name  # keeps the estimate of the remaining time
        waits = [one.at.waits for one in cells if one.is_under_way and one.at.waits][:1]
        total = sum(one.at.proposed if one.is_ended else one.budget for one in cells)
        figures = ", ".join(filter(None, (self._calls, *waits)))
        self.show(name, sum(one.at.proposed for one in cells), total, figures)
