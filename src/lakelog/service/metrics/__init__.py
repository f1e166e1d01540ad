"""What lakelog tells of itself to programs that watch: Prometheus' text, an endpoint, OpenTelemetry.

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
"""Ways out for the figures; each needs an extra."""
