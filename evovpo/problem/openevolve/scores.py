"""The raw metrics of a stored run: its best program by `combined_score`, and the curve of that number.

For reports only: search and training see the reward vector.
"""

from collections.abc import Sequence
from typing import NamedTuple

from evovpo.problem.openevolve.metrics import COMBINED, number
from evovpo.types import Json, Status


class Scored(NamedTuple):
    """One judged candidate of a run, with what its evaluator returned."""

    evaluations: int
    """Candidates proposed up to and with this one; 0 for the starting programs."""
    program_id: str
    status: Status
    metrics: dict[str, Json]

    @property
    def combined(self) -> float | None:
        """Its `combined_score`, or none where that is no finite number or the program failed."""
        return number(self.metrics.get(COMBINED)) if self.status is Status.OK else None


class CombinedPoint(NamedTuple):
    """Where a run stood when its best `combined_score` rose."""

    evaluations: int
    combined_score: float


def best_combined(scores: Sequence[Scored]) -> Scored | None:
    """Return the first candidate with the highest `combined_score`, or none if none has such a number."""
    scored = (item for item in scores if item.combined is not None)
    return max(scored, key=lambda item: item.combined or 0.0, default=None)


def combined_curve(scores: Sequence[Scored]) -> tuple[CombinedPoint, ...]:
    """Return the best `combined_score` against evaluations, a point for each time that it rose."""
    points: list[CombinedPoint] = []
    for item in scores:
        value = item.combined
        if value is not None and (not points or value > points[-1].combined_score):
            points.append(CombinedPoint(item.evaluations, value))
    return tuple(points)
