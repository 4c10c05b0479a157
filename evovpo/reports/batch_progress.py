"""Progress of a batch: a live table of runs under way on a terminal, lines elsewhere; on standard error only.

The clock says how fast a batch goes and how often to say it; nothing else depends on it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from evovpo.experiments.pool import FailedTask, Message, TaskDone, TaskProgress, TaskStarted
from evovpo.experiments.running import CellProgress, Work
from evovpo.reports.live import LiveView
from evovpo.reports.text import calls_text, counted, duration, plain_table, printable, reward_text, right
from evovpo.store import CallTotals, RunRow

_READ_SECONDS = 5.0
"""Time between two looks into the store."""


@dataclass
class _Cell:
    problem: str
    budget: int
    at: CellProgress = field(default_factory=CellProgress)
    is_ended: bool = False
    is_running: bool = False


class BatchProgress(LiveView):
    """Shows where a batch stands; `take` is told every message.

    `stored` are the runs that the store held before, by id; `totals` says what requests to servers came to.
    """

    def __init__(
        self,
        console: Console,
        works: Sequence[Work],
        stored: Mapping[str, RunRow],
        totals: Callable[..., CallTotals] | None = None,
    ) -> None:
        self._cells = {one.name: _Cell(one.cell.problem_id, one.cell.arm.evaluations) for one in works}
        self._totals, self._read_at, self._calls = totals, float("-inf"), ""
        for run_id, cell in self._cells.items():
            if run_id in stored:
                row = stored[run_id]
                cell.at = CellProgress(row.evaluations, row.best_mean_reward, row.ending == "solved")
                cell.is_ended = row.status.is_finished
        self._before = self.proposed
        self._failed = 0
        super().__init__(console)

    def __enter__(self) -> Self:
        self._line(self.status())
        return super().__enter__()

    @property
    def proposed(self) -> int:
        """Evaluations of all cells so far, also by earlier processes."""
        return sum(cell.at.proposed for cell in self._cells.values())

    @property
    def ended(self) -> int:
        return sum(cell.is_ended for cell in self._cells.values())

    def take(self, message: Message) -> None:
        """Take note of what a process says about its cell."""
        cell = self._cells[message.name]
        match message:
            case TaskStarted():
                cell.is_running = True
            case TaskProgress() | TaskDone():
                cell.at = message.value
                cell.is_ended = isinstance(message, TaskDone)
                cell.is_running = not cell.is_ended
            case FailedTask():
                cell.is_running = False
                self._failed += 1
                self._line(f"failed: {cell.problem}, run {message.name}: {message.reason}")

    def pause(self) -> None:
        """Read at times what the requests of the runs under way came to."""
        if self._totals is not None and time.monotonic() - self._read_at >= _READ_SECONDS:
            self._read_at = time.monotonic()
            totals = self._totals(*(run for run, cell in self._cells.items() if cell.is_running))
            self._calls = calls_text(totals) if totals.calls else ""

    def status(self) -> str:
        """Return one line about the whole batch."""
        cells = self._cells.values()
        parts = [f"{self.ended} of {len(cells)} runs ended", f"{sum(one.at.solved for one in cells)} solved"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        parts.append(counted(self.proposed, "evaluation"))
        left = sum(cell.budget - cell.at.proposed for cell in cells if not cell.is_ended)
        if rate := (self.proposed - self._before) / max(time.monotonic() - self._begin, 1e-3):
            parts += [f"{rate:.0f} a second", f"at most {duration(left / rate)} to go"]
        parts += [self._calls, *[cell.at.waits for cell in cells if cell.is_running and cell.at.waits][:1]]
        return ", ".join(filter(None, parts))

    def _view(self) -> RenderableType:
        figures = (right(name, no_wrap=True) for name in ("best", "evaluations"))
        table = plain_table(Column("under way", no_wrap=True), *figures)
        for cell in self._cells.values():
            if cell.is_running:
                best = "" if cell.at.best_mean_reward is None else reward_text(cell.at.best_mean_reward)
                table.add_row(Text(printable(cell.problem)), best, f"{cell.at.proposed} of {cell.budget}")
        bar = ProgressBar(max(len(self._cells), 1), self.ended, width=40)
        return Group(table, bar, Text(self.status()))
