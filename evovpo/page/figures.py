"""Incrementally updated figures of a run.

One `RunFigures` is kept for each run that the page shows, so that an update reads only new tells. A scalar
reward is the mean over components, or the `combined_score` if the evaluator returns one.
"""

import threading
import time
from bisect import insort
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

from evovpo.analysis.scores import Scored
from evovpo.store import Store, TellPage
from evovpo.store.page_queries import CandidateLine
from evovpo.types import Problem, PromptKind, Status

_PAGE_TELLS = 250
_WINDOW = 100
"""Judged programs behind a point of the running mean."""


class Point(NamedTuple):
    """Figures of a run after one tell."""

    evaluations: int
    tokens: int
    seconds: float
    """Of sampling and of the sandbox, added up."""
    best: float
    mean: float | None
    """Over the latest programs that were judged, shortened ones left out."""
    score: float | None
    """The highest so far."""


_BEGINNING = Point(0, 0, 0.0, 0.0, None, None)


class ProgramLine(NamedTuple):
    """A program of a run, as it was first proposed."""

    program_id: str
    evaluation_id: str
    position: int
    evaluations: int
    """Candidates proposed before it and with it."""
    kind: PromptKind
    island: int
    status: Status
    mean_reward: float
    passed: int
    length: int
    seconds: float
    policy_version: int | None
    score: float | None
    """Its `combined_score`, or what ranks it in its place; None where there is none."""


class Milestone(NamedTuple):
    """When a component first reached `value`."""

    value: float
    evaluations: int
    tokens: int
    seconds: float
    program_id: str


class IslandFigures:
    """Figures of one island."""

    def __init__(self) -> None:
        self.proposed = self.judged = self.since_rise = 0
        self.best = 0.0
        self.best_program_id: str | None = None


class RunFigures:
    """The figures of one run; not thread-safe."""

    def __init__(self, run_id: str, problem: Problem) -> None:
        self.run_id = run_id
        self.problem = problem
        self.position = self.last = -1
        """Of the last tell that is in the figures, and of the last one that was seen in the store."""
        self.has_all = False
        """True once all of a finished run was read."""
        self.points: list[Point] = []
        self.lines: list[ProgramLine] = []
        self.line_of: dict[str, ProgramLine] = {}
        """By the id of a program."""
        self.best_mean: ProgramLine | None = None
        self.best_score: ProgramLine | None = None
        self.reached: list[list[Milestone]] = [[] for _ in problem.objectives]
        """For each component, in rising order of values."""
        self.islands: defaultdict[int, IslandFigures] = defaultdict(IslandFigures)
        self.by: defaultdict[str, Counter[Any]] = defaultdict(Counter)
        """How many candidates have each `status`, `parse_status` and `kind`; rollouts by `policy_version`."""
        self.sandbox_seconds = 0.0
        self.rises: list[int] = []
        """Places in `points` at which the best rises."""
        self._latest: deque[float] = deque(maxlen=_WINDOW)
        self._orders: dict[str, list[ProgramLine]] = {}
        self._ordering = threading.Lock()

    @property
    def best(self) -> ProgramLine | None:
        """The program with the highest score, else with the highest mean reward."""
        return self.best_score or self.best_mean

    @property
    def now(self) -> Point:
        """Progress of the run."""
        return self.points[-1] if self.points else _BEGINNING

    @property
    def is_whole(self) -> bool:
        """True if all tells that the store had at the last look are counted."""
        return self.position >= self.last

    def update(self, store: Store, until: float) -> None:
        """Read the new tells for about that time; the next call continues from there."""
        self.last = store.last_tell(self.run_id)
        while not self.is_whole:
            through = min(self.last, self.position + _PAGE_TELLS)
            self._take(store.tell_page(self.run_id, self.position, through), through)
            if time.monotonic() > until:
                return

    def ordered(self, name: str, key: Callable[[ProgramLine], Any]) -> list[ProgramLine]:
        """Return the programs sorted by a key of that name; new ones join the order of the last call."""
        with self._ordering:
            order = self._orders.setdefault(name, [])
            new = self.lines[len(order) :]
            if len(new) > _PAGE_TELLS:
                order += new
                order.sort(key=key)
            else:
                for line in new:
                    insort(order, line, key=key)
            return order[:]

    def _take(self, page: TellPage, through: int) -> None:
        lines = deque(page.lines)
        points: dict[int, Point] = {}
        for cost in page.costs:
            before = self.now
            evaluations, seconds, way = before.evaluations, before.seconds + cost.seconds, ""
            while lines and lines[0].position == cost.position:
                line = lines.popleft()
                evaluations += not line.kind.is_free
                seconds += line.seconds
                self._count(line)
                way = line.way
                if line.mean_reward is not None and line.program_id and line.evaluation_id:
                    if not line.kind.is_free:
                        self._latest.append(line.mean_reward)
                    self._judge(
                        ProgramLine(
                            *(line.program_id, line.evaluation_id, cost.position, evaluations, line.kind),
                            *(line.island, line.status or Status.OK, line.mean_reward, line.passed),
                            *(line.length, line.seconds, cost.policy_version, self._score(line)),
                        )
                    )
            if cost.policy_version is not None:
                self.by["policy_version"][cost.policy_version] += 1
            best = self.best_mean.mean_reward if self.best_mean else 0.0
            score = self.best_score.score if self.best_score else None
            mean = sum(self._latest) / len(self._latest) if self._latest else None
            point = Point(evaluations, before.tokens + cost.tokens, seconds, best, mean, score)
            self.points.append(point)  # before its rise, which another thread may read
            if (best, score) != (before.best, before.score):
                self.by["way_rises"][way] += 1
                self.rises.append(len(self.points) - 1)
            points[cost.position] = point
        named = {(line.position, line.slot): line.program_id or "" for line in page.lines}
        for position, slot, objective, value in page.reached:
            rises = self.reached[objective]
            if not rises or value > rises[-1].value:
                rises.append(Milestone(value, *points[position][:3], named[position, slot]))
        self.position = through

    def _count(self, line: CandidateLine) -> None:
        self.by["kind"][line.kind] += 1
        if line.way:
            self.by["way"][line.way] += 1
        self.sandbox_seconds += line.seconds
        if not line.kind.is_free:
            island = self.islands[line.island]
            island.proposed += 1
            island.since_rise += 1
            self.by["parse_status"][line.parse_status] += 1
            if line.status is not None:
                self.by["status"][line.status] += 1

    def _score(self, line: CandidateLine) -> float | None:
        folder = self.problem.evaluator
        if folder is None or line.metrics is None or line.status is None:
            return None
        return Scored(0, line.program_id or "", line.status, line.metrics, folder.left_out).combined

    def _judge(self, line: ProgramLine) -> None:
        island = self.islands[line.island]
        island.judged += 1
        merit = line.score if self.problem.has_one_score else line.mean_reward
        if merit is not None and (island.best_program_id is None or merit > island.best):
            island.best, island.best_program_id, island.since_rise = merit, line.program_id, 0
        if self.best_mean is None or _rank(line) > _rank(self.best_mean):
            self.best_mean = line
        if line.score is not None and (self.best_score is None or line.score > (self.best_score.score or 0)):
            self.best_score = line
        if line.program_id not in self.line_of:
            self.line_of[line.program_id] = line
            self.lines.append(line)


def _rank(line: ProgramLine) -> tuple[float, int, int]:
    return line.mean_reward, line.passed, -line.length
