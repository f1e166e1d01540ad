"""``lakelog.metrics``: the export of a program's metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakelog.options.boundary import Public
from lakelog.service.metrics import EXPORTERS

if TYPE_CHECKING:
    from pathlib import Path

    from lakelog.lake import Lake
    from lakelog.service.metrics.endpoint import Endpoint
    from lakelog.service.metrics.otel import OtelExport


class Metrics(Public):
    """The metrics of this process, of its Spark's Python processes, and of the tables of some lakes."""

    def text(self, *lakes: Lake) -> str:
        """All current metrics in Prometheus' text format. Raises NotInstalled without ``lakelog[metrics]``.

        They are counts since the process began, and the current state of the lakes' tables.
        """
        text: str = EXPORTERS.load("prometheus")(*lakes)
        return text

    def serve(
        self,
        *lakes: Lake,
        port: int = 0,
        host: str = "127.0.0.1",
        token: str | None = None,
        tls: tuple[Path, Path] | None = None,
    ) -> Endpoint:
        """Serves Prometheus at ``http://host:port/metrics`` from a thread, until ``close``; port 0: a free one.

        Called by the driver of a job before its Spark session starts, so that the Python processes in which Spark
        commits pass their counts on. Raises InvalidRequest for an address other than loopback without a ``token``
        (clients send it as ``Authorization: Bearer …``) or without ``tls`` (certificate and key, PEM files),
        Unavailable for a port in use, NotInstalled.
        """
        endpoint: Endpoint = EXPORTERS.load("http")(lakes, port, host, token, tls)
        return endpoint

    def export(self, *lakes: Lake, every_s: float = 60.0, spans: bool = True) -> OtelExport:
        """Sends metrics, and spans of commits, seals and compactions, by OpenTelemetry (OTLP), until ``close``.

        OpenTelemetry's environment variables set the destination (``OTEL_EXPORTER_OTLP_ENDPOINT``, …_HEADERS).
        Raises NotInstalled without ``lakelog[otel]``.
        """
        export: OtelExport = EXPORTERS.load("otel")(lakes, every_s, spans)
        return export


METRICS: Final = Metrics()
"""The value of ``lakelog.metrics``."""
