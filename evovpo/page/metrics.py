"""What a store knows, in numbers for Prometheus: `/metrics` of the page's server."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from evovpo.store import Store


class _Metrics:
    def __init__(self, store: Store) -> None:
        self._totals, self._served = store.totals(), store.served()

    def collect(self) -> Iterator[Metric]:
        """Yield the families of metrics."""
        totals = self._totals
        runs = GaugeMetricFamily("evovpo_runs", "Runs, by their status.", labels=["status"])
        yield _filled(runs, totals.runs)
        judged = CounterMetricFamily(
            "evovpo_evaluations", "Judgements of programs, by how they ended.", labels=["status"]
        )
        yield _filled(judged, totals.evaluations)
        yield CounterMetricFamily("evovpo_programs", "Different programs.", totals.programs)
        yield CounterMetricFamily(
            "evovpo_completion_tokens", "Tokens that models wrote, where they are counted.", totals.tokens
        )
        asked = CounterMetricFamily(
            "evovpo_requests", "Requests to model servers, and why they failed.", labels=["outcome", "reason"]
        )
        yield _filled(asked, totals.requests)
        if self._served is not None:
            yield GaugeMetricFamily(
                "evovpo_served_policy_version",
                "The version that searches follow.",
                self._served.number,
            )


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, counts: Mapping[tuple[str, ...], int]
) -> Metric:
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def exposition(store: Store) -> bytes:
    """Return the metrics of a store in Prometheus's text format."""
    collected: Any = _Metrics(store)
    written: bytes = generate_latest(collected)
    return written
