"""An endpoint for Prometheus in a job: a few threads, one path, on loopback unless there is a token."""

from __future__ import annotations

import hmac
import ssl
import threading
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from lakelog.errors import InvalidRequest, Unavailable
from lakelog.io.metrics import Sample
from lakelog.options.metric import COUNTER, HISTOGRAM, Metric
from lakelog.options.metrics import METRICS
from lakelog.service.loopback import is_loopback
from lakelog.service.metrics.table_gauges import SampleSource, collect_from_children

if TYPE_CHECKING:
    from pathlib import Path

    from lakelog.lake import Lake


PATH: Final = "/metrics"
_SHORTEST_TOKEN: Final = 16
_TIMEOUT_S: Final = 10.0
"""Maximum seconds of a request."""
_MOST_REQUESTS: Final = 32
"""Maximum number of requests, each with a thread, at a time."""


class Endpoint:
    """A running endpoint, created by ``lakelog.metrics.serve``. ``with`` closes it."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, name="lakelog-metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The URL that Prometheus scrapes."""
        host = str(self._server.server_address[0])
        scheme = "https" if isinstance(self._server.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}{PATH}"

    def wait(self) -> None:
        self._thread.join()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def serve(
    lakes: Sequence[Lake],
    port: int = 0,
    host: str = "127.0.0.1",
    token: str | None = None,
    tls: tuple[Path, Path] | None = None,
) -> Endpoint:
    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise InvalidRequest(f"the token is too short: give at least {_SHORTEST_TOKEN} characters")
    if token is None and not is_loopback(host):
        raise InvalidRequest(
            f"host '{host}' accepts connections from other machines: give a token that Prometheus sends as "
            "'Authorization: Bearer …' (--token-file, token=), or keep 127.0.0.1"
        )
    if tls is None and not is_loopback(host):
        raise InvalidRequest(
            f"host '{host}' accepts connections from other machines, and the token would be sent unencrypted: give "
            "--tls-certificate and --tls-key (tls=), or keep 127.0.0.1 behind a proxy that speaks TLS"
        )
    collect_from_children()
    registry = CollectorRegistry()
    registry.register(LakelogCollector(lakes))
    handler = type("Handler", (_Handler,), {"registry": registry, "token": token, "is_local_only": is_loopback(host)})
    try:
        server = _Server((host, port), handler)
        if tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(*tls)
            # the thread of the request does the handshake, so that a slow client blocks no other
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    except ssl.SSLError as why:
        raise InvalidRequest(f"the certificate '{tls[0] if tls else ''}' cannot be used: {why}") from why
    except OSError as why:
        raise Unavailable(f"metrics cannot listen on {host}:{port}: {why.strerror or why}; take another port") from why
    return Endpoint(server)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._free = threading.BoundedSemaphore(_MOST_REQUESTS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts the thread of a request, or hangs up if there are too many: a thread may wait for a slow client."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def server_bind(self) -> None:
        """Binds without a reverse name lookup, which may take seconds."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    registry: ClassVar[CollectorRegistry]
    token: ClassVar[str | None]
    is_local_only: ClassVar[bool]
    timeout = _TIMEOUT_S
    server_version = "lakelog"
    sys_version = ""

    def do_GET(self) -> None:
        """Answers with the metrics: to clients with the token, and on loopback to requests for this host's name."""
        if self.is_local_only and not is_loopback(_host_of(self.headers.get("Host", ""))):
            # DNS rebinding: a foreign page whose name resolves to this address
            return self._answer(
                HTTPStatus.FORBIDDEN, "this endpoint serves this machine only: use 127.0.0.1 or localhost\n"
            )
        if self.token is not None and not self._has_token(self.token):
            return self._answer(HTTPStatus.UNAUTHORIZED, "send the token as 'Authorization: Bearer …'\n")
        if self.path.partition("?")[0] != PATH:
            return self._answer(HTTPStatus.NOT_FOUND, f"the metrics are at {PATH}\n")
        encode, kind = choose_encoder(self.headers.get("Accept", ""))
        return self._answer(HTTPStatus.OK, encode(self.registry), kind)

    def _has_token(self, token: str) -> bool:
        header = self.headers.get("Authorization", "")
        return hmac.compare_digest(header.encode(), f"Bearer {token}".encode())

    def _answer(self, status: HTTPStatus, body: str | bytes, kind: str = "text/plain; charset=utf-8") -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Logs no scrape."""


def _host_of(header: str) -> str:
    """The host of a Host header, without the port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


if TYPE_CHECKING:
    from lakelog.lake import Lake


class LakelogCollector(Collector):
    """A collector of all metrics for a registry of ``prometheus_client``, read at each scrape.

    ``REGISTRY.register(LakelogCollector([lake]))`` adds them to a program's own metrics.
    """

    def __init__(self, lakes: Sequence[Lake] = ()) -> None:
        self._source = SampleSource(lakes)

    def collect(self) -> Iterable[Family]:
        """One family for each metric that has a value."""
        return families(self._source.samples())

    def describe(self) -> Iterable[Family]:
        """The families without values, so that the registration reads no table."""
        return [_family(metric) for metric in METRICS.values()]


def families(samples: Iterable[Sample]) -> list[Family]:
    """Samples as Prometheus' families, in the order in which the metrics are declared."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.metric.name, []).append(sample)
    out = []
    for name, metric in METRICS.items():
        if name in by_name:
            family = _family(metric)
            for sample in by_name[name]:
                _add(family, sample)
            out.append(family)
    return out


def prometheus_text(*lakes: Lake) -> str:
    """All current metrics in Prometheus' text format."""
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
