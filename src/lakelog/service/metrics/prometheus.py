"""The figures in Prometheus' form, by a collector for ``prometheus_client``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from lakelog.io.metrics import Sample
from lakelog.options.metric import COUNTER, HISTOGRAM, Metric
from lakelog.options.metrics import METRICS
from lakelog.service.metrics.collector import Figures

if TYPE_CHECKING:
    from lakelog.lake import Lake


class LakelogCollector(Collector):
    """Gives a registry of ``prometheus_client`` all figures, anew for each scrape.

    ``REGISTRY.register(LakelogCollector([lake]))`` adds them to those that a program has itself.
    """

    def __init__(self, lakes: Sequence[Lake] = ()) -> None:
        self._figures = Figures(lakes)

    def collect(self) -> Iterable[Family]:
        """One family for each metric that has a value."""
        return families(self._figures.samples())

    def describe(self) -> Iterable[Family]:
        """The families without values, so that to register it looks at no table."""
        return [_family(metric) for metric in METRICS.values()]


def families(samples: Iterable[Sample]) -> list[Family]:
    """Samples as Prometheus' families, in the order in which the metrics are declared."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.metric.name, []).append(sample)
    out = []
    for name, metric in METRICS.items():
        if name in found:
            family = _family(metric)
            for sample in found[name]:
                _add(family, sample)
            out.append(family)
    return out


def prometheus_text(*lakes: Lake) -> str:
    """All figures of now as Prometheus' text."""
    registry = CollectorRegistry()
    registry.register(LakelogCollector(lakes))
    return generate_latest(registry).decode()


def _family(metric: Metric) -> Family:
    if metric.kind == COUNTER:
        return CounterMetricFamily(metric.base, metric.help, labels=metric.labels)
    if metric.kind == HISTOGRAM:
        return HistogramMetricFamily(metric.base, metric.help, labels=metric.labels)
    return GaugeMetricFamily(metric.base, metric.help, labels=metric.labels)


def _add(family: Family, sample: Sample) -> None:
    if isinstance(family, HistogramMetricFamily):
        limits = [*map(floatToGoString, sample.metric.limits), "+Inf"]
        family.add_metric(sample.labels, list(zip(limits, accumulate(sample.counts), strict=True)), sample.value)
    elif isinstance(family, CounterMetricFamily | GaugeMetricFamily):
        family.add_metric(sample.labels, sample.value)
