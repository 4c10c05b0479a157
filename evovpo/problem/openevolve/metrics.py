"""What an evaluator returns -> reward vector: bounds, declared or learned, and the components under them.

Metrics are kept as they came; only here do numbers become rewards in [0, 1]. Which numbers count and
between which bounds is in `Problem.evaluator.metrics`, and so in the version that judgements are kept under.
Reports alone look at `combined_score`: search and training see the reward vector.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ConfigDict

from evovpo.config_tree import Section, read_toml
from evovpo.errors import ConfigError, ProblemError, nearest_hint
from evovpo.types import Json, Metric, Rewards, Status

COMBINED = "combined_score"
"""The one number that OpenEvolve ranks programs by; for reports here, unless there is no other number."""
NOT_A_REWARD = ("error", COMBINED)
"""Names that are no objective of their own: a failure mark, and the mixture of the others."""

_SMALLEST_SPAN = 1e-3
_STEP = 2.0**-53
"""Distance of a soft reward to 0 and to 1, both of which it never reaches."""
_COSTS = frozenset(
    (
        *("error", "errors", "err", "loss", "losses", "mse", "rmse", "mae", "mape", "regret", "perplexity"),
        *("time", "times", "seconds", "secs", "ms", "milliseconds", "duration", "durations", "runtime"),
        *("latency", "latencies", "delay", "cost", "costs", "memory", "mem", "overhead", "waste", "gap"),
        *("penalty", "penalties", "violation", "violations", "failures"),
    )
)
"""Words in names of what is usually better when lower."""
_MERITS = frozenset(
    (
        *("score", "reward", "fitness", "accuracy", "quality", "efficiency", "improvement", "speedup"),
        *("reduction", "saved", "savings", "free", "negative", "neg", "inverse", "inv"),
    )
)
"""Words that turn such a name round again."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Declared(Section):
    """What `metrics.toml` says of one metric."""

    model_config = ConfigDict(allow_inf_nan=True)

    low: float | None = None
    """With `high`, or none: the bounds are learned."""
    high: float | None = None
    lower_is_better: bool | None = None
    """None where nothing is said of it; higher is better then."""
    ignore: bool = False

    def check(self) -> None:
        if (self.low, self.high) == (None, None):
            return
        low, high = number(self.low), number(self.high)
        if low is None or high is None or not low < high:
            raise ConfigError(
                f"expected two finite numbers, low below high, found low {self.low} and high {self.high}; "
                "give both or neither"
            )
        if not math.isfinite(high - low):
            raise ConfigError("expected bounds whose distance is a finite number; bring them closer")


class Reading(NamedTuple):
    """The reward vector of one judgement, and what was wrong with its metrics."""

    rewards: Rewards
    faults: tuple[str, ...]


