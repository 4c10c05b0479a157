"""Statistics of a run for the page, updated while the run goes on."""

import threading
import time
from bisect import insort
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from evovpo.analysis.scores import Scored
from evovpo.store import RunSummary, Store
from evovpo.store.summary import CandidateLine, TellLine
from evovpo.types import Problem, PromptKind, Status

_PAGE_TELLS = 250
_RUNNING_MEAN_PROGRAMS = 100


class Point(NamedTuple):
    """The statistics of a run at one point of its curve, after an evaluated reply."""

    evaluations: int
    tokens: int
    seconds: float
    best: float
    mean: float | None
    score: float | None


_BEGINNING = Point(0, 0, 0.0, 0.0, None, None)


class ProgramLine(NamedTuple):
    """A program of a run, with data from its first proposal in that run."""

    program_id: str
    evaluation_id: str
    position: int
    evaluations: int
    kind: PromptKind
    island: int
    status: Status
    mean_reward: float
    passed: int
    length: int
    seconds: float
    policy_version: int | None
    score: float | None


class Milestone(NamedTuple):
    value: float
    evaluations: int
    tokens: int
    seconds: float
    program_id: str


@dataclass
class IslandFigures:
    proposed: int = 0
    judged: int = 0
    since_rise: int = 0
    best: float = 0.0
    best_program_id: str | None = None


class RunFigures:
    """The statistics of one run; not thread-safe."""

    def __init__(self, run_id: str, problem: Problem) -> None:
        self.run_id = run_id
        self.problem = problem
        self.summary = RunSummary()
        self.last = -1
        """Position of the last evaluated reply found in the store."""
        self.has_all = False
        """True once a finished run has been read completely."""
        self.points: list[Point] = []
        self.lines: list[ProgramLine] = []
        self.line_of: dict[str, ProgramLine] = {}
        self.best_score: ProgramLine | None = None
        self.reached: list[list[Milestone]] = [[] for _ in problem.objectives]
        """Milestones of each component, in order of rising value."""
        self.islands: defaultdict[int, IslandFigures] = defaultdict(IslandFigures)
        self.by_policy: Counter[int] = Counter()
        self.rises: list[int] = []
        """Indices in `points` at which the best reward or the best score changes."""
        self._latest: deque[float] = deque(maxlen=_RUNNING_MEAN_PROGRAMS)
        self._orders: dict[str, list[ProgramLine]] = {}
        self._ordering = threading.Lock()

    @property
    def position(self) -> int:
        """Position of the last evaluated reply that was counted; -1 before the first."""
        return self.summary.tells - 1

    @property
    def best(self) -> ProgramLine | None:
        return self.best_score or self.line_of.get(self.summary.best_program_id or "")

    @property
    def now(self) -> Point:
        return self.points[-1] if self.points else _BEGINNING

    @property
    def is_whole(self) -> bool:
        """True if the last `update` counted all evaluated replies, and did not stop for lack of time."""
        return self.position >= self.last

    def update(self, store: Store, until: float) -> None:
        """Count new replies until time `until` (`time.monotonic`). The next call counts the rest."""
        self.last = store.last_tell(self.run_id)
        while not self.is_whole:
            after = min(self.last, self.position + _PAGE_TELLS)
            for tell in store.tell_lines(self.run_id, self.position + 1, after):
                self._add(tell)
            self.summary.tells = after + 1  # beyond the last tell if rows were deleted
            if time.monotonic() > until:
                return

    def ordered(self, name: str, key: Callable[[ProgramLine], Any]) -> list[ProgramLine]:
        """Return the programs sorted by `key`; the sorted list is cached under `name`."""
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

    def _add(self, tell: TellLine) -> None:
        before, evaluations = self.now, self.summary.proposed
        self.summary.add(tell)
        for line in tell.candidates:
            if not line.kind.is_free:
                evaluations += 1
                self.islands[line.island].proposed += 1
                self.islands[line.island].since_rise += 1
            if line.mean_reward is not None and line.program_id and line.evaluation_id:
                if not line.kind.is_free:
                    self._latest.append(line.mean_reward)
                self._judge(
                    ProgramLine(
                        *(line.program_id, line.evaluation_id, tell.position, evaluations, line.kind),
                        *(line.island, line.status or Status.OK, line.mean_reward, line.passed),
                        *(line.length, line.seconds, tell.policy_version, self._score(line)),
                    )
                )
        if tell.policy_version is not None:
            self.by_policy[tell.policy_version] += 1
        score = self.best_score.score if self.best_score else None
        mean = sum(self._latest) / len(self._latest) if self._latest else None
        seconds = self.summary.sampling_seconds + self.summary.evaluation_seconds
        best = self.summary.best_mean_reward or 0.0
        point = Point(evaluations, self.summary.tokens, seconds, best, mean, score)
        self.points.append(point)  # before the rise, which another thread may read
        if (best, score) != (before.best, before.score):
            self.rises.append(len(self.points) - 1)
        for line in tell.candidates:
            for rises, value in zip(self.reached, line.rewards, strict=False):
                if value > (rises[-1].value if rises else 0.0):
                    rises.append(Milestone(value, *point[:3], line.program_id or ""))

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
        if line.score is not None and (self.best_score is None or line.score > (self.best_score.score or 0)):
            self.best_score = line
        if line.program_id not in self.line_of:
            self.line_of[line.program_id] = line
            self.lines.append(line)
