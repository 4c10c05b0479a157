"""Progress of a batch: a live table of problems on a terminal, lines elsewhere; on standard error only.

The clock says how fast a batch goes and how often to say it; nothing else depends on it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from evovpo.experiments.pool import Ended, Failed, Message, Started, Told
from evovpo.experiments.running import Work
from evovpo.reports.live import LINE_SECONDS, LiveView
from evovpo.reports.text import plain_table, printable, reward_text, right
from evovpo.store import RunRow
from evovpo.types import RunStatus

_LINES_AROUND = 8
"""Lines of a terminal that the table leaves to headings, totals and the prompt."""


@dataclass
class _Cell:
    """Where one cell stands."""

    problem: str
    budget: int
    proposed: int = 0
    best: float | None = None
    is_solved: bool = False
    is_ended: bool = False
    is_running: bool = False


class BatchProgress(LiveView):
    """Shows where a batch stands; `take` is told every message.

    `stored` are the runs that the store held before, by id.
    """

    def __init__(self, console: Console, works: Sequence[Work], stored: Mapping[str, RunRow]) -> None:
        self._cells = {
            work.cell.run_id: _Cell(work.cell.problem_id, work.cell.arm.evaluations) for work in works
        }
        for run_id, cell in self._cells.items():
            if run_id in stored:
                row = stored[run_id]
                cell.proposed, cell.best = row.evaluations, row.best_mean_reward
                cell.is_solved, cell.is_ended = row.status is RunStatus.SOLVED, row.status.is_finished
        self._before = self.proposed
        self._failed = 0
        super().__init__(console)

    def __enter__(self) -> Self:
        self._line(self.status())
        return super().__enter__()

    @property
    def proposed(self) -> int:
        """Evaluations of all cells so far, also by earlier processes."""
        return sum(cell.proposed for cell in self._cells.values())

    @property
    def ended(self) -> int:
        """Cells that have nothing left to do."""
        return sum(cell.is_ended for cell in self._cells.values())

    def take(self, message: Message) -> None:
        """Take note of what a process says about its cell."""
        cell = self._cells[message.name]
        match message:
            case Started():
                cell.is_running = True
            case Told() | Ended():
                cell.proposed, cell.best, cell.is_solved = message.value
                cell.is_ended = isinstance(message, Ended)
                cell.is_running = not cell.is_ended
            case Failed():
                cell.is_running = False
                self._failed += 1
                self._line(f"failed: {cell.problem}, run {message.name}: {message.reason}")

    def pause(self) -> None:
        """Print a line if the last one is long enough ago; a terminal's live view goes on by itself."""
        if time.monotonic() - self._shown_at >= LINE_SECONDS:
            self._line(self.status())

    def status(self) -> str:
        """Return one line about the whole batch."""
        cells = self._cells.values()
        solved = sum(cell.is_solved for cell in cells)
        parts = [f"{self.ended} of {len(cells)} runs ended", f"{solved} solved"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        parts.append(f"{self.proposed} evaluations")
        left = sum(cell.budget - cell.proposed for cell in cells if not cell.is_ended)
        if rate := (self.proposed - self._before) / max(time.monotonic() - self._begin, 1e-3):
            parts += [f"{rate:.0f} a second", f"at most {duration(left / rate)} to go"]
        return ", ".join(parts)

    def _line(self, text: str) -> None:
        self._shown_at = time.monotonic()
        super()._line(text)

    def _view(self) -> RenderableType:
        by_problem: dict[str, list[_Cell]] = {}
        for cell in self._cells.values():
            by_problem.setdefault(cell.problem, []).append(cell)
        figures = ("best", "solved", "ended", "evaluations")
        table = plain_table(Column("problem", no_wrap=True), *(right(name, no_wrap=True) for name in figures))

        # What is running first, then what is not begun: what has ended matters least.
        def place(cells: list[_Cell]) -> tuple[bool, bool]:
            return not any(cell.is_running for cell in cells), all(cell.is_ended for cell in cells)

        order = sorted(by_problem.items(), key=lambda item: place(item[1]))
        room = max(3, self._console.size.height - _LINES_AROUND)
        for problem, cells in order[:room]:
            bests = [cell.best for cell in cells if cell.best is not None]
            table.add_row(
                Text(printable(problem), style="bold" if any(cell.is_running for cell in cells) else ""),
                reward_text(max(bests)) if bests else "",
                f"{sum(cell.is_solved for cell in cells)} of {len(cells)}",
                str(sum(cell.is_ended for cell in cells)),
                f"{sum(cell.proposed for cell in cells)} of {sum(cell.budget for cell in cells)}",
            )
        more = [Text(f"... and {len(order) - room} more problems", style="dim")] * (len(order) > room)
        bar = ProgressBar(max(len(self._cells), 1), self.ended, width=40)
        return Group(table, *more, bar, Text(self.status()))


def duration(seconds: float) -> str:
    """Return a span of time in the two units that say most."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min {rest} s"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min"
