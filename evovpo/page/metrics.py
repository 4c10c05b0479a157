"""Prometheus metrics of a store, for `/metrics` of the page's server."""

from types import SimpleNamespace
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from evovpo.store import Store


def exposition(store: Store) -> bytes:
    """Return the metrics of a store in Prometheus's text format."""
    totals, served = store.totals(), store.served()
    labelled = (
        (GaugeMetricFamily, "runs", "Runs, by status.", ["status"], totals.runs),
        (CounterMetricFamily, "evaluations", "Judgements, by status.", ["status"], totals.evaluations),
        (CounterMetricFamily, "requests", "To servers, by end.", ["outcome", "reason"], totals.requests),
    )
    families: list[Any] = [
        CounterMetricFamily("evovpo_programs", "Different programs.", totals.programs),
        CounterMetricFamily("evovpo_completion_tokens", "Of models, where counted.", totals.tokens),
    ]
    for kind, name, said, labels, counts in labelled:
        families.append(kind(f"evovpo_{name}", said, labels=labels))
        for words, count in counts.items():
            families[-1].add_metric(words, count)
    if served is not None:
        about = "evovpo_served_policy_version", "The version that searches follow."
        families.append(GaugeMetricFamily(*about, served.number))
    collector: Any = SimpleNamespace(collect=lambda: families)
    return bytes(generate_latest(collector))
