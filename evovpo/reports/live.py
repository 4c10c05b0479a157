"""Progress of a running search: a live view on a terminal, a line every half minute elsewhere.

Writes to standard error only, so that standard output holds nothing but the answer. The clock is used
here to say how fast a run goes and how often to say it; nothing in the search depends on it.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evovpo.analysis.scores import merit, score_name
from evovpo.config import Config
from evovpo.reports.text import calls_text, duration, one_line, printable, reward_text
from evovpo.runs.driver import Progress
from evovpo.search.search import SearchState
from evovpo.store import CallTotals
from evovpo.types import Run

UPDATE_SECONDS = 0.25
"""Shortest time between two updates of the live view."""
LINE_SECONDS = 30.0
"""Time between two lines where there is no terminal."""

_ISLANDS_SHOWN = 8


class LiveView(ABC):
    """Shows where some work stands while a `with` block lasts: live on a terminal, in lines elsewhere.

    A subclass sets what its `_view` reads before it calls `__init__` here, which looks at it once.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begin = self._shown_at = time.monotonic()
        rate = 1 / UPDATE_SECONDS
        self._live = Live(console=console, get_renderable=self._view, refresh_per_second=rate, transient=True)
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        else:
            threading.Thread(target=self._say_at_times, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._console.is_terminal:
            self._live.stop()

    @abstractmethod
    def _view(self) -> RenderableType:
        """Return what a terminal shows now."""

    @abstractmethod
    def status(self) -> str:
        """Return in one line where the work stands now."""

    def _say_at_times(self) -> None:
        while not self._ended.wait(max(0.1, self._shown_at + LINE_SECONDS - time.monotonic())):
            if time.monotonic() - self._shown_at >= LINE_SECONDS:
                self._line(self.status())

    def line(self, text: str) -> None:
        """Print a line, on a terminal above the view."""
        self._shown_at = time.monotonic()
        self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def _line(self, text: str) -> None:
        """Print a line where there is no terminal."""
        if not self._console.is_terminal:
            self.line(text)


class LiveProgress(LiveView):
    """Shows where a run stands; `started` and `told` are the hooks of a run.

    `totals` returns what the requests of a run to servers came to, for a run that has some.
    """

    def __init__(self, console: Console, totals: Callable[[str], CallTotals] | None = None) -> None:
        self._totals = totals
        self.run: Run | None = None
        """The run, once it is stored and can be resumed."""
        self.proposed = 0
        """Candidates proposed so far, also by an earlier process."""
        self._waiting_for = self._how = self._status = self._waits = ""
        self._best = Text()
        self._proposed_before: int | None = None
        self._read_at = float("-inf")
        super().__init__(console)

    def waiting(self, reason: str) -> None:
        """Say what takes time before the search can begin."""
        self._waiting_for = reason
        self._line(f"{reason} ...")

    def started(self, run: Run) -> None:
        """Take note that the run is stored."""
        self.run = run
        self._begin = time.monotonic()
        self._waiting_for = ""
        style = Config.from_json(run.config_json).prompt.style
        self._how = f"seed {run.seed}" + f", asks in style {style}" * (style != "auto")
        self._line(f"run {run.id}: {run.problem_id}, {run.evaluations} evaluations, {self._how}")

    def told(self, progress: Progress) -> None:
        """Take note of a tell, or that none comes; shown if the last update is long enough ago."""
        self.proposed, self._waits = progress.search.proposed, progress.waits
        is_first = self._proposed_before is None
        if self._proposed_before is None:
            self._proposed_before = self.proposed
        now = time.monotonic()
        if now - self._read_at < UPDATE_SECONDS:
            return
        self._read_at = now
        rate = (self.proposed - self._proposed_before) / max(now - self._begin, 1e-3)
        self._status = status_line(progress.search, rate)
        if self._totals is not None and (totals := self._totals(progress.search.run_id)).calls:
            self._status += f", {calls_text(totals)}"
        if (best := progress.search.best) is not None:
            line = one_line(best.program.source, progress.search.problem.entry)
            self._best = Text(line, style="dim", no_wrap=True, overflow="ellipsis")
        if is_first:
            self._line(self.status())

    def status(self) -> str:
        """Return in one line where the run stands, or what takes time before it begins."""
        if self.run is None or self._waiting_for:
            return f"{self._waiting_for} ... {duration(time.monotonic() - self._begin)}"
        done = f"{self.proposed} of {self.run.evaluations} evaluations"
        return ", ".join(filter(None, (done, self._status, self._waits)))

    def _view(self) -> RenderableType:
        if self.run is None or self._waiting_for:
            return Text(self.status())
        run, bar = self.run, Table.grid(padding=(0, 1))
        done = Text(f"{self.proposed} of {run.evaluations} evaluations", style="bold")
        took, new = time.monotonic() - self._begin, self.proposed - (self._proposed_before or 0)
        left = took / new * (run.evaluations - self.proposed) if new else 0.0
        togo = f", at most {duration(left)} to go" * bool(left)
        seconds = Text(f"{took:.0f} s{togo}", style="dim")
        bar.add_row(ProgressBar(run.evaluations, self.proposed, width=40), done, seconds)
        head = Text.assemble((run.problem_id, "bold"), (f"   run {run.id}, {self._how}", "dim"))
        waits = Text(self._waits, style="yellow")
        return Group(head, bar, Text(self._status), *[waits] * bool(waits), self._best)


def status_line(search: SearchState, rate: float) -> str:
    """Return one line about a search: its best program, its speed in programs a second, its islands.

    Of each island it holds what its best program comes to: rows passed, or the mean reward where there are
    objectives instead, which a program seldom reaches in full.
    """
    is_by_example, total = search.problem.is_by_example, len(search.problem.objectives)
    has_score = search.problem.has_one_score
    figure = "{:.6g}".format if has_score else reward_text
    best = search.best
    parts = ["nothing judged yet"]
    if best is not None:
        found = figure(merit(search.problem, best.evaluation))
        folder, metrics = search.problem.evaluator, dict(best.evaluation.metrics or ())
        name = score_name(metrics, folder.left_out) if folder and has_score else "mean reward"
        parts = [f"best {name} {found}"]
        if is_by_example:
            parts.append(f"{search.passed} of {total} examples")
        elif search.passed:
            parts.append(f"{search.passed} of {total} objectives at 1")
    bests = [
        str(max((sum(value >= 1.0 for value in m.rewards) for m in island.members), default=0))
        if is_by_example
        else figure(max((m.mean_reward for m in island.members), default=0.0))
        for island in search.population.islands
    ]
    shown = " ".join(bests[:_ISLANDS_SHOWN]) + (" ..." if len(bests) > _ISLANDS_SHOWN else "")
    parts += [f"{rate:.{0 if rate >= 1 else 2}f} programs/s", f"best by island {shown}"]
    return ", ".join(parts)
