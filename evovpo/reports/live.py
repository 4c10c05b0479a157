"""Shows progress: bars on a terminal, a line that changes in a notebook, else a line every 30 seconds."""

import threading
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from evovpo.analysis.scores import merit, score_name
from evovpo.config import Config
from evovpo.reports.text import calls_text, duration, one_line, printable, reward_text
from evovpo.runs.driver import Progress as RunProgress
from evovpo.search.standing import Standing
from evovpo.store import CallTotals
from evovpo.types import Run

UPDATE_SECONDS, NOTEBOOK_SECONDS = 0.25, 1.0
LINE_SECONDS = 30.0
"""Seconds between progress lines when the output is not a terminal."""
_SPEED_SECONDS = 3600.0


class _Bars(Progress):
    below: RenderableType = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield self.below


class WorkBar:
    """A progress bar on standard error, shown until the end of a `with` block."""

    unit = ""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._has_bars = self._console.is_terminal and not self._console.quiet  # bars redirect prints
        self._bars = _Bars(
            TextColumn("{task.description}", markup=False, table_column=Column()),
            BarColumn(bar_width=20),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[figures]}", markup=False, table_column=Column()),
            console=self._console,
            refresh_per_second=1 / UPDATE_SECONDS,
            speed_estimate_period=_SPEED_SECONDS,
            transient=True,
        )
        self._work = self._bars.add_task("starting", total=None, figures="")
        self._shown_at = time.monotonic()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if self._has_bars:
            self._bars.start()
        else:
            threading.Thread(target=self._say_at_times, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._has_bars:
            self._bars.stop()

    def show(self, name: str, done: int, total: int | None, figures: str = "") -> None:
        """Show the name and progress of the work. A new name resets the estimate of the remaining time."""
        work = self._bars.tasks[0]
        if work.description != name:
            self._bars.reset(self._work)
        work.total = total
        self._bars.update(self._work, description=printable(name), completed=done, figures=figures)

    def status(self) -> str:
        """Return one line with the name, progress and estimated remaining time of the work."""
        work = self._bars.tasks[0]
        done = "" if work.total is None else f"{work.completed:.0f} of {work.total:.0f} {self.unit}".rstrip()
        left = work.time_remaining
        togo = f"at most {duration(left)} to go" if left else ""
        return ", ".join(filter(None, (work.description, done, work.fields["figures"], togo)))

    def line(self, text: str) -> None:
        """Print a line; on a terminal, it appears above the bars."""
        self._shown_at = time.monotonic()
        self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def _line(self, text: str) -> None:
        if not (self._console.is_terminal or self._console.is_jupyter):
            self.line(text)

    def _say_at_times(self) -> None:
        if self._console.is_jupyter and not self._console.quiet:
            display: Any = import_module("IPython.display").display
            shown = display({"text/plain": ""}, raw=True, display_id=True)
            while not self._ended.wait(NOTEBOOK_SECONDS):
                shown.update({"text/plain": self.status()}, raw=True)
            shown.update({"text/plain": ""}, raw=True)
        while not self._ended.wait(max(0.1, self._shown_at + LINE_SECONDS - time.monotonic())):
            if time.monotonic() - self._shown_at >= LINE_SECONDS:
                self._line(self.status())


class LiveProgress(WorkBar):
    unit = "evaluations"

    def __init__(self, console: Console, totals: Callable[[str], CallTotals] | None = None) -> None:
        self._totals = totals
        self.run: Run | None = None
        """The run, or None until it is stored and can be resumed."""
        self.proposed = 0
        """Number of candidates proposed so far, including those before the run was resumed."""
        self._proposed_before: int | None = None
        self._begin, self._read_at = time.monotonic(), float("-inf")
        super().__init__(console)

    def waiting(self, reason: str) -> None:
        self.show(f"{reason} ...", 0, None)
        self._line(f"{reason} ...")

    def started(self, run: Run) -> None:
        self.run, self._begin = run, time.monotonic()
        style = Config.from_json(run.config_json).prompt.style
        how = f"seed {run.seed}" + f", asks in style {style}" * (style != "auto")
        self.show(f"{run.problem_id}, run {run.id}, {how}", 0, run.evaluations)
        self._line(f"run {run.id}: {run.problem_id}, {run.evaluations} evaluations, {how}")

    def told(self, progress: RunProgress) -> None:
        """Show the progress of the run, at most every `UPDATE_SECONDS`."""
        self.proposed = progress.search.standing.proposed
        is_first = self._proposed_before is None
        if self._proposed_before is None:
            self._proposed_before = self.proposed
        now = time.monotonic()
        if self.run is None or now - self._read_at < UPDATE_SECONDS:
            return
        self._read_at = now
        rate = (self.proposed - self._proposed_before) / max(now - self._begin, 1e-3)
        status = status_line(progress.search.standing, rate)
        if self._totals is not None and (totals := self._totals(progress.search.run_id)).calls:
            status += f", {calls_text(totals)}"
        shown = [Text(status), *[Text(progress.waits, style="yellow")] * bool(progress.waits)]
        if (best := progress.search.standing.best) is not None:
            line = one_line(best.program.source, progress.search.standing.problem.entry)
            shown.append(Text(line, style="dim", no_wrap=True, overflow="ellipsis"))
        self._bars.below = Group(*shown)
        if progress.is_failing:  # forget the speed so far: there is no estimate until replies come again
            self._bars.reset(self._work, completed=self.proposed)
        self.show(self._bars.tasks[0].description, self.proposed, self.run.evaluations)
        self._said = ", ".join(filter(None, (status, progress.waits)))
        if is_first or (progress.waits and not self._has_waited):
            self._line(self.status())
        self._has_waited |= bool(progress.waits)

    _said = ""
    _has_waited = False

    def status(self) -> str:
        return ", ".join(filter(None, (super().status(), self._said)))


def loading_message(config: Config) -> str:
    waits = {"random": "getting ready", "openai": "asking the server", "own": "asking the proposer"}
    return waits.get(config.proposer.name, "loading the model (a few seconds)")


def status_line(standing: Standing, rate: float) -> str:
    """Return one line about a search: its best program and its speed in programs per second."""
    is_by_example, total = standing.problem.is_by_example, len(standing.problem.objectives)
    has_score = standing.problem.has_one_score
    figure = "{:.6g}".format if has_score else reward_text
    best = standing.best
    parts = ["nothing judged yet"]
    if best is not None:
        found = figure(merit(standing.problem, best.evaluation))
        folder, metrics = standing.problem.evaluator, dict(best.evaluation.metrics or ())
        name = score_name(metrics, folder.left_out) if folder and has_score else "mean reward"
        parts = [f"best {name} {found}"]
        if is_by_example:
            parts.append(f"{standing.passed} of {total} examples")
        elif standing.passed:
            parts.append(f"{standing.passed} of {total} objectives at 1")
    parts.append(f"{rate:.{0 if rate >= 1 else 2}f} programs/s")
    return ", ".join(parts)
