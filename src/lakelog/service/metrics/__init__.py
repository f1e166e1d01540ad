"""Metrics for monitoring systems: Prometheus' text format, an endpoint, OpenTelemetry.

``lakelog.metrics`` is ``METRICS``.
"""

from __future__ import annotations

from typing import Any, Final

from lakelog.options.registry import Registry

EXPORTERS: Final[Registry[Any]] = Registry(
    "metrics exporter",
    {
        "prometheus": "lakelog.service.metrics.endpoint:prometheus_text",
        "http": "lakelog.service.metrics.endpoint:serve",
        "otel": "lakelog.service.metrics.otel:export",
    },
    extras={"prometheus_client": "metrics", "opentelemetry": "otel"},
)
"""Exporters of the metrics; each needs an extra."""