def number(value: Json) -> float | None:
    """Return a metric as a finite number, or none: booleans, text, lists, NaN and infinities are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def suggests_lower(name: str) -> bool:
    """True if a metric's name reads like something of which less is better: an error, a time, a cost.

    The words of the name decide (`eval_time`, `maxError`); one such as `score` among them turns it round.
    """
    words = {word.lower() for word in _WORD.findall(name)}
    return bool(words & _COSTS) and not words & _MERITS


def describe(metric: Metric) -> str:
    """Return in words which way the measured value counts, and which values give which rewards."""
    way = "lower" if metric.lower_is_better else "higher"
    if metric.is_soft:
        scale = f"{metric.low:.6g}, the initial program's, gives 0.5"
    else:
        worst, best = (metric.high, metric.low) if metric.lower_is_better else (metric.low, metric.high)
        scale = f"{worst:.6g} gives 0, {best:.6g} gives 1"
    return f"the {way} its measured value, the higher the reward; {scale}"


def section_line(name: str) -> str:
    """Return the line of a `metrics.toml` that begins what is said of a metric."""
    is_bare = name.isidentifier() and name.isascii()
    return f"[metrics.{name if is_bare else json.dumps(name, ensure_ascii=False)}]"


def reward(metric: Metric, value: float) -> float:
    """Return the component in [0, 1] of a finite number; see `Metric`. Soft ones lie strictly between."""
    span = metric.high - metric.low
    if metric.is_soft:
        share = 0.5 + math.atan((value - metric.low) / span) / math.pi
        share = min(max(share, _STEP), 1.0 - _STEP)
    else:
        share = min(max((value - metric.low) / span, 0.0), 1.0)
    return 1.0 - share if metric.lower_is_better else share


def read_rewards(wanted: Sequence[Metric], metrics: Mapping[str, Json]) -> Reading:
    """Return the vector that `metrics` give; one that is missing or no finite number has component 0."""
    rewards, faults = [], []
    for metric in wanted:
        value = number(metrics.get(metric.name))
        if value is None:
            found = json.dumps(metrics[metric.name])[:80] if metric.name in metrics else "nothing"
            faults.append(f"metric {metric.name}: expected a finite number, found {found}; its reward is 0")
        rewards.append(0.0 if value is None else reward(metric, value))
    return Reading(tuple(rewards), tuple(faults))


def learn(metrics: Mapping[str, Json], declared: Mapping[str, Declared]) -> tuple[Metric, ...]:
    """Return the metrics that make the reward vector, from what the initial program scored.

    Its numbers, in order, then declared ones with bounds that it did not return. Bounds that nobody declared
    are soft: the initial program has 1/2, and one span better gives 3/4. The span is its value, at least
    0.001, and 1 where that is 0, which says nothing of the scale.
    `combined_score` counts where it is declared, or where there is no other number. Empty if nothing counts.
    """
    found = {name: value for name, raw in metrics.items() if (value := number(raw)) is not None}
    said = {name: declared.get(name, Declared()) for name in (*metrics, *declared)}
    names = [name for name in found if name not in NOT_A_REWARD or name in declared]
    names += [name for name in declared if name not in found and said[name].low is not None]
    names = [name for name in names if not said[name].ignore]
    if not names and COMBINED in found and not said[COMBINED].ignore:
        names = [COMBINED]
    return tuple(_metric(name, found.get(name), said[name]) for name in names)


def _metric(name: str, value: float | None, said: Declared) -> Metric:
    if said.low is not None and said.high is not None:
        return Metric(name, said.low, said.high, bool(said.lower_is_better))
    assert value is not None, "a metric without bounds was returned by the initial program"
    high = value + (max(abs(value), _SMALLEST_SPAN) if value else 1.0)
    if not math.isfinite(high):  # within a factor of 2 of the largest float
        value, high = value / 2, value
    return Metric(name, value, high, bool(said.lower_is_better), is_soft=True)


def read_declared(path: Path) -> dict[str, Declared]:
    """Return what a `metrics.toml` declares; raises `ProblemError` naming the file and all that is wrong.

    The file holds `[metrics.NAME]` sections with `low` and `high` (both or neither), `lower_is_better` and
    `ignore`.
    """
    data = read_toml(path, ProblemError)
    known = ["metrics", "allow"]
    faults = [f"unknown key {key!r}; {nearest_hint(key, known)}" for key in data if key not in known]
    tables = data.get("metrics", {})
    if not isinstance(tables, dict):
        faults.append(f"metrics: expected sections such as [metrics.speed], found {tables!r:.80}")
        tables = {}
    declared: dict[str, Declared] = {}
    for name, table in tables.items():
        place = f"[metrics.{name}]"
        if not isinstance(table, dict):
            faults.append(f"{place}: expected a section, found {table!r:.80}")
            continue
        try:
            declared[name] = Declared(**table)
        except ConfigError as error:
            faults += [f"{place}: {fault}" for fault in Declared.faults(table) or [str(error)]]
    if faults:
        raise ProblemError(f"{path}: " + "; ".join(faults))
    return declared


def read_allowed(path: Path) -> list[str]:
    """Return what a `metrics.toml` lists in `allow`; raises `ProblemError` where that is no list of texts."""
    words = read_toml(path, ProblemError).get("allow", [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ProblemError(f'{path}: allow: expected a list such as ["env=API_KEY"], found {words!r:.80}')
    return words


def suggest_bounds(wanted: Sequence[Metric], judged: Sequence[Mapping[str, Json]]) -> str:
    """Return a `metrics.toml` with bounds from the metrics of programs that ran.

    The worse bound is the 5th percentile of the values, so that a few failures do not stretch the scale; the
    better one lies a quarter of the way from there to the best value beyond it, so that there is room to
    improve, but not beyond 0 where no value seen is: errors and times do not get negative. A metric without
    two different values is left out, with a comment.
    """
    lines = [
        "# Bounds from a run: worse end at the 5th percentile, better end 25 % beyond the best value, but",
        "# not beyond 0 where no value was.",
    ]
    for metric in wanted:
        sign = -1.0 if metric.lower_is_better else 1.0
        found = (number(metrics.get(metric.name)) for metrics in judged)
        values = sorted(sign * value for value in found if value is not None)
        if len(values) < 2 or values[0] == values[-1]:
            name = json.dumps(metric.name)
            lines += ["", f"# {name}: {len(values)} values, all the same; no bounds can be learned"]
            continue
        worse, best = values[len(values) // 20], values[-1]
        if worse == best:
            worse = values[0]
        better = best + (best - worse) / 4
        if best <= 0.0:
            better = min(better, 0.0)
        low, high = sorted((sign * worse + 0.0, sign * better + 0.0))  # 0.0 makes no -0.0
        lines += ["", section_line(metric.name), f"low = {low!r}", f"high = {high!r}"]
        if metric.lower_is_better:
            lines.append("lower_is_better = true")
        elif suggests_lower(metric.name):
            lines.append("# The run took higher as better. Where lower is: lower_is_better = true")
    return "\n".join(lines) + "\n"


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
