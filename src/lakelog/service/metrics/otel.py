"""Export by OpenTelemetry: metrics as observable instruments and histograms, steps as spans."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    MetricExporter,
    MetricExportResult,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.metrics.export import Metric as OtelMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Status, StatusCode

from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.metrics import METER, Sample, Step
from lakelog.options.metric import COUNTER, HISTOGRAM, Metric
from lakelog.options.metrics import METRICS
from lakelog.service.metrics.table_gauges import SampleSource, collect_from_children

if TYPE_CHECKING:
    from lakelog.lake import Lake

_SCOPE: Final = "lakelog"
_CACHE_S: Final = 1.0
"""Seconds for which the instruments of one collection get the same samples."""


class _SampleCache:
    """The metrics, read once for all instruments of a collection."""

    def __init__(self, source: SampleSource) -> None:
        self._source, self._read, self._held = source, float("-inf"), list[Sample]()

    def samples(self, metric: Metric) -> list[Sample]:
        if monotonic_s() - self._read > _CACHE_S:
            self._held, self._read = self._source.samples(), monotonic_s()
        return [sample for sample in self._held if sample.metric == metric]


class WithHistograms(MetricExporter):
    """Adds the histograms to the data of another exporter, because OpenTelemetry has no observable ones."""

    def __init__(self, exporter: MetricExporter, cache: _SampleCache) -> None:
        super().__init__(preferred_temporality=exporter._preferred_temporality)
        self._exporter, self._cache, self._begun_ns = exporter, cache, now_ms() * 1_000_000

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        """Sends the data and the current histograms."""
        metrics = [
            OtelMetric(metric.otel, metric.help, metric.otel_unit, self._histogram(samples))
            for metric in METRICS.values()
            if metric.kind == HISTOGRAM and (samples := self._cache.samples(metric))
        ]
        first, *others = list(metrics_data.resource_metrics) or [ResourceMetrics(_resource(), [], "")]
        first = ResourceMetrics(first.resource, _with(first.scope_metrics, metrics), first.schema_url)
        return self._exporter.export(MetricsData([first, *others]), timeout_millis=timeout_millis, **kwargs)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Waits until the other exporter has sent everything."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Ends the other exporter."""
        self._exporter.shutdown(timeout_millis=timeout_millis, **kwargs)

    def _histogram(self, samples: Iterable[Sample]) -> Histogram:
        points = [
            HistogramDataPoint(
                attributes=dict(zip(sample.metric.labels, sample.labels, strict=True)),
                start_time_unix_nano=self._begun_ns,
                time_unix_nano=now_ms() * 1_000_000,
                count=sum(sample.counts),
                sum=sample.value,
                bucket_counts=sample.counts,
                explicit_bounds=sample.metric.limits,
                min=None,  # type: ignore[arg-type] # the protocol lets them away, its types do not
                max=None,  # type: ignore[arg-type]
            )
            for sample in samples
        ]
        return Histogram(points, AggregationTemporality.CUMULATIVE)


class OtelExport:
    """A running export of metrics and spans, created by ``lakelog.metrics.export``. ``with`` closes it."""

    def __init__(self, cache: _SampleCache, readers: Sequence[MetricReader], spans: SpanProcessor | None) -> None:
        self._provider = MeterProvider(readers, _resource(), shutdown_on_exit=True)
        meter = self._provider.get_meter(_SCOPE)
        for metric in METRICS.values():
            if metric.kind == HISTOGRAM:
                continue
            make = meter.create_observable_counter if metric.kind == COUNTER else meter.create_observable_gauge
            make(metric.otel, [_callback(cache, metric)], metric.otel_unit, metric.help)
        self._tracers: TracerProvider | None = None
        self._end: Callable[[], None] = _no_operation
        if spans is not None:
            self._tracers = TracerProvider(resource=_resource())
            self._tracers.add_span_processor(spans)
            self._end = METER.listen(self._count_step)

    def flush(self) -> None:
        """Sends the current metrics and spans."""
        self._provider.force_flush()
        if self._tracers is not None:
            self._tracers.force_flush()

    def close(self) -> None:
        """Sends the rest and ends the export."""
        self._end()
        self._provider.shutdown()
        if self._tracers is not None:
            self._tracers.shutdown()

    def _count_step(self, step: Step) -> None:
        if self._tracers is None:
            return
        begun = step.begun_ms * 1_000_000
        attributes = {f"lakelog.{name}": _plain(value) for name, value in step.fields.items()}
        span = self._tracers.get_tracer(_SCOPE).start_span(
            f"lakelog.{step.name}", attributes=attributes, start_time=begun
        )
        if step.failure is not None:
            span.set_status(Status(StatusCode.ERROR, step.failure))
        span.end(begun + int(step.seconds * 1e9))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def export(lakes: Sequence[Lake], every_s: float = 60.0, spans: bool = True) -> OtelExport:
    """Starts the export by OTLP over HTTP; see ``Metrics.export``."""
    collect_from_children()
    cache = _SampleCache(SampleSource(lakes))
    exporter = WithHistograms(OTLPMetricExporter(), cache)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=every_s * 1000)
    return OtelExport(cache, [reader], BatchSpanProcessor(OTLPSpanExporter()) if spans else None)


def export_by(lakes: Sequence[Lake], readers: Sequence[MetricReader], spans: SpanProcessor | None) -> OtelExport:
    """Passes the metrics to OpenTelemetry's readers, without histograms, and the spans to a processor."""
    return OtelExport(_SampleCache(SampleSource(lakes)), readers, spans)


def _with(scopes: Sequence[ScopeMetrics], more: Sequence[OtelMetric]) -> list[ScopeMetrics]:
    """The scopes with additional metrics in lakelog's own; of two scopes with one name, only the last would be sent."""
    lakelogs = next((scope for scope in scopes if scope.scope.name == _SCOPE), None)
    if lakelogs is None:
        return [*scopes, ScopeMetrics(InstrumentationScope(_SCOPE), more, "")]
    others = [scope for scope in scopes if scope is not lakelogs]
    return [*others, ScopeMetrics(lakelogs.scope, [*lakelogs.metrics, *more], lakelogs.schema_url)]


def _callback(cache: _SampleCache, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def answer(_: CallbackOptions) -> Iterable[Observation]:
        for sample in cache.samples(metric):
            yield Observation(sample.value, dict(zip(metric.labels, sample.labels, strict=True)))

    return answer


def _resource() -> Resource:
    """The resource of the metrics: ``OTEL_SERVICE_NAME``, by default lakelog."""
    return Resource.create({} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "lakelog"})


def _plain(value: object) -> str | int | float | bool:
    return value if isinstance(value, str | int | float | bool) else str(value)


def _no_operation() -> None:
    """Nobody listens."""
