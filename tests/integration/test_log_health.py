"""The health of tables whose log is on a real broker: lag while rows are in the log alone, a broker that is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.lake.table import Table
from lakelog.service.servers.server_process import KafkaBroker
from log_tables import make, rows
from pulsar_logs import on
from servers.pulsar_server import PulsarServer


def check_health(table: Table) -> None:
    """Rows come into the log, then into the files."""
    with table.writer() as writer:
        writer.write(rows(1, 2, 3))
    rest = table.health().figures
    assert rest.log is not None and rest.log.trouble == ""
    assert (rest.log.lag, rest.log.waiting_ms, rest.log.open_epochs) == (0, None, 0)
    assert rest.log.newest_ms is not None and rest.log.newest_ms == rest.log.files_ms
    with table.writer() as writer:
        writer.write(rows(4, 5, 6, 7))
        writer.flush()
        ahead = table.health().figures
        assert ahead.log is not None
        assert ahead.log.lag >= 4 and ahead.log.open_epochs == 1
        assert ahead.log.waiting_ms is not None and rest.log.newest_ms <= ahead.log.waiting_ms <= ahead.looked_ms
        assert sum(b.end for b in ahead.log.buckets) > sum(b.end for b in rest.log.buckets)
    after = table.health().figures
    assert after.log is not None and (after.log.lag, after.log.open_epochs) == (0, 0)


def test_a_log_on_kafka_is_checked(kafka: KafkaBroker, tmp_path: Path) -> None:
    check_health(make(tmp_path, f", 'log-store.address' = '{kafka.bootstrap}', 'log-store.topic' = 'health'"))


@pytest.mark.pulsar
def test_a_log_on_pulsar_is_checked(pulsar_server: PulsarServer, tmp_path: Path) -> None:
    check_health(on(pulsar_server, tmp_path))


def test_an_unreachable_broker_is_reported(own_broker: KafkaBroker, tmp_path: Path) -> None:
    away = ", 'properties.socket.timeout.ms' = '2000', 'properties.request.timeout.ms' = '2000'"
    table = make(tmp_path, f", 'log-store.address' = '{own_broker.bootstrap}', 'log-store.topic' = 'gone'{away}")
    with table.writer() as writer:
        writer.write(rows(1))
    own_broker.kill()
    found = table.health()
    assert found.figures.log is not None and "Kafka" in found.figures.log.trouble
    assert found.figures.files == 1
    assert any(finding.what_to_do for finding in found.findings)
