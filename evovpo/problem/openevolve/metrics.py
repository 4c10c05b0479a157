"""Converts an evaluator's metrics to a reward vector in [0, 1]."""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pydantic import ConfigDict

from evovpo.analysis.scores import ERROR, combined_score, counted_metrics, number, score_name
from evovpo.config_tree import Section, read_toml
from evovpo.config_values import toml_value
from evovpo.errors import ConfigError, ProblemError, nearest_hint
from evovpo.types import EvaluatorFolder, Json, Metric, Rewards

_SMALLEST_SPAN = 1e-3
_STEP = 2.0**-53
_COST_WORDS = frozenset(
    (
        *("error", "errors", "err", "loss", "losses", "mse", "rmse", "mae", "mape", "regret", "perplexity"),
        *("time", "times", "seconds", "secs", "ms", "milliseconds", "duration", "durations", "runtime"),
        *("latency", "latencies", "delay", "cost", "costs", "memory", "mem", "overhead", "waste", "gap"),
        *("penalty", "penalties", "violation", "violations", "failures", "reversals", "changes"),
    )
)
_MERIT_WORDS = frozenset(
    (
        *("score", "reward", "fitness", "accuracy", "quality", "efficiency", "improvement", "speedup"),
        *("reduction", "saved", "savings", "safe", "free", "negative", "neg", "inverse", "inv"),
    )
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class MetricDeclaration(Section):
    model_config = ConfigDict(allow_inf_nan=True)

    low: float | None = None
    """Lower bound, declared together with `high`; None to derive both bounds from the initial program."""
    high: float | None = None
    lower_is_better: bool | None = None
    """None if not declared, which means that higher is better."""
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


def suggests_lower(name: str) -> bool:
    """True if a metric's name (such as `eval_time`, `maxError`) suggests an error, a time or a cost."""
    words = {word.lower() for word in _WORD.findall(name)}
    return bool(words & _COST_WORDS) and not words & _MERIT_WORDS


def describe(metric: Metric, is_reward: bool = True) -> str:
    """Return a metric's description for prompts. It mentions rewards only if `is_reward` is true."""
    if not is_reward:
        return f"higher is better; the initial program's is {metric.low:.6g}"
    way = "lower" if metric.lower_is_better else "higher"
    if metric.is_soft:
        scale = f"{metric.low:.6g}, the initial program's, gives 0.5"
    else:
        worst, best = (metric.high, metric.low) if metric.lower_is_better else (metric.low, metric.high)
        scale = f"{worst:.6g} gives 0, {best:.6g} gives 1"
    return f"the {way} its measured value, the higher the reward; {scale}"


def section_line(name: str) -> str:
    is_bare = name.isidentifier() and name.isascii()
    return f"[metrics.{name if is_bare else toml_value(name)}]"


def reward(metric: Metric, value: float) -> float:
    """Return the reward of a value, from 0 to 1. A metric without bounds never gives exactly 0 or 1."""
    span = metric.high - metric.low
    if metric.is_soft:
        share = 0.5 + math.atan((value - metric.low) / span) / math.pi
        share = min(max(share, _STEP), 1.0 - _STEP)
    else:
        share = min(max((value - metric.low) / span, 0.0), 1.0)
    return 1.0 - share if metric.lower_is_better else share


def read_rewards(folder: EvaluatorFolder, metrics: Mapping[str, Json]) -> tuple[Rewards, tuple[str, ...]]:
    """Return the reward vector of `metrics`, and error texts. A missing or invalid metric has reward 0."""
    end = "its reward is 0" if folder.left_out is None else "the program ranks below all that have one"
    rewards, faults = [], []
    for metric in folder.metrics:
        raw = metrics.get(metric.name)
        value = number(raw) if folder.left_out is None else combined_score(metrics, folder.left_out)
        if value is None:
            came = json.dumps(raw)[:80] if metric.name in metrics else "nothing"
            faults.append(f"metric {metric.name}: expected a finite number, found {came}; {end}")
        rewards.append(0.0 if value is None else reward(metric, value))
    return tuple(rewards), tuple(faults)


def learn(
    metrics: Mapping[str, Json], declared: Mapping[str, MetricDeclaration], left_out: Collection[str]
) -> tuple[Metric, ...]:
    """Return the metrics that form the reward vector; `metrics` are the values of the initial program.

    A declared metric is used if it has bounds or if its initial value is a number. If no metric is declared,
    the only metric is the score: `combined_score`, or the mean of all metrics not in `left_out`. Let v be the
    initial value of a metric without bounds, and let s be max(|v|, 0.001), or 1 if v is 0. Then v has reward
    1/2, and a value that is better than v by s has reward 3/4.
    """
    wanted = objectives_of(declared)
    if not wanted:
        score = combined_score(metrics, left_out)
        name = score_name(metrics, left_out)
        return () if score is None else (_metric(name, score, MetricDeclaration()),)
    found = {name: value for name, raw in metrics.items() if (value := number(raw)) is not None}
    names = [name for name in found if name in wanted]
    names += [name for name in wanted if name not in found and declared[name].low is not None]
    return tuple(_metric(name, found.get(name), declared[name]) for name in names)


def objectives_of(declared: Mapping[str, MetricDeclaration]) -> list[str]:
    return [name for name, said in declared.items() if not said.ignore]


def _metric(name: str, value: float | None, said: MetricDeclaration) -> Metric:
    if said.low is not None and said.high is not None:
        return Metric(name, said.low, said.high, bool(said.lower_is_better))
    assert value is not None, "a metric without bounds was returned by the initial program"
    high = value + (max(abs(value), _SMALLEST_SPAN) if value else 1.0)
    if not math.isfinite(high):  # within a factor of 2 of the largest float
        value, high = value / 2, value
    return Metric(name, value, high, bool(said.lower_is_better), is_soft=True)


def read_metrics(file: str | Path | None) -> tuple[dict[str, MetricDeclaration], list[str]]:
    """Return the declared metrics and the list `allow` in a `metrics.toml`; both are empty without a file.

    Raises a `ProblemError` that names the file and all errors.
    """
    data = {} if file is None else read_toml(Path(file), ProblemError)
    known = ["metrics", "allow"]
    faults = [f"unknown key {key!r}; {nearest_hint(key, known)}" for key in data if key not in known]
    words = data.get("allow", [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        faults.append(f'allow: expected a list such as ["env=API_KEY"], found {words!r:.80}')
    tables = data.get("metrics", {})
    if not isinstance(tables, dict):
        faults.append(f"metrics: expected sections such as [metrics.speed], found {tables!r:.80}")
        tables = {}
    declared: dict[str, MetricDeclaration] = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            faults.append(f"[metrics.{name}]: expected a section, found {table!r:.80}")
            continue
        try:
            declared[name] = MetricDeclaration(**table)
        except ConfigError as error:
            faults += [
                f"[metrics.{name}]: {fault}" for fault in MetricDeclaration.faults(table) or [str(error)]
            ]
    if faults:
        raise ProblemError(f"{file}: " + "; ".join(faults))
    return declared, words


def draft(metrics: Mapping[str, Json], left_out: Collection[str]) -> str:
    """Return a `metrics.toml` text for the metrics whose mean is the score. `lower_is_better` is guessed."""
    lines: list[str] = []
    for name in counted_metrics(metrics, left_out):
        lines += [section_line(name), f"lower_is_better = {str(suggests_lower(name)).lower()}"]
    return "\n".join(lines)


def suggest_bounds(folder: EvaluatorFolder, judged: Sequence[Mapping[str, Json]]) -> str:
    """Return a `metrics.toml` text with bounds and directions for the metrics of evaluated programs.

    A direction (higher or lower is better) that is not declared is guessed from the metric's name.
    """
    lines = [
        "# Metrics as objectives, with bounds from a run: the worse bound is the 5th percentile, the better",
        "# one 25 % beyond the best value, but not beyond 0 unless a value was. Remove what is not a goal.",
    ]
    known = {} if folder.left_out is not None else {m.name: m.lower_is_better for m in folder.metrics}
    values_of: dict[str, list[float]] = {}
    for metrics in judged:
        for name, raw in metrics.items():
            if (value := number(raw)) is not None:
                values_of.setdefault(name, []).append(value)
    for name in [name for name in values_of if name in known or name != ERROR]:
        is_lower = known.get(name, suggests_lower(name))
        sign = -1.0 if is_lower else 1.0
        values = sorted(sign * value for value in values_of[name])
        if values[0] == values[-1]:
            lines += [
                "",
                f"# {json.dumps(name)}: {len(values)} equal values; no bounds can be derived",
            ]
            continue
        worse, best = values[len(values) // 20], values[-1]
        if worse == best:
            worse = values[0]
        better = best + (best - worse) / 4
        if best <= 0.0:
            better = min(better, 0.0)
        low, high = sorted((sign * worse + 0.0, sign * better + 0.0))  # adding 0.0 avoids -0.0
        guess = "" if name in known else "  # guessed from the name"
        lines += ["", section_line(name), f"low = {low!r}", f"high = {high!r}"]
        lines.append(f"lower_is_better = {str(is_lower).lower()}{guess}")
    return "\n".join(lines) + "\n"
