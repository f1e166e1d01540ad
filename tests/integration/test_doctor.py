"""The doctor before a real broker, and metrics of a table whose log is on it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakelog
from lakelog.io.metrics import METER
from lakelog.service.doctor.check import CheckContext
from lakelog.service.doctor.run import examine
from lakelog.service.metrics.table_gauges import TableStates


def test_a_reachable_broker_reports_its_limits(kafka, tmp_path) -> None:
    (finding, *problems) = examine(CheckContext(str(tmp_path), log="kafka", address=kafka.bootstrap), ["log"])
    assert finding.outcome == "pass"
    assert finding.found.startswith(f"Kafka at {kafka.bootstrap}: answers in ")
    assert "brokers 1" in finding.found
    assert "keeps records 168 h" in finding.found
    assert "largest message 1.0 MB" in finding.found
    assert problems == []


def test_a_refused_login_at_a_broker_is_reported_without_the_credentials(kafka, tmp_path) -> None:
    wrong = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}
    properties = {**wrong, "sasl.password": "hunter2"}
    around = CheckContext(str(tmp_path), log="kafka", address=kafka.bootstrap, log_properties=properties)
    (finding,) = examine(around, ["log"])
    assert finding.outcome == "fail"
    assert "hunter2" not in finding.found + finding.what_to_do


def test_the_lag_of_a_log_on_kafka_is_measured(kafka, tmp_path) -> None:
    METER.reset()
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql(
        "create database db; create table db.t (id int, primary key (id)) tblproperties ("
        f"'log-store.enabled' = 'true', 'log-store.address' = '{kafka.bootstrap}', 'log-store.topic' = 'lags')"
    )
    lake.table("db.t").write(pa.table({"id": pa.array(range(7), pa.int32())}))
    found = {(s.metric.name, *s.labels): s.value for s in TableStates([lake]).samples()}
    assert found["log_up", "db.t"] == 1
    assert found["log_end_offset", "db.t", "0"] >= 7
    assert found["log_lag", "db.t", "0"] == 0


@pytest.mark.pulsar
def test_a_reachable_pulsar_reports_its_limits(pulsar_server, tmp_path) -> None:
    around = CheckContext(
        str(tmp_path),
        log="pulsar",
        address=pulsar_server.service_url,
        log_properties={"pulsar.admin.adminUrl": pulsar_server.admin_url},
    )
    findings = list(examine(around, ["log"]))
    assert findings[0].outcome == "pass", findings
    assert findings[0].found.startswith(f"Pulsar at {pulsar_server.service_url}: answers in ")
