"""``lakelog.metrics``: how a program lets its figures be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakelog.service.metrics import EXPORTERS

if TYPE_CHECKING:
    from pathlib import Path

    from lakelog.lake import Lake
    from lakelog.service.metrics.endpoint import Endpoint
    from lakelog.service.metrics.otel import OtelExport


class Metrics:
    """The figures of this process, of Spark's Python processes beside it, and of the tables of some lakes."""

    def text(self, *lakes: Lake) -> str:
        """All figures of now in Prometheus' text form. Raises NotInstalled without ``lakelog[metrics]``.

        What has happened since the process began, and what the tables of the lakes are like now.
        """
        found: str = EXPORTERS.load("prometheus")(*lakes)
        return found

    def serve(
        self,
        *lakes: Lake,
        port: int = 0,
        host: str = "127.0.0.1",
        token: str | None = None,
        tls: tuple[Path, Path] | None = None,
    ) -> Endpoint:
        """Answers Prometheus at ``http://host:port/metrics`` from a thread, until ``close``; port 0: a free one.

        Called by the driver of a job, before its Spark session starts: the Python processes in which Spark commits then
        pass their counts on. Raises InvalidRequest for an address that others reach without a ``token`` (they send it
        as ``Authorization: Bearer …``) or without ``tls`` (certificate and key, PEM files), Unavailable
        for a port that is taken, NotInstalled.
        """
        found: Endpoint = EXPORTERS.load("http")(lakes, port, host, token, tls)
        return found

    def export(self, *lakes: Lake, every_s: float = 60.0, spans: bool = True) -> OtelExport:
        """Sends figures, and spans of commits, seals and compactions, by OpenTelemetry (OTLP), until ``close``.

        Where to is said by OpenTelemetry's own environment variables (``OTEL_EXPORTER_OTLP_ENDPOINT``, …_HEADERS).
        Raises NotInstalled without ``lakelog[otel]``.
        """
        found: OtelExport = EXPORTERS.load("otel")(lakes, every_s, spans)
        return found


METRICS: Final = Metrics()
"""What ``lakelog.metrics`` is."""
