"""Measures policies (models) on a domain, with 95 % intervals over the prompts and paired differences."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from evovpo.analysis.statistics import Array, Interval
from evovpo.errors import ConfigError
from evovpo.experiments.intervals import Difference, difference, mean
from evovpo.judging.measure import Measure, measure
from trainer.domains.domain import Domain
from trainer.domains.sampling import Ask, JudgedCompletion, complete, complete_at, load_policy

BY_K = {
    "best_at_k": "best@k: best mean reward of k answers",
    "pass_at_k": "pass@k: one of k answers is right in every component",
    "expected_best_at_k": "E_w best@k: best of k under random weightings",
    "union_at_k": "union@k: what k answers cover together",
}
"""Statistics of `evovpo.judging.measure.Measure` that depend on k, with their titles."""
OF_ALL = {
    "diversity": "diversity: mean L1 distance of two answers' rewards",
    "pareto_share": "Pareto share: answers that no other one to the prompt beats",
}
"""Statistics over all answers to a prompt, with their titles."""


@dataclass(frozen=True)
class PolicyFigures:
    """The statistics of one policy on T prompts, with one set of sampling settings."""

    name: str
    ask: Ask
    measures: tuple[Measure, ...]
    ks: tuple[int, ...]
    names: tuple[Mapping[str, Any], ...]
    """The first entries of each prompt's JSON row, such as its id."""

    def values(self, figure: str, k: int = 0) -> Array:
        """Return the statistic `figure` for k answers to each of T prompts, as an array of shape (1, T)."""
        found = (getattr(one, figure) for one in self.measures)
        return np.array([[one if figure in OF_ALL else one([k])[0] for one in found]], dtype=np.float64)

    def by_k(self, figure: str) -> dict[int, Interval]:
        """Return the mean of a statistic over the prompts with its 95 % interval, for each k in `ks`."""
        return {k: mean(self.values(figure, k)) for k in self.ks}

    def as_json(self) -> dict[str, Any]:
        """Return all statistics as JSON. Each interval has the keys `mean`, `low` and `high`."""
        return {
            "model": self.name,
            **self.ask.settings,
            "prompts": len(self.measures),
            "answers": int(max(one.values_C_m.size for one in self.measures)),
            "faults": sum(one.faults for one in self.measures),
            **{name: {str(k): ends(one) for k, one in self.by_k(name).items()} for name in BY_K},
            **{name: ends(mean(self.values(name))) for name in OF_ALL},
            "rows": self.rows(),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return a JSON row of statistics for each prompt, beginning with the prompt's id and stratum."""
        ks = self.ks
        return [
            {
                **name,
                **{figure: dict(zip(map(str, ks), getattr(one, figure)(ks).tolist(), strict=True))
                   for figure in BY_K},
                **{figure: float(getattr(one, figure)) for figure in OF_ALL},
            }
            for name, one in zip(self.names, self.measures, strict=True)
        ]  # fmt: skip


def by_prompt(rows: Sequence[Mapping[str, Any]], figure: str, k: str) -> Array:
    """Return a statistic of each of the T rows of `PolicyFigures.rows`, as an array of shape (1, T)."""
    return np.array([[row[figure][k] for row in rows]], dtype=np.float64)


def means(rows: Sequence[Mapping[str, Any]], figure: str) -> dict[str, float]:
    return {k: float(by_prompt(rows, figure, k).mean()) for k in rows[0][figure]}


def ends(interval: Interval) -> dict[str, float]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}


def figures(
    name: str, found: Sequence[Sequence[JudgedCompletion]], ks: Sequence[int], ask: Ask, domain: Domain
) -> PolicyFigures:
    """Return statistics of completions. Raises `SandboxError` if no completion of a prompt has rewards."""
    measures = tuple(
        replace(measure([one.answers for one in completions]), scalar=domain.scalar) for completions in found
    )
    keys = ("id", "stratum")
    names = tuple(
        {"prompt": place} | {key: row[key] for key in keys if key in row}
        for place, row in enumerate(domain.prompts[: len(found)])
    )
    return PolicyFigures(name, ask, measures, tuple(ks), names)


def minus(ours: PolicyFigures, theirs: PolicyFigures, figure: str, k: int = 0) -> Difference:
    """Return a statistic of policy `ours` minus that statistic of `theirs`, paired over the same prompts."""
    return difference(ours.values(figure, k), theirs.values(figure, k))


def measure_policies(
    domain: Domain,
    models: Sequence[str],
    ks: tuple[int, ...],
    ask: Ask,
    temperatures: Sequence[float],
    base_url: str | None,
    watch: Callable[[str, int], None],
) -> list[PolicyFigures]:
    """Return the statistics of each model at each temperature. If `models` is empty, use the start model.

    If `base_url` is given, the models run on a server. `ask` has the other sampling settings. Raises
    `ConfigError` if `models` is empty and there is no start model. Raises `PolicyError` or `ServerError` if a
    model fails.
    """
    if not models and domain.start_model is None:
        raise ConfigError(f"the domain {domain.name} has no start model of its own; give --model")
    found = []
    for model in models or [str(domain.start_model)]:
        name = model if models else "start"
        sample = partial(complete_at, base_url, model) if base_url else partial(complete, load_policy(model))
        for temperature in temperatures:
            ours = replace(ask, completions=-(-max(ks) // domain.answers), temperature=temperature)
            answered = sample(domain, domain.prompts, ours, partial(watch, name))
            found.append(figures(name, answered, ks, ours, domain))
    return found
