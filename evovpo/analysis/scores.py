"""OpenEvolve's `combined_score`: the score of a program, and the best scores in a run."""

import contextlib
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from evovpo.types import Evaluation, Json, Problem, Status

COMBINED = "combined_score"
ERROR = "error"
_FAULT_LINE = re.compile(
    r"^(error|stderr|exception)\w*: *[^\d.\s]|[A-Z]\w*(Error|Exception)\b|\[Errno -?\d+\]|command not found"
    r"|No such file or directory|Permission denied|(Name|Host) .*(not known|unreachable)|in name resolution"
)
NO_SCORE = -math.inf
"""Score of a program that failed or has no finite score, below all other scores."""


def number(value: Json) -> float | None:
    """Return a metric as a finite number, or None for booleans, text, lists, NaN and infinities."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def combined_score(metrics: Mapping[str, Json], left_out: Collection[str]) -> float | None:
    """Return the metric `combined_score` or, if it is missing, the mean of all metrics that are numbers.

    The mean ignores the metrics in `left_out`, unless they are the only numbers. Returns None if there is no
    finite result, or if `error` is the only number. Source: OpenEvolve 0.4.0, `get_fitness_score`.
    """
    counted = [*counted_metrics(metrics, left_out).values()]
    mean = sum(counted) / len(counted) if counted else math.nan
    return mean if math.isfinite(mean) else None


def counted_metrics(metrics: Mapping[str, Json], left_out: Collection[str]) -> dict[str, float]:
    """Return {metric: number} for the metrics whose mean is the score; empty if there is no score."""
    combined = metrics.get(COMBINED)
    if isinstance(combined, bool | int | float | str):
        with contextlib.suppress(ValueError, OverflowError):  # a text that is no number: use the mean
            return {COMBINED: float(combined)}
    numbers = {name: value for name, raw in metrics.items() if (value := number(raw)) is not None}
    if numbers.keys() <= {ERROR}:
        return {}
    return {name: value for name, value in numbers.items() if name not in left_out} or numbers


def score_name(metrics: Mapping[str, Json], left_out: Collection[str] | None) -> str:
    """Return the name of the score computed from `metrics`: a metric's name, or `mean of N metrics`."""
    counted = counted_metrics(metrics, left_out or ())
    if len(counted) == 1:
        return next(iter(counted))
    return f"mean of {len(counted)} metrics" if counted else COMBINED


def score_json(name: str, score: float | None) -> dict[str, Json]:
    """Return {"score": score, "score_name": name}. If `name` is `combined_score`, add {name: score}."""
    if score is None:
        return {}
    return {"score": score, "score_name": name, **({COMBINED: score} if name == COMBINED else {})}


def score_of(problem: Problem, evaluation: Evaluation) -> float | None:
    """Return a program's score or `NO_SCORE`. Return None if the problem ranks programs by reward vectors."""
    if problem.evaluator is None or problem.evaluator.left_out is None:
        return None
    if evaluation.status is not Status.OK:
        return NO_SCORE
    found = combined_score(dict(evaluation.metrics or ()), problem.evaluator.left_out)
    return NO_SCORE if found is None else found


def compared(problem: Problem, evaluation: Evaluation) -> tuple[float, ...]:
    """Return the values by which a program is ranked: its rewards, or a single score (`score_of`)."""
    score = score_of(problem, evaluation)
    return evaluation.rewards or () if score is None else (score,)


def merit(problem: Problem, evaluation: Evaluation) -> float:
    """Return a program's score or, if the problem ranks programs by reward vectors, the mean reward."""
    values = compared(problem, evaluation) or (0.0,)
    return sum(values) / len(values)


def failure(metrics: Mapping[str, Json], feedback: str = "") -> str:
    """Return one line about the failure of an evaluation; empty if the evaluation is valid.

    A failure is a missing score, or a score of at most 0 together with an error in metrics or feedback.
    """
    said, score = metrics.get(ERROR), combined_score(metrics, (ERROR,))
    if score is not None and score > 0.0:
        return ""
    told = [said] if isinstance(said, str) and said.strip() else []
    told += [line for line in feedback.splitlines() if _FAULT_LINE.search(line)][-1:]
    return " ".join(told[0].split()) if told else "it returned no score" * (score is None)


class Scored(NamedTuple):
    """An evaluated candidate of a run, with the metrics from the evaluator."""

    evaluations: int
    """Number of candidates proposed up to this candidate, inclusive; 0 for starting programs."""
    program_id: str
    status: Status
    metrics: dict[str, Json]
    left_out: tuple[str, ...] | None = None
    """Metrics that the mean leaves out (`EvaluatorFolder.left_out`); None if reward vectors rank programs."""

    @property
    def name(self) -> str:
        return score_name(self.metrics, self.left_out)

    @property
    def combined(self) -> float | None:
        """The score (see `combined_score`); None if the candidate failed or has no score."""
        if self.status is not Status.OK:
            return None
        if self.left_out is None:
            return number(self.metrics.get(COMBINED))
        return combined_score(self.metrics, self.left_out)


def best_combined(scores: Sequence[Scored]) -> Scored | None:
    """Return the first candidate with the highest `combined_score`, or None if none has a score."""
    return next(iter(combined_curve(scores)[-1:]), None)


def combined_curve(scores: Sequence[Scored]) -> tuple[Scored, ...]:
    """Return the candidates that improved the best `combined_score` of a run, in order."""
    points: list[tuple[float, Scored]] = []
    for item in scores:
        if item.combined is not None and (not points or item.combined > points[-1][0]):
            points.append((item.combined, item))
    return tuple(item for _, item in points)


def only_failures(scores: Sequence[Scored], feedback_of: Callable[[str], str]) -> bool:
    """True if every program failed. `feedback_of` maps a program id to the feedback of its evaluation."""
    return all(
        item.status is not Status.OK or failure(item.metrics, feedback_of(item.program_id)) for item in scores
    )
