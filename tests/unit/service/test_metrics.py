"""The metrics of a real double write, as Prometheus and OpenTelemetry see them."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics.export import (
    InMemoryMetricReader,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import lakelog
from lakelog.errors import InvalidRequest, NotInstalled, Unavailable
from lakelog.filestore.commit.request import CommitRequest
from lakelog.io.metrics import METER
from lakelog.lake import Lake
from lakelog.options.metrics import METRICS
from lakelog.service.metrics import EXPORTERS, table_gauges
from lakelog.service.metrics.endpoint import LakelogCollector
from lakelog.service.metrics.otel import OtelExport, WithHistograms, _SampleCache, export_by
from log_tables import make, rows
from terminals import until

Found = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(autouse=True)
def own_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_METRICS_DIR", "")  # what collecting from children sets is undone afterwards
    METER.reset()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """Ten rows written, three taken back, then a compaction, in db.t."""
    table = make(tmp_path)
    table.write(rows(*range(6)))
    with pytest.raises(RuntimeError), table.writer() as writer:
        writer.write(rows(1, 2, 3, name="never"))
        writer.flush()
        raise RuntimeError("the job dies")
    table.write(rows(*range(6, 10)))
    table.compact()
    yield lakelog.connect(warehouse=str(tmp_path / "warehouse"))


def parsed(text: str) -> Found:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Found, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


def test_prometheus_reads_back_what_a_double_write_has_done(lake: Lake) -> None:
    found = parsed(lakelog.metrics.text(lake))
    for store in ("log", "files"):
        assert value(found, "lakelog_rows_written_total", table="db.t", store=store) == 10
        assert value(found, "lakelog_bytes_written_total", table="db.t", store=store) > 100
    assert value(found, "lakelog_epochs_decided_total", table="db.t") == 3
    assert value(found, "lakelog_seals_total", table="db.t") == 2
    assert value(found, "lakelog_compensations_total", table="db.t") >= 3
    assert value(found, "lakelog_commits_total", table="db.t", kind="APPEND") == 2
    assert value(found, "lakelog_commits_total", table="db.t", kind="COMPACT") >= 1
    assert value(found, "lakelog_commit_duration_seconds_count", table="db.t", kind="APPEND") == 2
    assert value(found, "lakelog_commit_duration_seconds_bucket", table="db.t", kind="APPEND", le="+Inf") == 2
    assert value(found, "lakelog_compacted_files_total", table="db.t") >= 2
    assert value(found, "lakelog_files", table="db.t") == 2
    assert value(found, "lakelog_log_lag", table="db.t", bucket="0") == 0
    assert value(found, "lakelog_open_epochs", table="db.t") == 0
    assert 0 <= value(found, "lakelog_freshness_seconds", table="db.t", store="log") < 60
    assert value(found, "lakelog_table_up", table="db.t") == 1


def test_every_sample_is_of_a_declared_metric_with_its_labels(lake: Lake) -> None:
    declared = {metric.base: metric for metric in METRICS.values()}
    for family in text_string_to_metric_families(lakelog.metrics.text(lake)):
        metric = declared[family.name.removesuffix("_total")]
        assert family.documentation == metric.help
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels)


def test_a_round_that_is_lost_to_another_commit_is_a_conflict(lake: Lake) -> None:
    store, others = lake.table("db.t").logical.store, [1, 2]

    def meanwhile(latest: object) -> dict[str, str]:
        if others:
            store.commit(CommitRequest(f"other-{others.pop()}", 0, "APPEND", allow_empty=True))
        return {}

    store.commit(CommitRequest("late", 0, "APPEND", allow_empty=True, prepare=meanwhile))
    found = parsed(lakelog.metrics.text())
    assert value(found, "lakelog_commit_conflicts_total", table="db.t") == 2


def test_a_commit_that_fails_is_counted_by_its_error(lake: Lake) -> None:
    with pytest.raises(InvalidRequest):
        lake.table("db.t").logical.store.commit(CommitRequest("empty", 0, "APPEND"))
    assert value(parsed(lakelog.metrics.text()), "lakelog_commit_failures_total", table="db.t", error="InvalidRequest")


def test_expiry_and_cleaning_are_counted(lake: Lake) -> None:
    table = lake.table("db.t")
    gone = len(table.expire_snapshots(retain_max=1))
    assert gone
    assert value(parsed(lakelog.metrics.text()), "lakelog_snapshots_expired_total", table="db.t") == gone


def test_a_tail_counts_its_rows(lake: Lake) -> None:
    handed_out = sum(batch.num_rows for batch in lake.table("db.t").tail(start="earliest", stop="latest"))
    assert value(parsed(lakelog.metrics.text()), "lakelog_rows_tailed_total", table="db.t") == handed_out > 10


def test_a_table_that_cannot_be_read_does_not_hide_the_others(lake: Lake, tmp_path: Path) -> None:
    lake.sql("create table db.ill (id int, primary key (id))")
    lake.table("db.ill").write(rows(1).select(["id"]))
    (tmp_path / "warehouse" / "db.db" / "ill" / "snapshot" / "snapshot-1").write_bytes(b"broken")
    found = parsed(lakelog.metrics.text(lake))
    assert value(found, "lakelog_table_up", table="db.ill") == 0
    assert value(found, "lakelog_table_up", table="db.t") == 1


def test_an_unavailable_log_is_reported(lake: Lake, tmp_path: Path) -> None:
    for part in (tmp_path / "warehouse" / "db.db" / "t" / "lakelog").glob("log.sqlite*"):
        part.unlink()
    found = parsed(lakelog.metrics.text(lake))
    assert value(found, "lakelog_log_up", table="db.t") == 0
    assert value(found, "lakelog_files", table="db.t") == 2


def test_one_collection_of_table_states_serves_several_scrapers(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = lake.list_tables
    monkeypatch.setattr(lake, "list_tables", lambda **given: asked.append(1) or real(**given))
    seen = table_gauges.SampleSource([lake])
    first = seen.samples()
    assert seen.samples() == first
    assert len(asked) == 1


def test_a_program_adds_the_metrics_to_its_own_registry(lake: Lake) -> None:
    registry = CollectorRegistry()
    registry.register(LakelogCollector([lake]))
    found = registry.get_sample_value("lakelog_rows_written_total", {"table": "db.t", "store": "log"})
    assert found == 10


# the endpoint


def ask(url: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_the_endpoint_answers_on_loopback(lake: Lake) -> None:
    with lakelog.metrics.serve(lake) as endpoint:
        assert endpoint.url == f"http://127.0.0.1:{endpoint.port}/metrics"
        status, text = ask(endpoint.url)
        assert status == 200
        assert value(parsed(text), "lakelog_rows_written_total", table="db.t", store="files") == 10
        assert ask(endpoint.url.replace("/metrics", "/other"))[0] == 404


def test_a_page_of_another_site_that_names_itself_our_address_is_refused() -> None:
    with lakelog.metrics.serve() as endpoint:
        assert ask(endpoint.url, Host=f"evil.example:{endpoint.port}")[0] == 403
        assert ask(endpoint.url, Host="localhost")[0] == 200


def test_silent_clients_use_a_bounded_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.service.metrics.endpoint._MOST_REQUESTS", 2)
    with lakelog.metrics.serve() as endpoint:
        idle = [socket.create_connection(("127.0.0.1", endpoint.port), timeout=120) for _ in range(2)]
        with socket.create_connection(("127.0.0.1", endpoint.port), timeout=120) as refused:
            assert refused.recv(1) == b""  # hung up at once: the limit of an idle request is 10 s
        for client in idle:
            client.close()
        until(lambda: _answers(endpoint.url), "the threads are free")


def _answers(url: str) -> bool:
    try:
        return ask(url)[0] == 200
    except OSError:  # hung up
        return False


def test_another_address_than_loopback_needs_a_token() -> None:
    with pytest.raises(InvalidRequest, match="host '0.0.0.0' .*give a token"):
        lakelog.metrics.serve(host="0.0.0.0")
    with pytest.raises(InvalidRequest, match="too short"):
        lakelog.metrics.serve(host="0.0.0.0", token="short")
    with lakelog.metrics.serve(token="a-long-enough-token") as endpoint:
        url = f"http://127.0.0.1:{endpoint.port}/metrics"
        assert ask(url)[0] == 401
        assert ask(url, Authorization="Bearer a-long-enough-tokem")[0] == 401
        assert ask(url, Authorization="Bearer a-long-enough-token")[0] == 200


def test_a_used_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(Unavailable, match=f"cannot listen on 127.0.0.1:{port}.*take another port"):
            lakelog.metrics.serve(port=port)


def test_without_the_extra_the_error_has_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("no", name="prometheus_client")

    monkeypatch.setattr("lakelog.options.registry.importlib.import_module", missing)
    with pytest.raises(NotInstalled, match=r"pip install 'lakelog\[metrics\]'"):
        EXPORTERS.load("prometheus")


# OpenTelemetry


def test_opentelemetry_reads_counters_and_gauges(lake: Lake) -> None:
    reader = InMemoryMetricReader()
    with export_by([lake], [reader], None):
        data = reader.get_metrics_data()
        assert data is not None
        found = {
            (metric.name, *sorted(point.attributes.values())): point.value
            for metric in data.resource_metrics[0].scope_metrics[0].metrics
            for point in metric.data.data_points
        }
    assert found["lakelog.rows_written", "db.t", "log"] == 10
    assert found["lakelog.commits", "APPEND", "db.t"] == 2
    assert found["lakelog.files", "db.t"] == 2
    assert data.resource_metrics[0].resource.attributes["service.name"] == "lakelog"


class Kept(MetricExporter):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.data: list[MetricsData] = []

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object) -> MetricExportResult:
        self.data.append(metrics_data)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:
        pass


def test_opentelemetry_gets_the_histograms_as_they_stand(lake: Lake) -> None:
    kept, moment = Kept(), _SampleCache(table_gauges.SampleSource())
    reader = PeriodicExportingMetricReader(WithHistograms(kept, moment), export_interval_millis=1e9)
    with OtelExport(moment, [reader], None) as export:
        export.flush()
    found = {
        (metric.name, point.attributes["kind"]): (metric.unit, point.count, point.bucket_counts)
        for scope in kept.data[0].resource_metrics[0].scope_metrics
        for metric in scope.metrics
        if metric.name == "lakelog.commit_duration"
        for point in metric.data.data_points
    }
    unit, count, counts = found["lakelog.commit_duration", "APPEND"]
    assert (unit, count, sum(counts)) == ("s", 2, 2)
    assert len(counts) == len(METRICS["commit_duration"].limits) + 1


def test_what_is_sent_is_what_the_protocol_takes(lake: Lake) -> None:
    from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics

    kept, moment = Kept(), _SampleCache(table_gauges.SampleSource([lake]))
    reader = PeriodicExportingMetricReader(WithHistograms(kept, moment), export_interval_millis=1e9)
    with OtelExport(moment, [reader], None) as export:
        export.flush()
    sent = encode_metrics(kept.data[0])
    names = {metric.name for part in sent.resource_metrics for scope in part.scope_metrics for metric in scope.metrics}
    assert {"lakelog.commit_duration", "lakelog.rows_written", "lakelog.files"} <= names
    assert " min:" not in str(sent), "nobody knows the smallest value"


def test_a_commit_and_a_seal_are_spans(lake: Lake) -> None:
    kept = InMemorySpanExporter()
    with export_by([], [], SimpleSpanProcessor(kept)):
        lake.table("db.t").write(rows(77))
        with pytest.raises(InvalidRequest):
            lake.table("db.t").logical.store.commit(CommitRequest("empty", 0, "APPEND"))
        spans = kept.get_finished_spans()
    assert {"lakelog.commit", "lakelog.seal"} <= {span.name for span in spans}
    sealed = next(span for span in spans if span.name == "lakelog.seal")
    assert sealed.attributes is not None
    assert sealed.attributes["lakelog.table"] == "db.t"
    assert sealed.end_time is not None and sealed.start_time is not None
    assert sealed.end_time >= sealed.start_time
    assert [span.status.description for span in spans if not span.status.is_ok] == ["InvalidRequest"]
    lake.table("db.t").write(rows(78))
    assert len(kept.get_finished_spans()) == len(spans), "closed, and still told"
